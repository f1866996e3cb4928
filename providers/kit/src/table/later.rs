#![forbid(unsafe_code)]
//! Verbs that came after generation 34: what a provider in Rust has of them.
//!
//! A provider in C of generation 34 has no slots for these verbs, so they stand beside the
//! table. `None` is a verb that the provider leaves out; the library knows what to do then.
#![allow(missing_docs)] // each verb is explained by its man page

use crate::abi::*;
use core::ffi::c_int;

type OnCounter = unsafe extern "C" fn(*mut ibv_comp_cntr, u64) -> c_int;
type OfCounter = unsafe extern "C" fn(*mut ibv_comp_cntr, *mut u64) -> c_int;

/// The verbs. A context that has them was made by the shims of [`crate::provider`], and its
/// objects have the layout of the latest release ([`verbs_qp_own`]).
#[derive(Clone, Copy, Default)]
pub struct Later {
    pub query_port_speed: Option<unsafe extern "C" fn(*mut ibv_context, u32, *mut u64) -> c_int>,
    pub comp_cntr: Option<CompCntr>,
}

/// Completion counters. `query_caps` fills a whole structure.
#[derive(Clone, Copy)]
pub struct CompCntr {
    pub query_caps: unsafe extern "C" fn(*mut ibv_context, *mut ibv_comp_cntr_caps) -> c_int,
    pub create:
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_comp_cntr_init_attr) -> *mut ibv_comp_cntr,
    pub destroy: unsafe extern "C" fn(*mut ibv_comp_cntr) -> c_int,
    pub set: OnCounter,
    pub set_err: OnCounter,
    pub inc: OnCounter,
    pub inc_err: OnCounter,
    pub read: OfCounter,
    pub read_err: OfCounter,
    pub attach: unsafe extern "C" fn(
        *mut ibv_qp,
        *mut ibv_comp_cntr,
        *mut ibv_qp_attach_comp_cntr_attr,
    ) -> c_int,
}
