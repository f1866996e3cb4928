//! Devices and their attributes: ibv_get_device_list(3), ibv_query_device(3),
//! ibv_query_device_ex(3).
#![allow(missing_docs)] // member names are those of the C API; the man pages named above explain them

use super::prelude::*;

/// `enum ibv_node_type`.
pub type ibv_node_type = c_int;
pub const IBV_NODE_UNKNOWN: ibv_node_type = -1;
pub const IBV_NODE_CA: ibv_node_type = 1;
pub const IBV_NODE_SWITCH: ibv_node_type = 2;
pub const IBV_NODE_ROUTER: ibv_node_type = 3;
pub const IBV_NODE_RNIC: ibv_node_type = 4;
pub const IBV_NODE_USNIC: ibv_node_type = 5;
pub const IBV_NODE_USNIC_UDP: ibv_node_type = 6;
pub const IBV_NODE_UNSPECIFIED: ibv_node_type = 7;

/// `enum ibv_transport_type`.
pub type ibv_transport_type = c_int;
pub const IBV_TRANSPORT_UNKNOWN: ibv_transport_type = -1;
pub const IBV_TRANSPORT_IB: ibv_transport_type = 0;
pub const IBV_TRANSPORT_IWARP: ibv_transport_type = 1;
pub const IBV_TRANSPORT_USNIC: ibv_transport_type = 2;
pub const IBV_TRANSPORT_USNIC_UDP: ibv_transport_type = 3;
pub const IBV_TRANSPORT_UNSPECIFIED: ibv_transport_type = 4;

pub const IBV_SYSFS_NAME_MAX: c_uint = 0x40;
pub const IBV_SYSFS_PATH_MAX: c_uint = 0x100;

/// `struct _ibv_device_ops`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct _ibv_device_ops {
    pub _dummy1: Option<unsafe extern "C" fn(*mut ibv_device, c_int) -> *mut ibv_context>,
    pub _dummy2: Option<unsafe extern "C" fn(*mut ibv_context)>,
}
layout!(_ibv_device_ops, 16, { _dummy1: 0, _dummy2: 8 });

/// `struct ibv_device`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_device {
    pub _ops: _ibv_device_ops,
    pub node_type: ibv_node_type,
    pub transport_type: ibv_transport_type,
    pub name: [c_char; 64],
    pub dev_name: [c_char; 64],
    pub dev_path: [c_char; 256],
    pub ibdev_path: [c_char; 256],
}
layout!(ibv_device, 664, { _ops: 0, node_type: 16, transport_type: 20, name: 24, dev_name: 88, dev_path: 152, ibdev_path: 408 });

/// Unnamed struct inside the struct of that name.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct ibv_gid_global {
    pub subnet_prefix: be64,
    pub interface_id: be64,
}
layout!(ibv_gid_global, 16, { subnet_prefix: 0, interface_id: 8 });

/// `union ibv_gid`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub union ibv_gid {
    pub raw: [u8; 16],
    pub global: ibv_gid_global,
}
layout!(ibv_gid, 16, { raw: 0, global: 0 });

/// `enum ibv_gid_type`.
pub type ibv_gid_type = c_uint;
pub const IBV_GID_TYPE_IB: ibv_gid_type = 0;
pub const IBV_GID_TYPE_ROCE_V1: ibv_gid_type = 1;
pub const IBV_GID_TYPE_ROCE_V2: ibv_gid_type = 2;

/// `struct ibv_gid_entry`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_gid_entry {
    pub gid: ibv_gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}
layout!(ibv_gid_entry, 32, { gid: 0, gid_index: 16, port_num: 20, gid_type: 24, ndev_ifindex: 28 });

