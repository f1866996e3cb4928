#![forbid(unsafe_code)]
//! Netlink: talking to the kernel's networking and RDMA subsystems.
//!
//! [`frame`] is the form that all messages share, [`connection`] the socket, [`route`] what the
//! messages about interfaces, addresses, routes and neighbours have in common.

pub mod connection;
pub mod frame;
pub mod route;
