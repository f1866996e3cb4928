#![forbid(unsafe_code)]
//! Sockets over RDMA: rsocket(7).
//!
//! | module | what it is |
//! | --- | --- |
//! | `socket`, `table` | an rsocket; those of the process by descriptor |
//! | `stream` | stream sockets: from a new one to a connection |
//! | `connection`, `endpoint` | a connection: the protocol's state (`rsocket_protocol`) with the verbs objects that carry it out |
//! | `datagram`, `datagram_qp` | datagram sockets; their queue pairs, and paths to peers |
//! | `call`, `poll`, `repoll` | calls that may wait, in steps; rpoll; sets of descriptors |
//! | `waiter` | threads that wait for a socket |
//! | `service` | the thread that takes events of the connection manager |
//! | `cm` | ids with a channel of their own |
//! | `options`, `set_options`, `settings` | options; defaults and their files |
//! | `iomap`, `iomap_table` | memory that the peer writes to by offset |
//!
//! **The descriptor** that a program has is that of the event channel of the socket's id. The
//! program's poll(2) of it would see the connection manager's events alone: rpoll is for that.
//!
//! **Who does what.** The service thread takes all events of the connection manager: it makes
//! connections and sees their ends. Completions are looked at by the threads of the program, in
//! their calls. A socket's state is behind one lock, which nobody holds while it sleeps; what a
//! thread changes, it tells those who wait ([`waiter`]).
//!
//! **Locks** are taken in this order: a socket's, that of the service, those of waiters.
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
mod waiter;
