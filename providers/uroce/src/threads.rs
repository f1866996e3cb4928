//! Threads that exist while there is something to wait for.

use kit::errno::{Errno, Result};
use kit::sys::signal;
use std::thread::Builder;

/// Starts a thread in which no signal handler of the application runs.
///
/// # Errors
/// EAGAIN if there cannot be one more.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let builder = Builder::new().name(name.to_owned());
    let started = signal::blocked(|| builder.spawn(run))?;
    started.map(|_| ()).map_err(|error| Errno::from_io(&error))
}
