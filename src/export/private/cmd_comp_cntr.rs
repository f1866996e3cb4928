//! `ibv_cmd_*` of completion counters.

use crate::{export::ret, private};
use kit::{
    abi::{
        handle::{CompCntr, Ctx, Qp},
        *,
    },
    errno::{Errno, Result},
    uverbs::{
        Driver, Link,
        comp_cntr::{self, Change, Entry},
    },
};
use std::ffi::c_int;

unsafe extern "C" fn query_caps(
    context: *mut ibv_context,
    caps: *mut ibv_comp_cntr_caps,
    size: usize,
) -> c_int {
    // SAFETY: the provider passes its context and room for `size` bytes.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let caps = ret::not_null(caps)?;
            if size < size_of::<ibv_comp_cntr_caps>() {
                return Err(Errno::INVAL);
            }
            let reported = comp_cntr::query_caps(&ctx)?;
            caps.cast::<u8>().write_bytes(0, size);
            caps.write(reported);
            Ok(())
        })
    })
}
private!(query_caps => "ibv_cmd_query_comp_cntr_caps", [65]);

unsafe extern "C" fn create(
    context: *mut ibv_context,
    counter: *mut ibv_comp_cntr,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: the provider passes its context, a new object and its attributes or NULL.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let counter = counter.as_mut().ok_or(Errno::INVAL)?;
            let mut driver = Driver::linked(Link::from_raw(link));
            counter.context = ctx.as_ptr();
            counter.handle = comp_cntr::create(&ctx, &mut driver)?;
            Ok(())
        })
    })
}
private!(create => "ibv_cmd_create_comp_cntr", [65]);

unsafe extern "C" fn destroy(counter: *mut ibv_comp_cntr) -> c_int {
    // SAFETY: the provider passes a live counter.
    ret::command(unsafe { with(counter, comp_cntr::destroy) })
}
private!(destroy => "ibv_cmd_destroy_comp_cntr", [65]);

/// # Safety
/// `counter` is NULL or a live counter.
unsafe fn with<'a, T>(
    counter: *mut ibv_comp_cntr,
    command: impl FnOnce(&Ctx<'a>, u32) -> Result<T>,
) -> Result<T> {
    // SAFETY: vouched for by the caller.
    unsafe { CompCntr::from_command(counter).and_then(|h| command(&h.ctx(), (*counter).handle)) }
}

macro_rules! changes {
    ($($function:ident: $symbol:literal, $entry:ident, $change:ident;)*) => { $(
        unsafe extern "C" fn $function(counter: *mut ibv_comp_cntr, value: u64) -> c_int {
            // SAFETY: the provider passes a live counter.
            ret::command(unsafe {
                with(counter, |ctx, handle| {
                    comp_cntr::modify(ctx, handle, Entry::$entry, Change::$change(value))
                })
            })
        }
        private!($function => $symbol, [65]);
    )* };
}

changes! {
    set: "ibv_cmd_set_comp_cntr", Completed, Set;
    set_err: "ibv_cmd_set_err_comp_cntr", Failed, Set;
    inc: "ibv_cmd_inc_comp_cntr", Completed, Inc;
    inc_err: "ibv_cmd_inc_err_comp_cntr", Failed, Inc;
}

macro_rules! reads {
    ($($function:ident: $symbol:literal, $entry:ident;)*) => { $(
        unsafe extern "C" fn $function(counter: *mut ibv_comp_cntr, value: *mut u64) -> c_int {
            // SAFETY: the provider passes a live counter and room for the value.
            ret::command(unsafe {
                ret::not_null(value).and_then(|value| {
                    let read = |ctx: &Ctx<'_>, handle| comp_cntr::read(ctx, handle, Entry::$entry);
                    value.write(with(counter, read)?);
                    Ok(())
                })
            })
        }
        private!($function => $symbol, [65]);
    )* };
}

reads! {
    read: "ibv_cmd_read_comp_cntr", Completed;
    read_err: "ibv_cmd_read_err_comp_cntr", Failed;
}

unsafe extern "C" fn attach(
    pair: *mut ibv_qp,
    counter: *mut ibv_comp_cntr,
    attr: *const ibv_qp_attach_comp_cntr_attr,
) -> c_int {
    // SAFETY: the provider passes a live queue pair, a live counter and attributes.
    ret::command(unsafe {
        Qp::from_command(pair).and_then(|h| {
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            CompCntr::from_command(counter)?;
            comp_cntr::attach(&h.ctx(), h.number(), (*counter).handle, attr.op_mask)
        })
    })
}
private!(attach => "ibv_cmd_qp_attach_comp_cntr", [65]);
