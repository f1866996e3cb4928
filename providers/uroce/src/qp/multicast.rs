//! Multicast groups of a queue pair: ibv_attach_mcast(3).

use super::core::Core;
use crate::address;
use kit::abi::ibv_gid;
use kit::errno::{Errno, Result};
use std::net::IpAddr;
use uroce_engine::qp::Service;

/// The groups that a queue pair is attached to.
pub type Groups = Vec<IpAddr>;

impl Core {
    /// Attaches to a group. Once more to the same has no effect.
    ///
    /// # Errors
    /// EINVAL for another service than datagrams and for no multicast address; what joining the
    /// group answers.
    pub fn attach(&self, gid: &ibv_gid) -> Result<()> {
        let group = address::ip(gid);
        if self.service() != Service::Ud || !group.is_multicast() {
            return Err(Errno::INVAL);
        }
        let mut groups = self.groups.lock();
        if groups.contains(&group) {
            return Ok(());
        }
        let interface = self.port().interface();
        self.node().join(group, interface, self.number)?;
        groups.push(group);
        Ok(())
    }

    /// Whether it is attached to any group.
    pub fn is_attached(&self) -> bool {
        !self.groups.lock().is_empty()
    }

    /// Detaches from a group.
    ///
    /// # Errors
    /// EINVAL if it is not attached.
    pub fn detach(&self, gid: &ibv_gid) -> Result<()> {
        let group = address::ip(gid);
        let mut groups = self.groups.lock();
        let at = groups.iter().position(|known| *known == group);
        let at = at.ok_or(Errno::INVAL)?;
        self.node()
            .leave(group, self.port().interface(), self.number)?;
        groups.swap_remove(at);
        Ok(())
    }
}
