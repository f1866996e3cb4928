//! Socket addresses of the three families, as values.

use kit::errno::{Errno, Result};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};

const AF_IB: u16 = 27;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// Bytes of `struct sockaddr_storage`.
pub const STORAGE: usize = 128;
/// Bytes of the longest address, that of `AF_IB`.
pub const LONGEST: usize = 48;

/// An address of a family that the connection manager knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    bytes: [u8; LONGEST],
    size: u16,
}

impl Address {
    /// The address at a pointer; none for NULL.
    ///
    /// # Errors
    /// EINVAL for another family.
    ///
    /// # Safety
    /// The pointer is NULL or that of an address as long as its family says.
    #[inline(always)]
    pub unsafe fn from_raw(address: *const libc::sockaddr) -> Result<Option<Self>> {
        if address.is_null() {
            return Ok(None);
        }
        // SAFETY: every address begins with its family.
        let family = unsafe { address.cast::<u16>().read_unaligned() };
        let size = size_of_family(family).ok_or(Errno::INVAL)?;
        let mut bytes = [0; LONGEST];
        let mut copy = |length: usize| {
            // SAFETY: the address is as long as its family says, which is no longer than the array.
            unsafe { core::ptr::copy_nonoverlapping(address.cast(), bytes.as_mut_ptr(), length) };
        };
        // Copied at once where the length is a constant, as that of the usual family.
        match size {
            IPV4 => copy(IPV4.into()),
            other => copy(other.into()),
        }
        Ok(Some(Self { bytes, size }))
    }

