//! The credit that a queue pair publishes for its peer: its receive requests.
//!
//! The peer reads it when it has used up the credit that it read before, and not for each message,
//! so the cache line mostly stays here, where each posted request changes it.

use kit::sys::shared::ReadOnlyWord;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Words of a credit: a separate cache line.
pub const WORDS: usize = 8;

/// So many messages may come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// Messages on the eager path that the queue pair takes in the life of the connection, those
    /// that it has taken among them.
    pub limit: u32,
    /// The most bytes of a message.
    pub room: u32,
    /// The epoch that is expected of messages.
    pub epoch: u32,
}

impl Credit {
    pub(super) fn show(self, place: &[AtomicU64]) {
        let [first, second, ..] = place else {
            return;
        };
        second.store(u64::from(self.epoch), Relaxed);
        first.store(u64::from(self.limit) | u64::from(self.room) << 32, Release);
    }

    /// The limit and the room are of the same moment. The epoch may be another's, if that changes
    /// meanwhile: the gate changes then, too.
    pub(super) fn read(place: &[ReadOnlyWord]) -> Option<Self> {
        let [first, second, ..] = place else {
            return None;
        };
        let word = first.load(Acquire);
        Some(Self {
            limit: u32::try_from(word & 0xffff_ffff).ok()?,
            room: u32::try_from(word >> 32).ok()?,
            epoch: u32::try_from(second.load(Relaxed)).ok()?,
        })
    }
}
