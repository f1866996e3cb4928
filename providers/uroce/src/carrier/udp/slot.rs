//! Which process a QP number belongs to.
//!
//! A QP number is 10 bits of slot and 14 bits of index. A process claims a slot by binding the
//! abstract Unix datagram socket `\0uroce/<slot>`, a name that belongs to the network namespace
//! and that the kernel frees when the process ends, however it ends. The socket takes in what
//! others got by mistake: a head that says what the Internet header said, then the datagrams.
//! Nothing in it is trusted more than a datagram from the network, since anybody may send here.

use super::heirs;
use super::outbox::octets;
use super::socket::Socket;
use crate::named;
use kit::errno::{Errno, Result};
use kit::sys::datagram::Received;
use rustix::io::{Errno as SystemErrno, IoSlice};
use rustix::net::{self, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketType};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

/// Bits of a QP number that count the process's queue pairs.
pub const INDEX_BITS: u32 = 14;
/// The highest slot. The one above is that of the multicast QP number, and 0 that of the numbers
/// below 16384, among which 0 and 1 are reserved.
pub const LAST: u16 = 1022;
/// Bytes in front of what is handed on.
const HEAD: usize = 48;
const VERSION: u8 = 1;

/// The slot that a QP number names.
#[must_use]
pub fn of(qpn: u32) -> u16 {
    u16::try_from(qpn >> INDEX_BITS & 0x3ff).unwrap_or(0)
}

/// A claimed slot.
#[derive(Debug)]
pub struct Slot {
    number: u16,
    socket: Socket,
}

fn name(slot: u16) -> Result<SocketAddrUnix> {
    named::name(&format!("uroce/{slot}"))
}

impl Slot {
    /// Claims a free slot, beginning the search at a random one.
    ///
    /// # Errors
    /// EADDRNOTAVAIL if all are taken; of socket(2).
    pub fn claim() -> Result<Self> {
        let socket = named::socket(SocketType::DGRAM)?;
        let slots = u64::from(LAST);
        let start = RandomState::new().hash_one(std::process::id()) % slots;
        for step in 0..slots {
            let number = 1 + u16::try_from((start + step) % slots).unwrap_or(0);
            if heirs::is_kept(number) {
                continue;
            }
            match net::bind(&socket, &name(number)?) {
                Ok(()) => {
                    let socket = Socket::new(socket);
                    return Ok(Self { number, socket });
                }
                Err(SystemErrno::ADDRINUSE) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno(libc::EADDRNOTAVAIL))
    }

    /// Its number, 1 to [`LAST`].
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The socket that others hand packets to.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Hands datagrams on to the process of another slot, without waiting.
    ///
    /// # Errors
    /// ECONNREFUSED if there is no such process; EAGAIN if it does not keep up.
    pub fn hand_on(&self, to: u16, run: &Received<'_>) -> Result<()> {
        let head = head(run).ok_or(Errno::INVAL)?;
        self.send(to, &[IoSlice::new(&head), IoSlice::new(run.data)])
    }

    /// The same, of datagrams that were kept.
    ///
    /// # Errors
    /// As for [`Slot::hand_on`].
    pub fn hand_on_packed(&self, to: u16, run: &Packed) -> Result<()> {
        self.send(to, &[IoSlice::new(&run.0)])
    }

    fn send(&self, to: u16, parts: &[IoSlice<'_>]) -> Result<()> {
        let mut nothing = SendAncillaryBuffer::default();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        net::sendmsg_addr(&self.socket, &name(to)?, parts, &mut nothing, flags)?;
        Ok(())
    }

    /// Takes in what was handed on; `None` if it cannot be read, and is dropped.
    ///
    /// # Errors
    /// EAGAIN if there is nothing.
    pub fn take<'a>(&self, buffer: &'a mut [u8]) -> Result<Option<Received<'a>>> {
        let flags = net::RecvFlags::DONTWAIT | net::RecvFlags::TRUNC;
        let (_, length) = net::recv(&self.socket, &mut *buffer, flags)?;
        // Longer than the buffer: cut, and so not whole.
        Ok(buffer.get(..length).and_then(parse))
    }
}

/// Datagrams to be handed on later.
#[derive(Debug)]
pub struct Packed(Box<[u8]>);

impl Packed {
    /// A copy; `None` if they cannot be handed on.
    #[must_use]
    pub fn new(run: &Received<'_>) -> Option<Self> {
        Some(Self([&head(run)?, run.data].concat().into()))
    }

    /// Bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.len()
    }
}

