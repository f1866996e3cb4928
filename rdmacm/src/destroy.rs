#![forbid(unsafe_code)]
//! Ending ids: rdma_destroy_id(3).

use crate::abi::{Channel, event_type};
use crate::id::Id;
use crate::{ack, channel, kept, observe, registry};
use kit::cm::Call;
use kit::errno::Result;
use std::sync::Arc;

/// Acknowledges the records of the id and its joins that no call takes any more. A request among
/// them is ended: the program never learns of its id.
fn forget_kept(id: &Arc<Id>) {
    if !kept::any() {
        return;
    }
    let joins = id.state.lock().joins().to_vec();
    joins.iter().for_each(ack::forget_kept);
    for record in kept::forget(id.uid()) {
        id.acknowledged.add();
        if record.event == event_type::CONNECT_REQUEST
            && let Ok(request) = id.of_request(record.id)
        {
            let _ = request.destroy();
        }
    }
}

fn forget_joins(id: &Id) {
    let joins = match id.state.lock().rare() {
        Some(rare) => std::mem::take(&mut rare.joins),
        None => return,
    };
    joins.iter().for_each(registry::remove_join);
}

/// Ends an id, and waits until the program has acknowledged each event of the id that it received.
///
/// # Errors
/// The backend's; then the id remains.
pub fn id(id: &Arc<Id>) -> Result<()> {
    let handed_out = id.backend()?.destroy()?;
    ack::release(id);
    forget_kept(id);
    let missing = id.acknowledged.missing(handed_out);
    if missing > 0 {
        observe::waits(Call::DestroyId, id, missing);
        id.acknowledged.wait_for(handed_out);
    }
    if id.has_joined() {
        forget_joins(id);
    }
    if id.is_sync()
        && let Some(channel) = Channel::of(id.block.channel())
    {
        channel::close(channel);
    }
    registry::remove_id(id);
    Ok(())
}
