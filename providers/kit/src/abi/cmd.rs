//! The ioctl command buffer as providers link it (rdma/rdma_user_ioctl_cmds.h).
#![allow(missing_docs)] // member names are those of the C API; the man pages named above explain them

use super::prelude::*;

/// Unnamed struct inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ib_uverbs_attr_attr_data_enum_data {
    pub elem_id: u8,
    pub reserved: u8,
}
layout!(ib_uverbs_attr_attr_data_enum_data, 2, { elem_id: 0, reserved: 1 });

/// Unnamed union inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub union ib_uverbs_attr_attr_data {
    pub enum_data: ib_uverbs_attr_attr_data_enum_data,
    pub reserved: u16,
}
layout!(ib_uverbs_attr_attr_data, 2, { enum_data: 0, reserved: 0 });

/// Unnamed union inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub union ib_uverbs_attr_u0 {
    pub data: u64,
    pub data_s64: i64,
}
layout!(ib_uverbs_attr_u0, 8, { data: 0, data_s64: 0 });

/// `struct ib_uverbs_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ib_uverbs_attr {
    pub attr_id: u16,
    pub len: u16,
    pub flags: u16,
    pub attr_data: ib_uverbs_attr_attr_data,
    pub u0: ib_uverbs_attr_u0,
}
layout!(ib_uverbs_attr, 16, { attr_id: 0, len: 2, flags: 4, attr_data: 6, u0: 8 });

/// `struct ib_uverbs_ioctl_hdr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ib_uverbs_ioctl_hdr {
    pub length: u16,
    pub object_id: u16,
    pub method_id: u16,
    pub num_attrs: u16,
    pub reserved1: u64,
    pub driver_id: u32,
    pub reserved2: u32,
}
layout!(ib_uverbs_ioctl_hdr, 24, { length: 0, object_id: 2, method_id: 4, num_attrs: 6, reserved1: 8, driver_id: 16, reserved2: 20 });

/// `struct ibv_command_buffer`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_command_buffer {
    pub next: *mut ibv_command_buffer,
    pub next_attr: *mut ib_uverbs_attr,
    pub last_attr: *mut ib_uverbs_attr,
    pub uhw_in_idx: u8,
    pub uhw_out_idx: u8,
    pub uhw_in_headroom_dwords: u8,
    pub uhw_out_headroom_dwords: u8,
    pub bits: u8,
    pub hdr: ib_uverbs_ioctl_hdr,
}
layout!(ibv_command_buffer, 56, { next: 0, next_attr: 8, last_attr: 16, uhw_in_idx: 24, uhw_out_idx: 25, uhw_in_headroom_dwords: 26, uhw_out_headroom_dwords: 27, bits: 28, hdr: 32 });

pub const _UHW_NO_INDEX: c_uint = 255;
