//! Address handles and multicast: structs and constants of the kernel ABI (linux-libc-dev,
//! `rdma/ib_user_verbs.h` and its neighbours).
#![allow(missing_docs)] // names are those of the kernel header

use super::prelude::*;

/// `struct ib_uverbs_global_route`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_global_route {
    pub dgid: [u8; 16],
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub reserved: u8,
}
layout!(ib_uverbs_global_route, 24, { dgid: 0, flow_label: 16, sgid_index: 20, hop_limit: 21, traffic_class: 22, reserved: 23 });

/// `struct ib_uverbs_ah_attr`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_ah_attr {
    pub grh: ib_uverbs_global_route,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
    pub reserved: u8,
}
layout!(ib_uverbs_ah_attr, 32, { grh: 0, dlid: 24, sl: 26, src_path_bits: 27, static_rate: 28, is_global: 29, port_num: 30, reserved: 31 });

/// `struct ib_uverbs_create_ah`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_create_ah {
    pub response: u64,
    pub user_handle: u64,
    pub pd_handle: u32,
    pub reserved: u32,
    pub attr: ib_uverbs_ah_attr,
}
layout!(ib_uverbs_create_ah, 56, { response: 0, user_handle: 8, pd_handle: 16, reserved: 20, attr: 24 });

/// `struct ib_uverbs_create_ah_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_create_ah_resp {
    pub ah_handle: u32,
}
layout!(ib_uverbs_create_ah_resp, 4, { ah_handle: 0 });

/// `struct ib_uverbs_destroy_ah`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_destroy_ah {
    pub ah_handle: u32,
}
layout!(ib_uverbs_destroy_ah, 4, { ah_handle: 0 });

/// `struct ib_uverbs_attach_mcast`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_attach_mcast {
    pub gid: [u8; 16],
    pub qp_handle: u32,
    pub mlid: u16,
    pub reserved: u16,
}
layout!(ib_uverbs_attach_mcast, 24, { gid: 0, qp_handle: 16, mlid: 20, reserved: 22 });

/// `struct ib_uverbs_detach_mcast`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_detach_mcast {
    pub gid: [u8; 16],
    pub qp_handle: u32,
    pub mlid: u16,
    pub reserved: u16,
}
layout!(ib_uverbs_detach_mcast, 24, { gid: 0, qp_handle: 16, mlid: 20, reserved: 22 });
