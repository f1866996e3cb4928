//! Write combining: payloads that arrive together for one place are written by one system call.
//!
//! The progress thread writes to the application's memory by preadv(2), since the application may
//! have unmapped it. With packets of 1 KiB, one call each takes half of that thread's time. So
//! payloads of packets that came together, and that continue each other, are collected, at once in
//! the file that preadv(2) reads, and written together: those of RDMA writes, and those for local
//! pieces (of receive requests, and of responses to reads).
//!
//! *Invariants.* Rights are checked when a message begins, when a payload comes that continues no
//! others or is for a local piece, and for all that were collected when they are written. The
//! collected bytes are written before anything else that the packets cause (completion, event,
//! atomic operation, invalidation), and before the packets' acknowledgements are taken. If the
//! region has been deregistered between the check and the write, the engine learns the PSN of the
//! first packet of an RDMA write that was not written ([`uroce_engine::host::Host::settle`]), and
//! refuses that one. A program that deregisters memory of a local request gets its completion in
//! error, and the queue pair fails.

use crate::memory::WriteRight;
use kit::sys::no_fault_copy::Staged;
use uroce_engine::psn::Psn;

/// Where a payload goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// By whose right.
    pub by: WriteRight,
    /// The key.
    pub key: u32,
    /// The address of the first byte.
    pub address: u64,
}

impl Target {
    /// The place so many bytes further on.
    fn after(self, bytes: usize) -> Option<Self> {
        let bytes = u64::try_from(bytes).ok()?;
        let address = self.address.checked_add(bytes)?;
        Some(Self { address, ..self })
    }
}

/// The payloads of packets that came together.
pub(super) struct WriteCombining {
    /// Payloads that continue each other.
    collected: Staged,
    /// Where the first of them goes, and its packet; `None` if there are none.
    first: Option<(Target, Psn)>,
    /// The packet of the first RDMA write that could not be done.
    failed: Option<Psn>,
    /// Payloads for a local piece were lost.
    lost: bool,
}

impl WriteCombining {
    /// None yet.
    pub fn new(mut collected: Staged) -> Self {
        collected.clear();
        Self {
            collected,
            first: None,
            failed: None,
            lost: false,
        }
    }

    /// Adds the payload of a packet, if it continues those that were collected, and there is room.
    pub fn join(&mut self, target: Target, data: &[u8]) -> bool {
        let next = |(first, _): (Target, Psn)| first.after(self.collected.length());
        self.first.and_then(next) == Some(target) && self.collected.add(data)
    }

    /// Adds the payload of a packet that does not join the others. `write` is called with those.
    /// The packet's PSN is that of an RDMA write.
    pub fn add<E>(
        &mut self,
        psn: Psn,
        target: Target,
        data: &[u8],
        write: impl FnOnce(Target, &Staged) -> Result<(), E>,
    ) {
        self.flush(write);
        if self.collected.add(data) {
            self.first = Some((target, psn));
        } else {
            self.fail(target, psn);
        }
    }

    /// The first failure counts: a later packet is refused with it.
    fn fail(&mut self, target: Target, psn: Psn) {
        match target.by {
            WriteRight::Peer(_) => {
                self.failed.get_or_insert(psn);
            }
            WriteRight::Local(_) => self.lost = true,
        }
    }

    /// Has `write` write the collected bytes.
    pub fn flush<E>(&mut self, write: impl FnOnce(Target, &Staged) -> Result<(), E>) {
        if let Some((target, psn)) = self.first.take() {
            if write(target, &self.collected).is_err() {
                self.fail(target, psn);
            }
            self.collected.clear();
        }
    }

    /// Whether a write has failed after its packets had been taken in.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The first packet whose write has failed, once.
    pub fn take_failed(&mut self) -> Option<Psn> {
        self.failed.take()
    }

