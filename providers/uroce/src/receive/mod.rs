//! Receive requests: a queue pair's own, and shared receive queues (ibv_post_recv(3),
//! ibv_create_srq(3)).

mod queue;
mod srq;
#[cfg(test)]
mod tests;

pub use queue::ReceiveQueue;
pub use srq::{Domain, Srq, SrqTaking};
