//! Memory regions, windows and device memory: ibv_reg_mr(3), ibv_alloc_mw(3), ibv_alloc_dm(3).
#![allow(missing_docs)] // member names are those of the C API; the man pages named above explain them

use super::prelude::*;

/// `enum ibv_access_flags`.
pub type ibv_access_flags = c_uint;
pub const IBV_ACCESS_LOCAL_WRITE: ibv_access_flags = 1;
pub const IBV_ACCESS_REMOTE_WRITE: ibv_access_flags = 2;
pub const IBV_ACCESS_REMOTE_READ: ibv_access_flags = 4;
pub const IBV_ACCESS_REMOTE_ATOMIC: ibv_access_flags = 8;
pub const IBV_ACCESS_MW_BIND: ibv_access_flags = 0x10;
pub const IBV_ACCESS_ZERO_BASED: ibv_access_flags = 0x20;
pub const IBV_ACCESS_ON_DEMAND: ibv_access_flags = 0x40;
pub const IBV_ACCESS_HUGETLB: ibv_access_flags = 0x80;
pub const IBV_ACCESS_FLUSH_GLOBAL: ibv_access_flags = 0x100;
pub const IBV_ACCESS_FLUSH_PERSISTENT: ibv_access_flags = 0x200;
pub const IBV_ACCESS_RELAXED_ORDERING: ibv_access_flags = 0x100000;

/// `struct ibv_mr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_mr {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}
layout!(ibv_mr, 48, { context: 0, pd: 8, addr: 16, length: 24, handle: 32, lkey: 36, rkey: 40 });

/// `enum ibv_placement_type`.
pub type ibv_placement_type = c_uint;
pub const IBV_FLUSH_GLOBAL: ibv_placement_type = 1;
pub const IBV_FLUSH_PERSISTENT: ibv_placement_type = 2;

/// `enum ibv_selectivity_level`.
pub type ibv_selectivity_level = c_uint;
pub const IBV_FLUSH_RANGE: ibv_selectivity_level = 0;
pub const IBV_FLUSH_MR: ibv_selectivity_level = 1;

/// `enum ibv_mr_init_attr_mask`.
pub const IBV_REG_MR_MASK_IOVA: u64 = 1;
pub const IBV_REG_MR_MASK_ADDR: u64 = 2;
pub const IBV_REG_MR_MASK_FD: u64 = 4;
pub const IBV_REG_MR_MASK_FD_OFFSET: u64 = 8;
pub const IBV_REG_MR_MASK_DMAH: u64 = 0x10;
pub const IBV_REG_MR_MASK_BUF: u64 = 0x20;

/// `struct ibv_mr_init_attr`; programs of the releases before 64 end it before `buf`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_mr_init_attr {
    pub length: usize,
    pub access: c_int,
    pub comp_mask: u64,
    pub iova: u64,
    pub addr: *mut c_void,
    pub fd: c_int,
    pub fd_offset: u64,
    pub dmah: *mut ibv_dmah,
    pub buf: *mut ibv_buf,
}
layout!(ibv_mr_init_attr, 72, { length: 0, access: 8, comp_mask: 16, iova: 24, addr: 32, fd: 40, fd_offset: 48, dmah: 56, buf: 64 });

/// `struct ibv_dmah`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_dmah {
    pub context: *mut ibv_context,
}
layout!(ibv_dmah, 8, { context: 0 });

/// `struct verbs_dmah`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct verbs_dmah {
    pub dmah: ibv_dmah,
    pub handle: u32,
}
layout!(verbs_dmah, 16, { dmah: 0, handle: 8 });

/// `enum ibv_dmah_init_attr_mask`.
pub type ibv_dmah_init_attr_mask = c_uint;
pub const IBV_DMAH_INIT_ATTR_MASK_CPU_ID: ibv_dmah_init_attr_mask = 1;
pub const IBV_DMAH_INIT_ATTR_MASK_PH: ibv_dmah_init_attr_mask = 2;
pub const IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE: ibv_dmah_init_attr_mask = 4;

/// `struct ibv_dmah_init_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_dmah_init_attr {
    pub comp_mask: u32,
    pub cpu_id: u32,
    pub ph: u8,
    pub tph_mem_type: u8,
}
layout!(ibv_dmah_init_attr, 12, { comp_mask: 0, cpu_id: 4, ph: 8, tph_mem_type: 9 });

/// `struct ibv_buf`: opaque to programs, known to providers since release 64.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_buf {
    pub addr: *mut c_void,
    pub size: usize,
    pub pd: *mut ibv_pd,
    /// -1: no DMA buffer.
    pub dmabuf_fd: c_int,
}
layout!(ibv_buf, 32, { addr: 0, size: 8, pd: 16, dmabuf_fd: 24 });

