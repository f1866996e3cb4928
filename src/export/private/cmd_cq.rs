//! `ibv_cmd_*` of completion queues.

use super::buffer::{destroyed, driver, request};
use crate::{export::ret, hidden, private, symver};
use kit::{
    abi::{
        handle::{CompChannel, Cq, Ctx},
        kernel::*,
        *,
    },
    errno::{Errno, Result},
    uverbs::{
        Driver, Link,
        cq::{self, Buffer, NewCq},
    },
};
use std::{
    ffi::{c_int, c_void},
    ptr,
};

/// Makes the queue and stores the kernel's response.
///
/// # Safety
/// `queue` is a provider's new object, `channel` is live or NULL.
unsafe fn create(
    ctx: Ctx<'_>,
    queue: *mut ibv_cq,
    channel: *const ibv_comp_channel,
    new: NewCq,
    buffer: Option<Buffer>,
    driver: &mut Driver<'_>,
) -> Result<()> {
    // SAFETY: vouched for by the caller.
    unsafe {
        let new = NewCq {
            user_handle: ret::not_null(queue)?.expose_provenance() as u64,
            channel: channel.as_ref().map(|channel| channel.fd),
            async_fd: ctx.async_fd_raw(),
            ..new
        };
        (*queue).context = ctx.as_ptr();
        let made = cq::create_cq_in(&ctx, &new, buffer, driver)?;
        (*queue).handle = made.handle;
        (*queue).cqe = made.cqe.cast_signed();
    }
    Ok(())
}

/// A queue of that many entries, without anything special.
fn plain(cqe: u32, comp_vector: u32) -> NewCq {
    NewCq {
        user_handle: 0,
        cqe,
        channel: None,
        comp_vector,
        flags: 0,
        stamps_anyway: false,
        async_fd: -1,
    }
}

unsafe extern "C" fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
    queue: *mut ibv_cq,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider passes an open context, the application's channel, a new object and
    // its own buffers.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let mut driver = driver::<ib_uverbs_create_cq>(cmd, cmd_size, resp, resp_size)?;
            let new = plain(cqe.cast_unsigned(), comp_vector.cast_unsigned());
            create(ctx, queue, channel, new, None, &mut driver)
        })
    })
}
private!(create_cq => "ibv_cmd_create_cq");

/// The kernel's flags for the application's request.
///
/// # Safety
/// The members that the mask names are there.
unsafe fn flags(attr: *const ibv_cq_init_attr_ex) -> Result<u32> {
    const STAMPS: u32 =
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    // SAFETY: vouched for by the caller.
    unsafe {
        let mask = (*attr).comp_mask;
        if mask & !(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let mut flags = 0;
        if (*attr).wc_flags & u64::from(STAMPS) != 0 {
            flags |= IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
        }
        if mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0
            && (*attr).flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN != 0
        {
            flags |= IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
        }
        Ok(flags)
    }
}

/// Memory that a provider since release 59 supplies for the queue, according to its flags.
///
/// # Safety
/// `given` is NULL or the provider's attributes.
unsafe fn buffer(given: *const verbs_create_cq_prov_attr, flags: u32) -> Result<Option<Buffer>> {
    let (memory, dmabuf) = (
        flags & CREATE_CQ_CMD_FLAGS_WITH_MEM_VA != 0,
        flags & CREATE_CQ_CMD_FLAGS_WITH_MEM_DMABUF != 0,
    );
    if !memory && !dmabuf {
        return Ok(None);
    }
    // SAFETY: vouched for by the caller; the flags determine the valid member of the union.
    unsafe {
        let given = given.as_ref().ok_or(Errno::INVAL)?;
        let length = given.length;
        Ok(Some(match memory {
            true => Buffer::Memory {
                addr: given.u0.ptr.expose_provenance() as u64,
                length,
            },
            false => Buffer::DmaBuffer {
                fd: given.u0.dmabuf.fd,
                offset: given.u0.dmabuf.offset,
                length,
            },
        }))
    }
}

/// # Safety
/// As a provider calls `ibv_cmd_create_cq_ex`: an open context, the application's attributes, a
/// new object, which starts with an ibv_cq.
unsafe fn create_extended(
    context: *mut ibv_context,
    attr: *const ibv_cq_init_attr_ex,
    queue: *mut verbs_cq,
    cmd_flags: u32,
    buffer: Option<Buffer>,
    mut driver: Driver<'_>,
) -> Result<()> {
    // SAFETY: vouched for by the caller.
    unsafe {
        let ctx = Ctx::from_raw(context)?;
        let attr = ret::not_null(attr.cast_mut())?;
        let new = NewCq {
            flags: flags(attr)?,
            stamps_anyway: cmd_flags & CREATE_CQ_CMD_FLAGS_TS_IGNORED_EX != 0,
            ..plain((*attr).cqe, (*attr).comp_vector)
        };
        create(ctx, queue.cast(), (*attr).channel, new, buffer, &mut driver)
    }
}

unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *const ibv_cq_init_attr_ex,
    queue: *mut verbs_cq,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
    cmd_flags: u32,
) -> c_int {
    // SAFETY: the provider passes the arguments of `create_extended`, and its buffers.
    unsafe {
        let link = ptr::null_mut();
        create_cq_ex2(
            context, attr, queue, cmd, cmd_size, resp, resp_size, cmd_flags, link,
        )
    }
}
symver!(create_cq_ex => "ibv_cmd_create_cq_ex", "IBVERBS_PRIVATE_34");
private!(create_cq_ex => "ibv_cmd_create_cq_ex", [57]);

