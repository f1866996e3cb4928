//! Rules: the headers that a frame has, and what happens to it.

use std::{mem::offset_of, sync::Arc};

use kit::abi::*;

use super::{
    Counters, EspAction,
    headers::{self, Esp, Ethernet, Gre, Ipv4, Ipv6, Mpls, Ports},
};
use crate::{context::Context, sys::flow as sys};

/// Which frames a flow takes, and what happens to them: `struct ibv_flow_attr`. A frame meets it if
/// all its headers do.
///
/// Headers inside a tunnel come behind [`Rule::inner`]. Which headers and actions a device has is
/// known by trying: uroce has those of Ethernet, IPv4, IPv6, TCP and UDP, drops and counts, and
/// refuses a rule with another one (EOPNOTSUPP).
#[derive(Clone, Debug)]
#[must_use = "`QueuePair::flow` makes a flow"]
pub struct Rule {
    kind: ibv_flow_attr_type,
    priority: u16,
    flags: u32,
    specs: Vec<u8>,
    count: u8,
    /// `IBV_FLOW_SPEC_INNER` for headers inside a tunnel.
    inner: ibv_flow_spec_type,
    counters: Vec<Counters>,
    actions: Vec<EspAction>,
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
            inner: 0,
            counters: Vec::new(),
            actions: Vec::new(),
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

    /// The rule is about the frames that the device sends. The queue pair then only names the
    /// device.
    pub fn egress(mut self) -> Self {
        self.flags |= IBV_FLOW_ATTR_FLAGS_EGRESS;
        self
    }

