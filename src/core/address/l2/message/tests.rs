#![allow(clippy::unwrap_used)]
use super::*;
use netlink_packet_core::Emitable;
use proptest::prelude::*;
use std::net::Ipv6Addr;

const MAC: Mac = [2, 0, 0, 0, 0, 11];

fn with(fixed: &[u8], list: &[(u16, &[u8])]) -> Vec<u8> {
    let list: Vec<_> = list
        .iter()
        .map(|(kind, value)| DefaultNla::new(*kind, value.to_vec()))
        .collect();
    let mut bytes = fixed.to_vec();
    bytes.resize(fixed.len() + list.as_slice().buffer_len(), 0);
    list.as_slice().emit(&mut bytes[fixed.len()..]);
    bytes
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn owners() {
    let v4 = [INET, 24, 0, 0, 3, 0, 0, 0];
    let broadcast = with(
        &v4,
        &[
            (1, &[10, 9, 0, 1]),
            (2, &[10, 9, 0, 1]),
            (4, &[10, 9, 0, 255]),
        ],
    );
    assert_eq!(owner(&broadcast), Ok(Some((ip("10.9.0.1"), 3))));
    let point_to_point = with(&v4, &[(1, &[10, 9, 0, 2]), (2, &[10, 9, 0, 1])]);
    assert_eq!(owner(&point_to_point), Ok(Some((ip("10.9.0.1"), 3))));
    let v6 = with(&[INET6, 64, 0, 0, 0, 1, 0, 0], &[(1, &[0xfd; 16])]);
    let all = Ipv6Addr::from([0xfd; 16]).into();
    assert_eq!(owner(&v6), Ok(Some((all, 256))));
    assert_eq!(owner(&with(&[17; 8], &[(1, &[1, 2])])), Ok(None));
    assert_eq!(owner(&with(&v4, &[])), Ok(None));
    assert_eq!(owner(&with(&v4, &[(2, &[10])])), Err(Errno::PROTO));
}

#[test]
fn routes() {
    let fixed = |kind| [INET, 32, 0, 0, 254, 0, 0, kind, 0, 0, 0, 0];
    let direct = Route::parse(&with(&fixed(1), &[(1, &[10, 9, 0, 2]), (4, &[3, 0, 0, 0])]));
    let direct = direct.unwrap();
    assert_eq!(
        (direct.gateway, direct.is_local(), direct.forbids()),
        (None, false, false)
    );
    let gateway = Route::parse(&with(&fixed(1), &[(5, &[10, 9, 0, 254])])).unwrap();
    assert_eq!(gateway.gateway, Some(ip("10.9.0.254")));
    assert!(Route::parse(&fixed(2)).unwrap().is_local());
    for kind in 0..=11 {
        let forbids = Route::parse(&fixed(kind)).unwrap().forbids();
        assert_eq!(forbids, (6..=9).contains(&kind), "{kind}");
    }
}

#[test]
fn a_next_hop_of_another_family() {
    let mut via = u16::from(INET6).to_ne_bytes().to_vec();
    via.extend([0xfe; 16]);
    let route = with(&[INET, 32, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0], &[(18, &via)]);
    let gateway = Route::parse(&route).unwrap().gateway;
    assert_eq!(gateway, Some(Ipv6Addr::from([0xfe; 16]).into()));
    let route = with(
        &[INET, 32, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0],
        &[(18, &via[..9])],
    );
    assert_eq!(Route::parse(&route), Err(Errno::PROTO));
}

#[test]
fn links() {
    let info = |kind: &[u8], id: u16| {
        let data = with(&[], &[(1, &id.to_ne_bytes()), (2, &[0; 8])]);
        with(&[], &[(1, kind), (2, &data)])
    };
    let parse =
        |info: &[u8]| Link::parse(&with(&[0; 16], &[(3, b"v0.5\0"), (1, &MAC), (18, info)]));
    let vlan = |kind, id| parse(&info(kind, id)).unwrap().vlan;
    assert_eq!(vlan(b"vlan\0", 5), Some(5));
    assert_eq!(vlan(b"vlan\0", 0), Some(0));
    assert_eq!(vlan(b"vlan\0", 0xfff), Some(0xfff));
    assert_eq!(vlan(b"vlan\0", 0x1000), None);
    assert_eq!(vlan(b"veth\0", 5), None);
    assert_eq!(parse(&info(b"veth\0", 5)).unwrap().mac, Some(MAC));
    // A tunnel has an address that is not of Ethernet, or none.
    assert_eq!(
        Link::parse(&with(&[0; 16], &[(1, &[10, 0, 0, 1])])).unwrap(),
        Link::default()
    );
    assert_eq!(Link::parse(&[0; 16]).unwrap(), Link::default());
    assert_eq!(Link::parse(&[0; 15]), Err(Errno::PROTO));
}

#[test]
fn neighbours_and_other_entries() {
    let fixed = |family| [family, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 1];
    let full = Neighbour::parse(&with(&fixed(INET), &[(1, &[10, 9, 0, 2]), (2, &MAC)]));
    let expected = Neighbour {
        interface: 3,
        address: ip("10.9.0.2"),
        mac: MAC,
    };
    assert_eq!(full, Ok(Some(expected)));
    let unknown_yet = with(&fixed(INET), &[(1, &[10, 9, 0, 2])]);
    assert_eq!(Neighbour::parse(&unknown_yet), Ok(None));
    // Of a bridge's table; the address is a tunnel's end.
    let bridge = with(&fixed(7), &[(1, &[10, 9, 0, 2]), (2, &MAC)]);
    assert_eq!(Neighbour::parse(&bridge), Ok(None));
    let infiniband = with(&fixed(INET), &[(1, &[10, 9, 0, 2]), (2, &[0; 20])]);
    assert_eq!(Neighbour::parse(&infiniband), Ok(None));
}

#[test]
fn questions() {
    assert_eq!(addresses(ip("10.9.0.1")), [INET, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(link(0x0102)[4..8], 0x0102_u32.to_ne_bytes());
    let (fixed, attributes) = route(ip("fd00::1"), 3);
    assert_eq!((fixed[0], fixed[1], fixed.len()), (INET6, 128, 12));
    let question = question(GET_ROUTE, Kind::Single, &fixed, &attributes);
    let bytes = question.bytes(1).unwrap();
    assert_eq!(bytes.len(), 16 + 12 + 20 + 8);
    assert_eq!(bytes[16..28], fixed);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(payload in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = (owner(&payload), Route::parse(&payload), Link::parse(&payload));
        let _ = Neighbour::parse(&payload);
    }

    #[test]
    fn damaged_messages_do_not_panic(at in 0usize..64, byte in any::<u8>()) {
        let data = with(&[], &[(1, &[5, 0])]);
        let info = with(&[], &[(1, b"vlan\0"), (2, &data)]);
        let mut bytes = with(&[INET; 16], &[(1, &MAC), (18, &info)]);
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = (owner(&bytes), Route::parse(&bytes), Link::parse(&bytes));
        let _ = Neighbour::parse(&bytes);
    }
}
