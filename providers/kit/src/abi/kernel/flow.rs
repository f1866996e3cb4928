//! Flow steering: structs and constants of the kernel ABI (linux-libc-dev, `rdma/ib_user_verbs.h`
//! and its neighbours).
#![allow(missing_docs)] // names are those of the kernel header

use super::prelude::*;

/// `struct ib_uverbs_flow_spec_hdr`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_flow_spec_hdr {
    pub type_: u32,
    pub size: u16,
    pub reserved: u16,
}
layout!(ib_uverbs_flow_spec_hdr, 8, { type_: 0, size: 4, reserved: 6 });

/// `struct ib_uverbs_flow_eth_filter`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_flow_eth_filter {
    pub dst_mac: [u8; 6],
    pub src_mac: [u8; 6],
    pub ether_type: be16,
    pub vlan_tag: be16,
}
layout!(ib_uverbs_flow_eth_filter, 16, { dst_mac: 0, src_mac: 6, ether_type: 12, vlan_tag: 14 });

/// `struct ib_uverbs_flow_spec_eth`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_flow_spec_eth {
    pub type_: u32,
    pub size: u16,
    pub reserved: u16,
    pub val: ib_uverbs_flow_eth_filter,
    pub mask: ib_uverbs_flow_eth_filter,
}
layout!(ib_uverbs_flow_spec_eth, 40, { type_: 0, size: 4, reserved: 6, val: 8, mask: 24 });

/// `struct ib_uverbs_flow_ipv4_filter`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_flow_ipv4_filter {
    pub src_ip: be32,
    pub dst_ip: be32,
    pub proto: u8,
    pub tos: u8,
    pub ttl: u8,
    pub flags: u8,
}
layout!(ib_uverbs_flow_ipv4_filter, 12, { src_ip: 0, dst_ip: 4, proto: 8, tos: 9, ttl: 10, flags: 11 });

/// `struct ib_uverbs_flow_spec_ipv4`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_flow_spec_ipv4 {
    pub type_: u32,
    pub size: u16,
    pub reserved: u16,
    pub val: ib_uverbs_flow_ipv4_filter,
    pub mask: ib_uverbs_flow_ipv4_filter,
}
layout!(ib_uverbs_flow_spec_ipv4, 32, { type_: 0, size: 4, reserved: 6, val: 8, mask: 20 });

/// `struct ib_uverbs_flow_tcp_udp_filter`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_flow_tcp_udp_filter {
    pub dst_port: be16,
    pub src_port: be16,
}
layout!(ib_uverbs_flow_tcp_udp_filter, 4, { dst_port: 0, src_port: 2 });

/// `struct ib_uverbs_flow_spec_tcp_udp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_flow_spec_tcp_udp {
    pub type_: u32,
    pub size: u16,
    pub reserved: u16,
    pub val: ib_uverbs_flow_tcp_udp_filter,
    pub mask: ib_uverbs_flow_tcp_udp_filter,
}
layout!(ib_uverbs_flow_spec_tcp_udp, 16, { type_: 0, size: 4, reserved: 6, val: 8, mask: 12 });

/// `struct ib_uverbs_flow_ipv6_filter`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_flow_ipv6_filter {
    pub src_ip: [u8; 16],
    pub dst_ip: [u8; 16],
    pub flow_label: be32,
    pub next_hdr: u8,
    pub traffic_class: u8,
    pub hop_limit: u8,
    pub reserved: u8,
}
layout!(ib_uverbs_flow_ipv6_filter, 40, { src_ip: 0, dst_ip: 16, flow_label: 32, next_hdr: 36, traffic_class: 37, hop_limit: 38, reserved: 39 });

/// `struct ib_uverbs_flow_spec_ipv6`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_flow_spec_ipv6 {
    pub type_: u32,
    pub size: u16,
    pub reserved: u16,
    pub val: ib_uverbs_flow_ipv6_filter,
    pub mask: ib_uverbs_flow_ipv6_filter,
}
layout!(ib_uverbs_flow_spec_ipv6, 88, { type_: 0, size: 4, reserved: 6, val: 8, mask: 48 });

/// `struct ib_uverbs_flow_spec_action_tag`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_flow_spec_action_tag {
    pub type_: u32,
    pub size: u16,
    pub reserved: u16,
    pub tag_id: u32,
    pub reserved1: u32,
}
layout!(ib_uverbs_flow_spec_action_tag, 16, { type_: 0, size: 4, reserved: 6, tag_id: 8, reserved1: 12 });

