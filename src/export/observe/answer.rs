//! The result of a verb, for every convention.

use kit::errno::{Errno, Result};
use kit::sys::errno;
use std::ffi::c_int;

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Success: a count, or the address of a new object.
    Done(u64),
    /// It failed.
    Failed(Errno),
}

/// The return type of a verb.
pub trait Answer {
    /// Interprets the result. errno must still be the call's.
    fn outcome(&self, verb: &str) -> Outcome;

    /// The value of a call that is not made.
    fn refused(e: Errno) -> Self;
}

impl Answer for () {
    fn outcome(&self, _: &str) -> Outcome {
        Outcome::Done(0)
    }

    fn refused(_: Errno) -> Self {}
}

impl<T> Answer for *mut T {
    fn outcome(&self, _: &str) -> Outcome {
        if self.is_null() {
            Outcome::Failed(errno::get())
        } else {
            Outcome::Done(self.expose_provenance() as u64)
        }
    }

    fn refused(e: Errno) -> Self {
        errno::set(e);
        std::ptr::null_mut()
    }
}

impl Answer for Result<()> {
    fn outcome(&self, _: &str) -> Outcome {
        match self {
            Ok(()) => Outcome::Done(0),
            Err(e) => Outcome::Failed(*e),
        }
    }

    fn refused(e: Errno) -> Self {
        Err(e)
    }
}

impl<T> Answer for Result<*mut T> {
    fn outcome(&self, _: &str) -> Outcome {
        match self {
            Ok(made) => Outcome::Done(made.expose_provenance() as u64),
            Err(e) => Outcome::Failed(*e),
        }
    }

    fn refused(e: Errno) -> Self {
        Err(e)
    }
}

impl Answer for c_int {
    fn outcome(&self, verb: &str) -> Outcome {
        // These answer a number, and a failure below 0.
        let counts = matches!(
            verb,
            "poll_cq" | "query_qp_data_in_order" | "dm_export_dmabuf_fd" | "export_buf_dmabuf_fd"
        );
        match *self {
            value @ 0.. if counts || value == 0 => Outcome::Done(u64::from(value.unsigned_abs())),
            -1 => Outcome::Failed(errno::get()),
            value => Outcome::Failed(Errno(value.saturating_abs())),
        }
    }

    fn refused(e: Errno) -> Self {
        errno::set(e);
        e.raw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_convention_is_read() {
        errno::set(Errno::NOMEM);
        assert_eq!(0.outcome("modify_qp"), Outcome::Done(0));
        assert_eq!(22.outcome("modify_qp"), Outcome::Failed(Errno::INVAL));
        assert_eq!((-22).outcome("poll_cq"), Outcome::Failed(Errno::INVAL));
        assert_eq!((-1).outcome("rereg_mr"), Outcome::Failed(Errno::NOMEM));
        assert_eq!(3.outcome("poll_cq"), Outcome::Done(3));
        let none = std::ptr::null_mut::<u8>();
        assert_eq!(none.outcome("alloc_pd"), Outcome::Failed(Errno::NOMEM));
        assert!(<*mut u8>::refused(Errno::BUSY).is_null());
        assert_eq!(errno::get(), Errno::BUSY);
    }
}
