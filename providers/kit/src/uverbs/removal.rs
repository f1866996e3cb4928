#![forbid(unsafe_code)]
//! Destroying objects whose device was removed.

use crate::errno::{Errno, Result};
use core::sync::atomic::{AtomicBool, Ordering};

static DISASSOCIATE: AtomicBool = AtomicBool::new(false);

/// Lets the destruction of objects succeed when their device is gone (EIO).
pub fn allow_disassociate(allow: bool) {
    DISASSOCIATE.store(allow, Ordering::Relaxed);
}

/// Whether `e`, the answer to a destroy command, means that the device is gone and that this
/// is to count as success. The kernel then reported nothing else, no count of events either.
pub fn gone(e: Errno) -> bool {
    e == Errno::IO && DISASSOCIATE.load(Ordering::Relaxed)
}

/// The answer to a destroy command that reports nothing: [`gone`] is success.
///
/// # Errors
/// Every other error of `answer`.
pub fn destroyed(answer: Result<()>) -> Result<()> {
    answer.or_else(|e| if gone(e) { Ok(()) } else { Err(e) })
}
