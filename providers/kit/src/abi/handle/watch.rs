//! Objects that the program must not use any more.
//!
//! While calls are checked, destroyed objects are remembered, and the blocks of providers written
//! in Rust are kept for a while instead of being freed, so that a use of them is detected and not
//! undefined.

use crate::sync::Mutex;
use crate::sys::{memory, per_process::PerProcess};
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::VecDeque;
use std::sync::OnceLock;

/// Blocks that are kept.
const KEPT: usize = 1024;

/// Checks whether the object at the first address, whose memory names the context at the second,
/// was destroyed.
pub type Check = fn(usize, usize) -> bool;

static CHECK: OnceLock<Check> = OnceLock::new();
/// Whether there is a check: without one, calls read only this.
static CHECKS: AtomicBool = AtomicBool::new(false);
/// A child starts without any: another thread may have held the lock when it was forked.
static BLOCKS: PerProcess<Mutex<VecDeque<Block>>> = PerProcess::new();

struct Block(*mut c_void);

// SAFETY: nothing else refers to the block.
unsafe impl Send for Block {}

/// Has every use of an object checked, from now on. The first check stays.
pub fn check_by(check: Check) {
    let _ = CHECK.set(check);
    CHECKS.store(true, Ordering::Relaxed);
}

/// Whether the object was destroyed.
#[inline]
pub(super) fn refuses(object: usize, context: usize) -> bool {
    CHECKS.load(Ordering::Relaxed) && checked(object, context)
}

#[cold]
#[inline(never)]
fn checked(object: usize, context: usize) -> bool {
    CHECK.get().is_some_and(|check| check(object, context))
}

/// Frees a block of an object, later if uses are checked.
///
/// # Safety
/// It came from [`memory`], and its use has ended.
#[inline]
pub(crate) unsafe fn free(block: *mut c_void) {
    // SAFETY: vouched for by the caller.
    unsafe {
        if CHECKS.load(Ordering::Relaxed) {
            free_later(block);
        } else {
            memory::free(block);
        }
    }
}

/// # Safety
/// As for [`free`].
#[cold]
#[inline(never)]
unsafe fn free_later(block: *mut c_void) {
    let kept = CHECK.get().and_then(|_| BLOCKS.get().ok());
    let oldest = match kept {
        None => Some(Block(block)),
        Some(blocks) => {
            let mut blocks = blocks.lock();
            blocks.push_back(Block(block));
            (blocks.len() > KEPT).then(|| blocks.pop_front()).flatten()
        }
    };
    if let Some(Block(block)) = oldest {
        // SAFETY: vouched for by the caller, now or when it was kept.
        unsafe { memory::free(block) }
    }
}
