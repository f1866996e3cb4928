//! Successes that come together.

use super::{Armed, Cq, Ring};
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
        if self.cq.notifier.is_some() && !self.is_quiet() {
            self.give_back();
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

    /// Whether no event is due for the next one, and none is held back that it counts for. That
    /// does not change before the queue is given back: an event that another thread holds back
    /// meanwhile was due before.
    #[inline]
    fn is_quiet(&mut self) -> bool {
        let holds = self.cq.notifier.as_ref().is_some_and(|one| one.holds());
        !holds && self.ring().is_some_and(|ring| ring.armed == Armed::No)
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
