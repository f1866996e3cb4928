//! Completion queues: ibv_create_cq(3), ibv_create_cq_ex(3), ibv_poll_cq(3).
#![allow(missing_docs)] // member names are those of the C API; the man pages named above explain them

use super::prelude::*;

/// `struct ibv_cq`.
#[repr(C)]
pub struct ibv_cq {
    pub context: *mut ibv_context,
    pub channel: *mut ibv_comp_channel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: libc::pthread_mutex_t,
    pub cond: libc::pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}
layout!(ibv_cq, 128 + MUTEX_GROWTH, { context: 0, channel: 8, cq_context: 16, handle: 24, cqe: 28, mutex: 32, cond: 72 + MUTEX_GROWTH, comp_events_completed: 120 + MUTEX_GROWTH, async_events_completed: 124 + MUTEX_GROWTH });

/// `enum ibv_wc_status`.
pub type ibv_wc_status = c_uint;
pub const IBV_WC_SUCCESS: ibv_wc_status = 0;
pub const IBV_WC_LOC_LEN_ERR: ibv_wc_status = 1;
pub const IBV_WC_LOC_QP_OP_ERR: ibv_wc_status = 2;
pub const IBV_WC_LOC_EEC_OP_ERR: ibv_wc_status = 3;
pub const IBV_WC_LOC_PROT_ERR: ibv_wc_status = 4;
pub const IBV_WC_WR_FLUSH_ERR: ibv_wc_status = 5;
pub const IBV_WC_MW_BIND_ERR: ibv_wc_status = 6;
pub const IBV_WC_BAD_RESP_ERR: ibv_wc_status = 7;
pub const IBV_WC_LOC_ACCESS_ERR: ibv_wc_status = 8;
pub const IBV_WC_REM_INV_REQ_ERR: ibv_wc_status = 9;
pub const IBV_WC_REM_ACCESS_ERR: ibv_wc_status = 10;
pub const IBV_WC_REM_OP_ERR: ibv_wc_status = 11;
pub const IBV_WC_RETRY_EXC_ERR: ibv_wc_status = 12;
pub const IBV_WC_RNR_RETRY_EXC_ERR: ibv_wc_status = 13;
pub const IBV_WC_LOC_RDD_VIOL_ERR: ibv_wc_status = 14;
pub const IBV_WC_REM_INV_RD_REQ_ERR: ibv_wc_status = 15;
pub const IBV_WC_REM_ABORT_ERR: ibv_wc_status = 0x10;
pub const IBV_WC_INV_EECN_ERR: ibv_wc_status = 17;
pub const IBV_WC_INV_EEC_STATE_ERR: ibv_wc_status = 18;
pub const IBV_WC_FATAL_ERR: ibv_wc_status = 19;
pub const IBV_WC_RESP_TIMEOUT_ERR: ibv_wc_status = 20;
pub const IBV_WC_GENERAL_ERR: ibv_wc_status = 21;
pub const IBV_WC_TM_ERR: ibv_wc_status = 22;
pub const IBV_WC_TM_RNDV_INCOMPLETE: ibv_wc_status = 23;

/// `enum ibv_wc_opcode`.
pub type ibv_wc_opcode = c_uint;
pub const IBV_WC_SEND: ibv_wc_opcode = 0;
pub const IBV_WC_RDMA_WRITE: ibv_wc_opcode = 1;
pub const IBV_WC_RDMA_READ: ibv_wc_opcode = 2;
pub const IBV_WC_COMP_SWAP: ibv_wc_opcode = 3;
pub const IBV_WC_FETCH_ADD: ibv_wc_opcode = 4;
pub const IBV_WC_BIND_MW: ibv_wc_opcode = 5;
pub const IBV_WC_LOCAL_INV: ibv_wc_opcode = 6;
pub const IBV_WC_TSO: ibv_wc_opcode = 7;
pub const IBV_WC_FLUSH: ibv_wc_opcode = 8;
pub const IBV_WC_ATOMIC_WRITE: ibv_wc_opcode = 9;
pub const IBV_WC_RECV: ibv_wc_opcode = 0x80;
pub const IBV_WC_RECV_RDMA_WITH_IMM: ibv_wc_opcode = 129;
pub const IBV_WC_TM_ADD: ibv_wc_opcode = 130;
pub const IBV_WC_TM_DEL: ibv_wc_opcode = 131;
pub const IBV_WC_TM_SYNC: ibv_wc_opcode = 132;
pub const IBV_WC_TM_RECV: ibv_wc_opcode = 133;
pub const IBV_WC_TM_NO_TAG: ibv_wc_opcode = 134;
pub const IBV_WC_DRIVER1: ibv_wc_opcode = 135;
pub const IBV_WC_DRIVER2: ibv_wc_opcode = 136;
pub const IBV_WC_DRIVER3: ibv_wc_opcode = 137;

