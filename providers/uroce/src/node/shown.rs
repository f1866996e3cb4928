//! The keys of the process, shown in its segment.

use super::core::Core;
use crate::carrier::shm::{Directory, Key, Use};
use crate::memory::{Keys, Shown};
use std::sync::{Arc, Weak};

/// Regions may outlive the node; then they are shown to nobody.
struct InSegment(Weak<Core>);

impl InSegment {
    /// Not in a forked child, which has the parent's segment mapped.
    fn with(&self, call: impl FnOnce(&Directory)) {
        if let Some(core) = self.0.upgrade().filter(|core| core.here().is_ok())
            && let Some(directory) = &core.directory
        {
            call(directory);
        }
    }
}

impl Shown for InSegment {
    fn show(&self, index: u32, key: Option<Key>) {
        self.with(|directory| directory.segment().show_key(index, key));
    }

    fn wait(&self, index: u32) {
        self.with(|directory| directory.wait_for_all(Use::Key(index)));
    }
}

/// Keys that are shown if there is shared memory.
pub fn keys(core: &Arc<Core>) -> Keys {
    if core.directory.is_none() {
        return Keys::new();
    }
    Keys::shown_by(Box::new(InSegment(Arc::downgrade(core))))
}
