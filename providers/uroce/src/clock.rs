//! The time that the protocol engine is told.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use uroce_engine::timer::Time;

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Now: nanoseconds of `CLOCK_MONOTONIC` since this process first asked.
#[must_use]
pub fn now() -> Time {
    let since = ORIGIN.elapsed().as_nanos();
    Time::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
}

/// What the clock of the day showed at a moment that is not long ago, in nanoseconds since 1970.
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
    fn the_clock_of_the_day_goes_with_time() {
        let before = day();
        let first = now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(now().nanos() - first.nanos() >= 2_000_000);
        let shown = u128::from(wall(first));
        assert!(before <= shown && shown <= day());
    }
}
