#![forbid(unsafe_code)]
//! Event channels: rdma_create_event_channel(3).

use crate::abi::Channel;
use crate::source::Source;
use crate::{device, kept, registry};
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

/// Closes a channel of the program; a channel that is already destroyed is left alone. The kernel
/// ends the channel's ids: calls on them return EBADF from now on.
pub fn destroy(channel: Channel) {
    if registry::known_source(channel).is_none() {
        return;
    }
    // A thread that calls rdma_get_cm_event after this point waits, as a thread does that waits
    // already. In a program with non-blocking channels it returns instead.
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

/// Closes the channel of a synchronous id, which it does not share.
pub fn close(channel: Channel) {
    kept::forget_channel(channel.address());
    if registry::take_channel(channel) {
        channel.destroy();
    }
}
