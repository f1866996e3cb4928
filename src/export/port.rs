//! Queries of the device and its ports: ibv_query_device(3), ibv_query_port(3),
//! ibv_query_port_speed(3).
//!
//! `ibv_port_attr` has grown over the releases, and each application passes the size of its
//! headers. Current programs call the slot `query_port` of `verbs_context`, with their size; the
//! exported symbol is for older ones, whose structure was 48 bytes.

use super::observe::{self, Argument, Later};
use super::ret;
use crate::symver;
use kit::{
    abi::{handle::Ctx, *},
    errno::Errno,
    table::Known,
    uverbs::device,
};
use std::{ffi::c_int, mem::MaybeUninit, ptr};

pub unsafe extern "C" fn query_device(
    context: *mut ibv_context,
    attr: *mut ibv_device_attr,
) -> c_int {
    // SAFETY: the caller passes an open context and room for the attributes, or NULL; the
    // length that the provider gets covers only the original part.
    unsafe {
        let arguments = ret::not_null(attr).and_then(|_| Ctx::from_raw(context));
        ret::code_of(arguments, |ctx| {
            (ctx.table().query_device_ex())(
                context,
                ptr::null(),
                attr.cast(),
                size_of::<ibv_device_attr>(),
            )
        })
    }
}
symver!(query_device => "ibv_query_device", "IBVERBS_1.1");

/// The slot `query_port` of `verbs_context`: `size` is that of the caller's structure.
pub unsafe extern "C" fn query_port_sized(
    context: *mut ibv_context,
    port_num: u8,
    attr: *mut ibv_port_attr,
    size: usize,
) -> c_int {
    // SAFETY: the caller passes an open context or NULL.
    let arguments = ret::not_null(attr).and_then(|_| unsafe { Ctx::from_raw(context) });
    ret::code_of(arguments, |ctx| {
        let query = ctx.table().query_port();
        if size >= size_of::<ibv_port_attr>() {
            // SAFETY: the caller's structure has `size` bytes.
            unsafe {
                attr.cast::<u8>().write_bytes(0, size);
                return query(context, port_num, attr);
            }
        }
        // A provider writes a whole structure, so a smaller one gets its part of a copy.
        let mut whole = MaybeUninit::<ibv_port_attr>::zeroed();
        // SAFETY: the copy has room for a whole structure, the caller's for `size` bytes of it.
        unsafe {
            let answer = query(context, port_num, whole.as_mut_ptr());
            if answer == 0 {
                ptr::copy_nonoverlapping(whole.as_ptr().cast::<u8>(), attr.cast(), size);
            }
            answer
        }
    })
}

pub unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port_num: u8,
    attr: *mut _compat_ibv_port_attr,
) -> c_int {
    // SAFETY: as for the slot, with the size that old applications have.
    unsafe {
        query_port_sized(
            context,
            port_num,
            attr.cast(),
            size_of::<_compat_ibv_port_attr>(),
        )
    }
}
symver!(query_port => "ibv_query_port", "IBVERBS_1.1");

/// The provider's answer; for one that is older than the verb, the kernel's.
unsafe extern "C" fn query_port_speed(
    context: *mut ibv_context,
    port_num: u32,
    speed: *mut u64,
) -> c_int {
    // SAFETY: the caller passes an open context and room for the answer, or NULL.
    unsafe {
        let arguments = ret::not_null(speed).and_then(|_| Ctx::from_raw(context));
        ret::code_of(arguments, |ctx| {
            let words = [context.number(), port_num.into(), speed.number()];
            observe::later(ctx, Later::QueryPortSpeed, &words, || {
                match ctx.private().later().query_port_speed() {
                    Known::Is(query) => query(context, port_num, speed),
                    Known::LeftOut => Errno::OPNOTSUPP.raw(),
                    Known::TooOld => ret::code(
                        device::query_port_speed(&ctx, port_num)
                            .map(|reported| speed.write(reported)),
                    ),
                }
            })
        })
    }
}
symver!(query_port_speed => "ibv_query_port_speed", "IBVERBS_1.16");
