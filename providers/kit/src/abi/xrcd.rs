//! XRC domains: ibv_open_xrcd(3).
#![allow(missing_docs)] // member names are those of the C API; the man pages named above explain them

use super::prelude::*;

/// `enum ibv_xrcd_init_attr_mask`.
pub type ibv_xrcd_init_attr_mask = c_uint;
pub const IBV_XRCD_INIT_ATTR_FD: ibv_xrcd_init_attr_mask = 1;
pub const IBV_XRCD_INIT_ATTR_OFLAGS: ibv_xrcd_init_attr_mask = 2;
pub const IBV_XRCD_INIT_ATTR_RESERVED: ibv_xrcd_init_attr_mask = 4;

/// `struct ibv_xrcd_init_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_xrcd_init_attr {
    pub comp_mask: u32,
    pub fd: c_int,
    pub oflags: c_int,
}
layout!(ibv_xrcd_init_attr, 12, { comp_mask: 0, fd: 4, oflags: 8 });

/// `struct ibv_xrcd`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_xrcd {
    pub context: *mut ibv_context,
}
layout!(ibv_xrcd, 8, { context: 0 });

/// `enum verbs_xrcd_mask`.
pub type verbs_xrcd_mask = c_uint;
pub const VERBS_XRCD_HANDLE: verbs_xrcd_mask = 1;
pub const VERBS_XRCD_RESERVED: verbs_xrcd_mask = 2;

/// `struct verbs_xrcd`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct verbs_xrcd {
    pub xrcd: ibv_xrcd,
    pub comp_mask: u32,
    pub handle: u32,
}
layout!(verbs_xrcd, 16, { xrcd: 0, comp_mask: 8, handle: 12 });
