#![forbid(unsafe_code)]
//! Ethernet addresses, and IP addresses that contain one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// The Ethernet address that an IP address contains: that of a multicast group (RFC 1112, 6.4;
/// RFC 2464, 7), or the one inside a link-local address, which on RoCE is made from it
/// (RFC 4291, appendix A).
pub fn of_link_local(address: IpAddr) -> Option<Mac> {
    match address {
        IpAddr::V4(address) => group(address),
        IpAddr::V6(address) => group_or_local(address),
    }
}

fn group(address: Ipv4Addr) -> Option<Mac> {
    let [_, b, c, d] = address.octets();
    let mac = [0x01, 0x00, 0x5e, b & 0x7f, c, d];
    address.is_multicast().then_some(mac)
}

fn group_or_local(address: Ipv6Addr) -> Option<Mac> {
    let [.., a, b, c, _, _, d, e, f] = address.octets();
    if address.is_multicast() {
        let [.., low0, low1, low2, low3] = address.octets();
        return Some([0x33, 0x33, low0, low1, low2, low3]);
    }
    // fe80::/64; the rest of fe80::/10 is no address that an interface makes up for itself.
    let local = address.segments().starts_with(&[0xfe80, 0, 0, 0]);
    local.then_some([a ^ 2, b, c, d, e, f])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses() {
        for (address, mac) in [
            ("224.0.0.1", Some([0x01, 0x00, 0x5e, 0, 0, 1])),
            ("239.255.1.2", Some([0x01, 0x00, 0x5e, 0x7f, 1, 2])),
            ("10.9.0.1", None),
            (
                "ff02::1:ff12:3456",
                Some([0x33, 0x33, 0xff, 0x12, 0x34, 0x56]),
            ),
            (
                "fe80::5054:ff:fe12:3456",
                Some([0x52, 0x54, 0, 0x12, 0x34, 0x56]),
            ),
            ("fe80:0:0:1::1", None),
            ("fd00::1", None),
            ("::1", None),
        ] {
            assert_eq!(of_link_local(address.parse().unwrap()), mac, "{address}");
        }
    }

    proptest! {
        #[test]
        fn a_link_local_address_gives_its_mac_back(mac in any::<Mac>()) {
            let [a, b, c, d, e, f] = mac;
            let mut octets = [0; 16];
            octets[..2].copy_from_slice(&[0xfe, 0x80]);
            octets[8..].copy_from_slice(&[a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
            prop_assert_eq!(of_link_local(Ipv6Addr::from(octets).into()), Some(mac));
        }
    }
}
