//! Work queues: structs and constants of the kernel ABI (linux-libc-dev, `rdma/ib_user_verbs.h` and
//! its neighbours).
#![allow(missing_docs)] // names are those of the kernel header

use super::prelude::*;

/// `struct ib_uverbs_ex_create_wq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_ex_create_wq {
    pub comp_mask: u32,
    pub wq_type: u32,
    pub user_handle: u64,
    pub pd_handle: u32,
    pub cq_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub create_flags: u32,
    pub reserved: u32,
}
layout!(ib_uverbs_ex_create_wq, 40, { comp_mask: 0, wq_type: 4, user_handle: 8, pd_handle: 16, cq_handle: 20, max_wr: 24, max_sge: 28, create_flags: 32, reserved: 36 });

/// `struct ib_uverbs_ex_create_wq_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_ex_create_wq_resp {
    pub comp_mask: u32,
    pub response_length: u32,
    pub wq_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub wqn: u32,
}
layout!(ib_uverbs_ex_create_wq_resp, 24, { comp_mask: 0, response_length: 4, wq_handle: 8, max_wr: 12, max_sge: 16, wqn: 20 });

/// `struct ib_uverbs_ex_destroy_wq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_ex_destroy_wq {
    pub comp_mask: u32,
    pub wq_handle: u32,
}
layout!(ib_uverbs_ex_destroy_wq, 8, { comp_mask: 0, wq_handle: 4 });

/// `struct ib_uverbs_ex_destroy_wq_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_ex_destroy_wq_resp {
    pub comp_mask: u32,
    pub response_length: u32,
    pub events_reported: u32,
    pub reserved: u32,
}
layout!(ib_uverbs_ex_destroy_wq_resp, 16, { comp_mask: 0, response_length: 4, events_reported: 8, reserved: 12 });

/// `struct ib_uverbs_ex_modify_wq`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_ex_modify_wq {
    pub attr_mask: u32,
    pub wq_handle: u32,
    pub wq_state: u32,
    pub curr_wq_state: u32,
    pub flags: u32,
    pub flags_mask: u32,
}
layout!(ib_uverbs_ex_modify_wq, 24, { attr_mask: 0, wq_handle: 4, wq_state: 8, curr_wq_state: 12, flags: 16, flags_mask: 20 });

/// `struct ib_uverbs_ex_create_rwq_ind_table`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_ex_create_rwq_ind_table {
    pub comp_mask: u32,
    pub log_ind_tbl_size: u32,
}
layout!(ib_uverbs_ex_create_rwq_ind_table, 8, { comp_mask: 0, log_ind_tbl_size: 4 });

/// `struct ib_uverbs_ex_create_rwq_ind_table_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_ex_create_rwq_ind_table_resp {
    pub comp_mask: u32,
    pub response_length: u32,
    pub ind_tbl_handle: u32,
    pub ind_tbl_num: u32,
}
layout!(ib_uverbs_ex_create_rwq_ind_table_resp, 16, { comp_mask: 0, response_length: 4, ind_tbl_handle: 8, ind_tbl_num: 12 });

/// `struct ib_uverbs_ex_destroy_rwq_ind_table`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_ex_destroy_rwq_ind_table {
    pub comp_mask: u32,
    pub ind_tbl_handle: u32,
}
layout!(ib_uverbs_ex_destroy_rwq_ind_table, 8, { comp_mask: 0, ind_tbl_handle: 4 });

/// `enum ib_uverbs_wq_type`.
pub type ib_uverbs_wq_type = c_uint;
pub const IB_UVERBS_WQT_RQ: ib_uverbs_wq_type = 0;

/// `enum ib_uverbs_wq_flags`.
pub type ib_uverbs_wq_flags = c_uint;
pub const IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING: ib_uverbs_wq_flags = 1;
pub const IB_UVERBS_WQ_FLAGS_SCATTER_FCS: ib_uverbs_wq_flags = 2;
pub const IB_UVERBS_WQ_FLAGS_DELAY_DROP: ib_uverbs_wq_flags = 4;
pub const IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING: ib_uverbs_wq_flags = 8;
