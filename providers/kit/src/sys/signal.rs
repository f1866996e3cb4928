//! Signal masks.

use crate::errno::{Errno, Result};
use core::mem::MaybeUninit;
use core::ptr::null_mut;

/// Calls `call` with all signals blocked in this thread, so that a thread it starts never runs a
/// handler of the application's.
///
/// # Errors
/// Of pthread_sigmask(3), and then nothing was called.
pub fn blocked<T>(call: impl FnOnce() -> T) -> Result<T> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call fills `all`, the second `before`; both live here.
    let failed = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr())
    };
    if failed != 0 {
        return Err(Errno(failed));
    }
    let result = call();
    // SAFETY: `before` was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut()) };
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(signal: core::ffi::c_int) -> bool {
        let mut now = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: asks for the mask without changing it.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, core::ptr::null(), now.as_mut_ptr());
            libc::sigismember(now.as_ptr(), signal) == 1
        }
    }

    #[test]
    fn a_thread_started_inside_takes_no_signals() {
        let inside = blocked(|| std::thread::spawn(|| blocks(libc::SIGUSR1)))
            .expect("a mask")
            .join();
        assert_eq!(inside.ok(), Some(true));
        assert!(!blocks(libc::SIGUSR1));
    }
}
