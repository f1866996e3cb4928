//! The RoCE v2 transport protocol as a state machine, without sockets, clock, threads, memory of
//! the application, or unsafe code. It knows no devices: a carrier supplies packets and time, a
//! host supplies memory and receive requests.
//!
//! A [`qp::QueuePair`] is called for each input; the last column is the caller's next action:
//!
//! | input | call | then |
//! | --- | --- | --- |
//! | a send request | [`qp::QueuePair::post_send`] | transmit |
//! | receive requests in the host's queue | [`qp::QueuePair::receives_posted`] | transmit |
//! | a packet for its number, with a verified ICRC | [`qp::QueuePair::receive`] | transmit, after a batch of packets: acknowledgements then coalesce |
//! | [`qp::QueuePair::deadline`] has passed | [`qp::QueuePair::on_time`] | transmit |
//! | the carrier can send | [`qp::QueuePair::transmit`] until `None` | ask for the deadline |
//! | a short request, where [`qp::QueuePair::may_batch`] | | transmit with later ones, or after a moment |
//! | the payload of a packet could not be read | [`qp::QueuePair::gather_failed`] | transmit |
//!
//! During these calls the queue pair accesses memory, takes receive requests, and reports
//! completions and events through the [`host::Host`] that the caller lends to it. A call of `Host`
//! is complete when it returns, so a packet of the peer is either executed or refused, never half
//! executed.
//!
//! | module | contents |
//! | --- | --- |
//! | [`wire`] | headers, opcodes, whole packets, the ICRC |
//! | [`qp`] | requester, completer and responder under one state; `qp::table` is the state table as data |
//! | `requester` | the send queue: the next packet, the limit of packets in flight, retries, reads |
//! | `completer` | the effect of acknowledgements and responses on the send queue |
//! | `responder` | the expected PSN, the current message, pending replies, duplicates |
//! | [`host`] | memory, receive requests, completions, events, as a trait |
//! | [`outgoing`] | a packet to send: headers as values, payload as places to gather from |
//!
//! Times are nanoseconds since an origin of the caller's choice ([`timer::Time`]).
//!
//! *Invariants.* `QueuePair::change_state` is the only function that changes the state. Outside of
//! RTS and SQD no timer of any kind runs. Every packet that [`wire::Packet::parse`] accepts may be
//! given to any queue pair in any state. The amount of memory that a peer can occupy is bounded by
//! `max_dest_rd_atomic`, and by 16 MiB of requests that came before others (64 MiB in a process).
//!
//! *Two of this make* ([`wire::Report`]). An end says by a reserved bit, which others ignore, that
//! it understands reports of missing packets. Between two such ends of an RC connection, lost
//! packets are sent again alone. Where the two sides take turns, an acknowledgement leaves inside
//! the next request ([`wire::Piggyback`]), which a second reserved bit announces. On a near path
//! messages are cut into packets of equal length (`requester::cut`), because a run of packets that
//! leaves by one system call ends at a shorter or longer one. A third bit says that such packets
//! are understood, and a fourth one that bytes behind the payload mean nothing ([`wire::Filler`]).
//! Towards others everything is as the specification says.
//!
//! *Locks.* None. The caller serializes the calls of one queue pair.
//!
//! *Tests.* `sim` joins two queue pairs by a link that loses, duplicates, reorders and damages
//! packets from a seed, under a virtual clock; properties run on it. `tests/captured` holds packets
//! of the kernel's soft-RoCE, which are read, verified and written again. `fuzz::fuzz_packet`
//! (a hostile peer) and `fuzz::fuzz_ops` (sequences of calls, lost, repeated and damaged packets,
//! vanishing memory) accept any bytes; `cargo test` runs them with seeded bytes, `fuzz/` is their
//! cargo-fuzz project. Longer runs: `UROCE_FUZZ_ROUNDS=800000 PROPTEST_CASES=2000 cargo test
//! --release -p uroce-engine`; `UROCE_FUZZ_FIRST` selects the first input.
//! `providers/uroce/tests/lossy.rs` counts the bytes of long messages on a network with loss and
//! reordering.
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
