//! RDMA in user space: RoCE v2 devices over ordinary network interfaces, with no kernel module and
//! no root.
#![forbid(unsafe_code)]

pub mod carrier;
pub mod channel;
pub mod clock;
pub mod config;
pub mod cq;
pub mod device;
pub mod list;
pub mod memory;
pub mod netdev;
pub mod node;
pub mod receive;
mod threads;
