//! Protection and XRC domains: structs and constants of the kernel ABI (linux-libc-dev,
//! `rdma/ib_user_verbs.h` and its neighbours).
#![allow(missing_docs)] // names are those of the kernel header

use super::prelude::*;

/// `struct ib_uverbs_alloc_pd`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_alloc_pd {
    pub response: u64,
}
layout!(ib_uverbs_alloc_pd, 8, { response: 0 });

/// `struct ib_uverbs_alloc_pd_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_alloc_pd_resp {
    pub pd_handle: u32,
}
layout!(ib_uverbs_alloc_pd_resp, 4, { pd_handle: 0 });

/// `struct ib_uverbs_dealloc_pd`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_dealloc_pd {
    pub pd_handle: u32,
}
layout!(ib_uverbs_dealloc_pd, 4, { pd_handle: 0 });

/// `struct ib_uverbs_open_xrcd`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_open_xrcd {
    pub response: u64,
    pub fd: u32,
    pub oflags: u32,
}
layout!(ib_uverbs_open_xrcd, 16, { response: 0, fd: 8, oflags: 12 });

/// `struct ib_uverbs_open_xrcd_resp`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_open_xrcd_resp {
    pub xrcd_handle: u32,
}
layout!(ib_uverbs_open_xrcd_resp, 4, { xrcd_handle: 0 });

/// `struct ib_uverbs_close_xrcd`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ib_uverbs_close_xrcd {
    pub xrcd_handle: u32,
}
layout!(ib_uverbs_close_xrcd, 4, { xrcd_handle: 0 });
