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

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use kit::abi::*;

use crate::{
    context::Context,
    error::{Error, PostError, Result},
    qp::{Pair, QueuePair, QueuePairBuilder},
    request::SendRequest,
    sys::flow as sys,
    transport::RawPacket,
};

/// The fields of an Ethernet header, or their masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ethernet {
    /// The destination.
    pub destination: [u8; 6],
    /// The source.
    pub source: [u8; 6],
    /// The type of what follows.
    pub ether_type: u16,
    /// The VLAN tag.
    pub vlan_tag: u16,
}

/// The fields of a header of IPv4, or their masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// The source.
    pub source: Ipv4Addr,
    /// The destination.
    pub destination: Ipv4Addr,
    /// The protocol.
    pub protocol: u8,
    /// Type of service.
    pub service: u8,
    /// Time to live.
    pub ttl: u8,
    /// The flags of fragments.
    pub flags: u8,
}

impl Default for Ipv4 {
    fn default() -> Self {
        Self {
            source: Ipv4Addr::UNSPECIFIED,
            destination: Ipv4Addr::UNSPECIFIED,
            protocol: 0,
            service: 0,
            ttl: 0,
            flags: 0,
        }
    }
}

/// The fields of a header of IPv6, or their masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// The source.
    pub source: Ipv6Addr,
    /// The destination.
    pub destination: Ipv6Addr,
    /// The flow label.
    pub flow_label: u32,
    /// The next header.
    pub next_header: u8,
    /// The traffic class.
    pub traffic_class: u8,
    /// The hop limit.
    pub hop_limit: u8,
}

impl Default for Ipv6 {
    fn default() -> Self {
        Self {
            source: Ipv6Addr::UNSPECIFIED,
            destination: Ipv6Addr::UNSPECIFIED,
            flow_label: 0,
            next_header: 0,
            traffic_class: 0,
            hop_limit: 0,
        }
    }
}

/// The ports of TCP or UDP, or their masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// The destination.
    pub destination: u16,
    /// The source.
    pub source: u16,
}

/// Which frames a flow takes, and what happens to them: `struct ibv_flow_attr`. A frame meets it if
/// all its headers do.
#[derive(Clone, Debug)]
#[must_use = "`QueuePair::flow` makes a flow"]
pub struct Rule {
    kind: ibv_flow_attr_type,
    priority: u16,
    flags: u32,
    specs: Vec<u8>,
    count: u8,
    counters: Vec<Counters>,
}

impl Default for Rule {
    fn default() -> Self {
        Self::of(IBV_FLOW_ATTR_NORMAL)
    }
}

impl Rule {
    fn of(kind: ibv_flow_attr_type) -> Self {
        Self {
            kind,
            priority: 0,
            flags: 0,
            specs: Vec::new(),
            count: 0,
            counters: Vec::new(),
        }
    }

    /// A rule for the frames whose headers are given.
    pub fn new() -> Self {
        Self::default()
    }

    /// All frames that no other rule takes.
    pub fn all_others() -> Self {
        Self::of(IBV_FLOW_ATTR_ALL_DEFAULT)
    }

    /// The frames to groups that no other rule takes.
    pub fn other_groups() -> Self {
        Self::of(IBV_FLOW_ATTR_MC_DEFAULT)
    }

    /// A copy of all frames, those included that are sent.
    pub fn sniffer() -> Self {
        Self::of(IBV_FLOW_ATTR_SNIFFER)
    }

    /// Of several rules the one with the lowest number takes a frame; 0 otherwise.
    pub fn priority(mut self, priority: u16) -> Self {
        self.priority = priority;
        self
    }

    /// Rules of lower priority take the frame as well.
    pub fn pass_on(mut self) -> Self {
        self.flags |= IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
        self
    }

    /// A specification: its type and size, then bytes from its first member on, at `offset`.
    fn spec(mut self, kind: ibv_flow_spec_type, size: usize, offset: usize, rest: &[u8]) -> Self {
        let begin = self.specs.len();
        self.specs.extend(kind.to_ne_bytes());
        // None is as long as 100 bytes.
        self.specs
            .extend(u16::try_from(size).unwrap_or(0).to_ne_bytes());
        self.specs.resize(begin + offset, 0);
        self.specs.extend(rest);
        self.specs.resize(begin + size, 0);
        self.count = self.count.saturating_add(1);
        self
    }

    /// Compares the Ethernet header under a mask.
    pub fn ethernet(self, value: Ethernet, mask: Ethernet) -> Self {
        let bytes = |of: Ethernet| -> Vec<u8> {
            let mut all = of.destination.to_vec();
            all.extend(of.source);
            all.extend(of.ether_type.to_be_bytes());
            all.extend(of.vlan_tag.to_be_bytes());
            all
        };
        let rest = [bytes(value), bytes(mask)].concat();
        self.spec(IBV_FLOW_SPEC_ETH, size_of::<ibv_flow_spec_eth>(), 6, &rest)
    }

    /// Compares the header of IPv4 under a mask.
    pub fn ipv4(self, value: Ipv4, mask: Ipv4) -> Self {
        let addresses = |of: Ipv4| [of.source.octets(), of.destination.octets()].concat();
        let others = |of: Ipv4| [of.protocol, of.service, of.ttl, of.flags];
        if others(mask) == [0; 4] {
            let rest = [addresses(value), addresses(mask)].concat();
            return self.spec(
                IBV_FLOW_SPEC_IPV4,
                size_of::<ibv_flow_spec_ipv4>(),
                8,
                &rest,
            );
        }
        let bytes = |of: Ipv4| [addresses(of), others(of).to_vec()].concat();
        let rest = [bytes(value), bytes(mask)].concat();
        let size = size_of::<ibv_flow_spec_ipv4_ext>();
        self.spec(IBV_FLOW_SPEC_IPV4_EXT, size, 8, &rest)
    }

