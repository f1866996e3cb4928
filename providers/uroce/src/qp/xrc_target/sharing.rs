//! The processes that share an XRC target and get its events.
//!
//! [`Sharing`] owns the lists that have to be read while the queue pair is locked, or waited for
//! without that lock: events are reported from inside the engine, and a delegation is waited for by
//! calls of the application.
//!
//! *Locks.* Each list has a separate mutex, which is a leaf: the only locks taken under it are
//! those of the event channel, the kept messages of a link and the domain's list of links.
//! `returns` is waited for without the queue pair's lock.
//!
//! *Tests.* Here: users, listeners and returns.

use super::super::domain::{EventListener, XrcDomain};
use crate::xrc::{Link, Message};
use kit::abi::{IBV_EVENT_QP_LAST_WQE_REACHED, ibv_event_type};
use kit::sync::{Condvar, Mutex};
use std::any::Any;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// The processes that share an XRC target.
#[derive(Default)]
pub struct Sharing {
    /// The slots of other processes that have it open, each as often as it has.
    users: Mutex<Vec<u16>>,
    /// Handles of this process that are older than the takeover of the target.
    listeners: Mutex<Vec<Weak<dyn EventListener>>>,
    /// Keeps the domain open as long as others have the target open, after a takeover.
    domain: Mutex<Option<Box<dyn Any + Send>>>,
    /// The owner, if that is another process.
    owner: Mutex<Option<Arc<Link>>>,
    /// The target was returned by its delegate.
    returns: Returns,
}

impl Sharing {
    /// Reports an event to the other processes that have the target open. A delegate reports it to
    /// the owner.
    pub fn report(&self, domain: Option<&Arc<dyn XrcDomain>>, number: u32, event: ibv_event_type) {
        if let Some(domain) = domain {
            for slot in &*self.users.lock() {
                domain.report(*slot, number, event);
            }
        }
        for listener in self.listeners() {
            listener.report(event);
        }
        // The owner reports that event itself, when it learns that the target has failed.
        if let Some(owner) = &*self.owner.lock()
            && event != IBV_EVENT_QP_LAST_WQE_REACHED
        {
            owner.send(&Message::Event(number, event));
        }
    }

    /// Whether other processes, or handles that are older than a takeover, have the target open.
    pub fn is_in_use(&self) -> bool {
        !self.users.lock().is_empty() || !self.listeners().is_empty()
    }

    /// Another process has opened the target.
    pub fn add_user(&self, slot: u16) {
        self.users.lock().push(slot);
    }

    /// Another process has opened it at most `most` times less. Returns whether it had opened it.
    pub fn remove_user(&self, slot: u16, most: usize) -> bool {
        let mut users = self.users.lock();
        let is_it = |known: &mut u16| *known == slot;
        users.extract_if(.., is_it).take(most).count() > 0
    }

    /// The slots of other processes that have it open, each as often as it has.
    pub fn users(&self) -> Vec<u16> {
        self.users.lock().clone()
    }

    /// Those that the former owner knew.
    pub fn set_users(&self, users: Vec<u16>) {
        *self.users.lock() = users;
    }

    /// A handle of this process is older than the takeover.
    pub fn add_listener<L: EventListener + 'static>(&self, listener: &Arc<L>) {
        let listener = Arc::downgrade(listener);
        self.listeners.lock().push(listener);
    }

    /// That handle is closed.
    pub fn remove_listener<L: EventListener>(&self, listener: &L) {
        let mut listeners = self.listeners.lock();
        listeners.retain(|known| !std::ptr::addr_eq(known.as_ptr(), listener));
    }

    fn listeners(&self) -> Vec<Arc<dyn EventListener>> {
        let listeners = self.listeners.lock();
        listeners.iter().filter_map(Weak::upgrade).collect()
    }

    /// Keeps the domain open until [`Sharing::release_domain`].
    pub fn keep_domain(&self, domain: Box<dyn Any + Send>) {
        *self.domain.lock() = Some(domain);
    }

    /// The domain may be closed.
    pub fn release_domain(&self) {
        let domain = self.domain.lock().take();
        drop(domain);
    }

    /// The owner is another process, or this one.
    pub fn set_owner(&self, owner: Option<&Arc<Link>>) {
        *self.owner.lock() = owner.cloned();
    }

    /// Whether the owner has ended.
    pub fn has_lost_owner(&self) -> bool {
        self.owner
            .lock()
            .as_ref()
            .is_some_and(|owner| owner.is_gone())
    }

    /// How often the target was returned.
    pub fn returns(&self) -> &Returns {
        &self.returns
    }
}