pub const IBV_WC_IP_CSUM_OK_SHIFT: c_uint = 2;

/// `enum ibv_create_cq_wc_flags`.
pub type ibv_create_cq_wc_flags = c_uint;
pub const IBV_WC_EX_WITH_BYTE_LEN: ibv_create_cq_wc_flags = 1;
pub const IBV_WC_EX_WITH_IMM: ibv_create_cq_wc_flags = 2;
pub const IBV_WC_EX_WITH_QP_NUM: ibv_create_cq_wc_flags = 4;
pub const IBV_WC_EX_WITH_SRC_QP: ibv_create_cq_wc_flags = 8;
pub const IBV_WC_EX_WITH_SLID: ibv_create_cq_wc_flags = 0x10;
pub const IBV_WC_EX_WITH_SL: ibv_create_cq_wc_flags = 0x20;
pub const IBV_WC_EX_WITH_DLID_PATH_BITS: ibv_create_cq_wc_flags = 0x40;
pub const IBV_WC_EX_WITH_COMPLETION_TIMESTAMP: ibv_create_cq_wc_flags = 0x80;
pub const IBV_WC_EX_WITH_CVLAN: ibv_create_cq_wc_flags = 0x100;
pub const IBV_WC_EX_WITH_FLOW_TAG: ibv_create_cq_wc_flags = 0x200;
pub const IBV_WC_EX_WITH_TM_INFO: ibv_create_cq_wc_flags = 0x400;
pub const IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK: ibv_create_cq_wc_flags = 0x800;

pub const IBV_WC_STANDARD_FLAGS: c_uint = 127;

pub const IBV_CREATE_CQ_SUP_WC_FLAGS: c_uint = 4095;

/// `enum ibv_wc_flags`.
pub type ibv_wc_flags = c_uint;
pub const IBV_WC_GRH: ibv_wc_flags = 1;
pub const IBV_WC_WITH_IMM: ibv_wc_flags = 2;
pub const IBV_WC_IP_CSUM_OK: ibv_wc_flags = 4;
pub const IBV_WC_WITH_INV: ibv_wc_flags = 8;
pub const IBV_WC_TM_SYNC_REQ: ibv_wc_flags = 0x10;
pub const IBV_WC_TM_MATCH: ibv_wc_flags = 0x20;
pub const IBV_WC_TM_DATA_VALID: ibv_wc_flags = 0x40;

/// Unnamed union inside the struct of that name.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub union ibv_wc_imm {
    pub imm_data: be32,
    pub invalidated_rkey: u32,
}
layout!(ibv_wc_imm, 4, { imm_data: 0, invalidated_rkey: 0 });

/// `struct ibv_wc`.
#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
pub struct ibv_wc {
    pub wr_id: u64,
    pub status: ibv_wc_status,
    pub opcode: ibv_wc_opcode,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm: ibv_wc_imm,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}
layout!(ibv_wc, 48, { wr_id: 0, status: 8, opcode: 12, vendor_err: 16, byte_len: 20, imm: 24, qp_num: 28, src_qp: 32, wc_flags: 36, pkey_index: 40, slid: 42, sl: 44, dlid_path_bits: 45 });

