//! The slot of a process: the part of its QP numbers by which packets find it
//! ([`crate::carrier::qpn`]).
//!
//! A process claims a slot ([`crate::carrier::registry`]), and
//! has a socket for datagrams that other processes received by mistake and forward: a head with the
//! fields of the Internet header, then the datagrams. The head is trusted because the kernel
//! confirms that the sender is a process of the same user; messages of others are dropped.

use super::targets::Targets;
use crate::carrier::address::{address, octets};
use crate::carrier::registry::Registry;
use kit::errno::{Errno, Result};
use kit::sys::datagram::{Received, passing};
use rustix::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Bytes before a forwarded packet.
const HEAD: usize = 48;
const VERSION: u8 = 1;

/// A claimed slot.
#[derive(Debug)]
pub struct Slot {
    registry: Arc<Registry>,
    targets: Targets,
}

impl Slot {
    /// Claims a free slot; with a rendezvous socket of shared memory if that is wanted.
    ///
    /// # Errors
    /// EADDRNOTAVAIL if all are taken; of socket(2).
    pub fn claim(rendezvous: bool) -> Result<Self> {
        Ok(Self {
            registry: Registry::claim(rendezvous)?,
            targets: Targets::default(),
        })
    }

    /// Its number, 1 to [`crate::carrier::qpn::LAST`].
    #[must_use]
    pub fn number(&self) -> u16 {
        self.registry.slot()
    }

    /// How others are found, and find this process.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The socket that others hand packets to.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.registry.packets()
    }

    /// Hands datagrams on to the process of another slot, without waiting.
    ///
    /// # Errors
    /// ECONNREFUSED if there is no such process; EAGAIN if it does not keep up, or it is not known
    /// yet whether it is there.
    pub fn hand_on(&self, to: u16, run: &Received<'_>) -> Result<()> {
        let head = head(run).ok_or(Errno::INVAL)?;
        let parts = [IoSlice::new(&head), IoSlice::new(run.data)];
        self.targets.send(&self.registry, to, &parts)
    }

    /// The same, of datagrams that were kept.
    ///
    /// # Errors
    /// As for [`Slot::hand_on`].
    pub fn hand_on_packed(&self, to: u16, run: &Packed) -> Result<()> {
        let parts = [IoSlice::new(&run.0)];
        self.targets.send(&self.registry, to, &parts)
    }

    /// Receives a forwarded packet; `None` if it cannot be read, or comes from another user, and is
    /// dropped.
    ///
    /// # Errors
    /// EAGAIN if there is nothing.
    pub fn take<'a>(&self, buffer: &'a mut [u8]) -> Result<Option<Received<'a>>> {
        let passed = passing::take(self.socket(), buffer)?;
        let user = self.registry.user();
        if !passed.sender.is_some_and(|sender| user.is(sender.uid)) {
            return Ok(None);
        }
        // Longer than the buffer: cut, and so not whole.
        let bytes = passed.length.and_then(|length| buffer.get(..length));
        Ok(bytes.and_then(parse))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::qpn::LAST;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

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
    fn slots_are_claimed_once() {
        let first = Slot::claim(false).expect("a slot");
        let second = Slot::claim(false).expect("another slot");
        assert_ne!(first.number(), second.number());
        assert!((1..=LAST).contains(&first.number()));
    }

    #[test]
    fn packets_are_handed_on_whole() {
        let first = Slot::claim(false).expect("a slot");
        let second = Slot::claim(false).expect("another slot");
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
    fn an_empty_slot_is_an_error_and_a_stopped_process_takes_only_so_much() {
        let first = Slot::claim(false).expect("a slot");
        let second = Slot::claim(false).expect("another slot");
        let sent = run(b"some bytes");
        let results = (0..100_000).map(|_| first.hand_on(second.number(), &sent));
        assert!(
            results
                .into_iter()
                .any(|result| result == Err(Errno::AGAIN))
        );
        let gone = second.number();
        drop(second);
        // It is looked for again, which is not done all the time.
        let answer = std::iter::repeat_with(|| first.hand_on(gone, &sent))
            .find(|answer| *answer != Err(Errno::AGAIN));
        // Another test's process may have the slot now.
        assert!(matches!(
            answer,
            Some(Ok(()) | Err(Errno(libc::ECONNREFUSED)))
        ));
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
}
