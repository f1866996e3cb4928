//! The InfiniBand communication management protocol (IBTA volume 1, chapter 12) as it is used over
//! RoCE v2, without sockets, clock, threads or unsafe code.
//!
//! | module | contents |
//! | --- | --- |
//! | [`wire`] | the eleven messages as values, read from and written to management datagrams |
//! | [`agent`] | the connection manager of a port: connections, listeners with their backlog, service id resolution for datagrams, timers |
//! | [`times`] | times in messages, and the resulting waits |
//! | [`ip`] | IP addressing (annex A11): service ids of ports, and the header in private data |
//!
//! A datagram is untrusted until it is parsed. Parsing accepts any bytes, never panics, and checks
//! the form only. [`agent`] decides whether a message fits a connection.
//!
//! Tests: 27 messages captured from Linux 6.1 are read, compared field by field, and written back
//! to the byte (`tests/captured.rs`). Two agents communicate over a simulated network that loses,
//! delays and duplicates messages. Arbitrary bytes are parsed or refused; hostile messages create
//! no state beyond the backlog. `fuzz::fuzz_receive` accepts any bytes, as messages between calls
//! of a program and time: `cargo test` runs it with seeded bytes, `fuzz/` is its cargo-fuzz
//! project.
#![forbid(unsafe_code)]

pub mod agent;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod ip;
pub mod times;
pub mod wire;
