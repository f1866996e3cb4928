//! `ibv_cmd_*` of work queues and their indirection tables.

use super::buffer::{destroyed, driver, request, response};
use crate::{export::ret, hidden, private};
use kit::{
    abi::{
        handle::{Cq, Ctx, Pd, RwqIndTable, Wq},
        kernel::*,
        *,
    },
    errno::{Errno, Result},
    uverbs::wq::{self, NewWq},
};
use std::ffi::{c_int, c_void};

unsafe extern "C" fn create_wq(
    context: *mut ibv_context,
    attr: *mut ibv_wq_init_attr,
    queue: *mut ibv_wq,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider passes an open context, the application's attributes, whose objects are
    // live, a new object and its buffers.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let attr = ret::not_null(attr)?;
            let new = params(ctx, queue, attr)?;
            let mut driver = driver::<ib_uverbs_ex_create_wq>(cmd, cmd_size, resp, resp_size)?;
            (*queue).context = context;
            (*queue).cq = (*attr).cq;
            (*queue).pd = (*attr).pd;
            (*queue).wq_type = (*attr).wq_type;
            let made = wq::create_wq(&ctx, &new, &mut driver)?;
            (*queue).handle = made.handle;
            (*queue).wq_num = made.wq_num;
            (*attr).max_wr = made.max_wr;
            (*attr).max_sge = made.max_sge;
            Ok(())
        })
    })
}
private!(create_wq => "ibv_cmd_create_wq");

/// The application's request.
///
/// # Safety
/// Objects that the attributes name are live, or NULL.
unsafe fn params(ctx: Ctx<'_>, queue: *mut ibv_wq, attr: *const ibv_wq_init_attr) -> Result<NewWq> {
    // SAFETY: vouched for by the caller; programs from before the flags do not name them.
    unsafe {
        if (*attr).comp_mask >= IBV_WQ_INIT_ATTR_RESERVED {
            return Err(Errno::INVAL);
        }
        Ok(NewWq {
            user_handle: ret::not_null(queue)?.expose_provenance() as u64,
            pd: Pd::from_raw((*attr).pd)?.number(),
            cq: Cq::from_raw((*attr).cq)?.number(),
            wq_type: (*attr).wq_type,
            max_wr: (*attr).max_wr,
            max_sge: (*attr).max_sge,
            flags: match (*attr).comp_mask & IBV_WQ_INIT_ATTR_FLAGS {
                0 => 0,
                _ => (*attr).create_flags,
            },
            async_fd: ctx.async_fd_raw(),
        })
    }
}

unsafe extern "C" fn modify_wq(
    queue: *mut ibv_wq,
    attr: *mut ibv_wq_attr,
    cmd: *mut c_void,
    cmd_size: usize,
) -> c_int {
    // SAFETY: the provider passes a live queue, the application's attributes and its own buffer.
    ret::command(unsafe {
        Wq::from_command(queue).and_then(|h| {
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            let command = ib_uverbs_ex_modify_wq {
                attr_mask: attr.attr_mask,
                wq_handle: h.number(),
                wq_state: attr.wq_state,
                curr_wq_state: attr.curr_wq_state,
                flags: attr.flags,
                flags_mask: attr.flags_mask,
            };
            let mut driver = request::<ib_uverbs_ex_modify_wq>(cmd, cmd_size)?;
            wq::modify_wq(&h.ctx(), &command, &mut driver)?;
            if attr.attr_mask & IBV_WQ_ATTR_STATE != 0 {
                h.set_state(attr.wq_state);
            }
            Ok(())
        })
    })
}
private!(modify_wq => "ibv_cmd_modify_wq");

/// Destroys the kernel's object, and answers as [`destroyed`] does.
///
/// # Safety
/// The provider passes a live queue; there is room for the answer.
unsafe extern "C" fn destroy_wq(queue: *mut ibv_wq, events: *mut u32) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe {
        let done = Wq::from_command(queue).and_then(|h| wq::destroy_wq(&h.ctx(), h.number()));
        destroyed(done, events)
    }
}
hidden!(destroy_wq => "ferroverbs_cmd_destroy_wq_begin");

/// The numbers of the queues that a table is to have.
///
/// # Safety
/// The attributes contain as many live queues as they state.
unsafe fn members(attr: &ibv_rwq_ind_table_init_attr) -> Result<Vec<u32>> {
    if attr.comp_mask >= IBV_CREATE_IND_TABLE_RESERVED {
        return Err(Errno::INVAL);
    }
    let len = wq::table_len(attr.log_ind_tbl_size)?;
    let queues = ret::not_null(attr.ind_tbl)?;
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(len).map_err(|_| Errno::NOMEM)?;
    for i in 0..len {
        // SAFETY: vouched for by the caller.
        numbers.push(unsafe { Wq::from_raw(*queues.add(i)) }?.number());
    }
    Ok(numbers)
}

unsafe extern "C" fn create_rwq_ind_table(
    context: *mut ibv_context,
    attr: *mut ibv_rwq_ind_table_init_attr,
    table: *mut ibv_rwq_ind_table,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider passes an open context, the application's attributes, a new object
    // and its own buffer.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let table = table.as_mut().ok_or(Errno::INVAL)?;
            let queues = members(attr.as_ref().ok_or(Errno::INVAL)?)?;
            let mut driver = response::<ib_uverbs_ex_create_rwq_ind_table>(resp, resp_size)?;
            let (handle, number) = wq::create_rwq_ind_table(&ctx, &queues, &mut driver)?;
            table.ind_tbl_handle = handle.cast_signed();
            table.ind_tbl_num = number.cast_signed();
            table.context = context;
            Ok(())
        })
    })
}
private!(create_rwq_ind_table => "ibv_cmd_create_rwq_ind_table");

unsafe extern "C" fn destroy_rwq_ind_table(table: *mut ibv_rwq_ind_table) -> c_int {
    // SAFETY: the provider passes a live table.
    ret::command(
        unsafe { RwqIndTable::from_command(table) }
            .and_then(|h| wq::destroy_rwq_ind_table(&h.ctx(), h.number())),
    )
}
private!(destroy_rwq_ind_table => "ibv_cmd_destroy_rwq_ind_table");
