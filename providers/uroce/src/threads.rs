//! Threads that exist while there is something to wait for.

use kit::errno::Result;
use kit::sys::{barrier, thread};

/// Whether the calling thread is the only one of the process, as far as is known.
fn is_alone() -> bool {
    // A folder has two links, and one more for each folder in it.
    rustix::fs::stat("/proc/self/task").is_ok_and(|tasks| tasks.st_nlink == 3)
}

/// Prepares barriers ([`barrier::prepare`]): before there are other threads, or else without a
/// wait.
pub fn prepare_barriers() {
    if barrier::is_prepared() {
        return;
    }
    if is_alone() {
        return barrier::prepare();
    }
    // If the thread cannot be made, there are no such barriers, and other means replace them.
    let _ = spawn("uroce-barrier", barrier::prepare);
}

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
