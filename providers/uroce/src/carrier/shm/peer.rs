//! A process that this one has met.

use super::link::Link;
use super::onesided::GateSeen;
use super::ring::{Broken, Consumer, Place, Producer};
use super::segment::{AWAITS, CLOSED, SLEEPS, Segment};
use super::wire::{Few, Fill, Header, News, Out, Put};
use kit::sys::lock::Lock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Release, Ordering::SeqCst,
};

/// A process that this one has met: perhaps this one itself.
#[derive(Debug)]
pub struct Peer {
    pub(super) slot: u16,
    pub(super) generation: u64,
    pub(super) pid: Pid,
    /// Ready to read once the process has ended.
    pub(super) process: OwnedFd,
    pub(super) segment: Segment,
    pub(super) link: Link,
    /// The descriptor of a link that was made here: the peer may ask for it again.
    pub(super) handed: Option<OwnedFd>,
    pub(super) gone: AtomicBool,
    /// The ring that this process writes, and the one that it reads.
    pub(super) places: [Place; 2],
    pub(super) out: Lock<Out>,
    /// Up to where [`Peer::collect`] has looked.
    pub(super) collected: AtomicU64,
}

impl Peer {
    /// Its slot.
    #[must_use]
    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// Its process number. It may be another's once the process is gone, see [`Peer::has_ended`].
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// What tells it from other processes that have its slot before or after.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Its segment. Whatever is read there may be wrong.
    #[must_use]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The link with it.
    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Whether it is known to be gone: it has ended, closed its last device, or broken a rule. For
    /// good, and without a system call; what has just ended may not be known yet.
    #[must_use]
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.gone.load(SeqCst) || self.segment.attention().load(SeqCst) & CLOSED != 0
    }

    /// Does not listen to it any more.
    pub fn give_up(&self) {
        self.gone.store(true, SeqCst);
    }

    /// Asks the kernel whether the process has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let process = self.process.as_fd();
        let mut ready = [PollFd::new(&process, PollFlags::IN)];
        loop {
            match poll(&mut ready, Some(&now)) {
                Ok(count) => return count > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// A descriptor that is ready to read once the process has ended (pidfd_open(2)).
    pub(super) fn process(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }
}

/// Traffic.
impl Peer {
    /// Whether the other is the same process.
    #[must_use]
    #[inline]
    pub fn is(&self, other: &Self) -> bool {
        self.generation == other.generation && self.slot == other.slot
    }

    /// The reading side of the link, at its beginning: for the one who reads it.
    pub fn consumer(&self) -> Consumer {
        Consumer::new(self.places[1])
    }

    /// Sends a packet, if not at once then when there is room; answers whether there was.
    pub fn packet(&self, content: &[u8]) -> bool {
        let sent = self.out.lock().packet(&self.link, content);
        sent.unwrap_or_else(|_| {
            self.give_up();
            true
        })
    }

    /// Sends a message of so many bytes, which are few; `None` if there is no room. One that goes by credit
    /// (its header says so) went by one of the gate of that index, as it was with that count.
    // Inlined, so that words stay words until they are in the ring.
    #[inline(always)]
    pub fn short(&self, header: &Header, few: Few, length: usize, gate: GateSeen) -> Option<Put> {
        let good = || self.segment.gate_is_still(gate);
        let mut out = self.out.lock();
        let sent = out.short(&self.link, header, few, length, good);
        self.answer(sent)
    }

    /// The same of a message whose bytes `fill` writes; `None` also if they cannot be had.
    pub fn long(
        &self,
        header: &Header,
        length: usize,
        fill: Fill<'_>,
        gate: GateSeen,
    ) -> Option<Put> {
        let good = || self.segment.gate_is_still(gate);
        let sent = self.out.lock().long(&self.link, header, length, fill, good);
        self.answer(sent)
    }

    /// Whether it has taken the record at a position, as far as it has said.
    #[inline]
    #[must_use]
    pub fn has_taken(&self, position: u64) -> bool {
        Producer::taken_word(self.places[0], self.link.memory()) > position
    }

    #[inline]
    fn answer(&self, sent: Result<Option<Put>, Broken>) -> Option<Put> {
        sent.unwrap_or_else(|_| {
            self.give_up();
            None
        })
    }

    /// Whether the peer sleeps and this is what wakes it: records are there.
    #[inline]
    #[must_use]
    pub fn is_to_be_woken(&self) -> bool {
        self.wakes(SLEEPS)
    }

    /// Whether the peer sleeps and waits for records to be taken, which now were.
    #[inline]
    #[must_use]
    pub fn is_to_be_told(&self) -> bool {
        self.wakes(AWAITS)
    }

    fn wakes(&self, flag: u64) -> bool {
        let attention = self.segment.attention();
        attention.load(SeqCst) & flag != 0
            && attention.fetch_and(!(SLEEPS | AWAITS), SeqCst) & flag != 0
    }

    /// Whether [`Peer::collect`] may find something.
    #[inline]
    #[must_use]
    pub fn has_news(&self) -> bool {
        let taken = Producer::taken_word(self.places[0], self.link.memory());
        taken != self.collected.load(Acquire)
    }

    /// What became of what was sent.
    pub fn collect(&self, news: &mut News) {
        let mut out = self.out.lock();
        if out.collect(&self.link, news).is_err() {
            self.give_up();
        }
        self.collected.store(out.released(), Release);
    }

    /// It is gone: what it had not taken by then is lost.
    pub fn lose(&self, news: &mut News) {
        let mut out = self.out.lock();
        // What it took last it may have told nobody of but the ring.
        let _ = out.look(self.link.memory());
        out.lose(news);
    }

    /// Whether packets wait for room; then the queue pair is remembered, and told of by
    /// [`Peer::collect`].
    #[must_use]
    pub fn waits(&self, index: u32) -> bool {
        !self.is_gone() && self.out.lock().waits(index)
    }

    /// Whether anything depends on what the peer takes.
    #[must_use]
    pub fn awaits(&self) -> bool {
        self.out.lock().awaits()
    }

    /// Up to where the peer has taken records, and whose messages wait for it to take more.
    #[must_use]
    pub fn pending(&self) -> (u64, Vec<u32>) {
        let taken = Producer::taken_word(self.places[0], self.link.memory());
        (taken, self.out.lock().senders(taken))
    }
}

/// The rings of a link as the process of a slot has them: the one it writes, the one it reads.
pub(super) fn places(own: u16, peer: u16) -> [Place; 2] {
    [Place::new(own > peer), Place::new(own < peer)]
}
