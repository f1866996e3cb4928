//! Descriptors of a program, as poll(2) takes them.

use kit::errno::Result;
use kit::sys::errno;
use libc::pollfd;

/// Reports the events that are ready now, and the number of ready descriptors.
///
/// # Errors
/// Those of poll(2): EINVAL for more descriptors than the process may have.
#[expect(
    clippy::disallowed_methods,
    reason = "the program called it, and gets its error"
)]
pub fn poll_now(fds: &mut [pollfd]) -> Result<usize> {
    let count = libc::nfds_t::try_from(fds.len()).unwrap_or(libc::nfds_t::MAX);
    // SAFETY: there are so many.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), count, 0) };
    usize::try_from(ready).map_err(|_| errno::get())
}
