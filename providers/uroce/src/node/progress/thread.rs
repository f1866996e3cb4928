//! The progress thread: sleeps until something happens, and leaves the sockets to pollers while
//! there are any.

use super::alarm::{PEERS, WATCHES, wait_exactly};
use super::busy_poll::BusyPoll;
use super::idle_backoff::{IdleBackoff, MILLISECOND};
use super::moderation::Moderation;
use super::poll::Progress;
use super::poll_again::PollAgain;
use super::unreadable::Unreadable;
use super::watch::{BATCHES, KICK};
use crate::carrier::shm::{Directory, LATE};
use crate::clock;
use crate::node::caller::Caller;
use crate::node::inbound::sources::{Look, Sources};
use crate::node::inner::NodeInner;
use crate::node::registry::NEVER;
use crate::node::transport::Transport;
use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use kit::sys::thread::Thread;
use kit::sys::{epoll::wait, sched};
use rustix::event::epoll::Event;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long received packets wait for a poller, while the progress thread backs off, until they
/// count as left.
const LEFT: u64 = MILLISECOND;
/// A thread that runs without a poll for so many times [`LEFT`] spins on memory, or computes. To
/// post a hundred requests takes less.
const SPINS: u32 = 2;
/// A deadline that is nearer is measured from the current time, not from the time when the progress
/// thread woke.
const NEAR: u64 = 10_000_000;
/// Descriptors that are asked for at once.
const EVENTS: usize = 16;
/// The slice of processor time that the progress thread runs in, in nanoseconds: shorter than those
/// of a program that spins on the same processor, so that it does not wait for the end of one.
const SLICE: u64 = 100_000;
/// How far its nice value is below that of the thread that made the node, where it may be: a short
/// turn, for an acknowledgement, is then soon forgotten, and the next one does not wait for the
/// program's slice.
const FAVOUR: i32 = 10;
/// How long the progress thread leaves the inbox to a poller that has it, at first; twice as long
/// each time that a poller still has it, up to [`LEFT`]. The poller may have looked just before the
/// packets came, and not look again.
const SHORT_PAUSE: u64 = 32_000;
/// Passes over the sockets in a row before the progress thread looks at other things.
const PASSES: usize = 16;

/// The thread's handle.
pub(in crate::node) struct ProgressThread(Mutex<Option<JoinHandle<()>>>);

impl ProgressThread {
    // A separate frame, while little of the caller's stack is used.
    #[inline(never)]
    pub fn start(node: &Arc<NodeInner>) -> Result<Self> {
        let shared = Arc::clone(node);
        let run = move || {
            shared.watches.serve();
            // Where these are not permitted, it is slower to answer beside programs that spin.
            let _ = sched::short_slices(SLICE);
            let _ = rustix::process::nice(-FAVOUR);
            run(&shared);
        };
        let thread = kit::sys::thread::start("uroce", run)?;
        Ok(Self(Mutex::new(Some(thread))))
    }

    /// Waits for its end, unless this is the progress thread.
    pub fn join(&self) {
        let Some(thread) = self.0.lock().take() else {
            return;
        };
        if thread.thread().id() != std::thread::current().id() {
            // An error is a panic, which the thread has reported.
            let _ = thread.join();
        }
    }

    /// Gives up a thread that is not in this process.
    pub fn forget(&mut self) {
        std::mem::forget(self.0.get_mut().take());
    }
}

/// The reasons for which the progress thread was woken.
#[derive(Clone, Copy, Default)]
struct Woken {
    watches: bool,
    peers: bool,
    sources: Sources,
}

impl Woken {
    fn by(events: &[Event]) -> Self {
        let mut woken = Self::default();
        for event in events {
            match event.data.u64() {
                WATCHES => woken.watches = true,
                PEERS => woken.peers = true,
                place => woken.sources.add(place),
            }
        }
        woken
    }

    fn is_for_nothing(self) -> bool {
        !self.watches && !self.peers && self.sources.is_empty()
    }
}

