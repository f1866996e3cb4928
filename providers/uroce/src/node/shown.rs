//! The keys of the process, shown in its segment.

use super::inner::NodeInner;
use crate::carrier::shm::{Directory, Key, PATIENCE, Patience, Use, still_used};
use crate::memory::{Keys, Shown, ShownRegion};
use kit::errno::{Errno, Result};
use std::sync::{Arc, Weak};

/// Regions may outlive the node; then they are not shown.
struct InSegment(Weak<NodeInner>);

impl InSegment {
    /// Not in a forked child, which has the parent's segment mapped.
    fn with<T: Default>(&self, call: impl FnOnce(&Directory) -> T) -> T {
        let node = self.0.upgrade().filter(|node| node.guard.here().is_ok());
        let directory = node.as_ref().and_then(|node| node.directory());
        directory.map_or_else(T::default, call)
    }
}

impl Shown for InSegment {
    fn show(&self, index: u32, region: Option<ShownRegion>) {
        let key = region.map(|region| Key {
            tag: region.tag,
            access: region.access,
            pd: Some(region.pd),
            qpn: None,
            base: region.base,
            length: region.length,
            address: region.address,
        });
        self.with(|directory| directory.segment().show_key(index, key));
    }

    fn wait(&self, index: u32) -> Result<()> {
        let user = self.with(|directory| {
            let mut patience = Patience::new(PATIENCE);
            directory.await_unused(Use::Key(index), &mut patience).err()
        });
        match user {
            None => Ok(()),
            Some(pid) => {
                still_used("a memory region", pid);
                Err(Errno::BUSY)
            }
        }
    }
}

/// Keys that are shown if there is shared memory.
pub fn keys(node: &Arc<NodeInner>) -> Keys {
    if node.directory().is_none() {
        return Keys::new();
    }
    Keys::shown_by(Box::new(InSegment(Arc::downgrade(node))))
}
