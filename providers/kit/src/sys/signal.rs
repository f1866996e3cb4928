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

/// Calls `call`, which writes, with the signals that a write may raise blocked in this thread
/// (`SIGPIPE`, `SIGXFSZ`), and removes those that it raised: by default they end the program.
///
/// # Errors
/// Of pthread_sigmask(3), and then nothing was called.
pub fn without_those_of_writing<T>(call: impl FnOnce() -> T) -> Result<T> {
    let raised = raised_by_writing();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: one set is read, the other filled.
    let failed =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const raised, before.as_mut_ptr()) };
    if failed != 0 {
        return Err(Errno(failed));
    }
    let result = call();
    take(&raised);
    // SAFETY: `before` was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut()) };
    Ok(result)
}

/// Those that are not pending already, for the program.
fn raised_by_writing() -> libc::sigset_t {
    let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
    let mut raised = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the sets are filled before they are read.
    unsafe {
        libc::sigemptyset(pending.as_mut_ptr());
        // Where this fails, none is.
        libc::sigpending(pending.as_mut_ptr());
        libc::sigemptyset(raised.as_mut_ptr());
        for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
            if libc::sigismember(pending.as_ptr(), signal) != 1 {
                libc::sigaddset(raised.as_mut_ptr(), signal);
            }
        }
        raised.assume_init()
    }
}

/// Removes pending signals of a set.
fn take(signals: &libc::sigset_t) {
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // The kernel's set has one bit for each signal.
    let size = 8;
    loop {
        // SAFETY: the set and the time are read; the kernel reads the first 8 bytes of the set.
        // (The C library's function of that name is a cancellation point.)
        let taken = unsafe {
            libc::syscall(
                libc::SYS_rt_sigtimedwait,
                core::ptr::from_ref(signals),
                null_mut::<libc::siginfo_t>(),
                &raw const at_once,
                size,
            )
        };
        if taken < 0 && super::errno::get().raw() != libc::EINTR {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_without_reader_raises_no_signal() {
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        drop(read);
        // Rust's programs ignore it by default, which would hide it.
        // SAFETY: no handler; other tests write to no pipe without a reader.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let written = without_those_of_writing(|| rustix::io::write(&write, b"x"));
        assert_eq!(written, Ok(Err(rustix::io::Errno::PIPE)));
        assert!(!blocks(libc::SIGPIPE));
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    }

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
