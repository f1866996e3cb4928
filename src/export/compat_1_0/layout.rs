//! The objects as programs of libibverbs 1.0 see them. Sizes and offsets are asserted.
//!
//! Names are those of the C API with `_1_0`. Where programs look no further, the library keeps
//! today's object (`real_…`).

use kit::abi::*;
use kit::sys::pthread::{pthread_cond_t, pthread_mutex_t};
use std::ffi::{c_int, c_void};

macro_rules! layout {
    ($t:ty, $size:expr, { $($f:ident: $off:expr),* $(,)? }) => {
        const _: () = {
            assert!(size_of::<$t>() == $size);
            $( assert!(std::mem::offset_of!($t, $f) == $off); )*
        };
    };
}

/// A verb that only the library itself called.
type UncalledVerb = Option<unsafe extern "C" fn()>;

/// The type of `ibv_post_recv` and `ibv_post_srq_recv` for an object.
type PostReceives<T> =
    Option<unsafe extern "C" fn(*mut T, *mut ibv_recv_wr_1_0, *mut *mut ibv_recv_wr_1_0) -> c_int>;

#[repr(C)]
pub struct ibv_device_1_0 {
    pub obsolete_sysfs_dev: *mut c_void,
    pub obsolete_sysfs_ibdev: *mut c_void,
    pub real_device: *mut ibv_device,
    pub ops: [UncalledVerb; 2],
}
layout!(ibv_device_1_0, 40, { obsolete_sysfs_dev: 0, obsolete_sysfs_ibdev: 8, real_device: 16, ops: 24 });

/// The five verbs that programs call, inline, have a type; the others are NULL.
#[repr(C)]
pub struct ibv_context_ops_1_0 {
    pub query_device: UncalledVerb,
    pub query_port: UncalledVerb,
    pub alloc_pd: UncalledVerb,
    pub dealloc_pd: UncalledVerb,
    pub reg_mr: UncalledVerb,
    pub dereg_mr: UncalledVerb,
    pub create_cq: UncalledVerb,
    pub poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq_1_0, c_int, *mut ibv_wc) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq_1_0, c_int) -> c_int>,
    pub cq_event: UncalledVerb,
    pub resize_cq: UncalledVerb,
    pub destroy_cq: UncalledVerb,
    pub create_srq: UncalledVerb,
    pub modify_srq: UncalledVerb,
    pub query_srq: UncalledVerb,
    pub destroy_srq: UncalledVerb,
    pub post_srq_recv: PostReceives<ibv_srq_1_0>,
    pub create_qp: UncalledVerb,
    pub query_qp: UncalledVerb,
    pub modify_qp: UncalledVerb,
    pub destroy_qp: UncalledVerb,
    pub post_send: Option<
        unsafe extern "C" fn(
            *mut ibv_qp_1_0,
            *mut ibv_send_wr_1_0,
            *mut *mut ibv_send_wr_1_0,
        ) -> c_int,
    >,
    pub post_recv: PostReceives<ibv_qp_1_0>,
    pub create_ah: UncalledVerb,
    pub destroy_ah: UncalledVerb,
    pub attach_mcast: UncalledVerb,
    pub detach_mcast: UncalledVerb,
}
layout!(ibv_context_ops_1_0, 216, {
    query_device: 0, query_port: 8, alloc_pd: 16, dealloc_pd: 24, reg_mr: 32, dereg_mr: 40,
    create_cq: 48, poll_cq: 56, req_notify_cq: 64, cq_event: 72, resize_cq: 80, destroy_cq: 88,
    create_srq: 96, modify_srq: 104, query_srq: 112, destroy_srq: 120, post_srq_recv: 128,
    create_qp: 136, query_qp: 144, modify_qp: 152, destroy_qp: 160, post_send: 168,
    post_recv: 176, create_ah: 184, destroy_ah: 192, attach_mcast: 200, detach_mcast: 208,
});

#[repr(C)]
pub struct ibv_context_1_0 {
    pub device: *mut ibv_device_1_0,
    pub ops: ibv_context_ops_1_0,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub real_context: *mut ibv_context,
}
layout!(ibv_context_1_0, 248, {
    device: 0, ops: 8, cmd_fd: 224, async_fd: 228, num_comp_vectors: 232, real_context: 240,
});

#[repr(C)]
pub struct ibv_pd_1_0 {
    pub context: *mut ibv_context_1_0,
    pub handle: u32,
    pub real_pd: *mut ibv_pd,
}
layout!(ibv_pd_1_0, 24, { context: 0, handle: 8, real_pd: 16 });

#[repr(C)]
pub struct ibv_mr_1_0 {
    pub context: *mut ibv_context_1_0,
    pub pd: *mut ibv_pd_1_0,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
    pub real_mr: *mut ibv_mr,
}
layout!(ibv_mr_1_0, 40, { context: 0, pd: 8, handle: 16, lkey: 20, rkey: 24, real_mr: 32 });

