//! Devices.

use super::ret;
use crate::observe::{self, About};
use crate::{device, symver, verbs};
use core::ffi::c_int;
use kit::abi::ibv_context;
use kit::cm::Call;
use kit::errno::{Errno, Result};
use kit::sys::memory;

unsafe extern "C" fn rdma_get_devices(count: *mut c_int) -> *mut *mut ibv_context {
    let list = || device::all().and_then(|devices| array(&devices));
    let call = (Call::GetDevices, 0, &[][..]);
    let count_of = |(_, number): &(_, c_int)| ret::word(*number);
    let list = observe::call(call, || About::Nothing, count_of, list);
    let number = list.as_ref().map_or(0, |(_, number)| *number);
    // SAFETY: the program passes room for a number, or NULL.
    if let Some(count) = unsafe { count.as_mut() } {
        *count = number;
    }
    ret::pointer(list.map(|(list, _)| list))
}
symver!(rdma_get_devices => "rdma_get_devices", "RDMACM_1.0");

/// The contexts, followed by NULL.
fn array(devices: &[verbs::Context]) -> Result<(*mut *mut ibv_context, c_int)> {
    let count = c_int::try_from(devices.len()).map_err(|_| Errno::NOMEM)?;
    let size = (devices.len() + 1) * size_of::<*mut ibv_context>();
    let list = memory::zeroed(size)?.cast::<*mut ibv_context>();
    for (n, device) in devices.iter().enumerate() {
        // SAFETY: the block has room for the contexts and NULL.
        unsafe { list.add(n).write(device.as_ptr()) };
    }
    Ok((list, count))
}

unsafe extern "C" fn rdma_free_devices(list: *mut *mut ibv_context) {
    // SAFETY: a list of rdma_get_devices, or NULL, freed once. The devices remain open.
    unsafe { memory::free(list.cast()) }
}
symver!(rdma_free_devices => "rdma_free_devices", "RDMACM_1.0");
