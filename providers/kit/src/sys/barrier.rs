//! Barriers that one thread has others pass (membarrier(2)), so that they need none themselves.
//!
//! Where each of two threads writes something and then looks at what the other writes, one of them has to
//! see the other's. That takes a full fence on both sides, or a barrier by the one who seldom does it.

use core::sync::atomic::{AtomicU8, Ordering};
use rustix::thread::{MembarrierCommand, membarrier};

/// A kind of barrier: how it is asked for, and what has to be asked before.
struct Kind {
    registration: MembarrierCommand,
    command: MembarrierCommand,
    state: AtomicU8,
}

const UNKNOWN: u8 = 0;
const READY: u8 = 1;
const NONE: u8 = 2;

static PRIVATE: Kind = Kind {
    registration: MembarrierCommand::RegisterPrivateExpedited,
    command: MembarrierCommand::PrivateExpedited,
    state: AtomicU8::new(UNKNOWN),
};

impl Kind {
    /// Whether the kernel has it, and this process may use it.
    fn is_ready(&self) -> bool {
        match self.state.load(Ordering::Acquire) {
            UNKNOWN => self.register(),
            state => state == READY,
        }
    }

    #[cold]
    fn register(&self) -> bool {
        // A process that was forked has what its parent had registered.
        let ready = !cfg!(miri) && membarrier(self.registration).is_ok();
        let state = if ready { READY } else { NONE };
        self.state.store(state, Ordering::Release);
        ready
    }

    fn pass(&self) -> bool {
        self.is_ready() && membarrier(self.command).is_ok()
    }
}

/// Has all threads of this process pass a full barrier: what each wrote before its barrier can be seen by
/// the caller when this returns, and what the caller wrote before the call by all that each reads after its
/// barrier. `false`, and nothing is sure, where the kernel has no such call or a filter forbids it.
#[must_use]
pub fn private() -> bool {
    PRIVATE.pass()
}
