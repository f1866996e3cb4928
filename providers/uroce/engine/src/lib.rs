//! RoCE v2 as a state machine: no socket, no clock, no thread, no memory of the application.
//!
//! A [`qp::QueuePair`] is told what happens and answers what is to be done:
//!
//! | the caller | calls | and then |
//! | --- | --- | --- |
//! | posts a request | [`qp::QueuePair::post_send`] | transmits |
//! | posted receive requests to the host's queue | [`qp::QueuePair::receives_posted`] | transmits |
//! | has a packet for the number | [`qp::QueuePair::receive`] | transmits, after a batch of them: acknowledgements then coalesce |
//! | sees that [`qp::QueuePair::deadline`] has passed | [`qp::QueuePair::on_time`] | transmits |
//! | can send | [`qp::QueuePair::transmit`] until `None` | asks for the deadline |
//! | could not read a packet's payload | [`qp::QueuePair::gather_failed`] | transmits |
//!
//! During these calls the queue pair works on memory, takes receive requests, and tells completions
//! and events through the [`host::Host`] that it is lent.
//!
//! Times are nanoseconds since an origin of the caller's choice ([`timer::Time`]). Every packet that
//! [`wire::Packet::parse`] accepts may be given to any queue pair in any state.
#![forbid(unsafe_code)]

mod completer;
pub mod counters;
#[cfg(any(test, feature = "sim"))]
pub mod fuzz;
pub mod host;
pub mod outgoing;
pub mod psn;
pub mod qp;
mod requester;
mod responder;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod timer;
pub mod wire;
pub mod work;