fn head(run: &Received<'_>) -> Option<[u8; HEAD]> {
    let mut head = [0; HEAD];
    let family = if run.source.is_ipv4() { 4 } else { 6 };
    let segment = u16::try_from(run.segment).ok()?;
    let parts: [&[u8]; 7] = [
        &[VERSION, family, run.hop_limit, run.traffic_class],
        &run.port.to_be_bytes(),
        &segment.to_be_bytes(),
        &run.interface.to_be_bytes(),
        &[0; 4],
        &octets(run.source),
        &octets(run.destination),
    ];
    let mut rest = head.as_mut_slice();
    for part in parts {
        let (place, after) = rest.split_at_mut_checked(part.len())?;
        place.copy_from_slice(part);
        rest = after;
    }
    Some(head)
}

fn parse(bytes: &[u8]) -> Option<Received<'_>> {
    let (head, data) = bytes.split_first_chunk::<HEAD>()?;
    let [version, family, hop_limit, traffic_class, ..] = *head;
    let half = |at: usize| Some(u16::from_be_bytes(*head.get(at..)?.first_chunk()?));
    let interface = u32::from_be_bytes(*head.get(8..)?.first_chunk()?);
    let source = address(family, *head.get(16..)?.first_chunk()?)?;
    let destination = address(family, *head.get(32..)?.first_chunk()?)?;
    let segment = usize::from(half(6)?);
    if version != VERSION || segment == 0 {
        return None;
    }
    Some(Received {
        data,
        segment,
        source,
        port: half(4)?,
        destination,
        interface,
        hop_limit,
        traffic_class,
    })
}

/// The address of a family (4 or 6) that was written as 16 bytes.
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
    use proptest::prelude::*;
    use rustix::net::AddressFamily;

    fn run(data: &[u8]) -> Received<'_> {
        Received {
            data,
            segment: 5,
            source: Ipv4Addr::new(10, 1, 2, 3).into(),
            port: 0xc123,
            destination: Ipv4Addr::new(10, 1, 2, 4).into(),
            interface: 77,
            hop_limit: 9,
            traffic_class: 3,
        }
    }

    #[test]
    fn slots_are_claimed_once_and_freed() {
        let first = Slot::claim().expect("a slot");
        let second = Slot::claim().expect("another slot");
        assert_ne!(first.number(), second.number());
        assert!((1..=LAST).contains(&first.number()));
        let socket = net::socket(AddressFamily::UNIX, SocketType::DGRAM, None).expect("a socket");
        let place = name(first.number()).expect("a name");
        assert_eq!(net::bind(&socket, &place), Err(SystemErrno::ADDRINUSE));
        drop(first);
        // Another test's process may be faster, and then has it.
        assert!(matches!(
            net::bind(&socket, &place),
            Ok(()) | Err(SystemErrno::ADDRINUSE)
        ));
    }

    #[test]
    fn packets_are_handed_on_whole() {
        let first = Slot::claim().expect("a slot");
        let second = Slot::claim().expect("another slot");
        let sent = run(b"some bytes");
        assert_eq!(first.hand_on(second.number(), &sent), Ok(()));
        let mut buffer = [0; 200];
        let got = second.take(&mut buffer).expect("something");
        assert_eq!(got, Some(sent));
        assert_eq!(second.take(&mut buffer), Err(Errno::AGAIN));
        assert_eq!(first.hand_on(second.number(), &sent), Ok(()));
        let mut small = [0; 50];
        assert_eq!(second.take(&mut small), Ok(None));
    }

    #[test]
    fn nobody_there_is_told_and_a_sleeper_takes_only_so_much() {
        let first = Slot::claim().expect("a slot");
        let second = Slot::claim().expect("another slot");
        let sent = run(b"some bytes");
        let results = (0..100_000).map(|_| first.hand_on(second.number(), &sent));
        assert!(
            results
                .into_iter()
                .any(|result| result == Err(Errno::AGAIN))
        );
        let gone = second.number();
        drop(second);
        let answer = first.hand_on(gone, &sent);
        assert!(matches!(answer, Ok(()) | Err(Errno(libc::ECONNREFUSED))));
    }

    proptest! {
        #[test]
        fn any_head_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(run) = parse(&bytes) {
                prop_assert_eq!(run.data.len() + HEAD, bytes.len());
                prop_assert!(run.segment > 0);
                prop_assert_eq!(run.source.is_ipv4(), run.destination.is_ipv4());
            }
        }
    }

    #[test]
    fn numbers_name_slots() {
        assert_eq!(of(17), 0);
        assert_eq!(of(1 << INDEX_BITS | 5), 1);
        assert_eq!(of(0x00ff_ffff), LAST + 1);
    }
}
