//! `ibv_doctor`: examines a machine, reports in order the problems that keep RDMA from working, and
//! names the commands that help.
//!
//! It first gathers facts, then draws conclusions. The second half reads nothing, so its tests need
//! facts only.
//!
//! | module | contents |
//! | --- | --- |
//! | [`facts`] | all facts, as plain values |
//! | [`probe`] | gathers them: /sys, /dev, /proc, /etc and /lib below a root that tests replace, and what libibverbs answers (the list, opening, ports with GIDs, one registration of a megabyte). Missing or unreadable data is a fact, not an error |
//! | [`diagnose`] | facts to findings, in order of cause and effect: kernel, cards, nodes, providers, library, memory, ports. A step reports nothing that an earlier finding explains |
//! | [`report`] | findings as text and JSON |
//! | [`netdev`] | `--netdev`: the device, port and GID of a network interface |
//! | [`pair`] | `--pair`: two machines exchange their facts over TCP (lines of JSON), compare them, and move data |
//! | [`cli`] | the command line and the exit statuses |
#![forbid(unsafe_code)]

pub mod cli;
pub mod diagnose;
pub mod facts;
pub mod netdev;
pub mod pair;
pub mod probe;
pub mod report;
