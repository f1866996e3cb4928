//! Flow steering: ibv_create_flow(3), ibv_create_flow_action(3).
#![allow(missing_docs)] // member names are those of the C API; the man pages named above explain them

use super::prelude::*;

/// `enum ibv_flow_flags`.
pub type ibv_flow_flags = c_uint;
pub const IBV_FLOW_ATTR_FLAGS_DONT_TRAP: ibv_flow_flags = 2;
pub const IBV_FLOW_ATTR_FLAGS_EGRESS: ibv_flow_flags = 4;

/// `enum ibv_flow_attr_type`.
pub type ibv_flow_attr_type = c_uint;
pub const IBV_FLOW_ATTR_NORMAL: ibv_flow_attr_type = 0;
pub const IBV_FLOW_ATTR_ALL_DEFAULT: ibv_flow_attr_type = 1;
pub const IBV_FLOW_ATTR_MC_DEFAULT: ibv_flow_attr_type = 2;
pub const IBV_FLOW_ATTR_SNIFFER: ibv_flow_attr_type = 3;

/// `enum ibv_flow_spec_type`.
pub type ibv_flow_spec_type = c_uint;
pub const IBV_FLOW_SPEC_ETH: ibv_flow_spec_type = 0x20;
pub const IBV_FLOW_SPEC_IPV4: ibv_flow_spec_type = 48;
pub const IBV_FLOW_SPEC_IPV6: ibv_flow_spec_type = 49;
pub const IBV_FLOW_SPEC_IPV4_EXT: ibv_flow_spec_type = 50;
pub const IBV_FLOW_SPEC_ESP: ibv_flow_spec_type = 52;
pub const IBV_FLOW_SPEC_TCP: ibv_flow_spec_type = 0x40;
pub const IBV_FLOW_SPEC_UDP: ibv_flow_spec_type = 65;
pub const IBV_FLOW_SPEC_VXLAN_TUNNEL: ibv_flow_spec_type = 80;
pub const IBV_FLOW_SPEC_GRE: ibv_flow_spec_type = 81;
pub const IBV_FLOW_SPEC_MPLS: ibv_flow_spec_type = 96;
pub const IBV_FLOW_SPEC_INNER: ibv_flow_spec_type = 0x100;
pub const IBV_FLOW_SPEC_ACTION_TAG: ibv_flow_spec_type = 0x1000;
pub const IBV_FLOW_SPEC_ACTION_DROP: ibv_flow_spec_type = 4097;
pub const IBV_FLOW_SPEC_ACTION_HANDLE: ibv_flow_spec_type = 4098;
pub const IBV_FLOW_SPEC_ACTION_COUNT: ibv_flow_spec_type = 4099;

/// `struct ibv_flow_eth_filter`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_eth_filter {
    pub dst_mac: [u8; 6],
    pub src_mac: [u8; 6],
    pub ether_type: u16,
    pub vlan_tag: u16,
}
layout!(ibv_flow_eth_filter, 16, { dst_mac: 0, src_mac: 6, ether_type: 12, vlan_tag: 14 });

/// `struct ibv_flow_spec_eth`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_spec_eth {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_eth_filter,
    pub mask: ibv_flow_eth_filter,
}
layout!(ibv_flow_spec_eth, 40, { type_: 0, size: 4, val: 6, mask: 22 });

/// `struct ibv_flow_ipv4_filter`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_ipv4_filter {
    pub src_ip: u32,
    pub dst_ip: u32,
}
layout!(ibv_flow_ipv4_filter, 8, { src_ip: 0, dst_ip: 4 });

/// `struct ibv_flow_spec_ipv4`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_spec_ipv4 {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_ipv4_filter,
    pub mask: ibv_flow_ipv4_filter,
}
layout!(ibv_flow_spec_ipv4, 24, { type_: 0, size: 4, val: 8, mask: 16 });

/// `struct ibv_flow_ipv4_ext_filter`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_ipv4_ext_filter {
    pub src_ip: u32,
    pub dst_ip: u32,
    pub proto: u8,
    pub tos: u8,
    pub ttl: u8,
    pub flags: u8,
}
layout!(ibv_flow_ipv4_ext_filter, 12, { src_ip: 0, dst_ip: 4, proto: 8, tos: 9, ttl: 10, flags: 11 });