/// `enum ibv_device_cap_flags`.
pub type ibv_device_cap_flags = c_uint;
pub const IBV_DEVICE_RESIZE_MAX_WR: ibv_device_cap_flags = 1;
pub const IBV_DEVICE_BAD_PKEY_CNTR: ibv_device_cap_flags = 2;
pub const IBV_DEVICE_BAD_QKEY_CNTR: ibv_device_cap_flags = 4;
pub const IBV_DEVICE_RAW_MULTI: ibv_device_cap_flags = 8;
pub const IBV_DEVICE_AUTO_PATH_MIG: ibv_device_cap_flags = 0x10;
pub const IBV_DEVICE_CHANGE_PHY_PORT: ibv_device_cap_flags = 0x20;
pub const IBV_DEVICE_UD_AV_PORT_ENFORCE: ibv_device_cap_flags = 0x40;
pub const IBV_DEVICE_CURR_QP_STATE_MOD: ibv_device_cap_flags = 0x80;
pub const IBV_DEVICE_SHUTDOWN_PORT: ibv_device_cap_flags = 0x100;
pub const IBV_DEVICE_INIT_TYPE: ibv_device_cap_flags = 0x200;
pub const IBV_DEVICE_PORT_ACTIVE_EVENT: ibv_device_cap_flags = 0x400;
pub const IBV_DEVICE_SYS_IMAGE_GUID: ibv_device_cap_flags = 0x800;
pub const IBV_DEVICE_RC_RNR_NAK_GEN: ibv_device_cap_flags = 0x1000;
pub const IBV_DEVICE_SRQ_RESIZE: ibv_device_cap_flags = 0x2000;
pub const IBV_DEVICE_N_NOTIFY_CQ: ibv_device_cap_flags = 0x4000;
pub const IBV_DEVICE_MEM_WINDOW: ibv_device_cap_flags = 0x20000;
pub const IBV_DEVICE_UD_IP_CSUM: ibv_device_cap_flags = 0x40000;
pub const IBV_DEVICE_XRC: ibv_device_cap_flags = 0x100000;
pub const IBV_DEVICE_MEM_MGT_EXTENSIONS: ibv_device_cap_flags = 0x200000;
pub const IBV_DEVICE_MEM_WINDOW_TYPE_2A: ibv_device_cap_flags = 0x800000;
pub const IBV_DEVICE_MEM_WINDOW_TYPE_2B: ibv_device_cap_flags = 0x1000000;
pub const IBV_DEVICE_RC_IP_CSUM: ibv_device_cap_flags = 0x2000000;
pub const IBV_DEVICE_RAW_IP_CSUM: ibv_device_cap_flags = 0x4000000;
pub const IBV_DEVICE_MANAGED_FLOW_STEERING: ibv_device_cap_flags = 0x20000000;

/// `enum ibv_fork_status`.
pub type ibv_fork_status = c_uint;
pub const IBV_FORK_DISABLED: ibv_fork_status = 0;
pub const IBV_FORK_ENABLED: ibv_fork_status = 1;
pub const IBV_FORK_UNNEEDED: ibv_fork_status = 2;

/// `enum ibv_atomic_cap`.
pub type ibv_atomic_cap = c_uint;
pub const IBV_ATOMIC_NONE: ibv_atomic_cap = 0;
pub const IBV_ATOMIC_HCA: ibv_atomic_cap = 1;
pub const IBV_ATOMIC_GLOB: ibv_atomic_cap = 2;

/// `struct ibv_device_attr`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct ibv_device_attr {
    pub fw_ver: [c_char; 64],
    pub node_guid: be64,
    pub sys_image_guid: be64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    pub device_cap_flags: c_uint,
    pub max_sge: c_int,
    pub max_sge_rd: c_int,
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    pub max_qp_rd_atom: c_int,
    pub max_ee_rd_atom: c_int,
    pub max_res_rd_atom: c_int,
    pub max_qp_init_rd_atom: c_int,
    pub max_ee_init_rd_atom: c_int,
    pub atomic_cap: ibv_atomic_cap,
    pub max_ee: c_int,
    pub max_rdd: c_int,
    pub max_mw: c_int,
    pub max_raw_ipv6_qp: c_int,
    pub max_raw_ethy_qp: c_int,
    pub max_mcast_grp: c_int,
    pub max_mcast_qp_attach: c_int,
    pub max_total_mcast_qp_attach: c_int,
    pub max_ah: c_int,
    pub max_fmr: c_int,
    pub max_map_per_fmr: c_int,
    pub max_srq: c_int,
    pub max_srq_wr: c_int,
    pub max_srq_sge: c_int,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}
layout!(ibv_device_attr, 232, { fw_ver: 0, node_guid: 64, sys_image_guid: 72, max_mr_size: 80, page_size_cap: 88, vendor_id: 96, vendor_part_id: 100, hw_ver: 104, max_qp: 108, max_qp_wr: 112, device_cap_flags: 116, max_sge: 120, max_sge_rd: 124, max_cq: 128, max_cqe: 132, max_mr: 136, max_pd: 140, max_qp_rd_atom: 144, max_ee_rd_atom: 148, max_res_rd_atom: 152, max_qp_init_rd_atom: 156, max_ee_init_rd_atom: 160, atomic_cap: 164, max_ee: 168, max_rdd: 172, max_mw: 176, max_raw_ipv6_qp: 180, max_raw_ethy_qp: 184, max_mcast_grp: 188, max_mcast_qp_attach: 192, max_total_mcast_qp_attach: 196, max_ah: 200, max_fmr: 204, max_map_per_fmr: 208, max_srq: 212, max_srq_wr: 216, max_srq_sge: 220, max_pkeys: 224, local_ca_ack_delay: 226, phys_port_cnt: 227 });

