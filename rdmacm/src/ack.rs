#![forbid(unsafe_code)]
//! Acknowledging events: rdma_ack_cm_event(3).

use crate::id::{Id, Join};
use crate::{kept, registry};
use core::ptr::null_mut;
use kit::errno::Result;
use std::sync::Arc;

/// Frees an event and counts it.
///
/// # Errors
/// EINVAL for an address without an event.
#[inline(always)]
pub fn event(address: usize) -> Result<()> {
    let event = registry::take_event(address)?;
    // The event is freed before it is counted, because a thread that waits for the count may unload
    // the library.
    drop(event.block);
    if let Some(join) = event.join {
        join.acknowledged.add();
    }
    event.counts_for.acknowledged.add();
    Ok(())
}

/// Acknowledges the records of a join that cancelled threads received: no call takes them any more.
pub fn forget_kept(join: &Arc<Join>) {
    for _ in kept::forget(registry::join_address(join) as u64) {
        join.acknowledged.add();
        join.id.acknowledged.add();
    }
}

/// Acknowledges the event that a synchronous id holds.
#[inline(always)]
pub fn release(id: &Id) {
    let kept = id.block.event();
    if !kept.is_null() {
        release_kept(id, kept.addr());
    }
}

#[inline(never)]
fn release_kept(id: &Id, kept: usize) {
    id.block.set_event(null_mut());
    // The program may have acknowledged the event itself.
    let _ = event(kept);
}
