//! Counters and the rest: structs and constants of the kernel ABI (linux-libc-dev,
//! `rdma/ib_user_verbs.h` and its neighbours).
#![allow(missing_docs)] // names are those of the kernel header

use super::prelude::*;

pub const IB_UVERBS_CREATE_QP_SUP_COMP_MASK: c_uint = 1;

/// `enum ib_uverbs_read_counters_flags`.
pub type ib_uverbs_read_counters_flags = c_uint;
pub const IB_UVERBS_READ_COUNTERS_PREFER_CACHED: ib_uverbs_read_counters_flags = 1;

pub const IB_PATH_GMP: c_uint = 1;
pub const IB_PATH_PRIMARY: c_uint = 2;
pub const IB_PATH_ALTERNATE: c_uint = 4;
pub const IB_PATH_OUTBOUND: c_uint = 8;
pub const IB_PATH_INBOUND: c_uint = 0x10;
pub const IB_PATH_INBOUND_REVERSE: c_uint = 0x20;
pub const IB_PATH_BIDIRECTIONAL: c_uint = 40;
