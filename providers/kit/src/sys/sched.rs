//! Scheduling of the calling thread.

use crate::errno::{Errno, Result};
use core::mem;
use rustix::event::poll;
use rustix::thread::{NanosleepRelativeResult, nanosleep};
use rustix::time::Timespec;
use std::time::{Duration, Instant};

fn checked(result: libc::c_long) -> Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(super::errno::get()),
    }
}

fn attributes() -> Result<libc::sched_attr> {
    // SAFETY: a structure of numbers, for which all zeros are values.
    let mut attr: libc::sched_attr = unsafe { mem::zeroed() };
    let size = mem::size_of_val(&attr);
    // SAFETY: the size bounds the output; 0 is this thread.
    checked(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) })?;
    Ok(attr)
}

/// Has the calling thread run for shorter times, in nanoseconds, and in turn sooner after it was
/// woken: since Linux 6.12 one of a shorter slice goes before those that run. Older kernels take no
/// notice. Its share of the processor stays as it is.
///
/// # Errors
/// EINVAL for a thread that is not scheduled by shares (`SCHED_OTHER`); those of sched_setattr(2).
pub fn short_slices(nanos: u64) -> Result<()> {
    let mut attr = attributes()?;
    if attr.sched_policy != u32::try_from(libc::SCHED_OTHER).unwrap_or(u32::MAX) {
        return Err(Errno::INVAL);
    }
    attr.sched_runtime = nanos;
    // SAFETY: the structure has its size in it; 0 is this thread.
    checked(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) })
}

/// How often the calling thread lost the processor while it could run, which includes calls of
/// sched_yield(2) after which another thread ran; `None` if the process may not ask.
#[must_use]
pub fn switches() -> Option<u64> {
    let mut usage = mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the call writes a value there, or fails.
    let usage = unsafe {
        let result = libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        (result == 0).then(|| usage.assume_init())
    }?;
    u64::try_from(usage.ru_nivcsw).ok()
}

/// Sleeps. Where the process may not (a sandbox), the time passes by waiting for nothing in
/// poll(2), and where it may not do that either, with the processor offered to others; std's own
/// panics.
pub fn sleep(time: Duration) {
    let Ok(whole) = Timespec::try_from(time) else {
        return;
    };
    let mut left = whole;
    loop {
        match nanosleep(&left) {
            NanosleepRelativeResult::Ok => return,
            NanosleepRelativeResult::Interrupted(rest) => left = rest,
            NanosleepRelativeResult::Err(_) => break,
        }
    }
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "of no descriptor")]
        let waited = Timespec::try_from(left).map(|left| poll(&mut [], Some(&left)));
        if !matches!(waited, Ok(Ok(_) | Err(rustix::io::Errno::INTR))) {
            rustix::thread::sched_yield();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads on one processor, both of which yield it.
    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no affinity and no getrusage")]
    fn a_call_that_yields_to_another_thread_is_a_switch() {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, sched_yield};
        use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
        let allowed = sched_getaffinity(None).expect("permitted");
        let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu));
        let mut one = CpuSet::new();
        one.set(first.expect("a processor"));
        let (one, ended) = (&one, &AtomicBool::new(false));
        let share = || sched_setaffinity(None, one).expect("permitted");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                share();
                while !ended.load(Relaxed) {
                    sched_yield();
                }
            });
            let switched = scope.spawn(move || {
                share();
                let before = switches().expect("permitted");
                while switches().expect("permitted") == before {
                    sched_yield();
                }
                ended.store(true, Relaxed);
            });
            switched.join().expect("no panic");
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no sched_setattr")]
    fn slices_change_and_nothing_else() {
        let changed = std::thread::spawn(|| {
            let before = attributes()?;
            let short = short_slices(300_000);
            let after = attributes()?;
            Ok::<_, Errno>((before, short, after))
        });
        let (before, short, after) = changed.join().expect("no panic").expect("permitted");
        let by_shares = before.sched_policy == u32::try_from(libc::SCHED_OTHER).expect("small");
        assert_eq!(short, if by_shares { Ok(()) } else { Err(Errno::INVAL) });
        assert_eq!(after.sched_nice, before.sched_nice);
        assert_eq!(after.sched_policy, before.sched_policy);
        // Before Linux 6.12 there is no value to read.
        if by_shares && before.sched_runtime != 0 {
            assert_eq!(after.sched_runtime, 300_000);
        }
    }
}
