#![forbid(unsafe_code)]
//! Fork protection: ibv_fork_init(3), ibv_is_fork_initialized(3).
//!
//! A device reads and writes the physical pages that were registered. After a fork, the first
//! write of the parent to such a page would move the parent to a copy, away from the device. So
//! pages in use by a device are kept out of children (madvise(2), `MADV_DONTFORK`), unless the
//! kernel copies them for the child at fork. A page can lie in several registrations, so they
//! are counted by page: see [`counts`].
//!
//! A child starts without live ranges: it has none of the protected pages, and what it maps and
//! registers itself counts from 0. No lock held in the parent at the moment of the fork is held
//! in the child.

mod counts;
mod kernel;
mod leaf;
mod page_size;
mod protection;
mod rounding;

use super::netlink;
use counts::LIMIT;
use kernel::Kernel;
use kit::{
    errno::{Errno, Result},
    sys::per_process::PerProcess,
};
use protection::Protection;
use rounding::Rounding;
use std::{
    env,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU8, Ordering::Acquire, Ordering::Relaxed, Ordering::Release},
    },
};

/// Answer of [`status`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Nobody has asked for protection.
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
static LIVE: PerProcess<Mutex<Live>> = PerProcess::new();

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

/// This process's live ranges, locked. By std's lock: `c-tests/bench/fork.c` with two threads and
/// overlapping ranges runs faster over it than over parking_lot's.
fn live() -> Result<MutexGuard<'static, Live>> {
    Ok(LIVE.get()?.lock().unwrap_or_else(PoisonError::into_inner))
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
    if !marking() || addr == 0 || len == 0 {
        return Ok(());
    }
    protect(addr, len)
}

// Apart from the test above, which is all that programs without protection come to.
#[inline(never)]
fn protect(addr: usize, len: usize) -> Result<()> {
    let huge = HUGE_PAGES.load(Relaxed);
    let pages = if huge {
        rounding::huge(addr, len)?
    } else {
        rounding::plain(addr, len)?
    };
    if pages.end > LIMIT {
        return Err(Errno::NOMEM);
    }
    let mut held = live()?;
    let live = &mut *held;
    if huge {
        live.rounding.note(addr, len, &pages)?;
    }
    live.protection.protect(pages.clone()).inspect_err(|_| {
        live.rounding.take(addr, len, &pages);
    })
}

/// Ends one [`dont_fork`] of the same bytes: pages that lie in no other live range are children's
/// again. Bytes that nobody protected are left alone.
///
/// # Errors
/// ENOMEM when the library needs memory and gets none; EINVAL for a range that wraps around.
/// Pages that were unmapped or mapped anew meanwhile are no error.
#[inline]
pub fn do_fork(addr: usize, len: usize) -> Result<()> {
    if !marking() || addr == 0 || len == 0 {
        return Ok(());
    }
    give_back(addr, len)
}

#[inline(never)]
fn give_back(addr: usize, len: usize) -> Result<()> {
    let plain = rounding::plain(addr, len)?;
    let mut live = live()?;
    let pages = live.rounding.recall(addr, len).unwrap_or(plain);
    if pages.end > LIMIT {
        return Ok(());
    }
    live.protection.give_back(pages.clone())?;
    live.rounding.take(addr, len, &pages);
    Ok(())
}

fn marking() -> bool {
    let state = STATE.load(Acquire);
    if state == FRESH {
        return STATE.compare_exchange(FRESH, TOO_LATE, Release, Acquire) == Err(MARKING);
    }
    state == MARKING
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

    /// Runs `inside` while the lock of the ranges is held.
    pub fn while_locked<T>(inside: impl FnOnce() -> T) -> T {
        let _held = LIVE.get().unwrap().lock();
        inside()
    }

    /// Whether the lock of the ranges is free.
    pub fn is_free() -> bool {
        LIVE.get().is_ok_and(|live| live.try_lock().is_ok())
    }
}
