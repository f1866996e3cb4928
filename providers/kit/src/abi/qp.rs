//! Queue pairs: ibv_create_qp(3), ibv_create_qp_ex(3), ibv_modify_qp(3), ibv_wr_post(3).
#![allow(missing_docs)] // member names are those of the C API; the man pages named above explain them

use super::prelude::*;

/// `enum ibv_qp_type`.
pub type ibv_qp_type = c_uint;
pub const IBV_QPT_RC: ibv_qp_type = 2;
pub const IBV_QPT_UC: ibv_qp_type = 3;
pub const IBV_QPT_UD: ibv_qp_type = 4;
pub const IBV_QPT_RAW_PACKET: ibv_qp_type = 8;
pub const IBV_QPT_XRC_SEND: ibv_qp_type = 9;
pub const IBV_QPT_XRC_RECV: ibv_qp_type = 10;
pub const IBV_QPT_DRIVER: ibv_qp_type = 255;

/// `struct ibv_qp_cap`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct ibv_qp_cap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}
layout!(ibv_qp_cap, 20, { max_send_wr: 0, max_recv_wr: 4, max_send_sge: 8, max_recv_sge: 12, max_inline_data: 16 });

/// `struct ibv_qp_init_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_qp_init_attr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub cap: ibv_qp_cap,
    pub qp_type: ibv_qp_type,
    pub sq_sig_all: c_int,
}
layout!(ibv_qp_init_attr, 64, { qp_context: 0, send_cq: 8, recv_cq: 16, srq: 24, cap: 32, qp_type: 52, sq_sig_all: 56 });

/// `enum ibv_qp_init_attr_mask`.
pub type ibv_qp_init_attr_mask = c_uint;
pub const IBV_QP_INIT_ATTR_PD: ibv_qp_init_attr_mask = 1;
pub const IBV_QP_INIT_ATTR_XRCD: ibv_qp_init_attr_mask = 2;
pub const IBV_QP_INIT_ATTR_CREATE_FLAGS: ibv_qp_init_attr_mask = 4;
pub const IBV_QP_INIT_ATTR_MAX_TSO_HEADER: ibv_qp_init_attr_mask = 8;
pub const IBV_QP_INIT_ATTR_IND_TABLE: ibv_qp_init_attr_mask = 0x10;
pub const IBV_QP_INIT_ATTR_RX_HASH: ibv_qp_init_attr_mask = 0x20;
pub const IBV_QP_INIT_ATTR_SEND_OPS_FLAGS: ibv_qp_init_attr_mask = 0x40;

/// `enum ibv_qp_create_flags`.
pub type ibv_qp_create_flags = c_uint;
pub const IBV_QP_CREATE_BLOCK_SELF_MCAST_LB: ibv_qp_create_flags = 2;
pub const IBV_QP_CREATE_SCATTER_FCS: ibv_qp_create_flags = 0x100;
pub const IBV_QP_CREATE_CVLAN_STRIPPING: ibv_qp_create_flags = 0x200;
pub const IBV_QP_CREATE_SOURCE_QPN: ibv_qp_create_flags = 0x400;
pub const IBV_QP_CREATE_PCI_WRITE_END_PADDING: ibv_qp_create_flags = 0x800;

