//! The common parts of every provider of ferroverbs.
//!
//! - [`abi`]: the C types, and handles that borrow C objects;
//! - [`table`]: the verbs table of a context and its defaults;
//! - [`generation`]: the layouts of providers in C, release by release;
//! - [`uverbs`]: the commands that go to the kernel;
//! - [`cm`]: commands and events of connection managers;
//! - [`sync`]: locks and conditions;
//! - [`sys`]: raw system and C library calls;
//! - [`errno`]: the error type;
//! - [`names`]: names of states, masks, operations and statuses;
//! - [`log`]: providers' messages for the library's log;
//! - [`netlink`]: messages and sockets of netlink;
//! - [`own_keys`]: hash tables whose keys the process selects;
//! - [`queue`]: queues that a kernel driver shares with this process;
//! - [`provider`]: the trait of providers written in Rust.

pub mod abi;
pub mod cm;
pub mod errno;
pub mod explain;
pub mod generation;
pub mod log;
pub mod names;
pub mod netlink;
pub mod own_keys;
pub mod provider;
pub mod queue;
pub mod sync;
pub mod sys;
pub mod table;
pub mod uverbs;
