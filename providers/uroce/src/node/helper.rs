//! The helper thread: sleeps until something happens, and leaves the sockets to pollers while there
//! are any.

use super::core::Core;
use super::deliver::{self, Look, Sources};
use super::mover::Mover;
use super::table::NEVER;
use crate::carrier::shm::{Directory, LATE};
use crate::carrier::udp::{Slot, Sockets};
use crate::clock;
use kit::errno::{Errno, Result};
use kit::sys::{cycles, sched};
use parking_lot::Mutex;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, ThreadId};

const MILLISECOND: u64 = 1_000_000;
/// How long a nap takes, at least.
const NAP: u64 = MILLISECOND;
/// And at most, where somebody has polled for [`SHARE`] times as long. A peer waits so long for an answer
/// when a program has polled, and stops without telling; its timeout should be longer.
pub(super) const LONG_NAP: u64 = 8_000_000;
const SHARE: u64 = 8;
/// Polls within the time of a nap that make the helper nap: more than somebody does who goes on to
/// wait, and tells so.
const BUSY: u64 = 32;
/// How long what has come in waits for a poller, while the helper naps, until it is left.
const LEFT: u64 = MILLISECOND;
/// How long the helper does not nap after it took in what was left: somebody polls now and then, and
/// looks at memory in between for what a peer writes there.
const AWAKE: u64 = 10_000_000;
/// Whoever looked at the sockets so short a time ago looks again, or has just found what wakes the
/// helper: to take it from him costs both a turn of the processor. About 20 µs.
const RECENT: u64 = 20 * cycles::IN_A_MICROSECOND;
/// A deadline that is nearer is told from the time as it is, and not as it was when the helper woke.
const NEAR: u64 = 10_000_000;
/// Descriptors that are asked for at once.
const EVENTS: usize = 16;
/// The slice of processor time that the helper runs in, in nanoseconds: shorter than those of a program
/// that spins on the same processor, so that it does not wait for the end of one.
const SLICE: u64 = 100_000;
/// How far its nice value is below that of the thread that made the node, where it may be: a short turn, for an
/// acknowledgement, is then soon forgotten, and the next one does not wait for the program's slice.
const FAVOUR: i32 = 10;
/// How often it looks whether peers take what was sent to them, while there is such.
const STALL: u64 = 50_000_000;
/// Passes over the sockets in a row before the helper looks at other things.
const PASSES: usize = 16;

/// The number of the kick in the set of watches; 0 is no watch's.
const KICK: u64 = 0;
/// The numbers in the set of all: of the sockets by which this host's processes speak, and of the set of
/// watches. Sockets have those of their places in the inbox.
pub(super) const PEERS: u64 = u64::MAX - 1;
const WATCHES: u64 = u64::MAX;

/// What wakes the helper.
pub(super) struct Alarm {
    /// Wakes it.
    kick: OwnedFd,
    /// The kick and what others watch.
    watches: OwnedFd,
    /// Those and the sockets.
    all: OwnedFd,
    /// Calls of `polled`.
    polls: AtomicU64,
    /// When a poller looked at the sockets last, in cycles.
    looked: AtomicU64,
    /// The helper leaves the sockets alone.
    napping: AtomicBool,
    /// Somebody waits without polling.
    waiting: AtomicBool,
    stopping: AtomicBool,
    /// When the helper wakes by itself.
    planned: AtomicU64,
    thread: OnceLock<ThreadId>,
}

impl Alarm {
    pub fn new(sockets: &Sockets, slot: &Slot) -> Result<Self> {
        let kick = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let watches = epoll::create(CreateFlags::CLOEXEC)?;
        let all = epoll::create(CreateFlags::CLOEXEC)?;
        readable(&watches, kick.as_fd(), KICK)?;
        readable(&all, watches.as_fd(), WATCHES)?;
        readable(&all, sockets.v4(), deliver::V4 as u64)?;
        readable(&all, slot.socket(), deliver::SLOT as u64)?;
        if let Some(socket) = sockets.v6() {
            readable(&all, socket, deliver::V6 as u64)?;
        }
        Ok(Self {
            kick,
            watches,
            all,
            polls: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            napping: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            planned: AtomicU64::new(NEVER),
            thread: OnceLock::new(),
        })
    }

