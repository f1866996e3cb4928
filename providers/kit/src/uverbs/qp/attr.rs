//! Attributes of queue pairs, in the API's form and the kernel's.

use crate::abi::handle::{QpAnswer, QpChange};
use crate::abi::kernel::*;
use crate::abi::*;

fn destination(attr: ibv_ah_attr) -> ib_uverbs_qp_dest {
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

fn address(dest: &ib_uverbs_qp_dest) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: dest.dgid },
            flow_label: dest.flow_label,
            sgid_index: dest.sgid_index,
            hop_limit: dest.hop_limit,
            traffic_class: dest.traffic_class,
        },
        dlid: dest.dlid,
        sl: dest.sl,
        src_path_bits: dest.src_path_bits,
        static_rate: dest.static_rate,
        is_global: dest.is_global,
        port_num: dest.port_num,
    }
}

/// A value for which the kernel's structure has a byte. One that is too large becomes the largest,
/// which the kernel refuses.
fn byte(value: u32) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

/// The command that makes this change of queue pair `handle`. Members that the mask leaves out are
/// zero.
pub fn modify_command(handle: u32, change: QpChange<'_>) -> ib_uverbs_modify_qp {
    let mut command = ib_uverbs_modify_qp::default();
    fill_modify_command(&mut command, handle, change);
    command
}

/// The same, in a command of zeros, which is not moved.
pub fn fill_modify_command(command: &mut ib_uverbs_modify_qp, handle: u32, change: QpChange<'_>) {
    let mask = change.mask();
    command.qp_handle = handle;
    command.attr_mask = mask;
    add_state(command, change);
    // Of the changes a queue pair goes through, most need no more than the first.
    if mask & PATH != 0 {
        add_path(command, change);
    }
    if mask & TRANSPORT != 0 {
        add_transport(command, change);
    }
}

/// Bits that [`add_path`] handles.
const PATH: u32 =
    IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_DEST_QPN;

/// Bits that [`add_transport`] handles.
const TRANSPORT: u32 = IBV_QP_TIMEOUT
    | IBV_QP_RETRY_CNT
    | IBV_QP_RNR_RETRY
    | IBV_QP_MIN_RNR_TIMER
    | IBV_QP_RQ_PSN
    | IBV_QP_SQ_PSN
    | IBV_QP_MAX_QP_RD_ATOMIC
    | IBV_QP_MAX_DEST_RD_ATOMIC;

#[inline(never)]
fn add_state(command: &mut ib_uverbs_modify_qp, change: QpChange<'_>) {
    if let Some(value) = change.qp_state() {
        command.qp_state = byte(value);
    }
    if let Some(value) = change.cur_qp_state() {
        command.cur_qp_state = byte(value);
    }
    if let Some(value) = change.en_sqd_async_notify() {
        command.en_sqd_async_notify = value;
    }
    if let Some(value) = change.qp_access_flags() {
        command.qp_access_flags = value;
    }
    if let Some(value) = change.pkey_index() {
        command.pkey_index = value;
    }
    if let Some(value) = change.port_num() {
        command.port_num = value;
    }
    if let Some(value) = change.qkey() {
        command.qkey = value;
    }
}

#[inline(never)]
fn add_path(command: &mut ib_uverbs_modify_qp, change: QpChange<'_>) {
    if let Some(value) = change.ah_attr() {
        command.dest = destination(value);
    }
    if let Some(value) = change.path_mtu() {
        command.path_mtu = byte(value);
    }
    if let Some(alternate) = change.alt_ah_attr() {
        command.alt_dest = destination(alternate);
    }
    if let Some(index) = change.alt_pkey_index() {
        command.alt_pkey_index = index;
    }
    if let Some(port) = change.alt_port_num() {
        command.alt_port_num = port;
    }
    if let Some(timeout) = change.alt_timeout() {
        command.alt_timeout = timeout;
    }
    if let Some(value) = change.path_mig_state() {
        command.path_mig_state = byte(value);
    }
    if let Some(value) = change.dest_qp_num() {
        command.dest_qp_num = value;
    }
}

#[inline(never)]
fn add_transport(command: &mut ib_uverbs_modify_qp, change: QpChange<'_>) {
    if let Some(value) = change.timeout() {
        command.timeout = value;
    }
    if let Some(value) = change.retry_cnt() {
        command.retry_cnt = value;
    }
    if let Some(value) = change.rnr_retry() {
        command.rnr_retry = value;
    }
    if let Some(value) = change.min_rnr_timer() {
        command.min_rnr_timer = value;
    }
    if let Some(value) = change.rq_psn() {
        command.rq_psn = value;
    }
    if let Some(value) = change.sq_psn() {
        command.sq_psn = value;
    }
    if let Some(value) = change.max_rd_atomic() {
        command.max_rd_atomic = value;
    }
    if let Some(value) = change.max_dest_rd_atomic() {
        command.max_dest_rd_atomic = value;
    }
}

/// Fills the attributes that the kernel reported. The rate limit and `en_sqd_async_notify`, which
/// it does not report, keep their values.
pub fn read_attr(attr: &mut QpAnswer<'_>, reported: &ib_uverbs_query_qp_resp) {
    attr.set_qp_state(reported.qp_state.into());
    attr.set_cur_qp_state(reported.cur_qp_state.into());
    attr.set_path_mtu(reported.path_mtu.into());
    attr.set_path_mig_state(reported.path_mig_state.into());
    attr.set_qkey(reported.qkey);
    attr.set_rq_psn(reported.rq_psn);
    attr.set_sq_psn(reported.sq_psn);
    attr.set_dest_qp_num(reported.dest_qp_num);
    attr.set_qp_access_flags(reported.qp_access_flags);
    attr.set_cap(reported.cap());
    attr.set_ah_attr(address(&reported.dest));
    attr.set_alt_ah_attr(address(&reported.alt_dest));
    attr.set_pkey_index(reported.pkey_index);
    attr.set_alt_pkey_index(reported.alt_pkey_index);
    attr.set_sq_draining(reported.sq_draining);
    attr.set_max_rd_atomic(reported.max_rd_atomic);
    attr.set_max_dest_rd_atomic(reported.max_dest_rd_atomic);
    attr.set_min_rnr_timer(reported.min_rnr_timer);
    attr.set_port_num(reported.port_num);
    attr.set_timeout(reported.timeout);
    attr.set_retry_cnt(reported.retry_cnt);
    attr.set_rnr_retry(reported.rnr_retry);
    attr.set_alt_port_num(reported.alt_port_num);
    attr.set_alt_timeout(reported.alt_timeout);
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
