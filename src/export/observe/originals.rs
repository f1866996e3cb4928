//! The functions of a provider that stood in an object, by the object's address.
//!
//! They are looked up on every call, also in a child that was forked while another thread made an
//! object; so there is no lock. Nodes are used again, never freed.

use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

const BUCKETS: usize = 256;
const FREE: usize = 0;
/// Being filled. No object has this address.
const CLAIMED: usize = 1;

struct Node<T> {
    object: AtomicUsize,
    value: UnsafeCell<T>,
    next: *mut Node<T>,
}

/// Values of objects.
pub struct Originals<T> {
    buckets: [AtomicPtr<Node<T>>; BUCKETS],
}

// SAFETY: a value is written by the thread that claimed its node, and read only while the node
// names an object, whose maker and destroyer do not run beside its users.
unsafe impl<T: Send> Sync for Originals<T> {}

impl<T: Copy> Originals<T> {
    /// None.
    pub const fn new() -> Self {
        Self {
            buckets: [const { AtomicPtr::new(null_mut()) }; BUCKETS],
        }
    }

    fn bucket(&self, object: usize) -> &AtomicPtr<Node<T>> {
        // Objects are aligned to 16 bytes; their pages differ above.
        &self.buckets[((object >> 4) ^ (object >> 12)) % BUCKETS]
    }

    fn nodes(&self, object: usize) -> impl Iterator<Item = &Node<T>> {
        let mut at = self.bucket(object).load(Acquire);
        std::iter::from_fn(move || {
            // SAFETY: nodes are never freed; a reachable node was complete when it was pushed.
            let node = unsafe { at.as_ref() }?;
            at = node.next;
            Some(node)
        })
    }

    /// Notes the value of a new object.
    pub fn put(&self, object: usize, value: T) {
        let free = |node: &&Node<T>| {
            node.object
                .compare_exchange(FREE, CLAIMED, AcqRel, Relaxed)
                .is_ok()
        };
        if let Some(node) = self.nodes(object).find(free) {
            // SAFETY: claimed, so no other thread reads or writes it.
            unsafe { *node.value.get() = value };
            node.object.store(object, Release);
            return;
        }
        let bucket = self.bucket(object);
        let node = Box::leak(Box::new(Node {
            object: AtomicUsize::new(object),
            value: UnsafeCell::new(value),
            next: bucket.load(Acquire),
        }));
        while let Err(first) = bucket.compare_exchange(node.next, node, AcqRel, Acquire) {
            node.next = first;
        }
    }

    /// The value of an object.
    pub fn get(&self, object: usize) -> Option<T> {
        let node = self
            .nodes(object)
            .find(|node| node.object.load(Acquire) == object)?;
        // SAFETY: the node names the object, which its user keeps alive.
        Some(unsafe { *node.value.get() })
    }

    /// Forgets an object, and returns its value.
    pub fn take(&self, object: usize) -> Option<T> {
        let value = self.get(object)?;
        let node = self
            .nodes(object)
            .find(|node| node.object.load(Acquire) == object)?;
        node.object.store(FREE, Release);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_objects() {
        let all = Originals::<u32>::new();
        for object in 1..1000usize {
            all.put(object << 4, u32::try_from(object).unwrap());
        }
        assert_eq!(all.get(16), Some(1));
        assert_eq!(all.get(999 << 4), Some(999));
        assert_eq!(all.take(32), Some(2));
        assert_eq!(all.get(32), None);
        all.put(32, 7);
        assert_eq!(all.get(32), Some(7));
        assert_eq!(all.get(5), None);
    }

    #[test]
    fn threads_put_and_take_beside_each_other() {
        let all = Originals::<usize>::new();
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                let all = &all;
                scope.spawn(move || {
                    for round in 0..5000usize {
                        let object = (thread * 64 + round % 64 + 1) << 4;
                        all.put(object, round);
                        assert_eq!(all.take(object), Some(round));
                    }
                });
            }
        });
    }
}
