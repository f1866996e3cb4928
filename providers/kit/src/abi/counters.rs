//! Counters: ibv_create_counters(3).
#![allow(missing_docs)] // member names are those of the C API; the man pages named above explain them

use super::prelude::*;

/// `struct ibv_counters`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_counters {
    pub context: *mut ibv_context,
}
layout!(ibv_counters, 8, { context: 0 });

/// `struct ibv_counters_init_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_counters_init_attr {
    pub comp_mask: u32,
}
layout!(ibv_counters_init_attr, 4, { comp_mask: 0 });

/// `enum ibv_counter_description`.
pub type ibv_counter_description = c_uint;
pub const IBV_COUNTER_PACKETS: ibv_counter_description = 0;
pub const IBV_COUNTER_BYTES: ibv_counter_description = 1;

/// `struct ibv_counter_attach_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_counter_attach_attr {
    pub counter_desc: ibv_counter_description,
    pub index: u32,
    pub comp_mask: u32,
}
layout!(ibv_counter_attach_attr, 12, { counter_desc: 0, index: 4, comp_mask: 8 });

/// `enum ibv_read_counters_flags`.
pub type ibv_read_counters_flags = c_uint;
pub const IBV_READ_COUNTERS_ATTR_PREFER_CACHED: ibv_read_counters_flags = 1;

/// `struct verbs_counters`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct verbs_counters {
    pub counters: ibv_counters,
    pub handle: u32,
}
layout!(verbs_counters, 16, { counters: 0, handle: 8 });
