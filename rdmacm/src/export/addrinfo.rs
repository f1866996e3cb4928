//! Address lists.

use super::{id::room, ret, step};
use crate::abi::{AddrInfo, Hints, rdma_addrinfo, rdma_cm_id};
use crate::addrinfo::{self, Failure};
use crate::observe::{self, About};
use crate::{device, symver, sync};
use core::ffi::{CStr, c_char, c_int};
use kit::cm::Call;

unsafe extern "C" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    at: *mut *mut rdma_addrinfo,
) -> c_int {
    let answer = || -> Result<(), Failure> {
        // SAFETY: the program passes strings and a whole list, or NULL.
        let text = |text: *const c_char| (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
        let hints = if hints.is_null() {
            None
        } else {
            // SAFETY: as above.
            Some(unsafe { Hints::from_raw(hints) }?)
        };
        let at = room(at)?;
        device::any()?;
        let list = addrinfo::get(text(node), text(service), hints.as_ref())?;
        // SAFETY: the program passes room for a pointer.
        unsafe { at.write(list.into_raw()) };
        Ok(())
    };
    let look = || match answer() {
        Ok(()) => Ok(0),
        Err(Failure::Errno(e)) => Err(e),
        Err(Failure::Lookup(code)) => Ok(code),
    };
    let call = (Call::GetAddrInfo, 0, &[][..]);
    let code = observe::call(call, || About::Nothing, |code| ret::word(*code), look);
    code.unwrap_or_else(ret::failed)
}
symver!(rdma_getaddrinfo => "rdma_getaddrinfo", "RDMACM_1.0");

unsafe extern "C" fn resolve_addrinfo(
    id: *mut rdma_cm_id,
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    waiting: *mut step::Waiting,
) -> c_int {
    let started = step::started(Call::ResolveAddrInfo, id, || ([], About::Nothing));
    started.run(waiting, |id| {
        // SAFETY: the program passes strings and a whole list, or NULL.
        let text = |text: *const c_char| (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
        let hints = if hints.is_null() {
            None
        } else {
            // SAFETY: as above.
            Some(unsafe { Hints::from_raw(hints) }?)
        };
        addrinfo::resolve(id, text(node), text(service), hints.as_ref())?;
        Ok(sync::complete(id))
    })
}
crate::hidden!(resolve_addrinfo => "ferroverbs_cm_resolve_addrinfo");

unsafe extern "C" fn rdma_query_addrinfo(
    id: *mut rdma_cm_id,
    at: *mut *mut rdma_addrinfo,
) -> c_int {
    ret::with(Call::QueryAddrInfo, id, &[], |id| {
        let at = room(at)?;
        let list = addrinfo::query(id)?;
        // SAFETY: the program passes room for a pointer.
        unsafe { at.write(list.into_raw()) };
        Ok(())
    })
}
symver!(rdma_query_addrinfo => "rdma_query_addrinfo", "RDMACM_1.4");

unsafe extern "C" fn rdma_freeaddrinfo(list: *mut rdma_addrinfo) {
    // SAFETY: the program passes a list of rdma_getaddrinfo, or NULL, once.
    drop(unsafe { AddrInfo::from_raw(list) });
}
symver!(rdma_freeaddrinfo => "rdma_freeaddrinfo", "RDMACM_1.0");
