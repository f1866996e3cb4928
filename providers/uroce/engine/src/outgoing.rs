//! Packets on their way out: headers as values, payload as places to gather from.

use crate::psn::Psn;
use crate::wire::Headers;
use crate::work::Sge;

/// A packet to send. It borrows from the queue pair, so it is built or gathered before the next
/// call.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'q> {
    /// The headers, pad count included.
    pub headers: Headers,
    /// The payload, without pad.
    pub payload: Payload<'q>,
    /// The host's name for the address handle; `None` for the connected peer.
    pub address: Option<u64>,
    /// The argument of [`crate::qp::QueuePair::gather_failed`] if the payload cannot be read.
    pub origin: Origin,
}

/// Which part of the queue pair a packet came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The requester, with the packet's PSN.
    Request(Psn),
    /// The responder, with the packet's PSN.
    Reply(Psn),
}

/// Where the payload is.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'q> {
    /// In the queue pair, or empty.
    Bytes(&'q [u8]),
    /// In local memory.
    Local(Gather<'q>),
    /// In memory that the peer reads, under a key it named.
    Remote {
        /// R_Key.
        rkey: u32,
        /// First byte.
        address: u64,
        /// Bytes.
        length: u32,
    },
}

impl Payload<'_> {
    /// Bytes.
    #[must_use]
    pub fn length(&self) -> u32 {
        match self {
            Self::Bytes(bytes) => u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            Self::Local(gather) => gather.length,
            Self::Remote { length, .. } => *length,
        }
    }
}

/// A range of a list of pieces, as pieces: an iterator.
#[derive(Clone, Copy, Debug)]
pub struct Gather<'q> {
    sges: &'q [Sge],
    skip: u64,
    length: u32,
}

impl<'q> Gather<'q> {
    /// `length` bytes, from `skip` bytes after the beginning of the first piece.
    #[must_use]
    pub fn new(sges: &'q [Sge], skip: u64, length: u32) -> Self {
        Self { sges, skip, length }
    }
}

impl Iterator for Gather<'_> {
    type Item = Sge;

    fn next(&mut self) -> Option<Sge> {
        while self.length > 0 {
            let (first, rest) = self.sges.split_first()?;
            let Some(skip) = u32::try_from(self.skip)
                .ok()
                .filter(|skip| *skip < first.length)
            else {
                self.skip = self.skip.saturating_sub(u64::from(first.length));
                self.sges = rest;
                continue;
            };
            let length = (first.length - skip).min(self.length);
            self.length -= length;
            self.skip = self.skip.saturating_add(u64::from(length));
            return Some(Sge {
                address: first.address.wrapping_add(u64::from(skip)),
                length,
                lkey: first.lkey,
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_range_of_pieces_is_that_of_their_bytes(
            lengths in proptest::collection::vec(0u32..50, 0..8),
            skip in 0usize..200,
            take in 0usize..200,
        ) {
            let sges: Vec<Sge> = lengths
                .iter()
                .zip(1u64..)
                .map(|(length, key)| Sge { address: key * 1000, length: *length, lkey: 7 })
                .collect();
            let spread = |sges: Vec<Sge>| -> Vec<u64> {
                sges.iter().flat_map(|sge| sge.address..sge.address + u64::from(sge.length)).collect()
            };
            let all = spread(sges.clone());
            let skip = skip.min(all.len());
            let take = take.min(all.len() - skip);
            let gather = Gather::new(&sges, skip as u64, u32::try_from(take).expect("small"));
            let pieces: Vec<Sge> = gather.collect();
            prop_assert!(pieces.iter().all(|piece| piece.length > 0 && piece.lkey == 7));
            prop_assert_eq!(spread(pieces), all[skip..skip + take].to_vec());
        }
    }
}
