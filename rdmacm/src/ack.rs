#![forbid(unsafe_code)]
//! Acknowledging events: rdma_ack_cm_event(3).

use crate::id::Id;
use crate::registry;
use core::ptr::null_mut;
use kit::errno::Result;

/// Frees an event and counts it.
///
/// # Errors
/// EINVAL for an address that is no event's.
pub fn event(address: usize) -> Result<()> {
    let event = registry::take_event(address)?;
    // Freed before it is counted: whoever waits for it may unload the library.
    drop(event.block);
    if let Some(join) = event.join {
        join.acknowledged.add();
    }
    event.counts_for.acknowledged.add();
    Ok(())
}

/// Acknowledges the event that a synchronous id keeps.
pub fn release(id: &Id) {
    let kept = id.block.event();
    if !kept.is_null() {
        id.block.set_event(null_mut());
        // One that the program has acknowledged itself is gone already.
        let _ = event(kept.addr());
    }
}
