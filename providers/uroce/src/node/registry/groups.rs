//! Multicast groups and the queue pairs attached to them (ibv_attach_mcast(3)).

use crate::carrier::udp::Sockets;
use kit::errno::{Errno, Result};
use kit::sync::RwLock;
use rustix::net::sockopt;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

type Key = (IpAddr, u32);

/// The queue pairs that are attached to a group on an interface. The sockets are members of a group
/// as long as a queue pair is.
#[derive(Default)]
pub(in crate::node) struct Groups(RwLock<HashMap<Key, Vec<u32>>>);

impl Groups {
    pub fn join(&self, group: IpAddr, interface: u32, qpn: u32, sockets: &Sockets) -> Result<()> {
        if !group.is_multicast() {
            return Err(Errno::INVAL);
        }
        let mut groups = self.0.write();
        let key = (group, interface);
        if let Some(members) = groups.get_mut(&key) {
            if !members.contains(&qpn) {
                members.push(qpn);
            }
            return Ok(());
        }
        membership(sockets, key, true)?;
        groups.insert(key, vec![qpn]);
        Ok(())
    }

    pub fn leave(&self, group: IpAddr, interface: u32, qpn: u32, sockets: &Sockets) -> Result<()> {
        let mut groups = self.0.write();
        let key = (group, interface);
        let members = groups.get_mut(&key).ok_or(Errno::INVAL)?;
        let at = members.iter().position(|member| *member == qpn);
        members.swap_remove(at.ok_or(Errno::INVAL)?);
        if members.is_empty() {
            groups.remove(&key);
            // Fails only if the interface is gone, and the membership with it.
            let _ = membership(sockets, key, false);
        }
        Ok(())
    }

    pub fn leave_all(&self, qpn: u32, sockets: &Sockets) {
        if self.0.read().is_empty() {
            return;
        }
        self.0.write().retain(|key, members| {
            members.retain(|member| *member != qpn);
            if members.is_empty() {
                let _ = membership(sockets, *key, false);
            }
            !members.is_empty()
        });
    }

    /// The queue pairs attached to a group.
    pub fn members(&self, group: IpAddr, interface: u32) -> Vec<u32> {
        let groups = self.0.read();
        groups.get(&(group, interface)).cloned().unwrap_or_default()
    }
}

fn membership(sockets: &Sockets, (group, interface): Key, join: bool) -> Result<()> {
    let socket = sockets.of(group)?;
    let any = Ipv4Addr::UNSPECIFIED;
    match (group, join) {
        (IpAddr::V4(group), true) => {
            sockopt::set_ip_add_membership_with_ifindex(socket, &group, &any, interface)?;
        }
        (IpAddr::V4(group), false) => {
            sockopt::set_ip_drop_membership_with_ifindex(socket, &group, &any, interface)?;
        }
        (IpAddr::V6(group), true) => {
            sockopt::set_ipv6_add_membership(socket, &group, interface)?;
        }
        (IpAddr::V6(group), false) => {
            sockopt::set_ipv6_drop_membership(socket, &group, interface)?;
        }
    }
    Ok(())
}
