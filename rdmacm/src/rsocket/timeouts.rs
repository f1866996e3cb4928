#![forbid(unsafe_code)]
//! `SO_RCVTIMEO` and `SO_SNDTIMEO`: how long a call may wait (socket(7)).

use kit::errno::{Errno, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const MICROSECONDS: i64 = 1_000_000;

/// The bound of calls of one direction, in microseconds. 0 is none, as in the option.
#[derive(Debug, Default)]
pub struct Timeout(AtomicU64);

impl Timeout {
    /// None if calls wait without bound.
    pub fn get(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            microseconds => Some(Duration::from_micros(microseconds)),
        }
    }

    /// Sets it to the `struct timeval` of a program. A negative time has already passed.
    ///
    /// # Errors
    /// EINVAL for fewer bytes than the structure has; EDOM for more than 999,999 microseconds.
    pub fn set(&self, value: &[u8]) -> Result<()> {
        let (seconds, rest) = value.split_first_chunk().ok_or(Errno::INVAL)?;
        let seconds = i64::from_ne_bytes(*seconds);
        let microseconds = rest.first_chunk().ok_or(Errno::INVAL)?;
        let microseconds = i64::from_ne_bytes(*microseconds);
        if !(0..MICROSECONDS).contains(&microseconds) {
            return Err(Errno(libc::EDOM));
        }
        let whole = if seconds < 0 {
            1
        } else {
            seconds
                .saturating_mul(MICROSECONDS)
                .saturating_add(microseconds)
        };
        self.0
            .store(u64::try_from(whole).unwrap_or(1), Ordering::Relaxed);
        Ok(())
    }

    /// As `struct timeval`.
    pub fn option(&self) -> Vec<u8> {
        let time = self.get().unwrap_or_default();
        let seconds = time.as_secs().to_ne_bytes();
        let microseconds = u64::from(time.subsec_micros()).to_ne_bytes();
        [seconds, microseconds].concat()
    }

    /// Takes over that of the listener, as the kernel's sockets do.
    pub fn copy(&self, from: &Self) {
        self.0
            .store(from.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeval(seconds: i64, microseconds: i64) -> Vec<u8> {
        [seconds.to_ne_bytes(), microseconds.to_ne_bytes()].concat()
    }

    #[test]
    fn a_time_is_returned_as_it_was_set() {
        let timeout = Timeout::default();
        assert_eq!((timeout.get(), timeout.option()), (None, timeval(0, 0)));
        timeout.set(&timeval(2, 345_678)).unwrap();
        assert_eq!(timeout.get(), Some(Duration::from_micros(2_345_678)));
        assert_eq!(timeout.option(), timeval(2, 345_678));
        timeout.set(&timeval(0, 0)).unwrap();
        assert_eq!(timeout.get(), None);
    }

    #[test]
    fn invalid_times_are_refused() {
        let timeout = Timeout::default();
        timeout.set(&timeval(7, 0)).unwrap();
        assert_eq!(timeout.set(&timeval(1, 1_000_000)), Err(Errno(libc::EDOM)));
        assert_eq!(timeout.set(&timeval(1, -1)), Err(Errno(libc::EDOM)));
        assert_eq!(timeout.set(&timeval(1, 0)[..15]), Err(Errno::INVAL));
        assert_eq!(timeout.set(&[]), Err(Errno::INVAL));
        assert_eq!(timeout.get(), Some(Duration::from_secs(7)));
    }

    #[test]
    fn extreme_times_are_bounds() {
        let timeout = Timeout::default();
        timeout.set(&timeval(-1, 0)).unwrap();
        assert!(timeout.get().is_some_and(|time| time.as_millis() == 0));
        timeout.set(&timeval(i64::MAX, 999_999)).unwrap();
        assert!(timeout.get().is_some());
    }
}
