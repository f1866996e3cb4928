#![forbid(unsafe_code)]
//! Moving ids between channels: rdma_migrate_id(3).

use crate::abi::Channel;
use crate::id::Id;
use crate::{ack, channel, kept, observe, registry};
use kit::cm::Call;
use kit::errno::{Errno, Result};
use std::sync::Arc;

/// Moves the records of cancelled threads, of an id and its joins, and returns their number.
fn migrate_kept(id: &Id, to: Channel) -> u32 {
    let state = id.state.lock();
    let joins = state
        .joins()
        .iter()
        .map(|join| registry::join_address(join) as u64);
    let uids = joins.chain([id.uid()]);
    uids.map(|uid| kept::migrate(uid, to.address())).sum()
}

/// Moves an id to a channel of the program, or makes it synchronous. Waits until the events of the
/// previous channel are acknowledged, other than those that the next call on the new one returns.
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
    let moved = migrate_kept(id, new);
    if id.is_sync() {
        ack::release(id);
        if let Some(old) = Channel::of(id.block.channel()) {
            channel::close(old);
        }
    }
    id.block.set_channel(new.as_ptr());
    id.set_sync(to.is_none());
    let received = handed_out.wrapping_sub(moved);
    let missing = id.acknowledged.missing(received);
    observe::waits(Call::MigrateId, id, missing);
    id.acknowledged.wait_for(received);
    Ok(())
}