    /// The set that watched descriptors belong to.
    pub fn watches(&self) -> BorrowedFd<'_> {
        self.watches.as_fd()
    }

    /// Wakes the helper for one more socket: one in this place of the inbox, or one of [`PEERS`].
    ///
    /// # Errors
    /// Of epoll_ctl(2).
    pub fn add(&self, socket: BorrowedFd<'_>, place: u64) -> Result<()> {
        readable(&self.all, socket, place)
    }

    /// Whether a socket or a watched descriptor is ready.
    pub fn has_some(&self) -> bool {
        let ready = wait(&self.all, Some(0), &mut [MaybeUninit::uninit()]).map(<[_]>::len);
        ready != Ok(0)
    }

    /// Somebody polls. That of two at once one may be missed does no harm: the count only tells many
    /// from few.
    #[inline]
    pub fn polled(&self) {
        let polls = self.polls.load(Relaxed);
        self.polls.store(polls.wrapping_add(1), Relaxed);
    }

    /// Somebody who polls looks at the sockets.
    #[inline]
    pub fn looked(&self) {
        self.looked.store(cycles::now(), Relaxed);
    }

    /// Whether somebody did just now.
    fn was_looked_at(&self) -> bool {
        cycles::now().wrapping_sub(self.looked.load(Relaxed)) < RECENT
    }

    /// Somebody is going to wait.
    pub fn armed(&self) {
        self.waiting.store(true, SeqCst);
        if self.napping.load(SeqCst) {
            self.kick();
        }
    }

    /// There is a new deadline.
    pub fn deadline(&self, deadline: u64) {
        if deadline < self.planned.load(SeqCst) {
            self.kick();
        }
    }

    /// Ends the helper.
    pub fn stop(&self) {
        self.stopping.store(true, SeqCst);
        self.kick();
    }

    /// Whether this is the helper thread.
    pub fn is_helper(&self) -> bool {
        self.thread.get() == Some(&std::thread::current().id())
    }

    /// Wakes it.
    pub fn kick(&self) {
        // Fails only if the counter is full, and then it has been kicked.
        let _ = rustix::io::write(&self.kick, &1u64.to_ne_bytes());
    }

    fn calm(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.kick, &mut count);
    }
}

/// The thread's handle.
pub(super) struct Helper(Mutex<Option<JoinHandle<()>>>);

impl Helper {
    pub fn start(core: &Arc<Core>) -> Result<Self> {
        let shared = Arc::clone(core);
        let builder = std::thread::Builder::new().name("uroce".to_owned());
        let run = move || {
            let _ = shared.alarm.thread.set(std::thread::current().id());
            // Where these are not permitted, it is slower to answer beside programs that spin.
            let _ = sched::short_slices(SLICE);
            let _ = rustix::process::nice(-FAVOUR);
            run(&shared);
        };
        let thread = kit::sys::signal::blocked(|| builder.spawn(run))?;
        Ok(Self(Mutex::new(Some(thread?))))
    }

    /// Waits for its end, unless this is the helper.
    pub fn join(&self) {
        let Some(thread) = self.0.lock().take() else {
            return;
        };
        if thread.thread().id() != std::thread::current().id() {
            // An error is a panic, which the thread has told of.
            let _ = thread.join();
        }
    }

    /// Gives up a thread that is not in this process.
    pub fn forget(&mut self) {
        std::mem::forget(self.0.get_mut().take());
    }
}

/// What the helper was woken for.
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

/// What the helper goes by when it naps.
struct Rhythm {
    /// When it woke last.
    now: u64,
    nap: bool,
    /// How long it has napped, one nap after the other.
    napped: u64,
    /// Calls of `polled` that it knows of.
    seen: u64,
    /// Since when polls are counted, and how many there had been. Not since the helper last woke:
    /// packets wake it, and then a poller with many packets would look like one who hardly polls.
    since: (u64, u64),
    /// Until then it does not nap.
    awake_until: u64,
}

impl Rhythm {
    fn new(alarm: &Alarm) -> Self {
        let seen = alarm.polls.load(Relaxed);
        let now = clock::now().nanos();
        Self {
            now,
            nap: false,
            napped: 0,
            seen,
            since: (now, seen),
            awake_until: 0,
        }
    }

    /// How long the next nap takes.
    fn length(&self, hasty: bool) -> u64 {
        let most = if hasty { NAP } else { LONG_NAP };
        (self.napped / SHARE).clamp(NAP, most)
    }

    /// Whether a nap is followed by the next, with nothing done in between: somebody polled all along.
    fn dreams_on(&mut self, core: &Core, woken: Woken) -> bool {
        let polls = core.alarm.polls.load(Relaxed);
        let calm = self.nap
            && polls != self.seen
            && woken.is_for_nothing()
            && !core.alarm.waiting.load(SeqCst)
            && core.directory.as_ref().is_none_or(|known| !known.awaits());
        if calm {
            self.seen = polls;
        }
        calm
    }

