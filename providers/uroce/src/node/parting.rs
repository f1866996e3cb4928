//! Queue pairs that go: their peers get the answers that they wait for.
//!
//! By the network an answer is on its way once it is sent. In a ring there may be no room for it, and the
//! process may end before there is.

use super::core::Core;
use std::time::{Duration, Instant};

/// How long a peer is waited for that takes nothing.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long nobody waits again after a wait in vain.
const VAIN: Duration = Duration::from_secs(1);
/// Looks at the rings in a row: more may come than anybody waits for.
const LOOKS: u32 = 8;

impl Core {
    /// Takes in what has come by the rings, sends what a queue pair has to send, and sees to it that it
    /// has left.
    pub fn see_off(&self, index: u32) {
        if self.directory.is_some() {
            self.take_in_rings();
        }
        self.send_out(index);
        if !self.waits_for_room(index) || self.was_in_vain() {
            return;
        }
        let began = Instant::now();
        while self.waits_for_room(index) {
            if began.elapsed() > PATIENCE {
                *self.in_vain.lock() = Some(Instant::now());
                return;
            }
            std::thread::yield_now();
            self.take_in_rings();
            self.send_out(index);
        }
    }

    fn was_in_vain(&self) -> bool {
        let in_vain = *self.in_vain.lock();
        in_vain.is_some_and(|since| since.elapsed() < VAIN)
    }

    fn waits_for_room(&self, index: u32) -> bool {
        let Some(entry) = self.table.get(index) else {
            return false;
        };
        let endpoint = entry.endpoint.read();
        let endpoint = endpoint.as_deref();
        endpoint.is_some_and(|endpoint| endpoint.waits_for_room())
    }

    fn take_in_rings(&self) {
        let mut inbox = self.inbox.lock();
        for _ in 0..LOOKS {
            if !inbox.take_in_rings(self) {
                return;
            }
        }
    }
}
