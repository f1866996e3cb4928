#![forbid(unsafe_code)]
//! Moving ids between channels: rdma_migrate_id(3).

use crate::abi::Channel;
use crate::id::Id;
use crate::{ack, channel, observe, registry};
use kit::cm::Call;
use kit::errno::{Errno, Result};
use std::sync::Arc;

/// Moves an id to a channel of the program, or makes it synchronous. Waits until the events of the
/// previous channel are acknowledged.
///
/// # Errors
/// EINVAL if the id is synchronous and no channel is given; the backend's; those of making a
/// channel.
pub fn migrate(id: &Arc<Id>, to: Option<Channel>) -> Result<()> {
    if to.is_none() && id.is_sync() {
        return Err(Errno::INVAL);
    }
    let backend = id.backend()?;
    let new = to.map_or_else(channel::create, Ok)?;
    let migrated = backend.migrate(&registry::source(new));
    let handed_out = migrated.inspect_err(|_| {
        if to.is_none() {
            channel::close(new);
        }
    })?;
    if id.is_sync() {
        ack::release(id);
        if let Some(old) = Channel::of(id.block.channel()) {
            channel::close(old);
        }
    }
    id.block.set_channel(new.as_ptr());
    id.set_sync(to.is_none());
    let missing = id.acknowledged.missing(handed_out);
    observe::waits(Call::MigrateId, id, missing);
    id.acknowledged.wait_for(handed_out);
    Ok(())
}
