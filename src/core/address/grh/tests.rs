#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;

/// An IPv4 header with a right checksum, behind 20 bytes of something.
fn ipv4(front: [u8; 20], tos: u8, ttl: u8, source: [u8; 4], destination: [u8; 4]) -> [u8; SIZE] {
    let mut header = [
        0x45, tos, 0, 100, 1, 2, 0x40, 0, ttl, UDP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    header[12..16].copy_from_slice(&source);
    header[16..].copy_from_slice(&destination);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut bytes = [0; SIZE];
    bytes[..20].copy_from_slice(&front);
    bytes[20..].copy_from_slice(&header);
    bytes
}

fn ipv6(class: u8, label: u32, next: u8, hops: u8, source: Gid, destination: Gid) -> [u8; SIZE] {
    let word = 6 << 28 | u32::from(class) << 20 | label;
    let mut bytes = [0; SIZE];
    bytes[..4].copy_from_slice(&word.to_be_bytes());
    bytes[6] = next;
    bytes[7] = hops;
    bytes[8..24].copy_from_slice(&source);
    bytes[24..].copy_from_slice(&destination);
    bytes
}

fn gid(last: u8) -> Gid {
    let mut gid = [0; 16];
    gid[..2].copy_from_slice(&[0xfe, 0x80]);
    gid[15] = last;
    gid
}

#[test]
fn ipv4_of_roce_v2() {
    let header = Header::parse(&ipv4([0; 20], 8, 63, [10, 9, 0, 2], [10, 9, 0, 1])).unwrap();
    let expected = Header {
        source: mapped([10, 9, 0, 2]),
        destination: mapped([10, 9, 0, 1]),
        next: Next::Ipv4,
        hop_limit: 63,
        traffic_class: 8,
    };
    assert_eq!(header, expected);
}

#[test]
fn ipv4_with_a_wrong_checksum_counts_where_ipv6_is_out_of_the_question() {
    let mut bytes = ipv4([0; 20], 0, 1, [1, 2, 3, 4], [5, 6, 7, 8]);
    bytes[30] ^= 1;
    assert_eq!(Header::parse(&bytes).unwrap().source, mapped([1, 2, 3, 4]));
    bytes[0] = 0x60;
    bytes[6] = UDP;
    assert_eq!(Header::parse(&bytes).unwrap().source[..], bytes[8..24]);
}

#[test]
fn a_checksum_that_carries_twice() {
    // The words add up to 0x1ffff without the checksum: the carry carries again.
    let mut header = [0u8; 20];
    for (at, word) in [(0, 0x4500u16), (2, 0xbaff), (12, 0xffff), (14, 1)] {
        header[at..at + 2].copy_from_slice(&word.to_be_bytes());
    }
    assert_eq!(checksum(&header), 0xfffe);
    header[10..12].copy_from_slice(&0xfffe_u16.to_be_bytes());
    assert_eq!(checksum(&header), 0);
    assert!(is_sound(&header));
}

#[test]
fn ipv6_by_its_next_header() {
    let bytes = |next| ipv6(0x5a, 0x12345, next, 9, gid(2), gid(1));
    let header = Header::parse(&bytes(UDP)).unwrap();
    assert_eq!((header.source, header.destination), (gid(2), gid(1)));
    assert_eq!((header.hop_limit, header.traffic_class), (9, 0x5a));
    assert_eq!(header.version(), Ok(Version::V2));
    let version = |next| Header::parse(&bytes(next)).unwrap().version();
    assert_eq!(version(INFINIBAND), Ok(Version::V1));
    assert_eq!(version(6), Err(Errno::PROTONOSUPPORT));
    assert_eq!(flow_label(&bytes(UDP)), 0x12345);
}

#[test]
fn multicast_is_recognised() {
    let is_multicast = |bytes| Header::parse(&bytes).unwrap().is_multicast();
    let mut to = gid(1);
    assert!(!is_multicast(ipv6(0, 0, UDP, 1, gid(2), to)));
    to[0] = 0xff;
    assert!(is_multicast(ipv6(0, 0, UDP, 1, gid(2), to)));
    for (first, expected) in [(223, false), (224, true), (239, true), (240, false)] {
        let bytes = ipv4([0; 20], 0, 1, [10, 0, 0, 1], [first, 0, 0, 1]);
        assert_eq!(is_multicast(bytes), expected, "{first}");
    }
}

#[test]
fn neither_version() {
    assert_eq!(Header::parse(&[0; SIZE]), Err(Errno::PROTONOSUPPORT));
    assert_eq!(Header::parse(&[0xff; SIZE]), Err(Errno::PROTONOSUPPORT));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), SIZE)) {
        let bytes: [u8; SIZE] = bytes.try_into().unwrap();
        let header = Header::parse(&bytes);
        let _ = header.map(|header| (header.is_multicast(), header.version()));
        prop_assert!(flow_label(&bytes) < 1 << 20);
    }

    /// Whatever stands in front of it, an IPv4 header is found.
    #[test]
    fn ipv4_behind_anything(
        front in any::<[u8; 20]>(),
        tos in any::<u8>(),
        ttl in any::<u8>(),
        source in any::<[u8; 4]>(),
        destination in any::<[u8; 4]>(),
    ) {
        let header = Header::parse(&ipv4(front, tos, ttl, source, destination)).unwrap();
        prop_assert_eq!(header.source, mapped(source));
        prop_assert_eq!(header.destination, mapped(destination));
        prop_assert_eq!((header.traffic_class, header.hop_limit), (tos, ttl));
    }

    #[test]
    fn ipv6_fields(
        class in any::<u8>(),
        label in 0u32..1 << 20,
        v2 in any::<bool>(),
        hops in any::<u8>(),
        source in any::<Gid>(),
        destination in any::<Gid>(),
    ) {
        // Where the bytes behind could be an IPv4 header, its checksum decides.
        prop_assume!(source[12] != 0x45);
        let next = if v2 { UDP } else { INFINIBAND };
        let bytes = ipv6(class, label, next, hops, source, destination);
        let header = Header::parse(&bytes).unwrap();
        prop_assert_eq!((header.source, header.destination), (source, destination));
        prop_assert_eq!((header.traffic_class, header.hop_limit), (class, hops));
        prop_assert_eq!(header.version() == Ok(Version::V2), v2);
        prop_assert_eq!(flow_label(&bytes), label);
    }
}
