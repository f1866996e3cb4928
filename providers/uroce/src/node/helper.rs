//! The helper thread: sleeps until something happens, and leaves the sockets to pollers while there
//! are any.

use super::core::Core;
use super::table::NEVER;
use crate::carrier::udp::{Slot, Sockets};
use crate::clock;
use kit::errno::{Errno, Result};
use kit::sys::sched;
use parking_lot::Mutex;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, ThreadId};
use uroce_engine::timer::Time;

/// How long a nap takes.
const NAP: u64 = 1_000_000;
/// Polls within the time of a nap that make the helper nap: more than somebody does who goes on to
/// wait, and tells so.
const BUSY: u64 = 32;
/// How long what has come in waits for a poller, while the helper naps, until it is left.
const LEFT: u64 = 50_000;
/// How long the helper does not nap after it took in what was left: somebody polls now and then, and
/// looks at memory in between for what a peer writes there.
const AWAKE: u64 = 10_000_000;
/// Whoever looked at the sockets so short a time ago looks again, or has just found what wakes the
/// helper: to take it from him costs both a turn of the processor.
const RECENT: u64 = 20_000;
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

/// The number of the kick in the epoll sets; 0 is no watch's.
const KICK: u64 = 0;

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
    /// When a poller looked at the sockets last.
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
        let readable = |set: &OwnedFd, fd: BorrowedFd<'_>| {
            epoll::add(set, fd, EventData::new_u64(KICK), EventFlags::IN)
        };
        readable(&watches, kick.as_fd())?;
        readable(&all, watches.as_fd())?;
        readable(&all, sockets.v4())?;
        readable(&all, slot.socket())?;
        if let Some(socket) = sockets.v6() {
            readable(&all, socket)?;
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

    /// Wakes the helper for one more socket.
    ///
    /// # Errors
    /// Of epoll_ctl(2).
    pub fn add(&self, socket: BorrowedFd<'_>) -> Result<()> {
        epoll::add(&self.all, socket, EventData::new_u64(KICK), EventFlags::IN)?;
        Ok(())
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
    pub fn looked(&self, now: Time) {
        self.looked.store(now.nanos(), Relaxed);
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

fn run(core: &Core) {
    let mut seen = core.alarm.polls.load(Relaxed);
    // Since when polls are counted, and how many there had been. Not since the helper last woke:
    // packets wake it, and then a poller with many packets would look like one who hardly polls.
    let mut since = (clock::now().nanos(), seen);
    let mut nap = false;
    let mut awake_until = 0;
    while !core.alarm.stopping.load(SeqCst) {
        let events = if nap { doze(core, NAP) } else { sleep(core) };
        let woken = clock::now().nanos();
        // An error other than these cannot come of the sets and the buffer being right.
        if let Err(error) = events
            && error.raw() != libc::EINTR
        {
            break;
        }
        serve_watches(core);
        core.serve_exit();
        core.look_after_peers();
        if nap && is_left(core) {
            awake_until = clock::now().nanos() + AWAKE;
        }
        let polls = core.alarm.polls.load(Relaxed);
        let now = clock::now().nanos();
        let waited_for = core.alarm.waiting.swap(false, SeqCst);
        let busy = polls.wrapping_sub(since.1) >= BUSY;
        nap = !waited_for && now >= awake_until && if nap { polls != seen } else { busy };
        seen = polls;
        if waited_for || busy || now.saturating_sub(since.0) > NAP {
            since = (now, polls);
        }
        let is_theirs = !waited_for && is_theirs(core, woken);
        if !nap && !is_theirs && work(core) && now < awake_until {
            awake_until = now + AWAKE;
        }
    }
}

/// Whether pollers take in what has come: one looked just now, and one looks again.
fn is_theirs(core: &Core, woken: u64) -> bool {
    let recent = woken.saturating_sub(core.alarm.looked.load(Relaxed)) < RECENT;
    let polls = || core.alarm.polls.load(Relaxed);
    let before = polls();
    recent && doze(core, LEFT).is_ok() && polls() != before
}

/// Whether something has come in and nobody polls, late in a nap.
fn is_left(core: &Core) -> bool {
    let polls = || core.alarm.polls.load(Relaxed);
    let before = polls();
    core.alarm.has_some() && doze(core, LEFT).is_ok() && polls() == before && core.alarm.has_some()
}

/// Waits for a kick or a watched descriptor, for this many nanoseconds.
fn doze(core: &Core, nanos: u64) -> Result<()> {
    let alarm = &core.alarm;
    alarm.planned.store(0, SeqCst);
    alarm.napping.store(true, SeqCst);
    let waited = if alarm.waiting.load(SeqCst) {
        Ok(())
    } else {
        wait(&alarm.watches, Some(nanos), &mut [MaybeUninit::uninit()]).map(|_| ())
    };
    alarm.napping.store(false, SeqCst);
    waited
}

/// Waits for anything.
fn sleep(core: &Core) -> Result<()> {
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
    let patience = (next != NEVER).then(|| next.saturating_sub(clock::now().nanos()));
    let waited = wait_for_all(core, patience);
    alarm.planned.store(0, SeqCst);
    waited
}

/// Waits for sockets, watched descriptors and rings.
fn wait_for_all(core: &Core, patience: Option<u64>) -> Result<()> {
    let mut events = [MaybeUninit::uninit()];
    let Some(directory) = &core.directory else {
        return wait(&core.alarm.all, patience, &mut events).map(|_| ());
    };
    directory.sleeps();
    let inbox = core.inbox.try_lock();
    let at_most = |most: u64| Some(patience.unwrap_or(most).min(most));
    let patience = match inbox.map(|mut inbox| inbox.rings_have_some(core)) {
        Some(true) => Some(0),
        // A poller is at it.
        None => at_most(LEFT),
        Some(false) if directory.awaits() => at_most(STALL),
        Some(false) => patience,
    };
    let waited = wait(&core.alarm.all, patience, &mut events).map(|_| ());
    directory.wakes();
    waited
}

fn wait<'e>(
    set: &OwnedFd,
    nanos: Option<u64>,
    events: &'e mut [MaybeUninit<Event>],
) -> Result<&'e [Event]> {
    let timeout = nanos.map(|nanos| Timespec {
        tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(nanos % 1_000_000_000).unwrap_or(0),
    });
    let (events, _) = epoll::wait(set, events, timeout.as_ref()).map_err(Errno::from)?;
    Ok(events)
}

fn serve_watches(core: &Core) {
    let mut events = [MaybeUninit::uninit(); 16];
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

/// Takes in what there is, and answers whether there was anything. If a poller is at it, it is his for a
/// moment: to wait for him here would stop him, where both run on one processor.
fn work(core: &Core) -> bool {
    let Some(mut inbox) = core.inbox.try_lock() else {
        // An interruption does no harm.
        let _ = doze(core, LEFT);
        return false;
    };
    let advance = |_: &usize| core.advance(&mut inbox, clock::now(), true);
    (0..PASSES).take_while(advance).count() > 0
}
