//! Queue pairs that have failed by themselves, in the middle of a call that may not wait.

use crate::node::registry::Table;
use kit::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};

/// Those that are still to be called.
#[derive(Default)]
pub(in crate::node) struct Failing {
    /// There may be some.
    any: AtomicBool,
    indices: Mutex<Vec<u32>>,
    /// Held while they are called.
    calling: Mutex<()>,
}

impl Failing {
    /// A queue pair has failed.
    pub fn add(&self, index: u32) {
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

    /// Calls those that have failed. Not to be called from inside the call of a queue pair, or with
    /// the inbox locked.
    #[inline]
    pub fn serve(&self, table: &Table) {
        if self.any.load(Relaxed) {
            self.call(table);
        }
    }

    /// Waits until no thread is inside one that was there before.
    pub fn await_calls(&self) {
        drop(self.calling.lock());
    }

    #[cold]
    fn call(&self, table: &Table) {
        let _calling = self.calling.lock();
        for index in self.take() {
            // This waits for the inbox, whose owner may wait for the thread that holds this entry.
            // So a thread that removes an endpoint waits for that lock.
            let endpoint = table.get(index).and_then(|entry| {
                let endpoint = entry.endpoint.read();
                endpoint.as_ref().map(Arc::clone)
            });
            if let Some(endpoint) = endpoint {
                endpoint.failed();
            }
        }
    }
}
