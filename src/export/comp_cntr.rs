//! Completion counters: ibv_create_comp_cntr(3), ibv_query_comp_cntr_caps(3),
//! ibv_qp_attach_comp_cntr(3).
//!
//! A provider that knows of them has its own verbs. For older ones the library asks the kernel
//! itself: the commands carry nothing of the provider's.

use super::observe::{self, Argument, Later};
use super::ret;
use crate::symver;
use kit::{
    abi::{
        handle::{CompCntr, Ctx, Qp},
        *,
    },
    errno::{Errno, Result},
    sys::memory,
    table::{CompCntr as CompCntrVerbs, Known},
    uverbs::{
        Driver,
        comp_cntr::{self as kernel, Change, Entry},
    },
};
use std::{ffi::c_int, ptr};

/// The provider's own verbs; `None` if the kernel is to be asked.
///
/// # Errors
/// EOPNOTSUPP for a provider that could have them and does not.
fn own(ctx: Ctx<'_>) -> Result<Option<CompCntrVerbs>> {
    match ctx.private().later().comp_cntr() {
        Known::Is(verbs) => Ok(Some(verbs)),
        Known::LeftOut => Err(Errno::OPNOTSUPP),
        Known::TooOld => Ok(None),
    }
}

unsafe extern "C" fn query_comp_cntr_caps(
    context: *mut ibv_context,
    caps: *mut ibv_comp_cntr_caps,
    size: usize,
) -> c_int {
    // SAFETY: the caller passes an open context and room for `size` bytes, or NULL.
    unsafe {
        let arguments = ret::not_null(caps).and_then(|_| Ctx::from_raw(context));
        ret::code(arguments.and_then(|ctx| {
            if size < size_of::<ibv_comp_cntr_caps>() {
                return Err(Errno::INVAL);
            }
            let mut reported = ibv_comp_cntr_caps::default();
            let words = [context.number(), caps.number(), size.number()];
            observe::later(ctx, Later::QueryCompCntrCaps, &words, || match own(ctx)? {
                Some(verbs) => {
                    let size = size_of::<ibv_comp_cntr_caps>();
                    answered((verbs.query_caps)(context, &raw mut reported, size))
                }
                None => kernel::query_caps(&ctx).map(|caps| reported = caps),
            })?;
            // Further members of a later structure are zero.
            caps.cast::<u8>().write_bytes(0, size);
            caps.write(reported);
            Ok(())
        }))
    }
}
symver!(query_comp_cntr_caps => "_ibv_query_comp_cntr_caps", "IBVERBS_1.18");

fn answered(code: c_int) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(Errno(code)),
    }
}

/// Makes a counter of the kernel's.
fn create(ctx: Ctx<'_>, attr: ibv_comp_cntr_init_attr) -> Result<*mut ibv_comp_cntr> {
    if attr.comp_mask != 0 || attr.flags != 0 {
        return Err(Errno::INVAL);
    }
    // The kernel's command has no place for another kind.
    if attr.type_ != IBV_COMP_CNTR_TYPE_WRS {
        return Err(Errno::OPNOTSUPP);
    }
    let counter = memory::new(ibv_comp_cntr {
        context: ctx.as_ptr(),
        handle: 0,
    })?;
    match kernel::create(&ctx, &mut Driver::none()) {
        Ok(handle) => {
            // SAFETY: the block is new.
            unsafe { (*counter).handle = handle };
            Ok(counter)
        }
        Err(e) => {
            // SAFETY: as above, and nothing else refers to it.
            unsafe { memory::free(counter.cast()) };
            Err(e)
        }
    }
}

unsafe extern "C" fn create_comp_cntr(
    context: *mut ibv_context,
    attr: *mut ibv_comp_cntr_init_attr,
) -> *mut ibv_comp_cntr {
    // SAFETY: the caller passes an open context and attributes, or NULL.
    unsafe {
        let arguments = ret::not_null(attr).and_then(|_| Ctx::from_raw(context));
        ret::pointer_of(arguments, |ctx| {
            let words = [context.number(), attr.number()];
            observe::later(ctx, Later::CreateCompCntr, &words, || match own(ctx) {
                Ok(Some(verbs)) => (verbs.create)(context, attr),
                Ok(None) => ret::pointer(create(ctx, *attr)),
                Err(e) => ret::null(e),
            })
        })
    }
}
symver!(create_comp_cntr => "ibv_create_comp_cntr", "IBVERBS_1.18");

