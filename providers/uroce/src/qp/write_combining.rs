//! Write combining: payloads of RDMA writes that arrive together are written by one system call.
//!
//! The progress thread writes to the application's memory by preadv(2), since the application may
//! have unmapped it. With packets of 1 KiB, one call each takes half of that thread's time. So
//! payloads of packets that came together, and that continue each other, are collected, at once in
//! the file that preadv(2) reads, and written together.
//!
//! *Invariants.* Rights are checked when a message begins, when a payload comes that continues no
//! others, and for all that were collected when they are written. The collected bytes are written
//! before anything else that the packets cause (completion, event, atomic operation,
//! invalidation), and before the packets' acknowledgements are taken. If the region has been
//! deregistered between the check and the write, the engine learns the PSN of the first packet that
//! was not written ([`uroce_engine::host::Host::settle`]), and refuses that one.

use kit::sys::no_fault_copy::Staged;
use uroce_engine::psn::Psn;

/// The place of a write: its R_Key, and the address of its first byte.
type Start = (u32, u64);

/// The writes of packets that came together.
pub(super) struct WriteCombining {
    /// Payloads that continue each other.
    collected: Staged,
    /// Where the first of them goes, and its packet; `None` if there are none.
    first: Option<(Start, Psn)>,
    /// The packet of the first one that could not be written.
    failed: Option<Psn>,
}

impl WriteCombining {
    /// None yet.
    pub fn new(mut collected: Staged) -> Self {
        collected.clear();
        Self {
            collected,
            first: None,
            failed: None,
        }
    }

    fn is_continued_by(&self, (rkey, address): Start) -> bool {
        let Some(((known, first), _)) = self.first else {
            return false;
        };
        let next = u64::try_from(self.collected.length())
            .ok()
            .and_then(|length| first.checked_add(length));
        known == rkey && next == Some(address)
    }

    /// Adds the payload of a packet, if it continues those that were collected, and there is room.
    pub fn join(&mut self, place: Start, data: &[u8]) -> bool {
        self.is_continued_by(place) && self.collected.add(data)
    }

    /// Adds the payload of a packet that does not join the others. `write` is called with those.
    pub fn add<E>(
        &mut self,
        psn: Psn,
        place: Start,
        data: &[u8],
        write: impl FnOnce(Start, &Staged) -> Result<(), E>,
    ) {
        self.flush(write);
        if self.collected.add(data) {
            self.first = Some((place, psn));
        } else {
            self.fail(psn);
        }
    }

    /// The first failure counts: a later packet is refused with it.
    fn fail(&mut self, psn: Psn) {
        self.failed.get_or_insert(psn);
    }

    /// Has `write` write the collected bytes.
    pub fn flush<E>(&mut self, write: impl FnOnce(Start, &Staged) -> Result<(), E>) {
        if let Some((place, psn)) = self.first.take() {
            if write(place, &self.collected).is_err() {
                self.fail(psn);
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

    /// Where payloads were collected.
    pub fn end(self) -> Staged {
        self.collected
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::sys::no_fault_copy::NoFaultCopy;

    /// Bytes that one call writes.
    const MOST: usize = 1 << 16;

    type Writes = Vec<(u32, u64, Vec<u8>)>;

    fn combining() -> WriteCombining {
        WriteCombining::new(NoFaultCopy::default().stage().expect("a file"))
    }

    fn combined(payloads: &[(u32, u64, &[u8])]) -> Writes {
        let mut combining = combining();
        let mut writes = Writes::new();
        for (psn, (rkey, address, data)) in (0..).map(Psn::new).zip(payloads) {
            if combining.join((*rkey, *address), data) {
                continue;
            }
            combining.add(psn, (*rkey, *address), data, |(rkey, address), bytes| {
                writes.push((rkey, address, bytes.copy(0)));
                Ok::<_, ()>(())
            });
        }
        combining.flush(|(rkey, address), bytes| {
            writes.push((rkey, address, bytes.copy(0)));
            Ok::<_, ()>(())
        });
        combining.flush(|_, _| Err(()));
        assert!(!combining.has_failed(), "nothing was left");
        writes
    }

    #[test]
    fn payloads_that_continue_each_other_are_written_together() {
        let writes = combined(&[(7, 100, b"ab"), (7, 102, b"cde"), (7, 105, b"f")]);
        assert_eq!(writes, [(7, 100, b"abcdef".to_vec())]);
    }

    #[test]
    fn other_places_and_keys_are_apart() {
        let payloads: [(u32, u64, &[u8]); 4] = [
            (7, 100, b"ab"),
            (7, 103, b"c"),
            (8, 104, b"d"),
            (8, 104, b"e"),
        ];
        let expected = payloads.map(|(rkey, address, data)| (rkey, address, data.to_vec()));
        assert_eq!(combined(&payloads), expected);
    }

    #[test]
    fn no_more_is_collected_than_one_call_writes() {
        let packet = vec![1; MOST / 4];
        let at = |index: u64| index * packet.len() as u64;
        let payloads = [0, 1, 2, 3, 4].map(|index| (7, at(index), packet.as_slice()));
        let lengths: Vec<_> = combined(&payloads)
            .iter()
            .map(|(_, _, bytes)| bytes.len())
            .collect();
        assert_eq!(lengths, [MOST, MOST / 4]);
        // Past the end of all addresses.
        assert_eq!(combined(&[(7, u64::MAX, b"ab"), (7, 1, b"c")]).len(), 2);
    }

    #[test]
    fn a_failure_is_remembered() {
        let mut combining = combining();
        let mut add = |psn, address| {
            if !combining.join((7, address), b"a") {
                combining.add(Psn::new(psn), (7, address), b"a", |_, _| Err(()));
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
}
