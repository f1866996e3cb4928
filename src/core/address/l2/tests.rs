#![allow(clippy::unwrap_used)]
use super::*;
use crate::core::address::grh::mapped;
use proptest::prelude::*;

mod namespace;

const SELF: Mac = [2, 0, 0, 0, 0, 10];
const PEER: Mac = [2, 0, 0, 0, 0, 11];
const LOCAL: u8 = 2;

fn gid(text: &str) -> Gid {
    match text.parse().unwrap() {
        IpAddr::V4(address) => mapped(address.octets()),
        IpAddr::V6(address) => address.octets(),
    }
}

/// One interface, one route, one neighbour.
struct MadeUp {
    owners: Vec<u32>,
    route: Result<Route>,
    link: Result<Link>,
    asked: Option<Hop>,
    is_known: bool,
}

impl MadeUp {
    fn new() -> Self {
        Self {
            owners: vec![3, 4],
            route: Ok(Route {
                kind: 1,
                gateway: None,
            }),
            link: Ok(Link {
                mac: Some(SELF),
                vlan: None,
            }),
            asked: None,
            is_known: true,
        }
    }

    fn resolve(&mut self, source: &str, known: Option<u32>, to: &str) -> Result<NextHop> {
        match resolve(self, &gid(source), known, &gid(to))? {
            Found::Known(next_hop) => Ok(next_hop),
            Found::Unknown(..) => Err(Errno::NOENT),
        }
    }
}

impl Network for MadeUp {
    fn owners(&mut self, _: IpAddr) -> Result<Vec<u32>> {
        Ok(self.owners.clone())
    }

    fn route(&mut self, _: IpAddr, interface: u32) -> Result<Route> {
        assert!(self.owners.contains(&interface));
        self.route
    }

    fn link(&mut self, _: u32) -> Result<Link> {
        self.link
    }

    fn neighbour(&mut self, hop: &Hop) -> Result<Option<Mac>> {
        self.asked = Some(*hop);
        Ok(self.is_known.then_some(PEER))
    }
}

#[test]
fn a_neighbour() {
    let mut network = MadeUp::new();
    let next_hop = network.resolve("10.9.0.1", None, "10.9.0.2");
    let expected = NextHop {
        mac: PEER,
        vlan: NO_VLAN,
    };
    assert_eq!(next_hop, Ok(expected));
    let hop = network.asked.unwrap();
    assert_eq!((hop.interface, hop.address), (3, hop.destination));
    assert_eq!(hop.source, "10.9.0.1".parse::<IpAddr>().unwrap());
}

#[test]
fn an_unknown_neighbour_is_searched_for() {
    let mut network = MadeUp::new();
    network.is_known = false;
    network.link = Ok(Link {
        mac: Some(SELF),
        vlan: Some(5),
    });
    let found = resolve(&mut network, &gid("10.9.0.1"), None, &gid("10.9.0.2"));
    assert_eq!(found, Ok(Found::Unknown(network.asked.unwrap(), 5)));
}

#[test]
fn a_gateway_is_asked_in_place_of_the_destination() {
    let mut network = MadeUp::new();
    let gateway: IpAddr = "10.9.0.254".parse().unwrap();
    network.route = Ok(Route {
        kind: 1,
        gateway: Some(gateway),
    });
    network.resolve("10.9.0.1", None, "10.8.0.1").unwrap();
    assert_eq!(network.asked.unwrap().address, gateway);
    // A link-local gateway needs no query.
    let mut network = MadeUp::new();
    network.route = Ok(Route {
        kind: 1,
        gateway: Some("fe80::ff:fe00:c".parse().unwrap()),
    });
    let next_hop = network.resolve("fd00::1", None, "2001:db8::1").unwrap();
    assert_eq!((next_hop.mac, network.asked), ([2, 0, 0, 0, 0, 12], None));
}

#[test]
fn the_host_itself() {
    let mut network = MadeUp::new();
    network.route = Ok(Route {
        kind: LOCAL,
        gateway: None,
    });
    network.link = Ok(Link {
        mac: Some(SELF),
        vlan: Some(5),
    });
    let next_hop = network.resolve("10.9.0.1", None, "10.9.0.1").unwrap();
    assert_eq!(
        (next_hop.mac, next_hop.vlan, network.asked),
        (SELF, 5, None)
    );
    network.link = Ok(Link::default());
    let next_hop = network.resolve("10.9.0.1", None, "10.9.0.1");
    assert_eq!(next_hop, Err(Errno(libc::EHOSTUNREACH)));
}

#[test]
fn addresses_that_contain_the_mac() {
    let mut network = MadeUp::new();
    for (to, mac) in [
        ("224.1.2.3", [0x01, 0x00, 0x5e, 1, 2, 3]),
        ("ff0e::ffff:e001:203", [0x01, 0x00, 0x5e, 1, 2, 3]),
        ("ff02::1", [0x33, 0x33, 0, 0, 0, 1]),
        ("fe80::ff:fe00:c", [2, 0, 0, 0, 0, 12]),
    ] {
        assert_eq!(
            network.resolve("10.9.0.1", None, to).unwrap().mac,
            mac,
            "{to}"
        );
        assert_eq!(network.asked, None);
    }
}

#[test]
fn the_interface_of_the_gid_goes_first() {
    for (known, expected) in [(None, 3), (Some(4), 4), (Some(9), 3)] {
        let mut network = MadeUp::new();
        network.resolve("10.9.0.1", known, "10.9.0.2").unwrap();
        assert_eq!(network.asked.unwrap().interface, expected);
    }
}

#[test]
fn failures() {
    let mut network = MadeUp::new();
    network.owners = Vec::new();
    let next_hop = network.resolve("10.9.0.1", Some(3), "10.9.0.2");
    assert_eq!(next_hop, Err(Errno::INVAL));
    let unreachable = Err(Errno(libc::EHOSTUNREACH));
    let mut network = MadeUp::new();
    network.route = Err(Errno(libc::ENETUNREACH));
    assert_eq!(network.resolve("10.9.0.1", None, "10.9.0.2"), unreachable);
    let mut network = MadeUp::new();
    network.route = Ok(Route {
        kind: 7,
        gateway: None,
    });
    assert_eq!(network.resolve("10.9.0.1", None, "10.9.0.2"), unreachable);
    // An interface that goes away meanwhile has no VLAN, as for one that never had.
    let mut network = MadeUp::new();
    network.link = Err(Errno::NODEV);
    let next_hop = network.resolve("10.9.0.1", None, "10.9.0.2").unwrap();
    assert_eq!(next_hop.vlan, NO_VLAN);
}

proptest! {
    #[test]
    fn a_mapped_address_is_ipv4(octets in any::<[u8; 4]>()) {
        prop_assert_eq!(address_of(&mapped(octets)), IpAddr::from(octets));
        let mut group = mapped(octets);
        group[..2].copy_from_slice(&[0xff, 0x0e]);
        prop_assert_eq!(address_of(&group), IpAddr::from(octets));
    }

    #[test]
    fn any_other_is_ipv6(gid in any::<Gid>()) {
        prop_assume!(gid[2..10] != [0; 8]);
        prop_assert_eq!(address_of(&gid), IpAddr::from(gid));
    }
}