/// `struct ibv_query_device_ex_input`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_query_device_ex_input {
    pub comp_mask: u32,
}
layout!(ibv_query_device_ex_input, 4, { comp_mask: 0 });

/// `enum ibv_odp_transport_cap_bits`.
pub type ibv_odp_transport_cap_bits = c_uint;
pub const IBV_ODP_SUPPORT_SEND: ibv_odp_transport_cap_bits = 1;
pub const IBV_ODP_SUPPORT_RECV: ibv_odp_transport_cap_bits = 2;
pub const IBV_ODP_SUPPORT_WRITE: ibv_odp_transport_cap_bits = 4;
pub const IBV_ODP_SUPPORT_READ: ibv_odp_transport_cap_bits = 8;
pub const IBV_ODP_SUPPORT_ATOMIC: ibv_odp_transport_cap_bits = 0x10;
pub const IBV_ODP_SUPPORT_SRQ_RECV: ibv_odp_transport_cap_bits = 0x20;
pub const IBV_ODP_SUPPORT_FLUSH: ibv_odp_transport_cap_bits = 0x40;
pub const IBV_ODP_SUPPORT_ATOMIC_WRITE: ibv_odp_transport_cap_bits = 0x80;

/// Unnamed struct inside the struct of that name.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct ibv_odp_caps_per_transport_caps {
    pub rc_odp_caps: u32,
    pub uc_odp_caps: u32,
    pub ud_odp_caps: u32,
}
layout!(ibv_odp_caps_per_transport_caps, 12, { rc_odp_caps: 0, uc_odp_caps: 4, ud_odp_caps: 8 });

/// `struct ibv_odp_caps`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct ibv_odp_caps {
    pub general_caps: u64,
    pub per_transport_caps: ibv_odp_caps_per_transport_caps,
}
layout!(ibv_odp_caps, 24, { general_caps: 0, per_transport_caps: 8 });

/// `enum ibv_odp_general_caps`.
pub type ibv_odp_general_caps = c_uint;
pub const IBV_ODP_SUPPORT: ibv_odp_general_caps = 1;
pub const IBV_ODP_SUPPORT_IMPLICIT: ibv_odp_general_caps = 2;

/// `struct ibv_tso_caps`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct ibv_tso_caps {
    pub max_tso: u32,
    pub supported_qpts: u32,
}
layout!(ibv_tso_caps, 8, { max_tso: 0, supported_qpts: 4 });

/// `enum ibv_rx_hash_function_flags`.
pub type ibv_rx_hash_function_flags = c_uint;
pub const IBV_RX_HASH_FUNC_TOEPLITZ: ibv_rx_hash_function_flags = 1;

/// `enum ibv_rx_hash_fields`.
pub type ibv_rx_hash_fields = c_uint;
pub const IBV_RX_HASH_SRC_IPV4: ibv_rx_hash_fields = 1;
pub const IBV_RX_HASH_DST_IPV4: ibv_rx_hash_fields = 2;
pub const IBV_RX_HASH_SRC_IPV6: ibv_rx_hash_fields = 4;
pub const IBV_RX_HASH_DST_IPV6: ibv_rx_hash_fields = 8;
pub const IBV_RX_HASH_SRC_PORT_TCP: ibv_rx_hash_fields = 0x10;
pub const IBV_RX_HASH_DST_PORT_TCP: ibv_rx_hash_fields = 0x20;
pub const IBV_RX_HASH_SRC_PORT_UDP: ibv_rx_hash_fields = 0x40;
pub const IBV_RX_HASH_DST_PORT_UDP: ibv_rx_hash_fields = 0x80;
pub const IBV_RX_HASH_IPSEC_SPI: ibv_rx_hash_fields = 0x100;
pub const IBV_RX_HASH_INNER: ibv_rx_hash_fields = 0x80000000;

/// `struct ibv_rss_caps`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct ibv_rss_caps {
    pub supported_qpts: u32,
    pub max_rwq_indirection_tables: u32,
    pub max_rwq_indirection_table_size: u32,
    pub rx_hash_fields_mask: u64,
    pub rx_hash_function: u8,
}
layout!(ibv_rss_caps, 32, { supported_qpts: 0, max_rwq_indirection_tables: 4, max_rwq_indirection_table_size: 8, rx_hash_fields_mask: 16, rx_hash_function: 24 });

