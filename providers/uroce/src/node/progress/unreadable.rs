//! Sockets that have packets and cannot be read.
//!
//! A program may forbid itself recvmsg(2) and the like (seccomp(2)) after it has opened a device.
//! From then on epoll reports the sockets at once each time. The progress thread waits between its
//! looks then, and says why once.
//!
//! Values of the progress thread alone; no lock.

use kit::errno::Errno;
use kit::log::{self, Level};

/// Failures in a row until the progress thread waits: a socket reports an error that is over once.
const MANY: u32 = 16;

/// Failures in a row.
#[derive(Default)]
pub(super) struct Unreadable {
    failures: u32,
    is_reported: bool,
}

impl Unreadable {
    /// Packets were received, or there were none.
    pub fn ends(&mut self) {
        self.failures = 0;
    }

    /// A socket could not be read. Returns whether to wait before the next look.
    pub fn failed(&mut self, error: Errno) -> bool {
        self.failures = self.failures.saturating_add(1);
        if self.failures < MANY {
            return false;
        }
        // An error of the network is no reason to complain of a sandbox.
        if error.is_denial() && !self.is_reported {
            self.is_reported = true;
            let why = format!(
                "uroce: packets have come that this process may not receive (recvmsg(2), \
                 recvmmsg(2), errno {}): they wait, and requests of peers end with RETRY_EXC",
                error.raw()
            );
            log::line(Level::Warning, &why);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_end_in_a_wait() {
        let mut unreadable = Unreadable::default();
        let waits = |unreadable: &mut Unreadable| unreadable.failed(Errno(libc::EPERM));
        for _ in 0..2 {
            assert!((1..MANY).all(|_| !waits(&mut unreadable)));
            assert!(waits(&mut unreadable) && waits(&mut unreadable));
            unreadable.ends();
        }
    }
}
