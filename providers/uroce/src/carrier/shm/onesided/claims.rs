//! The objects of a peer that a process is using at the moment. It writes them into their link, so
//! that the peer can wait before it revokes one.
//!
//! An initiator writes its claim, and then reads the peer's tables; a process that revokes
//! something writes its table, and then reads the claims of its peers. Between the two steps of
//! each is a full fence, so that at least one of them sees the other: either the initiator finds
//! the thing gone, or it is waited for.
//!
//! *A stopped peer* between its read of the tables and the copy would copy at any later time.
//! Therefore the slot of its claim also contains the range to be copied, and the kernel reads the
//! range from there when the copy begins ([`kit::sys::other_process`]). The initiator writes the
//! length before it publishes the claim, and not again. A process that revokes the object sets the
//! length to 0 after it has read the claim. From then on a copy that has not begun moves no bytes.
//! A copy that has begun is inside a system call, which a signal, a debugger or a scheduler may
//! delay, but not stop: threads stop where they return to their program, or before the call. So a
//! thread that is stopped, or in another system call, is not copying, and will not copy; the
//! revoking process does not wait for it.
//!
//! *A copy in mapped memory* is made by the initiator itself, which can be stopped in the middle of
//! it. The claim says so, and counts as a copy that has begun until it is given up or its process
//! ends.
//!
//! *The remaining case* is a thread that runs, or is ready to run, and may be copying. A copy takes
//! milliseconds, so only a peer that gets no processor for long, or that violates the protocol, is
//! found there after the caller's time limit. Then the object may still be in use, and the caller
//! fails. No call waits without bound, and no byte is written to memory that was given back.
//!
//! # Memory order
//! The full fences are `fence(SeqCst)`, in [`Claims::claim`] and in
//! [`super::super::Directory::await_unused`]. The words of a claim are stored before the release
//! store of its gate and key, and loaded after these were acquired. A released claim comes after
//! the bytes of the copy, which the kernel writes on the processor of the calling thread. A third
//! full fence stands between the length of 0 and the look at a thread's state ([`take_away`]): the
//! scheduler has one between the end of a thread's rest and its next access, so either the thread
//! is seen running, or it reads 0. On x86-64 the sequentially consistent store would do; on arm64
//! later loads may overtake it. The fence of [`withdraw`] is between the mark of a peer that was
//! given up and the lengths of 0, and the fence of a claim between its length and the look at the
//! mark: either the mark is seen, or the length ends as 0.

use super::super::link::Link;
use super::super::ring::RingOffset;
use kit::sys::other_process::Range;
use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};
use std::time::{Duration, Instant};

/// Threads of a process that use the same peer at the same time. Further threads take the protocol
/// path.
const PLACES: usize = 16;
/// Words of a place: a cache line.
const WORDS: usize = 8;
/// Where claims are in the head of a ring that the initiator writes, in words.
const OFFSET: usize = 1024 / size_of::<u64>();
/// How often a peer is looked at before it is given time, and how long each time.
pub const SPINS: u32 = 4096;
pub const PAUSE: Duration = Duration::from_micros(200);

/// Words of a place, by index.
mod word {
    /// The gate, and the key, that are used.
    pub const GATE: usize = 0;
    pub const KEY: usize = 1;
    /// The thread.
    pub const THREAD: usize = 2;
    /// The range that is copied, as the kernel reads it: its address and its length.
    pub const RANGE: usize = 3;
    pub const LENGTH: usize = 4;
    /// Not 0 if the thread copies by itself, in memory that it has mapped.
    pub const MAPPED: usize = 5;
}

/// A part of a peer that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The gate of the queue pair of that index.
    Gate(u32),
    /// The key of that index.
    Key(u32),
}

impl Use {
    /// The word of a place that claims it, and the value there.
    fn location(self) -> (usize, u64) {
        match self {
            Self::Gate(index) => (word::GATE, used(index)),
            Self::Key(index) => (word::KEY, used(index)),
        }
    }
}

fn used(index: u32) -> u64 {
    1 << 63 | u64::from(index)
}

fn places(link: &Link, ring: RingOffset) -> &[[AtomicU64; WORDS]] {
    let words = ring.head(link.memory(), OFFSET, PLACES * WORDS);
    words.unwrap_or_default().as_chunks().0
}

/// How long peers are waited for, from the first wait on.
#[derive(Debug)]
pub struct Patience {
    limit: Duration,
    began: Option<Instant>,
}