#[repr(C)]
pub struct ibv_ah_1_0 {
    pub context: *mut ibv_context_1_0,
    pub pd: *mut ibv_pd_1_0,
    pub handle: u32,
    pub real_ah: *mut ibv_ah,
}
layout!(ibv_ah_1_0, 32, { context: 0, pd: 8, handle: 16, real_ah: 24 });

#[repr(C)]
pub struct ibv_cq_1_0 {
    pub context: *mut ibv_context_1_0,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
    pub real_cq: *mut ibv_cq,
}
layout!(ibv_cq_1_0, 128 + MUTEX_GROWTH, {
    context: 0, cq_context: 8, handle: 16, cqe: 20, mutex: 24, cond: 64 + MUTEX_GROWTH,
    comp_events_completed: 112 + MUTEX_GROWTH, async_events_completed: 116 + MUTEX_GROWTH,
    real_cq: 120 + MUTEX_GROWTH,
});

#[repr(C)]
pub struct ibv_srq_1_0 {
    pub context: *mut ibv_context_1_0,
    pub srq_context: *mut c_void,
    pub pd: *mut ibv_pd_1_0,
    pub handle: u32,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
    pub real_srq: *mut ibv_srq,
}
layout!(ibv_srq_1_0, 136 + MUTEX_GROWTH, {
    context: 0, srq_context: 8, pd: 16, handle: 24, mutex: 32, cond: 72 + MUTEX_GROWTH,
    events_completed: 120 + MUTEX_GROWTH, real_srq: 128 + MUTEX_GROWTH,
});

#[repr(C)]
pub struct ibv_qp_1_0 {
    pub context: *mut ibv_context_1_0,
    pub qp_context: *mut c_void,
    pub pd: *mut ibv_pd_1_0,
    pub send_cq: *mut ibv_cq_1_0,
    pub recv_cq: *mut ibv_cq_1_0,
    pub srq: *mut ibv_srq_1_0,
    pub handle: u32,
    pub qp_num: u32,
    pub state: ibv_qp_state,
    pub qp_type: ibv_qp_type,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
    pub real_qp: *mut ibv_qp,
}
layout!(ibv_qp_1_0, 168 + MUTEX_GROWTH, {
    context: 0, qp_context: 8, pd: 16, send_cq: 24, recv_cq: 32, srq: 40, handle: 48, qp_num: 52,
    state: 56, qp_type: 60, mutex: 64, cond: 104 + MUTEX_GROWTH,
    events_completed: 152 + MUTEX_GROWTH, real_qp: 160 + MUTEX_GROWTH,
});

#[repr(C)]
pub struct ibv_qp_init_attr_1_0 {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq_1_0,
    pub recv_cq: *mut ibv_cq_1_0,
    pub srq: *mut ibv_srq_1_0,
    pub cap: ibv_qp_cap,
    pub qp_type: ibv_qp_type,
    pub sq_sig_all: c_int,
}
layout!(ibv_qp_init_attr_1_0, 64, {
    qp_context: 0, send_cq: 8, recv_cq: 16, srq: 24, cap: 32, qp_type: 52, sq_sig_all: 56,
});

/// Where a send request of a datagram goes.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_send_wr_1_0_ud {
    pub ah: *mut ibv_ah_1_0,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}
layout!(ibv_send_wr_1_0_ud, 16, { ah: 0, remote_qpn: 8, remote_qkey: 12 });

#[derive(Clone, Copy)]
#[repr(C)]
pub union ibv_send_wr_1_0_wr {
    pub rdma: ibv_send_wr_wr_rdma,
    pub atomic: ibv_send_wr_wr_atomic,
    pub ud: ibv_send_wr_1_0_ud,
}
layout!(ibv_send_wr_1_0_wr, 32, { rdma: 0, atomic: 0, ud: 0 });

#[repr(C)]
pub struct ibv_send_wr_1_0 {
    pub next: *mut ibv_send_wr_1_0,
    pub wr_id: u64,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub opcode: ibv_wr_opcode,
    pub send_flags: c_int,
    pub imm_data: be32,
    pub wr: ibv_send_wr_1_0_wr,
}
layout!(ibv_send_wr_1_0, 72, {
    next: 0, wr_id: 8, sg_list: 16, num_sge: 24, opcode: 28, send_flags: 32, imm_data: 36, wr: 40,
});

#[repr(C)]
pub struct ibv_recv_wr_1_0 {
    pub next: *mut ibv_recv_wr_1_0,
    pub wr_id: u64,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
}
layout!(ibv_recv_wr_1_0, 32, { next: 0, wr_id: 8, sg_list: 16, num_sge: 24 });
