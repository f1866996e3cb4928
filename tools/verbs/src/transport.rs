//! Types of queue pairs.
#![forbid(unsafe_code)]

use kit::abi::{IBV_QPT_RAW_PACKET, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND};

/// A type of queue pair: [`Reliable`], [`Unreliable`], [`Datagram`], [`XrcInitiator`],
/// [`RawPacket`].
pub trait Transport: sealed::Transport {}

/// A type of queue pair that is connected to one other: [`Reliable`], [`Unreliable`],
/// [`XrcInitiator`].
pub trait Connected: Transport {}

/// A type of queue pair that repeats lost packets: [`Reliable`], [`XrcInitiator`].
pub trait Acknowledged: Connected {}

mod sealed {
    pub trait Transport {
        /// `enum ibv_qp_type`.
        const KIND: u32;
    }
}

/// Reliable connections (RC): messages, RDMA and atomic operations.
#[derive(Clone, Copy, Debug)]
pub enum Reliable {}

/// Unreliable connections (UC): messages and RDMA writes; lost ones are not repeated. Reads and
/// atomic operations are refused with EINVAL.
#[derive(Clone, Copy, Debug)]
pub enum Unreliable {}

/// Datagrams (UD): messages of one packet, to any queue pair for datagrams, or to a multicast
/// group. All other operations are refused with EINVAL.
#[derive(Clone, Copy, Debug)]
pub enum Datagram {}

/// The sending ends of XRC: as reliable connections, but a request names a receive queue of the
/// other end ([`SendRequest::receive_queue`](crate::SendRequest::receive_queue)). They receive
/// nothing. The other end is an [`XrcTarget`](crate::XrcTarget).
#[derive(Clone, Copy, Debug)]
pub enum XrcInitiator {}

/// Raw packets: whole Ethernet frames ([`flow`](crate::flow)). All operations beside plain messages
/// are refused with EINVAL.
#[derive(Clone, Copy, Debug)]
pub enum RawPacket {}

impl sealed::Transport for RawPacket {
    const KIND: u32 = IBV_QPT_RAW_PACKET;
}
impl Transport for RawPacket {}
impl sealed::Transport for Reliable {
    const KIND: u32 = IBV_QPT_RC;
}
impl sealed::Transport for Unreliable {
    const KIND: u32 = IBV_QPT_UC;
}
impl sealed::Transport for Datagram {
    const KIND: u32 = IBV_QPT_UD;
}
impl sealed::Transport for XrcInitiator {
    const KIND: u32 = IBV_QPT_XRC_SEND;
}
impl Transport for Reliable {}
impl Transport for Unreliable {}
impl Transport for Datagram {}
impl Transport for XrcInitiator {}
impl Connected for Reliable {}
impl Connected for Unreliable {}
impl Connected for XrcInitiator {}
impl Acknowledged for Reliable {}
impl Acknowledged for XrcInitiator {}