unsafe extern "C" fn destroy_comp_cntr(counter: *mut ibv_comp_cntr) -> c_int {
    // SAFETY: the caller passes a live counter or NULL; one of the kernel's was made above.
    unsafe {
        ret::code(CompCntr::from_raw(counter).and_then(|h| {
            let ctx = h.ctx();
            observe::later(
                ctx,
                Later::DestroyCompCntr,
                &[counter.number()],
                || match own(ctx)? {
                    Some(verbs) => answered((verbs.destroy)(counter)),
                    None => {
                        kernel::destroy(&ctx, (*counter).handle)?;
                        memory::free(counter.cast());
                        Ok(())
                    }
                },
            )
        }))
    }
}
symver!(destroy_comp_cntr => "ibv_destroy_comp_cntr", "IBVERBS_1.18");

/// Changes or reads a count: the provider's verb, or else the kernel's command.
///
/// # Safety
/// `counter` is a live counter or NULL.
unsafe fn with(
    counter: *mut ibv_comp_cntr,
    (call, word): (Later, u64),
    verb: impl FnOnce(&CompCntrVerbs) -> c_int,
    command: impl FnOnce(Ctx<'_>, u32) -> Result<()>,
) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe {
        ret::code(CompCntr::from_raw(counter).and_then(|h| {
            let ctx = h.ctx();
            observe::later(ctx, call, &[counter.number(), word], || match own(ctx)? {
                Some(verbs) => answered(verb(&verbs)),
                None => command(ctx, (*counter).handle),
            })
        }))
    }
}

macro_rules! changes {
    ($($function:ident: $symbol:literal, $call:ident, $verb:ident, $entry:ident, $change:ident;)*) => { $(
        unsafe extern "C" fn $function(counter: *mut ibv_comp_cntr, value: u64) -> c_int {
            // SAFETY: the caller passes a live counter or NULL.
            unsafe {
                with(
                    counter,
                    (Later::$call, value.number()),
                    |verbs| (verbs.$verb)(counter, value),
                    |ctx, handle| kernel::modify(&ctx, handle, Entry::$entry, Change::$change(value)),
                )
            }
        }
        symver!($function => $symbol, "IBVERBS_1.18");
    )* };
}

changes! {
    set_comp_cntr: "ibv_set_comp_cntr", SetCompCntr, set, Completed, Set;
    set_err_comp_cntr: "ibv_set_err_comp_cntr", SetErrCompCntr, set_err, Failed, Set;
    inc_comp_cntr: "ibv_inc_comp_cntr", IncCompCntr, inc, Completed, Inc;
    inc_err_comp_cntr: "ibv_inc_err_comp_cntr", IncErrCompCntr, inc_err, Failed, Inc;
}

macro_rules! reads {
    ($($function:ident: $symbol:literal, $call:ident, $verb:ident, $entry:ident;)*) => { $(
        unsafe extern "C" fn $function(counter: *mut ibv_comp_cntr, value: *mut u64) -> c_int {
            if value.is_null() {
                return Errno::INVAL.raw();
            }
            // SAFETY: the caller passes a live counter or NULL, and room for the value.
            unsafe {
                with(
                    counter,
                    (Later::$call, value.number()),
                    |verbs| (verbs.$verb)(counter, value),
                    |ctx, handle| {
                        ptr::write(value, kernel::read(&ctx, handle, Entry::$entry)?);
                        Ok(())
                    },
                )
            }
        }
        symver!($function => $symbol, "IBVERBS_1.18");
    )* };
}

reads! {
    read_comp_cntr: "ibv_read_comp_cntr", ReadCompCntr, read, Completed;
    read_err_comp_cntr: "ibv_read_err_comp_cntr", ReadErrCompCntr, read_err, Failed;
}

unsafe extern "C" fn qp_attach_comp_cntr(
    qp: *mut ibv_qp,
    counter: *mut ibv_comp_cntr,
    attr: *mut ibv_qp_attach_comp_cntr_attr,
) -> c_int {
    // SAFETY: the caller passes a live queue pair and counter, and attributes, or NULL.
    unsafe {
        let arguments =
            ret::not_null(attr).and_then(|_| Ok((Qp::from_raw(qp)?, CompCntr::from_raw(counter)?)));
        ret::code(arguments.and_then(|(pair, h)| {
            let words = [qp.number(), counter.number(), attr.number()];
            observe::later(pair.ctx(), Later::QpAttachCompCntr, &words, || {
                if let Some(verbs) = own(pair.ctx())? {
                    return answered((verbs.attach)(qp, counter, attr));
                }
                if h.ctx().as_ptr() != pair.ctx().as_ptr() || (*attr).comp_mask != 0 {
                    return Err(Errno::INVAL);
                }
                let (qp, cntr) = ((*qp).handle, (*counter).handle);
                kernel::attach(&pair.ctx(), qp, cntr, (*attr).op_mask)
            })
        }))
    }
}
symver!(qp_attach_comp_cntr => "ibv_qp_attach_comp_cntr", "IBVERBS_1.18");
