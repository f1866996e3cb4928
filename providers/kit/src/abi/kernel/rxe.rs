//! The user ABI of soft-RoCE's kernel driver (linux-libc-dev, `rdma/rdma_user_rxe.h`).
#![allow(missing_docs)] // names are those of the kernel header

use super::prelude::*;

/// `struct mminfo`: a queue to be mapped from the command descriptor.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct mminfo {
    pub offset: u64,
    pub size: u32,
    pub pad: u32,
}
layout!(mminfo, 16, { offset: 0, size: 8, pad: 12 });

/// `struct rxe_create_ah_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct rxe_create_ah_resp {
    pub ah_num: u32,
    pub reserved: u32,
}
layout!(rxe_create_ah_resp, 8, { ah_num: 0, reserved: 4 });

/// `struct rxe_create_cq_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct rxe_create_cq_resp {
    pub mi: mminfo,
}
layout!(rxe_create_cq_resp, 16, { mi: 0 });

/// `struct rxe_resize_cq_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct rxe_resize_cq_resp {
    pub mi: mminfo,
}
layout!(rxe_resize_cq_resp, 16, { mi: 0 });

/// `struct rxe_create_qp_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct rxe_create_qp_resp {
    pub rq_mi: mminfo,
    pub sq_mi: mminfo,
}
layout!(rxe_create_qp_resp, 32, { rq_mi: 0, sq_mi: 16 });

/// `struct rxe_create_srq_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct rxe_create_srq_resp {
    pub mi: mminfo,
    pub srq_num: u32,
    pub reserved: u32,
}
layout!(rxe_create_srq_resp, 24, { mi: 0, srq_num: 16, reserved: 20 });

/// `struct rxe_modify_srq_cmd`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct rxe_modify_srq_cmd {
    pub mmap_info_addr: u64,
}
layout!(rxe_modify_srq_cmd, 8, { mmap_info_addr: 0 });

/// `struct rxe_sge`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct rxe_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}
layout!(rxe_sge, 16, { addr: 0, length: 8, lkey: 12 });

/// `struct rxe_dma_info`; elements or inline data follow.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with elements in units of 8 bytes
pub struct rxe_dma_info {
    pub length: u32,
    pub resid: u32,
    pub cur_sge: u32,
    pub num_sge: u32,
    pub sge_offset: u32,
    pub reserved: u32,
}
layout!(rxe_dma_info, 24, { length: 0, resid: 4, cur_sge: 8, num_sge: 12, sge_offset: 16, reserved: 20 });

/// `struct rxe_send_wr`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct rxe_send_wr {
    pub wr_id: u64,
    pub reserved: u32,
    pub opcode: u32,
    pub send_flags: u32,
    /// Immediate data in network byte order, or the R_Key to invalidate.
    pub ex: u32,
    /// Operands of the opcode.
    pub wr: [u64; 15],
}
layout!(rxe_send_wr, 144, { wr_id: 0, reserved: 8, opcode: 12, send_flags: 16, ex: 20, wr: 24 });

/// `struct rxe_send_wqe`; elements or inline data follow.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct rxe_send_wqe {
    pub wr: rxe_send_wr,
    pub status: u32,
    pub state: u32,
    pub iova: u64,
    pub mask: u32,
    pub first_psn: u32,
    pub last_psn: u32,
    pub ack_length: u32,
    pub ssn: u32,
    pub has_rd_atomic: u32,
    pub dma: rxe_dma_info,
}
layout!(rxe_send_wqe, 208, { wr: 0, status: 144, state: 148, iova: 152, mask: 160, first_psn: 164, last_psn: 168, ack_length: 172, ssn: 176, has_rd_atomic: 180, dma: 184 });

/// `struct rxe_recv_wqe`; elements follow.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct rxe_recv_wqe {
    pub wr_id: u64,
    pub reserved: u32,
    pub padding: u32,
    pub dma: rxe_dma_info,
}
layout!(rxe_recv_wqe, 40, { wr_id: 0, reserved: 8, padding: 12, dma: 16 });

/// `struct rxe_queue_buf`; entries follow.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct rxe_queue_buf {
    pub log2_elem_size: u32,
    pub index_mask: u32,
    pub pad_1: [u32; 30],
    pub producer_index: u32,
    pub pad_2: [u32; 31],
    pub consumer_index: u32,
    pub pad_3: [u32; 31],
}
layout!(rxe_queue_buf, 384, { log2_elem_size: 0, index_mask: 4, pad_1: 8, producer_index: 128, pad_2: 132, consumer_index: 256, pad_3: 260 });