/// `struct ibv_flow_spec_ipv4_ext`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_spec_ipv4_ext {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_ipv4_ext_filter,
    pub mask: ibv_flow_ipv4_ext_filter,
}
layout!(ibv_flow_spec_ipv4_ext, 32, { type_: 0, size: 4, val: 8, mask: 20 });

/// `struct ibv_flow_ipv6_filter`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_ipv6_filter {
    pub src_ip: [u8; 16],
    pub dst_ip: [u8; 16],
    pub flow_label: u32,
    pub next_hdr: u8,
    pub traffic_class: u8,
    pub hop_limit: u8,
}
layout!(ibv_flow_ipv6_filter, 40, { src_ip: 0, dst_ip: 16, flow_label: 32, next_hdr: 36, traffic_class: 37, hop_limit: 38 });

/// `struct ibv_flow_spec_ipv6`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_spec_ipv6 {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_ipv6_filter,
    pub mask: ibv_flow_ipv6_filter,
}
layout!(ibv_flow_spec_ipv6, 88, { type_: 0, size: 4, val: 8, mask: 48 });

/// `struct ibv_flow_esp_filter`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_esp_filter {
    pub spi: u32,
    pub seq: u32,
}
layout!(ibv_flow_esp_filter, 8, { spi: 0, seq: 4 });

/// `struct ibv_flow_spec_esp`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_spec_esp {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_esp_filter,
    pub mask: ibv_flow_esp_filter,
}
layout!(ibv_flow_spec_esp, 24, { type_: 0, size: 4, val: 8, mask: 16 });

/// `struct ibv_flow_tcp_udp_filter`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_tcp_udp_filter {
    pub dst_port: u16,
    pub src_port: u16,
}
layout!(ibv_flow_tcp_udp_filter, 4, { dst_port: 0, src_port: 2 });

/// `struct ibv_flow_spec_tcp_udp`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_spec_tcp_udp {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_tcp_udp_filter,
    pub mask: ibv_flow_tcp_udp_filter,
}
layout!(ibv_flow_spec_tcp_udp, 16, { type_: 0, size: 4, val: 6, mask: 10 });

/// `struct ibv_flow_gre_filter`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_gre_filter {
    pub c_ks_res0_ver: u16,
    pub protocol: u16,
    pub key: u32,
}
layout!(ibv_flow_gre_filter, 8, { c_ks_res0_ver: 0, protocol: 2, key: 4 });

/// `struct ibv_flow_spec_gre`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_spec_gre {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_gre_filter,
    pub mask: ibv_flow_gre_filter,
}
layout!(ibv_flow_spec_gre, 24, { type_: 0, size: 4, val: 8, mask: 16 });

/// `struct ibv_flow_mpls_filter`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_mpls_filter {
    pub label: u32,
}
layout!(ibv_flow_mpls_filter, 4, { label: 0 });

/// `struct ibv_flow_spec_mpls`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_spec_mpls {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_mpls_filter,
    pub mask: ibv_flow_mpls_filter,
}
layout!(ibv_flow_spec_mpls, 16, { type_: 0, size: 4, val: 8, mask: 12 });

/// `struct ibv_flow_tunnel_filter`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_tunnel_filter {
    pub tunnel_id: u32,
}
layout!(ibv_flow_tunnel_filter, 4, { tunnel_id: 0 });

/// `struct ibv_flow_spec_tunnel`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_spec_tunnel {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_tunnel_filter,
    pub mask: ibv_flow_tunnel_filter,
}
layout!(ibv_flow_spec_tunnel, 16, { type_: 0, size: 4, val: 8, mask: 12 });

/// `struct ibv_flow_spec_action_tag`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_spec_action_tag {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub tag_id: u32,
}
layout!(ibv_flow_spec_action_tag, 12, { type_: 0, size: 4, tag_id: 8 });

/// `struct ibv_flow_spec_action_drop`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_spec_action_drop {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
}
layout!(ibv_flow_spec_action_drop, 8, { type_: 0, size: 4 });

/// `struct ibv_flow_spec_action_handle`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_spec_action_handle {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub action: *const ibv_flow_action,
}
layout!(ibv_flow_spec_action_handle, 16, { type_: 0, size: 4, action: 8 });

