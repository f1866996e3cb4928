//! The clock of the protocol engine.

use kit::sys::first::First;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use uroce_engine::timer::Time;

/// When this process first asked.
static ORIGIN: First<u64> = First::new();
/// How far the clock that costs little is behind, in nanoseconds.
static BEHIND: First<u64> = First::new();
/// The longest tick of any kernel, if the kernel does not report its tick.
const TICK: Duration = Duration::from_millis(10);

fn nanos(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

fn origin() -> u64 {
    *ORIGIN.get_or_make(|| nanos(clock_gettime(ClockId::Monotonic)))
}

fn since_origin(clock: ClockId) -> u64 {
    // Asked before the clock, which would be behind it otherwise.
    let origin = origin();
    nanos(clock_gettime(clock)).saturating_sub(origin)
}

/// Now: nanoseconds of `CLOCK_MONOTONIC` since this process first asked.
///
/// Where the kernel distrusts the processor's counter (`hpet`, `acpi_pm`, `xen` in
/// /sys/devices/system/clocksource/clocksource0/current_clocksource), that is a system call and a
/// device's answer, and costs more than all else that is done for a short message.
#[must_use]
pub fn now() -> Time {
    Time::from_nanos(since_origin(ClockId::Monotonic))
}

/// Whether a moment is so near that [`now`] has to be called. Takes no system call
/// (`CLOCK_MONOTONIC_COARSE`, which advances with the kernel's ticks). If ticks are late, this may
/// notice a moment a tick late.
#[must_use]
pub fn may_have_come(moment: u64) -> bool {
    let lately = since_origin(ClockId::MonotonicCoarse);
    let behind = *BEHIND.get_or_make(|| {
        let tick = kit::sys::clock::tick().unwrap_or(TICK);
        u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX)
    });
    moment <= lately.saturating_add(behind)
}

/// A moment by the clock that programs see as the device's: nanoseconds of `CLOCK_MONOTONIC`. A
/// device has one clock for all processes, so theirs can be compared.
#[must_use]
pub fn device(moment: Time) -> u64 {
    origin().saturating_add(moment.nanos())
}

/// The time of day at a recent moment, in nanoseconds since 1970.
#[must_use]
pub fn wall(moment: Time) -> u64 {
    let age = now().nanos().saturating_sub(moment.nanos());
    let day = SystemTime::now().duration_since(UNIX_EPOCH);
    let day = day.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    });
    day.saturating_sub(age)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day() -> u128 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.expect("after 1970").as_nanos()
    }

    #[test]
    fn far_moments_have_not_come_and_past_moments_have() {
        let now = now().nanos();
        assert!(!may_have_come(now + 3600 * 1_000_000_000));
        // Ticks may be late.
        while !may_have_come(now + 20_000_000) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_clock_of_the_day_goes_with_time() {
        let before = day();
        let first = now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(now().nanos() - first.nanos() >= 2_000_000);
        let shown = u128::from(wall(first));
        assert!(before <= shown && shown <= day());
    }
}
