//! Datagrams and multicast groups by the connection manager.
#![forbid(unsafe_code)]

#[cfg(feature = "tokio")]
mod asynchronous;
mod destination;
mod ends;
mod id;

#[cfg(feature = "tokio")]
pub use asynchronous::{AsyncDatagramListener, AsyncDatagrams};
pub use destination::{Destination, Peer};
pub use ends::{DatagramListener, DatagramRequest, Datagrams};