impl From<kernel::ib_uverbs_wc> for ibv_wc {
    /// All at once: of every completion polled it is the larger part of the work.
    #[inline]
    fn from(wc: kernel::ib_uverbs_wc) -> Self {
        use core::mem::offset_of;
        use kernel::ib_uverbs_wc;
        macro_rules! same {
            ($($ours:ident $kernel:ident),*) => {
                const { $( assert!(offset_of!(ibv_wc, $ours) == offset_of!(ib_uverbs_wc, $kernel)); )* }
            };
        }
        same!(wr_id wr_id, status status, opcode opcode, vendor_err vendor_err, byte_len byte_len);
        same!(imm ex, qp_num qp_num, src_qp src_qp, wc_flags wc_flags, pkey_index pkey_index);
        same!(slid slid, sl sl, dlid_path_bits dlid_path_bits);
        // SAFETY: both have the same members at the same places, all of them numbers.
        unsafe { core::mem::transmute::<ib_uverbs_wc, Self>(wc) }
    }
}

/// `struct ibv_poll_cq_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_poll_cq_attr {
    pub comp_mask: u32,
}
layout!(ibv_poll_cq_attr, 4, { comp_mask: 0 });

/// `struct ibv_wc_tm_info`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_wc_tm_info {
    pub tag: u64,
    pub priv_: u32,
}
layout!(ibv_wc_tm_info, 16, { tag: 0, priv_: 8 });

/// `struct ibv_cq_ex`.
#[repr(C)]
pub struct ibv_cq_ex {
    pub context: *mut ibv_context,
    pub channel: *mut ibv_comp_channel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: libc::pthread_mutex_t,
    pub cond: libc::pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
    pub comp_mask: u32,
    pub status: ibv_wc_status,
    pub wr_id: u64,
    pub start_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int>,
    pub next_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int>,
    pub end_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex)>,
    pub read_opcode: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> ibv_wc_opcode>,
    pub read_vendor_err: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
    pub read_byte_len: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
    pub read_imm_data: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> be32>,
    pub read_qp_num: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
    pub read_src_qp: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
    pub read_wc_flags: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> c_uint>,
    pub read_slid: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
    pub read_sl: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u8>,
    pub read_dlid_path_bits: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u8>,
    pub read_completion_ts: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u64>,
    pub read_cvlan: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u16>,
    pub read_flow_tag: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
    pub read_tm_info: Option<unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_wc_tm_info)>,
    pub read_completion_wallclock_ns: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u64>,
}
layout!(ibv_cq_ex, 288 + MUTEX_GROWTH, { context: 0, channel: 8, cq_context: 16, handle: 24, cqe: 28, mutex: 32, cond: 72 + MUTEX_GROWTH, comp_events_completed: 120 + MUTEX_GROWTH, async_events_completed: 124 + MUTEX_GROWTH, comp_mask: 128 + MUTEX_GROWTH, status: 132 + MUTEX_GROWTH, wr_id: 136 + MUTEX_GROWTH, start_poll: 144 + MUTEX_GROWTH, next_poll: 152 + MUTEX_GROWTH, end_poll: 160 + MUTEX_GROWTH, read_opcode: 168 + MUTEX_GROWTH, read_vendor_err: 176 + MUTEX_GROWTH, read_byte_len: 184 + MUTEX_GROWTH, read_imm_data: 192 + MUTEX_GROWTH, read_qp_num: 200 + MUTEX_GROWTH, read_src_qp: 208 + MUTEX_GROWTH, read_wc_flags: 216 + MUTEX_GROWTH, read_slid: 224 + MUTEX_GROWTH, read_sl: 232 + MUTEX_GROWTH, read_dlid_path_bits: 240 + MUTEX_GROWTH, read_completion_ts: 248 + MUTEX_GROWTH, read_cvlan: 256 + MUTEX_GROWTH, read_flow_tag: 264 + MUTEX_GROWTH, read_tm_info: 272 + MUTEX_GROWTH, read_completion_wallclock_ns: 280 + MUTEX_GROWTH });

