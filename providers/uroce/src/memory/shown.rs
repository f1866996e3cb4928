//! Keys as peers of this host are shown them, so that they use memory by themselves.

use super::entry::{Entry, Kind};
use super::keys::Keys;
use super::space::Space;
use crate::carrier::shm::Key;
use kit::abi::*;
use parking_lot::RwLockWriteGuard;
use std::ops::{Deref, DerefMut};

/// Where keys are shown.
pub trait Shown: Send + Sync {
    /// Shows what a key's index stands for from now on.
    fn show(&self, index: u32, key: Option<Key>);

    /// Waits until no peer uses what was shown before.
    fn wait(&self, index: u32);
}

impl Entry {
    /// What peers are shown of it: memory of the application that they may read or write.
    pub(super) fn shown(&self) -> Option<Key> {
        let (Space::Pinned(memory) | Space::OnDemand(memory)) = &self.space else {
            return None;
        };
        let used = self.access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ) != 0;
        let (pd, qpn) = match self.kind {
            Kind::Free => return None,
            Kind::Region | Kind::Type1 => (Some(self.pd.number()), None),
            Kind::Type2A => (None, Some(self.qpn)),
            Kind::Type2B => (Some(self.pd.number()), Some(self.qpn)),
        };
        if !used || self.length == 0 {
            return None;
        }
        Some(Key {
            tag: self.tag,
            access: self.access,
            pd,
            qpn,
            base: self.base,
            length: self.length,
            address: u64::try_from(memory.address()).ok()?,
        })
    }
}

/// An entry that is locked for writing. When it is let go, peers are shown what has become of it, and
/// those that use what it was are waited for.
///
/// That happens under the lock. A peer holds no lock of this process, and a thread here that uses a
/// peer's memory takes the locks of its own before it says so: nobody waits in a circle.
pub(super) struct Writing<'a> {
    keys: &'a Keys,
    index: u32,
    entry: RwLockWriteGuard<'a, Entry>,
    before: Option<Key>,
    touched: bool,
}

impl<'a> Writing<'a> {
    pub fn new(keys: &'a Keys, index: u32, entry: RwLockWriteGuard<'a, Entry>) -> Self {
        let before = entry.shown();
        Self {
            keys,
            index,
            entry,
            before,
            touched: false,
        }
    }
}

impl Deref for Writing<'_> {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

impl DerefMut for Writing<'_> {
    fn deref_mut(&mut self) -> &mut Entry {
        self.touched = true;
        &mut self.entry
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let now = self.entry.shown();
        // Also if it looks the same: other memory may be at the same address now.
        let changed = self.touched && (now.is_some() || self.before.is_some());
        let Some(shown) = self.keys.shown().filter(|_| changed) else {
            return;
        };
        shown.show(self.index, now);
        if self.before.is_some() {
            shown.wait(self.index);
        }
    }
}
