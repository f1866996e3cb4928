//! Ports: ibv_query_port(3), ibv_rate_to_mbps(3).
#![allow(missing_docs)] // member names are those of the C API; the man pages named above explain them

use super::prelude::*;

/// `enum ibv_mtu`.
pub type ibv_mtu = c_uint;
pub const IBV_MTU_256: ibv_mtu = 1;
pub const IBV_MTU_512: ibv_mtu = 2;
pub const IBV_MTU_1024: ibv_mtu = 3;
pub const IBV_MTU_2048: ibv_mtu = 4;
pub const IBV_MTU_4096: ibv_mtu = 5;

/// `enum ibv_port_state`.
pub type ibv_port_state = c_uint;
pub const IBV_PORT_NOP: ibv_port_state = 0;
pub const IBV_PORT_DOWN: ibv_port_state = 1;
pub const IBV_PORT_INIT: ibv_port_state = 2;
pub const IBV_PORT_ARMED: ibv_port_state = 3;
pub const IBV_PORT_ACTIVE: ibv_port_state = 4;
pub const IBV_PORT_ACTIVE_DEFER: ibv_port_state = 5;

pub const IBV_LINK_LAYER_UNSPECIFIED: c_uint = 0;
pub const IBV_LINK_LAYER_INFINIBAND: c_uint = 1;
pub const IBV_LINK_LAYER_ETHERNET: c_uint = 2;

/// `enum ibv_port_cap_flags`.
pub type ibv_port_cap_flags = c_uint;
pub const IBV_PORT_SM: ibv_port_cap_flags = 2;
pub const IBV_PORT_NOTICE_SUP: ibv_port_cap_flags = 4;
pub const IBV_PORT_TRAP_SUP: ibv_port_cap_flags = 8;
pub const IBV_PORT_OPT_IPD_SUP: ibv_port_cap_flags = 0x10;
pub const IBV_PORT_AUTO_MIGR_SUP: ibv_port_cap_flags = 0x20;
pub const IBV_PORT_SL_MAP_SUP: ibv_port_cap_flags = 0x40;
pub const IBV_PORT_MKEY_NVRAM: ibv_port_cap_flags = 0x80;
pub const IBV_PORT_PKEY_NVRAM: ibv_port_cap_flags = 0x100;
pub const IBV_PORT_LED_INFO_SUP: ibv_port_cap_flags = 0x200;
pub const IBV_PORT_SYS_IMAGE_GUID_SUP: ibv_port_cap_flags = 0x800;
pub const IBV_PORT_PKEY_SW_EXT_PORT_TRAP_SUP: ibv_port_cap_flags = 0x1000;
pub const IBV_PORT_EXTENDED_SPEEDS_SUP: ibv_port_cap_flags = 0x4000;
pub const IBV_PORT_CAP_MASK2_SUP: ibv_port_cap_flags = 0x8000;
pub const IBV_PORT_CM_SUP: ibv_port_cap_flags = 0x10000;
pub const IBV_PORT_SNMP_TUNNEL_SUP: ibv_port_cap_flags = 0x20000;
pub const IBV_PORT_REINIT_SUP: ibv_port_cap_flags = 0x40000;
pub const IBV_PORT_DEVICE_MGMT_SUP: ibv_port_cap_flags = 0x80000;
pub const IBV_PORT_VENDOR_CLASS_SUP: ibv_port_cap_flags = 0x100000;
pub const IBV_PORT_DR_NOTICE_SUP: ibv_port_cap_flags = 0x200000;
pub const IBV_PORT_CAP_MASK_NOTICE_SUP: ibv_port_cap_flags = 0x400000;
pub const IBV_PORT_BOOT_MGMT_SUP: ibv_port_cap_flags = 0x800000;
pub const IBV_PORT_LINK_LATENCY_SUP: ibv_port_cap_flags = 0x1000000;
pub const IBV_PORT_CLIENT_REG_SUP: ibv_port_cap_flags = 0x2000000;
pub const IBV_PORT_IP_BASED_GIDS: ibv_port_cap_flags = 0x4000000;

