//! How many more send requests a queue takes.
//!
//! A signalled request occupies its place until its completion is polled, as on a card. Therefore a
//! program that posts until ENOMEM, and polls then, never overruns a completion queue with as many
//! entries as the send queue has places. Soft-RoCE frees the place at completion: there such a
//! program overruns its completion queue. An unsignalled request occupies its place until it is
//! complete, as over soft-RoCE; a card frees the place when a later completion is polled.
//!
//! [`SendRoom`] counts places that are known to be free. The occupied ones are counted only when no
//! place is known to be free, which a queue pays once for as many requests as it has found places
//! for. So neither completing nor polling a request costs anything.

use crate::cq::Cq;

/// Places of a send queue that are known to be free. There may be more.
#[derive(Debug, Default)]
pub struct SendRoom(usize);

impl SendRoom {
    /// Whether that many places are known to be free.
    #[inline]
    #[must_use]
    pub fn has(&self, places: usize) -> bool {
        self.0 >= places
    }

    /// A request takes a place that is free.
    #[inline]
    pub fn take(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }

    /// Counts anew whether so many places are free.
    #[inline(never)]
    pub fn count(&mut self, wanted: usize, occupied: Occupied<'_>) {
        let free = occupied.places.saturating_sub(occupied.outstanding);
        let Some(cq) = occupied.cq else {
            self.0 = free;
            return;
        };
        // The completion queue has no fewer entries than it has of this queue pair. Often that is
        // enough to know, without its lock.
        self.0 = free.saturating_sub(cq.len());
        if self.0 < wanted && free >= wanted {
            self.0 = free.saturating_sub(cq.sends_of(occupied.number));
        }
    }
}

/// What occupies the places of a send queue.
#[derive(Clone, Copy)]
pub struct Occupied<'a> {
    /// All places.
    pub places: usize,
    /// Requests that are not complete.
    pub outstanding: usize,
    /// The queue with the completions.
    pub cq: Option<&'a Cq>,
    /// The number of the queue pair.
    pub number: u32,
}