/// `enum ibv_qp_create_send_ops_flags`.
pub type ibv_qp_create_send_ops_flags = c_uint;
pub const IBV_QP_EX_WITH_RDMA_WRITE: ibv_qp_create_send_ops_flags = 1;
pub const IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM: ibv_qp_create_send_ops_flags = 2;
pub const IBV_QP_EX_WITH_SEND: ibv_qp_create_send_ops_flags = 4;
pub const IBV_QP_EX_WITH_SEND_WITH_IMM: ibv_qp_create_send_ops_flags = 8;
pub const IBV_QP_EX_WITH_RDMA_READ: ibv_qp_create_send_ops_flags = 0x10;
pub const IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP: ibv_qp_create_send_ops_flags = 0x20;
pub const IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD: ibv_qp_create_send_ops_flags = 0x40;
pub const IBV_QP_EX_WITH_LOCAL_INV: ibv_qp_create_send_ops_flags = 0x80;
pub const IBV_QP_EX_WITH_BIND_MW: ibv_qp_create_send_ops_flags = 0x100;
pub const IBV_QP_EX_WITH_SEND_WITH_INV: ibv_qp_create_send_ops_flags = 0x200;
pub const IBV_QP_EX_WITH_TSO: ibv_qp_create_send_ops_flags = 0x400;
pub const IBV_QP_EX_WITH_FLUSH: ibv_qp_create_send_ops_flags = 0x800;
pub const IBV_QP_EX_WITH_ATOMIC_WRITE: ibv_qp_create_send_ops_flags = 0x1000;

/// `struct ibv_rx_hash_conf`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_rx_hash_conf {
    pub rx_hash_function: u8,
    pub rx_hash_key_len: u8,
    pub rx_hash_key: *mut u8,
    pub rx_hash_fields_mask: u64,
}
layout!(ibv_rx_hash_conf, 24, { rx_hash_function: 0, rx_hash_key_len: 1, rx_hash_key: 8, rx_hash_fields_mask: 16 });

/// `struct ibv_qp_init_attr_ex`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_qp_init_attr_ex {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub cap: ibv_qp_cap,
    pub qp_type: ibv_qp_type,
    pub sq_sig_all: c_int,
    pub comp_mask: u32,
    pub pd: *mut ibv_pd,
    pub xrcd: *mut ibv_xrcd,
    pub create_flags: u32,
    pub max_tso_header: u16,
    pub rwq_ind_tbl: *mut ibv_rwq_ind_table,
    pub rx_hash_conf: ibv_rx_hash_conf,
    pub source_qpn: u32,
    pub send_ops_flags: u64,
}
layout!(ibv_qp_init_attr_ex, 136, { qp_context: 0, send_cq: 8, recv_cq: 16, srq: 24, cap: 32, qp_type: 52, sq_sig_all: 56, comp_mask: 60, pd: 64, xrcd: 72, create_flags: 80, max_tso_header: 84, rwq_ind_tbl: 88, rx_hash_conf: 96, source_qpn: 120, send_ops_flags: 128 });

/// `enum ibv_qp_open_attr_mask`.
pub type ibv_qp_open_attr_mask = c_uint;
pub const IBV_QP_OPEN_ATTR_NUM: ibv_qp_open_attr_mask = 1;
pub const IBV_QP_OPEN_ATTR_XRCD: ibv_qp_open_attr_mask = 2;
pub const IBV_QP_OPEN_ATTR_CONTEXT: ibv_qp_open_attr_mask = 4;
pub const IBV_QP_OPEN_ATTR_TYPE: ibv_qp_open_attr_mask = 8;
pub const IBV_QP_OPEN_ATTR_RESERVED: ibv_qp_open_attr_mask = 0x10;

/// `struct ibv_qp_open_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_qp_open_attr {
    pub comp_mask: u32,
    pub qp_num: u32,
    pub xrcd: *mut ibv_xrcd,
    pub qp_context: *mut c_void,
    pub qp_type: ibv_qp_type,
}
layout!(ibv_qp_open_attr, 32, { comp_mask: 0, qp_num: 4, xrcd: 8, qp_context: 16, qp_type: 24 });

