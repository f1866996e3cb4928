//! Completion counters: ibv_create_comp_cntr(3), ibv_qp_attach_comp_cntr(3).
#![allow(missing_docs)] // member names are those of the C API; the man pages named above explain them

use super::prelude::*;

/// `enum ibv_qp_attach_comp_cntr_op`; the kernel's `enum ib_uverbs_qp_attach_comp_cntr_op` has
/// the same values.
pub type ibv_qp_attach_comp_cntr_op = c_uint;
pub const IBV_QP_ATTACH_COMP_CNTR_OP_SEND: ibv_qp_attach_comp_cntr_op = 1;
pub const IBV_QP_ATTACH_COMP_CNTR_OP_RECV: ibv_qp_attach_comp_cntr_op = 2;
pub const IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ: ibv_qp_attach_comp_cntr_op = 4;
pub const IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ: ibv_qp_attach_comp_cntr_op = 8;
pub const IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE: ibv_qp_attach_comp_cntr_op = 0x10;
pub const IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE: ibv_qp_attach_comp_cntr_op = 0x20;

/// `enum ibv_comp_cntr_type`.
pub type ibv_comp_cntr_type = c_uint;
pub const IBV_COMP_CNTR_TYPE_WRS: ibv_comp_cntr_type = 0;
pub const IBV_COMP_CNTR_TYPE_BYTES: ibv_comp_cntr_type = 1;

/// `struct ibv_comp_cntr_caps`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ibv_comp_cntr_caps {
    pub max_value: u64,
    pub max_counters: u32,
    pub supported_qp_attach_ops: u32,
}
layout!(ibv_comp_cntr_caps, 16, { max_value: 0, max_counters: 8, supported_qp_attach_ops: 12 });

/// `struct ibv_comp_cntr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_comp_cntr {
    pub context: *mut ibv_context,
    pub handle: u32,
}
layout!(ibv_comp_cntr, 16, { context: 0, handle: 8 });

/// `struct ibv_comp_cntr_init_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_comp_cntr_init_attr {
    pub comp_mask: u32,
    pub type_: ibv_comp_cntr_type,
    pub flags: u32,
}
layout!(ibv_comp_cntr_init_attr, 12, { comp_mask: 0, type_: 4, flags: 8 });

/// `struct ibv_qp_attach_comp_cntr_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_qp_attach_comp_cntr_attr {
    pub comp_mask: u32,
    pub op_mask: u32,
}
layout!(ibv_qp_attach_comp_cntr_attr, 8, { comp_mask: 0, op_mask: 4 });