/// `enum ibv_cq_attr_mask`.
pub type ibv_cq_attr_mask = c_uint;
pub const IBV_CQ_ATTR_MODERATE: ibv_cq_attr_mask = 1;
pub const IBV_CQ_ATTR_RESERVED: ibv_cq_attr_mask = 2;

/// `struct ibv_moderate_cq`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_moderate_cq {
    pub cq_count: u16,
    pub cq_period: u16,
}
layout!(ibv_moderate_cq, 4, { cq_count: 0, cq_period: 2 });

/// `struct ibv_modify_cq_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_modify_cq_attr {
    pub attr_mask: u32,
    pub moderate: ibv_moderate_cq,
}
layout!(ibv_modify_cq_attr, 8, { attr_mask: 0, moderate: 4 });

/// `enum ibv_cq_init_attr_mask`.
pub type ibv_cq_init_attr_mask = c_uint;
pub const IBV_CQ_INIT_ATTR_MASK_FLAGS: ibv_cq_init_attr_mask = 1;
pub const IBV_CQ_INIT_ATTR_MASK_PD: ibv_cq_init_attr_mask = 2;

/// `enum ibv_create_cq_attr_flags`.
pub type ibv_create_cq_attr_flags = c_uint;
pub const IBV_CREATE_CQ_ATTR_SINGLE_THREADED: ibv_create_cq_attr_flags = 1;
pub const IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN: ibv_create_cq_attr_flags = 2;

/// `struct ibv_cq_init_attr_ex`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_cq_init_attr_ex {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut ibv_comp_channel,
    pub comp_vector: u32,
    pub wc_flags: u64,
    pub comp_mask: u32,
    pub flags: u32,
    pub parent_domain: *mut ibv_pd,
}
layout!(ibv_cq_init_attr_ex, 56, { cqe: 0, cq_context: 8, channel: 16, comp_vector: 24, wc_flags: 32, comp_mask: 40, flags: 44, parent_domain: 48 });

/// Unnamed union inside the struct of that name.
#[repr(C)]
pub union verbs_cq_u0 {
    pub cq: ManuallyDrop<ibv_cq>,
    pub cq_ex: ManuallyDrop<ibv_cq_ex>,
}
layout!(verbs_cq_u0, 288 + MUTEX_GROWTH, { cq: 0, cq_ex: 0 });

/// `struct verbs_cq`.
#[repr(C)]
pub struct verbs_cq {
    pub u0: verbs_cq_u0,
}
layout!(verbs_cq, 288 + MUTEX_GROWTH, { u0: 0 });

/// `enum create_cq_cmd_flags`.
pub type create_cq_cmd_flags = c_uint;
pub const CREATE_CQ_CMD_FLAGS_TS_IGNORED_EX: create_cq_cmd_flags = 1;
pub const CREATE_CQ_CMD_FLAGS_WITH_MEM_VA: create_cq_cmd_flags = 2;
pub const CREATE_CQ_CMD_FLAGS_WITH_MEM_DMABUF: create_cq_cmd_flags = 4;

/// Unnamed struct inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct verbs_create_cq_prov_attr_dmabuf {
    pub offset: u64,
    pub fd: c_int,
}
layout!(verbs_create_cq_prov_attr_dmabuf, 16, { offset: 0, fd: 8 });

/// Unnamed union inside the struct of that name.
#[derive(Clone, Copy)]
#[repr(C)]
pub union verbs_create_cq_prov_attr_u0 {
    pub ptr: *mut u8,
    pub dmabuf: verbs_create_cq_prov_attr_dmabuf,
}
layout!(verbs_create_cq_prov_attr_u0, 16, { ptr: 0, dmabuf: 0 });

/// `struct verbs_create_cq_prov_attr`, of providers since release 59; its only member is an
/// unnamed struct called `buffer`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct verbs_create_cq_prov_attr {
    pub length: u64,
    pub u0: verbs_create_cq_prov_attr_u0,
}
layout!(verbs_create_cq_prov_attr, 24, { length: 0, u0: 8 });
