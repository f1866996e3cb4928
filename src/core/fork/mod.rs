#![forbid(unsafe_code)]
//! Fork protection: ibv_fork_init(3), ibv_is_fork_initialized(3).
//!
//! A device reads and writes the physical pages that were registered. After a fork, the first write
//! to such a page moves the writer to a copy, away from the device. So pages in use by a device are
//! kept out of children (madvise(2), `MADV_DONTFORK`). Linux 5.12 and later copies such pages
//! during fork; `ibv_fork_init` asks the kernel by netlink, and `dont_fork` and `do_fork` do
//! nothing on such a kernel.
//!
//! | type | contents |
//! | --- | --- |
//! | `leaf::Leaf` | the counts of 64 pages, stored by binary digit, one word for each digit, so that adding 1 to any of them is one carry ripple |
//! | [`counts::PageCounts`](counts) | the number of live ranges that contain each page: leaves below nodes of 256 slots, like a page table. A range adds 1 to the slots that it covers entirely and descends only at its ends |
//! | `counts::near` | a shorter path for a range inside one existing leaf or two adjacent ones; shortest where no mark changes |
//! | `protection::Protection` | keeps the kernel's marks in step with the counts. The kernel is a trait (`Marks`), so that the model test can inject failures |
//! | `rounding::Rounding` | the pages that ranges in huge pages were rounded to: the mapping, and its page size, may be gone when the range is released |
//!
//! *Protecting.* If all pages are counted already, which is the common case for overlapping ranges,
//! only the counts change. Otherwise one madvise covers everything from the first page with count 0
//! to the last. If it fails, each run of such pages is tried alone, because a marked page between
//! them may have been unmapped. If that fails too, all of them are cleared again and no count
//! changes.
//!
//! *Releasing.* Pages with count 1 are cleared, run by run. A failure leaves the following pages
//! marked, so the run is halved until only the pages that cannot be cleared remain; those have been
//! unmapped or mapped again. After EAGAIN (no map entry to split a mapping with) the run is
//! recorded and retried with the next release. Pages that were never protected stay untouched.
//!
//! *Map entries.* The kernel merges mappings whose marks are equal again, but not mappings that
//! each got their first page while they were separate. A registration pins its pages while they are
//! marked, so memory registered before its first use would end in fragments, up to
//! vm.max_map_count. Therefore one page is faulted in before the first mark in a group of 64 pages
//! (`kit::sys::madvise::fault_in`).
//!
//! *Invariants.* A page is marked if and only if its count is above 0, except for the runs recorded
//! after EAGAIN. A count that reaches its maximum stays there, so the page stays protected.
//!
//! *Locks and children.* One lock is held during a call, including madvise, so marks and counts
//! change together. A child, however it was created, starts with no live range and a free lock
//! (`kit::sys::per_process`); it has none of the protected pages. Before Linux 4.14, which cannot
//! clear the state at fork, a child continues with its parent's state.
//!
//! *Speed.* `cargo xtask bench` compares with rdma-core's library (docs/benchmarks.md).
//! `c-tests/bench/fork.c` measures any library: `cc -O2 -o fork c-tests/bench/fork.c -ldl -lpthread
//! && ./fork LIBRARY THREADS RANGES [OPERATIONS [PATTERN]]`. With few overlapping ranges, nearly
//! all time is spent in madvise calls that both libraries make. Leaving pages marked until the next
//! fork would avoid most of them. That is not done for two reasons: handlers run for fork(2) only,
//! so a child of clone(2) or `_Fork` would miss pages that are no longer registered; and memory
//! that is unmapped and mapped again would lose marks that its owner made.
//!
//! Tests: `counts::tests` and `protection::tests` (models), `export::fork::tests`, and the `fork_*`
//! programs of `c-tests/programs/self_checking`.

mod counts;
mod kernel;
mod leaf;
mod page_size;
mod protection;
mod rounding;

use super::netlink;
use counts::{LIMIT, Pages};
use kernel::Kernel;
use kit::{
    errno::{Errno, Result},
    sys::lock::{Guard, Lock},
    sys::per_process::PerProcess,
};
use protection::Protection;
use rounding::Rounding;
use std::{
    env,
    sync::atomic::{AtomicBool, AtomicU8, Ordering::Acquire, Ordering::Relaxed, Ordering::Release},
};