/// `struct ibv_packet_pacing_caps`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct ibv_packet_pacing_caps {
    pub qp_rate_limit_min: u32,
    pub qp_rate_limit_max: u32,
    pub supported_qpts: u32,
}
layout!(ibv_packet_pacing_caps, 12, { qp_rate_limit_min: 0, qp_rate_limit_max: 4, supported_qpts: 8 });

/// `enum ibv_raw_packet_caps`.
pub type ibv_raw_packet_caps = c_uint;
pub const IBV_RAW_PACKET_CAP_CVLAN_STRIPPING: ibv_raw_packet_caps = 1;
pub const IBV_RAW_PACKET_CAP_SCATTER_FCS: ibv_raw_packet_caps = 2;
pub const IBV_RAW_PACKET_CAP_IP_CSUM: ibv_raw_packet_caps = 4;
pub const IBV_RAW_PACKET_CAP_DELAY_DROP: ibv_raw_packet_caps = 8;

/// `enum ibv_tm_cap_flags`.
pub type ibv_tm_cap_flags = c_uint;
pub const IBV_TM_CAP_RC: ibv_tm_cap_flags = 1;

/// `struct ibv_tm_caps`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct ibv_tm_caps {
    pub max_rndv_hdr_size: u32,
    pub max_num_tags: u32,
    pub flags: u32,
    pub max_ops: u32,
    pub max_sge: u32,
}
layout!(ibv_tm_caps, 20, { max_rndv_hdr_size: 0, max_num_tags: 4, flags: 8, max_ops: 12, max_sge: 16 });

/// `struct ibv_cq_moderation_caps`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct ibv_cq_moderation_caps {
    pub max_cq_count: u16,
    pub max_cq_period: u16,
}
layout!(ibv_cq_moderation_caps, 4, { max_cq_count: 0, max_cq_period: 2 });

/// `enum ibv_pci_atomic_op_size`.
pub type ibv_pci_atomic_op_size = c_uint;
pub const IBV_PCI_ATOMIC_OPERATION_4_BYTE_SIZE_SUP: ibv_pci_atomic_op_size = 1;
pub const IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP: ibv_pci_atomic_op_size = 2;
pub const IBV_PCI_ATOMIC_OPERATION_16_BYTE_SIZE_SUP: ibv_pci_atomic_op_size = 4;

/// `struct ibv_pci_atomic_caps`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct ibv_pci_atomic_caps {
    pub fetch_add: u16,
    pub swap: u16,
    pub compare_swap: u16,
}
layout!(ibv_pci_atomic_caps, 6, { fetch_add: 0, swap: 2, compare_swap: 4 });

/// `struct ibv_device_attr_ex`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct ibv_device_attr_ex {
    pub orig_attr: ibv_device_attr,
    pub comp_mask: u32,
    pub odp_caps: ibv_odp_caps,
    pub completion_timestamp_mask: u64,
    pub hca_core_clock: u64,
    pub device_cap_flags_ex: u64,
    pub tso_caps: ibv_tso_caps,
    pub rss_caps: ibv_rss_caps,
    pub max_wq_type_rq: u32,
    pub packet_pacing_caps: ibv_packet_pacing_caps,
    pub raw_packet_caps: u32,
    pub tm_caps: ibv_tm_caps,
    pub cq_mod_caps: ibv_cq_moderation_caps,
    pub max_dm_size: u64,
    pub pci_atomic_caps: ibv_pci_atomic_caps,
    pub xrc_odp_caps: u32,
    pub phys_port_cnt_ex: u32,
}
layout!(ibv_device_attr_ex, 400, { orig_attr: 0, comp_mask: 232, odp_caps: 240, completion_timestamp_mask: 264, hca_core_clock: 272, device_cap_flags_ex: 280, tso_caps: 288, rss_caps: 296, max_wq_type_rq: 328, packet_pacing_caps: 332, raw_packet_caps: 344, tm_caps: 348, cq_mod_caps: 368, max_dm_size: 376, pci_atomic_caps: 384, xrc_odp_caps: 392, phys_port_cnt_ex: 396 });

/// `enum ibv_values_mask`.
pub type ibv_values_mask = c_uint;
pub const IBV_VALUES_MASK_RAW_CLOCK: ibv_values_mask = 1;
pub const IBV_VALUES_MASK_RESERVED: ibv_values_mask = 2;

/// `struct ibv_values_ex`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_values_ex {
    pub comp_mask: u32,
    pub raw_clock: libc::timespec,
}
layout!(ibv_values_ex, 24, { comp_mask: 0, raw_clock: 8 });

impl ibv_gid {
    /// The sixteen bytes, in network order.
    pub fn bytes(&self) -> [u8; 16] {
        // SAFETY: both members are plain bytes of the same size; any value is valid.
        unsafe { self.raw }
    }
}
