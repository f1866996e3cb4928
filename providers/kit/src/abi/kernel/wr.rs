//! Work requests posted through the kernel: structs and constants of the kernel ABI
//! (linux-libc-dev, `rdma/ib_user_verbs.h` and its neighbours).
#![allow(missing_docs)] // names are those of the kernel header

use super::prelude::*;

/// `struct ib_uverbs_sge`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}
layout!(ib_uverbs_sge, 16, { addr: 0, length: 8, lkey: 12 });

/// `enum ib_uverbs_wr_opcode`.
pub type ib_uverbs_wr_opcode = c_uint;
pub const IB_UVERBS_WR_RDMA_WRITE: ib_uverbs_wr_opcode = 0;
pub const IB_UVERBS_WR_RDMA_WRITE_WITH_IMM: ib_uverbs_wr_opcode = 1;
pub const IB_UVERBS_WR_SEND: ib_uverbs_wr_opcode = 2;
pub const IB_UVERBS_WR_SEND_WITH_IMM: ib_uverbs_wr_opcode = 3;
pub const IB_UVERBS_WR_RDMA_READ: ib_uverbs_wr_opcode = 4;
pub const IB_UVERBS_WR_ATOMIC_CMP_AND_SWP: ib_uverbs_wr_opcode = 5;
pub const IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD: ib_uverbs_wr_opcode = 6;
pub const IB_UVERBS_WR_LOCAL_INV: ib_uverbs_wr_opcode = 7;
pub const IB_UVERBS_WR_BIND_MW: ib_uverbs_wr_opcode = 8;
pub const IB_UVERBS_WR_SEND_WITH_INV: ib_uverbs_wr_opcode = 9;
pub const IB_UVERBS_WR_TSO: ib_uverbs_wr_opcode = 10;
pub const IB_UVERBS_WR_RDMA_READ_WITH_INV: ib_uverbs_wr_opcode = 11;
pub const IB_UVERBS_WR_MASKED_ATOMIC_CMP_AND_SWP: ib_uverbs_wr_opcode = 12;
pub const IB_UVERBS_WR_MASKED_ATOMIC_FETCH_AND_ADD: ib_uverbs_wr_opcode = 13;
pub const IB_UVERBS_WR_ATOMIC_WRITE: ib_uverbs_wr_opcode = 15;

/// `struct ib_uverbs_send_wr`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_send_wr {
    pub wr_id: u64,
    pub num_sge: u32,
    pub opcode: u32,
    pub send_flags: u32,
    /// Immediate data in network byte order, or the rkey to invalidate.
    pub ex: u32,
    /// By opcode: rdma {addr, rkey}, atomic {addr, compare_add, swap, rkey}, ud {ah, qpn, qkey}.
    pub wr: [u64; 4],
}
layout!(ib_uverbs_send_wr, 56, { wr_id: 0, num_sge: 8, opcode: 12, send_flags: 16, ex: 20, wr: 24 });

/// `struct ib_uverbs_post_send`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_post_send {
    pub response: u64,
    pub qp_handle: u32,
    pub wr_count: u32,
    pub sge_count: u32,
    pub wqe_size: u32,
}
layout!(ib_uverbs_post_send, 24, { response: 0, qp_handle: 8, wr_count: 12, sge_count: 16, wqe_size: 20 });

/// `struct ib_uverbs_post_send_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_post_send_resp {
    pub bad_wr: u32,
}
layout!(ib_uverbs_post_send_resp, 4, { bad_wr: 0 });

/// `struct ib_uverbs_recv_wr`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_recv_wr {
    pub wr_id: u64,
    pub num_sge: u32,
    pub reserved: u32,
}
layout!(ib_uverbs_recv_wr, 16, { wr_id: 0, num_sge: 8, reserved: 12 });

/// `struct ib_uverbs_post_recv`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_post_recv {
    pub response: u64,
    pub qp_handle: u32,
    pub wr_count: u32,
    pub sge_count: u32,
    pub wqe_size: u32,
}
layout!(ib_uverbs_post_recv, 24, { response: 0, qp_handle: 8, wr_count: 12, sge_count: 16, wqe_size: 20 });

/// `struct ib_uverbs_post_recv_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_post_recv_resp {
    pub bad_wr: u32,
}
layout!(ib_uverbs_post_recv_resp, 4, { bad_wr: 0 });
