//! Wakes the progress thread, and counts pollers for it.
//!
//! Two epoll sets: one has the sockets of the inbox and the other set, which has the kick and the
//! descriptors of [`super::watch`]. A progress thread that leaves the sockets to pollers waits only
//! on the second. All members are atomic or constant, so callers need no lock.

use super::watch::{KICK, Watches};
use crate::carrier::udp::{Slot, Sockets};
use crate::node::inbound::sources::{SLOT, V4, V6};
use crate::node::registry::NEVER;
use kit::errno::{Errno, Result};
use kit::sys::epoll::wait;
use kit::sys::ready::{self, ReadyTo};
use kit::sys::thread::Thread;
use kit::sys::{cycles, sched};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

/// A thread that polled the sockets so recently polls again, or has just found the event that wakes
/// the progress thread. Taking the event from that thread would cost both a switch of the
/// processor. About 20 µs.
const RECENT: u64 = 20 * cycles::IN_A_MICROSECOND;
/// Pollers that leave the sockets alone beside busy rings look at them after so long. About 1 ms.
const LONG: u64 = 1000 * cycles::IN_A_MICROSECOND;
/// A thread that posts all the time looks at the sockets after so long: as often as a thread that
/// makes the progress thread back off ([`BUSY`]), and hardly oftener. About 30 µs.
const POSTING: u64 = 30 * cycles::IN_A_MICROSECOND;
const _: () = assert!(BUSY * POSTING < LONG);
/// A thread that polls a queue with a backlog of completions looks for packets at one of so many
/// polls.
const BACKLOG: u64 = 8;
/// Polls within a millisecond that make the progress thread back off: more than those of a program
/// that is about to wait for an event.
pub(super) const BUSY: u64 = 32;
/// A look that takes longer counts as several polls: as many as make the progress thread back off
/// if one follows the other within a millisecond. On a slow processor, or an emulated one, a look
/// that finds packets takes as long as many that find none.
const LOOK: u64 = 1000 * cycles::IN_A_MICROSECOND / BUSY;
/// The longest wait that nothing ends early, in nanoseconds.
const BLIND: u64 = 1_000_000;
/// The numbers in the set of all: of the sockets by which this host's processes speak, and of the
/// set of watches. Sockets have those of their places in the inbox.
pub const PEERS: u64 = u64::MAX - 1;
pub const WATCHES: u64 = u64::MAX;

/// The events that wake the progress thread.
pub(in crate::node) struct Alarm {
    /// Wakes it.
    kick: OwnedFd,
    /// The kick and the watched descriptors.
    pub(super) watches: Arc<Watches>,
    /// Those and the sockets.
    pub(super) all: OwnedFd,
    /// Calls of `polled`.
    pub(super) polls: AtomicU64,
    /// Calls of `posted`.
    pub(super) posts: AtomicU64,
    /// When a poller looked at the sockets last, in cycles.
    looked: AtomicU64,
    /// The thread that did.
    poller: AtomicI32,
    /// The progress thread leaves the sockets alone.
    pub(super) backing_off: AtomicBool,
    /// Whether a thread waits without polling.
    pub(super) waiting: AtomicBool,
    pub(super) stopping: AtomicBool,
    /// When the progress thread wakes by itself.
    pub(super) planned: AtomicU64,
}

impl Alarm {
    pub fn new(watches: Arc<Watches>, sockets: &Sockets, slot: &Slot) -> Result<Self> {
        let kick = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let all = epoll::create(CreateFlags::CLOEXEC)?;
        readable(watches.set(), kick.as_fd(), KICK)?;
        readable(&all, watches.set().as_fd(), WATCHES)?;
        readable(&all, sockets.v4(), V4 as u64)?;
        readable(&all, slot.socket(), SLOT as u64)?;
        if let Some(socket) = sockets.v6() {
            readable(&all, socket, V6 as u64)?;
        }
        Ok(Self {
            kick,
            watches,
            all,
            polls: AtomicU64::new(0),
            posts: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            poller: AtomicI32::new(0),
            backing_off: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            planned: AtomicU64::new(NEVER),
        })
    }

    /// Wakes the progress thread for one more socket: one in this place of the inbox, or one of
    /// [`PEERS`].
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

