#![forbid(unsafe_code)]
//! rdma_getaddrinfo(3): the first address of getaddrinfo(3), with the queue pair type and port
//! space that belong to it. rdma_resolve_addrinfo(3): the same, reported by an event.

use crate::abi::{AddrInfo, Address, Hints, event_type, port_space};
use crate::endpoint::RAI_PASSIVE;
use crate::id::{Id, State};
use crate::lookup::{self, Found, Question};
use core::ffi::{CStr, c_int};
use kit::abi::{IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND};
use kit::errno::Errno;

const RAI_NUMERICHOST: c_int = 2;
const RAI_FAMILY: c_int = 8;
const RAI_SA: c_int = 16;
const RAI_DNS: c_int = 32;
/// `AF_IB`
const AF_IB: c_int = 27;

/// The reason for a missing answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    Errno(Errno),
    /// A value of getaddrinfo(3).
    Lookup(c_int),
}

impl From<Errno> for Failure {
    fn from(e: Errno) -> Self {
        Self::Errno(e)
    }
}

/// # Errors
/// EINVAL without node, service and hints; EOPNOTSUPP for RAI_SA and RAI_DNS, which releases with
/// rdma_resolve_addrinfo(3) answer by that call; the error of getaddrinfo(3).
pub fn get(
    node: Option<&CStr>,
    service: Option<&CStr>,
    hints: Option<&Hints>,
) -> Result<AddrInfo, Failure> {
    if node.is_none() && service.is_none() && hints.is_none() {
        return Err(Errno::INVAL.into());
    }
    if hints.is_some_and(|hints| hints.flags & (RAI_SA | RAI_DNS) != 0) {
        return Err(Errno::OPNOTSUPP.into());
    }
    Ok(AddrInfo::new(&look(node, service, hints)?)?)
}

fn look(
    node: Option<&CStr>,
    service: Option<&CStr>,
    hints: Option<&Hints>,
) -> Result<Hints, Failure> {
    let question = hints.map_or(NO_HINTS, question);
    let nothing = Hints::default();
    let hints = hints.unwrap_or(&nothing);
    let mut answer = if node.is_none() && service.is_none() {
        Hints {
            destination: hints.destination,
            ..without_addresses(hints)
        }
    } else {
        let found = lookup::first(node, service, question).map_err(Failure::Lookup)?;
        of(&found, hints)
    };
    if answer.source.is_none() {
        answer.source = hints.source;
    }
    Ok(answer)
}

/// Looks up addresses for an id, and reports the result by an event of the id. The call waits for
/// the lookup itself.
///
/// # Errors
/// EINVAL without node, service and hints, and for RAI_SA together with RAI_DNS, with a node or
/// without a service; ENOTSUP for RAI_SA, because this library does not query InfiniBand's subnet
/// administration; EBUSY if an earlier result was not taken; those of the backend, which are EINVAL
/// or ENOSYS before Linux 6.16.
pub fn resolve(
    id: &Id,
    node: Option<&CStr>,
    service: Option<&CStr>,
    hints: Option<&Hints>,
) -> kit::errno::Result<()> {
    let flags = hints.map_or(0, |hints| hints.flags);
    if flags & RAI_SA != 0 {
        let is_wrong = flags & RAI_DNS != 0 || node.is_some() || service.is_none();
        return Err(if is_wrong {
            Errno::INVAL
        } else {
            Errno::OPNOTSUPP
        });
    }
    if node.is_none() && service.is_none() && hints.is_none() {
        return Err(Errno::INVAL);
    }
    let is_found = |state: &mut State| state.rare().is_some_and(|rare| rare.found.is_some());
    if is_found(&mut id.state.lock()) {
        return Err(Errno(libc::EBUSY));
    }
    let hints = hints.map(|hints| Hints {
        flags: flags & !RAI_DNS,
        ..hints.clone()
    });
    let found = look(node, service, hints.as_ref());
    let status = match &found {
        Ok(_) => 0,
        Err(Failure::Errno(e)) => -e.raw(),
        Err(Failure::Lookup(code)) => *code,
    };
    id.state.lock().make_rare().found = found.ok();
    let posted = id.backend()?.write_event(event_type::INTERNAL, status, 0);
    if posted.is_err() {
        id.state.lock().make_rare().found = None;
    }
    posted
}

