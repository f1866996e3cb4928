//! Threads that exist while there is something to wait for.

use kit::errno::Result;
use kit::sys::thread;

/// A number that distinguishes the calling thread from all other live ones: never 0.
#[inline]
#[must_use]
pub fn mark() -> usize {
    thread_local! {
        static MARK: u8 = const { 0 };
    }
    // In a thread that ends there may be none: then it has the number of no other thread.
    let mark = MARK.try_with(|mark| std::ptr::from_ref(mark).addr());
    mark.unwrap_or(usize::MAX)
}

/// Starts a thread ([`thread::start`]) that ends by itself.
///
/// # Errors
/// EAGAIN if there cannot be one more.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::start(name, run).map(drop)
}
