#![forbid(unsafe_code)]
//! Calls that wait for a bounded time, in steps. A thread can be cancelled while it waits, so the
//! wait of an exported call is in C (`export/cancel.c`); a step itself does not wait.

use kit::errno::{Errno, Result};
use kit::sys::ready::{self, ReadyTo};
use rustix::event::Timespec;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A call that waits.
pub trait Wait: Sized {
    /// What the call is for.
    type Answer;

    /// The descriptor that becomes readable when the call can continue.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// How long to wait for that until the next step.
    fn left(&self) -> Duration;

    /// Continues: the descriptor is readable, the time is over, or a signal came.
    ///
    /// # Errors
    /// Those of the call.
    fn step(self) -> Result<Step<Self>>;
}

/// How far a call has come.
pub enum Step<W: Wait> {
    Done(W::Answer),
    Waits(W),
}

/// Waits until the call is done. No cancellation point.
///
/// # Errors
/// Those of the call, and of poll(2).
pub fn to_the_end<W: Wait>(mut step: Step<W>) -> Result<W::Answer> {
    loop {
        let wait = match step {
            Step::Done(answer) => return Ok(answer),
            Step::Waits(wait) => wait,
        };
        let left = Timespec::try_from(wait.left()).map_err(|_| Errno::INVAL)?;
        match ready::wait(wait.descriptor(), ReadyTo::Read, Some(&left)) {
            Ok(_) | Err(Errno(libc::EINTR)) => {}
            Err(e) => return Err(e),
        }
        step = wait.step()?;
    }
}
