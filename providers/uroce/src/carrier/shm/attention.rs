//! The number by which a process shows its peers whether it sleeps, and the steps of threads that
//! sleep and that wake others.
//!
//! | step | of | action |
//! | --- | --- | --- |
//! | [`sleep`], [`sleep_on`], [`wake`] | a thread that sleeps | says so, looks for something that came before others could know, says that it is awake |
//! | [`request_reports`] | a thread that puts something into a ring | asks peers to report taken records, if no thread polls here |
//! | [`wakes`] | a thread that has put something, or taken it | whether it has to wake the peer: once for each sleep |
//!
//! *Order.* A thread that puts a record asks for reports, shows the record, wakes the peer if that
//! sleeps, and asks for reports again: if its own process fell asleep in between, it wakes that. A
//! thread that takes a record shows that, and wakes the peer if that waits for it. One that puts
//! records which had waited for room wakes the peer like any other.
//!
//! A thread that sleeps says so, looks, and looks again after [`super::LATE`]: by then it sees all
//! that others showed while they could not see that it sleeps. If something depends on peers only
//! then, they report it from then on, and it looks a third time after as long. Therefore a thread
//! that shows something, and then finds the process awake, need not wake it.
//!
//! *Tests.* `interleavings`: loom tries every order of these steps, and finds that none of the
//! looks can be left out.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// No thread looks at the rings: a peer that puts something there wakes the process.
pub const SLEEPS: u64 = 1;
/// The process also waits for its peers to consume its records.
pub const AWAITS: u64 = 2;
/// The process has closed its last device, and looks no more.
pub const CLOSED: u64 = 4;
/// Step of the number each time that the process goes to sleep. A peer wakes it once for each.
const SLEEP: u64 = 1 << 8;

/// Such a number: in memory that processes share, or in a model.
pub trait Attention {
    /// Its value.
    fn load(&self) -> u64;
    /// Adds to it.
    fn add(&self, value: u64);
    /// Sets bits; returns the value before.
    fn set(&self, bits: u64) -> u64;
    /// Takes bits away.
    fn clear(&self, bits: u64);
    /// Replaces it; returns the value before.
    fn swap(&self, value: u64) -> u64;
}

impl Attention for AtomicU64 {
    #[inline]
    fn load(&self) -> u64 {
        self.load(SeqCst)
    }

    fn add(&self, value: u64) {
        self.fetch_add(value, SeqCst);
    }

    #[inline]
    fn set(&self, bits: u64) -> u64 {
        self.fetch_or(bits, SeqCst)
    }

    fn clear(&self, bits: u64) {
        self.fetch_and(!bits, SeqCst);
    }

    #[inline]
    fn swap(&self, value: u64) -> u64 {
        self.swap(value, SeqCst)
    }
}

/// No thread of this process looks at the rings from now on, until [`wake`]. `awaits` answers
/// whether anything depends on records that peers consume.
pub fn sleep(own: &impl Attention, awaits: impl Fn() -> bool) {
    let flags = if awaits() { SLEEPS | AWAITS } else { SLEEPS };
    own.add(SLEEP);
    own.set(flags);
    if flags & AWAITS == 0 && awaits() {
        // Since it was asked.
        own.set(AWAITS);
    }
}

/// A thread sleeps since [`sleep`], and [`super::LATE`] has passed. Returns whether something
/// depends on peers by now that it could not see before. Then peers know of it only from now on,
/// and the caller has to look at once, and again after as long.
pub fn sleep_on(own: &impl Attention, awaits: impl Fn() -> bool) -> bool {
    awaits() && own.set(AWAITS) & AWAITS == 0
}

/// A thread of this process looks at the rings again.
pub fn wake(own: &impl Attention) {
    own.clear(SLEEPS | AWAITS);
}

/// Requests peers to report consumed records, if no thread polls here. Returns whether this is a
/// new request.
#[inline]
pub fn request_reports(own: &impl Attention) -> bool {
    let asks = own.load() & (SLEEPS | AWAITS) == SLEEPS;
    if asks {
        own.set(AWAITS);
    }
    asks
}

/// Whether a peer with this number is to be woken, if it sleeps with this flag. `woken` has the
/// sleep that it was woken from last.
#[inline]
pub fn wakes(peer: u64, flag: u64, woken: &impl Attention) -> bool {
    let sleep = peer / SLEEP;
    peer & flag != 0 && woken.swap(sleep) != sleep
}

// loom switches stacks by itself, which Miri does not support.
#[cfg(not(miri))]
#[cfg(test)]
mod interleavings;
