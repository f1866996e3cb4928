//! Threads of the library's own.

use crate::errno::{Errno, Result};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use std::thread::{Builder, JoinHandle};

/// Starts a thread in which no signal handler of the application runs: all signals are blocked
/// there from its first moment.
///
/// # Errors
/// EAGAIN if there cannot be one more.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let mask = Blocked::all();
    let thread = Builder::new().name(name.to_owned()).spawn(run);
    drop(mask);
    thread.map_err(|error| Errno::from_io(&error))
}

/// The signal mask that the thread had before all were blocked: given back on drop.
struct Blocked(libc::sigset_t);

impl Blocked {
    fn all() -> Self {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut old = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: both sets are ours; sigfillset fills the first, pthread_sigmask, which cannot
        // fail with these arguments, the second.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr());
            Self(old.assume_init())
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the mask that this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(signal: libc::c_int) -> bool {
        let mut now = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: only asks for this thread's mask.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, core::ptr::null(), now.as_mut_ptr());
            libc::sigismember(now.as_ptr(), signal) == 1
        }
    }

    #[test]
    fn signals_are_blocked_in_the_new_thread_only() {
        let (tell, told) = std::sync::mpsc::channel();
        let thread = spawn("quiet", move || {
            tell.send(is_blocked(libc::SIGUSR1)).expect("waited for");
        });
        assert!(told.recv().expect("the thread runs"));
        thread.expect("a thread").join().expect("it ends");
        assert!(!is_blocked(libc::SIGUSR1));
    }
}
