#![forbid(unsafe_code)]
//! Sets of counters: ibv_create_counters(3).

use super::{Driver, Ioctl, Kernel, add_driver, destroyed, run};
use crate::abi::kernel::ioctl::*;
use crate::errno::Result;

/// Makes a set of counters; returns its handle.
///
/// # Errors
/// The kernel's own errno, EPROTONOSUPPORT where kernel or driver has none.
pub fn create_counters<K: Kernel + ?Sized>(kernel: &K, driver: &mut Driver<'_>) -> Result<u32> {
    let mut call = Ioctl::new(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE);
    call.object_out(UVERBS_ATTR_CREATE_COUNTERS_HANDLE);
    add_driver(&mut call, driver);
    run(kernel, &mut call)?;
    call.object(UVERBS_ATTR_CREATE_COUNTERS_HANDLE)
}

/// Ends a set of counters.
///
/// # Errors
/// The kernel's own errno, EBUSY while a flow counts into it.
pub fn destroy_counters<K: Kernel + ?Sized>(kernel: &K, handle: u32) -> Result<()> {
    let mut call = Ioctl::new(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY);
    call.object_in(UVERBS_ATTR_DESTROY_COUNTERS_HANDLE, handle);
    destroyed(run(kernel, &mut call))
}

/// Reads counters into `values`, 8 bytes each. `flags` are `IBV_READ_COUNTERS_ATTR_*`.
///
/// # Errors
/// EINVAL for more than 65535 bytes; else the kernel's own errno.
pub fn read_counters<K: Kernel + ?Sized>(
    kernel: &K,
    handle: u32,
    values: &mut [u8],
    flags: u32,
    driver: &mut Driver<'_>,
) -> Result<()> {
    let mut call = Ioctl::new(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ);
    call.object_in(UVERBS_ATTR_READ_COUNTERS_HANDLE, handle);
    call.bytes_out(UVERBS_ATTR_READ_COUNTERS_BUFF, values);
    call.u32_in(UVERBS_ATTR_READ_COUNTERS_FLAGS, flags);
    add_driver(&mut call, driver);
    run(kernel, &mut call)
}
