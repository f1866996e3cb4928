//! Successes that come together.

use super::{Cq, Ring};
use kit::abi::ibv_wc;
use kit::sys::lock::Guard;
use std::sync::atomic::Ordering;

/// Adds successes to a queue that is locked once for all of them. The lock is released where events
/// have to be reported. The completions can be polled when the value is dropped at the latest, so
/// it must not be kept longer than it takes to receive the pending messages.
pub struct Filling<'q> {
    pub(super) cq: &'q Cq,
    pub(super) ring: Option<Guard<'q, Ring>>,
}

impl<'q> Filling<'q> {
    /// As [`Cq::push_success`].
    #[inline(always)]
    pub fn push_success(&mut self, wc: ibv_wc, solicited: bool) -> bool {
        if self.cq.notifier.is_some() {
            return self.cq.push_success(wc, solicited);
        }
        let at = self.cq.now();
        let Some(ring) = self.ring() else {
            return false;
        };
        // No event is reported, but a request for an event is used up all the same.
        ring.add(wc, at, solicited);
        true
    }

    /// Others may use the queue until the next one is added.
    #[inline]
    pub fn give_back(&mut self) {
        self.show();
        self.ring = None;
    }

    /// The ring, with room for another completion.
    #[inline(always)]
    fn ring(&mut self) -> Option<&mut Ring> {
        let ring = self.ring.as_ref();
        if !ring.is_some_and(|ring| self.cq.takes_one(ring)) {
            self.lock();
        }
        self.ring.as_deref_mut()
    }

    #[inline(never)]
    fn lock(&mut self) {
        // A queue without room is given up, with its entries.
        self.show();
        let cq: &'q Cq = self.cq;
        let ring = self.ring.take().unwrap_or_else(|| cq.ring.lock());
        self.ring = cq.with_room(ring);
    }

    #[inline]
    fn show(&self) {
        if let Some(ring) = &self.ring {
            self.cq.length.store(ring.entries.len(), Ordering::Release);
        }
    }
}

impl Drop for Filling<'_> {
    #[inline]
    fn drop(&mut self) {
        self.show();
    }
}
