//! Raw packets and flow rules: which frames of the network a queue pair receives.
//!
//! A queue pair for raw packets ([`ProtectionDomain::raw_packets`](crate::ProtectionDomain))
//! sends whole Ethernet frames, and receives those that a [`Rule`] gives it. It needs
//! CAP_NET_RAW.
//!
//! ```no_run
//! use verbs::{Device, ReceiveRequest, SendRequest, flow::{Ethernet, Rule}};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = Device::find("uroce_lo")?.open()?;
//! let pd = context.protection_domain()?;
//! let cq = context.completion_queue(32)?;
//! let qp = pd.raw_packets(&cq).build()?;
//! qp.post_receive(ReceiveRequest::new(pd.buffer(2048)?))?;
//! // All frames of one type; a field whose mask is zero is not compared.
//! let of_type = Ethernet { ether_type: 0x88b5, ..Ethernet::default() };
//! let mask = Ethernet { ether_type: 0xffff, ..Ethernet::default() };
//! let flow = qp.flow(&Rule::new().ethernet(of_type, mask))?;
//!
//! let mut frame = pd.buffer(60)?;
//! frame[12..14].copy_from_slice(&[0x88, 0xb5]);
//! qp.post(SendRequest::send(frame))?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod action;
mod counters;
mod headers;
mod rule;
#[cfg(test)]
#[cfg(not(feature = "system"))]
mod tests;

use std::{fmt, sync::Arc};

use kit::abi::IBV_QPT_RAW_PACKET;

use crate::{
    error::{Error, PostError, Result},
    qp::{Pair, QueuePair, QueuePairBuilder},
    request::SendRequest,
    sys::flow as sys,
    transport::RawPacket,
};

pub use action::{AesGcm, Encapsulation, EspAction, EspParameters};
pub use counters::{Counted, Counters};
pub use headers::{Esp, Ethernet, Gre, Ipv4, Ipv6, Mpls, Ports};
pub use rule::Rule;

/// A rule that is in effect until this is dropped. It keeps its queue pair, which receives as long
/// as one of both is there.
pub struct Flow(sys::Flow);

impl Flow {
    pub(crate) fn new(qp: sys::Receiver, rule: &Rule, port: u8) -> Result<Self> {
        if let Some(reason) = rule.refusal(qp.context()) {
            return Err(Error::new("ibv_create_flow", libc::EINVAL).because(reason));
        }
        sys::create(qp, rule.written(port)).map(Self)
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Flow");
        shown.field("queue_pair", &self.0.0.number());
        shown.finish_non_exhaustive()
    }
}

impl QueuePairBuilder<RawPacket> {
    /// Makes the queue pair, ready to send; it receives what its flows give it
    /// ([`QueuePair::flow`]).
    ///
    /// # Errors
    /// Of ibv_create_qp(3): EPERM without CAP_NET_RAW, EOPNOTSUPP or EINVAL if the device has no
    /// raw packets; ENOSPC if a completion queue has too few entries ([`QueuePairBuilder`]).
    pub fn build(self) -> Result<QueuePair<RawPacket>> {
        let pair = Pair::of(self.create()?, self.route);
        pair.ready_for_packets()?;
        Ok(QueuePair::new(pair))
    }
}

impl QueuePair<RawPacket> {
    /// Sends a frame, from its Ethernet header on.
    ///
    /// # Errors
    /// Of ibv_post_send(3), with the request; EINVAL if the memory is of another protection domain,
    /// and for requests that are not plain messages.
    pub fn post(&self, request: SendRequest) -> std::result::Result<(), PostError<SendRequest>> {
        let posted = request.post(IBV_QPT_RAW_PACKET, &self.inner.qp, None);
        self.inner.contain(posted)
    }

    /// Receives the frames that meet a rule, until the flow is dropped.
    ///
    /// # Errors
    /// Of ibv_create_flow(3): EINVAL for a rule that contradicts itself, and for counters or
    /// actions of another open device; EOPNOTSUPP for a rule that the device does not have.
    pub fn flow(&self, rule: &Rule) -> Result<Flow> {
        let receiver = sys::Receiver::Own(Arc::clone(&self.inner.qp));
        Flow::new(receiver, rule, self.inner.route.port)
    }
}
