#![forbid(unsafe_code)]
//! Multicast groups: rdma_join_multicast(3).

use crate::abi::{Address, Given};
use crate::id::{Acknowledged, Id, Join};
use crate::{ack, observe, registry};
use core::ffi::c_void;
use kit::cm::Call;
use kit::errno::{Errno, Result};
use std::sync::{Arc, OnceLock};

/// `RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER`
pub const SEND_ONLY: u16 = 1;

/// Joins a group. The queue pair is attached when the program takes the event.
///
/// # Errors
/// The backend's.
pub fn join(id: &Arc<Id>, group: &Address, flags: u16, context: *mut c_void) -> Result<()> {
    let join = Arc::new(Join {
        id: id.clone(),
        group: *group,
        context: Given(context),
        is_send_only: flags == SEND_ONLY,
        number: OnceLock::new(),
        attached: kit::sync::Mutex::new(None),
        acknowledged: Acknowledged::default(),
    });
    let uid = registry::join_address(&join);
    // The join is registered before the backend can name it.
    registry::add_join(&join)?;
    id.set_joined();
    id.state.lock().make_rare().joins.push(join.clone());
    let joined = id
        .backend()
        .and_then(|backend| backend.join(uid as u64, group, flags));
    let number = joined.inspect_err(|_| forget(id, &join))?;
    let _ = join.number.set(number);
    Ok(())
}

fn forget(id: &Id, join: &Arc<Join>) {
    registry::remove_join(join);
    if let Some(rare) = id.state.lock().rare() {
        rare.joins.retain(|other| !Arc::ptr_eq(other, join));
    }
}

/// Leaves a group, and waits until the events of the join are acknowledged.
///
/// # Errors
/// EADDRNOTAVAIL for a group that the id has not joined; those of ibv_detach_mcast(3); the
/// backend's.
pub fn leave(id: &Arc<Id>, group: &Address) -> Result<()> {
    let joins = id.state.lock().joins().to_vec();
    let of_group = |join: &&Arc<Join>| join.group.bytes() == group.bytes();
    let join = joins.iter().find(of_group);
    let join = join.ok_or(Errno(libc::EADDRNOTAVAIL))?;
    let attached = join.attached.lock().take();
    if let (Some((gid, lid)), Some(qp)) = (attached, id.qp()) {
        qp.detach(gid, lid)?;
    }
    let number = join.number.get().ok_or(Errno(libc::EADDRNOTAVAIL))?;
    let handed_out = id.backend()?.leave(*number)?;
    ack::forget_kept(join);
    let missing = join.acknowledged.missing(handed_out);
    observe::waits(Call::LeaveMulticast, id, missing);
    join.acknowledged.wait_for(handed_out);
    forget(id, join);
    Ok(())
}
