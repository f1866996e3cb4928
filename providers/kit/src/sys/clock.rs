//! Answers about clocks that are system calls. A sandbox may deny these, where it cannot deny the
//! clocks that the kernel shows in memory (vdso(7)): rustix's calls panic then, or answer anything.

use core::mem::MaybeUninit;
use libc::{clockid_t, timespec};
use std::time::Duration;

/// The processor time of all threads of this process; `None` where it may not ask.
#[must_use]
pub fn process_time() -> Option<Duration> {
    answered(libc::clock_gettime, libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The processor time of a thread of this process, by its number; `None` if there is no such
/// thread, or where it may not ask.
pub(super) fn time_of_thread(number: i32) -> Option<Duration> {
    // As pthread_getcpuclockid(3) makes it: the complement of the number, and three bits for the
    // time that the scheduler counts (2) of one thread (4).
    answered(libc::clock_gettime, !number << 3 | 6)
}

/// Step of `CLOCK_MONOTONIC_COARSE`, and thus its maximum lag; `None` if the process may not ask.
#[must_use]
pub fn tick() -> Option<Duration> {
    answered(libc::clock_getres, libc::CLOCK_MONOTONIC_COARSE)
}

type Call = unsafe extern "C" fn(clockid_t, *mut timespec) -> libc::c_int;

fn answered(call: Call, clock: clockid_t) -> Option<Duration> {
    let mut time = MaybeUninit::<timespec>::uninit();
    // SAFETY: both calls write a time there, or fail.
    let time = unsafe { (call(clock, time.as_mut_ptr()) == 0).then(|| time.assume_init()) }?;
    let nanos = u32::try_from(time.tv_nsec).ok()?;
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_computes_uses_time() {
        let before = process_time().expect("permitted");
        while process_time().expect("permitted") == before {}
        assert!(process_time().expect("permitted") > before);
    }

    #[test]
    fn a_tick_is_some_milliseconds() {
        let tick = tick().expect("permitted");
        assert!(tick > Duration::ZERO && tick <= Duration::from_millis(20));
    }

    #[test]
    fn there_is_no_answer_about_a_clock_that_does_not_exist() {
        assert_eq!(answered(libc::clock_gettime, 1000), None);
    }
}