/// `enum ibv_rereg_mr_flags`.
pub type ibv_rereg_mr_flags = c_uint;
pub const IBV_REREG_MR_CHANGE_TRANSLATION: ibv_rereg_mr_flags = 1;
pub const IBV_REREG_MR_CHANGE_PD: ibv_rereg_mr_flags = 2;
pub const IBV_REREG_MR_CHANGE_ACCESS: ibv_rereg_mr_flags = 4;
pub const IBV_REREG_MR_FLAGS_SUPPORTED: ibv_rereg_mr_flags = 7;

/// `enum ibv_rereg_mr_err_code`.
pub type ibv_rereg_mr_err_code = c_int;
pub const IBV_REREG_MR_ERR_INPUT: ibv_rereg_mr_err_code = -1;
pub const IBV_REREG_MR_ERR_DONT_FORK_NEW: ibv_rereg_mr_err_code = -2;
pub const IBV_REREG_MR_ERR_DO_FORK_OLD: ibv_rereg_mr_err_code = -3;
pub const IBV_REREG_MR_ERR_CMD: ibv_rereg_mr_err_code = -4;
pub const IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW: ibv_rereg_mr_err_code = -5;

/// `enum ibv_mw_type`.
pub type ibv_mw_type = c_uint;
pub const IBV_MW_TYPE_1: ibv_mw_type = 1;
pub const IBV_MW_TYPE_2: ibv_mw_type = 2;

/// `struct ibv_mw`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_mw {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub rkey: u32,
    pub handle: u32,
    pub type_: ibv_mw_type,
}
layout!(ibv_mw, 32, { context: 0, pd: 8, rkey: 16, handle: 20, type_: 24 });

/// `struct ibv_mw_bind_info`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_mw_bind_info {
    pub mr: *mut ibv_mr,
    pub addr: u64,
    pub length: u64,
    pub mw_access_flags: c_uint,
}
layout!(ibv_mw_bind_info, 32, { mr: 0, addr: 8, length: 16, mw_access_flags: 24 });

/// `struct ibv_mw_bind`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_mw_bind {
    pub wr_id: u64,
    pub send_flags: c_uint,
    pub bind_info: ibv_mw_bind_info,
}
layout!(ibv_mw_bind, 48, { wr_id: 0, send_flags: 8, bind_info: 16 });

/// `struct ibv_alloc_dm_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_alloc_dm_attr {
    pub length: usize,
    pub log_align_req: u32,
    pub comp_mask: u32,
}
layout!(ibv_alloc_dm_attr, 16, { length: 0, log_align_req: 8, comp_mask: 12 });

/// `enum ibv_dm_mask`.
pub type ibv_dm_mask = c_uint;
pub const IBV_DM_MASK_HANDLE: ibv_dm_mask = 1;

/// `struct ibv_dm`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_dm {
    pub context: *mut ibv_context,
    pub memcpy_to_dm: Option<unsafe extern "C" fn(*mut ibv_dm, u64, *const c_void, usize) -> c_int>,
    pub memcpy_from_dm: Option<unsafe extern "C" fn(*mut c_void, *mut ibv_dm, u64, usize) -> c_int>,
    pub comp_mask: u32,
    pub handle: u32,
}
layout!(ibv_dm, 32, { context: 0, memcpy_to_dm: 8, memcpy_from_dm: 16, comp_mask: 24, handle: 28 });

/// `enum ibv_mr_type`.
pub type ibv_mr_type = c_uint;
pub const IBV_MR_TYPE_MR: ibv_mr_type = 0;
pub const IBV_MR_TYPE_NULL_MR: ibv_mr_type = 1;
pub const IBV_MR_TYPE_IMPORTED_MR: ibv_mr_type = 2;
pub const IBV_MR_TYPE_DMABUF_MR: ibv_mr_type = 3;

/// `struct verbs_mr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct verbs_mr {
    pub ibv_mr: ibv_mr,
    pub mr_type: ibv_mr_type,
    pub access: c_int,
}
layout!(verbs_mr, 56, { ibv_mr: 0, mr_type: 48, access: 52 });

/// `struct verbs_dm`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct verbs_dm {
    pub dm: ibv_dm,
    pub handle: u32,
}
layout!(verbs_dm, 40, { dm: 0, handle: 32 });

/// Access flags that a kernel may ignore (ibv_reg_mr(3), optional access flags).
pub const IBV_ACCESS_OPTIONAL_RANGE: ibv_access_flags = 0x3ff0_0000;
