//! A process that this one has met.

use super::attention::{self, AWAITS, CLOSED, SLEEPS};
use super::link::Link;
use super::mapped::{MappedRegion, MappedRegions};
use super::onesided::{Claim, Claims, GateSeen, PAUSE, Patience, SPINS, Shown, Use};
use super::onesided::{claims_anything, is_at_rest, take_away, withdraw};
use super::ring::{Broken, Consumer, Producer, RingOffset};
use super::segment::PeerSegment;
use super::watched_process::WatchedProcess;
use super::wire::{Few, Fill, Header, NotPut, Out, Put, SendUpdates, Wait};
use kit::sys::cycles;
use kit::sys::lock::Lock;
use kit::sys::ready::is_readable;
use rustix::process::Pid;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst,
};

/// How long a message waits for room, in cycles: longer than a peer that runs takes for as many
/// records as it reports at once, an eighth of the ring. About 40 µs.
const ROOM_SOON: u64 = 40 * cycles::IN_A_MICROSECOND;
/// How long all messages of one call of a verb wait for room, in cycles. The queue pair is locked
/// meanwhile, and a thread that receives for it waits. About 100 µs.
const ROOM_OF_A_CALL: u64 = 100 * cycles::IN_A_MICROSECOND;
/// Waits for room of one message at most: after each, the peer has taken some records.
const WAITS: usize = 8;

/// How long a call may still wait for room in rings, with all its messages.
#[derive(Debug)]
pub struct RoomWait {
    /// In cycles.
    left: u64,
}

impl RoomWait {
    /// That of a call of a verb that posts.
    #[must_use]
    #[inline]
    pub fn of_a_call() -> Self {
        Self {
            left: ROOM_OF_A_CALL,
        }
    }

    /// It does not wait.
    #[must_use]
    #[inline]
    pub fn none() -> Self {
        Self { left: 0 }
    }

    /// So many cycles.
    #[cfg(test)]
    pub fn cycles(left: u64) -> Self {
        Self { left }
    }

    /// Whether it waits no longer.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left == 0
    }
}

/// A process that this one has met: perhaps this one itself.
#[derive(Debug)]
pub struct Peer {
    pub(super) slot: u16,
    pub(super) generation: u64,
    pub(super) pid: Pid,
    /// Ready to read once the process has ended.
    pub(super) process: WatchedProcess,
    pub(super) segment: PeerSegment,
    pub(super) link: Link,
    pub(super) gone: AtomicBool,
    /// The ring that this process writes, and the one that it reads.
    pub(super) places: [RingOffset; 2],
    pub(super) out: Lock<Out>,
    /// Up to where [`Peer::collect`] has looked.
    pub(super) collected: AtomicU64,
    /// Whether anything depends on records that the peer consumes, as it was when `out` was
    /// unlocked last.
    pub(super) awaits: AtomicBool,
    /// Whether there is room for queue pairs that wait for it, as it was then.
    pub(super) can_serve: AtomicBool,
    /// Whether there is none for others, as it was then.
    pub(super) crowded: AtomicBool,
    /// The sleep of the peer's that it was woken from last: once is enough for each.
    pub(super) woken: AtomicU64,
    /// Which threads of this process use it.
    pub(super) claims: Claims,
    /// Its regions that are mapped here.
    pub(super) mapped: MappedRegions,
}

impl Peer {
    /// Its slot.
    #[must_use]
    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// Its process number. It may be another's once the process is gone, see
    /// [`Peer::has_its_number`].
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether its process number is its own now, and its program the same, and were since the last
    /// such answer, as far as the kernel says (`WatchedProcess`). Before a copy by that number it
    /// says that the copy does not begin with another process; after it, that it went to no other.
    #[must_use]
    #[inline]
    pub fn has_its_number(&self) -> bool {
        self.process.has_its_number()
    }

    /// Distinguishes it from earlier and later processes in the same slot.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Its segment. Whatever is read there may be wrong.
    #[must_use]
    pub fn segment(&self) -> &PeerSegment {
        &self.segment
    }

