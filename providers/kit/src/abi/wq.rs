//! Work queues and their indirection tables: ibv_create_wq(3), ibv_create_rwq_ind_table(3).
#![allow(missing_docs)] // member names are those of the C API; the man pages named above explain them

use super::prelude::*;

/// `enum ibv_wq_type`.
pub type ibv_wq_type = c_uint;
pub const IBV_WQT_RQ: ibv_wq_type = 0;

/// `enum ibv_wq_init_attr_mask`.
pub type ibv_wq_init_attr_mask = c_uint;
pub const IBV_WQ_INIT_ATTR_FLAGS: ibv_wq_init_attr_mask = 1;
pub const IBV_WQ_INIT_ATTR_RESERVED: ibv_wq_init_attr_mask = 2;

/// `enum ibv_wq_flags`.
pub type ibv_wq_flags = c_uint;
pub const IBV_WQ_FLAGS_CVLAN_STRIPPING: ibv_wq_flags = 1;
pub const IBV_WQ_FLAGS_SCATTER_FCS: ibv_wq_flags = 2;
pub const IBV_WQ_FLAGS_DELAY_DROP: ibv_wq_flags = 4;
pub const IBV_WQ_FLAGS_PCI_WRITE_END_PADDING: ibv_wq_flags = 8;
pub const IBV_WQ_FLAGS_RESERVED: ibv_wq_flags = 0x10;

/// `struct ibv_wq_init_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_wq_init_attr {
    pub wq_context: *mut c_void,
    pub wq_type: ibv_wq_type,
    pub max_wr: u32,
    pub max_sge: u32,
    pub pd: *mut ibv_pd,
    pub cq: *mut ibv_cq,
    pub comp_mask: u32,
    pub create_flags: u32,
}
layout!(ibv_wq_init_attr, 48, { wq_context: 0, wq_type: 8, max_wr: 12, max_sge: 16, pd: 24, cq: 32, comp_mask: 40, create_flags: 44 });

/// `enum ibv_wq_state`.
pub type ibv_wq_state = c_uint;
pub const IBV_WQS_RESET: ibv_wq_state = 0;
pub const IBV_WQS_RDY: ibv_wq_state = 1;
pub const IBV_WQS_ERR: ibv_wq_state = 2;
pub const IBV_WQS_UNKNOWN: ibv_wq_state = 3;

/// `enum ibv_wq_attr_mask`.
pub type ibv_wq_attr_mask = c_uint;
pub const IBV_WQ_ATTR_STATE: ibv_wq_attr_mask = 1;
pub const IBV_WQ_ATTR_CURR_STATE: ibv_wq_attr_mask = 2;
pub const IBV_WQ_ATTR_FLAGS: ibv_wq_attr_mask = 4;
pub const IBV_WQ_ATTR_RESERVED: ibv_wq_attr_mask = 8;

/// `struct ibv_wq_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_wq_attr {
    pub attr_mask: u32,
    pub wq_state: ibv_wq_state,
    pub curr_wq_state: ibv_wq_state,
    pub flags: u32,
    pub flags_mask: u32,
}
layout!(ibv_wq_attr, 20, { attr_mask: 0, wq_state: 4, curr_wq_state: 8, flags: 12, flags_mask: 16 });

/// `struct ibv_wq`.
#[repr(C)]
pub struct ibv_wq {
    pub context: *mut ibv_context,
    pub wq_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub cq: *mut ibv_cq,
    pub wq_num: u32,
    pub handle: u32,
    pub state: ibv_wq_state,
    pub wq_type: ibv_wq_type,
    pub post_recv:
        Option<unsafe extern "C" fn(*mut ibv_wq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    pub mutex: libc::pthread_mutex_t,
    pub cond: libc::pthread_cond_t,
    pub events_completed: u32,
    pub comp_mask: u32,
}
layout!(ibv_wq, 152 + MUTEX_GROWTH, { context: 0, wq_context: 8, pd: 16, cq: 24, wq_num: 32, handle: 36, state: 40, wq_type: 44, post_recv: 48, mutex: 56, cond: 96 + MUTEX_GROWTH, events_completed: 144 + MUTEX_GROWTH, comp_mask: 148 + MUTEX_GROWTH });

/// `struct ibv_rwq_ind_table`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_rwq_ind_table {
    pub context: *mut ibv_context,
    pub ind_tbl_handle: c_int,
    pub ind_tbl_num: c_int,
    pub comp_mask: u32,
}
layout!(ibv_rwq_ind_table, 24, { context: 0, ind_tbl_handle: 8, ind_tbl_num: 12, comp_mask: 16 });

/// `enum ibv_ind_table_init_attr_mask`.
pub type ibv_ind_table_init_attr_mask = c_uint;
pub const IBV_CREATE_IND_TABLE_RESERVED: ibv_ind_table_init_attr_mask = 1;

/// `struct ibv_rwq_ind_table_init_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_rwq_ind_table_init_attr {
    pub log_ind_tbl_size: u32,
    pub ind_tbl: *mut *mut ibv_wq,
    pub comp_mask: u32,
}
layout!(ibv_rwq_ind_table_init_attr, 24, { log_ind_tbl_size: 0, ind_tbl: 8, comp_mask: 16 });