/// `enum ibv_qp_attr_mask`.
pub type ibv_qp_attr_mask = c_uint;
pub const IBV_QP_STATE: ibv_qp_attr_mask = 1;
pub const IBV_QP_CUR_STATE: ibv_qp_attr_mask = 2;
pub const IBV_QP_EN_SQD_ASYNC_NOTIFY: ibv_qp_attr_mask = 4;
pub const IBV_QP_ACCESS_FLAGS: ibv_qp_attr_mask = 8;
pub const IBV_QP_PKEY_INDEX: ibv_qp_attr_mask = 0x10;
pub const IBV_QP_PORT: ibv_qp_attr_mask = 0x20;
pub const IBV_QP_QKEY: ibv_qp_attr_mask = 0x40;
pub const IBV_QP_AV: ibv_qp_attr_mask = 0x80;
pub const IBV_QP_PATH_MTU: ibv_qp_attr_mask = 0x100;
pub const IBV_QP_TIMEOUT: ibv_qp_attr_mask = 0x200;
pub const IBV_QP_RETRY_CNT: ibv_qp_attr_mask = 0x400;
pub const IBV_QP_RNR_RETRY: ibv_qp_attr_mask = 0x800;
pub const IBV_QP_RQ_PSN: ibv_qp_attr_mask = 0x1000;
pub const IBV_QP_MAX_QP_RD_ATOMIC: ibv_qp_attr_mask = 0x2000;
pub const IBV_QP_ALT_PATH: ibv_qp_attr_mask = 0x4000;
pub const IBV_QP_MIN_RNR_TIMER: ibv_qp_attr_mask = 0x8000;
pub const IBV_QP_SQ_PSN: ibv_qp_attr_mask = 0x10000;
pub const IBV_QP_MAX_DEST_RD_ATOMIC: ibv_qp_attr_mask = 0x20000;
pub const IBV_QP_PATH_MIG_STATE: ibv_qp_attr_mask = 0x40000;
pub const IBV_QP_CAP: ibv_qp_attr_mask = 0x80000;
pub const IBV_QP_DEST_QPN: ibv_qp_attr_mask = 0x100000;
pub const IBV_QP_RATE_LIMIT: ibv_qp_attr_mask = 0x2000000;

/// `enum ibv_query_qp_data_in_order_flags`.
pub type ibv_query_qp_data_in_order_flags = c_uint;
pub const IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS: ibv_query_qp_data_in_order_flags = 1;
pub const IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY: ibv_query_qp_data_in_order_flags = 2;

/// `enum ibv_query_qp_data_in_order_caps`.
pub type ibv_query_qp_data_in_order_caps = c_uint;
pub const IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG: ibv_query_qp_data_in_order_caps = 1;
pub const IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES: ibv_query_qp_data_in_order_caps = 2;

/// `enum ibv_qp_state`.
pub type ibv_qp_state = c_uint;
pub const IBV_QPS_RESET: ibv_qp_state = 0;
pub const IBV_QPS_INIT: ibv_qp_state = 1;
pub const IBV_QPS_RTR: ibv_qp_state = 2;
pub const IBV_QPS_RTS: ibv_qp_state = 3;
pub const IBV_QPS_SQD: ibv_qp_state = 4;
pub const IBV_QPS_SQE: ibv_qp_state = 5;
pub const IBV_QPS_ERR: ibv_qp_state = 6;
pub const IBV_QPS_UNKNOWN: ibv_qp_state = 7;

/// `enum ibv_mig_state`.
pub type ibv_mig_state = c_uint;
pub const IBV_MIG_MIGRATED: ibv_mig_state = 0;
pub const IBV_MIG_REARM: ibv_mig_state = 1;
pub const IBV_MIG_ARMED: ibv_mig_state = 2;

/// `struct ibv_qp_attr`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct ibv_qp_attr {
    pub qp_state: ibv_qp_state,
    pub cur_qp_state: ibv_qp_state,
    pub path_mtu: ibv_mtu,
    pub path_mig_state: ibv_mig_state,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_uint,
    pub cap: ibv_qp_cap,
    pub ah_attr: ibv_ah_attr,
    pub alt_ah_attr: ibv_ah_attr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}
