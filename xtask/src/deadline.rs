//! The time by which a whole run has to be over.
//!
//! Hosted CI ends a run that takes too long without reporting the running commands. With a deadline
//! (`cargo xtask test --within MINUTES`) the run ends first: each command that is still running
//! then is reported with its processes, killed, and counted as a failure of its stage, and the
//! table at the end is printed. Without that option there is no deadline.
#![forbid(unsafe_code)]

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

static DEADLINE: OnceLock<Instant> = OnceLock::new();

/// Sets the deadline, counted from now. Only the first call counts.
pub fn set(within: Duration) {
    let _ = DEADLINE.set(Instant::now() + within);
}

/// Whether there is a deadline, and it is past.
pub fn is_past() -> bool {
    DEADLINE.get().is_some_and(|at| Instant::now() >= *at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because the deadline belongs to the process; it is far away, because other tests
    /// of this process run commands.
    #[test]
    fn a_deadline_is_set_once_and_is_past_in_time() {
        assert!(!is_past());
        set(Duration::from_secs(24 * 60 * 60));
        set(Duration::ZERO);
        assert!(!is_past());
    }
}
