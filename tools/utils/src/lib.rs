//! `ibv_devices`, `ibv_devinfo`, `ibv_asyncwatch` and the five pingpongs. Each program is a file in
//! `bin/` that calls one function here.
//!
//! Output and exit status are those of rdma-core's programs of the same names, to the byte, because
//! scripts parse them. Only `--json` is added, with its line of usage; it prints one JSON document,
//! or one for each line, instead of the text. Where rdma-core's programs give up without need,
//! these continue: `ibv_rc_pingpong -t -e` ignores an event for a completion that it has polled
//! already.
//!
//! [`pingpong`] has `Kind` (how the programs differ), `Endpoint` (the objects of one end),
//! `exchange` (addresses over TCP) and `rounds`.
//!
//! Tests: `cargo test -p ferroverbs-utils` runs both sets of programs over `uroce_lo`, compares
//! their output, and lets them play with each other.
#![forbid(unsafe_code)]

pub mod asyncwatch;
pub mod devices;
pub mod devinfo;
mod numbers;
pub mod pingpong;
mod program;
mod words;

pub use program::main;
