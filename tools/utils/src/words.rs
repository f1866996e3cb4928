//! The words for the numbers of verbs, as `ibv_devinfo` prints them.

use verbs::tools::abi::*;

pub(crate) fn transport(number: ibv_transport_type) -> &'static str {
    match number {
        IBV_TRANSPORT_IB => "InfiniBand",
        IBV_TRANSPORT_IWARP => "iWARP",
        IBV_TRANSPORT_USNIC => "usNIC",
        IBV_TRANSPORT_USNIC_UDP => "usNIC UDP",
        IBV_TRANSPORT_UNSPECIFIED => "unspecified",
        _ => "invalid transport",
    }
}

pub(crate) fn port_state(number: ibv_port_state) -> &'static str {
    match number {
        IBV_PORT_DOWN => "PORT_DOWN",
        IBV_PORT_INIT => "PORT_INIT",
        IBV_PORT_ARMED => "PORT_ARMED",
        IBV_PORT_ACTIVE => "PORT_ACTIVE",
        _ => "invalid state",
    }
}

/// The fourth is misspelt where scripts have it from.
pub(crate) fn physical_state(number: u8) -> &'static str {
    match number {
        1 => "SLEEP",
        2 => "POLLING",
        3 => "DISABLED",
        4 => "PORT_CONFIGURATION TRAINNING",
        5 => "LINK_UP",
        6 => "LINK_ERROR_RECOVERY",
        7 => "PHY TEST",
        _ => "invalid physical state",
    }
}

pub(crate) fn atomics(number: ibv_atomic_cap) -> &'static str {
    match number {
        IBV_ATOMIC_NONE => "ATOMIC_NONE",
        IBV_ATOMIC_HCA => "ATOMIC_HCA",
        IBV_ATOMIC_GLOB => "ATOMIC_GLOB",
        _ => "invalid atomic capability",
    }
}

pub(crate) fn mtu(number: ibv_mtu) -> &'static str {
    match number {
        IBV_MTU_256 => "256",
        IBV_MTU_512 => "512",
        IBV_MTU_1024 => "1024",
        IBV_MTU_2048 => "2048",
        IBV_MTU_4096 => "4096",
        _ => "invalid MTU",
    }
}

pub(crate) fn width(number: u8) -> &'static str {
    match number {
        1 => "1",
        2 => "4",
        4 => "8",
        8 => "12",
        16 => "2",
        _ => "invalid width",
    }
}

pub(crate) fn speed(number: u8) -> &'static str {
    match number {
        1 => "2.5 Gbps",
        2 => "5.0 Gbps",
        4 | 8 => "10.0 Gbps",
        16 => "14.0 Gbps",
        32 => "25.0 Gbps",
        64 => "50.0 Gbps",
        128 => "100.0 Gbps",
        _ => "invalid speed",
    }
}

pub(crate) fn virtual_lanes(number: u8) -> &'static str {
    match number {
        1 => "1",
        2 => "2",
        3 => "4",
        4 => "8",
        5 => "15",
        _ => "invalid value",
    }
}

pub(crate) fn link_layer(number: u8) -> &'static str {
    match number {
        0 => "Unspecified",
        1 => "InfiniBand",
        2 => "Ethernet",
        _ => "Unknown",
    }
}

pub(crate) fn event(number: ibv_event_type) -> &'static str {
    match number {
        IBV_EVENT_DEVICE_FATAL => "IBV_EVENT_DEVICE_FATAL",
        IBV_EVENT_PORT_ACTIVE => "IBV_EVENT_PORT_ACTIVE",
        IBV_EVENT_PORT_ERR => "IBV_EVENT_PORT_ERR",
        IBV_EVENT_LID_CHANGE => "IBV_EVENT_LID_CHANGE",
        IBV_EVENT_PKEY_CHANGE => "IBV_EVENT_PKEY_CHANGE",
        IBV_EVENT_SM_CHANGE => "IBV_EVENT_SM_CHANGE",
        IBV_EVENT_CLIENT_REREGISTER => "IBV_EVENT_CLIENT_REREGISTER",
        IBV_EVENT_GID_CHANGE => "IBV_EVENT_GID_CHANGE",
        _ => "unexpected",
    }
}

/// A set of flags by name, and the bits that remain.
pub(crate) fn flags<'a>(
    set: u64,
    table: &'a [(u64, &'a str)],
) -> (impl Iterator<Item = &'a str>, u64) {
    let known = table.iter().fold(0, |all, (flag, _)| all | flag);
    let names = table.iter().filter(move |(flag, _)| set & flag != 0);
    (names.map(|(_, name)| *name), set & !known)
}

pub(crate) const DEVICE: &[(u64, &str)] = &[
    (1, "RESIZE_MAX_WR"),
    (1 << 1, "BAD_PKEY_CNTR"),
    (1 << 2, "BAD_QKEY_CNTR"),
    (1 << 3, "RAW_MULTI"),
    (1 << 4, "AUTO_PATH_MIG"),
    (1 << 5, "CHANGE_PHY_PORT"),
    (1 << 6, "UD_AV_PORT_ENFORCE"),
    (1 << 7, "CURR_QP_STATE_MOD"),
    (1 << 8, "SHUTDOWN_PORT"),
    (1 << 9, "INIT_TYPE"),
    (1 << 10, "PORT_ACTIVE_EVENT"),
    (1 << 11, "SYS_IMAGE_GUID"),
    (1 << 12, "RC_RNR_NAK_GEN"),
    (1 << 13, "SRQ_RESIZE"),
    (1 << 14, "N_NOTIFY_CQ"),
    (1 << 17, "MEM_WINDOW"),
    (1 << 18, "UD_IP_CSUM"),
    (1 << 20, "XRC"),
    (1 << 21, "MEM_MGT_EXTENSIONS"),
    (1 << 23, "MEM_WINDOW_TYPE_2A"),
    (1 << 24, "MEM_WINDOW_TYPE_2B"),
    (1 << 25, "RC_IP_CSUM"),
    (1 << 26, "RAW_IP_CSUM"),
    (1 << 29, "MANAGED_FLOW_STEERING"),
];

/// Of the upper half alone.
pub(crate) const DEVICE_EX: &[(u64, &str)] = &[
    (1 << 34, "RAW_SCATTER_FCS"),
    (1 << 36, "PCI_WRITE_END_PADDING"),
];

pub(crate) const ODP: &[(u64, &str)] = &[(1, "ODP_SUPPORT"), (2, "ODP_SUPPORT_IMPLICIT")];

pub(crate) const ODP_TRANSPORT: &[(u64, &str)] = &[
    (1, "SUPPORT_SEND"),
    (2, "SUPPORT_RECV"),
    (4, "SUPPORT_WRITE"),
    (8, "SUPPORT_READ"),
    (16, "SUPPORT_ATOMIC"),
    (32, "SUPPORT_SRQ"),
];

pub(crate) const QUEUE_PAIRS: &[(u64, &str)] = &[
    (1 << IBV_QPT_RAW_PACKET, "SUPPORT_RAW_PACKET"),
    (1 << IBV_QPT_UD, "SUPPORT_UD"),
];

pub(crate) const RAW_PACKET: &[(u64, &str)] = &[
    (1, "C-VLAN stripping offload"),
    (2, "Scatter FCS offload"),
    (4, "IP csum offload"),
    (8, "Delay drop"),
];