    /// Decides whether it naps next. Answers whether somebody waits without polling.
    fn goes_on(&mut self, alarm: &Alarm) -> bool {
        let polls = alarm.polls.load(Relaxed);
        let waited_for = alarm.waiting.swap(false, SeqCst);
        let busy = polls.wrapping_sub(self.since.1) >= BUSY;
        let polled = if self.nap { polls != self.seen } else { busy };
        self.nap = polled && !waited_for && self.now >= self.awake_until;
        if !self.nap {
            self.napped = 0;
        }
        self.seen = polls;
        if waited_for || busy || self.now.saturating_sub(self.since.0) > NAP {
            self.since = (self.now, polls);
        }
        waited_for
    }

    /// What had come was left: it does not nap soon.
    fn found_some_left(&mut self) {
        self.now = clock::now().nanos();
        self.awake_until = self.now + AWAKE;
    }

    fn found_some(&mut self) {
        if self.now < self.awake_until {
            self.awake_until = self.now + AWAKE;
        }
    }
}

fn run(core: &Core) {
    let alarm = &core.alarm;
    let mut rhythm = Rhythm::new(alarm);
    while !alarm.stopping.load(SeqCst) {
        let woken = if rhythm.nap {
            let nap = rhythm.length(core.is_hasty());
            rhythm.napped = rhythm.napped.saturating_add(nap);
            doze(core, nap).and_then(|()| look(core, Some(0)))
        } else {
            sleep(core, rhythm.now)
        };
        let woken = match woken {
            Ok(woken) => woken,
            Err(error) if error.raw() == libc::EINTR => Woken::default(),
            // No other can come of the sets and the buffer being right.
            Err(_) => break,
        };
        if rhythm.dreams_on(core, woken) {
            continue;
        }
        rhythm.now = clock::now().nanos();
        if woken.watches {
            serve_watches(core);
        }
        core.serve_exit();
        core.serve_failed();
        core.look_after_peers(rhythm.now, woken.peers);
        if rhythm.nap && is_left(core, woken) {
            rhythm.found_some_left();
        }
        let waited_for = rhythm.goes_on(alarm);
        if rhythm.nap || !waited_for && is_theirs(core) {
            continue;
        }
        if work(core, woken.sources, rhythm.now) {
            rhythm.found_some();
        }
    }
}

/// Whether pollers take in what has come: one looked just now, and one looks again.
fn is_theirs(core: &Core) -> bool {
    let polls = || core.alarm.polls.load(Relaxed);
    let before = polls();
    core.alarm.was_looked_at() && doze(core, LEFT).is_ok() && polls() != before
}

/// Whether something has come in and nobody polls, late in a nap.
fn is_left(core: &Core, woken: Woken) -> bool {
    let polls = || core.alarm.polls.load(Relaxed);
    let before = polls();
    let some = !woken.sources.is_empty();
    some && doze(core, LEFT).is_ok() && polls() == before && core.alarm.has_some()
}

/// Waits for a kick or a watched descriptor, for this many nanoseconds.
fn doze(core: &Core, nanos: u64) -> Result<()> {
    let alarm = &core.alarm;
    alarm.planned.store(0, SeqCst);
    alarm.napping.store(true, SeqCst);
    let waited = if alarm.waiting.load(SeqCst) {
        Ok(())
    } else {
        wait_exactly(&alarm.watches, nanos)
    };
    alarm.napping.store(false, SeqCst);
    waited
}

/// Waits for anything, since this time.
fn sleep(core: &Core, since: u64) -> Result<Woken> {
    let alarm = &core.alarm;
    let mut next = core.timers.next();
    loop {
        alarm.planned.store(next, SeqCst);
        let again = core.timers.next();
        if again >= next {
            break;
        }
        next = again;
    }
    let waited = look_or_wait(core, patience(next, since));
    alarm.planned.store(0, SeqCst);
    waited
}

/// How long there is until a deadline, told from the time that was.
fn patience(next: u64, since: u64) -> Option<u64> {
    let rough = next.saturating_sub(since);
    let exact = || next.saturating_sub(clock::now().nanos());
    (next != NEVER).then(|| if rough < NEAR { exact() } else { rough })
}

/// Waits for sockets, watched descriptors and rings.
fn look_or_wait(core: &Core, patience: Option<u64>) -> Result<Woken> {
    let Some(directory) = &core.directory else {
        return look(core, patience);
    };
    directory.sleeps();
    let woken = look_twice(core, directory, patience);
    directory.wakes();
    woken
}

/// Waits, once peers can see that nobody looks at the rings, and looks at those a second time after a
/// while: what a peer put there before it could see that may have come into sight since the first look. Who
/// has met nobody has no rings, and is woken by the first greeting.
fn look_twice(core: &Core, directory: &Directory, patience: Option<u64>) -> Result<Woken> {
    let patience = from_rings(core, directory, patience);
    if directory.is_alone() || patience.is_some_and(|nanos| nanos <= LATE) {
        return look(core, patience);
    }
    let woken = look(core, Some(LATE))?;
    if !woken.is_for_nothing() {
        return Ok(woken);
    }
    let rest = patience.map(|nanos| nanos.saturating_sub(LATE));
    look(core, from_rings(core, directory, rest))
}