    /// The headers that are named from here on are those inside a tunnel, from the outer one to the
    /// inner one: `IBV_FLOW_SPEC_INNER`.
    ///
    /// ```
    /// use verbs::flow::{Ethernet, Ports, Rule};
    ///
    /// let destination = [2, 0, 0, 0, 0, 1];
    /// let of = |destination| Ethernet { destination, ..Ethernet::default() };
    /// let port = |destination| Ports { destination, source: 0 };
    /// // The network 42 of VXLAN, and in it one destination.
    /// let rule = Rule::new()
    ///     .udp(port(4789), port(0xffff))
    ///     .vxlan(42, 0xff_ffff)
    ///     .inner()
    ///     .ethernet(of(destination), of([0xff; 6]));
    /// ```
    pub fn inner(mut self) -> Self {
        self.inner = IBV_FLOW_SPEC_INNER;
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

    /// A header: a filter and its mask, in a structure of that size with `val` at `offset`.
    fn header(
        self,
        kind: ibv_flow_spec_type,
        (size, offset): (usize, usize),
        [value, mask]: [Vec<u8>; 2],
    ) -> Self {
        let kind = kind | self.inner;
        self.spec(kind, size, offset, &[value, mask].concat())
    }

    /// Compares the Ethernet header under a mask.
    pub fn ethernet(self, value: Ethernet, mask: Ethernet) -> Self {
        let place = (
            size_of::<ibv_flow_spec_eth>(),
            offset_of!(ibv_flow_spec_eth, val),
        );
        self.header(
            IBV_FLOW_SPEC_ETH,
            place,
            [value, mask].map(headers::ethernet),
        )
    }

    /// Compares the header of IPv4 under a mask.
    pub fn ipv4(self, value: Ipv4, mask: Ipv4) -> Self {
        if headers::others(mask) == [0; 4] {
            let place = (
                size_of::<ibv_flow_spec_ipv4>(),
                offset_of!(ibv_flow_spec_ipv4, val),
            );
            return self.header(IBV_FLOW_SPEC_IPV4, place, [value, mask].map(headers::ipv4));
        }
        let place = (
            size_of::<ibv_flow_spec_ipv4_ext>(),
            offset_of!(ibv_flow_spec_ipv4_ext, val),
        );
        let filters = [value, mask].map(headers::ipv4_ext);
        self.header(IBV_FLOW_SPEC_IPV4_EXT, place, filters)
    }

    /// Compares the header of IPv6 under a mask.
    pub fn ipv6(self, value: Ipv6, mask: Ipv6) -> Self {
        let place = (
            size_of::<ibv_flow_spec_ipv6>(),
            offset_of!(ibv_flow_spec_ipv6, val),
        );
        self.header(IBV_FLOW_SPEC_IPV6, place, [value, mask].map(headers::ipv6))
    }

    fn ports(self, kind: ibv_flow_spec_type, value: Ports, mask: Ports) -> Self {
        let place = (
            size_of::<ibv_flow_spec_tcp_udp>(),
            offset_of!(ibv_flow_spec_tcp_udp, val),
        );
        self.header(kind, place, [value, mask].map(headers::ports))
    }

    /// Compares the ports of TCP under a mask.
    pub fn tcp(self, value: Ports, mask: Ports) -> Self {
        self.ports(IBV_FLOW_SPEC_TCP, value, mask)
    }

    /// Compares the ports of UDP under a mask.
    pub fn udp(self, value: Ports, mask: Ports) -> Self {
        self.ports(IBV_FLOW_SPEC_UDP, value, mask)
    }

    /// Compares the header of ESP (IPsec) under a mask.
    pub fn esp(self, value: Esp, mask: Esp) -> Self {
        let place = (
            size_of::<ibv_flow_spec_esp>(),
            offset_of!(ibv_flow_spec_esp, val),
        );
        self.header(IBV_FLOW_SPEC_ESP, place, [value, mask].map(headers::esp))
    }

    /// Compares the number of the network of VXLAN (VNI, 24 bits) under a mask.
    pub fn vxlan(self, network: u32, mask: u32) -> Self {
        let place = (
            size_of::<ibv_flow_spec_tunnel>(),
            offset_of!(ibv_flow_spec_tunnel, val),
        );
        let filters = [network, mask].map(|one| one.to_be_bytes().to_vec());
        self.header(IBV_FLOW_SPEC_VXLAN_TUNNEL, place, filters)
    }

    /// Compares the header of GRE under a mask.
    pub fn gre(self, value: Gre, mask: Gre) -> Self {
        let place = (
            size_of::<ibv_flow_spec_gre>(),
            offset_of!(ibv_flow_spec_gre, val),
        );
        self.header(IBV_FLOW_SPEC_GRE, place, [value, mask].map(headers::gre))
    }

    /// Compares an entry of an MPLS label stack under a mask. It stands where the entry stands in
    /// the frame: devices need the headers of such rules in their order.
    pub fn mpls(self, value: Mpls, mask: Mpls) -> Self {
        let place = (
            size_of::<ibv_flow_spec_mpls>(),
            offset_of!(ibv_flow_spec_mpls, val),
        );
        self.header(IBV_FLOW_SPEC_MPLS, place, [value, mask].map(headers::mpls))
    }

    /// Drops the frames.
    pub fn drop_frames(self) -> Self {
        let size = size_of::<ibv_flow_spec_action_drop>();
        self.spec(IBV_FLOW_SPEC_ACTION_DROP, size, size, &[])
    }

    /// Marks the frames, for completions that report it
    /// ([`CompletionQueueBuilder::flow_tags`](crate::CompletionQueueBuilder::flow_tags)). uroce
    /// has no marks: EOPNOTSUPP.
    pub fn tag(self, tag: u32) -> Self {
        let size = size_of::<ibv_flow_spec_action_tag>();
        let offset = offset_of!(ibv_flow_spec_action_tag, tag_id);
        self.spec(IBV_FLOW_SPEC_ACTION_TAG, size, offset, &tag.to_ne_bytes())
    }

    /// Counts the frames.
    pub fn count(mut self, counters: &Counters) -> Self {
        self.counters.push(counters.clone());
        let size = size_of::<ibv_flow_spec_counter_action>();
        let offset = offset_of!(ibv_flow_spec_counter_action, counters);
        let at = sys::pointer(counters.object());
        self.spec(IBV_FLOW_SPEC_ACTION_COUNT, size, offset, &at)
    }

    /// Decrypts or encrypts the frames, before other rules and the queue pair get them.
    pub fn action(mut self, action: &EspAction) -> Self {
        self.actions.push(action.clone());
        let size = size_of::<ibv_flow_spec_action_handle>();
        let offset = offset_of!(ibv_flow_spec_action_handle, action);
        let at = sys::pointer(action.object());
        self.spec(IBV_FLOW_SPEC_ACTION_HANDLE, size, offset, &at)
    }

    /// Why it does not work with this device.
    pub(super) fn refusal(&self, context: &Context) -> Option<&'static str> {
        let mut counters = self.counters.iter();
        if !counters.all(|one| one.object().same(context)) {
            return Some("counters of another open device");
        }
        let mut actions = self.actions.iter();
        let own = actions.all(|one| one.object().same(context));
        (!own).then_some("an action of another open device")
    }

    pub(super) fn written(&self, port: u8) -> sys::Written {
        let counters = self.counters.iter().map(|one| sys::Named::Counters {
            _kept: Arc::clone(&one.0),
        });
        let actions = self.actions.iter().map(|one| sys::Named::Action {
            _kept: Arc::clone(&one.0),
        });
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
            named: counters.chain(actions).collect(),
        }
    }
}