fn run(node: &NodeInner) {
    let progress = &node.progress;
    let transport = &progress.transport;
    let alarm = &transport.alarm;
    let mut backoff = IdleBackoff::new(alarm);
    let posts = || alarm.posts.load(Relaxed);
    let mut moderation = Moderation::new(posts(), backoff.now);
    let mut busy_poll = BusyPoll::default();
    let mut poll_again = PollAgain::default();
    let mut inbox_pause = 0;
    let mut unreadable = Unreadable::default();
    while !alarm.stopping.load(SeqCst) {
        let woken = if backoff.is_on {
            let time = backoff.time(progress.is_hasty());
            doze(transport, time).and_then(|lasted| {
                backoff.ended(time, lasted);
                look(transport, Some(0))
            })
        } else {
            wait_for_some(progress, &mut busy_poll, backoff.now)
        };
        let woken = match woken {
            Ok(woken) => woken,
            Err(error) if error.raw() == libc::EINTR => Woken::default(),
            // No other can come of the sets and the buffer being right.
            Err(_) => break,
        };
        let for_batches = woken.watches && serve_watches(node);
        if backoff.continues(for_batches, alarm)
            || backoff.is_undisturbed(transport, woken.is_for_nothing())
        {
            continue;
        }
        backoff.now = clock::now().nanos();
        node.teardown.serve_exit(progress);
        progress.serve_failed();
        transport.look_after_peers(woken.peers);
        progress.serve_used();
        if backoff.is_on && is_left(progress, woken.sources) {
            backoff.found_some_left();
        }
        let waited_for = backoff.decide(alarm);
        if backoff.is_on || !waited_for && is_theirs(transport, &mut poll_again) {
            continue;
        }
        let bytes = match work(progress, woken.sources, backoff.now) {
            Work::Received(bytes) => bytes,
            Work::Nothing => {
                unreadable.ends();
                continue;
            }
            Work::Failed(error) => {
                if unreadable.failed(error) {
                    // An interruption does no harm.
                    let _ = doze(transport, LEFT);
                }
                continue;
            }
            Work::Taken => {
                inbox_pause = (2 * inbox_pause).clamp(SHORT_PAUSE, LEFT);
                // An interruption does no harm.
                let _ = doze(transport, inbox_pause);
                continue;
            }
        };
        inbox_pause = 0;
        unreadable.ends();
        busy_poll.received(bytes, || clock::now().nanos());
        backoff.found_some();
        if waited_for {
            continue;
        }
        if let Some(nanos) = moderation.next(posts(), backoff.now) {
            // An interruption ends it early.
            let _ = doze(transport, nanos);
            moderation.ended(posts(), clock::now().nanos());
        }
    }
}

/// Whether pollers receive the packets: one polled just now, and one polls again. A wait for that
/// which ends early shows nothing, and is repeated.
fn is_theirs(transport: &Transport, poll_again: &mut PollAgain) -> bool {
    let alarm = &transport.alarm;
    if !alarm.was_looked_at() || !poll_again.is_expected() {
        return false;
    }
    let before = alarm.polls.load(Relaxed);
    let poller = alarm.poller();
    let time = || poller.and_then(Thread::time);
    let used = time();
    let Ok(lasted) = doze(transport, LEFT) else {
        return false;
    };
    if alarm.polls.load(Relaxed) != before {
        poll_again.has_come();
        return true;
    }
    if lasted >= LEFT && activity(ran(used, time()), || None) == Activity::Runs {
        poll_again.has_not_come();
    }
    lasted < LEFT
}

/// How long a thread has run between two times.
fn ran(before: Option<Duration>, after: Option<Duration>) -> Option<Duration> {
    Some(after?.saturating_sub(before?))
}

/// Whether packets wait late in a backoff, and no thread polls although the one that polled last
/// could.
pub(super) fn is_left(progress: &Progress, sources: Sources) -> bool {
    if sources.is_empty() {
        return false;
    }
    let transport = &progress.transport;
    let alarm = &transport.alarm;
    let before = alarm.polls.load(Relaxed);
    let poller = alarm.poller();
    let time = || poller.and_then(Thread::time);
    for _ in 0..SPINS {
        let used = time();
        let waited = doze(transport, LEFT).unwrap_or(0);
        if waited < LEFT || alarm.polls.load(Relaxed) != before || !alarm.has_some() {
            return false;
        }
        // A poller is in a look, which may take longer than that on a slow processor.
        if progress.inbox.try_lock().is_none() {
            return false;
        }
        match activity(ran(used, time()), || poller.and_then(Thread::can_run)) {
            Activity::Runs => {}
            Activity::Waits => return false,
            Activity::Sleeps => return true,
        }
    }
    true
}

