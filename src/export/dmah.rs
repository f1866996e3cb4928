//! Handles of hints for a device's accesses to memory: ibv_alloc_dmah(3).
//!
//! Providers of the generation that is loaded cannot register memory with such a handle, so none
//! is made.

use super::ret;
use crate::symver;
use kit::{
    abi::{handle::Ctx, *},
    errno::Errno,
};
use std::ffi::c_int;

unsafe extern "C" fn alloc_dmah(
    context: *mut ibv_context,
    attr: *mut ibv_dmah_init_attr,
) -> *mut ibv_dmah {
    // SAFETY: the caller passes an open context or NULL.
    let arguments = ret::not_null(attr).and_then(|_| unsafe { Ctx::from_raw(context) });
    ret::pointer(arguments.and(Err(Errno::OPNOTSUPP)))
}
symver!(alloc_dmah => "ibv_alloc_dmah", "IBVERBS_1.15");

unsafe extern "C" fn dealloc_dmah(dmah: *mut ibv_dmah) -> c_int {
    ret::code(ret::not_null(dmah).and(Err(Errno::OPNOTSUPP)))
}
symver!(dealloc_dmah => "ibv_dealloc_dmah", "IBVERBS_1.15");
