//! Distinguishes the process that made something from its forked children.

#![forbid(unsafe_code)]

use super::per_process::PerProcess;
use crate::errno::{Errno, Result};

/// A value with a separate address in every process, including forked children. Its size is not 0,
/// because values of size 0 share addresses.
#[derive(Debug, Default)]
struct Mark {
    _byte: u8,
}

static MARK: PerProcess<Mark> = PerProcess::new();

/// The process that made this. A process's number does not distinguish it from a child in another
/// PID namespace: both may be 1 in theirs.
#[derive(Clone, Copy, Debug)]
pub struct ForkGuard(&'static Mark);

impl ForkGuard {
    /// The process that calls.
    ///
    /// # Errors
    /// ENOMEM at the first call.
    pub fn new() -> Result<Self> {
        MARK.get().map(Self)
    }

    /// Whether this is that process.
    ///
    /// # Errors
    /// ENODEV in a forked child.
    pub fn here(self) -> Result<()> {
        if std::ptr::eq(MARK.get()?, self.0) {
            return Ok(());
        }
        Err(Errno::NODEV)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_where_it_was_made() {
        assert_eq!(ForkGuard::new().and_then(ForkGuard::here), Ok(()));
    }
}
