#![forbid(unsafe_code)]
//! Sockets over RDMA: rsocket(7).
//!
//! | module | contents |
//! | --- | --- |
//! | `socket`, `table` | an rsocket; the rsockets of the process, by descriptor |
//! | `stream` | stream sockets, from a new socket to a connection |
//! | `connection`, `endpoint` | a connection: the protocol's state (`rsocket_protocol`) and the verbs objects that execute it |
//! | `datagram`, `datagram_qp` | datagram sockets; their queue pairs, and paths to peers |
//! | `call`, `poll`, `repoll` | calls that may wait, in steps; rpoll; sets of descriptors |
//! | `waiter` | threads that wait for a socket |
//! | `service` | the thread that processes events of the connection manager |
//! | `cm` | ids that do not share their channel |
//! | `options`, `set_options`, `timeouts`, `settings` | options; defaults and their files |
//! | `iomap`, `iomap_table` | memory that the peer writes by offset |
//!
//! **The descriptor** of a socket is that of its id's event channel. poll(2) on it sees only events
//! of the connection manager; rpoll sees all.
//!
//! **Threads.** The service thread processes all events of the connection manager: it establishes
//! connections and sees their ends. The threads of the program take completions, in their calls. A
//! socket's state has one lock, which no thread holds while it sleeps. A thread that changes the
//! state wakes the waiting threads ([`waiter`]).
//!
//! **Locks** are taken in this order: a socket's, the service's, those of waiters.
//!
//! **fork(2).** A child has no rsockets.

pub mod call;
mod cm;
mod connection;
pub mod datagram;
mod datagram_qp;
mod endpoint;
mod iomap;
mod iomap_table;
mod options;
pub mod poll;
pub mod repoll;
mod service;
mod set_options;
mod settings;
pub mod socket;
pub mod stream;
pub mod table;
mod timeouts;
mod waiter;
