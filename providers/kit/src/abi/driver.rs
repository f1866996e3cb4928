//! Structures that a provider and the library exchange when a device is found (node
//! IBVERBS_PRIVATE_34, release v44).
#![allow(missing_docs)] // member names are those of the C API; the man pages named above explain them

use super::prelude::*;

/// `struct list_node`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct list_node {
    pub next: *mut list_node,
    pub prev: *mut list_node,
}
layout!(list_node, 16, { next: 0, prev: 8 });

/// `struct list_head`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct list_head {
    pub n: list_node,
}
layout!(list_head, 16, { n: 0 });

/// `enum ibv_gid_type_sysfs`.
pub type ibv_gid_type_sysfs = c_uint;
pub const IBV_GID_TYPE_SYSFS_IB_ROCE_V1: ibv_gid_type_sysfs = 0;
pub const IBV_GID_TYPE_SYSFS_ROCE_V2: ibv_gid_type_sysfs = 1;

/// `enum verbs_query_gid_attr_mask`.
pub type verbs_query_gid_attr_mask = c_uint;
pub const VERBS_QUERY_GID_ATTR_GID: verbs_query_gid_attr_mask = 1;
pub const VERBS_QUERY_GID_ATTR_TYPE: verbs_query_gid_attr_mask = 2;
pub const VERBS_QUERY_GID_ATTR_NDEV_IFINDEX: verbs_query_gid_attr_mask = 4;

pub const VERBS_MATCH_SENTINEL: c_uint = 0;
pub const VERBS_MATCH_PCI: c_uint = 1;
pub const VERBS_MATCH_MODALIAS: c_uint = 2;
pub const VERBS_MATCH_DRIVER_ID: c_uint = 3;

/// Unnamed union inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub union verbs_match_ent_u {
    pub modalias: *const c_char,
    pub driver_id: u64,
}
layout!(verbs_match_ent_u, 8, { modalias: 0, driver_id: 0 });

/// `struct verbs_match_ent`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct verbs_match_ent {
    pub driver_data: *mut c_void,
    pub u: verbs_match_ent_u,
    pub vendor: u16,
    pub device: u16,
    pub kind: u8,
}
layout!(verbs_match_ent, 24, { driver_data: 0, u: 8, vendor: 16, device: 18, kind: 20 });

pub const VSYSFS_READ_MODALIAS: c_uint = 1;
pub const VSYSFS_READ_NODE_GUID: c_uint = 2;

/// `struct verbs_sysfs_dev`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct verbs_sysfs_dev {
    pub entry: list_node,
    pub provider_data: *mut c_void,
    pub match_: *const verbs_match_ent,
    pub flags: c_uint,
    pub sysfs_name: [c_char; 64],
    pub sysfs_cdev: libc::dev_t,
    pub ibdev_name: [c_char; 64],
    pub ibdev_path: [c_char; 256],
    pub modalias: [c_char; 512],
    pub node_guid: u64,
    pub driver_id: u32,
    pub node_type: ibv_node_type,
    pub ibdev_idx: c_int,
    pub num_ports: u32,
    pub abi_ver: u32,
    pub time_created: libc::timespec,
}
layout!(verbs_sysfs_dev, 992, { entry: 0, provider_data: 16, match_: 24, flags: 32, sysfs_name: 36, sysfs_cdev: 104, ibdev_name: 112, ibdev_path: 176, modalias: 432, node_guid: 944, driver_id: 952, node_type: 956, ibdev_idx: 960, num_ports: 964, abi_ver: 968, time_created: 976 });

/// `struct verbs_device_ops`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct verbs_device_ops {
    pub name: *const c_char,
    pub match_min_abi_version: u32,
    pub match_max_abi_version: u32,
    pub match_table: *const verbs_match_ent,
    pub static_providers: *const *mut verbs_device_ops,
    pub match_device: Option<unsafe extern "C" fn(*mut verbs_sysfs_dev) -> bool>,
    pub alloc_context:
        Option<unsafe extern "C" fn(*mut ibv_device, c_int, *mut c_void) -> *mut verbs_context>,
    pub import_context: Option<unsafe extern "C" fn(*mut ibv_device, c_int) -> *mut verbs_context>,
    pub alloc_device: Option<unsafe extern "C" fn(*mut verbs_sysfs_dev) -> *mut verbs_device>,
    pub uninit_device: Option<unsafe extern "C" fn(*mut verbs_device)>,
}
layout!(verbs_device_ops, 72, { name: 0, match_min_abi_version: 8, match_max_abi_version: 12, match_table: 16, static_providers: 24, match_device: 32, alloc_context: 40, import_context: 48, alloc_device: 56, uninit_device: 64 });

/// `struct verbs_device`.
#[repr(C)]
pub struct verbs_device {
    pub device: ibv_device,
    pub ops: *const verbs_device_ops,
    pub refcount: AtomicI32,
    pub entry: list_node,
    pub sysfs: *mut verbs_sysfs_dev,
    pub core_support: u64,
}
layout!(verbs_device, 712, { device: 0, ops: 664, refcount: 672, entry: 680, sysfs: 696, core_support: 704 });

pub const VERBS_LOG_LEVEL_NONE: c_uint = 0;
pub const VERBS_LOG_ERR: c_uint = 1;
pub const VERBS_LOG_WARN: c_uint = 2;
pub const VERBS_LOG_INFO: c_uint = 3;
pub const VERBS_LOG_DEBUG: c_uint = 4;