/// Since release 53: with attributes of the provider's own.
unsafe extern "C" fn create_cq_ex2(
    context: *mut ibv_context,
    attr: *const ibv_cq_init_attr_ex,
    queue: *mut verbs_cq,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
    cmd_flags: u32,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: as above, and its attributes or NULL.
    ret::command(unsafe {
        driver::<ib_uverbs_ex_create_cq>(cmd, cmd_size, resp, resp_size).and_then(|driver| {
            let driver = driver.and_linked(Link::from_raw(link));
            create_extended(context, attr, queue, cmd_flags, None, driver)
        })
    })
}
private!(create_cq_ex2 => "ibv_cmd_create_cq_ex2", [34, 57]);

/// Since release 59: with memory for the queue.
unsafe extern "C" fn create_cq_ex_in(
    context: *mut ibv_context,
    attr: *const ibv_cq_init_attr_ex,
    given: *const verbs_create_cq_prov_attr,
    queue: *mut verbs_cq,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
    cmd_flags: u32,
) -> c_int {
    // SAFETY: as above, and attributes for the memory or NULL.
    unsafe {
        let link = ptr::null_mut();
        create_cq_ex2_in(
            context, attr, given, queue, cmd, cmd_size, resp, resp_size, cmd_flags, link,
        )
    }
}
private!(create_cq_ex_in => "ibv_cmd_create_cq_ex", [59, 64, 65]);

/// Since release 59: with both.
unsafe extern "C" fn create_cq_ex2_in(
    context: *mut ibv_context,
    attr: *const ibv_cq_init_attr_ex,
    given: *const verbs_create_cq_prov_attr,
    queue: *mut verbs_cq,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
    cmd_flags: u32,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: as above.
    ret::command(unsafe {
        driver::<ib_uverbs_ex_create_cq>(cmd, cmd_size, resp, resp_size).and_then(|driver| {
            let driver = driver.and_linked(Link::from_raw(link));
            let buffer = buffer(given, cmd_flags)?;
            create_extended(context, attr, queue, cmd_flags, buffer, driver)
        })
    })
}
private!(create_cq_ex2_in => "ibv_cmd_create_cq_ex2", [59, 64, 65]);

unsafe extern "C" fn init_cq(
    queue: *mut ibv_cq,
    context: *mut ibv_context,
    channel: *mut ibv_comp_channel,
    cq_context: *mut c_void,
) {
    if queue.is_null() {
        return;
    }
    // SAFETY: the provider passes a new queue, its open context and a live channel or NULL.
    unsafe {
        if let Ok(ctx) = Ctx::from_raw(context) {
            Cq::init(queue, ctx, CompChannel::from_raw(channel).ok(), cq_context);
        }
    }
}
private!(init_cq => "verbs_init_cq");

/// Destroys the kernel's object, and answers as [`destroyed`] does.
///
/// # Safety
/// The provider passes a live queue; there is room for the answer.
unsafe extern "C" fn destroy_cq(queue: *mut ibv_cq, events: *mut [u32; 2]) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe {
        let done = Cq::from_command(queue).and_then(|h| cq::destroy_cq(&h.ctx(), h.number()));
        destroyed(done.map(|events| events.map(<[u32; 2]>::from)), events)
    }
}
hidden!(destroy_cq => "ferroverbs_cmd_destroy_cq_begin");

unsafe extern "C" fn resize_cq(
    queue: *mut ibv_cq,
    cqe: c_int,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider passes a live queue and its own buffers.
    ret::command(unsafe {
        Cq::from_command(queue).and_then(|h| {
            let mut driver = driver::<ib_uverbs_resize_cq>(cmd, cmd_size, resp, resp_size)?;
            let entries = cqe.cast_unsigned();
            h.set_entries(cq::resize_cq(&h.ctx(), h.number(), entries, &mut driver)?);
            Ok(())
        })
    })
}
private!(resize_cq => "ibv_cmd_resize_cq");

unsafe extern "C" fn modify_cq(
    queue: *mut ibv_cq,
    attr: *mut ibv_modify_cq_attr,
    cmd: *mut c_void,
    cmd_size: usize,
) -> c_int {
    // SAFETY: the provider passes a live queue, the application's attributes and its own buffer.
    ret::command(unsafe {
        Cq::from_command(queue).and_then(|h| {
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            let moderation = ib_uverbs_cq_moderation {
                cq_count: attr.moderate.cq_count,
                cq_period: attr.moderate.cq_period,
            };
            let mut driver = request::<ib_uverbs_ex_modify_cq>(cmd, cmd_size)?;
            cq::modify_cq(
                &h.ctx(),
                h.number(),
                attr.attr_mask,
                moderation,
                &mut driver,
            )
        })
    })
}
private!(modify_cq => "ibv_cmd_modify_cq");

unsafe extern "C" fn poll_cq(queue: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the provider passes a live queue, and room for that many completions.
    ret::count(unsafe {
        Cq::from_command(queue).and_then(|h| {
            let most = usize::try_from(entries).map_err(|_| Errno::INVAL)?;
            let room = ret::not_null(wc)?;
            let found = cq::poll_cq(&h.ctx(), h.number(), most, |i, wc| {
                room.add(i).write(ibv_wc::from(*wc));
            })?;
            c_int::try_from(found).map_err(|_| Errno::OVERFLOW)
        })
    })
}
private!(poll_cq => "ibv_cmd_poll_cq");

unsafe extern "C" fn req_notify_cq(queue: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: the provider passes a live queue.
    ret::command(
        unsafe { Cq::from_command(queue) }
            .and_then(|h| cq::req_notify_cq(&h.ctx(), h.number(), solicited_only != 0)),
    )
}
private!(req_notify_cq => "ibv_cmd_req_notify_cq");
