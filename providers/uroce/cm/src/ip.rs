//! IP addressing of connections (IBTA volume 1, annex A11): ports as service ids, and the header
//! with the addresses at the start of the private data of REQ and SIDR REQ.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of the header.
pub const HEADER: usize = 36;

/// Port spaces: `enum rdma_port_space`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortSpace {
    /// `RDMA_PS_IPOIB`.
    IpOib,
    /// `RDMA_PS_TCP`.
    Tcp,
    /// `RDMA_PS_UDP`.
    Udp,
    /// `RDMA_PS_IB`.
    Ib,
}

impl PortSpace {
    const ALL: [Self; 4] = [Self::IpOib, Self::Tcp, Self::Udp, Self::Ib];

    /// Its number.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::IpOib => 0x0002,
            Self::Tcp => 0x0106,
            Self::Udp => 0x0111,
            Self::Ib => 0x013f,
        }
    }

    /// The port space of a number.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|space| space.number() == number)
    }
}

/// The service id of a port.
#[must_use]
pub fn service_id(space: PortSpace, port: u16) -> u64 {
    u64::from(space.number()) << 16 | u64::from(port)
}

/// The port of a service id; `None` if it has none.
#[must_use]
pub fn port_of(service_id: u64) -> Option<(PortSpace, u16)> {
    let [0, 0, 0, 0, space @ .., p0, p1] = service_id.to_be_bytes() else {
        return None;
    };
    let space = PortSpace::from_number(u16::from_be_bytes(space))?;
    Some((space, u16::from_be_bytes([p0, p1])))
}

/// The header: the two ends of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The port of the active side.
    pub source_port: u16,
    /// Its address.
    pub source: IpAddr,
    /// The address of the passive side, of the same family.
    pub destination: IpAddr,
}

/// Why there is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The private data is shorter.
    Short,
    /// Another version of the header.
    Version(u8),
    /// Another version of IP.
    Family(u8),
}

impl Header {
    /// Parses the header before private data; the rest is the program's.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub fn parse(private_data: &[u8]) -> Result<(Self, &[u8]), Refused> {
        let (head, rest) = private_data
            .split_first_chunk::<HEADER>()
            .ok_or(Refused::Short)?;
        let [version, family, p0, p1, addresses @ ..] = *head;
        if version != 0 {
            return Err(Refused::Version(version));
        }
        let (source, destination) = addresses.split_at(16);
        let address = |bytes: &[u8]| address(family >> 4, bytes);
        let header = Self {
            source_port: u16::from_be_bytes([p0, p1]),
            source: address(source)?,
            destination: address(destination)?,
        };
        Ok((header, rest))
    }

    /// Its bytes; `None` if the addresses are of two families.
    #[must_use]
    pub fn emit(&self) -> Option<[u8; HEADER]> {
        let family = match (self.source, self.destination) {
            (IpAddr::V4(_), IpAddr::V4(_)) => 4,
            (IpAddr::V6(_), IpAddr::V6(_)) => 6,
            _ => return None,
        };
        let mut bytes = [0; HEADER];
        let ends: [&[u8]; 4] = [
            &[0, family << 4],
            &self.source_port.to_be_bytes(),
            &in_sixteen(self.source),
            &in_sixteen(self.destination),
        ];
        bytes.copy_from_slice(&ends.concat());
        Some(bytes)
    }
}

/// The address in 16 bytes; IPv4 is in the last four.
fn address(family: u8, bytes: &[u8]) -> Result<IpAddr, Refused> {
    let bytes: [u8; 16] = bytes.try_into().map_err(|_| Refused::Short)?;
    match family {
        4 => {
            let [.., a, b, c, d] = bytes;
            Ok(Ipv4Addr::new(a, b, c, d).into())
        }
        6 => Ok(Ipv6Addr::from(bytes).into()),
        other => Err(Refused::Family(other)),
    }
}

fn in_sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            if let Some(last) = bytes.last_chunk_mut() {
                *last = address.octets();
            }
            bytes
        }
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ports_are_service_ids() {
        assert_eq!(service_id(PortSpace::Tcp, 7471), 0x0106_1d2f);
        assert_eq!(port_of(0x0106_1d2f), Some((PortSpace::Tcp, 7471)));
        assert_eq!(port_of(0x0111_0000), Some((PortSpace::Udp, 0)));
        assert_eq!(port_of(0x0107_1d2f), None);
        assert_eq!(port_of(0x1_0106_1d2f), None);
        for space in PortSpace::ALL {
            assert_eq!(port_of(service_id(space, 0xffff)), Some((space, 0xffff)));
        }
    }

    #[test]
    fn a_header_that_is_none_is_refused() {
        assert_eq!(Header::parse(&[0; HEADER - 1]), Err(Refused::Short));
        let mut bytes = [0; HEADER];
        assert_eq!(Header::parse(&bytes), Err(Refused::Family(0)));
        bytes[0] = 1;
        assert_eq!(Header::parse(&bytes), Err(Refused::Version(1)));
        let mixed = Header {
            source_port: 1,
            source: Ipv4Addr::LOCALHOST.into(),
            destination: Ipv6Addr::LOCALHOST.into(),
        };
        assert_eq!(mixed.emit(), None);
    }

    proptest! {
        #[test]
        fn headers_are_read_as_they_were_written(
            source_port: u16, v6: bool, one: [u8; 16], two: [u8; 16], rest in proptest::collection::vec(any::<u8>(), 0..60)
        ) {
            let family = if v6 { 6 } else { 4 };
            let header = Header {
                source_port,
                source: address(family, &one).unwrap(),
                destination: address(family, &two).unwrap(),
            };
            let bytes = [header.emit().unwrap().as_slice(), &rest].concat();
            prop_assert_eq!(Header::parse(&bytes), Ok((header, rest.as_slice())));
        }
    }
}
