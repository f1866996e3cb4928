//! Busy polling: the progress thread looks for packets for a moment before it sleeps, while a
//! stream comes in that it alone receives.
//!
//! To sleep and to be woken costs both ends more than a packet does, the sender as well: it wakes
//! the other processor inside of the call that sends. A stream of RDMA writes would pay for that
//! whenever the receiver has caught up with it.
//!
//! The moment adapts as that of KVM's halt polling: it becomes longer where packets came soon after
//! it had ended in vain, and is given up where they came late. Packets that carry little cause no
//! busy polling: between two of them a program has its turn, perhaps on the same processor.
//!
//! Values of the progress thread alone; no lock.

/// The moment at first, and at most, in nanoseconds.
const FIRST: u64 = 16_000;
const MOST: u64 = 64_000;
/// Bytes that came at once, at least, where a stream comes in.
const STREAM: u64 = 16 << 10;

/// How long the progress thread looks for packets before it sleeps. Times are nanoseconds.
#[derive(Default)]
pub(super) struct BusyPoll {
    length: u64,
    /// When the thread had received what there was, while a stream came in.
    idle_since: Option<u64>,
}

impl BusyPoll {
    /// So many bytes were received until now.
    pub fn received(&mut self, bytes: u64, now: impl FnOnce() -> u64) {
        self.idle_since = (bytes >= STREAM).then(now);
    }

    /// Until when to look for packets; `None` to sleep at once.
    pub fn until(&self) -> Option<u64> {
        let since = self.idle_since.filter(|_| self.length > 0)?;
        Some(since.saturating_add(self.length))
    }

    /// The thread has slept after that, and something has woken it.
    pub fn woken(&mut self, now: impl FnOnce() -> u64) {
        let Some(since) = self.idle_since.take() else {
            return;
        };
        self.length = if now().saturating_sub(since) <= MOST {
            (2 * self.length).clamp(FIRST, MOST)
        } else {
            0
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that pauses for so long each time; whether the thread sleeps in the pauses.
    fn sleeps(busy_poll: &mut BusyPoll, pauses: &[u64]) -> Vec<bool> {
        let mut now = 1_000_000;
        let mut sleeps = |pause| {
            busy_poll.received(STREAM, || now);
            let is_awake = busy_poll.until().is_some_and(|until| now + pause < until);
            now += pause;
            if !is_awake {
                busy_poll.woken(|| now);
            }
            !is_awake
        };
        pauses.iter().map(|pause| sleeps(*pause)).collect()
    }

    #[test]
    fn the_moment_grows_until_a_stream_does_not_wake_the_thread() {
        let mut busy_poll = BusyPoll::default();
        let pauses = [FIRST * 3; 6];
        let slept = sleeps(&mut busy_poll, &pauses);
        assert_eq!(slept, [true, true, true, false, false, false]);
    }

    #[test]
    fn a_late_packet_ends_it() {
        let mut busy_poll = BusyPoll::default();
        let pauses = [1000, 1000, MOST + 1, 1000, 1000];
        let slept = sleeps(&mut busy_poll, &pauses);
        assert_eq!(slept, [true, false, true, true, false]);
    }

    #[test]
    fn it_needs_a_stream() {
        let mut busy_poll = BusyPoll::default();
        sleeps(&mut busy_poll, &[1000; 4]);
        assert!(busy_poll.until().is_some());
        busy_poll.received(STREAM - 1, || 5_000_000);
        assert_eq!(busy_poll.until(), None);
        // What wakes it then shows nothing.
        busy_poll.woken(|| 9_000_000);
        busy_poll.received(STREAM, || 10_000_000);
        assert!(busy_poll.until().is_some());
    }
}
