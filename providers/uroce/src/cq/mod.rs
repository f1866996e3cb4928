//! Completion queues: ibv_create_cq(3), ibv_poll_cq(3), ibv_req_notify_cq(3).
//!
//! A queue is a ring of completions under one lock; an empty queue is detected without the lock.
//! Successes that arrive together and need no event are added together (`filling`). A full queue
//! reports `IBV_EVENT_CQ_ERR` once, keeps its completions, and accepts no more. When a queue pair
//! returns to RESET or is destroyed, its completions are removed.
//!
//! *Notification.* A queue is unarmed, armed for solicited completions, or armed for any
//! completion. Arming for any replaces arming for solicited, never the reverse. A completion that
//! matches disarms the queue and writes one record. If completions wait that were added while the
//! queue was unarmed, arming itself writes the record. UCX polls, arms and sleeps, without polling
//! again in between: it is written for mlx5, where arming names the position of the consumer.
//! Arming writes no record while a completion waits that had its event, because programs arm the
//! queue before they poll for that one.
//!
//! Completions of packets that came together cause one event after the last of them (`turn`), so a
//! woken thread finds all of them. For the same reason, a batch of an extended queue processes no
//! packets after its first entry. Moderated events wait for their count, or for a thread that
//! exists only while such events do (`alarm`).

mod alarm;
mod entry;
mod filling;
mod moderation;
mod places;
#[cfg(test)]
mod tests;
mod turn;

pub use entry::{Entry, success};
pub use filling::Filling;
pub use turn::Turn;

use crate::channel::Records;
use crate::clock;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{Polled, ReportedEvents, Token};
use kit::sys::lock::{Guard, Lock};
use moderation::Moderation;
use places::Places;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use uroce_engine::timer::Time;

/// `max_cqe`.
pub const MAX_ENTRIES: u32 = 1 << 20;

/// A completion queue.
///
/// Completions of a queue pair are dropped when it is destroyed (ibv_destroy_qp(3)).
pub struct Cq {
    token: Token,
    events: Arc<Records>,
    ignore_overrun: bool,
    /// Whether completions have time stamps.
    timed: bool,
    /// Number of entries in the ring, to check without the lock whether it is empty.
    length: AtomicUsize,
    dead: AtomicBool,
    /// The mark of the thread that polls it.
    attendant: AtomicUsize,
    ring: Lock<Ring>,
    notifier: Option<Arc<Moderation>>,
}

struct Ring {
    entries: Places,
    armed: Armed,
    /// The number of entries up to the last one that caused an event.
    announced: usize,
    /// The number of entries up to the last solicited one.
    solicited: usize,
}

/// The kind of completion for which an event was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    No,
    /// The next solicited completion or error.
    Solicited,
    /// The next completion.
    Next,
}

impl Ring {
    /// Adds an entry, for which there is room. Returns whether an event is due for it.
    // Inlined, so that the fields of the completion are written directly to their place: a copy of
    // recently written small parts would wait until they have left the processor's store buffer.
    #[inline(always)]
    fn add(&mut self, wc: ibv_wc, at: Time, solicited: bool) -> bool {
        let due = self.fires(solicited);
        self.entries.push(wc, at);
        if solicited {
            self.solicited = self.entries.len();
        }
        if due {
            self.announced = self.entries.len();
        }
        due
    }

    /// Takes the oldest entry out.
    #[inline(always)]
    fn pop(&mut self) -> Option<(ibv_wc, Time)> {
        let entry = self.entries.pop();
        self.announced = self.announced.saturating_sub(1);
        self.solicited = self.solicited.saturating_sub(1);
        entry
    }

    /// Requests an event. Returns whether it is due at once; then there is no request any more.
    fn arm(&mut self, solicited_only: bool) -> bool {
        let armed = match (solicited_only, self.armed) {
            (true, Armed::Next) | (false, _) => Armed::Next,
            (true, _) => Armed::Solicited,
        };
        let waiting = match armed {
            Armed::Solicited => self.solicited,
            _ => self.entries.len(),
        };
        if self.announced > 0 || waiting == 0 {
            self.armed = armed;
            return false;
        }
        self.announced = waiting;
        self.armed = Armed::No;
        true
    }

