//! Work requests: ibv_post_send(3), ibv_post_recv(3).
#![allow(missing_docs)] // member names are those of the C API; the man pages named above explain them

use super::prelude::*;

/// `enum ibv_wr_opcode`.
pub type ibv_wr_opcode = c_uint;
pub const IBV_WR_RDMA_WRITE: ibv_wr_opcode = 0;
pub const IBV_WR_RDMA_WRITE_WITH_IMM: ibv_wr_opcode = 1;
pub const IBV_WR_SEND: ibv_wr_opcode = 2;
pub const IBV_WR_SEND_WITH_IMM: ibv_wr_opcode = 3;
pub const IBV_WR_RDMA_READ: ibv_wr_opcode = 4;
pub const IBV_WR_ATOMIC_CMP_AND_SWP: ibv_wr_opcode = 5;
pub const IBV_WR_ATOMIC_FETCH_AND_ADD: ibv_wr_opcode = 6;
pub const IBV_WR_LOCAL_INV: ibv_wr_opcode = 7;
pub const IBV_WR_BIND_MW: ibv_wr_opcode = 8;
pub const IBV_WR_SEND_WITH_INV: ibv_wr_opcode = 9;
pub const IBV_WR_TSO: ibv_wr_opcode = 10;
pub const IBV_WR_DRIVER1: ibv_wr_opcode = 11;
pub const IBV_WR_FLUSH: ibv_wr_opcode = 14;
pub const IBV_WR_ATOMIC_WRITE: ibv_wr_opcode = 15;

/// `enum ibv_send_flags`.
pub type ibv_send_flags = c_uint;
pub const IBV_SEND_FENCE: ibv_send_flags = 1;
pub const IBV_SEND_SIGNALED: ibv_send_flags = 2;
pub const IBV_SEND_SOLICITED: ibv_send_flags = 4;
pub const IBV_SEND_INLINE: ibv_send_flags = 8;
pub const IBV_SEND_IP_CSUM: ibv_send_flags = 0x10;

/// `struct ibv_data_buf`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_data_buf {
    pub addr: *mut c_void,
    pub length: usize,
}
layout!(ibv_data_buf, 16, { addr: 0, length: 8 });

/// `struct ibv_sge`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct ibv_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}
layout!(ibv_sge, 16, { addr: 0, length: 8, lkey: 12 });

/// Unnamed union inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub union ibv_send_wr_imm {
    pub imm_data: be32,
    pub invalidate_rkey: u32,
}
layout!(ibv_send_wr_imm, 4, { imm_data: 0, invalidate_rkey: 0 });

/// Unnamed struct inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_send_wr_wr_rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}
layout!(ibv_send_wr_wr_rdma, 16, { remote_addr: 0, rkey: 8 });

/// Unnamed struct inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_send_wr_wr_atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}
layout!(ibv_send_wr_wr_atomic, 32, { remote_addr: 0, compare_add: 8, swap: 16, rkey: 24 });

/// Unnamed struct inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_send_wr_wr_ud {
    pub ah: *mut ibv_ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}
layout!(ibv_send_wr_wr_ud, 16, { ah: 0, remote_qpn: 8, remote_qkey: 12 });

/// Unnamed union inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub union ibv_send_wr_wr {
    pub rdma: ibv_send_wr_wr_rdma,
    pub atomic: ibv_send_wr_wr_atomic,
    pub ud: ibv_send_wr_wr_ud,
}
layout!(ibv_send_wr_wr, 32, { rdma: 0, atomic: 0, ud: 0 });

/// Unnamed struct inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_send_wr_qp_type_xrc {
    pub remote_srqn: u32,
}
layout!(ibv_send_wr_qp_type_xrc, 4, { remote_srqn: 0 });

/// Unnamed union inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub union ibv_send_wr_qp_type {
    pub xrc: ibv_send_wr_qp_type_xrc,
}
layout!(ibv_send_wr_qp_type, 4, { xrc: 0 });

/// Unnamed struct inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_send_wr_op_bind_mw {
    pub mw: *mut ibv_mw,
    pub rkey: u32,
    pub bind_info: ibv_mw_bind_info,
}
layout!(ibv_send_wr_op_bind_mw, 48, { mw: 0, rkey: 8, bind_info: 16 });

/// Unnamed struct inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_send_wr_op_tso {
    pub hdr: *mut c_void,
    pub hdr_sz: u16,
    pub mss: u16,
}
layout!(ibv_send_wr_op_tso, 16, { hdr: 0, hdr_sz: 8, mss: 10 });

/// Unnamed union inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub union ibv_send_wr_op {
    pub bind_mw: ibv_send_wr_op_bind_mw,
    pub tso: ibv_send_wr_op_tso,
}
layout!(ibv_send_wr_op, 48, { bind_mw: 0, tso: 0 });

/// `struct ibv_send_wr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_send_wr {
    pub wr_id: u64,
    pub next: *mut ibv_send_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub opcode: ibv_wr_opcode,
    pub send_flags: c_uint,
    pub imm: ibv_send_wr_imm,
    pub wr: ibv_send_wr_wr,
    pub qp_type: ibv_send_wr_qp_type,
    pub op: ibv_send_wr_op,
}
layout!(ibv_send_wr, 128, { wr_id: 0, next: 8, sg_list: 16, num_sge: 24, opcode: 28, send_flags: 32, imm: 36, wr: 40, qp_type: 72, op: 80 });

/// `struct ibv_recv_wr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_recv_wr {
    pub wr_id: u64,
    pub next: *mut ibv_recv_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
}
layout!(ibv_recv_wr, 32, { wr_id: 0, next: 8, sg_list: 16, num_sge: 24 });
