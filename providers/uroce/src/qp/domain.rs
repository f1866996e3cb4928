//! A queue pair's interface to an XRC domain and its other openers, as traits, because the domain
//! imports queue pairs.

use crate::receive::Srq;
use crate::xrc::Link;
use kit::abi::ibv_event_type;
use std::sync::Arc;

/// The XRC domain of a target.
pub trait XrcDomain: Send + Sync {
    /// The shared receive queue of a number, if this process has it.
    fn srq(&self, number: u32) -> Option<Arc<Srq>>;

    /// The connection to another process that has the domain open.
    fn link(&self, slot: u16) -> Option<Arc<Link>>;

    /// Whether another process has opened the domain and its greeting has not arrived yet.
    fn is_coming(&self, slot: u16) -> bool;

    /// Reports an event of a target to another process.
    fn report(&self, slot: u16, number: u32, event: ibv_event_type);

    /// Forgets a target.
    fn remove_target(&self, number: u32);
}

/// A handle of this process to an XRC target that another process made.
pub trait EventListener: Send + Sync {
    /// Reports an asynchronous event of the target under the handle's own name.
    fn report(&self, event: ibv_event_type);
}
