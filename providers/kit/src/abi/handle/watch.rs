//! Objects that the program must not use any more.
//!
//! While calls are checked, somebody knows which objects were destroyed, and the blocks of
//! providers written in Rust are kept for a while instead of being freed, so that a use of them is
//! found out and not undefined.

use crate::sys::memory;
use core::ffi::c_void;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::OnceLock;

/// Blocks that are kept.
const KEPT: usize = 1024;

/// Says whether the object at the first address, whose memory names the context at the second, is
/// one that was destroyed.
pub type Check = fn(usize, usize) -> bool;

static CHECK: OnceLock<Check> = OnceLock::new();
static BLOCKS: Mutex<VecDeque<Block>> = Mutex::new(VecDeque::new());

struct Block(*mut c_void);

// SAFETY: nobody else has the block.
unsafe impl Send for Block {}

/// Has every use of an object checked, from now on. The first check stays.
pub fn check_by(check: Check) {
    let _ = CHECK.set(check);
}

/// Whether the object was destroyed.
#[inline]
pub(super) fn refuses(object: usize, context: usize) -> bool {
    CHECK.get().is_some_and(|check| check(object, context))
}

/// Frees a block of an object, later if uses are checked.
///
/// # Safety
/// It came from [`memory`], and nobody is meant to use it any more.
pub(crate) unsafe fn free(block: *mut c_void) {
    let mut oldest = None;
    if CHECK.get().is_none() {
        oldest = Some(Block(block));
    } else {
        let mut blocks = BLOCKS.lock();
        blocks.push_back(Block(block));
        if blocks.len() > KEPT {
            oldest = blocks.pop_front();
        }
    }
    if let Some(Block(block)) = oldest {
        // SAFETY: vouched for by the caller, now or when it was kept.
        unsafe { memory::free(block) }
    }
}
