//! Addresses of either family as 16 bytes, as heads of packets have them that processes hand each
//! other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address as 16 bytes: IPv4 mapped into IPv6.
#[must_use]
pub fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The address of 16 bytes; `None` if they are no address of that family (4 or 6).
#[must_use]
pub fn address(family: u8, octets: [u8; 16]) -> Option<IpAddr> {
    let v6 = Ipv6Addr::from(octets);
    match family {
        4 => v6.to_ipv4_mapped().map(|v4: Ipv4Addr| v4.into()),
        6 => Some(v6.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_were_written() {
        let v4 = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
        let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
        assert_eq!(address(4, octets(v4)), Some(v4));
        assert_eq!(address(6, octets(v6)), Some(v6));
        assert_eq!(address(4, octets(v6)), None);
        assert_eq!(address(5, octets(v4)), None);
    }
}
