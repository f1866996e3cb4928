//! XRC: many senders share receive queues by few connections.
#![forbid(unsafe_code)]

mod domain;
mod receive_queue;
mod target;

pub use domain::XrcDomain;
pub use receive_queue::XrcReceiveQueue;
pub use target::{OpenedXrcTarget, XrcTarget};