/// How often a delegated target was returned. It is not under the queue pair's lock, whose holders
/// do not wait.
#[derive(Default)]
pub struct Returns {
    count: Mutex<u32>,
    more: Condvar,
}

impl Returns {
    /// So often.
    pub fn count(&self) -> u32 {
        *self.count.lock()
    }

    /// Once more.
    pub fn add(&self) {
        let mut count = self.count.lock();
        *count = count.wrapping_add(1);
        self.more.notify_all();
    }

    /// Waits until the target was returned after that count was read, or that time has come.
    /// Returns whether it was returned.
    pub fn wait_for_more(&self, seen: u32, until: Instant) -> bool {
        let mut count = self.count.lock();
        while *count == seen {
            let (waited, late) = self.more.wait_until(count, until);
            if late {
                return *waited != seen;
            }
            count = waited;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::abi::IBV_EVENT_QP_FATAL;
    use std::time::Duration;

    #[derive(Default)]
    struct Listener(Mutex<Vec<ibv_event_type>>);

    impl EventListener for Listener {
        fn report(&self, event: ibv_event_type) {
            self.0.lock().push(event);
        }
    }

    #[test]
    fn a_user_counts_as_often_as_it_has_opened_the_target() {
        let sharing = Sharing::default();
        for slot in [7, 7, 8, 7] {
            sharing.add_user(slot);
        }
        assert!(sharing.remove_user(7, 1));
        assert_eq!(sharing.users(), [7, 8, 7]);
        assert!(sharing.remove_user(7, usize::MAX));
        assert!(!sharing.remove_user(7, usize::MAX));
        assert!(sharing.is_in_use());
        assert!(sharing.remove_user(8, 1));
        assert!(!sharing.is_in_use());
    }

    #[test]
    fn listeners_receive_events_until_they_are_closed() {
        let sharing = Sharing::default();
        let listeners = [(); 2].map(|()| Arc::new(Listener::default()));
        for listener in &listeners {
            sharing.add_listener(listener);
        }
        sharing.report(None, 1, IBV_EVENT_QP_FATAL);
        sharing.remove_listener(&*listeners[0]);
        sharing.report(None, 1, IBV_EVENT_QP_LAST_WQE_REACHED);
        assert_eq!(*listeners[0].0.lock(), [IBV_EVENT_QP_FATAL]);
        let both = [IBV_EVENT_QP_FATAL, IBV_EVENT_QP_LAST_WQE_REACHED];
        assert_eq!(*listeners[1].0.lock(), both);
        assert!(sharing.is_in_use());
        drop(listeners);
        assert!(!sharing.is_in_use());
    }

    #[test]
    fn a_return_before_the_wait_is_seen() {
        let returns = Returns::default();
        let seen = returns.count();
        returns.add();
        assert!(returns.wait_for_more(seen, Instant::now()));
        let soon = Instant::now() + Duration::from_millis(1);
        assert!(!returns.wait_for_more(returns.count(), soon));
    }

    #[test]
    fn the_domain_is_kept_until_it_is_released() {
        let sharing = Sharing::default();
        let domain = Arc::new(());
        sharing.keep_domain(Box::new(Arc::clone(&domain)));
        assert_eq!(Arc::strong_count(&domain), 2);
        sharing.release_domain();
        assert_eq!(Arc::strong_count(&domain), 1);
    }
}
