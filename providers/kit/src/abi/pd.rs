//! Protection, thread and parent domains: ibv_alloc_pd(3), ibv_alloc_td(3),
//! ibv_alloc_parent_domain(3).
#![allow(missing_docs)] // member names are those of the C API; the man pages named above explain them

use super::prelude::*;

/// `struct ibv_pd`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_pd {
    pub context: *mut ibv_context,
    pub handle: u32,
}
layout!(ibv_pd, 16, { context: 0, handle: 8 });

/// `struct ibv_td_init_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_td_init_attr {
    pub comp_mask: u32,
}
layout!(ibv_td_init_attr, 4, { comp_mask: 0 });

/// `struct ibv_td`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_td {
    pub context: *mut ibv_context,
}
layout!(ibv_td, 8, { context: 0 });

/// `enum ibv_parent_domain_init_attr_mask`.
pub type ibv_parent_domain_init_attr_mask = c_uint;
pub const IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS: ibv_parent_domain_init_attr_mask = 1;
pub const IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT: ibv_parent_domain_init_attr_mask = 2;
pub const IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC: ibv_parent_domain_init_attr_mask =
    4;

/// `struct ibv_parent_domain_init_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_parent_domain_init_attr {
    pub pd: *mut ibv_pd,
    pub td: *mut ibv_td,
    pub comp_mask: u32,
    pub alloc:
        Option<unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, usize, u64) -> *mut c_void>,
    pub free: Option<unsafe extern "C" fn(*mut ibv_pd, *mut c_void, *mut c_void, u64)>,
    pub pd_context: *mut c_void,
}
layout!(ibv_parent_domain_init_attr, 48, { pd: 0, td: 8, comp_mask: 16, alloc: 24, free: 32, pd_context: 40 });
