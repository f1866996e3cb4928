//! Address handles: ibv_create_ah(3), ibv_create_ah_from_wc(3).

use super::address::{self, Device};
use super::ret;
use crate::core::address::{grh, handle};
use crate::{hidden, symver};
use kit::abi::{
    handle::{Ah, Ctx, Pd},
    ibv_ah, ibv_ah_attr, ibv_context, ibv_grh, ibv_pd, ibv_wc,
};
use kit::errno::{Errno, Result};
use kit::sys::pthread::without_cancellation;
use std::ffi::c_int;

type CreateAh = unsafe extern "C" fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;

/// The function that makes an address handle; -1 with errno set for bad arguments.
///
/// # Safety
/// As for ibv_create_ah(3); there is room for the answer.
unsafe extern "C" fn create_ah_begin(
    pd: *mut ibv_pd,
    attr: *mut ibv_ah_attr,
    create: *mut CreateAh,
) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe {
        let arguments = ret::not_null(attr).and_then(|_| Pd::from_raw(pd));
        let refused = ret::code_of(arguments, |h| {
            create.write(h.table().create_ah());
            0
        });
        match refused {
            0 => 0,
            e => ret::minus_one(Err(Errno(e))),
        }
    }
}
hidden!(create_ah_begin => "ferroverbs_create_ah_begin");

/// Completes a handle that the provider has made of this domain.
unsafe extern "C" fn create_ah_end(pd: *mut ibv_pd, ah: *mut ibv_ah) {
    // SAFETY: cancel.c passes a live domain, and a new handle or NULL.
    unsafe {
        if let (Ok(h), Some(handle)) = (Pd::from_raw(pd), ah.as_mut()) {
            handle.context = h.ctx().as_ptr();
            handle.pd = pd;
        }
    }
}
hidden!(create_ah_end => "ferroverbs_create_ah_end");

/// Makes an address handle for another function of the library. No cancellation point, as
/// ibv_create_ah in `cancel.c` may be.
///
/// # Safety
/// As for ibv_create_ah(3).
pub(super) unsafe fn create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: vouched for by the caller.
    unsafe {
        let arguments = ret::not_null(attr).and_then(|_| Pd::from_raw(pd));
        ret::pointer_of(arguments, |h| {
            let ah = without_cancellation(|| (h.table().create_ah())(pd, attr));
            create_ah_end(pd, ah);
            ah
        })
    }
}

pub(super) unsafe extern "C" fn destroy_ah(ah: *mut ibv_ah) -> c_int {
    // SAFETY: the caller passes a live handle or NULL, and does not use it afterwards.
    unsafe { ret::code_of(Ah::from_raw(ah), |h| (h.table().destroy_ah())(ah)) }
}
symver!(destroy_ah => "ibv_destroy_ah", "IBVERBS_1.1");

/// # Safety
/// `wc` is a completion or NULL, `grh` the header in front of its data or NULL.
unsafe fn fill(
    context: *mut ibv_context,
    port_num: u8,
    wc: *const ibv_wc,
    grh: *const ibv_grh,
    attributes: &mut ibv_ah_attr,
) -> Result<()> {
    // SAFETY: vouched for by the caller; the header is bytes of the same size.
    let (ctx, wc, grh) = unsafe {
        let ctx = Ctx::from_raw(context)?;
        let wc = wc.as_ref().ok_or(Errno::INVAL)?;
        (ctx, wc, grh.cast::<[u8; grh::SIZE]>().as_ref())
    };
    address::reason(handle::fill(&Device(ctx), port_num, wc, grh, attributes))
}

unsafe extern "C" fn init_ah_from_wc(
    context: *mut ibv_context,
    port_num: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    ah_attr: *mut ibv_ah_attr,
) -> c_int {
    // SAFETY: the caller passes an open context, a completion and room for the attributes, or
    // NULL; the header may be left out where the completion has none.
    ret::minus_one(unsafe {
        let arguments = ret::not_null(ah_attr).map(|_| ah_attr.write_bytes(0, 1));
        arguments.and_then(|()| fill(context, port_num, wc, grh, &mut *ah_attr))
    })
}
symver!(init_ah_from_wc => "ibv_init_ah_from_wc", "IBVERBS_1.1");

/// The attributes of a handle from a completion; -1 with errno set.
unsafe extern "C" fn create_ah_from_wc_begin(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port_num: u8,
    ah_attr: *mut ibv_ah_attr,
) -> c_int {
    // SAFETY: as above, with a live domain instead of a context; cancel.c passes room.
    ret::minus_one(unsafe {
        ah_attr.write_bytes(0, 1);
        Pd::from_raw(pd).and_then(|h| fill(h.ctx().as_ptr(), port_num, wc, grh, &mut *ah_attr))
    })
}
hidden!(create_ah_from_wc_begin => "ferroverbs_create_ah_from_wc_begin");