impl Patience {
    /// So long.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self { limit, began: None }
    }

    /// Whether that has passed since this was asked first.
    pub fn is_over(&mut self) -> bool {
        self.began.get_or_insert_with(Instant::now).elapsed() > self.limit
    }
}

/// Takes a part of this process, which is not in its tables any more, away from copies that have
/// not begun, of the peer that writes this ring. Returns whether there is one that may have: of a
/// thread that does not rest.
pub fn take_away(link: &Link, ring: RingOffset, what: Use, rests: impl Fn(u64) -> bool) -> bool {
    let (offset, wanted) = what.location();
    let mut begun = false;
    for place in places(link, ring) {
        let matches = |claimed: &AtomicU64| claimed.load(Acquire) == wanted;
        if !place.get(offset).is_some_and(matches) {
            continue;
        }
        let [_, _, thread, _, length, mapped, ..] = place;
        length.store(0, Relaxed);
        fence(SeqCst);
        begun |= mapped.load(Relaxed) != 0 || !rests(thread.load(Relaxed));
    }
    begun
}

/// Takes all copies away from this process, which writes this ring, that have not begun. The peer
/// was marked as given up before.
pub fn withdraw(link: &Link, ring: RingOffset) {
    fence(SeqCst);
    for [_, _, _, _, length, ..] in places(link, ring) {
        length.store(0, Relaxed);
    }
}

/// Whether the peer that writes this ring claims anything.
pub fn claims_anything(link: &Link, ring: RingOffset) -> bool {
    let claims = |place: &[AtomicU64; WORDS]| {
        let [gate, key, ..] = place;
        gate.load(Acquire) | key.load(Acquire) != 0
    };
    places(link, ring).iter().any(claims)
}

/// The kernel's number of the calling thread. It is queried once for each node: in a forked child
/// the surviving thread has another number.
fn own_thread(node: u64) -> u64 {
    thread_local! {
        static KNOWN: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    }
    let ask = || u64::from(kit::sys::identity::thread());
    let known = KNOWN.try_with(|known| {
        if known.get().0 != node {
            known.set((node, ask()));
        }
        known.get().1
    });
    // In a thread that ends.
    known.unwrap_or_else(|_| ask())
}

/// The places of this process in a link, each of one thread at a time.
#[derive(Debug)]
pub struct Claims {
    taken: [AtomicBool; PLACES],
}

impl Default for Claims {
    fn default() -> Self {
        Self {
            taken: [const { AtomicBool::new(false) }; PLACES],
        }
    }
}

impl Claims {
    /// Claims a gate and a key of the peer that reads this ring, for a copy of so many bytes, until
    /// the result is dropped. Values read from the peer's tables afterwards remain valid for that
    /// time. `None` if too many threads have claims. `node` differs in a forked child. `mapped`:
    /// the copy may be one of this process, which nothing takes away.
    #[inline]
    pub fn claim<'p>(
        &'p self,
        (link, ring): (&'p Link, RingOffset),
        node: u64,
        (gate, key): (u32, u32),
        (length, mapped): (u64, bool),
    ) -> Option<Claim<'p>> {
        for (place, taken) in places(link, ring).iter().zip(&self.taken) {
            if taken.load(Relaxed) || taken.swap(true, Acquire) {
                continue;
            }
            let [gate_place, key_place, thread, address, bytes, is_mapped, ..] = place;
            is_mapped.store(u64::from(mapped), Relaxed);
            thread.store(own_thread(node), Relaxed);
            address.store(0, Relaxed);
            bytes.store(length, Relaxed);
            gate_place.store(used(gate), Release);
            key_place.store(used(key), Release);
            fence(SeqCst);
            return Some(Claim { place, taken });
        }
        None
    }
}

/// Something of a peer is in use.
#[derive(Debug)]
pub struct Claim<'a> {
    place: &'a [AtomicU64; WORDS],
    taken: &'a AtomicBool,
}

impl Claim<'_> {
    /// The range that is copied, which begins at that address. The peer may take it away.
    #[must_use]
    #[inline]
    pub fn range(&self, address: u64) -> &Range {
        const { assert!(word::LENGTH == word::RANGE + 1 && word::THREAD == word::RANGE - 1) };
        const { assert!(word::MAPPED == word::LENGTH + 1) };
        let [_, _, _, range @ .., _, _, _] = self.place;
        let [base, _] = range;
        base.store(address, Relaxed);
        range
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let [gate, key, ..] = self.place;
        // The copy is done before its end becomes visible.
        gate.store(0, Release);
        key.store(0, Release);
        self.taken.store(false, Release);
    }
}