/// How long to wait with regard to the rings, if it is so long without them.
fn from_rings(core: &Core, directory: &Directory, patience: Option<u64>) -> Option<u64> {
    let at_most = |most: u64| Some(patience.unwrap_or(most).min(most));
    let inbox = core.inbox.try_lock();
    match inbox.map(|mut inbox| inbox.rings_have_some(core)) {
        Some(true) => Some(0),
        // A poller is at it.
        None => at_most(LEFT),
        Some(false) if directory.awaits() => at_most(STALL),
        Some(false) => patience,
    }
}

/// Where there is something, or will be within so many nanoseconds.
fn look(core: &Core, patience: Option<u64>) -> Result<Woken> {
    let mut events = [MaybeUninit::uninit(); EVENTS];
    let all = &core.alarm.all;
    match patience {
        Some(nanos) if nanos < NEAR && !nanos.is_multiple_of(MILLISECOND) => {
            wait_exactly(all, nanos)?;
            wait(all, Some(0), &mut events)
        }
        _ => wait(all, patience, &mut events),
    }
    .map(Woken::by)
}

fn readable(set: &OwnedFd, socket: BorrowedFd<'_>, number: u64) -> Result<()> {
    epoll::add(set, socket, EventData::new_u64(number), EventFlags::IN)?;
    Ok(())
}

/// Waits until something in a set is ready, or so many nanoseconds have passed: epoll_wait(2) knows
/// milliseconds, and epoll_pwait2(2) is not in every kernel.
fn wait_exactly(set: &OwnedFd, nanos: u64) -> Result<()> {
    let timeout = timespec(nanos);
    poll(&mut [PollFd::new(set, PollFlags::IN)], Some(&timeout))?;
    Ok(())
}

fn timespec(nanos: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(nanos % 1_000_000_000).unwrap_or(0),
    }
}

/// What is ready in a set, or is within so many nanoseconds, told in milliseconds.
fn wait<'e>(
    set: &OwnedFd,
    nanos: Option<u64>,
    events: &'e mut [MaybeUninit<Event>],
) -> Result<&'e [Event]> {
    let timeout = nanos.map(timespec);
    let (events, _) = epoll::wait(set, events, timeout.as_ref()).map_err(Errno::from)?;
    Ok(events)
}

fn serve_watches(core: &Core) {
    let mut events = [MaybeUninit::uninit(); EVENTS];
    let Ok(events) = wait(&core.alarm.watches, Some(0), &mut events) else {
        return;
    };
    for event in events {
        match event.data.u64() {
            KICK => core.alarm.calm(),
            id => core.watches.call(id, event.flags),
        }
    }
}

/// Takes in what there is at these sockets and in the rings, acts on deadlines, and answers whether there
/// was anything. If a poller is at it, it is his for a moment: to wait for him here would stop him, where
/// both run on one processor.
fn work(core: &Core, mut sources: Sources, now: u64) -> bool {
    let Some(mut inbox) = core.inbox.try_lock() else {
        // An interruption does no harm.
        let _ = doze(core, LEFT);
        return false;
    };
    let mut advance =
        |_: &usize| core.advance(&mut inbox, Look::At(&mut sources, now), Mover::Node);
    (0..PASSES).take_while(&mut advance).count() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rhythm of one who polls all the time.
    fn napping(napped: u64) -> Rhythm {
        Rhythm {
            now: 0,
            nap: true,
            napped,
            seen: 0,
            since: (0, 0),
            awake_until: 0,
        }
    }

    #[test]
    fn naps_grow_with_the_time_that_somebody_polls() {
        let length = |napped| napping(napped).length(false);
        assert_eq!(length(0), NAP);
        assert_eq!(length(SHARE * NAP), NAP);
        assert_eq!(length(24 * NAP), 3 * NAP);
        assert_eq!(length(u64::MAX), LONG_NAP);
    }

    #[test]
    fn naps_stay_short_where_a_timeout_is() {
        assert_eq!(napping(u64::MAX).length(true), NAP);
    }

    #[test]
    fn a_near_deadline_is_told_exactly() {
        let now = clock::now().nanos();
        assert_eq!(patience(NEVER, now), None);
        assert_eq!(patience(now + 2 * NEAR, now), Some(2 * NEAR));
        // Time has gone on since.
        std::thread::sleep(std::time::Duration::from_millis(1));
        let near = patience(now + NEAR / 2, now).unwrap_or(u64::MAX);
        assert!(near <= NEAR / 2 - NAP, "{near}");
    }
}
