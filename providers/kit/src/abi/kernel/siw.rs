//! The user ABI of soft-iWARP's kernel driver (linux-libc-dev, `rdma/siw-abi.h`).
#![allow(missing_docs)] // names are those of the kernel header

use super::prelude::*;

pub const SIW_ABI_VERSION: u32 = 1;
pub const SIW_MAX_SGE: usize = 6;
/// A queue's key when the kernel could not make it ready for mapping.
pub const SIW_INVAL_UOBJ_KEY: u64 = 0x09_0000;
pub const SIW_MAX_INLINE: usize = 80;

/// `struct siw_uresp_create_cq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct siw_uresp_create_cq {
    pub cq_id: u32,
    pub num_cqe: u32,
    pub cq_key: u64,
}
layout!(siw_uresp_create_cq, 16, { cq_id: 0, num_cqe: 4, cq_key: 8 });

/// `struct siw_uresp_create_qp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct siw_uresp_create_qp {
    pub qp_id: u32,
    pub num_sqe: u32,
    pub num_rqe: u32,
    pub pad: u32,
    pub sq_key: u64,
    pub rq_key: u64,
}
layout!(siw_uresp_create_qp, 32, { qp_id: 0, num_sqe: 4, num_rqe: 8, pad: 12, sq_key: 16, rq_key: 24 });

/// `struct siw_ureq_reg_mr`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct siw_ureq_reg_mr {
    pub stag_key: u8,
    pub reserved: [u8; 3],
    pub pad: u32,
}
layout!(siw_ureq_reg_mr, 8, { stag_key: 0, reserved: 1, pad: 4 });

/// `struct siw_uresp_reg_mr`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct siw_uresp_reg_mr {
    pub stag: u32,
    pub pad: u32,
}
layout!(siw_uresp_reg_mr, 8, { stag: 0, pad: 4 });

/// `struct siw_uresp_create_srq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct siw_uresp_create_srq {
    pub num_rqe: u32,
    pub pad: u32,
    pub srq_key: u64,
}
layout!(siw_uresp_create_srq, 16, { num_rqe: 0, pad: 4, srq_key: 8 });

/// `struct siw_uresp_alloc_ctx`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct siw_uresp_alloc_ctx {
    pub dev_id: u32,
    pub pad: u32,
}
layout!(siw_uresp_alloc_ctx, 8, { dev_id: 0, pad: 4 });

// Values of `enum siw_opcode`, in the type of the members that hold them.
pub const SIW_OP_WRITE: u8 = 0;
pub const SIW_OP_READ: u8 = 1;
pub const SIW_OP_READ_LOCAL_INV: u8 = 2;
pub const SIW_OP_SEND: u8 = 3;
pub const SIW_OP_SEND_WITH_IMM: u8 = 4;
pub const SIW_OP_SEND_REMOTE_INV: u8 = 5;
pub const SIW_OP_FETCH_AND_ADD: u8 = 6;
pub const SIW_OP_COMP_AND_SWAP: u8 = 7;
pub const SIW_OP_RECEIVE: u8 = 8;

/// `struct siw_sge`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct siw_sge {
    pub laddr: u64,
    pub length: u32,
    pub lkey: u32,
}
layout!(siw_sge, 16, { laddr: 0, length: 8, lkey: 12 });

// Values of `enum siw_wqe_flags`, likewise.
pub const SIW_WQE_VALID: u16 = 1;
pub const SIW_WQE_INLINE: u16 = 2;
pub const SIW_WQE_SIGNALLED: u16 = 4;
pub const SIW_WQE_SOLICITED: u16 = 8;
pub const SIW_WQE_READ_FENCE: u16 = 0x10;
pub const SIW_WQE_REM_INVAL: u16 = 0x20;
pub const SIW_WQE_COMPLETED: u16 = 0x40;

/// `struct siw_sqe`: a send request. Inline data stands where the second element would.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct siw_sqe {
    pub id: u64,
    pub flags: u16,
    pub num_sge: u8,
    pub opcode: u8,
    pub rkey: u32,
    pub raddr: u64,
    pub sge: [siw_sge; SIW_MAX_SGE],
}
layout!(siw_sqe, 120, { id: 0, flags: 8, num_sge: 10, opcode: 11, rkey: 12, raddr: 16, sge: 24 });

/// `struct siw_rqe`: a receive request.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct siw_rqe {
    pub id: u64,
    pub flags: u16,
    pub num_sge: u8,
    pub opcode: u8,
    pub unused: u32,
    pub sge: [siw_sge; SIW_MAX_SGE],
}
layout!(siw_rqe, 112, { id: 0, flags: 8, num_sge: 10, opcode: 11, unused: 12, sge: 16 });

// Values of `enum siw_notify_flags`, likewise.
pub const SIW_NOTIFY_NOT: u32 = 0;
pub const SIW_NOTIFY_SOLICITED: u32 = 1;
pub const SIW_NOTIFY_NEXT_COMPLETION: u32 = 2;
pub const SIW_NOTIFY_MISSED_EVENTS: u32 = 4;

// Values of `enum siw_wc_status`, likewise.
pub const SIW_WC_SUCCESS: u16 = 0;
pub const SIW_WC_LOC_LEN_ERR: u16 = 1;
pub const SIW_WC_LOC_PROT_ERR: u16 = 2;
pub const SIW_WC_LOC_QP_OP_ERR: u16 = 3;
pub const SIW_WC_WR_FLUSH_ERR: u16 = 4;
pub const SIW_WC_BAD_RESP_ERR: u16 = 5;
pub const SIW_WC_LOC_ACCESS_ERR: u16 = 6;
pub const SIW_WC_REM_ACCESS_ERR: u16 = 7;
pub const SIW_WC_REM_INV_REQ_ERR: u16 = 8;
pub const SIW_WC_GENERAL_ERR: u16 = 9;

/// `struct siw_cqe`: a completion.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct siw_cqe {
    pub id: u64,
    pub flags: u8,
    pub opcode: u8,
    pub status: u16,
    pub bytes: u32,
    /// With `SIW_WQE_REM_INVAL` its first 32 bits are the key that was invalidated.
    pub imm_data: u64,
    pub qp_id: u64,
}
layout!(siw_cqe, 32, { id: 0, flags: 8, opcode: 9, status: 10, bytes: 12, imm_data: 16, qp_id: 24 });

/// `struct siw_cq_ctrl`: stands behind the completions.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct siw_cq_ctrl {
    /// The completions that cause an event.
    pub flags: u32,
    pub pad: u32,
}
layout!(siw_cq_ctrl, 8, { flags: 0, pad: 4 });
