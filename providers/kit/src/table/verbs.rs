//! Every verb of the table: its slot, its type, its result when a provider leaves it out, and the
//! member of the public context that has the same pointer.
#![allow(missing_docs)] // each verb is explained by its man page

use super::{Table, default::*};
use crate::abi::{kernel::*, *};
use core::ffi::{c_int, c_uint, c_void};
use core::mem::{offset_of, size_of, transmute};
use core::sync::atomic::{AtomicPtr, Ordering};

/// Slots of the table.
pub const SLOTS: usize = size_of::<verbs_context_ops>() / size_of::<*mut c_void>();

/// Writes a pointer to the member of the context, whatever kind of function it is declared as.
macro_rules! write_member {
    ($context:ident, $($member:ident).+, $pointer:expr) => {
        (&raw mut (*$context).$($member).+).cast::<*mut c_void>().write($pointer)
    };
}

macro_rules! verbs {
    ($( $slot:literal $name:ident ( $($arg:ty),* ) $(-> $ret:ty)?, $default:ident $(, mirror $($mirror:ident).+)? ; )*) => {
        /// Slot numbers, which also number the bits of `Private`'s record of unsupported ioctls.
        #[allow(non_upper_case_globals)]
        pub mod slot {
            $( pub const $name: usize = $slot; )*
        }

        $(
            const _: () = assert!(offset_of!(verbs_context_ops, $name) == $slot * size_of::<*mut c_void>());
        )*

        impl Table {
            $(
                /// The verb of that name. Its arguments are those of the C API.
                pub fn $name(&self) -> unsafe extern "C" fn($($arg),*) $(-> $ret)? {
                    // SAFETY: slot and type come from the same line, whose slot was just compared
                    // with the C structure; a slot is never NULL (`Table::new`, `Table::set`).
                    unsafe { transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $ret)?>(self.slot($slot)) }
                }
            )*
        }

        mod defaults {
            use super::*;
            $(
                pub(super) unsafe extern "C" fn $name($(_: $arg),*) $(-> $ret)? {
                    $default()
                }
            )*
        }

        /// The defaults of the slots before a provider fills them. No slot is NULL.
        pub(super) fn defaults() -> [AtomicPtr<c_void>; SLOTS] {
            [$( AtomicPtr::new(defaults::$name as *mut c_void) ),*]
        }

        impl Table {
            /// Takes over the pointers that are not NULL, and shows them in the public members. One
            /// statement for each verb instead of a loop, because this is most of the library's
            /// cost of opening a device.
            ///
            /// # Safety
            /// `context` is the context that this table belongs to.
            pub(super) unsafe fn take(
                &self,
                context: *mut verbs_context,
                given: &[*mut c_void; SLOTS],
            ) {
                $(
                    if !given[$slot].is_null() {
                        self.slots[$slot].store(given[$slot], Ordering::Relaxed);
                        $(
                            // SAFETY: the member is a pointer to a function; the caller vouches
                            // for the context.
                            unsafe { write_member!(context, $($mirror).+, given[$slot]) }
                        )?
                    }
                )*
            }

            /// Shows the table's own pointers in the public members.
            ///
            /// # Safety
            /// `context` is the context that this table belongs to.
            pub(super) unsafe fn mirror(&self, context: *mut verbs_context) {
                $( $(
                    // SAFETY: as in `take`.
                    unsafe { write_member!(context, $($mirror).+, self.slot($slot)) }
                )? )*
            }
        }
    };
}

