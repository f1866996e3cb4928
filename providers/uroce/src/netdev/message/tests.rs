use super::*;
use kit::errno::Errno;
use proptest::prelude::*;

/// A structure, and attributes behind it.
fn with(fixed: &[u8], list: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = fixed.to_vec();
    for (kind, value) in list {
        let length = u16::try_from(value.len() + 4).expect("short");
        bytes.extend(length.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(*value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

/// `struct ifinfomsg` of Ethernet.
fn link(index: i32, flags: u32) -> Vec<u8> {
    let mut fixed = vec![0, 0, 1, 0];
    fixed.extend(index.to_ne_bytes());
    fixed.extend(flags.to_ne_bytes());
    fixed.extend([0; 4]);
    fixed
}

const RUNNING: u32 = 0x1_1043;

#[test]
fn interfaces() {
    let mac = [2, 0, 0, 0, 0, 10];
    let reported = with(
        &link(3, RUNNING),
        &[
            (3, b"eth0\0"),
            (1, &mac),
            (4, &1500u32.to_ne_bytes()),
            (99, b"?"),
        ],
    );
    let expected = Interface {
        name: "eth0".to_owned(),
        index: 3,
        mtu: 1500,
        mac: Some(mac),
        up: true,
        running: true,
        has_neighbours: true,
        speed: None,
        addresses: Vec::new(),
    };
    assert_eq!(interface_of(&reported), Ok(Some(expected)));
    // Not up, though it claims to run; without an Ethernet address.
    let lo = with(&link(1, 1 << 6), &[(3, b"lo\0"), (1, &[0; 6])]);
    let lo = interface_of(&lo).expect("read").expect("one");
    assert_eq!((lo.up, lo.running, lo.mac), (false, false, None));
    let tunnel = with(&link(4, RUNNING), &[(3, b"tun0\0"), (1, &[10, 0, 0, 1])]);
    assert_eq!(interface_of(&tunnel).expect("read").expect("one").mac, None);
    // Loopback, point to point, without ARP.
    for flag in [1 << 3, 1 << 4, 1 << 7] {
        let alone = with(&link(5, RUNNING | flag), &[(3, b"tun0\0")]);
        let alone = interface_of(&alone).expect("read").expect("one");
        assert!(!alone.has_neighbours, "{flag:x}");
    }
}

#[test]
fn no_interfaces() {
    assert_eq!(interface_of(&link(3, 0)), Ok(None), "no name");
    assert_eq!(interface_of(&with(&link(-1, 0), &[(3, b"x\0")])), Ok(None));
    assert_eq!(interface_of(&[0; 15]), Err(Errno::PROTO));
    assert_eq!(
        interface_of(&with(&link(3, 0), &[(4, &[0; 2])])),
        Err(Errno::PROTO)
    );
}

fn owned(address: &str, scope: u8) -> Owned {
    Owned {
        interface: 7,
        address: address.parse().expect("an address"),
        scope,
    }
}

#[test]
fn addresses() {
    let v4 = [2, 24, 0, 0, 7, 0, 0, 0];
    let local = with(&v4, &[(1, &[10, 0, 0, 1]), (2, &[10, 0, 0, 1])]);
    assert_eq!(address_of(&local), Ok(Some(owned("10.0.0.1", 0))));
    // The other end of a tunnel stands first.
    let tunnel = with(&v4, &[(1, &[10, 0, 0, 2]), (2, &[10, 0, 0, 1])]);
    assert_eq!(address_of(&tunnel), Ok(Some(owned("10.0.0.1", 0))));
    let v6 = [10, 64, 0x80, 253, 7, 0, 0, 0];
    let mut link_local = [0; 16];
    link_local[0..2].copy_from_slice(&[0xfe, 0x80]);
    link_local[15] = 1;
    let reported = with(&v6, &[(1, &link_local), (8, &0x80u32.to_ne_bytes())]);
    assert_eq!(address_of(&reported), Ok(Some(owned("fe80::1", 253))));
}

#[test]
fn addresses_that_cannot_be_used() {
    let v6 = |flags: u8| [10, 64, flags, 0, 7, 0, 0, 0];
    let address: &[u8] = &[0xfd; 16];
    let usable = |short, long: u32| {
        let reported = with(&v6(short), &[(1, address), (8, &long.to_ne_bytes())]);
        address_of(&reported).expect("read").is_some()
    };
    assert!(usable(0x80, 0x80));
    assert!(!usable(0, 0x40), "tentative");
    assert!(usable(0, 0x44), "tentative, but optimistic");
    assert!(!usable(0, 0x08), "a duplicate");
    // Kernels before 3.14 send the short flags alone.
    let reported = with(&v6(0x40), &[(1, address)]);
    assert_eq!(address_of(&reported), Ok(None));
    let other = with(&[7, 0, 0, 0, 7, 0, 0, 0], &[(1, &[1, 2])]);
    assert_eq!(address_of(&other), Ok(None), "another family");
    let short = with(&v6(0), &[(1, &[1, 2, 3, 4])]);
    assert_eq!(address_of(&short), Err(Errno::PROTO));
    let none = with(&v6(0), &[(1, &[0; 16])]);
    assert_eq!(address_of(&none), Ok(None), "no address at all");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for result in [interface_of(&bytes).map(drop), address_of(&bytes).map(drop)] {
            prop_assert!(matches!(result, Ok(()) | Err(Errno::PROTO)));
        }
    }
}
