#![forbid(unsafe_code)]
//! Threads that wait for a socket.
//!
//! A completion makes the descriptor of a completion channel readable, and the first thread that
//! checks takes the event. Another thread that waits for the same socket would sleep on, because
//! its poll(2) finds no event. Therefore each waiting thread has an eventfd, and a thread that
//! changes a socket signals those of all others.

use kit::errno::Result;
use kit::sync::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A waiting thread, by its eventfd.
#[derive(Debug)]
pub struct Waiter(OwnedFd);

/// Unused waiters: a process has about as many as threads.
static IDLE: kit::sys::per_process::PerProcess<Mutex<Vec<Arc<Waiter>>>> =
    kit::sys::per_process::PerProcess::new();
const MOST_IDLE: usize = 64;

impl Waiter {
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    pub fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    /// An unused waiter, or a new one.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn borrow() -> Result<Arc<Self>> {
        let idle = IDLE.get()?.lock().pop();
        match idle {
            Some(waiter) => {
                waiter.clear();
                Ok(waiter)
            }
            None => Ok(Arc::new(Self::new()?)),
        }
    }

    /// Returns it to the unused waiters.
    pub fn give_back(self: Arc<Self>) {
        let Ok(idle) = IDLE.get() else {
            return;
        };
        let mut idle = idle.lock();
        if idle.len() < MOST_IDLE {
            idle.push(self);
        }
    }

    pub fn fd(&self) -> i32 {
        self.0.as_raw_fd()
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub fn wake(&self) {
        // The write fails only if the counter is at its maximum, and then the eventfd is readable.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Resets the eventfd until the next wake-up.
    pub fn clear(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.0, &mut count);
    }
}

/// The threads that wait for a socket.
#[derive(Debug, Default)]
pub struct Waiters {
    list: Mutex<Vec<Arc<Waiter>>>,
    count: AtomicUsize,
}

impl Waiters {
    pub fn add(&self, waiter: &Arc<Waiter>) {
        let mut list = self.list.lock();
        list.push(waiter.clone());
        self.count.store(list.len(), Ordering::SeqCst);
    }

    /// Removes one entry of a waiter.
    pub fn remove(&self, waiter: &Arc<Waiter>) {
        let mut list = self.list.lock();
        if let Some(at) = list.iter().position(|other| Arc::ptr_eq(other, waiter)) {
            list.swap_remove(at);
        }
        self.count.store(list.len(), Ordering::SeqCst);
    }

    /// Wakes all threads; called after a change that one of them may wait for.
    pub fn wake(&self) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        for waiter in self.list.lock().iter() {
            waiter.wake();
        }
    }

    /// Wakes all threads but the calling one, which checks itself.
    pub fn wake_others(&self, own: Option<&Arc<Waiter>>) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        for waiter in self.list.lock().iter() {
            if !own.is_some_and(|own| Arc::ptr_eq(own, waiter)) {
                waiter.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::sys::ready::is_readable;

    fn is_woken(waiter: &Waiter) -> bool {
        is_readable(waiter.as_fd()).unwrap()
    }

    #[test]
    fn all_that_wait_are_woken_but_the_one_that_looks() {
        let waiters = Waiters::default();
        waiters.wake();
        let (own, other) = (Waiter::borrow().unwrap(), Waiter::borrow().unwrap());
        waiters.add(&own);
        waiters.add(&other);
        waiters.wake_others(Some(&own));
        assert!(!is_woken(&own) && is_woken(&other));
        waiters.remove(&other);
        other.clear();
        waiters.wake();
        assert!(is_woken(&own) && !is_woken(&other));
        waiters.remove(&own);
        own.give_back();
        assert!(!is_woken(&Waiter::borrow().unwrap()));
    }
}