/// The result of a lookup for an id; it can be taken once.
///
/// # Errors
/// ENOENT without a result; ENOMEM.
pub fn query(id: &Id) -> kit::errno::Result<AddrInfo> {
    let found = id.state.lock().rare().and_then(|rare| rare.found.take());
    AddrInfo::new(&found.ok_or(Errno::NOENT)?)
}

fn without_addresses(hints: &Hints) -> Hints {
    Hints {
        flags: hints.flags,
        family: hints.family,
        qp_type: hints.qp_type,
        port_space: hints.port_space,
        ..Hints::default()
    }
}

/// Without hints, as getaddrinfo(3) has it.
const NO_HINTS: Question = Question {
    flags: libc::AI_V4MAPPED | libc::AI_ADDRCONFIG,
    family: libc::AF_UNSPEC,
    socktype: 0,
    protocol: 0,
};

/// The family is a hint with and without RAI_FAMILY, as in rdma-core: servers pass AF_INET alone.
fn question(hints: &Hints) -> Question {
    let mut flags = 0;
    if hints.flags & RAI_PASSIVE != 0 {
        flags |= libc::AI_PASSIVE;
    }
    if hints.flags & RAI_NUMERICHOST != 0 {
        flags |= libc::AI_NUMERICHOST;
    }
    let socktype = socktype(hints.qp_type);
    Question {
        flags,
        family: match hints.family {
            AF_IB => libc::AF_UNSPEC,
            family => family,
        },
        socktype,
        protocol: protocol(hints.port_space, socktype),
    }
}

/// Stream sockets are reliable connections, datagram sockets unreliable datagrams; 0 allows both.
fn socktype(qp_type: c_int) -> c_int {
    match qp_type.cast_unsigned() {
        IBV_QPT_RC | IBV_QPT_UC | IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV => libc::SOCK_STREAM,
        IBV_QPT_UD => libc::SOCK_DGRAM,
        _ => 0,
    }
}

fn protocol(space: c_int, socktype: c_int) -> c_int {
    match (space.cast_unsigned(), socktype) {
        (port_space::RDMA_PS_TCP, _) | (port_space::RDMA_PS_IB, libc::SOCK_STREAM) => {
            libc::IPPROTO_TCP
        }
        (port_space::RDMA_PS_UDP | port_space::RDMA_PS_IPOIB, _)
        | (port_space::RDMA_PS_IB, libc::SOCK_DGRAM) => libc::IPPROTO_UDP,
        _ => 0,
    }
}

/// Whether the number of the host is a GID, and the answer of `AF_IB`. A host of IPv4 has the GID
/// that RoCE makes of it; rdma-core reads beyond its address.
fn wants_infiniband(hints: &Hints) -> bool {
    const BOTH: c_int = RAI_FAMILY | RAI_NUMERICHOST;
    hints.flags & BOTH == BOTH && hints.family == AF_IB
}

