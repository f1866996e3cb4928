//! Multicast groups of a queue pair: ibv_attach_mcast(3).

use super::resources::Resources;
use crate::address;
use kit::abi::ibv_gid;
use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use std::net::IpAddr;
use uroce_engine::qp::Service;

/// The groups that a queue pair is attached to.
///
/// *Locks.* The list is locked while the node joins or leaves a group. It is not taken with the
/// queue pair's lock held.
#[derive(Default)]
pub struct Groups(Mutex<Vec<IpAddr>>);

impl Groups {
    /// Attaches to a group. Once more to the same has no effect.
    ///
    /// # Errors
    /// EINVAL for another service than datagrams and for no multicast address; errors of joining
    /// the group.
    pub fn attach(&self, qp: &Resources, gid: &ibv_gid) -> Result<()> {
        let group = address::ip(gid);
        if qp.service() != Service::Ud || !group.is_multicast() {
            return Err(Errno::INVAL);
        }
        let mut groups = self.0.lock();
        if groups.contains(&group) {
            return Ok(());
        }
        let interface = qp.port().interface();
        qp.node().join(group, interface, qp.number)?;
        groups.push(group);
        Ok(())
    }

    /// Whether there is any.
    pub fn is_attached(&self) -> bool {
        !self.0.lock().is_empty()
    }

    /// Detaches from a group.
    ///
    /// # Errors
    /// EINVAL if it is not attached.
    pub fn detach(&self, qp: &Resources, gid: &ibv_gid) -> Result<()> {
        let group = address::ip(gid);
        let mut groups = self.0.lock();
        let at = groups.iter().position(|known| *known == group);
        let at = at.ok_or(Errno::INVAL)?;
        let interface = qp.port().interface();
        qp.node().leave(group, interface, qp.number)?;
        groups.swap_remove(at);
        Ok(())
    }
}