layout!(ibv_qp_attr, 144, { qp_state: 0, cur_qp_state: 4, path_mtu: 8, path_mig_state: 12, qkey: 16, rq_psn: 20, sq_psn: 24, dest_qp_num: 28, qp_access_flags: 32, cap: 36, ah_attr: 56, alt_ah_attr: 88, pkey_index: 120, alt_pkey_index: 122, en_sqd_async_notify: 124, sq_draining: 125, max_rd_atomic: 126, max_dest_rd_atomic: 127, min_rnr_timer: 128, port_num: 129, timeout: 130, retry_cnt: 131, rnr_retry: 132, alt_port_num: 133, alt_timeout: 134, rate_limit: 136 });

/// `struct ibv_qp_rate_limit_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_qp_rate_limit_attr {
    pub rate_limit: u32,
    pub max_burst_sz: u32,
    pub typical_pkt_sz: u16,
    pub comp_mask: u32,
}
layout!(ibv_qp_rate_limit_attr, 16, { rate_limit: 0, max_burst_sz: 4, typical_pkt_sz: 8, comp_mask: 12 });

/// `struct ibv_ece`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_ece {
    pub vendor_id: u32,
    pub options: u32,
    pub comp_mask: u32,
}
layout!(ibv_ece, 12, { vendor_id: 0, options: 4, comp_mask: 8 });

/// `struct ibv_qp`.
#[repr(C)]
pub struct ibv_qp {
    pub context: *mut ibv_context,
    pub qp_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub handle: u32,
    pub qp_num: u32,
    pub state: ibv_qp_state,
    pub qp_type: ibv_qp_type,
    pub mutex: libc::pthread_mutex_t,
    pub cond: libc::pthread_cond_t,
    pub events_completed: u32,
}
layout!(ibv_qp, 160 + MUTEX_GROWTH, { context: 0, qp_context: 8, pd: 16, send_cq: 24, recv_cq: 32, srq: 40, handle: 48, qp_num: 52, state: 56, qp_type: 60, mutex: 64, cond: 104 + MUTEX_GROWTH, events_completed: 152 + MUTEX_GROWTH });