    /// Drops the entries of a queue pair.
    fn forget(&mut self, qp_num: u32) {
        let (mut index, mut announced, mut solicited) = (0, 0, 0);
        self.entries.retain(|wc| {
            let goes = wc.qp_num == qp_num;
            announced += usize::from(goes && index < self.announced);
            solicited += usize::from(goes && index < self.solicited);
            index += 1;
            !goes
        });
        self.announced -= announced;
        // If the last solicited one is dropped, an event may come for the one before it.
        self.solicited -= solicited;
    }

    /// Whether an event is due for an entry that is added. Then there is no request any more.
    #[inline]
    fn fires(&mut self, solicited: bool) -> bool {
        let due = match self.armed {
            Armed::No => false,
            Armed::Solicited => solicited,
            Armed::Next => true,
        };
        if due {
            self.armed = Armed::No;
        }
        due
    }
}

fn ring_of(entries: u32) -> Result<Places> {
    if entries == 0 || entries > MAX_ENTRIES {
        return Err(Errno::INVAL);
    }
    Places::new(usize::try_from(entries).map_err(|_| Errno::INVAL)?)
}

impl Cq {
    /// A queue of as many entries. Completion events go to `channel`, `IBV_EVENT_CQ_ERR` to
    /// `events`.
    ///
    /// # Errors
    /// EINVAL for no entries or more than [`MAX_ENTRIES`]; ENOMEM.
    pub fn new(
        token: Token,
        entries: u32,
        channel: Option<Arc<Records>>,
        events: Arc<Records>,
        ignore_overrun: bool,
    ) -> Result<Self> {
        let ring = Ring {
            entries: ring_of(entries)?,
            armed: Armed::No,
            announced: 0,
            solicited: 0,
        };
        Ok(Self {
            token,
            events,
            ignore_overrun,
            timed: true,
            length: AtomicUsize::new(0),
            dead: AtomicBool::new(false),
            attendant: AtomicUsize::new(0),
            ring: Lock::new(ring),
            notifier: channel.map(|channel| Arc::new(Moderation::new(channel, token))),
        })
    }

    /// A queue whose completions have no time stamps, which saves reading the clock.
    #[must_use]
    pub fn untimed(self) -> Self {
        let timed = false;
        Self { timed, ..self }
    }

    /// The thread of that mark polls it.
    #[inline]
    pub fn attend(&self, mark: usize) {
        if !self.is_attended_by(mark) {
            self.attendant.store(mark, Ordering::Relaxed);
        }
    }

    /// Whether that was the one that polled it last.
    #[inline]
    pub fn is_attended_by(&self, mark: usize) -> bool {
        self.attendant.load(Ordering::Relaxed) == mark
    }

    /// Adds a completion; `false` if the queue is dead, which it is from the first one on that it
    /// has no room for (`IBV_EVENT_CQ_ERR`). With `IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN` the oldest
    /// one is lost instead.
    pub fn push(&self, entry: Entry) -> bool {
        let at = entry.at.unwrap_or_else(|| self.now());
        self.add(entry.wc(), at, entry.is_solicited())
    }

    /// The same of a success that is made already.
    #[inline(always)]
    pub fn push_success(&self, wc: ibv_wc, solicited: bool) -> bool {
        self.add(wc, self.now(), solicited)
    }

