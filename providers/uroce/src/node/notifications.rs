//! Keeps the ports of this process up to date as long as there is a node.

use super::progress::watch::{Interest, Watch, Watches};
use crate::device::Follower;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Takes in notifications of the network's interfaces when they come. None where there are no such
/// notifications: ports then ask the kernel when they are queried.
pub(super) fn follow(watches: &Arc<Watches>) -> Option<Watch> {
    let follower = Arc::new(Follower::new().ok()?);
    let following = Arc::clone(&follower);
    let take = move |_| {
        // The next notifications update state that could not be queried now.
        let _ = following.follow();
    };
    Watch::new(watches, follower.as_fd(), Interest::Arrival, Box::new(take)).ok()
}
