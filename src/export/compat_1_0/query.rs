//! Queries: ibv_query_device(3), ibv_query_port(3), ibv_query_gid(3), ibv_query_pkey(3) of 1.0.
//! Their answers are laid out as today's; of a port 1.0 knew the first 48 bytes.

use super::{context::real, layout::ibv_context_1_0, ret};
use crate::export::{gid, pkey, port};
use crate::symver;
use kit::abi::*;
use std::ffi::c_int;

unsafe extern "C" fn query_device(
    context: *mut ibv_context_1_0,
    attr: *mut ibv_device_attr,
) -> c_int {
    // SAFETY: the caller passes an open context and room for the attributes, or NULL.
    unsafe { ret::code_of(real(context), |open| port::query_device(open, attr)) }
}
symver!(old query_device => "ibv_query_device", "IBVERBS_1.0");

unsafe extern "C" fn query_port(
    context: *mut ibv_context_1_0,
    port_num: u8,
    attr: *mut _compat_ibv_port_attr,
) -> c_int {
    // SAFETY: as above.
    unsafe { ret::code_of(real(context), |open| port::query_port(open, port_num, attr)) }
}
symver!(old query_port => "ibv_query_port", "IBVERBS_1.0");

unsafe extern "C" fn query_gid(
    context: *mut ibv_context_1_0,
    port_num: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    // SAFETY: as above.
    match unsafe { real(context) } {
        // SAFETY: as above.
        Ok(open) => unsafe { gid::query_gid(open, port_num, index, gid) },
        Err(e) => ret::minus_one(Err(e)),
    }
}
symver!(old query_gid => "ibv_query_gid", "IBVERBS_1.0");

unsafe extern "C" fn query_pkey(
    context: *mut ibv_context_1_0,
    port_num: u8,
    index: c_int,
    pkey: *mut be16,
) -> c_int {
    // SAFETY: as above.
    match unsafe { real(context) } {
        // SAFETY: as above.
        Ok(open) => unsafe { pkey::query_pkey(open, port_num, index, pkey) },
        Err(e) => ret::minus_one(Err(e)),
    }
}
symver!(old query_pkey => "ibv_query_pkey", "IBVERBS_1.0");
