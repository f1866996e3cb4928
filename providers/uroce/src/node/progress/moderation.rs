//! Interrupt moderation: how often packets wake the progress thread while threads post.
//!
//! A thread that posts hundreds of requests between two polls leaves the packets to the progress
//! thread. On one processor, each packet that wakes that thread would interrupt the posts for one
//! acknowledgement. So when the progress thread has worked while requests were posted all the time,
//! it lets packets collect for a while before it looks again: first for [`PAUSE`], and for up to
//! [`LONG_PAUSE`] while requests are posted in each pause.
//!
//! A thread that posts and then spins on memory until its peer writes there would wait for the end
//! of the pause. It posts nothing meanwhile: after such a pause there is none for [`AWAKE`]. A
//! thread that is going to sleep ends the pause ([`super::alarm::Alarm::armed`]).
//!
//! Values of the progress thread alone; no lock.

use super::idle_backoff::{AWAKE, MILLISECOND};

/// How long packets collect, in nanoseconds: the first time, and at most.
const PAUSE: u64 = 100_000;
const LONG_PAUSE: u64 = 400_000;
/// Requests are posted all the time if some were reported within this time.
const WINDOW: u64 = MILLISECOND;

/// When the progress thread pauses. Times are nanoseconds; `posts` counts calls of
/// [`super::alarm::Alarm::posted`].
pub(super) struct Moderation {
    /// The count when it was looked at last, and the time of that.
    seen: u64,
    since: u64,
    none_until: u64,
    /// How long the next pause takes.
    length: u64,
}

impl Moderation {
    pub fn new(posts: u64, now: u64) -> Self {
        Self {
            seen: posts,
            since: now,
            none_until: 0,
            length: PAUSE,
        }
    }

    /// How long the pause takes that comes next; `None` if there is none, because no requests were
    /// posted lately.
    pub fn next(&mut self, posts: u64, now: u64) -> Option<u64> {
        let is_over = now.saturating_sub(self.since) > WINDOW;
        let posted = posts != self.seen && !is_over;
        if posted || is_over {
            self.seen = posts;
            self.since = now;
        }
        (posted && now >= self.none_until).then_some(self.length)
    }

    /// A pause has ended.
    pub fn ended(&mut self, posts: u64, now: u64) {
        if posts == self.seen {
            self.none_until = now.saturating_add(AWAKE);
            self.length = PAUSE;
        } else {
            self.length = (2 * self.length).min(LONG_PAUSE);
        }
        self.seen = posts;
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_requests_are_posted_in_them() {
        let mut moderation = Moderation::new(0, 0);
        let mut now = 0;
        let lengths = [1, 2, 3, 4].map(|posts| {
            now += WINDOW / 2;
            let length = moderation.next(2 * posts, now).expect("a pause");
            now += length;
            moderation.ended(2 * posts + 1, now);
            length
        });
        assert_eq!(lengths, [PAUSE, 2 * PAUSE, LONG_PAUSE, LONG_PAUSE]);
    }

    #[test]
    fn a_thread_that_waits_for_its_peer_is_paused_once() {
        let mut moderation = Moderation::new(0, 0);
        assert_eq!(moderation.next(1, 1), Some(PAUSE));
        moderation.ended(1, 1 + PAUSE);
        for round in 0..10 {
            let now = 1 + PAUSE + round * MILLISECOND;
            assert_eq!(moderation.next(2 + round, now), None);
        }
        let now = 1 + PAUSE + AWAKE;
        assert_eq!(moderation.next(20, now), Some(PAUSE));
    }

    #[test]
    fn rare_requests_make_no_pause() {
        let mut moderation = Moderation::new(0, 0);
        for round in 1..9 {
            let now = round * (WINDOW + 1);
            assert_eq!(moderation.next(round, now), None);
        }
    }

    #[test]
    fn without_requests_there_is_no_pause() {
        let mut moderation = Moderation::new(7, 0);
        assert_eq!(moderation.next(7, 1), None);
        assert_eq!(moderation.next(7, WINDOW + 1), None);
        assert_eq!(moderation.next(8, WINDOW + 2), Some(PAUSE));
    }
}