    /// The address in the first bytes; none for an unknown family or too few bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let family = u16::from_ne_bytes(*bytes.first_chunk()?);
        let size = size_of_family(family)?;
        let given = bytes.get(..size.into())?;
        let mut bytes = [0; LONGEST];
        bytes[..size.into()].copy_from_slice(given);
        Some(Self { bytes, size })
    }

    /// 0.0.0.0 without a port.
    #[cfg(test)]
    pub fn any() -> Self {
        let mut bytes = [0; LONGEST];
        bytes[..2].copy_from_slice(&AF_INET.to_ne_bytes());
        Self { bytes, size: IPV4 }
    }

    /// The address of an IP host and port.
    pub fn from_ip(address: &SocketAddr) -> Self {
        let mut bytes = [0; LONGEST];
        let mut put = |at: usize, field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
        };
        put(2, &address.port().to_be_bytes());
        let size = match address {
            SocketAddr::V4(address) => {
                put(0, &AF_INET.to_ne_bytes());
                put(4, &address.ip().octets());
                IPV4
            }
            SocketAddr::V6(address) => {
                put(0, &AF_INET6.to_ne_bytes());
                put(4, &address.flowinfo().to_ne_bytes());
                put(8, &address.ip().octets());
                put(24, &address.scope_id().to_ne_bytes());
                IPV6
            }
        };
        Self { bytes, size }
    }

    /// The same host and port as a `struct sockaddr_ib`: the GID is the host's address, and the
    /// service id that of the port in a port space. Where there is no port, the service id's mask
    /// leaves it open; so it is with port space 0.
    pub fn in_infiniband(address: &SocketAddr, space: u32) -> Self {
        const DEFAULT_PARTITION: u16 = 0xffff;
        const SPACE_MASK: u64 = !0xffff;
        const PORT_MASK: u64 = 0xffff;
        let port = u64::from(address.port());
        let mut mask = 0;
        if space != 0 {
            mask |= SPACE_MASK;
        }
        if port != 0 {
            mask |= PORT_MASK;
        }
        let service = (u64::from(space) << 16) + port;
        let (gid, flow, scope) = match in_ipv6(*address) {
            SocketAddr::V6(v6) => (v6.ip().octets(), v6.flowinfo(), v6.scope_id()),
            SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped().octets(), 0, 0),
        };
        let mut bytes = [0; LONGEST];
        let mut put = |at: usize, field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
        };
        put(0, &AF_IB.to_ne_bytes());
        put(2, &DEFAULT_PARTITION.to_be_bytes());
        put(4, &flow.to_ne_bytes());
        put(8, &gid);
        put(24, &service.to_be_bytes());
        put(32, &mask.to_be_bytes());
        put(40, &u64::from(scope).to_ne_bytes());
        Self { bytes, size: IB }
    }

    /// IP host and port; none for another family.
    pub fn ip(&self) -> Option<SocketAddr> {
        let port = u16::from_be(self.port());
        let word = |at: usize| {
            let bytes = self.bytes[at..].first_chunk().copied();
            bytes.map(u32::from_ne_bytes)
        };
        match self.family() {
            AF_INET => {
                let ip: [u8; 4] = *self.bytes[4..].first_chunk()?;
                Some(SocketAddrV4::new(ip.into(), port).into())
            }
            AF_INET6 => {
                let ip: [u8; 16] = *self.bytes[8..].first_chunk()?;
                Some(SocketAddrV6::new(ip.into(), port, word(4)?, word(24)?).into())
            }
            _ => None,
        }
    }

    /// The address of a host of IPv4 that is written as one of IPv6 (`::ffff:a.b.c.d`); none for
    /// all others.
    pub fn unmapped(&self) -> Option<Self> {
        let ip = self.ip()?;
        let canonical = canonical(ip);
        (canonical != ip).then(|| Self::from_ip(&canonical))
    }

    /// The reverse of it: as sockets of IPv6 report hosts of IPv4.
    pub fn in_ipv6(&self) -> Self {
        self.ip().map_or(*self, |ip| Self::from_ip(&in_ipv6(ip)))
    }

    pub fn family(&self) -> u16 {
        u16::from_ne_bytes([self.bytes[0], self.bytes[1]])
    }

    /// The address alone.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.size.into()]
    }

    /// Writes the address to the beginning, with zeros behind it to the length of the longest one.
    #[inline(always)]
    pub fn write_to(&self, storage: &mut [u8; STORAGE]) {
        storage[..LONGEST].copy_from_slice(&self.bytes);
    }

    /// The address with zeros behind it, as long as the longest one.
    pub fn padded(&self) -> &[u8; LONGEST] {
        &self.bytes
    }

    /// The same, as long as there is room in C structures.
    pub fn storage(&self) -> [u8; STORAGE] {
        let mut storage = [0; STORAGE];
        storage[..LONGEST].copy_from_slice(&self.bytes);
        storage
    }

    /// Bytes of the address.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// The port in network byte order. In `AF_IB` it is the part of the service id under the mask.
    pub fn port(&self) -> u16 {
        match self.family() {
            AF_INET | AF_INET6 => u16::from_ne_bytes([self.bytes[2], self.bytes[3]]),
            AF_IB => {
                let word = |at: usize| {
                    let bytes = self.bytes[at..].first_chunk::<8>();
                    bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
                };
                let [.., high, low] = (word(24) & word(32)).to_be_bytes();
                u16::from_ne_bytes([high, low])
            }
            _ => 0,
        }
    }
}

/// The address of IPv4 for its form in IPv6, which sockets of IPv6 use for hosts of IPv4.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip == address.ip() => address,
        ip => SocketAddr::new(ip, address.port()),
    }
}

/// The reverse of [`canonical`].
pub fn in_ipv6(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into(),
        SocketAddr::V6(_) => address,
    }
}

fn family_of(storage: &[u8; STORAGE]) -> u16 {
    u16::from_ne_bytes([storage[0], storage[1]])
}

/// Whether an address of this many bytes is whole, and of a family that the connection manager
/// knows.
pub fn is_address(storage: &[u8; STORAGE], size: u16) -> bool {
    let least = size_of_family(family_of(storage));
    usize::from(size) <= STORAGE && least.is_some_and(|least| size >= least)
}

/// An address that a connection manager reports, with the bytes behind it up to the longest one.
#[inline]
pub fn padded(storage: &[u8; STORAGE], size: u16) -> Option<&[u8; LONGEST]> {
    storage.first_chunk().filter(|_| is_address(storage, size))
}