/// Answer of [`status`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The program has not asked for protection.
    Disabled,
    /// Registered pages are kept out of children.
    Enabled,
    /// The kernel copies registered pages at fork.
    Unneeded,
}

/// Nothing registered yet, protection not asked for.
const FRESH: u8 = 0;
/// Something was registered without protection.
const TOO_LATE: u8 = 1;
/// Ranges are marked.
const MARKING: u8 = 2;
/// Protection was asked for, and the kernel gives it.
const BY_KERNEL: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(FRESH);
static HUGE_PAGES: AtomicBool = AtomicBool::new(false);
static LIVE: PerProcess<Lock<Live>> = PerProcess::new();

struct Live {
    protection: Protection<Kernel>,
    rounding: Rounding,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            protection: Protection::new(Kernel),
            rounding: Rounding::default(),
        }
    }
}

/// Starts protection of the ranges registered from now on; once started, does nothing.
/// `RDMAV_HUGEPAGES_SAFE` in the environment, with whatever value, adds the care for huge pages.
///
/// # Errors
/// EINVAL when a range was registered before, ENOMEM, ENOSYS when the kernel cannot mark pages.
pub fn init() -> Result<()> {
    if env::var_os("RDMAV_HUGEPAGES_SAFE").is_some() {
        HUGE_PAGES.store(true, Relaxed);
    }
    match STATE.load(Acquire) {
        MARKING | BY_KERNEL => return Ok(()),
        TOO_LATE => return Err(Errno::INVAL),
        _ => {}
    }
    if copies() {
        return enter(BY_KERNEL);
    }
    kernel::probe()?;
    live()?.protection.reserve()?;
    enter(MARKING)
}

/// This process's live ranges, locked.
fn live() -> Result<Guard<'static, Live>> {
    Ok(LIVE.get()?.lock())
}

/// [`live`] where that takes no waiting and no memory.
#[inline(always)]
fn free() -> Option<Guard<'static, Live>> {
    LIVE.made()?.try_lock()
}