/// The list of verbs, passed to a macro: slot, name, types of the arguments and of the result, the
/// default, and the public member that mirrors it. Every verb's first argument is its object.
#[macro_export]
macro_rules! each_verb {
    ($then:ident) => { $then! {
    0 advise_mr(*mut ibv_pd, ib_uverbs_advise_mr_advice, u32, *mut ibv_sge, u32) -> c_int, code, mirror advise_mr;
    1 alloc_dm(*mut ibv_context, *mut ibv_alloc_dm_attr) -> *mut ibv_dm, null, mirror alloc_dm;
    2 alloc_mw(*mut ibv_pd, ibv_mw_type) -> *mut ibv_mw, null, mirror context.ops.alloc_mw;
    3 alloc_null_mr(*mut ibv_pd) -> *mut ibv_mr, null, mirror alloc_null_mr;
    4 alloc_parent_domain(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd, null, mirror alloc_parent_domain;
    5 alloc_pd(*mut ibv_context) -> *mut ibv_pd, null, mirror context.ops._compat_alloc_pd;
    6 alloc_td(*mut ibv_context, *mut ibv_td_init_attr) -> *mut ibv_td, null, mirror alloc_td;
    7 async_event(*mut ibv_context, *mut ibv_async_event), nothing, mirror context.ops._compat_async_event;
    8 attach_counters_point_flow(*mut ibv_counters, *mut ibv_counter_attach_attr, *mut ibv_flow) -> c_int, code, mirror attach_counters_point_flow;
    9 attach_mcast(*mut ibv_qp, *const ibv_gid, u16) -> c_int, code, mirror context.ops._compat_attach_mcast;
    10 bind_mw(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> c_int, code, mirror context.ops.bind_mw;
    11 close_xrcd(*mut ibv_xrcd) -> c_int, code, mirror close_xrcd;
    12 cq_event(*mut ibv_cq), nothing, mirror context.ops._compat_cq_event;
    13 create_ah(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah, null, mirror context.ops._compat_create_ah;
    14 create_counters(*mut ibv_context, *mut ibv_counters_init_attr) -> *mut ibv_counters, null, mirror create_counters;
    15 create_cq(*mut ibv_context, c_int, *mut ibv_comp_channel, c_int) -> *mut ibv_cq, null, mirror context.ops._compat_create_cq;
    16 create_cq_ex(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex, null;
    17 create_flow(*mut ibv_qp, *mut ibv_flow_attr) -> *mut ibv_flow, null, mirror ibv_create_flow;
    18 create_flow_action_esp(*mut ibv_context, *mut ibv_flow_action_esp_attr) -> *mut ibv_flow_action, null, mirror create_flow_action_esp;
    19 create_qp(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp, null, mirror context.ops._compat_create_qp;
    20 create_qp_ex(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp, null, mirror create_qp_ex;
    21 create_rwq_ind_table(*mut ibv_context, *mut ibv_rwq_ind_table_init_attr) -> *mut ibv_rwq_ind_table, null, mirror create_rwq_ind_table;
    22 create_srq(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq, null, mirror context.ops._compat_create_srq;
    23 create_srq_ex(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq, null, mirror create_srq_ex;
    24 create_wq(*mut ibv_context, *mut ibv_wq_init_attr) -> *mut ibv_wq, null, mirror create_wq;
    25 dealloc_mw(*mut ibv_mw) -> c_int, code, mirror context.ops.dealloc_mw;
    26 dealloc_pd(*mut ibv_pd) -> c_int, code, mirror context.ops._compat_dealloc_pd;
    27 dealloc_td(*mut ibv_td) -> c_int, code, mirror dealloc_td;
    28 dereg_mr(*mut verbs_mr) -> c_int, code, mirror context.ops._compat_dereg_mr;
    29 destroy_ah(*mut ibv_ah) -> c_int, code, mirror context.ops._compat_destroy_ah;
    30 destroy_counters(*mut ibv_counters) -> c_int, code, mirror destroy_counters;
    31 destroy_cq(*mut ibv_cq) -> c_int, code, mirror context.ops._compat_destroy_cq;
    32 destroy_flow(*mut ibv_flow) -> c_int, code, mirror ibv_destroy_flow;
    33 destroy_flow_action(*mut ibv_flow_action) -> c_int, code, mirror destroy_flow_action;
    34 destroy_qp(*mut ibv_qp) -> c_int, code, mirror context.ops._compat_destroy_qp;
    35 destroy_rwq_ind_table(*mut ibv_rwq_ind_table) -> c_int, code, mirror destroy_rwq_ind_table;
    36 destroy_srq(*mut ibv_srq) -> c_int, code, mirror context.ops._compat_destroy_srq;
    37 destroy_wq(*mut ibv_wq) -> c_int, code, mirror destroy_wq;
    38 detach_mcast(*mut ibv_qp, *const ibv_gid, u16) -> c_int, code, mirror context.ops._compat_detach_mcast;
    39 free_context(*mut ibv_context), nothing;
    40 free_dm(*mut ibv_dm) -> c_int, code, mirror free_dm;
    41 get_srq_num(*mut ibv_srq, *mut u32) -> c_int, code, mirror get_srq_num;
    42 import_dm(*mut ibv_context, u32) -> *mut ibv_dm, null;
    43 import_mr(*mut ibv_pd, u32) -> *mut ibv_mr, null;
    44 import_pd(*mut ibv_context, u32) -> *mut ibv_pd, null;
    45 modify_cq(*mut ibv_cq, *mut ibv_modify_cq_attr) -> c_int, code, mirror modify_cq;
    46 modify_flow_action_esp(*mut ibv_flow_action, *mut ibv_flow_action_esp_attr) -> c_int, code, mirror modify_flow_action_esp;
    47 modify_qp(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int, code, mirror context.ops._compat_modify_qp;
    48 modify_qp_rate_limit(*mut ibv_qp, *mut ibv_qp_rate_limit_attr) -> c_int, code, mirror modify_qp_rate_limit;
    49 modify_srq(*mut ibv_srq, *mut ibv_srq_attr, c_int) -> c_int, code, mirror context.ops._compat_modify_srq;
    50 modify_wq(*mut ibv_wq, *mut ibv_wq_attr) -> c_int, code, mirror modify_wq;
    51 open_qp(*mut ibv_context, *mut ibv_qp_open_attr) -> *mut ibv_qp, null, mirror open_qp;
    52 open_xrcd(*mut ibv_context, *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd, null, mirror open_xrcd;
    53 poll_cq(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int, code, mirror context.ops.poll_cq;
    54 post_recv(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int, code, mirror context.ops.post_recv;
    55 post_send(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int, code, mirror context.ops.post_send;
    56 post_srq_ops(*mut ibv_srq, *mut ibv_ops_wr, *mut *mut ibv_ops_wr) -> c_int, code, mirror post_srq_ops;
    57 post_srq_recv(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int, code, mirror context.ops.post_srq_recv;
    58 query_device_ex(*mut ibv_context, *const ibv_query_device_ex_input, *mut ibv_device_attr_ex, usize) -> c_int, code, mirror query_device_ex;
    59 query_ece(*mut ibv_qp, *mut ibv_ece) -> c_int, code;
    60 query_port(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int, code;
    61 query_qp(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int, code, mirror context.ops._compat_query_qp;
    62 query_qp_data_in_order(*mut ibv_qp, ibv_wr_opcode, u32) -> c_int, zero;
    63 query_rt_values(*mut ibv_context, *mut ibv_values_ex) -> c_int, code, mirror query_rt_values;
    64 query_srq(*mut ibv_srq, *mut ibv_srq_attr) -> c_int, code, mirror context.ops._compat_query_srq;
    65 read_counters(*mut ibv_counters, *mut u64, u32, u32) -> c_int, code, mirror read_counters;
    66 reg_dm_mr(*mut ibv_pd, *mut ibv_dm, u64, usize, c_uint) -> *mut ibv_mr, null, mirror reg_dm_mr;
    67 reg_dmabuf_mr(*mut ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ibv_mr, null;
    68 reg_mr(*mut ibv_pd, *mut c_void, usize, u64, c_int) -> *mut ibv_mr, null, mirror context.ops._compat_reg_mr;
    69 req_notify_cq(*mut ibv_cq, c_int) -> c_int, code, mirror context.ops.req_notify_cq;
    70 rereg_mr(*mut verbs_mr, c_int, *mut ibv_pd, *mut c_void, usize, c_int) -> c_int, minus_one, mirror context.ops._compat_rereg_mr;
    71 resize_cq(*mut ibv_cq, c_int) -> c_int, code, mirror context.ops._compat_resize_cq;
    72 set_ece(*mut ibv_qp, *mut ibv_ece) -> c_int, code;
    73 unimport_dm(*mut ibv_dm), nothing;
    74 unimport_mr(*mut ibv_mr), nothing;
    75 unimport_pd(*mut ibv_pd), nothing;
} };
}

each_verb!(verbs);
