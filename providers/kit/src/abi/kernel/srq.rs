//! Shared receive queues: structs and constants of the kernel ABI (linux-libc-dev,
//! `rdma/ib_user_verbs.h` and its neighbours).
#![allow(missing_docs)] // names are those of the kernel header

use super::prelude::*;

/// `struct ib_uverbs_post_srq_recv`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_post_srq_recv {
    pub response: u64,
    pub srq_handle: u32,
    pub wr_count: u32,
    pub sge_count: u32,
    pub wqe_size: u32,
}
layout!(ib_uverbs_post_srq_recv, 24, { response: 0, srq_handle: 8, wr_count: 12, sge_count: 16, wqe_size: 20 });

/// `struct ib_uverbs_post_srq_recv_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_post_srq_recv_resp {
    pub bad_wr: u32,
}
layout!(ib_uverbs_post_srq_recv_resp, 4, { bad_wr: 0 });

/// `struct ib_uverbs_create_srq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_create_srq {
    pub response: u64,
    pub user_handle: u64,
    pub pd_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}
layout!(ib_uverbs_create_srq, 32, { response: 0, user_handle: 8, pd_handle: 16, max_wr: 20, max_sge: 24, srq_limit: 28 });

/// `struct ib_uverbs_create_xsrq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_create_xsrq {
    pub response: u64,
    pub user_handle: u64,
    pub srq_type: u32,
    pub pd_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
    pub max_num_tags: u32,
    pub xrcd_handle: u32,
    pub cq_handle: u32,
}
layout!(ib_uverbs_create_xsrq, 48, { response: 0, user_handle: 8, srq_type: 16, pd_handle: 20, max_wr: 24, max_sge: 28, srq_limit: 32, max_num_tags: 36, xrcd_handle: 40, cq_handle: 44 });

/// `struct ib_uverbs_create_srq_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_create_srq_resp {
    pub srq_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srqn: u32,
}
layout!(ib_uverbs_create_srq_resp, 16, { srq_handle: 0, max_wr: 4, max_sge: 8, srqn: 12 });

/// `struct ib_uverbs_modify_srq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_modify_srq {
    pub srq_handle: u32,
    pub attr_mask: u32,
    pub max_wr: u32,
    pub srq_limit: u32,
}
layout!(ib_uverbs_modify_srq, 16, { srq_handle: 0, attr_mask: 4, max_wr: 8, srq_limit: 12 });

/// `struct ib_uverbs_query_srq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_query_srq {
    pub response: u64,
    pub srq_handle: u32,
    pub reserved: u32,
}
layout!(ib_uverbs_query_srq, 16, { response: 0, srq_handle: 8, reserved: 12 });

/// `struct ib_uverbs_query_srq_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_query_srq_resp {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
    pub reserved: u32,
}
layout!(ib_uverbs_query_srq_resp, 16, { max_wr: 0, max_sge: 4, srq_limit: 8, reserved: 12 });

/// `struct ib_uverbs_destroy_srq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_destroy_srq {
    pub response: u64,
    pub srq_handle: u32,
    pub reserved: u32,
}
layout!(ib_uverbs_destroy_srq, 16, { response: 0, srq_handle: 8, reserved: 12 });

/// `struct ib_uverbs_destroy_srq_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_destroy_srq_resp {
    pub events_reported: u32,
}
layout!(ib_uverbs_destroy_srq_resp, 4, { events_reported: 0 });

/// `enum ib_uverbs_srq_type`.
pub type ib_uverbs_srq_type = c_uint;
pub const IB_UVERBS_SRQT_BASIC: ib_uverbs_srq_type = 0;
pub const IB_UVERBS_SRQT_XRC: ib_uverbs_srq_type = 1;
pub const IB_UVERBS_SRQT_TM: ib_uverbs_srq_type = 2;
