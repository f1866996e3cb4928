//! `ibv_doctor`: looks at a machine, says in order what keeps RDMA from working, and what to type.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`facts`] | what there is to know, as plain values |
//! | [`probe`] | finds it out: files below a root, the process, libibverbs |
//! | [`diagnose`] | facts to findings; reads and asks nothing |
//! | [`report`] | findings as text and as JSON |
//! | [`netdev`] | `--netdev`: the device, port and GID of a network interface |
//! | [`pair`] | `--pair`: two machines exchange data and compare themselves |
//! | [`cli`] | the command line, and the statuses |
#![forbid(unsafe_code)]

pub mod cli;
pub mod diagnose;
pub mod facts;
pub mod netdev;
pub mod pair;
pub mod probe;
pub mod report;
