#![forbid(unsafe_code)]
//! Names of enumeration values: ibv_node_type_str, ibv_port_state_str, ibv_event_type_str
//! (ibv_event_type_str(3)) and ibv_wc_status_str.
//!
//! Scripts and log parsers match these texts, so they are part of the interface.

use std::ffi::CStr;

/// Indexed by `enum ibv_node_type`, from 1.
const NODE_TYPES: [&CStr; 8] = [
    c"unknown",
    c"InfiniBand channel adapter",
    c"InfiniBand switch",
    c"InfiniBand router",
    c"iWARP NIC",
    c"usNIC",
    c"usNIC UDP",
    c"unspecified",
];

/// Indexed by `enum ibv_port_state`.
const PORT_STATES: [&CStr; 6] = [
    c"no state change (NOP)",
    c"down",
    c"init",
    c"armed",
    c"active",
    c"active defer",
];

/// Indexed by `enum ibv_event_type`.
const EVENTS: [&CStr; 21] = [
    c"CQ error",
    c"local work queue catastrophic error",
    c"invalid request local work queue error",
    c"local access violation work queue error",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration request error",
    c"local catastrophic error",
    c"port active",
    c"port error",
    c"LID change",
    c"P_Key change",
    c"SM change",
    c"SRQ catastrophic error",
    c"SRQ limit reached",
    c"last WQE reached",
    c"client reregistration",
    c"GID table change",
    c"WQ fatal",
    c"Device link speed change",
];

/// Indexed by `enum ibv_wr_opcode`, in which 12 and 13 are free.
const WR_OPCODES: [&CStr; 16] = [
    c"rdma-write",
    c"rdma-write-with-imm",
    c"send",
    c"send-with-imm",
    c"rdma-read",
    c"atomic-cmp-and-swp",
    c"atomic-fetch-and-add",
    c"local-inv",
    c"bind-mw",
    c"send-with-inv",
    c"tso",
    c"driver1",
    c"unknown",
    c"unknown",
    c"flush",
    c"atomic-write",
];

/// Indexed by `enum ibv_wc_status`.
const WC_STATUSES: [&CStr; 24] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory management operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
    c"TM error",
    c"TM software rendezvous",
];

fn name<T: TryInto<usize>>(names: &[&'static CStr], value: T) -> &'static CStr {
    let index = value.try_into().unwrap_or(usize::MAX);
    names.get(index).copied().unwrap_or(c"unknown")
}

/// Name of a node type; `unknown` outside the enumeration.
pub fn node_type(value: i32) -> &'static CStr {
    name(&NODE_TYPES, value)
}

/// Name of a port state; `unknown` outside the enumeration.
pub fn port_state(value: u32) -> &'static CStr {
    name(&PORT_STATES, value)
}

/// Name of an asynchronous event; `unknown` outside the enumeration.
pub fn event_type(value: u32) -> &'static CStr {
    name(&EVENTS, value)
}

/// Name of a completion status; `unknown` outside the enumeration.
pub fn wc_status(value: u32) -> &'static CStr {
    name(&WC_STATUSES, value)
}

/// Name of the operation of a send request; `unknown` outside the enumeration.
pub fn wr_opcode(value: u32) -> &'static CStr {
    name(&WR_OPCODES, i32::try_from(value).unwrap_or(-1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::abi::*;

    #[test]
    fn the_last_value_of_each_enumeration_has_its_name() {
        assert_eq!(node_type(IBV_NODE_UNSPECIFIED), c"unspecified");
        assert_eq!(port_state(IBV_PORT_ACTIVE_DEFER), c"active defer");
        assert_eq!(
            event_type(IBV_EVENT_DEVICE_SPEED_CHANGE),
            c"Device link speed change"
        );
        assert_eq!(
            wc_status(IBV_WC_TM_RNDV_INCOMPLETE),
            c"TM software rendezvous"
        );
        assert_eq!(wr_opcode(IBV_WR_FLUSH), c"flush");
        assert_eq!(wr_opcode(IBV_WR_ATOMIC_WRITE), c"atomic-write");
    }

    #[test]
    fn values_outside_are_unknown() {
        assert_eq!(node_type(IBV_NODE_UNKNOWN), c"unknown");
        assert_eq!(node_type(0), c"unknown");
        assert_eq!(node_type(i32::MAX), c"unknown");
        assert_eq!(wr_opcode(16), c"unknown");
        assert_eq!(wr_opcode(u32::MAX), c"unknown");
        assert_eq!(port_state(6), c"unknown");
        assert_eq!(event_type(21), c"unknown");
        assert_eq!(wc_status(u32::MAX), c"unknown");
    }
}
