//! The time that the protocol engine is told.

use std::sync::LazyLock;
use std::time::Instant;
use uroce_engine::timer::Time;

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Now: nanoseconds of `CLOCK_MONOTONIC` since this process first asked.
#[must_use]
pub fn now() -> Time {
    let since = ORIGIN.elapsed().as_nanos();
    Time::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
}
