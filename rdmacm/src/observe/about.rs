#![forbid(unsafe_code)]
//! The arguments of a call that say why it failed.

use crate::abi::Address;
use std::net::SocketAddr;

/// What a call was given, as far as it says why it failed.
#[derive(Clone, Copy)]
pub enum About {
    Nothing,
    /// Whether the address is one at all, and which.
    Address(bool, Option<SocketAddr>),
    /// Responder resources and initiator depth.
    Depths(Option<(u8, u8)>),
    /// Domain and completion queues for a queue pair.
    QueuePair {
        pd: usize,
        /// The device of the domain.
        context: usize,
        send_cq: usize,
        recv_cq: usize,
    },
    /// The port space of an id.
    Space(u32),
}

impl About {
    /// The address that a call was given.
    pub fn address(address: Option<Address>) -> Self {
        Self::Address(address.is_some(), address.and_then(|address| address.ip()))
    }
}