    /// Whether payloads for a local piece were lost, once.
    pub fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    /// Where payloads were collected.
    pub fn end(self) -> Staged {
        self.collected
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{PdId, Peer};
    use kit::sys::no_fault_copy::NoFaultCopy;

    /// Bytes that one call writes.
    const MOST: usize = 1 << 16;

    const OWNER: Peer = Peer {
        pd: PdId::NONE,
        qpn: 9,
    };

    fn remote(key: u32, address: u64) -> Target {
        let by = WriteRight::Peer(OWNER);
        Target { by, key, address }
    }

    fn local(key: u32, address: u64) -> Target {
        let by = WriteRight::Local(OWNER.pd);
        Target { by, key, address }
    }

    type Writes = Vec<(Target, Vec<u8>)>;

    fn combining() -> WriteCombining {
        WriteCombining::new(NoFaultCopy::default().stage().expect("a file"))
    }

    fn combined(payloads: &[(Target, &[u8])]) -> Writes {
        let mut combining = combining();
        let mut writes = Writes::new();
        for (psn, (place, data)) in (0..).map(Psn::new).zip(payloads) {
            if combining.join(*place, data) {
                continue;
            }
            combining.add(psn, *place, data, |place, bytes| {
                writes.push((place, bytes.copy(0)));
                Ok::<_, ()>(())
            });
        }
        combining.flush(|place, bytes| {
            writes.push((place, bytes.copy(0)));
            Ok::<_, ()>(())
        });
        combining.flush(|_, _| Err(()));
        assert!(!combining.has_failed(), "nothing was left");
        writes
    }

    #[test]
    fn payloads_that_continue_each_other_are_written_together() {
        for place in [remote, local] {
            let payloads: [(Target, &[u8]); 3] = [
                (place(7, 100), b"ab"),
                (place(7, 102), b"cde"),
                (place(7, 105), b"f"),
            ];
            assert_eq!(combined(&payloads), [(place(7, 100), b"abcdef".to_vec())]);
        }
    }

    #[test]
    fn other_places_and_keys_are_apart() {
        let payloads: [(Target, &[u8]); 5] = [
            (remote(7, 100), b"ab"),
            (remote(7, 103), b"c"),
            (remote(8, 104), b"d"),
            (remote(8, 104), b"e"),
            (local(8, 105), b"f"),
        ];
        let expected = payloads.map(|(place, data)| (place, data.to_vec()));
        assert_eq!(combined(&payloads), expected);
    }

    #[test]
    fn no_more_is_collected_than_one_call_writes() {
        let packet = vec![1; MOST / 4];
        let at = |index: u64| index * packet.len() as u64;
        let payloads = [0, 1, 2, 3, 4].map(|index| (remote(7, at(index)), packet.as_slice()));
        let lengths: Vec<_> = combined(&payloads)
            .iter()
            .map(|(_, bytes)| bytes.len())
            .collect();
        assert_eq!(lengths, [MOST, MOST / 4]);
        // Past the end of all addresses.
        let payloads: [(Target, &[u8]); 2] = [(remote(7, u64::MAX), b"ab"), (remote(7, 1), b"c")];
        assert_eq!(combined(&payloads).len(), 2);
    }

    #[test]
    fn a_failure_is_remembered() {
        let mut combining = combining();
        let mut add = |psn, address| {
            let place = remote(7, address);
            if !combining.join(place, b"a") {
                combining.add(Psn::new(psn), place, b"a", |_, _| Err(()));
            }
            combining.failed
        };
        assert_eq!(add(3, 1), None, "nothing was written yet");
        assert_eq!(add(4, 2), None, "it continues the first");
        assert_eq!(add(5, 9), Some(Psn::new(3)));
        assert_eq!(add(6, 1), Some(Psn::new(3)), "the first counts");
        combining.flush(|_, _| Ok::<_, ()>(()));
        assert!(combining.has_failed());
        assert_eq!(combining.take_failed(), Some(Psn::new(3)));
        assert!(!combining.has_failed());
    }

    #[test]
    fn lost_payloads_of_a_local_piece_are_no_failure_of_a_write() {
        let mut combining = combining();
        let place = local(7, 1);
        combining.add(Psn::new(3), place, b"a", |_, _| Ok::<_, ()>(()));
        assert!(!combining.take_lost());
        combining.flush(|_, _| Err(()));
        assert!(combining.take_lost() && !combining.has_failed());
        assert!(!combining.take_lost(), "once");
    }
}