    /// Compares the header of IPv6 under a mask.
    pub fn ipv6(self, value: Ipv6, mask: Ipv6) -> Self {
        let bytes = |of: Ipv6| -> Vec<u8> {
            let mut all = [of.source.octets(), of.destination.octets()].concat();
            all.extend(of.flow_label.to_be_bytes());
            all.extend([of.next_header, of.traffic_class, of.hop_limit, 0]);
            all
        };
        let rest = [bytes(value), bytes(mask)].concat();
        self.spec(
            IBV_FLOW_SPEC_IPV6,
            size_of::<ibv_flow_spec_ipv6>(),
            8,
            &rest,
        )
    }

    fn ports(self, kind: ibv_flow_spec_type, value: Ports, mask: Ports) -> Self {
        let bytes = |of: Ports| [of.destination.to_be_bytes(), of.source.to_be_bytes()].concat();
        let rest = [bytes(value), bytes(mask)].concat();
        self.spec(kind, size_of::<ibv_flow_spec_tcp_udp>(), 6, &rest)
    }

    /// Compares the ports of TCP under a mask.
    pub fn tcp(self, value: Ports, mask: Ports) -> Self {
        self.ports(IBV_FLOW_SPEC_TCP, value, mask)
    }

    /// Compares the ports of UDP under a mask.
    pub fn udp(self, value: Ports, mask: Ports) -> Self {
        self.ports(IBV_FLOW_SPEC_UDP, value, mask)
    }

    /// Drops the frames.
    pub fn drop_frames(self) -> Self {
        let size = size_of::<ibv_flow_spec_action_drop>();
        self.spec(IBV_FLOW_SPEC_ACTION_DROP, size, size, &[])
    }

    /// Marks the frames, for completions that report it (uroce: EOPNOTSUPP).
    pub fn tag(self, tag: u32) -> Self {
        let size = size_of::<ibv_flow_spec_action_tag>();
        self.spec(IBV_FLOW_SPEC_ACTION_TAG, size, 8, &tag.to_ne_bytes())
    }

    /// Counts the frames.
    pub fn count(mut self, counters: &Counters) -> Self {
        self.counters.push(counters.clone());
        let size = size_of::<ibv_flow_spec_counter_action>();
        let at = sys::pointer(counters.object());
        self.spec(IBV_FLOW_SPEC_ACTION_COUNT, size, 8, &at)
    }

    fn written(&self, port: u8) -> sys::Written {
        sys::Written {
            attr: ibv_flow_attr {
                comp_mask: 0,
                type_: self.kind,
                size: 0,
                priority: self.priority,
                num_of_specs: self.count,
                port,
                flags: self.flags,
            },
            specs: self.specs.clone(),
            counters: self.counters.iter().map(|one| Arc::clone(&one.0)).collect(),
        }
    }
}

/// A rule that is in effect until this is dropped. It keeps its queue pair, which receives as long
/// as one of both is there.
pub struct Flow(sys::Flow);

impl Flow {
    pub(crate) fn new(qp: sys::Receiver, rule: &Rule, port: u8) -> Result<Self> {
        let context = qp.context();
        let mut counters = rule.counters.iter();
        if !counters.all(|one| one.object().same(context)) {
            let invalid = Error::new("ibv_create_flow", libc::EINVAL);
            return Err(invalid.because("counters of another open device"));
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

/// A quantity that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counted {
    /// Frames.
    Packets,
    /// Their bytes.
    Bytes,
}

/// Counters of flows ([`Context::counters`]). Copies are the same ones.
#[derive(Clone)]
pub struct Counters(Arc<sys::Counting>);

impl Counters {
    fn object(&self) -> &sys::Counting {
        &self.0
    }

    /// Counts a quantity at an index. It is called before a flow has the counters.
    ///
    /// # Errors
    /// Of ibv_attach_counters_point_flow(3): EINVAL for an index that there is not, EBUSY if a flow
    /// has them, EOPNOTSUPP for a quantity that the device does not count.
    pub fn attach(&self, what: Counted, index: u32) -> Result<()> {
        let what = match what {
            Counted::Packets => IBV_COUNTER_PACKETS,
            Counted::Bytes => IBV_COUNTER_BYTES,
        };
        sys::attach_counter(&self.0, what, index)
    }

    /// Reads that many, from index 0 on.
    ///
    /// # Errors
    /// Of ibv_read_counters(3): EINVAL for more than there are.
    pub fn read(&self, count: usize) -> Result<Vec<u64>> {
        let mut values = vec![0; count];
        sys::read_counters(&self.0, &mut values, false)?;
        Ok(values)
    }

    /// The same; the values may be older, and take less time to read.
    ///
    /// # Errors
    /// As above.
    pub fn read_cached(&self, count: usize) -> Result<Vec<u64>> {
        let mut values = vec![0; count];
        sys::read_counters(&self.0, &mut values, true)?;
        Ok(values)
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counters").finish_non_exhaustive()
    }
}

impl Context {
    /// Makes counters for flows.
    ///
    /// # Errors
    /// Of ibv_create_counters(3): EOPNOTSUPP if the device has none.
    pub fn counters(&self) -> Result<Counters> {
        Ok(Counters(Arc::new(sys::create_counters(self)?)))
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
    /// Of ibv_create_flow(3): EINVAL for a rule that contradicts itself or counters of another open
    /// device, EOPNOTSUPP for one that the device does not have.
    pub fn flow(&self, rule: &Rule) -> Result<Flow> {
        let receiver = sys::Receiver::Own(Arc::clone(&self.inner.qp));
        Flow::new(receiver, rule, self.inner.route.port)
    }
}
