//! The invalidation listeners of a region: the objects that cache the region of its key.
//!
//! A region owns the list. Before it changes or is removed, each listener forgets it, and until the
//! change is done no listener can be added. A listener is called with the list unlocked, and may
//! wait for its own lock.

use kit::sync::Mutex;
use std::collections::HashMap;
use std::sync::Weak;

/// An object that caches the region of a key.
pub trait InvalidationListener: Send + Sync {
    /// The key's region changes: when this returns, the cached region is not used any more. Waits
    /// for calls of [`super::Keys::gather_few`] with it, which never wait for a change of a key.
    fn forget(&self, key: u32);
}

/// The listeners of a region.
#[derive(Debug, Default)]
pub(super) struct InvalidationListeners(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By address, which no other object has as long as the entry is listed.
    listeners: HashMap<usize, Weak<dyn InvalidationListener>>,
    /// Number of threads that are about to change the key's region: meanwhile no listener is added.
    changing: u32,
}

/// While one exists, the region has no listeners.
pub(super) struct Invalidation<'a>(&'a InvalidationListeners);

impl InvalidationListeners {
    /// Adds a listener. Returns whether it may cache the region from now on.
    pub fn add(&self, listener: Weak<dyn InvalidationListener>) -> bool {
        let mut state = self.0.lock();
        if state.changing > 0 {
            return false;
        }
        let listeners = &mut state.listeners;
        let at = listener.as_ptr().addr();
        if listeners.len() == listeners.capacity() && !listeners.contains_key(&at) {
            listeners.retain(|_, listener| listener.strong_count() > 0);
        }
        listeners.insert(at, listener);
        true
    }

    /// Has all listeners forget the key.
    pub fn invalidate(&self, key: u32) -> Invalidation<'_> {
        let listeners = {
            let mut state = self.0.lock();
            state.changing += 1;
            std::mem::take(&mut state.listeners)
        };
        for listener in listeners.into_values() {
            if let Some(listener) = listener.upgrade() {
                listener.forget(key);
            }
        }
        Invalidation(self)
    }
}

impl Drop for Invalidation<'_> {
    fn drop(&mut self) {
        self.0.0.lock().changing -= 1;
    }
}

#[cfg(test)]
impl InvalidationListeners {
    pub(super) fn count(&self) -> usize {
        self.0.lock().listeners.len()
    }

    /// Whether a thread is about to change the key's region: it has taken the listeners.
    pub(super) fn is_changing(&self) -> bool {
        self.0.lock().changing > 0
    }
}
