#![forbid(unsafe_code)]
//! A completion counter kept in software: ibv_create_comp_cntr(3).

use crate::errno::{Errno, Result};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The quantity that a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// Completed requests (`IBV_COMP_CNTR_TYPE_WRS`).
    Requests,
    /// Their bytes (`IBV_COMP_CNTR_TYPE_BYTES`).
    Bytes,
}

/// `max_counters` of a process.
pub const MAX_COMP_CNTRS: u32 = 1 << 16;

/// The counters that there are.
static THERE: AtomicU32 = AtomicU32::new(0);

/// Two counts of 64 bits, which wrap from their maximum to 0. Any thread may use them.
#[derive(Debug)]
pub struct CompCntr {
    counts: Counts,
    completed: AtomicU64,
    failed: AtomicU64,
}

impl CompCntr {
    /// A counter at 0.
    ///
    /// # Errors
    /// ENOMEM when there are [`MAX_COMP_CNTRS`].
    pub fn new(counts: Counts) -> Result<Self> {
        let one_more = |there: u32| (there < MAX_COMP_CNTRS).then_some(there + 1);
        THERE
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .map_err(|_| Errno::NOMEM)?;
        Ok(Self {
            counts,
            completed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        })
    }

    /// A request of `bytes` has completed.
    pub fn completed(&self, bytes: u32) {
        let by = match self.counts {
            Counts::Requests => 1,
            Counts::Bytes => bytes.into(),
        };
        self.completed.fetch_add(by, Ordering::Release);
    }

    /// A request has failed.
    pub fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Release);
    }

    /// The completions and the failures.
    pub fn counts(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Acquire);
        (read(&self.completed), read(&self.failed))
    }

    /// The count of completions, for the application's calls.
    pub(super) fn completions(&self) -> &AtomicU64 {
        &self.completed
    }

    /// The count of failures.
    pub(super) fn failures(&self) -> &AtomicU64 {
        &self.failed
    }
}

impl Drop for CompCntr {
    fn drop(&mut self) {
        THERE.fetch_sub(1, Ordering::Relaxed);
    }
}
