//! The processor's counter: for hints alone.

/// About as many as pass in a microsecond: between a fifth and twice that, by the processor.
#[cfg(target_arch = "x86_64")]
pub const IN_A_MICROSECOND: u64 = 2500;
/// As many as pass in a microsecond.
#[cfg(not(target_arch = "x86_64"))]
pub const IN_A_MICROSECOND: u64 = 1000;

/// The counter of this processor, which costs no system call even where the kernel does not tell
/// the time by it: another processor's may be ahead or behind, and a machine that moves to another
/// host may find it jump. Nothing may go wrong by it that would not go right a moment later.
#[cfg(target_arch = "x86_64")]
#[must_use]
#[inline]
pub fn now() -> u64 {
    // SAFETY: every processor of this kind has the instruction, which reads a counter and nothing
    // else. Whoever forbids it to a process (PR_SET_TSC) does so to record it, and gives the answer
    // himself.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Nanoseconds of `CLOCK_MONOTONIC`: on other processors the kernel tells the time by the counter.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
#[inline]
pub fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let rest = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.wrapping_mul(1_000_000_000).wrapping_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_millisecond_has_about_as_many() {
        let (began, before) = (Instant::now(), now());
        std::thread::sleep(Duration::from_millis(20));
        let (after, took) = (now(), began.elapsed());
        let thousands =
            u64::try_from(took.as_micros()).unwrap_or(u64::MAX) * IN_A_MICROSECOND / 1000;
        let counted = after.wrapping_sub(before) / 1000;
        assert!(
            (thousands / 6..thousands * 3).contains(&counted),
            "{counted} of {thousands}"
        );
    }
}
