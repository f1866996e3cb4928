//! The mutexes and conditions inside objects that C shares with the library: used in place
//! (pthread_mutex_lock(3), pthread_cond_wait(3)).

use core::{ffi::c_int, marker::PhantomData, ptr};

pub use libc::{pthread_cond_t, pthread_mutex_t};

/// Makes a mutex ready.
///
/// # Safety
/// `mutex` is valid for writes and not used yet.
#[inline]
pub unsafe fn init_mutex(mutex: *mut pthread_mutex_t) {
    // SAFETY: vouched for by the caller. The value has the default attributes
    // (pthread_mutex_init(3)).
    unsafe { mutex.write(libc::PTHREAD_MUTEX_INITIALIZER) };
}

/// Makes a condition ready.
///
/// # Safety
/// `cond` is valid for writes and not used yet.
#[inline]
pub unsafe fn init_cond(cond: *mut pthread_cond_t) {
    // SAFETY: as for init_mutex.
    unsafe { cond.write(libc::PTHREAD_COND_INITIALIZER) };
}

/// Ends the life of a mutex.
///
/// # Safety
/// `mutex` was made ready; it is not locked, and will not be locked again.
pub unsafe fn destroy_mutex(mutex: *mut pthread_mutex_t) {
    // SAFETY: vouched for by the caller.
    unsafe { libc::pthread_mutex_destroy(mutex) };
}

/// `PTHREAD_CANCEL_DISABLE` of the C library.
const CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Runs a function to its end: a thread that is cancelled meanwhile ends later, at its next
/// cancellation point (pthread_setcancelstate(3)). A cancelled thread is unwound, and Rust does not
/// define such an unwinding through its frames.
pub fn without_cancellation<T>(run: impl FnOnce() -> T) -> T {
    struct Restore(c_int);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: the state that the thread had.
            unsafe { pthread_setcancelstate(self.0, ptr::null_mut()) };
        }
    }
    let mut before = 0;
    // SAFETY: the thread's own state, and room for the one before.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
    let _restore = Restore(before);
    run()
}

/// `PTHREAD_CANCEL_DEFERRED` of the C library.
const CANCEL_DEFERRED: c_int = 0;

unsafe extern "C" {
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
}

/// Runs a function during which a thread is cancelled at cancellation points alone
/// (pthread_setcanceltype(3)). The function must not call any.
#[inline(always)]
pub fn deferred_cancellation<T>(run: impl FnOnce() -> T) -> T {
    struct Restore(c_int);
    impl Drop for Restore {
        #[inline]
        fn drop(&mut self) {
            if self.0 != CANCEL_DEFERRED {
                // SAFETY: the type that the thread had.
                unsafe { pthread_setcanceltype(self.0, ptr::null_mut()) };
            }
        }
    }
    let mut before = CANCEL_DEFERRED;
    // SAFETY: the thread's own type, and room for the one before.
    unsafe { pthread_setcanceltype(CANCEL_DEFERRED, &raw mut before) };
    let _restore = Restore(before);
    run()
}

/// A locked mutex; unlocked when dropped.
pub struct Guard<'a> {
    mutex: *mut pthread_mutex_t,
    life: PhantomData<&'a pthread_mutex_t>,
}

/// Locks a mutex.
///
/// # Safety
/// `mutex` was made ready and stays so for `'a`; this thread does not hold it.
pub unsafe fn lock<'a>(mutex: *mut pthread_mutex_t) -> Guard<'a> {
    // SAFETY: vouched for by the caller.
    unsafe { libc::pthread_mutex_lock(mutex) };
    Guard {
        mutex,
        life: PhantomData,
    }
}

impl Guard<'_> {
    /// Waits until `done` returns true; it is called with the mutex held, first before any wait. It
    /// is not a cancellation point.
    ///
    /// # Safety
    /// `cond` was made ready and stays so until this returns; every waiter uses this mutex.
    pub unsafe fn wait_until(&mut self, cond: *mut pthread_cond_t, mut done: impl FnMut() -> bool) {
        without_cancellation(|| {
            while !done() {
                // SAFETY: the guard holds the mutex.
                unsafe { libc::pthread_cond_wait(cond, self.mutex) };
            }
        });
    }

    /// Wakes every thread that waits for the condition.
    ///
    /// # Safety
    /// `cond` was made ready.
    pub unsafe fn wake(&self, cond: *mut pthread_cond_t) {
        // SAFETY: vouched for by the caller.
        unsafe { libc::pthread_cond_broadcast(cond) };
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // SAFETY: the guard holds the mutex.
        unsafe { libc::pthread_mutex_unlock(self.mutex) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::UnsafeCell, sync::Arc, thread};

    struct Shared {
        mutex: UnsafeCell<pthread_mutex_t>,
        cond: UnsafeCell<pthread_cond_t>,
        count: UnsafeCell<u32>,
    }
    // SAFETY: the count is touched with the mutex held.
    unsafe impl Sync for Shared {}
    // SAFETY: pthread objects may be used from any thread.
    unsafe impl Send for Shared {}

    fn cancel_type() -> c_int {
        let mut now = -1;
        // SAFETY: the thread's own type, which is put back.
        unsafe {
            pthread_setcanceltype(CANCEL_DEFERRED, &raw mut now);
            pthread_setcanceltype(now, ptr::null_mut());
        }
        now
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no cancellation")]
    fn the_type_of_cancellation_is_put_back() {
        const ASYNCHRONOUS: c_int = 1;
        assert_eq!(deferred_cancellation(cancel_type), CANCEL_DEFERRED);
        // SAFETY: the thread's own type.
        unsafe { pthread_setcanceltype(ASYNCHRONOUS, ptr::null_mut()) };
        let within = deferred_cancellation(cancel_type);
        let after = cancel_type();
        // SAFETY: as above.
        unsafe { pthread_setcanceltype(CANCEL_DEFERRED, ptr::null_mut()) };
        assert_eq!((within, after), (CANCEL_DEFERRED, ASYNCHRONOUS));
    }

    #[test]
    fn waits_for_a_count_by_another_thread() {
        // SAFETY: every use below keeps the rules of the functions above.
        unsafe {
            let shared: Arc<Shared> = Arc::new(core::mem::zeroed());
            init_mutex(shared.mutex.get());
            init_cond(shared.cond.get());
            let other = Arc::clone(&shared);
            let counter = thread::spawn(move || {
                for _ in 0..3 {
                    let guard = lock(other.mutex.get());
                    *other.count.get() += 1;
                    guard.wake(other.cond.get());
                }
            });
            let mut guard = lock(shared.mutex.get());
            guard.wait_until(shared.cond.get(), || *shared.count.get() == 3);
            drop(guard);
            counter.join().unwrap();
            destroy_mutex(shared.mutex.get());
        }
    }
}
