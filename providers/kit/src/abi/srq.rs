//! Shared receive queues: ibv_create_srq(3), ibv_create_srq_ex(3), ibv_post_srq_ops(3).
#![allow(missing_docs)] // member names are those of the C API; the man pages named above explain them

use super::prelude::*;

/// `struct ibv_srq`.
#[repr(C)]
pub struct ibv_srq {
    pub context: *mut ibv_context,
    pub srq_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub handle: u32,
    pub mutex: libc::pthread_mutex_t,
    pub cond: libc::pthread_cond_t,
    pub events_completed: u32,
}
layout!(ibv_srq, 128 + MUTEX_GROWTH, { context: 0, srq_context: 8, pd: 16, handle: 24, mutex: 32, cond: 72 + MUTEX_GROWTH, events_completed: 120 + MUTEX_GROWTH });

/// `enum ibv_srq_attr_mask`.
pub type ibv_srq_attr_mask = c_uint;
pub const IBV_SRQ_MAX_WR: ibv_srq_attr_mask = 1;
pub const IBV_SRQ_LIMIT: ibv_srq_attr_mask = 2;

/// `struct ibv_srq_attr`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct ibv_srq_attr {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}
layout!(ibv_srq_attr, 12, { max_wr: 0, max_sge: 4, srq_limit: 8 });

/// `struct ibv_srq_init_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_srq_init_attr {
    pub srq_context: *mut c_void,
    pub attr: ibv_srq_attr,
}
layout!(ibv_srq_init_attr, 24, { srq_context: 0, attr: 8 });

/// `enum ibv_srq_type`.
pub type ibv_srq_type = c_uint;
pub const IBV_SRQT_BASIC: ibv_srq_type = 0;
pub const IBV_SRQT_XRC: ibv_srq_type = 1;
pub const IBV_SRQT_TM: ibv_srq_type = 2;

/// `enum ibv_srq_init_attr_mask`.
pub type ibv_srq_init_attr_mask = c_uint;
pub const IBV_SRQ_INIT_ATTR_TYPE: ibv_srq_init_attr_mask = 1;
pub const IBV_SRQ_INIT_ATTR_PD: ibv_srq_init_attr_mask = 2;
pub const IBV_SRQ_INIT_ATTR_XRCD: ibv_srq_init_attr_mask = 4;
pub const IBV_SRQ_INIT_ATTR_CQ: ibv_srq_init_attr_mask = 8;
pub const IBV_SRQ_INIT_ATTR_TM: ibv_srq_init_attr_mask = 0x10;
pub const IBV_SRQ_INIT_ATTR_RESERVED: ibv_srq_init_attr_mask = 0x20;

/// `struct ibv_tm_cap`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_tm_cap {
    pub max_num_tags: u32,
    pub max_ops: u32,
}
layout!(ibv_tm_cap, 8, { max_num_tags: 0, max_ops: 4 });

/// `struct ibv_srq_init_attr_ex`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_srq_init_attr_ex {
    pub srq_context: *mut c_void,
    pub attr: ibv_srq_attr,
    pub comp_mask: u32,
    pub srq_type: ibv_srq_type,
    pub pd: *mut ibv_pd,
    pub xrcd: *mut ibv_xrcd,
    pub cq: *mut ibv_cq,
    pub tm_cap: ibv_tm_cap,
}
layout!(ibv_srq_init_attr_ex, 64, { srq_context: 0, attr: 8, comp_mask: 20, srq_type: 24, pd: 32, xrcd: 40, cq: 48, tm_cap: 56 });

/// `enum ibv_ops_wr_opcode`.
pub type ibv_ops_wr_opcode = c_uint;
pub const IBV_WR_TAG_ADD: ibv_ops_wr_opcode = 0;
pub const IBV_WR_TAG_DEL: ibv_ops_wr_opcode = 1;
pub const IBV_WR_TAG_SYNC: ibv_ops_wr_opcode = 2;

/// `enum ibv_ops_flags`.
pub type ibv_ops_flags = c_uint;
pub const IBV_OPS_SIGNALED: ibv_ops_flags = 1;
pub const IBV_OPS_TM_SYNC: ibv_ops_flags = 2;

/// Unnamed struct inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_ops_wr_tm_add {
    pub recv_wr_id: u64,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub tag: u64,
    pub mask: u64,
}
layout!(ibv_ops_wr_tm_add, 40, { recv_wr_id: 0, sg_list: 8, num_sge: 16, tag: 24, mask: 32 });

/// Unnamed struct inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_ops_wr_tm {
    pub unexpected_cnt: u32,
    pub handle: u32,
    pub add: ibv_ops_wr_tm_add,
}
layout!(ibv_ops_wr_tm, 48, { unexpected_cnt: 0, handle: 4, add: 8 });

/// `struct ibv_ops_wr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_ops_wr {
    pub wr_id: u64,
    pub next: *mut ibv_ops_wr,
    pub opcode: ibv_ops_wr_opcode,
    pub flags: c_int,
    pub tm: ibv_ops_wr_tm,
}
layout!(ibv_ops_wr, 72, { wr_id: 0, next: 8, opcode: 16, flags: 20, tm: 24 });

/// `struct verbs_srq`.
#[repr(C)]
pub struct verbs_srq {
    pub srq: ibv_srq,
    pub srq_type: ibv_srq_type,
    pub xrcd: *mut verbs_xrcd,
    pub cq: *mut ibv_cq,
    pub srq_num: u32,
}
layout!(verbs_srq, 160 + MUTEX_GROWTH, { srq: 0, srq_type: 128 + MUTEX_GROWTH, xrcd: 136 + MUTEX_GROWTH, cq: 144 + MUTEX_GROWTH, srq_num: 152 + MUTEX_GROWTH });
