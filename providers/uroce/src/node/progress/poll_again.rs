//! Whether a thread that has just polled will poll again.
//!
//! The progress thread leaves packets to such a thread, and waits whether it polls. A program that
//! polls once for the completion of its request, and then spins on memory until its peer writes
//! there, would wait for the end of that each time (`ib_write_lat`). So after a wait in vain, while
//! the thread ran, the next packets are not left: [`FEWEST`] times, and twice as often after each
//! further one, up to [`MOST`], until a thread has polled again.
//!
//! Values of the progress thread alone; no lock.

/// How often packets are not left after a wait in vain: the first time, and at most.
const FEWEST: u32 = 16;
const MOST: u32 = 1024;

/// What the last waits have shown.
#[derive(Default)]
pub(super) struct PollAgain {
    /// So often packets are not left.
    rest: u32,
    /// How often they were not left after the last wait in vain.
    length: u32,
}

impl PollAgain {
    /// Whether to wait for the thread.
    pub fn is_expected(&mut self) -> bool {
        if self.rest == 0 {
            return true;
        }
        self.rest -= 1;
        false
    }

    /// A thread has polled again.
    pub fn has_come(&mut self) {
        *self = Self::default();
    }

    /// The thread has run all the time, and did not poll.
    pub fn has_not_come(&mut self) {
        self.length = (2 * self.length).clamp(FEWEST, MOST);
        self.rest = self.length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_spins_on_memory_is_seldom_waited_for() {
        let mut poll_again = PollAgain::default();
        let waits = (0..10_000).filter(|_| {
            let is_expected = poll_again.is_expected();
            if is_expected {
                poll_again.has_not_come();
            }
            is_expected
        });
        let all: Vec<u32> = waits.collect();
        assert_eq!(all[..4], [0, 17, 50, 115]);
        assert_eq!(all.len(), 15);
    }

    #[test]
    fn a_thread_that_polls_is_always_waited_for() {
        let mut poll_again = PollAgain::default();
        poll_again.has_not_come();
        assert!((0..FEWEST).all(|_| !poll_again.is_expected()));
        for _ in 0..100 {
            assert!(poll_again.is_expected());
            poll_again.has_come();
        }
        poll_again.has_not_come();
        assert_eq!(poll_again.length, FEWEST);
    }
}
