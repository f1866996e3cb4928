//! Ids before they are connected: addresses, ports, routes, options, groups.

use super::address::{self, Route};
use super::awaited::Resolved;
use super::claims::{Bound, Claim, Port};
use super::id::{HOPS, Id, Numbers, Q_KEY, Stage};
use super::state::{Discarded, Join, State, random};
use crate::device::gid_of;
use crate::netdev::route as routes;
use bytemuck::Zeroable;
use kit::abi::kernel::{ib_uverbs_ah_attr, ib_uverbs_global_route};
use kit::cm::{Record, UdParam, event_type};
use kit::errno::{Errno, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Ports that are tried where a program asks for any.
const TRIES: u32 = 64;

/// `RDMA_OPTION_ID`, `RDMA_OPTION_IB`, and their names.
mod option {
    pub const TOS: (u32, u32) = (0, 0);
    pub const REUSEADDR: (u32, u32) = (0, 1);
    pub const AFONLY: (u32, u32) = (0, 2);
    pub const ACK_TIMEOUT: (u32, u32) = (0, 3);
    pub const IB_PATH: (u32, u32) = (1, 1);
}

/// A number in a file of the kernel's, or a usual one.
fn setting<const N: usize>(file: &str, usual: [u16; N]) -> [u16; N] {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut numbers = text
        .split_ascii_whitespace()
        .map_while(|word| word.parse().ok());
    let mut found = usual;
    for place in &mut found {
        let Some(number) = numbers.next() else {
            return usual;
        };
        *place = number;
    }
    found
}

/// A port out of the range that the kernel takes such ports from.
fn any_port() -> u16 {
    let [first, last] = setting("/proc/sys/net/ipv4/ip_local_port_range", [32768, 60999]);
    let (first, last) = (first.max(1), last.max(first).max(1));
    let count = u32::from(last - first) + 1;
    first + u16::try_from(random() % count).unwrap_or(0)
}

/// Whether this process may bind to ports that others may not.
fn may_bind_low() -> bool {
    const NET_BIND_SERVICE: u64 = 1 << 10;
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let mut lines = status
        .lines()
        .filter_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = lines
        .next()
        .and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    capabilities.is_some_and(|capabilities| capabilities & NET_BIND_SERVICE != 0)
}

/// # Errors
/// EACCES for a port that this process may not bind to.
fn check_port_rights(port: u16) -> Result<()> {
    let [first] = setting("/proc/sys/net/ipv4/ip_unprivileged_port_start", [1024]);
    if port != 0 && port < first && !may_bind_low() {
        return Err(Errno(libc::EACCES));
    }
    Ok(())
}

/// Whether new sockets of IPv6 leave those of IPv4 alone.
fn only_v6_by_default() -> bool {
    setting("/proc/sys/net/ipv6/bindv6only", [0]) != [0]
}

/// Whether an id with this source belongs to no device, and listens on all of them: the unspecified
/// address, and, as with the kernel's connection manager, that of the loopback interface, if the
/// interface has no device.
fn is_of_all(source: IpAddr) -> bool {
    source.is_unspecified() || source.is_loopback() && address::port_of(source, 0).is_err()
}

/// The unspecified address of the same family.
fn any_like(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn scope(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}

impl State {
    /// # Errors
    /// EINVAL if it is bound already; those of [`address::own_port`]; EADDRINUSE, EADDRNOTAVAIL,
    /// EACCES; those of [`State::node`].
    pub fn bind(&mut self, number: u32, address: SocketAddr) -> Result<()> {
        let id = self.id(number)?;
        id.expect(&[Stage::Idle])?;
        check_port_rights(address.port())?;
        let port = match is_of_all(address.ip()) {
            true => None,
            false => Some(address::own_port(address.ip(), scope(address))?),
        };
        let node = self.node()?;
        let id = self.id(number)?;
        let claimed = match port {
            Some(_) => address,
            None => SocketAddr::new(any_like(address.ip()), address.port()),
        };
        let claim = match claim(id, node.network().slot(), claimed) {
            Ok(claim) => claim,
            Err(error) => {
                self.discarded.push(Discarded::Node(node));
                return Err(error);
            }
        };
        let mut bound = address;
        let port_number = claim.port().port;
        bound.set_port(port_number);
        id.source = Some(bound);
        id.claim = Some(claim);
        id.port = port;
        id.node = Some(node);
        id.stage = Stage::Bound;
        self.lingering.bound(port_number);
        Ok(())
    }

    /// # Errors
    /// EINVAL in another state, and for addresses of two families; those of [`State::bind`] and of
    /// the routes. A source address without a device is reported by an event, and so is a neighbour
    /// that does not answer in that many milliseconds.
    pub fn resolve_address(
        &mut self,
        number: u32,
        (source, destination): (Option<SocketAddr>, SocketAddr),
        milliseconds: u32,
    ) -> Result<()> {
        let id = self.id(number)?;
        id.expect(&[Stage::Idle, Stage::Bound])?;
        let given = match id.stage {
            Stage::Bound => id.source,
            _ => source,
        };
        if given.is_some_and(|source| source.is_ipv4() != destination.is_ipv4()) {
            return Err(Errno::INVAL);
        }
        if let (Stage::Idle, Some(source)) = (id.stage, source)
            && (source.port() != 0 || !source.ip().is_unspecified())
        {
            self.bind(number, source)?;
        }
        let node = self.node()?;
        let found = find(given.map(|given| given.ip()), destination);
        // It connects, so it will not listen.
        self.unlisten(number);
        let id = self.id(number)?;
        id.stage = Stage::Bound;
        id.destination = Some(destination);
        if id.node.is_none() {
            id.node = Some(node);
        } else {
            // Another is kept already.
            self.discarded.push(Discarded::Node(node));
        }
        match found {
            Ok(found) => {
                self.resolve_neighbour(number, found, milliseconds);
                Ok(())
            }
            Err(error @ Errno(libc::ENODEV)) => {
                let status = -error.raw();
                self.post_event(number, event_type::ADDR_ERROR, status, |_| ());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The addresses of both sides are known, and the neighbour is.
    pub fn resolved(&mut self, number: u32, found: &Resolved) {
        if let Some(id) = self.ids.get_mut(&number) {
            id.resolved(found);
            self.post_event(number, event_type::ADDR_RESOLVED, 0, |_| ());
        }
    }

    /// # Errors
    /// EINVAL unless the address is resolved.
    pub fn resolve_route(&mut self, number: u32) -> Result<()> {
        let id = self.id(number)?;
        id.expect(&[Stage::AddressResolved])?;
        id.stage = Stage::RouteResolved;
        self.post_event(number, event_type::ROUTE_RESOLVED, 0, |_| ());
        Ok(())
    }

    /// # Errors
    /// ENOSYS for an unknown option; EINVAL for a value of another size, and in another state.
    pub fn set_option(&mut self, number: u32, name: (u32, u32), value: &[u8]) -> Result<()> {
        let id = self.id(number)?;
        let byte = || match value {
            [byte] => Ok(*byte),
            _ => Err(Errno::INVAL),
        };
        let flag = || -> Result<bool> {
            let bytes = value.try_into().map_err(|_| Errno::INVAL)?;
            Ok(i32::from_ne_bytes(bytes) != 0)
        };
        match name {
            option::TOS => id.options.traffic_class = byte()?,
            option::REUSEADDR => {
                let shares = flag()?;
                id.expect(&[Stage::Idle])?;
                id.options.shares_port = shares;
            }
            option::AFONLY => {
                let only = flag()?;
                id.expect(&[Stage::Idle])?;
                id.options.only_family = Some(only);
            }
            option::ACK_TIMEOUT => {
                const MOST: u8 = 31;
                let timeout = byte()?;
                if timeout > MOST || id.is_datagram() {
                    return Err(Errno::INVAL);
                }
                id.options.ack_timeout = Some(timeout);
            }
            option::IB_PATH => {
                const SIZE: usize = size_of::<kit::cm::PathData>();
                let is_whole = !value.is_empty() && value.len().is_multiple_of(SIZE);
                is_whole.then_some(()).ok_or(Errno::INVAL)?;
                // There is one path between two addresses, whatever the program knows of it.
                return self.resolve_route(number);
            }
            _ => return Err(Errno::NOSYS),
        }
        Ok(())
    }

    /// Joins a group: the interface does that when the queue pair is attached.
    ///
    /// # Errors
    /// EINVAL without a device, for another type of queue pair, unknown flags, and an address that
    /// is no group; 524 (ENOTSUPP) for a group of IPv6, as the kernel's RoCE v2.
    pub fn join(&mut self, number: u32, uid: u64, group: SocketAddr, flags: u16) -> Result<u32> {
        const SEND_ONLY: u16 = 1;
        const NOT_SUPPORTED: i32 = 524;
        let id = self.id(number)?;
        id.expect(&[Stage::Bound, Stage::AddressResolved])?;
        let source = id.source.ok_or(Errno::INVAL)?;
        id.device()?;
        if !id.is_datagram() || flags > SEND_ONLY || group.ip().is_unspecified() {
            return Err(Errno::INVAL);
        }
        if group.is_ipv6() {
            return Err(Errno(NOT_SUPPORTED));
        }
        let route = Route::new(source.ip(), group.ip(), 0);
        let (former, before) = (id.route.replace(route), id.numbers);
        id.numbers.hop_limit = HOPS;
        id.numbers.flow_label = 0;
        let ah_attr = id.ah_attr();
        (id.route, id.numbers) = (former, before);
        let join = self.number();
        self.id(number)?.joins.push(join);
        let entry = Join {
            id: number,
            reported: 0,
        };
        self.joins.insert(join, entry);
        let param = UdParam {
            qp_num: 0x00ff_ffff,
            qkey: Q_KEY,
            ah_attr: ib_uverbs_ah_attr {
                grh: ib_uverbs_global_route {
                    dgid: gid_of(group.ip()).bytes(),
                    ..ah_attr.grh
                },
                ..ah_attr
            },
            ..UdParam::zeroed()
        };
        self.report_join(number, join, uid, &param);
        Ok(join)
    }

    fn report_join(&mut self, number: u32, join: u32, uid: u64, param: &UdParam) {
        let mut record = Record::new(uid, join, event_type::MULTICAST_JOIN, 0);
        record.set_ud(param);
        let channel = self.ids.get(&number).map(|id| id.channel);
        if let Some(channel) = channel.and_then(|channel| self.channels.get_mut(&channel)) {
            channel.push(super::channel::Waiting {
                record,
                counts_for: number,
                join: Some(join),
            });
        }
    }

    /// Leaves a group; returns how many events of the join were handed out.
    ///
    /// # Errors
    /// ENOENT if there is no such join; EINVAL for one of another channel.
    pub fn leave(&mut self, channel: u32, join: u32) -> Result<u32> {
        let id = self.joins.get(&join).ok_or(Errno::NOENT)?.id;
        if self.id(id)?.channel != channel {
            return Err(Errno::INVAL);
        }
        self.id(id)?.joins.retain(|other| *other != join);
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.take(|event| event.join == Some(join));
        }
        let join = self.joins.remove(&join).ok_or(Errno::NOENT)?;
        Ok(join.reported)
    }
}

/// A claim of the address, or of any port of it.
fn claim(id: &Id, slot: u16, address: SocketAddr) -> Result<Claim> {
    let only = id.options.only_family.unwrap_or_else(only_v6_by_default);
    let wanted = Port {
        slot,
        space: id.space,
        port: address.port(),
        bound: Bound::new(address.ip(), scope(address), only),
        shared: id.options.shares_port,
    };
    if wanted.port != 0 {
        return Claim::new(wanted);
    }
    for _ in 0..TRIES {
        let port = any_port();
        // A port that the program did not choose is not to be shared.
        match Claim::new(Port {
            port,
            shared: false,
            ..wanted
        }) {
            Err(Errno(libc::EADDRINUSE | libc::EADDRNOTAVAIL)) => {}
            claimed => return claimed,
        }
    }
    Err(Errno(libc::EADDRNOTAVAIL))
}

/// Which device leads to a destination, from an address if one is given.
fn find(source: Option<IpAddr>, destination: SocketAddr) -> Result<Resolved> {
    let (to, scope) = (destination.ip(), scope(destination));
    let has = |address| address::port_of(address, 0).is_ok();
    if to.is_unspecified() || to.is_loopback() && !has(to) {
        let (port, source) = address::first(to.is_ipv4())?;
        return Ok(Resolved {
            port,
            source,
            destination: source,
        });
    }
    let source = match source.filter(|source| !is_of_all(*source)) {
        Some(source) => source,
        None => address::source_for(destination)?,
    };
    let port = address::port_of(source, scope)?;
    // Packets to a group of IPv4 leave by the interface of their source, independent of the routes
    // (ip_route_output_key in the kernel's route.c).
    let by_source = to.is_ipv4() && to.is_multicast();
    if !has(to) && !by_source {
        routes::look_up(source, to, port.interface())?;
    }
    Ok(Resolved {
        port,
        source,
        destination: to,
    })
}

impl Id {
    /// The addresses of both sides are known.
    fn resolved(&mut self, found: &Resolved) {
        let Resolved { port, source, .. } = found;
        let Some(destination) = self.destination else {
            return;
        };
        let own_port = self.source.map_or(0, |source| source.port());
        // Such a port is not claimed, because no process looks it up.
        let own_port = if own_port == 0 { any_port() } else { own_port };
        let mut address = match self.source {
            Some(bound) if bound.ip() == *source => bound,
            _ => SocketAddr::new(*source, 0),
        };
        if let (SocketAddr::V6(own), SocketAddr::V6(to)) = (&mut address, destination) {
            own.set_scope_id(to.scope_id());
        }
        address.set_port(own_port);
        let mut peer = destination;
        peer.set_ip(found.destination);
        self.source = Some(address);
        self.destination = Some(peer);
        self.route = Some(Route::new(*source, found.destination, port.interface()));
        let label = u32::from(own_port).wrapping_mul(31) + u32::from(peer.port());
        self.numbers = Numbers {
            own_psn: random() & 0x00ff_ffff,
            mtu: port.mtu_code(),
            traffic_class: self.options.traffic_class,
            flow_label: label & 0x000f_ffff,
            hop_limit: HOPS,
            ..Numbers::default()
        };
        self.port = Some(Arc::clone(port));
        self.stage = Stage::AddressResolved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_port_is_in_the_range_of_the_kernel() {
        let [first, last] = setting("/proc/sys/net/ipv4/ip_local_port_range", [32768, 60999]);
        for _ in 0..1000 {
            assert!((first..=last).contains(&any_port()));
        }
        assert_eq!(setting("/nowhere", [1, 2]), [1, 2]);
    }

    #[test]
    fn the_first_ports_are_not_everybodys() {
        assert_eq!(check_port_rights(0), Ok(()));
        assert_eq!(check_port_rights(7471), Ok(()));
        let expected = if may_bind_low() {
            Ok(())
        } else {
            Err(Errno(libc::EACCES))
        };
        let [first] = setting("/proc/sys/net/ipv4/ip_unprivileged_port_start", [1024]);
        if first > 1 {
            assert_eq!(check_port_rights(1), expected);
        }
    }
}