    /// The link with it.
    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Whether the peer is known to be gone: it has ended, closed its last device, or violated a
    /// rule. This is permanent, and takes no system call; a recent end may not be known yet.
    #[must_use]
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.gone.load(SeqCst) || self.segment.attention() & CLOSED != 0
    }

    /// Whether it has broken a rule, or has left.
    #[must_use]
    #[inline]
    pub fn is_given_up(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// Does not listen to it any more.
    pub fn give_up(&self) {
        self.gone.store(true, SeqCst);
    }

    /// Asks the kernel whether the process has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        is_readable(self.process.as_fd()).unwrap_or(false)
    }

    /// Whether it has ended, or closed its last device.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.segment.attention() & CLOSED != 0 || self.has_ended()
    }
}

/// One-sided operations.
impl Peer {
    /// Claims a gate and a key of the peer for a copy of so many bytes, until the result is
    /// dropped. Values read from its tables afterwards remain valid for that time. `None` if too
    /// many threads have claims, or the peer was given up. `node` is the generation of this
    /// process. `copy` is the number of bytes, and whether they may be copied in mapped memory.
    #[inline]
    #[must_use]
    pub fn claim(&self, node: u64, what: (u32, u32), copy: (u64, bool)) -> Option<Claim<'_>> {
        let [ours, _] = self.places;
        let claim = self.claims.claim((&self.link, ours), node, what, copy)?;
        // Otherwise `withdraw` finds the claim.
        (!self.is_given_up()).then_some(claim)
    }

    /// The region of a key of the peer, mapped here; whether it was mapped now. `None` if it cannot
    /// be, or not at the moment.
    #[must_use]
    pub fn mapped_region(&self, shown: &Shown) -> Option<(Arc<MappedRegion>, bool)> {
        if self.is_own() || self.is_gone() {
            return None;
        }
        self.mapped.get(self.pid, shown)
    }

    /// The peer was given up, and its number may become another process's: copies of this process
    /// that have not begun move nothing.
    pub(super) fn withdraw(&self) {
        let [ours, _] = self.places;
        withdraw(&self.link, ours);
    }

    /// Waits until the peer does not use that part of this process, and will not: it was taken away
    /// from the tables, and a full fence has passed. `false` if that is not known in the end. A
    /// peer that has ended uses nothing.
    #[must_use]
    pub fn await_unused(&self, what: Use, patience: &mut Patience) -> bool {
        let [_, theirs] = self.places;
        for _ in 0..SPINS {
            if !take_away(&self.link, theirs, what, |_| false) {
                return true;
            }
            std::hint::spin_loop();
        }
        let rests = |thread| is_at_rest(self.pid, thread);
        while take_away(&self.link, theirs, what, rests) && !self.has_ended() {
            if patience.is_over() {
                return false;
            }
            kit::sys::sched::sleep(PAUSE);
        }
        true
    }

    /// Whether the peer claims anything of this process.
    pub(super) fn uses_something(&self) -> bool {
        let [_, theirs] = self.places;
        claims_anything(&self.link, theirs)
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

    /// The reading side of the link, at its beginning, for the thread that reads it.
    pub fn consumer(&self) -> Consumer {
        Consumer::new(self.places[1])
    }

    /// Sends a packet, if not at once then when there is room; returns whether there was.
    /// One that may be lost is, if the peer stalls and there is no room.
    pub fn packet(&self, content: &[u8], may_be_lost: bool) -> bool {
        let mut out = self.out.lock();
        let sent = out.packet(&self.link, content, may_be_lost);
        self.note(&out);
        sent.unwrap_or_else(|_| {
            self.give_up();
            true
        })
    }

    /// Sends a message of so many bytes, which are few; `None` if there is no room. A message by
    /// credit (its header has the flag) used one of the gate of that index, with that count.
    // Inlined, so that words stay in registers until they are in the ring.
    #[inline(always)]
    pub fn short(&self, header: &Header, few: Few, length: usize, gate: GateSeen) -> Option<Put> {
        let good = || self.segment.gate_is_still(gate);
        let mut out = self.out.lock();
        let sent = out.short(&self.link, header, few, length, good);
        self.note(&out);
        self.answer(sent)
    }

    /// The same for a message whose bytes `fill` writes.
    ///
    /// # Errors
    /// [`NotPut`], if it is not in the ring.
    pub fn long(
        &self,
        header: &Header,
        length: usize,
        fill: Fill<'_>,
        gate: GateSeen,
    ) -> Result<Put, NotPut> {
        let good = || self.segment.gate_is_still(gate);
        let mut out = self.out.lock();
        let sent = out.long(&self.link, header, length, fill, good);
        self.note(&out);
        sent.unwrap_or_else(|_| {
            self.give_up();
            Err(NotPut::NoRoom)
        })
    }

    /// Puts a message of so many bytes into the ring, if need be after a short wait for room: the
    /// ring serves all queue pairs of two processes, and holds fewer messages than many of them may
    /// post.
    ///
    /// # Errors
    /// [`NotPut`], if it is not in the ring.
    #[inline(always)]
    pub fn put_when_room(
        &self,
        length: usize,
        wait: &mut RoomWait,
        mut put: impl FnMut() -> Result<Put, NotPut>,
    ) -> Result<Put, NotPut> {
        let mut put_now = put();
        for _ in 0..WAITS {
            if put_now != Err(NotPut::NoRoom) || !self.await_room(length, wait) {
                break;
            }
            put_now = put();
        }
        put_now
    }

    /// Waits briefly for room for a message of so many bytes that has found none. Returns whether
    /// to try again.
    ///
    /// A message that goes as packets instead costs several times as much, and so do the ones after
    /// it, until their queue pair has nothing under way. A peer that runs takes records all the
    /// time. But where the peer is this process, the waiting thread may hold what the taking one
    /// needs.
    #[inline(never)]
    pub(super) fn await_room(&self, length: usize, room: &mut RoomWait) -> bool {
        if room.is_over() || self.is_own() {
            return false;
        }
        let memory = self.link.memory();
        let taken = || Producer::taken_word(self.places[0], memory);
        let before = taken();
        let wait = self.out.lock().begin_wait(memory, length);
        match wait {
            Ok(Wait::Over) => return true,
            Ok(Wait::Begins) if !self.is_gone() && !self.sleeps() => {}
            Ok(Wait::Begins | Wait::Useless) | Err(Broken) => return false,
        }
        let most = ROOM_SOON.min(room.left);
        let began = cycles::now();
        let (has_taken, waited) = loop {
            let has_taken = taken() != before;
            let waited = cycles::now().wrapping_sub(began);
            if has_taken || waited >= most {
                break (has_taken, waited);
            }
            std::hint::spin_loop();
        };
        room.left = room.left.saturating_sub(waited);
        // A wait that was cut short and saw nothing says nothing.
        if has_taken || most == ROOM_SOON {
            self.out.lock().end_wait(!has_taken);
        }
        has_taken
    }

    /// Whether it is this process: it has one ring to itself.
    fn is_own(&self) -> bool {
        let [written, read] = self.places;
        written == read
    }

    /// Whether it has taken the record at a position, as far as it has reported.
    #[inline]
    #[must_use]
    pub fn has_taken(&self, position: u64) -> bool {
        Producer::taken_word(self.places[0], self.link.memory()) > position
    }

    /// Notes whether anything depends on the peer's progress: a thread that goes to sleep checks
    /// that of all peers.
    #[inline]
    fn note(&self, out: &Out) {
        let awaits = out.awaits();
        if self.awaits.load(Relaxed) != awaits {
            self.awaits.store(awaits, Release);
        }
        let can_serve = awaits && out.can_serve();
        if self.can_serve.load(Relaxed) != can_serve {
            self.can_serve.store(can_serve, Release);
        }
        let crowded = awaits && out.is_crowded();
        if self.crowded.load(Relaxed) != crowded {
            self.crowded.store(crowded, Relaxed);
        }
    }

    #[inline]
    fn answer(&self, sent: Result<Option<Put>, Broken>) -> Option<Put> {
        sent.unwrap_or_else(|_| {
            self.give_up();
            None
        })
    }

    /// Whether the peer sleeps and this wakes it: records are there.
    #[inline]
    #[must_use]
    pub fn is_to_be_woken(&self) -> bool {
        self.wakes(SLEEPS)
    }

    /// Whether the peer sleeps and waits for records to be taken, which now were.
    #[inline]
    #[must_use]
    pub fn awaits_report(&self) -> bool {
        self.wakes(AWAITS)
    }

    /// Whether the peer sleeps.
    pub fn sleeps(&self) -> bool {
        self.segment.attention() & SLEEPS != 0
    }

    fn wakes(&self, flag: u64) -> bool {
        attention::wakes(self.segment.attention(), flag, &self.woken)
    }

    /// Whether [`super::Directory::collect`] may find something.
    #[inline]
    #[must_use]
    pub fn has_updates(&self) -> bool {
        let taken = Producer::taken_word(self.places[0], self.link.memory());
        taken != self.collected.load(Acquire) || self.can_serve.load(Relaxed)
    }

    /// Whether other queue pairs wait for the room that there is. A late value costs them a turn.
    #[must_use]
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.crowded.load(Relaxed)
    }

    /// The messages of a queue pair wait for room from now on, see
    /// [`super::Directory::collect`]. Returns the position of the last sent byte; `None` if the
    /// peer is gone.
    #[must_use]
    pub fn wait_for_room(&self, index: u32) -> Option<u64> {
        let mut out = self.out.lock();
        // Records that were taken meanwhile count: the peer may take no others.
        out.look(self.link.memory()).ok()?;
        let last = out.wait_for_room(index);
        self.note(&out);
        last
    }

    /// Collects the outcomes of sent messages. Returns whether packets that waited for room were
    /// put into the ring, see [`super::Directory::collect`].
    pub(super) fn collect(&self, updates: &mut SendUpdates) -> bool {
        let mut out = self.out.lock();
        let any_put = out.collect(&self.link, updates);
        self.note(&out);
        self.collected.store(out.released(), Release);
        any_put.unwrap_or_else(|_| {
            self.give_up();
            false
        })
    }

    /// The peer is gone: messages that it had not consumed by then are lost.
    pub fn lose(&self, updates: &mut SendUpdates) {
        let mut out = self.out.lock();
        // Its last consumption may be recorded only in the ring.
        let _ = out.look(self.link.memory());
        out.lose(updates);
        self.note(&out);
    }

    /// Whether packets wait for room; then the queue pair is listed, and reported by
    /// [`super::Directory::collect`].
    #[must_use]
    pub fn waits(&self, index: u32) -> bool {
        !self.is_gone() && self.out.lock().waits(index)
    }

    /// Whether anything depends on records that the peer consumes.
    #[must_use]
    pub fn awaits(&self) -> bool {
        self.awaits.load(SeqCst)
    }

    /// The position up to which the peer has consumed records: it only grows, and never beyond the
    /// sent ones.
    #[must_use]
    pub fn progress(&self) -> u64 {
        let mut out = self.out.lock();
        if out.look(self.link.memory()).is_err() {
            self.give_up();
        }
        self.note(&out);
        out.released()
    }

    /// The peer has taken nothing for long: as long as that is so, packets that may be lost do not
    /// wait for room.
    pub fn stalls(&self) {
        self.out.lock().stalls();
    }

    /// Whether that is so.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.out.lock().is_stalled()
    }
}

/// The rings of a link as the process of a slot has them: the one it writes, the one it reads.
pub(super) fn places(own: u16, peer: u16) -> [RingOffset; 2] {
    [RingOffset::new(own > peer), RingOffset::new(own < peer)]
}
