//! RDMA in user space: RoCE v2 devices over ordinary network interfaces, with no kernel module and
//! no root.
#![forbid(unsafe_code)]

mod address;
pub mod carrier;
pub mod channel;
pub mod clock;
pub mod config;
pub mod context;
pub mod cq;
pub mod device;
mod limits;
pub mod list;
pub mod memory;
mod named;
#[cfg(test)]
#[path = "../tests/alone/namespace.rs"]
mod namespace;
pub mod netdev;
pub mod node;
mod qp;
mod raw;
pub mod receive;
mod span;
mod threads;
mod xrc;