/// What a thread does that does not poll.
#[derive(Debug, PartialEq)]
enum Activity {
    Runs,
    /// Other programs have the processor.
    Waits,
    /// Or nothing is known.
    Sleeps,
}

/// What a thread does that has run for so long within [`LEFT`].
fn activity(ran: Option<Duration>, can_run: impl FnOnce() -> Option<bool>) -> Activity {
    match ran {
        Some(ran) if ran >= Duration::from_nanos(LEFT / 2) => Activity::Runs,
        Some(_) if can_run() == Some(true) => Activity::Waits,
        _ => Activity::Sleeps,
    }
}

/// Waits for a kick or a watched descriptor, for this many nanoseconds at most. Returns how many it
/// waited.
fn doze(transport: &Transport, nanos: u64) -> Result<u64> {
    let began = clock::now().nanos();
    let alarm = &transport.alarm;
    alarm.planned.store(0, SeqCst);
    alarm.backing_off.store(true, SeqCst);
    let waited = if alarm.waiting.load(SeqCst) {
        Ok(())
    } else {
        wait_exactly(alarm.watches.set(), nanos)
    };
    alarm.backing_off.store(false, SeqCst);
    waited.map(|()| clock::now().nanos().saturating_sub(began).min(nanos))
}

/// Waits for anything, since this time: awake for a moment, perhaps, and then asleep.
fn wait_for_some(progress: &Progress, busy_poll: &mut BusyPoll, since: u64) -> Result<Woken> {
    let deadlines = &progress.transport.deadlines;
    let until = busy_poll.until().map(|until| until.min(deadlines.next()));
    while until.is_some_and(|until| clock::now().nanos() < until) {
        let woken = look(&progress.transport, Some(0))?;
        if !woken.is_for_nothing() {
            return Ok(woken);
        }
    }
    let woken = sleep(progress, since);
    busy_poll.woken(|| clock::now().nanos());
    woken
}

/// Waits for anything, since this time.
fn sleep(progress: &Progress, since: u64) -> Result<Woken> {
    let alarm = &progress.transport.alarm;
    let mut next = progress.transport.deadlines.next();
    loop {
        alarm.planned.store(next, SeqCst);
        let again = progress.transport.deadlines.next();
        if again >= next {
            break;
        }
        next = again;
    }
    let waited = look_or_wait(progress, patience(next, since));
    alarm.planned.store(0, SeqCst);
    waited
}

/// The time until a deadline, measured from `since`.
fn patience(next: u64, since: u64) -> Option<u64> {
    let rough = next.saturating_sub(since);
    let exact = || next.saturating_sub(clock::now().nanos());
    (next != NEVER).then(|| if rough < NEAR { exact() } else { rough })
}

/// Waits for sockets, watched descriptors and rings.
fn look_or_wait(progress: &Progress, patience: Option<u64>) -> Result<Woken> {
    let Some(directory) = &progress.transport.directory else {
        return look(&progress.transport, patience);
    };
    directory.sleeps();
    let woken = look_twice(progress, directory, patience);
    directory.wakes();
    woken
}

/// Waits, once peers can see that no thread looks at the rings, and looks at the rings a second
/// time after a while: records that a peer wrote before it could see that may have become visible
/// since the first look. So may messages of this process, whose outcome peers then report only from
/// that look on: there is a third one. A process without peers has no rings, and is woken by the
/// first message.
fn look_twice(progress: &Progress, directory: &Directory, patience: Option<u64>) -> Result<Woken> {
    let mut patience = from_rings(progress, patience);
    let mut is_last = false;
    while !is_last && !directory.is_alone() && patience.is_none_or(|nanos| nanos > LATE) {
        let woken = look(&progress.transport, Some(LATE))?;
        if !woken.is_for_nothing() {
            return Ok(woken);
        }
        is_last = !directory.sleeps_on();
        let rest = patience.map(|nanos| nanos.saturating_sub(LATE));
        patience = from_rings(progress, rest);
    }
    look(&progress.transport, patience)
}

