//! Attributes of queue pairs, in the API's form and the kernel's.

use crate::abi::kernel::*;
use crate::abi::*;

fn destination(attr: &ibv_ah_attr) -> ib_uverbs_qp_dest {
    ib_uverbs_qp_dest {
        dgid: attr.grh.dgid.bytes(),
        flow_label: attr.grh.flow_label,
        dlid: attr.dlid,
        reserved: 0,
        sgid_index: attr.grh.sgid_index,
        hop_limit: attr.grh.hop_limit,
        traffic_class: attr.grh.traffic_class,
        sl: attr.sl,
        src_path_bits: attr.src_path_bits,
        static_rate: attr.static_rate,
        is_global: attr.is_global,
        port_num: attr.port_num,
    }
}

fn read_destination(attr: &mut ibv_ah_attr, dest: &ib_uverbs_qp_dest) {
    attr.grh.dgid.raw = dest.dgid;
    attr.grh.flow_label = dest.flow_label;
    attr.grh.sgid_index = dest.sgid_index;
    attr.grh.hop_limit = dest.hop_limit;
    attr.grh.traffic_class = dest.traffic_class;
    attr.dlid = dest.dlid;
    attr.sl = dest.sl;
    attr.src_path_bits = dest.src_path_bits;
    attr.static_rate = dest.static_rate;
    attr.is_global = dest.is_global;
    attr.port_num = dest.port_num;
}

/// A value for which the kernel's structure has a byte. One that is too large becomes the largest,
/// which the kernel refuses.
fn byte(value: u32) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

/// The command that changes the attributes of queue pair `handle` named by `mask`
/// (`IBV_QP_*`). What the mask leaves out is zero and not read: the memory behind `attr` may end
/// before the rate limit, as that of programs built before it was added does.
pub fn modify_command(handle: u32, attr: &ibv_qp_attr, mask: u32) -> ib_uverbs_modify_qp {
    let mut command = ib_uverbs_modify_qp {
        qp_handle: handle,
        attr_mask: mask,
        ..Default::default()
    };
    add_state(&mut command, attr, mask);
    // Of the changes a queue pair goes through, most need no more than the first.
    if mask & PATH != 0 {
        add_path(&mut command, attr, mask);
    }
    if mask & TRANSPORT != 0 {
        add_transport(&mut command, attr, mask);
    }
    command
}

/// What [`add_path`] adds.
const PATH: u32 =
    IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_DEST_QPN;

/// What [`add_transport`] adds.
const TRANSPORT: u32 = IBV_QP_TIMEOUT
    | IBV_QP_RETRY_CNT
    | IBV_QP_RNR_RETRY
    | IBV_QP_MIN_RNR_TIMER
    | IBV_QP_RQ_PSN
    | IBV_QP_SQ_PSN
    | IBV_QP_MAX_QP_RD_ATOMIC
    | IBV_QP_MAX_DEST_RD_ATOMIC;

#[inline(never)]
fn add_state(command: &mut ib_uverbs_modify_qp, attr: &ibv_qp_attr, mask: u32) {
    if mask & IBV_QP_STATE != 0 {
        command.qp_state = byte(attr.qp_state);
    }
    if mask & IBV_QP_CUR_STATE != 0 {
        command.cur_qp_state = byte(attr.cur_qp_state);
    }
    if mask & IBV_QP_EN_SQD_ASYNC_NOTIFY != 0 {
        command.en_sqd_async_notify = attr.en_sqd_async_notify;
    }
    if mask & IBV_QP_ACCESS_FLAGS != 0 {
        command.qp_access_flags = attr.qp_access_flags;
    }
    if mask & IBV_QP_PKEY_INDEX != 0 {
        command.pkey_index = attr.pkey_index;
    }
    if mask & IBV_QP_PORT != 0 {
        command.port_num = attr.port_num;
    }
    if mask & IBV_QP_QKEY != 0 {
        command.qkey = attr.qkey;
    }
}

#[inline(never)]
fn add_path(command: &mut ib_uverbs_modify_qp, attr: &ibv_qp_attr, mask: u32) {
    if mask & IBV_QP_AV != 0 {
        command.dest = destination(&attr.ah_attr);
    }
    if mask & IBV_QP_PATH_MTU != 0 {
        command.path_mtu = byte(attr.path_mtu);
    }
    if mask & IBV_QP_ALT_PATH != 0 {
        command.alt_dest = destination(&attr.alt_ah_attr);
        command.alt_pkey_index = attr.alt_pkey_index;
        command.alt_port_num = attr.alt_port_num;
        command.alt_timeout = attr.alt_timeout;
    }
    if mask & IBV_QP_PATH_MIG_STATE != 0 {
        command.path_mig_state = byte(attr.path_mig_state);
    }
    if mask & IBV_QP_DEST_QPN != 0 {
        command.dest_qp_num = attr.dest_qp_num;
    }
}