/// `struct ib_uverbs_flow_spec_action_drop`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_flow_spec_action_drop {
    pub type_: u32,
    pub size: u16,
    pub reserved: u16,
}
layout!(ib_uverbs_flow_spec_action_drop, 8, { type_: 0, size: 4, reserved: 6 });

/// `struct ib_uverbs_flow_spec_action_handle`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_flow_spec_action_handle {
    pub type_: u32,
    pub size: u16,
    pub reserved: u16,
    pub handle: u32,
    pub reserved1: u32,
}
layout!(ib_uverbs_flow_spec_action_handle, 16, { type_: 0, size: 4, reserved: 6, handle: 8, reserved1: 12 });

/// `struct ib_uverbs_flow_spec_action_count`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_flow_spec_action_count {
    pub type_: u32,
    pub size: u16,
    pub reserved: u16,
    pub handle: u32,
    pub reserved1: u32,
}
layout!(ib_uverbs_flow_spec_action_count, 16, { type_: 0, size: 4, reserved: 6, handle: 8, reserved1: 12 });

/// `struct ib_uverbs_flow_tunnel_filter`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_flow_tunnel_filter {
    pub tunnel_id: be32,
}
layout!(ib_uverbs_flow_tunnel_filter, 4, { tunnel_id: 0 });

/// `struct ib_uverbs_flow_spec_tunnel`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_flow_spec_tunnel {
    pub type_: u32,
    pub size: u16,
    pub reserved: u16,
    pub val: ib_uverbs_flow_tunnel_filter,
    pub mask: ib_uverbs_flow_tunnel_filter,
}
layout!(ib_uverbs_flow_spec_tunnel, 16, { type_: 0, size: 4, reserved: 6, val: 8, mask: 12 });

/// `struct ib_uverbs_flow_spec_esp_filter`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_flow_spec_esp_filter {
    pub spi: u32,
    pub seq: u32,
}
layout!(ib_uverbs_flow_spec_esp_filter, 8, { spi: 0, seq: 4 });

/// `struct ib_uverbs_flow_spec_esp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_flow_spec_esp {
    pub type_: u32,
    pub size: u16,
    pub reserved: u16,
    pub val: ib_uverbs_flow_spec_esp_filter,
    pub mask: ib_uverbs_flow_spec_esp_filter,
}
layout!(ib_uverbs_flow_spec_esp, 24, { type_: 0, size: 4, reserved: 6, val: 8, mask: 16 });

/// `struct ib_uverbs_flow_gre_filter`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_flow_gre_filter {
    pub c_ks_res0_ver: be16,
    pub protocol: be16,
    pub key: be32,
}
layout!(ib_uverbs_flow_gre_filter, 8, { c_ks_res0_ver: 0, protocol: 2, key: 4 });

/// `struct ib_uverbs_flow_spec_gre`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_flow_spec_gre {
    pub type_: u32,
    pub size: u16,
    pub reserved: u16,
    pub val: ib_uverbs_flow_gre_filter,
    pub mask: ib_uverbs_flow_gre_filter,
}
layout!(ib_uverbs_flow_spec_gre, 24, { type_: 0, size: 4, reserved: 6, val: 8, mask: 16 });

/// `struct ib_uverbs_flow_mpls_filter`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_flow_mpls_filter {
    pub label: be32,
}
layout!(ib_uverbs_flow_mpls_filter, 4, { label: 0 });

/// `struct ib_uverbs_flow_spec_mpls`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_flow_spec_mpls {
    pub type_: u32,
    pub size: u16,
    pub reserved: u16,
    pub val: ib_uverbs_flow_mpls_filter,
    pub mask: ib_uverbs_flow_mpls_filter,
}
layout!(ib_uverbs_flow_spec_mpls, 16, { type_: 0, size: 4, reserved: 6, val: 8, mask: 12 });

/// `struct ib_uverbs_flow_attr`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_flow_attr {
    pub type_: u32,
    pub size: u16,
    pub priority: u16,
    pub num_of_specs: u8,
    pub reserved: [u8; 2],
    pub port: u8,
    pub flags: u32,
}
layout!(ib_uverbs_flow_attr, 16, { type_: 0, size: 4, priority: 6, num_of_specs: 8, reserved: 9, port: 11, flags: 12 });

