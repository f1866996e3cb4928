//! The end of objects whose events have to be acknowledged first.

use crate::{core::events::kept, hidden};
use kit::{
    abi::handle::{Ctx, UNACKED},
    sys::pthread::without_cancellation,
};
use std::ffi::{c_int, c_void};

/// Destroys an object, waiting where the provider leaves that to the library. A provider in C
/// waits by itself. No cancellation point.
pub fn whole<const N: usize>(
    destroy: impl Fn() -> c_int,
    acked: impl Fn() -> [u32; N],
    wait: impl Fn([u32; N]),
) -> c_int {
    without_cancellation(|| {
        loop {
            let seen = acked();
            let answer = destroy();
            if answer != UNACKED {
                return answer;
            }
            wait(seen);
        }
    })
}

/// Runs a verb of the provider in a thread whose cancellation is deferred or disabled. No
/// cancellation point: a provider in Rust has none, and one in C may have.
#[inline(always)]
pub fn deferred(ctx: Ctx<'_>, verb: impl FnOnce() -> c_int) -> c_int {
    if ctx.private().is_in_rust() {
        verb()
    } else {
        without_cancellation(verb)
    }
}

/// The object at this address has been destroyed.
extern "C" fn forget(object: *const c_void) {
    kept::forget(object.addr());
}
hidden!(forget => "ferroverbs_forget");

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn the_provider_is_asked_until_all_is_acknowledged() {
        let acked = Cell::new([0]);
        let asked = Cell::new(0);
        let answer = whole(
            || {
                asked.set(asked.get() + 1);
                if acked.get() == [2] { 0 } else { UNACKED }
            },
            || acked.get(),
            |seen| {
                assert_eq!(seen, acked.get());
                acked.set([seen[0] + 1]);
            },
        );
        assert_eq!((answer, asked.get()), (0, 3));
    }

    #[test]
    fn an_errno_is_the_answer() {
        let answer = whole(|| libc::EBUSY, || [0, 0], |_| unreachable!());
        assert_eq!(answer, libc::EBUSY);
    }
}