/// How long to wait with regard to the rings, if it is so long without them.
fn from_rings(progress: &Progress, patience: Option<u64>) -> Option<u64> {
    let at_most = |most: u64| Some(patience.unwrap_or(most).min(most));
    let inbox = progress.inbox.try_lock();
    match inbox.map(|mut inbox| inbox.rings_have_some(&progress.transport)) {
        Some(true) => Some(0),
        // A poller is at it.
        None => at_most(LEFT),
        Some(false) => patience,
    }
}

/// Where there is something, or will be within that many nanoseconds.
fn look(transport: &Transport, patience: Option<u64>) -> Result<Woken> {
    let mut events = [MaybeUninit::uninit(); EVENTS];
    let all = &transport.alarm.all;
    match patience {
        Some(nanos) if nanos < NEAR && !nanos.is_multiple_of(MILLISECOND) => {
            wait_exactly(all, nanos)?;
            wait(all, Some(0), &mut events)
        }
        _ => wait(all, patience, &mut events),
    }
    .map(Woken::by)
}

/// Returns whether there was nothing but the timer of batches.
fn serve_watches(node: &NodeInner) -> bool {
    let mut events = [MaybeUninit::uninit(); EVENTS];
    let Ok(events) = wait(node.watches.set(), Some(0), &mut events) else {
        return false;
    };
    for event in events {
        match event.data.u64() {
            KICK => node.progress.transport.alarm.calm(),
            BATCHES => node.progress.send_expired_batches(),
            id => node.watches.call(id, event.flags),
        }
    }
    events.iter().all(|event| event.data.u64() == BATCHES)
}

/// The outcome of a look for packets.
enum Work {
    Nothing,
    /// A socket could not be read.
    Failed(Errno),
    /// A poller has the inbox.
    Taken,
    /// So many bytes came by the sockets, or something by the rings.
    Received(u64),
}

/// Receives from these sockets and the rings, and executes expired deadlines. If a poller holds the
/// inbox, it keeps it for a moment: waiting for it here would stop the poller if both run on one
/// processor.
fn work(progress: &Progress, mut sources: Sources, now: u64) -> Work {
    let Some(mut inbox) = progress.inbox.try_lock() else {
        return Work::Taken;
    };
    let before = inbox.received();
    let mut advance =
        |_: &usize| progress.advance(&mut inbox, Look::At(&mut sources, now), Caller::Node);
    match (0..PASSES).take_while(&mut advance).count() {
        0 => inbox.take_failure().map_or(Work::Nothing, Work::Failed),
        _ => Work::Received(inbox.received().wrapping_sub(before)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::progress::idle_backoff::BACKOFF;

    #[test]
    fn a_thread_that_could_run_and_did_not_waits_for_a_processor() {
        let [little, much] = [LEFT / 10, LEFT].map(|nanos| Some(Duration::from_nanos(nanos)));
        let can = |can_run| move || can_run;
        assert_eq!(activity(much, can(Some(true))), Activity::Runs);
        assert_eq!(activity(little, can(Some(true))), Activity::Waits);
        assert_eq!(activity(little, can(Some(false))), Activity::Sleeps);
        assert_eq!(activity(little, can(None)), Activity::Sleeps);
        assert_eq!(
            activity(None, can(Some(true))),
            Activity::Sleeps,
            "it ended"
        );
    }

    #[test]
    fn a_near_deadline_is_exact() {
        let now = clock::now().nanos();
        assert_eq!(patience(NEVER, now), None);
        assert_eq!(patience(now + 2 * NEAR, now), Some(2 * NEAR));
        // Time has gone on since.
        std::thread::sleep(std::time::Duration::from_millis(1));
        let near = patience(now + NEAR / 2, now).unwrap_or(u64::MAX);
        assert!(near <= NEAR / 2 - BACKOFF, "{near}");
    }
}
