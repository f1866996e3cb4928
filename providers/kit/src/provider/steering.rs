#![forbid(unsafe_code)]
//! Parameters of flow rules, work queues and their tables, as providers see them.

use super::Provider;
use crate::abi::{ibv_flow_attr_type, ibv_flow_spec_type, ibv_wq_state};
use std::sync::Arc;

/// One specification of a flow rule.
pub enum FlowPart<'a, P: Provider> {
    /// Compares header fields. Value and mask are the filter's bytes in the API's order, in equal
    /// length: `ibv_flow_eth_filter`, `ibv_flow_ipv4_filter`, `ibv_flow_ipv4_ext_filter`,
    /// `ibv_flow_ipv6_filter` up to `hop_limit`, `ibv_flow_tcp_udp_filter`, and those of tunnels.
    Filter {
        /// `IBV_FLOW_SPEC_*`, with `IBV_FLOW_SPEC_INNER` where it was given.
        kind: ibv_flow_spec_type,
        /// The value to compare with.
        value: &'a [u8],
        /// Which bits of it count.
        mask: &'a [u8],
    },
    /// `IBV_FLOW_SPEC_ACTION_TAG`.
    Tag(u32),
    /// `IBV_FLOW_SPEC_ACTION_DROP`.
    Drop,
    /// `IBV_FLOW_SPEC_ACTION_COUNT`.
    Count(&'a Arc<P::Counters>),
}

/// Parameters of a flow rule (`struct ibv_flow_attr`).
pub struct FlowInit<'a, P: Provider> {
    /// `type`.
    pub attr_type: ibv_flow_attr_type,
    /// `priority`: the lowest first.
    pub priority: u16,
    /// `port`.
    pub port: u8,
    /// Bits of `enum ibv_flow_flags`.
    pub flags: u32,
    /// The specifications, in order.
    pub parts: Vec<FlowPart<'a, P>>,
}

/// Parameters of a work queue; the shim has checked that it is one for receiving.
pub struct WqInit<'a, P: Provider> {
    /// Protection domain.
    pub pd: &'a Arc<P::Pd>,
    /// Queue for its completions.
    pub cq: &'a P::Cq,
    /// Maximum of requests; the shim returns the value that the provider leaves here.
    pub max_wr: u32,
    /// Most pieces of a request; likewise.
    pub max_sge: u32,
    /// Bits of `enum ibv_wq_flags`.
    pub flags: u32,
}

/// How a work queue is to be changed (`struct ibv_wq_attr`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WqChange {
    /// `IBV_WQ_ATTR_STATE`.
    pub state: Option<ibv_wq_state>,
    /// `IBV_WQ_ATTR_CURR_STATE`: the state that the application takes it to have.
    pub current: Option<ibv_wq_state>,
    /// `IBV_WQ_ATTR_FLAGS`: values and which of them count.
    pub flags: Option<(u32, u32)>,
}

/// How a queue pair spreads received packets over a table of work queues (`struct
/// ibv_rx_hash_conf`).
pub struct Rss<'a, P: Provider> {
    /// The table.
    pub table: &'a Arc<P::WqTable>,
    /// `rx_hash_function`.
    pub function: u8,
    /// `rx_hash_key`.
    pub key: &'a [u8],
    /// Bits of `enum ibv_rx_hash_fields`.
    pub fields: u64,
}
