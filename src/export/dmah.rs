//! Handles of hints for a device's accesses to memory: ibv_alloc_dmah(3).
//!
//! Only the provider can register memory with such a handle, so only it makes them.

use super::observe::{self, Argument, Later};
use super::ret;
use crate::symver;
use kit::{
    abi::{handle::Ctx, *},
    errno::Errno,
    table::Known,
};
use std::ffi::c_int;

pub unsafe extern "C" fn alloc_dmah(
    context: *mut ibv_context,
    attr: *mut ibv_dmah_init_attr,
) -> *mut ibv_dmah {
    // SAFETY: the caller passes an open context and attributes, or NULL.
    unsafe {
        let arguments = ret::not_null(attr).and_then(|_| Ctx::from_raw(context));
        ret::pointer_of(arguments, |ctx| {
            let words = [context.number(), attr.number()];
            observe::later(ctx, Later::AllocDmah, &words, || {
                match ctx.private().later().alloc_dmah() {
                    Known::Is(verb) => verb(context, attr),
                    Known::LeftOut | Known::TooOld => ret::null(Errno::OPNOTSUPP),
                }
            })
        })
    }
}
symver!(alloc_dmah => "ibv_alloc_dmah", "IBVERBS_1.15");

pub unsafe extern "C" fn dealloc_dmah(dmah: *mut ibv_dmah) -> c_int {
    // SAFETY: the caller passes a live handle, or NULL.
    unsafe {
        let arguments = ret::not_null(dmah).and_then(|dmah| Ctx::from_raw((*dmah).context));
        ret::code_of(arguments, |ctx| {
            observe::later(ctx, Later::DeallocDmah, &[dmah.number()], || {
                match ctx.private().later().dealloc_dmah() {
                    Known::Is(verb) => verb(dmah),
                    Known::LeftOut | Known::TooOld => Errno::OPNOTSUPP.raw(),
                }
            })
        })
    }
}
symver!(dealloc_dmah => "ibv_dealloc_dmah", "IBVERBS_1.15");
