//! The processor's counter: for hints alone.

/// About as many as pass in a microsecond: between a fifth and twice that, by the processor.
#[cfg(target_arch = "x86_64")]
pub const IN_A_MICROSECOND: u64 = 2500;
/// As many as pass in a microsecond.
#[cfg(not(target_arch = "x86_64"))]
pub const IN_A_MICROSECOND: u64 = 1000;

/// The counter of this processor. Reading it costs no system call, even where the kernel does not
/// use it as a clock. The counter of another processor may be ahead or behind, and it may jump when
/// a virtual machine migrates, so a wrong value may only delay something for a moment.
#[cfg(target_arch = "x86_64")]
#[must_use]
#[inline]
pub fn now() -> u64 {
    // SAFETY: every processor of this kind has the instruction, which reads a counter and nothing
    // else. A debugger that forbids it to a process (PR_SET_TSC) emulates it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Nanoseconds of `CLOCK_MONOTONIC`: on other processors the kernel's clock uses the counter.
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
