#![forbid(unsafe_code)]
//! Netlink: talking to the kernel's networking and RDMA subsystems.
//!
//! [`frame`] is the form that all messages share, [`connection`] the socket, [`route`] the common
//! form of messages about interfaces, addresses, routes and neighbours.

pub mod connection;
pub mod frame;
pub mod route;
