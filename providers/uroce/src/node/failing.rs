//! Queue pairs that have failed by themselves, in the middle of a call that may not wait.

use super::core::Core;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};

/// Those that are still to be called.
#[derive(Default)]
pub struct Failing {
    /// There may be some.
    any: AtomicBool,
    indices: Mutex<Vec<u32>>,
    /// Held while they are called.
    calling: Mutex<()>,
}

impl Failing {
    fn add(&self, index: u32) {
        let mut indices = self.indices.lock();
        if !indices.contains(&index) {
            indices.push(index);
        }
        self.any.store(true, SeqCst);
    }

    fn take(&self) -> Vec<u32> {
        self.any.store(false, SeqCst);
        std::mem::take(&mut self.indices.lock())
    }
}

impl Core {
    /// A queue pair has failed: whoever polls next calls it, or the helper.
    pub fn failed(&self, index: u32) {
        self.failing.add(index);
        self.alarm.kick();
    }

    /// Calls those that have failed. Not to be called from inside the call of a queue pair, or with the inbox
    /// locked.
    #[inline]
    pub fn serve_failed(&self) {
        if self.failing.any.load(Relaxed) {
            self.call_failed();
        }
    }

    /// Waits until nobody is inside one that was there before.
    pub fn await_failed(&self) {
        drop(self.failing.calling.lock());
    }

    #[cold]
    fn call_failed(&self) {
        let _calling = self.failing.calling.lock();
        for index in self.failing.take() {
            // It waits for the inbox, and who has that may wait for whoever holds this entry. So who takes an
            // endpoint away waits for that lock.
            let endpoint = self.table.get(index).and_then(|entry| {
                let endpoint = entry.endpoint.read();
                endpoint.as_ref().map(Arc::clone)
            });
            if let Some(endpoint) = endpoint {
                endpoint.failed();
            }
        }
    }
}