#[inline(never)]
fn add_transport(command: &mut ib_uverbs_modify_qp, attr: &ibv_qp_attr, mask: u32) {
    if mask & IBV_QP_TIMEOUT != 0 {
        command.timeout = attr.timeout;
    }
    if mask & IBV_QP_RETRY_CNT != 0 {
        command.retry_cnt = attr.retry_cnt;
    }
    if mask & IBV_QP_RNR_RETRY != 0 {
        command.rnr_retry = attr.rnr_retry;
    }
    if mask & IBV_QP_MIN_RNR_TIMER != 0 {
        command.min_rnr_timer = attr.min_rnr_timer;
    }
    if mask & IBV_QP_RQ_PSN != 0 {
        command.rq_psn = attr.rq_psn;
    }
    if mask & IBV_QP_SQ_PSN != 0 {
        command.sq_psn = attr.sq_psn;
    }
    if mask & IBV_QP_MAX_QP_RD_ATOMIC != 0 {
        command.max_rd_atomic = attr.max_rd_atomic;
    }
    if mask & IBV_QP_MAX_DEST_RD_ATOMIC != 0 {
        command.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    }
}

/// Fills the attributes that the kernel told. The rate limit and `en_sqd_async_notify`, which it
/// does not tell, keep their values.
pub fn read_attr(attr: &mut ibv_qp_attr, told: &ib_uverbs_query_qp_resp) {
    attr.qp_state = told.qp_state.into();
    attr.cur_qp_state = told.cur_qp_state.into();
    attr.path_mtu = told.path_mtu.into();
    attr.path_mig_state = told.path_mig_state.into();
    attr.qkey = told.qkey;
    attr.rq_psn = told.rq_psn;
    attr.sq_psn = told.sq_psn;
    attr.dest_qp_num = told.dest_qp_num;
    attr.qp_access_flags = told.qp_access_flags;
    attr.cap = told.cap();
    read_destination(&mut attr.ah_attr, &told.dest);
    read_destination(&mut attr.alt_ah_attr, &told.alt_dest);
    attr.pkey_index = told.pkey_index;
    attr.alt_pkey_index = told.alt_pkey_index;
    attr.sq_draining = told.sq_draining;
    attr.max_rd_atomic = told.max_rd_atomic;
    attr.max_dest_rd_atomic = told.max_dest_rd_atomic;
    attr.min_rnr_timer = told.min_rnr_timer;
    attr.port_num = told.port_num;
    attr.timeout = told.timeout;
    attr.retry_cnt = told.retry_cnt;
    attr.rnr_retry = told.rnr_retry;
    attr.alt_port_num = told.alt_port_num;
    attr.alt_timeout = told.alt_timeout;
}

impl ib_uverbs_query_qp_resp {
    /// Sizes of the queues.
    pub fn cap(&self) -> ibv_qp_cap {
        ibv_qp_cap {
            max_send_wr: self.max_send_wr,
            max_recv_wr: self.max_recv_wr,
            max_send_sge: self.max_send_sge,
            max_recv_sge: self.max_recv_sge,
            max_inline_data: self.max_inline_data,
        }
    }
}

impl From<ibv_qp_cap> for ib_uverbs_qp_cap {
    fn from(cap: ibv_qp_cap) -> Self {
        Self {
            max_send_wr: cap.max_send_wr,
            max_recv_wr: cap.max_recv_wr,
            max_send_sge: cap.max_send_sge,
            max_recv_sge: cap.max_recv_sge,
            max_inline_data: cap.max_inline_data,
        }
    }
}

impl From<ib_uverbs_qp_cap> for ibv_qp_cap {
    fn from(cap: ib_uverbs_qp_cap) -> Self {
        Self {
            max_send_wr: cap.max_send_wr,
            max_recv_wr: cap.max_recv_wr,
            max_send_sge: cap.max_send_sge,
            max_recv_sge: cap.max_recv_sge,
            max_inline_data: cap.max_inline_data,
        }
    }
}
