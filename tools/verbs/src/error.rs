//! Errors of verbs, and of requests that could not be posted.
#![forbid(unsafe_code)]

use std::{error, fmt, io};

/// The result of a verb.
pub type Result<T> = std::result::Result<T, Error>;

/// A verb that failed: its name, as that of its manual page, and the errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    function: &'static str,
    errno: i32,
    reason: Option<&'static str>,
}

impl Error {
    /// The error of a verb.
    #[must_use]
    pub const fn new(function: &'static str, errno: i32) -> Self {
        Self {
            function,
            errno,
            reason: None,
        }
    }

    /// The same error, with a reason.
    pub(crate) const fn because(mut self, reason: &'static str) -> Self {
        self.reason = Some(reason);
        self
    }

    /// The verb that failed; its manual page has this name.
    #[must_use]
    pub fn function(&self) -> &'static str {
        self.function
    }

    /// The errno.
    #[must_use]
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// The reason, if this crate refused the call and not the library.
    #[must_use]
    pub fn reason(&self) -> Option<&'static str> {
        self.reason
    }

    /// The kind of [`io::Error`] that the errno belongs to.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        io::Error::from_raw_os_error(self.errno).kind()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errno = io::Error::from_raw_os_error(self.errno);
        write!(f, "{}: {errno}", self.function)?;
        match self.reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

impl error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::new(error.kind(), error)
    }
}

/// A request that was not posted. It comes back with its buffers, unless the device may have it.
pub struct PostError<R> {
    /// Why.
    pub error: Error,
    /// The request, as it was passed. EINVAL, ENOMEM and EOPNOTSUPP mean that the device has not
    /// taken it. After any other errno the device may have it: then there is none here, and the
    /// request is in flight, with its memory, until its completion was polled or its queue is
    /// dropped. A queue pair has then been moved into the error state.
    pub request: Option<Box<R>>,
}

impl<R> PostError<R> {
    pub(crate) fn new(error: Error, request: R) -> Self {
        let request = Some(Box::new(request));
        Self { error, request }
    }

    /// The device may have the request.
    pub(crate) fn kept(error: Error) -> Self {
        let request = None;
        Self { error, request }
    }

    /// The request, if the device has not taken it.
    #[must_use]
    pub fn into_request(self) -> Option<R> {
        self.request.map(|request| *request)
    }
}

impl<R> fmt::Debug for PostError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl<R> fmt::Display for PostError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<R> error::Error for PostError<R> {}

impl<R> From<PostError<R>> for Error {
    fn from(failed: PostError<R>) -> Self {
        failed.error
    }
}

impl<R> From<PostError<R>> for io::Error {
    fn from(failed: PostError<R>) -> Self {
        failed.error.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_verb_and_the_reason() {
        let error = Error::new("ibv_reg_mr", libc::ENOMEM);
        assert!(error.to_string().starts_with("ibv_reg_mr: Cannot allocate"));
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::OutOfMemory);
        let error = error.because("too much");
        assert!(error.to_string().ends_with(": too much"));
        assert_eq!((error.errno(), error.reason()), (12, Some("too much")));
    }

    #[test]
    fn a_refused_request_comes_back() {
        let error = Error::new("ibv_post_send", libc::ENOMEM);
        assert_eq!(PostError::new(error, 7).into_request(), Some(7));
        assert_eq!(PostError::<i32>::kept(error).into_request(), None);
        assert_eq!(Error::from(PostError::new(error, 7)), error);
    }
}