fn of(found: &Found, hints: &Hints) -> Hints {
    let or = |given: c_int, other: Option<u32>| match given {
        0 => other.unwrap_or(0).cast_signed(),
        given => given,
    };
    let qp_type = match found.socktype {
        libc::SOCK_STREAM => Some(IBV_QPT_RC),
        libc::SOCK_DGRAM => Some(IBV_QPT_UD),
        _ => None,
    };
    let space = match found.protocol {
        libc::IPPROTO_TCP => Some(port_space::RDMA_PS_TCP),
        libc::IPPROTO_UDP => Some(port_space::RDMA_PS_UDP),
        _ => None,
    };
    let is_passive = hints.flags & RAI_PASSIVE != 0;
    let port_space = or(hints.port_space, space);
    let (family, address) = match found.address.ip().filter(|_| wants_infiniband(hints)) {
        Some(ip) => {
            let address = Address::in_infiniband(&ip, port_space.cast_unsigned());
            (AF_IB, address)
        }
        None => (found.family, found.address),
    };
    Hints {
        flags: if is_passive { RAI_PASSIVE } else { 0 },
        family,
        qp_type: or(hints.qp_type, qp_type),
        port_space,
        source: is_passive.then_some(address),
        destination: (!is_passive).then_some(address),
        ..Hints::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(node: &CStr, hints: &Hints) -> Hints {
        let raw = get(Some(node), Some(c"7471"), Some(hints)).unwrap();
        let raw = raw.into_raw();
        crate::abi::tests::read_and_free(raw)
    }

    #[test]
    fn an_address_has_the_type_of_its_port_space() {
        let of_space = |space: u32, flags| {
            let hints = Hints {
                port_space: space.cast_signed(),
                flags,
                ..Hints::default()
            };
            ask(c"10.9.0.2", &hints)
        };
        let tcp = of_space(port_space::RDMA_PS_TCP, 0);
        assert_eq!((tcp.family, tcp.qp_type, tcp.port_space), (2, 2, 0x106));
        assert!(tcp.source.is_none() && tcp.destination.is_some());
        let udp = of_space(port_space::RDMA_PS_UDP, RAI_PASSIVE);
        assert_eq!((udp.flags, udp.qp_type), (1, 4));
        assert!(udp.source.is_some() && udp.destination.is_none());
        let open = of_space(0, 0);
        assert_eq!((open.qp_type, open.port_space), (2, 0x106));
    }

    #[test]
    fn the_family_is_a_hint_without_a_flag() {
        let of_family = |family, flags| {
            let hints = Hints {
                family,
                flags: flags | RAI_PASSIVE,
                port_space: port_space::RDMA_PS_TCP.cast_signed(),
                ..Hints::default()
            };
            let raw = get(None, Some(c"7471"), Some(&hints)).unwrap();
            let found = crate::abi::tests::read_and_free(raw.into_raw());
            (found.family, found.flags)
        };
        assert_eq!(of_family(libc::AF_INET, 0), (libc::AF_INET, RAI_PASSIVE));
        assert_eq!(of_family(libc::AF_INET6, 0), (libc::AF_INET6, RAI_PASSIVE));
        let (family, flags) = of_family(AF_IB, RAI_NUMERICHOST);
        assert!(family != AF_IB && flags == RAI_PASSIVE);
    }

    #[test]
    fn a_gid_by_number_gives_an_infiniband_address() {
        let of_gid = |node: &CStr, flags| {
            let hints = Hints {
                flags: flags | RAI_FAMILY | RAI_NUMERICHOST,
                family: AF_IB,
                port_space: port_space::RDMA_PS_IB.cast_signed(),
                qp_type: IBV_QPT_RC.cast_signed(),
                ..Hints::default()
            };
            ask(node, &hints)
        };
        let active = of_gid(c"fe80::2", 0);
        let address = active.destination.unwrap();
        assert_eq!((active.family, address.size()), (AF_IB, 48));
        let mut wanted = [0; 48];
        wanted[..2].copy_from_slice(&27_u16.to_ne_bytes());
        wanted[2..4].fill(0xff);
        wanted[8..10].copy_from_slice(&[0xfe, 0x80]);
        wanted[23] = 2;
        // RDMA_PS_IB (0x013f) and port 7471.
        wanted[24..32].copy_from_slice(&0x013f_1d2f_u64.to_be_bytes());
        wanted[32..40].fill(0xff);
        assert_eq!(address.bytes(), wanted);
        let passive = of_gid(c"10.9.0.2", RAI_PASSIVE);
        assert!(passive.destination.is_none());
        let address = passive.source.unwrap();
        let gid = &address.bytes()[8..24];
        assert_eq!(gid, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 2]);
    }

    #[test]
    fn the_protocol_follows_from_the_port_space() {
        let spaces = [
            port_space::RDMA_PS_TCP,
            port_space::RDMA_PS_UDP,
            port_space::RDMA_PS_IPOIB,
            port_space::RDMA_PS_IB,
        ];
        let of = |socktype| spaces.map(|space| protocol(space.cast_signed(), socktype));
        assert_eq!(of(libc::SOCK_STREAM), [6, 17, 17, 6]);
        assert_eq!(of(libc::SOCK_DGRAM), [6, 17, 17, 17]);
        assert_eq!(of(0), [6, 17, 17, 0]);
    }

    #[test]
    fn nothing_asked_is_refused() {
        let refused = get(None, None, None).map(drop);
        assert_eq!(refused, Err(Failure::Errno(Errno::INVAL)));
        let hints = Hints {
            flags: RAI_DNS,
            ..Hints::default()
        };
        let refused = get(Some(c"x"), None, Some(&hints)).map(drop);
        assert_eq!(refused, Err(Failure::Errno(Errno::OPNOTSUPP)));
        let hints = Hints {
            flags: RAI_NUMERICHOST,
            ..Hints::default()
        };
        let refused = get(Some(c"x"), None, Some(&hints)).map(drop);
        assert_eq!(refused, Err(Failure::Lookup(libc::EAI_NONAME)));
    }
}