    /// A thread polls. Of two at once one may be missed, which does no harm: the count only
    /// distinguishes many from few.
    #[inline]
    pub fn polled(&self) {
        let polls = self.polls.load(Relaxed);
        self.polls.store(polls.wrapping_add(1), Relaxed);
    }

    /// The same, of a queue that has more completions. Returns whether the thread is to look for
    /// packets, as it does at one of [`BACKLOG`] polls: the packets of other queues, and
    /// acknowledgements, wait meanwhile.
    #[inline]
    pub fn polled_backlog(&self) -> bool {
        let polls = self.polls.load(Relaxed).wrapping_add(1);
        self.polls.store(polls, Relaxed);
        polls.is_multiple_of(BACKLOG)
    }

    /// A thread has posted some requests. Of two at once one may be missed, as of polls.
    #[inline]
    pub fn posted(&self) {
        let posts = self.posts.load(Relaxed);
        self.posts.store(posts.wrapping_add(1), Relaxed);
    }

    /// A polling thread checks the sockets.
    #[inline]
    pub fn looked(&self) {
        self.looked.store(cycles::now(), Relaxed);
        self.poller.store(Thread::current().number(), Relaxed);
    }

    /// A look of a polling thread has ended that found something.
    pub(super) fn has_looked(&self) {
        let (began, now) = (self.looked.load(Relaxed), cycles::now());
        self.looked.store(now, Relaxed);
        let polls = self.polls.load(Relaxed);
        let more = now.saturating_sub(began) / LOOK;
        self.polls.store(polls.wrapping_add(more), Relaxed);
    }

    /// The thread that checked the sockets last, if one did.
    pub(super) fn poller(&self) -> Option<Thread> {
        let number = self.poller.load(Relaxed);
        (number != 0).then(|| Thread::of(number))
    }

    /// Whether a thread polled just now.
    pub(super) fn was_looked_at(&self) -> bool {
        self.since_look() < RECENT
    }

    /// Whether a thread that posts looks at the sockets now.
    pub(super) fn is_due_while_posting(&self) -> bool {
        self.since_look() >= POSTING
    }

    /// Whether no poller has looked at the sockets for long.
    pub fn is_looked_at_rarely(&self) -> bool {
        self.since_look() >= LONG
    }

    /// Cycles since a poller looked at the sockets last.
    fn since_look(&self) -> u64 {
        cycles::now().wrapping_sub(self.looked.load(Relaxed))
    }

    /// A thread is going to wait.
    pub fn armed(&self) {
        self.waiting.store(true, SeqCst);
        if self.backing_off.load(SeqCst) {
            self.kick();
        }
    }

    /// There is a new deadline.
    pub fn deadline(&self, deadline: u64) {
        if deadline < self.planned.load(SeqCst) {
            self.kick();
        }
    }

    /// Ends the progress thread.
    pub fn stop(&self) {
        self.stopping.store(true, SeqCst);
        self.kick();
    }

    /// Whether this is the progress thread.
    pub fn is_progress_thread(&self) -> bool {
        self.watches.is_served_here()
    }

    /// Wakes it.
    pub fn kick(&self) {
        // Fails only if the counter is full, and then it has been kicked.
        let _ = rustix::io::write(&self.kick, &1u64.to_ne_bytes());
    }

    pub(super) fn calm(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.kick, &mut count);
    }
}

fn readable(set: &OwnedFd, socket: BorrowedFd<'_>, number: u64) -> Result<()> {
    epoll::add(set, socket, EventData::new_u64(number), EventFlags::IN)?;
    Ok(())
}

/// Waits until a member of a set is ready, or that many nanoseconds have passed: epoll_wait(2) has
/// milliseconds, and epoll_pwait2(2) is not in every kernel. Where neither poll(2) nor select(2)
/// takes a descriptor, it waits for part of the time.
pub(super) fn wait_exactly(set: &OwnedFd, nanos: u64) -> Result<()> {
    let timeout = timespec(nanos);
    match ready::wait(set.as_fd(), ReadyTo::Read, Some(&timeout)) {
        Err(Errno::INVAL) => {
            sched::sleep(Duration::from_nanos(nanos.min(BLIND)));
            Ok(())
        }
        waited => waited.map(drop),
    }
}

fn timespec(nanos: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(nanos % 1_000_000_000).unwrap_or(0),
    }
}
