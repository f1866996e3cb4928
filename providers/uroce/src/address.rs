//! Address handles, and how verbs' addresses become paths of the network
//! (ibv_create_ah(3); IBTA volume 1, annex A17).

use crate::carrier::udp::Path;
use crate::device::Port;
use crate::memory::PdId;
use crate::netdev::route;
use kit::abi::{ibv_ah_attr, ibv_gid};
use kit::errno::{Errno, Result};
use std::net::{IpAddr, Ipv6Addr};

/// The address of a RoCE v2 GID: an IPv4 address if it is a mapped one.
pub fn ip(gid: &ibv_gid) -> IpAddr {
    Ipv6Addr::from(gid.bytes()).to_canonical()
}

/// The path that an address vector describes.
///
/// # Errors
/// EINVAL for another port than 1, without a global route (RoCE has no other), an unspecified
/// destination, and for GIDs of two families; ENODATA for a GID index that is empty, as the kernel
/// answers.
pub fn path(port: &Port, attr: &ibv_ah_attr) -> Result<Path> {
    if attr.port_num != 1 || attr.is_global == 0 {
        return Err(Errno::INVAL);
    }
    let source = port.address(u32::from(attr.grh.sgid_index))?;
    let destination = ip(&attr.grh.dgid);
    if destination.is_unspecified() || source.is_ipv4() != destination.is_ipv4() {
        return Err(Errno::INVAL);
    }
    Ok(Path {
        source,
        destination,
        interface: port.interface(),
        traffic_class: attr.grh.traffic_class,
        // 0: the system's own, as kernel RoCE has it.
        hop_limit: attr.grh.hop_limit,
        local: port.has(destination),
    })
}

/// Whether a path that was just described can be gone: the kernel answers ibv_modify_qp(3) and
/// ibv_create_ah(3) so for its devices. It also waits for the neighbour's Ethernet address; here
/// packets to a neighbour that does not answer are lost. Own addresses cost no question.
///
/// # Errors
/// ENETUNREACH, EHOSTUNREACH, EACCES: the results of the routes.
pub fn reachable(path: &Path) -> Result<()> {
    let group = match path.destination {
        IpAddr::V4(address) => address.is_multicast() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_multicast(),
    };
    if path.local || group {
        return Ok(());
    }
    route::look_up(path.source, path.destination, path.interface)
}

/// An address handle. Requests copy its path when they are posted.
#[derive(Clone, Copy)]
pub struct Ah {
    /// The domain that it was made in.
    pub pd: PdId,
    /// Where datagrams go.
    pub path: Path,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::gid_of;

    #[test]
    fn gids_are_addresses() {
        for text in ["10.1.2.3", "fe80::1", "::1"] {
            let address: IpAddr = text.parse().expect("an address");
            assert_eq!(ip(&gid_of(address)), address);
        }
    }
}