/// `struct ibv_qp_ex`.
#[repr(C)]
pub struct ibv_qp_ex {
    pub qp_base: ibv_qp,
    pub comp_mask: u64,
    pub wr_id: u64,
    pub wr_flags: c_uint,
    pub wr_atomic_cmp_swp: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u64, u64)>,
    pub wr_atomic_fetch_add: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u64)>,
    pub wr_bind_mw:
        Option<unsafe extern "C" fn(*mut ibv_qp_ex, *mut ibv_mw, u32, *const ibv_mw_bind_info)>,
    pub wr_local_inv: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32)>,
    pub wr_rdma_read: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64)>,
    pub wr_rdma_write: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64)>,
    pub wr_rdma_write_imm: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, be32)>,
    pub wr_send: Option<unsafe extern "C" fn(*mut ibv_qp_ex)>,
    pub wr_send_imm: Option<unsafe extern "C" fn(*mut ibv_qp_ex, be32)>,
    pub wr_send_inv: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32)>,
    pub wr_send_tso: Option<unsafe extern "C" fn(*mut ibv_qp_ex, *mut c_void, u16, u16)>,
    pub wr_set_ud_addr: Option<unsafe extern "C" fn(*mut ibv_qp_ex, *mut ibv_ah, u32, u32)>,
    pub wr_set_xrc_srqn: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32)>,
    pub wr_set_inline_data: Option<unsafe extern "C" fn(*mut ibv_qp_ex, *mut c_void, usize)>,
    pub wr_set_inline_data_list:
        Option<unsafe extern "C" fn(*mut ibv_qp_ex, usize, *const ibv_data_buf)>,
    pub wr_set_sge: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u32)>,
    pub wr_set_sge_list: Option<unsafe extern "C" fn(*mut ibv_qp_ex, usize, *const ibv_sge)>,
    pub wr_start: Option<unsafe extern "C" fn(*mut ibv_qp_ex)>,
    pub wr_complete: Option<unsafe extern "C" fn(*mut ibv_qp_ex) -> c_int>,
    pub wr_abort: Option<unsafe extern "C" fn(*mut ibv_qp_ex)>,
    pub wr_atomic_write: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, *const c_void)>,
    /// Missing in queue pairs of providers of generation 34, whose [`verbs_qp`] has its `comp_mask`
    /// in this place.
    pub wr_flush: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, usize, u8, u8)>,
}
layout!(ibv_qp_ex, 360 + MUTEX_GROWTH, { qp_base: 0, comp_mask: 160 + MUTEX_GROWTH, wr_id: 168 + MUTEX_GROWTH, wr_flags: 176 + MUTEX_GROWTH, wr_atomic_cmp_swp: 184 + MUTEX_GROWTH, wr_atomic_fetch_add: 192 + MUTEX_GROWTH, wr_bind_mw: 200 + MUTEX_GROWTH, wr_local_inv: 208 + MUTEX_GROWTH, wr_rdma_read: 216 + MUTEX_GROWTH, wr_rdma_write: 224 + MUTEX_GROWTH, wr_rdma_write_imm: 232 + MUTEX_GROWTH, wr_send: 240 + MUTEX_GROWTH, wr_send_imm: 248 + MUTEX_GROWTH, wr_send_inv: 256 + MUTEX_GROWTH, wr_send_tso: 264 + MUTEX_GROWTH, wr_set_ud_addr: 272 + MUTEX_GROWTH, wr_set_xrc_srqn: 280 + MUTEX_GROWTH, wr_set_inline_data: 288 + MUTEX_GROWTH, wr_set_inline_data_list: 296 + MUTEX_GROWTH, wr_set_sge: 304 + MUTEX_GROWTH, wr_set_sge_list: 312 + MUTEX_GROWTH, wr_start: 320 + MUTEX_GROWTH, wr_complete: 328 + MUTEX_GROWTH, wr_abort: 336 + MUTEX_GROWTH, wr_atomic_write: 344 + MUTEX_GROWTH, wr_flush: 352 + MUTEX_GROWTH });

/// `enum verbs_qp_mask`.
pub type verbs_qp_mask = c_uint;
pub const VERBS_QP_XRCD: verbs_qp_mask = 1;
pub const VERBS_QP_EX: verbs_qp_mask = 2;

/// Bytes of `struct ibv_qp_ex` in generation 34.
pub const QP_EX_SIZE_34: usize = 352 + MUTEX_GROWTH;

/// Unnamed union inside the struct of that name.
#[repr(C)]
pub union verbs_qp_u0 {
    pub qp: ManuallyDrop<ibv_qp>,
    /// The part of an `ibv_qp_ex` that generation 34 has.
    pub qp_ex: [u64; QP_EX_SIZE_34 / size_of::<u64>()],
}
layout!(verbs_qp_u0, 352 + MUTEX_GROWTH, { qp: 0, qp_ex: 0 });

/// `struct verbs_qp` of providers in C, generation 34.
#[repr(C)]
pub struct verbs_qp {
    pub u0: verbs_qp_u0,
    pub comp_mask: u32,
    pub xrcd: *mut verbs_xrcd,
}
layout!(verbs_qp, 368 + MUTEX_GROWTH, { u0: 0, comp_mask: 352 + MUTEX_GROWTH, xrcd: 360 + MUTEX_GROWTH });

/// The `struct verbs_qp` of releases since 45, which providers in Rust have (the shims).
#[repr(C)]
pub struct verbs_qp_own {
    pub qp_ex: ibv_qp_ex,
    pub comp_mask: u32,
    pub xrcd: *mut verbs_xrcd,
}
layout!(verbs_qp_own, 376 + MUTEX_GROWTH, { qp_ex: 0, comp_mask: 360 + MUTEX_GROWTH, xrcd: 368 + MUTEX_GROWTH });