    /// To add successes that come together.
    #[must_use]
    #[inline]
    pub fn filling(&self) -> Filling<'_> {
        Filling {
            cq: self,
            ring: None,
        }
    }

    #[inline]
    fn now(&self) -> Time {
        if self.timed {
            return clock::now();
        }
        Time::default()
    }

    // As is [`Ring::add`].
    #[inline(always)]
    fn add(&self, wc: ibv_wc, at: Time, solicited: bool) -> bool {
        let Some(mut ring) = self.with_room(self.ring.lock()) else {
            return false;
        };
        let due = ring.add(wc, at, solicited);
        self.length.store(ring.entries.len(), Ordering::Release);
        drop(ring);
        if let Some(notifier) = &self.notifier {
            notifier.completion(due);
        }
        true
    }

    /// The ring if it takes another completion.
    #[inline(always)]
    fn with_room<'r>(&'r self, ring: Guard<'r, Ring>) -> Option<Guard<'r, Ring>> {
        if self.takes_one(&ring) {
            return Some(ring);
        }
        self.make_room(ring)
    }

    #[inline(always)]
    fn takes_one(&self, ring: &Ring) -> bool {
        !self.is_dead() && !ring.entries.is_full()
    }

    /// The oldest completion is lost for another one, where that is wanted; `None` for a queue that
    /// is dead, or now is.
    #[cold]
    fn make_room<'r>(&'r self, mut ring: Guard<'r, Ring>) -> Option<Guard<'r, Ring>> {
        if self.is_dead() {
            return None;
        }
        if self.ignore_overrun {
            ring.pop();
            return Some(ring);
        }
        self.dead.store(true, Ordering::Release);
        drop(ring);
        self.events.asynchronous(IBV_EVENT_CQ_ERR, self.token);
        None
    }

    /// ibv_poll_cq(3): fills `room` from its beginning; returns the number of completions. Entries
    /// that were in the queue when it died can still be polled.
    pub fn poll(&self, room: &mut [ibv_wc]) -> usize {
        if self.is_empty() {
            return 0;
        }
        let mut ring = self.ring.lock();
        let mut count = 0;
        for slot in room {
            let Some((wc, _)) = ring.pop() else {
                break;
            };
            *slot = wc;
            count += 1;
        }
        self.length.store(ring.entries.len(), Ordering::Release);
        count
    }

    /// The next completion, with its times.
    pub fn poll_ex(&self) -> Option<Polled> {
        if self.is_empty() {
            return None;
        }
        let mut ring = self.ring.lock();
        let (wc, at) = ring.pop()?;
        self.length.store(ring.entries.len(), Ordering::Release);
        drop(ring);
        Some(Polled {
            wc,
            timestamp: clock::device(at),
            wallclock: clock::wall(at),
        })
    }

    /// Whether there is nothing to poll.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length.load(Ordering::Acquire) == 0
    }

    /// Whether it had no room for a completion once, and takes none any more.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// ibv_req_notify_cq(3): one event for the first completion from now on; or for the first that
    /// is solicited or an error, unless an event for any completion was requested. At once if such
    /// a completion waits and no waiting completion had an event.
    pub fn arm(&self, solicited_only: bool) {
        let due = self.ring.lock().arm(solicited_only);
        if due && let Some(notifier) = &self.notifier {
            notifier.completion(true);
        }
    }

    /// ibv_resize_cq(3).
    ///
    /// # Errors
    /// EINVAL for fewer entries than there are completions in it, for none, and for more than
    /// [`MAX_ENTRIES`]; ENOMEM.
    pub fn resize(&self, entries: u32) -> Result<()> {
        self.resize_with_slack(entries, entries)
    }

    /// The same, with room for `room` entries where that is more.
    ///
    /// # Errors
    /// As for [`Cq::resize`].
    pub fn resize_with_slack(&self, entries: u32, room: u32) -> Result<()> {
        let room = room.max(entries);
        let mut new = ring_of(room)?;
        let asked = usize::try_from(entries).map_err(|_| Errno::INVAL)?;
        let mut ring = self.ring.lock();
        if asked == 0 || asked < ring.entries.len() {
            return Err(Errno::INVAL);
        }
        new.append(&mut ring.entries);
        ring.entries = new;
        Ok(())
    }

    /// ibv_modify_cq(3): an event that is due waits until there were `count` completions or
    /// `period` microseconds have passed. Neither 0 nor 1 completion, nor a period of 0, waits.
    ///
    /// # Errors
    /// None; the type is that of the verb.
    pub fn moderate(&self, count: u16, period: u16) -> Result<()> {
        if let Some(notifier) = &self.notifier {
            notifier.set(count, period);
        }
        Ok(())
    }

    /// Drops the completions of a queue pair that returns to RESET or is destroyed, with which its
    /// requests are forgotten.
    pub fn forget(&self, qp_num: u32) {
        let mut ring = self.ring.lock();
        ring.forget(qp_num);
        self.length.store(ring.entries.len(), Ordering::Release);
    }

    /// The queue goes: events that the application was handed.
    pub fn reported(&self) -> ReportedEvents {
        ReportedEvents {
            completion: self.notifier.as_ref().map_or(0, |notifier| notifier.end()),
            asynchronous: self.events.take_back(self.token),
        }
    }
}