/// `struct ibv_flow_action`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_action {
    pub context: *mut ibv_context,
}
layout!(ibv_flow_action, 8, { context: 0 });

/// `struct ibv_flow_spec_counter_action`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_spec_counter_action {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub counters: *mut ibv_counters,
}
layout!(ibv_flow_spec_counter_action, 16, { type_: 0, size: 4, counters: 8 });

/// Unnamed struct inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_spec_u0_hdr {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
}
layout!(ibv_flow_spec_u0_hdr, 8, { type_: 0, size: 4 });

/// Unnamed union inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub union ibv_flow_spec_u0 {
    pub hdr: ibv_flow_spec_u0_hdr,
    pub eth: ibv_flow_spec_eth,
    pub ipv4: ibv_flow_spec_ipv4,
    pub tcp_udp: ibv_flow_spec_tcp_udp,
    pub ipv4_ext: ibv_flow_spec_ipv4_ext,
    pub ipv6: ibv_flow_spec_ipv6,
    pub esp: ibv_flow_spec_esp,
    pub tunnel: ibv_flow_spec_tunnel,
    pub gre: ibv_flow_spec_gre,
    pub mpls: ibv_flow_spec_mpls,
    pub flow_tag: ibv_flow_spec_action_tag,
    pub drop: ibv_flow_spec_action_drop,
    pub handle: ibv_flow_spec_action_handle,
    pub flow_count: ibv_flow_spec_counter_action,
}
layout!(ibv_flow_spec_u0, 88, { hdr: 0, eth: 0, ipv4: 0, tcp_udp: 0, ipv4_ext: 0, ipv6: 0, esp: 0, tunnel: 0, gre: 0, mpls: 0, flow_tag: 0, drop: 0, handle: 0, flow_count: 0 });

/// `struct ibv_flow_spec`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_spec {
    pub u0: ibv_flow_spec_u0,
}
layout!(ibv_flow_spec, 88, { u0: 0 });

/// `struct ibv_flow_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_attr {
    pub comp_mask: u32,
    pub type_: ibv_flow_attr_type,
    pub size: u16,
    pub priority: u16,
    pub num_of_specs: u8,
    pub port: u8,
    pub flags: u32,
}
layout!(ibv_flow_attr, 20, { comp_mask: 0, type_: 4, size: 8, priority: 10, num_of_specs: 12, port: 13, flags: 16 });

/// `struct ibv_flow`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow {
    pub comp_mask: u32,
    pub context: *mut ibv_context,
    pub handle: u32,
}
layout!(ibv_flow, 24, { comp_mask: 0, context: 8, handle: 16 });

/// `enum ibv_flow_action_esp_mask`.
pub type ibv_flow_action_esp_mask = c_uint;
pub const IBV_FLOW_ACTION_ESP_MASK_ESN: ibv_flow_action_esp_mask = 1;

/// `struct ibv_flow_action_esp_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_flow_action_esp_attr {
    pub esp_attr: *mut ib_uverbs_flow_action_esp,
    pub keymat_proto: ib_uverbs_flow_action_esp_keymat,
    pub keymat_len: u16,
    pub keymat_ptr: *mut c_void,
    pub replay_proto: ib_uverbs_flow_action_esp_replay,
    pub replay_len: u16,
    pub replay_ptr: *mut c_void,
    pub esp_encap: *mut ib_uverbs_flow_action_esp_encap,
    pub comp_mask: u32,
    pub esn: u32,
}
layout!(ibv_flow_action_esp_attr, 56, { esp_attr: 0, keymat_proto: 8, keymat_len: 12, keymat_ptr: 16, replay_proto: 24, replay_len: 28, replay_ptr: 32, esp_encap: 40, comp_mask: 48, esn: 52 });

/// `enum ibv_flow_action_type`.
pub type ibv_flow_action_type = c_uint;
pub const IBV_FLOW_ACTION_UNSPECIFIED: ibv_flow_action_type = 0;
pub const IBV_FLOW_ACTION_ESP: ibv_flow_action_type = 1;

/// `struct verbs_flow_action`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct verbs_flow_action {
    pub action: ibv_flow_action,
    pub handle: u32,
    pub type_: ibv_flow_action_type,
}
layout!(verbs_flow_action, 16, { action: 0, handle: 8, type_: 12 });