/// Bytes 8 to 24 of an `AF_IB` address: its GID; zeros for another address.
pub fn gid_of(storage: &[u8; STORAGE], size: u16) -> [u8; 16] {
    if family_of(storage) != AF_IB || !is_address(storage, size) {
        return [0; 16];
    }
    storage[8..].first_chunk().copied().unwrap_or_default()
}

/// Bytes of `struct sockaddr_in`, `sockaddr_in6` and `sockaddr_ib`.
const IPV4: u16 = 16;
const IPV6: u16 = 28;
const IB: u16 = 48;
const _: () = {
    assert!(size_of::<libc::sockaddr_in>() == IPV4 as usize);
    assert!(size_of::<libc::sockaddr_in6>() == IPV6 as usize);
    assert!(LONGEST == IB as usize);
};

fn size_of_family(family: u16) -> Option<u16> {
    match family {
        AF_INET => Some(IPV4),
        AF_INET6 => Some(IPV6),
        AF_IB => Some(IB),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_as_long_as_its_family() {
        let any = Address::any();
        assert_eq!((any.size(), any.bytes().len(), any.port()), (16, 16, 0));
        assert_eq!(Address::from_bytes(&any.storage()), Some(any));
        assert_eq!(Address::from_bytes(&[0, 0]), None);
        assert_eq!(Address::from_bytes(&[2, 0, 1]), None);
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { Address::from_raw(core::ptr::null()) }, Ok(None));
    }

    #[test]
    fn addresses_of_ip_are_written_and_read() {
        for text in ["10.9.0.1:7471", "[fe80::1%3]:7471"] {
            let ip: SocketAddr = text.parse().unwrap();
            let address = Address::from_ip(&ip);
            assert_eq!(
                (address.ip(), u16::from_be(address.port())),
                (Some(ip), 7471)
            );
            assert_eq!(Address::from_bytes(address.bytes()), Some(address));
        }
    }

    #[test]
    fn a_family_that_is_unknown_is_refused() {
        let unix = libc::sockaddr {
            sa_family: 1,
            sa_data: [0; 14],
        };
        // SAFETY: a whole sockaddr.
        let read = unsafe { Address::from_raw(&raw const unix) };
        assert_eq!(read, Err(Errno::INVAL));
    }

    #[test]
    fn hosts_of_ipv4_are_reported_in_ipv6_and_found_again() {
        let address = |text: &str| Address::from_ip(&text.parse().unwrap());
        let (ipv4, mapped) = (address("10.0.0.1:7471"), address("[::ffff:10.0.0.1]:7471"));
        assert_eq!((ipv4.in_ipv6(), mapped.unmapped()), (mapped, Some(ipv4)));
        assert_eq!((mapped.in_ipv6(), ipv4.unmapped()), (mapped, None));
        let ipv6 = address("[fe80::1%3]:7471");
        assert_eq!((ipv6.in_ipv6(), ipv6.unmapped()), (ipv6, None));
    }

    #[test]
    fn a_reported_address_is_taken_whole_or_not_at_all() {
        let mut storage = [7; STORAGE];
        for (family, size) in [(AF_INET, IPV4), (AF_INET6, IPV6), (AF_IB, IB)] {
            storage[..2].copy_from_slice(&family.to_ne_bytes());
            assert!(is_address(&storage, size) && is_address(&storage, 128));
            assert!(!is_address(&storage, size - 1) && !is_address(&storage, 129));
            let gid = if family == AF_IB { [7; 16] } else { [0; 16] };
            assert_eq!(gid_of(&storage, size), gid);
            assert_eq!(gid_of(&storage, size - 1), [0; 16]);
        }
        storage[..2].copy_from_slice(&1_u16.to_ne_bytes());
        assert!(!is_address(&storage, 128));
    }

    #[test]
    fn the_port_of_a_service_id_is_under_its_mask() {
        let mut bytes = [0; 48];
        bytes[..2].copy_from_slice(&AF_IB.to_ne_bytes());
        bytes[24..32].copy_from_slice(&0x0106_1d2f_u64.to_be_bytes());
        bytes[32..40].copy_from_slice(&0xffff_u64.to_be_bytes());
        let address = Address::from_bytes(&bytes).unwrap();
        assert_eq!(u16::from_be(address.port()), 0x1d2f);
    }
}
