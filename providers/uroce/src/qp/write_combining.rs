//! Write combining: payloads of RDMA writes that arrive together are written by one system call.
//!
//! The progress thread writes to the application's memory by preadv(2), since the application may
//! have unmapped it. With packets of 1 KiB, one call each takes half of that thread's time. So
//! payloads of packets that came together, and that continue each other, are collected here, and
//! written together.
//!
//! *Invariants.* Rights are checked for each packet when it comes. The collected bytes are written
//! before anything else that the packets cause (completion, event, atomic operation,
//! invalidation), and before the packets' acknowledgements are taken. If the region has been
//! deregistered between the check and the write, the queue pair fails, and nothing is acknowledged.

/// Bytes that are collected: those that one system call writes.
const MOST: usize = 1 << 16;

/// Payloads that continue each other.
struct Collected {
    rkey: u32,
    /// Of the first byte.
    address: u64,
    bytes: Vec<u8>,
}

impl Collected {
    fn is_continued_by(&self, rkey: u32, address: u64, data: &[u8]) -> bool {
        let next = u64::try_from(self.bytes.len())
            .ok()
            .and_then(|length| self.address.checked_add(length));
        self.rkey == rkey && next == Some(address) && self.bytes.len() + data.len() <= MOST
    }
}

/// The writes of packets that came together.
#[derive(Default)]
pub(super) struct WriteCombining {
    collected: Option<Collected>,
    failed: bool,
}

impl WriteCombining {
    /// Adds a payload. `write` is called with the bytes collected before, if this does not continue
    /// them.
    pub fn add<E>(
        &mut self,
        (rkey, address): (u32, u64),
        data: &[u8],
        write: impl FnOnce(u32, u64, &[u8]) -> Result<(), E>,
    ) {
        if let Some(collected) = &mut self.collected
            && collected.is_continued_by(rkey, address, data)
        {
            collected.bytes.extend_from_slice(data);
            return;
        }
        let mut bytes = self.flush(write).unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(data);
        self.collected = Some(Collected {
            rkey,
            address,
            bytes,
        });
    }

    /// Has `write` write the collected bytes. Returns their memory, to be used again.
    pub fn flush<E>(
        &mut self,
        write: impl FnOnce(u32, u64, &[u8]) -> Result<(), E>,
    ) -> Option<Vec<u8>> {
        let collected = self.collected.take()?;
        self.failed |= write(collected.rkey, collected.address, &collected.bytes).is_err();
        Some(collected.bytes)
    }

    /// Whether a write has failed after its packets had been taken in.
    pub fn has_failed(&self) -> bool {
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Writes = Vec<(u32, u64, Vec<u8>)>;

    fn combined(payloads: &[(u32, u64, &[u8])]) -> Writes {
        let mut combining = WriteCombining::default();
        let mut writes = Writes::new();
        for (rkey, address, data) in payloads {
            combining.add((*rkey, *address), data, |rkey, address, bytes| {
                writes.push((rkey, address, bytes.to_vec()));
                Ok::<_, ()>(())
            });
        }
        combining.flush(|rkey, address, bytes| {
            writes.push((rkey, address, bytes.to_vec()));
            Ok::<_, ()>(())
        });
        combining.flush(|_, _, _| Err(()));
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
        let mut combining = WriteCombining::default();
        combining.add((7, 1), b"a", |_, _, _| Err(()));
        assert!(!combining.has_failed(), "nothing was written yet");
        combining.add((7, 9), b"b", |_, _, _| Err(()));
        assert!(combining.has_failed());
        combining.flush(|_, _, _| Ok::<_, ()>(()));
        assert!(combining.has_failed());
    }
}
