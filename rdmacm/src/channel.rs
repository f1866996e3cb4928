#![forbid(unsafe_code)]
//! Event channels: rdma_create_event_channel(3).

use crate::abi::Channel;
use crate::source::Source;
use crate::{device, registry};
use kit::errno::Result;

/// A new channel.
///
/// # Errors
/// ENODEV without devices; those of [`Source::open`].
pub fn create() -> Result<Channel> {
    device::any()?;
    let (source, descriptor) = Source::open()?;
    let channel = Channel::new(descriptor)?;
    registry::add_channel(channel, source)?;
    Ok(channel)
}

/// Closes a channel of the program; one that is destroyed already is left alone. Its ids are gone
/// at the kernel: calls on them are EBADF from here on.
pub fn destroy(channel: Channel) {
    if registry::known_source(channel).is_none() {
        return;
    }
    // A thread that comes too late for it waits, as one does that is waiting already; in a program
    // that never waits it goes on.
    if channel.waits() {
        registry::remember_destroyed(channel);
    }
    if !registry::take_channel(channel) {
        return;
    }
    for id in registry::of_channel(channel) {
        if let Ok(backend) = id.backend() {
            backend.orphan();
        }
    }
    channel.destroy();
}

/// Closes the channel of a synchronous id, which no other id has.
pub fn close(channel: Channel) {
    if registry::take_channel(channel) {
        channel.destroy();
    }
}