/// Takes the one step out of FRESH, unless another thread has.
fn enter(state: u8) -> Result<()> {
    match STATE.compare_exchange(FRESH, state, Release, Acquire) {
        Err(TOO_LATE) => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

/// Whether registered memory survives a fork.
pub fn status() -> Status {
    if copies() {
        return Status::Unneeded;
    }
    if STATE.load(Acquire) == MARKING {
        Status::Enabled
    } else {
        Status::Disabled
    }
}

/// Whether the kernel copies pinned pages at fork. Only a yes is kept: the part of the kernel
/// that answers may be loaded later.
fn copies() -> bool {
    static COPIES: AtomicBool = AtomicBool::new(false);
    if !COPIES.load(Relaxed) && netlink::copy_on_fork().unwrap_or(false) {
        COPIES.store(true, Relaxed);
    }
    COPIES.load(Relaxed)
}

/// Keeps the pages of `len` bytes at `addr` out of children, until as many calls of [`do_fork`]
/// for the same bytes. Without [`init`] before it, remembers only that it is too late for one.
///
/// # Errors
/// Those of madvise(2): ENOMEM where part of the range is not mapped or memory is short, EINVAL
/// for a part of a huge page (without `RDMAV_HUGEPAGES_SAFE`) or a range that wraps around,
/// EAGAIN. Nothing is protected then.
#[inline]
pub fn dont_fork(addr: usize, len: usize) -> Result<()> {
    match STATE.load(Acquire) {
        MARKING if addr != 0 && len != 0 => protect(addr, len),
        FRESH => unless_late(addr, len, protect),
        _ => Ok(()),
    }
}

// Apart from the test above, which is all that programs without protection come to.
#[inline(never)]
fn protect(addr: usize, len: usize) -> Result<()> {
    if !HUGE_PAGES.load(Relaxed)
        && let Some(pages) = rounding::countable(addr, len)
        && let Some(live) = free()
    {
        return protect_locked(live, pages);
    }
    protect_any(addr, len)
}

#[inline(always)]
fn protect_locked(mut live: Guard<'static, Live>, pages: Pages) -> Result<()> {
    if live.protection.protect_again(&pages) {
        return Ok(());
    }
    protect_held(live, pages)
}

// A separate function, so that the path before it saves no registers for it.
#[inline(never)]
fn protect_held(mut live: Guard<'static, Live>, pages: Pages) -> Result<()> {
    live.protection.protect(pages)
}

#[cold]
#[inline(never)]
fn protect_any(addr: usize, len: usize) -> Result<()> {
    if HUGE_PAGES.load(Relaxed) {
        return protect_huge(addr, len);
    }
    let pages = rounding::plain(addr, len)?;
    if pages.end > LIMIT {
        return Err(Errno::NOMEM);
    }
    protect_locked(live()?, pages)
}

fn protect_huge(addr: usize, len: usize) -> Result<()> {
    let pages = rounding::huge(addr, len)?;
    if pages.end > LIMIT {
        return Err(Errno::NOMEM);
    }
    let mut held = live()?;
    let live = &mut *held;
    live.rounding.note(addr, len, &pages)?;
    live.protection.protect(pages.clone()).inspect_err(|_| {
        live.rounding.take(addr, len, &pages);
    })
}

/// Ends one [`dont_fork`] of the same bytes: pages that lie in no other live range are children's
/// again. Bytes that were not protected are left alone.
///
/// # Errors
/// ENOMEM when the library needs memory and gets none; EINVAL for a range that wraps around.
/// Pages that were unmapped or mapped anew meanwhile are no error.
#[inline]
pub fn do_fork(addr: usize, len: usize) -> Result<()> {
    match STATE.load(Acquire) {
        MARKING if addr != 0 && len != 0 => give_back(addr, len),
        FRESH => unless_late(addr, len, give_back),
        _ => Ok(()),
    }
}

#[inline(never)]
fn give_back(addr: usize, len: usize) -> Result<()> {
    if let Some(pages) = rounding::countable(addr, len)
        && let Some(live) = free()
        && live.rounding.is_empty()
    {
        return give_back_locked(live, pages);
    }
    give_back_any(addr, len)
}

#[inline(always)]
fn give_back_locked(mut live: Guard<'static, Live>, pages: Pages) -> Result<()> {
    if live.protection.give_back_spare(&pages) {
        return Ok(());
    }
    give_back_held(live, pages)
}

#[inline(never)]
fn give_back_held(mut live: Guard<'static, Live>, pages: Pages) -> Result<()> {
    live.protection.give_back(pages)
}

#[cold]
#[inline(never)]
fn give_back_any(addr: usize, len: usize) -> Result<()> {
    let plain = rounding::plain(addr, len)?;
    if plain.end > LIMIT {
        return Ok(());
    }
    let mut live = live()?;
    if live.rounding.is_empty() {
        return give_back_locked(live, plain);
    }
    let pages = live.rounding.lookup(addr, len).unwrap_or(plain);
    live.protection.give_back(pages.clone())?;
    live.rounding.take(addr, len, &pages);
    Ok(())
}

/// The first range of a program that has not asked for protection: leaves FRESH, so that asking is
/// too late from now on. If another thread was faster and did ask, `call` is due.
#[cold]
#[inline(never)]
fn unless_late(addr: usize, len: usize, call: fn(usize, usize) -> Result<()>) -> Result<()> {
    let asked = STATE.compare_exchange(FRESH, TOO_LATE, Release, Acquire) == Err(MARKING);
    if !asked || addr == 0 || len == 0 {
        return Ok(());
    }
    call(addr, len)
}

/// For tests, which have to mark pages whatever the kernel of the day copies.
#[cfg(test)]
pub mod testing {
    use super::*;

    /// Marks pages from now on, with the care for huge pages or without.
    pub fn mark_pages(huge: bool) {
        kernel::probe().unwrap();
        LIVE.get().unwrap();
        STATE.store(MARKING, Release);
        HUGE_PAGES.store(huge, Relaxed);
    }

    /// Notes that a range was rounded to that many pages from its first on, as if they were huge.
    pub fn note_rounding(addr: usize, len: usize, pages: u64) {
        let first = rounding::plain(addr, len).unwrap().start;
        let rounded = first..first + pages;
        live().unwrap().rounding.note(addr, len, &rounded).unwrap();
    }

    /// Runs `inside` while the lock of the ranges is held.
    pub fn while_locked<T>(inside: impl FnOnce() -> T) -> T {
        let _held = LIVE.get().unwrap().lock();
        inside()
    }

    /// Whether the lock of the ranges is free.
    pub fn is_free() -> bool {
        LIVE.get().is_ok_and(|live| live.try_lock().is_some())
    }
}
