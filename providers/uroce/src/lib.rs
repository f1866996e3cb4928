//! RDMA in user space: RoCE v2 devices over ordinary network interfaces, with no kernel module and
//! no root.
#![forbid(unsafe_code)]

pub mod carrier;
pub mod clock;
pub mod config;
pub mod device;
pub mod list;
pub mod netdev;
pub mod node;
