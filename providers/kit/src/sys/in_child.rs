//! Forked children for tests.
//!
//! For tests only: a child of a process with several threads may find locks of other libraries
//! taken.

use core::ffi::c_int;

/// The exit status of a forked child, which calls a function and ends with its result.
///
/// # Panics
/// If the child is ended by a signal, or cannot be made.
pub fn status_of(child: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the child has this thread alone, and ends without running handlers.
    match unsafe { libc::fork() } {
        // SAFETY: ends the child.
        0 => unsafe { libc::_exit(child()) },
        pid => {
            let mut reported = 0;
            // SAFETY: waits for the child above.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut reported, 0) }, pid);
            assert!(libc::WIFEXITED(reported), "it ended with {reported}");
            libc::WEXITSTATUS(reported)
        }
    }
}

/// The same for a child that is the first of a PID namespace; `None` if there cannot be one. Later
/// children of the calling thread are in that namespace, too, or cannot be made once the first has
/// ended.
///
/// # Panics
/// As [`status_of`].
pub fn status_of_first(child: impl FnOnce() -> c_int) -> Option<c_int> {
    // SAFETY: concerns later children of the calling thread.
    let made = unsafe { libc::unshare(libc::CLONE_NEWPID) } == 0;
    made.then(|| status_of(child))
}