/// `struct ib_uverbs_create_flow`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_create_flow {
    pub comp_mask: u32,
    pub qp_handle: u32,
    pub flow_attr: ib_uverbs_flow_attr,
}
layout!(ib_uverbs_create_flow, 24, { comp_mask: 0, qp_handle: 4, flow_attr: 8 });

/// `struct ib_uverbs_create_flow_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_create_flow_resp {
    pub comp_mask: u32,
    pub flow_handle: u32,
}
layout!(ib_uverbs_create_flow_resp, 8, { comp_mask: 0, flow_handle: 4 });

/// `struct ib_uverbs_destroy_flow`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_destroy_flow {
    pub comp_mask: u32,
    pub flow_handle: u32,
}
layout!(ib_uverbs_destroy_flow, 8, { comp_mask: 0, flow_handle: 4 });

/// `enum ib_uverbs_flow_action_esp_keymat`.
pub type ib_uverbs_flow_action_esp_keymat = c_uint;
pub const IB_UVERBS_FLOW_ACTION_ESP_KEYMAT_AES_GCM: ib_uverbs_flow_action_esp_keymat = 0;

/// `enum ib_uverbs_flow_action_esp_keymat_aes_gcm_iv_algo`.
pub type ib_uverbs_flow_action_esp_keymat_aes_gcm_iv_algo = c_uint;
pub const IB_UVERBS_FLOW_ACTION_IV_ALGO_SEQ: ib_uverbs_flow_action_esp_keymat_aes_gcm_iv_algo = 0;

/// `struct ib_uverbs_flow_action_esp_keymat_aes_gcm`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_flow_action_esp_keymat_aes_gcm {
    pub iv: u64,
    pub iv_algo: u32,
    pub salt: u32,
    pub icv_len: u32,
    pub key_len: u32,
    pub aes_key: [u32; 8],
}
layout!(ib_uverbs_flow_action_esp_keymat_aes_gcm, 56, { iv: 0, iv_algo: 8, salt: 12, icv_len: 16, key_len: 20, aes_key: 24 });

/// `enum ib_uverbs_flow_action_esp_replay`.
pub type ib_uverbs_flow_action_esp_replay = c_uint;
pub const IB_UVERBS_FLOW_ACTION_ESP_REPLAY_NONE: ib_uverbs_flow_action_esp_replay = 0;
pub const IB_UVERBS_FLOW_ACTION_ESP_REPLAY_BMP: ib_uverbs_flow_action_esp_replay = 1;

/// `struct ib_uverbs_flow_action_esp_replay_bmp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_flow_action_esp_replay_bmp {
    pub size: u32,
}
layout!(ib_uverbs_flow_action_esp_replay_bmp, 4, { size: 0 });

/// `enum ib_uverbs_flow_action_esp_flags`.
pub type ib_uverbs_flow_action_esp_flags = c_uint;
pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_INLINE_CRYPTO: ib_uverbs_flow_action_esp_flags = 0;
pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD: ib_uverbs_flow_action_esp_flags = 1;
pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TUNNEL: ib_uverbs_flow_action_esp_flags = 0;
pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TRANSPORT: ib_uverbs_flow_action_esp_flags = 2;
pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_DECRYPT: ib_uverbs_flow_action_esp_flags = 0;
pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ENCRYPT: ib_uverbs_flow_action_esp_flags = 4;
pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW: ib_uverbs_flow_action_esp_flags = 8;

/// `struct ib_uverbs_flow_action_esp_encap`; the two pointers are kept as the addresses the kernel
/// reads.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_flow_action_esp_encap {
    /// Address of the inner header.
    pub val_ptr: u64,
    /// Address of the next element, 0 at the end of the list.
    pub next_ptr: u64,
    pub len: u16,
    pub type_: u16,
    pub padding: [u8; 4],
}
layout!(ib_uverbs_flow_action_esp_encap, 24, { val_ptr: 0, next_ptr: 8, len: 16, type_: 18 });

/// `struct ib_uverbs_flow_action_esp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_flow_action_esp {
    pub spi: u32,
    pub seq: u32,
    pub tfc_pad: u32,
    pub flags: u32,
    pub hard_limit_pkts: u64,
}
layout!(ib_uverbs_flow_action_esp, 24, { spi: 0, seq: 4, tfc_pad: 8, flags: 12, hard_limit_pkts: 16 });
