//! Functions of programs about their process.

use std::io;

use crate::{
    sys,
    tools::{handle::status, raw},
};

/// Lets SIGPIPE end the program, as it ends programs in C; Rust starts them with it ignored.
/// Called first thing.
pub fn end_on_closed_pipe() {
    // SAFETY: the default action needs nothing of this process.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// The size of a page in bytes.
#[must_use]
pub fn page_size() -> usize {
    sys::pages::page_size()
}

/// Keeps registered memory of this process its own over fork(2): ibv_fork_init(3). Called before
/// the first registration.
///
/// # Errors
/// Its errno.
pub fn fork_init() -> io::Result<()> {
    // SAFETY: takes nothing.
    status(unsafe { raw::ibv_fork_init() })
}
