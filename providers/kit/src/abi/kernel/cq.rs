//! Completion queues: structs and constants of the kernel ABI (linux-libc-dev,
//! `rdma/ib_user_verbs.h` and its neighbours).
#![allow(missing_docs)] // names are those of the kernel header

use super::prelude::*;

/// `struct ib_uverbs_create_comp_channel`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_create_comp_channel {
    pub response: u64,
}
layout!(ib_uverbs_create_comp_channel, 8, { response: 0 });

/// `struct ib_uverbs_create_comp_channel_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_create_comp_channel_resp {
    pub fd: u32,
}
layout!(ib_uverbs_create_comp_channel_resp, 4, { fd: 0 });

/// `struct ib_uverbs_create_cq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_create_cq {
    pub response: u64,
    pub user_handle: u64,
    pub cqe: u32,
    pub comp_vector: u32,
    pub comp_channel: i32,
    pub reserved: u32,
}
layout!(ib_uverbs_create_cq, 32, { response: 0, user_handle: 8, cqe: 16, comp_vector: 20, comp_channel: 24, reserved: 28 });

/// `enum ib_uverbs_ex_create_cq_flags`.
pub type ib_uverbs_ex_create_cq_flags = c_uint;
pub const IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION: ib_uverbs_ex_create_cq_flags = 1;
pub const IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN: ib_uverbs_ex_create_cq_flags = 2;

/// `struct ib_uverbs_ex_create_cq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_ex_create_cq {
    pub user_handle: u64,
    pub cqe: u32,
    pub comp_vector: u32,
    pub comp_channel: i32,
    pub comp_mask: u32,
    pub flags: u32,
    pub reserved: u32,
}
layout!(ib_uverbs_ex_create_cq, 32, { user_handle: 0, cqe: 8, comp_vector: 12, comp_channel: 16, comp_mask: 20, flags: 24, reserved: 28 });

/// `struct ib_uverbs_create_cq_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_create_cq_resp {
    pub cq_handle: u32,
    pub cqe: u32,
}
layout!(ib_uverbs_create_cq_resp, 8, { cq_handle: 0, cqe: 4 });

/// `struct ib_uverbs_ex_create_cq_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_ex_create_cq_resp {
    pub base: ib_uverbs_create_cq_resp,
    pub comp_mask: u32,
    pub response_length: u32,
}
layout!(ib_uverbs_ex_create_cq_resp, 16, { base: 0, comp_mask: 8, response_length: 12 });

/// `struct ib_uverbs_resize_cq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_resize_cq {
    pub response: u64,
    pub cq_handle: u32,
    pub cqe: u32,
}
layout!(ib_uverbs_resize_cq, 16, { response: 0, cq_handle: 8, cqe: 12 });

/// `struct ib_uverbs_resize_cq_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_resize_cq_resp {
    pub cqe: u32,
    pub reserved: u32,
}
layout!(ib_uverbs_resize_cq_resp, 8, { cqe: 0, reserved: 4 });

/// `struct ib_uverbs_poll_cq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_poll_cq {
    pub response: u64,
    pub cq_handle: u32,
    pub ne: u32,
}
layout!(ib_uverbs_poll_cq, 16, { response: 0, cq_handle: 8, ne: 12 });

/// `enum ib_uverbs_wc_opcode`.
pub type ib_uverbs_wc_opcode = c_uint;
pub const IB_UVERBS_WC_SEND: ib_uverbs_wc_opcode = 0;
pub const IB_UVERBS_WC_RDMA_WRITE: ib_uverbs_wc_opcode = 1;
pub const IB_UVERBS_WC_RDMA_READ: ib_uverbs_wc_opcode = 2;
pub const IB_UVERBS_WC_COMP_SWAP: ib_uverbs_wc_opcode = 3;
pub const IB_UVERBS_WC_FETCH_ADD: ib_uverbs_wc_opcode = 4;
pub const IB_UVERBS_WC_BIND_MW: ib_uverbs_wc_opcode = 5;
pub const IB_UVERBS_WC_LOCAL_INV: ib_uverbs_wc_opcode = 6;
pub const IB_UVERBS_WC_TSO: ib_uverbs_wc_opcode = 7;
pub const IB_UVERBS_WC_ATOMIC_WRITE: ib_uverbs_wc_opcode = 9;

/// `struct ib_uverbs_wc`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_wc {
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    pub vendor_err: u32,
    pub byte_len: u32,
    /// Immediate data as it came off the wire, or the invalidated rkey.
    pub ex: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: u32,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
    pub port_num: u8,
    pub reserved: u8,
}
layout!(ib_uverbs_wc, 48, { wr_id: 0, status: 8, opcode: 12, vendor_err: 16, byte_len: 20, ex: 24, qp_num: 28, src_qp: 32, wc_flags: 36, pkey_index: 40, slid: 42, sl: 44, dlid_path_bits: 45, port_num: 46, reserved: 47 });

/// `struct ib_uverbs_poll_cq_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_poll_cq_resp {
    pub count: u32,
    pub reserved: u32,
}
layout!(ib_uverbs_poll_cq_resp, 8, { count: 0, reserved: 4 });

/// `struct ib_uverbs_req_notify_cq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_req_notify_cq {
    pub cq_handle: u32,
    pub solicited_only: u32,
}
layout!(ib_uverbs_req_notify_cq, 8, { cq_handle: 0, solicited_only: 4 });

/// `struct ib_uverbs_destroy_cq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_destroy_cq {
    pub response: u64,
    pub cq_handle: u32,
    pub reserved: u32,
}
layout!(ib_uverbs_destroy_cq, 16, { response: 0, cq_handle: 8, reserved: 12 });

/// `struct ib_uverbs_destroy_cq_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_destroy_cq_resp {
    pub comp_events_reported: u32,
    pub async_events_reported: u32,
}
layout!(ib_uverbs_destroy_cq_resp, 8, { comp_events_reported: 0, async_events_reported: 4 });

/// `struct ib_uverbs_cq_moderation`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_cq_moderation {
    pub cq_count: u16,
    pub cq_period: u16,
}
layout!(ib_uverbs_cq_moderation, 4, { cq_count: 0, cq_period: 2 });

/// `struct ib_uverbs_ex_modify_cq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_ex_modify_cq {
    pub cq_handle: u32,
    pub attr_mask: u32,
    pub attr: ib_uverbs_cq_moderation,
    pub reserved: u32,
}
layout!(ib_uverbs_ex_modify_cq, 16, { cq_handle: 0, attr_mask: 4, attr: 8, reserved: 12 });
