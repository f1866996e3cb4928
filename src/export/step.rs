//! Calls that wait between their steps, for `cancel.c`, in which the wait is.

use crate::core::wait::{Step, Wait};
use kit::errno::Result;
use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::time::Duration;

/// Result of a step: the call waits.
pub const WAITS: c_int = c_int::MAX;

/// A call that waits.
#[repr(C)]
pub struct Waiting {
    /// The rest of the call, which is this library's; NULL before the first step.
    rest: *mut c_void,
    /// The descriptor that becomes readable when the call can continue.
    descriptor: c_int,
    /// How long to wait for that.
    milliseconds: c_int,
}

/// Continues a call, or begins it. None if it waits.
///
/// # Errors
/// Those of the call.
///
/// # Safety
/// `waiting` is a call of the same kind that has not begun, or that this function has left there.
pub unsafe fn next<W: Wait>(
    waiting: *mut Waiting,
    begin: impl FnOnce() -> Result<Step<W>>,
) -> Result<Option<W::Answer>> {
    // SAFETY: vouched for by the caller.
    let waiting = unsafe { &mut *waiting };
    let rest = std::mem::replace(&mut waiting.rest, null_mut());
    let step = if rest.is_null() {
        begin()?
    } else {
        // SAFETY: as above.
        let wait = unsafe { Box::from_raw(rest.cast::<W>()) };
        wait.step()?
    };
    match step {
        Step::Done(answer) => Ok(Some(answer)),
        Step::Waits(wait) => {
            waiting.descriptor = wait.descriptor().as_raw_fd();
            waiting.milliseconds = milliseconds(wait.left());
            waiting.rest = Box::into_raw(Box::new(wait)).cast();
            Ok(None)
        }
    }
}

/// Rounded up, so that the time is over after the wait.
fn milliseconds(left: Duration) -> c_int {
    let rounded = left.as_micros().div_ceil(1000);
    c_int::try_from(rounded).unwrap_or(c_int::MAX)
}

/// Ends a call whose thread is cancelled in its wait.
///
/// # Safety
/// `rest` is that of such a call, and is not used afterwards.
pub unsafe fn abandon<W: Wait>(rest: *mut c_void) {
    // SAFETY: vouched for by the caller.
    drop(unsafe { Box::from_raw(rest.cast::<W>()) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_rounded_up() {
        assert_eq!(milliseconds(Duration::ZERO), 0);
        assert_eq!(milliseconds(Duration::from_micros(1)), 1);
        assert_eq!(milliseconds(Duration::from_micros(2000)), 2);
        assert_eq!(milliseconds(Duration::MAX), c_int::MAX);
    }
}