/// `enum ibv_port_cap_flags2`.
pub type ibv_port_cap_flags2 = c_uint;
pub const IBV_PORT_SET_NODE_DESC_SUP: ibv_port_cap_flags2 = 1;
pub const IBV_PORT_INFO_EXT_SUP: ibv_port_cap_flags2 = 2;
pub const IBV_PORT_VIRT_SUP: ibv_port_cap_flags2 = 4;
pub const IBV_PORT_SWITCH_PORT_STATE_TABLE_SUP: ibv_port_cap_flags2 = 8;
pub const IBV_PORT_LINK_WIDTH_2X_SUP: ibv_port_cap_flags2 = 0x10;
pub const IBV_PORT_LINK_SPEED_HDR_SUP: ibv_port_cap_flags2 = 0x20;
pub const IBV_PORT_LINK_SPEED_NDR_SUP: ibv_port_cap_flags2 = 0x400;
pub const IBV_PORT_LINK_SPEED_XDR_SUP: ibv_port_cap_flags2 = 0x1000;

/// `struct ibv_port_attr`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct ibv_port_attr {
    pub state: ibv_port_state,
    pub max_mtu: ibv_mtu,
    pub active_mtu: ibv_mtu,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
    /// Not there in the structures of providers of generation 34, nor of their programs.
    pub active_speed_ex: u32,
}
layout!(ibv_port_attr, 56, { state: 0, max_mtu: 4, active_mtu: 8, gid_tbl_len: 12, port_cap_flags: 16, max_msg_sz: 20, bad_pkey_cntr: 24, qkey_viol_cntr: 28, pkey_tbl_len: 32, lid: 34, sm_lid: 36, lmc: 38, max_vl_num: 39, sm_sl: 40, subnet_timeout: 41, init_type_reply: 42, active_width: 43, active_speed: 44, phys_state: 45, link_layer: 46, flags: 47, port_cap_flags2: 48, active_speed_ex: 52 });

/// `enum ibv_rate`.
pub type ibv_rate = c_uint;
pub const IBV_RATE_MAX: ibv_rate = 0;
pub const IBV_RATE_2_5_GBPS: ibv_rate = 2;
pub const IBV_RATE_5_GBPS: ibv_rate = 5;
pub const IBV_RATE_10_GBPS: ibv_rate = 3;
pub const IBV_RATE_20_GBPS: ibv_rate = 6;
pub const IBV_RATE_30_GBPS: ibv_rate = 4;
pub const IBV_RATE_40_GBPS: ibv_rate = 7;
pub const IBV_RATE_60_GBPS: ibv_rate = 8;
pub const IBV_RATE_80_GBPS: ibv_rate = 9;
pub const IBV_RATE_120_GBPS: ibv_rate = 10;
pub const IBV_RATE_14_GBPS: ibv_rate = 11;
pub const IBV_RATE_56_GBPS: ibv_rate = 12;
pub const IBV_RATE_112_GBPS: ibv_rate = 13;
pub const IBV_RATE_168_GBPS: ibv_rate = 14;
pub const IBV_RATE_25_GBPS: ibv_rate = 15;
pub const IBV_RATE_100_GBPS: ibv_rate = 0x10;
pub const IBV_RATE_200_GBPS: ibv_rate = 17;
pub const IBV_RATE_300_GBPS: ibv_rate = 18;
pub const IBV_RATE_28_GBPS: ibv_rate = 19;
pub const IBV_RATE_50_GBPS: ibv_rate = 20;
pub const IBV_RATE_400_GBPS: ibv_rate = 21;
pub const IBV_RATE_600_GBPS: ibv_rate = 22;
pub const IBV_RATE_800_GBPS: ibv_rate = 23;
pub const IBV_RATE_1200_GBPS: ibv_rate = 24;

/// The part that the exported `ibv_query_port` fills: the first 48 bytes of `ibv_port_attr`.
///
/// Applications built before the structure grew pass a buffer of this size, so no
/// more is ever written through this type.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct _compat_ibv_port_attr {
    pub bytes: [u32; 12],
}
layout!(_compat_ibv_port_attr, 48, { bytes: 0 });
