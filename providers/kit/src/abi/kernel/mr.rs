//! Memory regions and windows: structs and constants of the kernel ABI (linux-libc-dev,
//! `rdma/ib_user_verbs.h` and its neighbours).
#![allow(missing_docs)] // names are those of the kernel header

use super::prelude::*;

/// `struct ib_uverbs_reg_mr`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_reg_mr {
    pub response: u64,
    pub start: u64,
    pub length: u64,
    pub hca_va: u64,
    pub pd_handle: u32,
    pub access_flags: u32,
}
layout!(ib_uverbs_reg_mr, 40, { response: 0, start: 8, length: 16, hca_va: 24, pd_handle: 32, access_flags: 36 });

/// `struct ib_uverbs_reg_mr_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_reg_mr_resp {
    pub mr_handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}
layout!(ib_uverbs_reg_mr_resp, 12, { mr_handle: 0, lkey: 4, rkey: 8 });

/// `struct ib_uverbs_rereg_mr`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_rereg_mr {
    pub response: u64,
    pub mr_handle: u32,
    pub flags: u32,
    pub start: u64,
    pub length: u64,
    pub hca_va: u64,
    pub pd_handle: u32,
    pub access_flags: u32,
}
layout!(ib_uverbs_rereg_mr, 48, { response: 0, mr_handle: 8, flags: 12, start: 16, length: 24, hca_va: 32, pd_handle: 40, access_flags: 44 });

/// `struct ib_uverbs_rereg_mr_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_rereg_mr_resp {
    pub lkey: u32,
    pub rkey: u32,
}
layout!(ib_uverbs_rereg_mr_resp, 8, { lkey: 0, rkey: 4 });

/// `struct ib_uverbs_dereg_mr`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_dereg_mr {
    pub mr_handle: u32,
}
layout!(ib_uverbs_dereg_mr, 4, { mr_handle: 0 });

/// `struct ib_uverbs_alloc_mw`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_alloc_mw {
    pub response: u64,
    pub pd_handle: u32,
    pub mw_type: u8,
    pub reserved: [u8; 3],
}
layout!(ib_uverbs_alloc_mw, 16, { response: 0, pd_handle: 8, mw_type: 12, reserved: 13 });

/// `struct ib_uverbs_alloc_mw_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))] // C ends it with driver data in units of 8 bytes
pub struct ib_uverbs_alloc_mw_resp {
    pub mw_handle: u32,
    pub rkey: u32,
}
layout!(ib_uverbs_alloc_mw_resp, 8, { mw_handle: 0, rkey: 4 });

/// `struct ib_uverbs_dealloc_mw`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_dealloc_mw {
    pub mw_handle: u32,
}
layout!(ib_uverbs_dealloc_mw, 4, { mw_handle: 0 });

/// `enum ib_uverbs_access_flags`.
pub type ib_uverbs_access_flags = c_uint;
pub const IB_UVERBS_ACCESS_LOCAL_WRITE: ib_uverbs_access_flags = 1;
pub const IB_UVERBS_ACCESS_REMOTE_WRITE: ib_uverbs_access_flags = 2;
pub const IB_UVERBS_ACCESS_REMOTE_READ: ib_uverbs_access_flags = 4;
pub const IB_UVERBS_ACCESS_REMOTE_ATOMIC: ib_uverbs_access_flags = 8;
pub const IB_UVERBS_ACCESS_MW_BIND: ib_uverbs_access_flags = 0x10;
pub const IB_UVERBS_ACCESS_ZERO_BASED: ib_uverbs_access_flags = 0x20;
pub const IB_UVERBS_ACCESS_ON_DEMAND: ib_uverbs_access_flags = 0x40;
pub const IB_UVERBS_ACCESS_HUGETLB: ib_uverbs_access_flags = 0x80;
pub const IB_UVERBS_ACCESS_RELAXED_ORDERING: ib_uverbs_access_flags = 0x100000;
pub const IB_UVERBS_ACCESS_OPTIONAL_RANGE: ib_uverbs_access_flags = 1072693248;

/// `enum ib_uverbs_advise_mr_advice`.
pub type ib_uverbs_advise_mr_advice = c_uint;
pub const IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH: ib_uverbs_advise_mr_advice = 0;
pub const IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE: ib_uverbs_advise_mr_advice = 1;
pub const IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT: ib_uverbs_advise_mr_advice = 2;

/// `enum ib_uverbs_advise_mr_flag`.
pub type ib_uverbs_advise_mr_flag = c_uint;
pub const IB_UVERBS_ADVISE_MR_FLAG_FLUSH: ib_uverbs_advise_mr_flag = 1;
