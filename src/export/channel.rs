//! Completion channels: ibv_create_comp_channel(3).

use super::{compat_1_0, observe, ret};
use crate::{core::events::kept, symver};
use kit::{
    abi::{
        handle::{CompChannel, Ctx},
        ibv_comp_channel, ibv_context,
    },
    errno::{Errno, Result},
    sys::memory,
    uverbs,
};
use std::{
    ffi::c_int,
    os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd},
};

/// Programs of libibverbs 1.0 call this too, with a context of theirs.
unsafe extern "C" fn create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    // SAFETY: the caller passes an open context, or NULL.
    unsafe {
        let old = compat_1_0::channel::create(context, create_comp_channel, destroy_comp_channel);
        old.unwrap_or_else(|| ret::pointer(Ctx::from_raw(context).and_then(create)))
    }
}
symver!(create_comp_channel => "ibv_create_comp_channel", "IBVERBS_1.0");

fn create(ctx: Ctx<'_>) -> Result<*mut ibv_comp_channel> {
    let edges = ctx.private().edges();
    let fd = match edges {
        Some(edges) => edges.create_comp_channel()?,
        None => uverbs::create_comp_channel(&ctx)?,
    };
    let channel = memory::new(ibv_comp_channel {
        context: ctx.as_ptr(),
        fd: fd.as_raw_fd(),
        refcnt: 0,
    });
    match (&channel, edges) {
        // The channel owns it from here on.
        (Ok(channel), _) => {
            observe::made(channel.addr());
            let _ = fd.into_raw_fd();
        }
        (Err(_), Some(edges)) => edges.destroy_comp_channel(fd.as_fd()),
        (Err(_), None) => {}
    }
    channel
}

/// Programs of libibverbs 1.0 call this too, with a channel of theirs.
unsafe extern "C" fn destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: the caller passes a live channel or NULL, and does not use it afterwards.
    unsafe {
        let old = compat_1_0::channel::destroy(channel, destroy_comp_channel);
        old.unwrap_or_else(|| ret::code(CompChannel::from_raw(channel).and_then(|h| destroy(h))))
    }
}
symver!(destroy_comp_channel => "ibv_destroy_comp_channel", "IBVERBS_1.0");

/// # Safety
/// The channel is not used afterwards, unless the result is EBUSY.
#[inline]
pub(super) unsafe fn destroy(channel: CompChannel<'_>) -> Result<()> {
    let raw = channel.as_ptr();
    let ctx = channel.ctx();
    if channel.in_use() {
        return Err(busy(ctx));
    }
    // SAFETY: the channel owns its descriptor and its block; no queue refers to it.
    let fd = unsafe {
        let fd = OwnedFd::from_raw_fd((*raw).fd);
        memory::free(raw.cast());
        fd
    };
    if let Some(edges) = ctx.private().edges() {
        edges.destroy_comp_channel(fd.as_fd());
    }
    kept::forget(raw.addr());
    // SAFETY: the descriptor is the channel's, and is closed once. The system call without the C
    // library's function around it takes the fewest instructions.
    unsafe { rustix::io::close(fd.into_raw_fd()) };
    Ok(())
}

#[cold]
#[inline(never)]
fn busy(ctx: Ctx<'_>) -> Errno {
    observe::failed("ibv_destroy_comp_channel", ctx, Errno::BUSY, || {
        "A completion queue still uses the channel: destroy the queues that were made with it \
         first."
            .to_owned()
    });
    Errno::BUSY
}
