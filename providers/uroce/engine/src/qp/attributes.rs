//! The attributes of ibv_modify_qp(3) that the protocol needs. Ports, address vectors and alternate
//! paths belong to the carrier; here only their presence in the mask is checked.

use super::state::State;
use super::table::Mask;
use crate::psn::Psn;
use crate::timer::{AckTimeout, RnrTimer};

/// Path MTU (`enum ibv_mtu`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mtu {
    /// 256 bytes.
    #[default]
    B256,
    /// 512 bytes.
    B512,
    /// 1024 bytes.
    B1024,
    /// 2048 bytes.
    B2048,
    /// 4096 bytes.
    B4096,
}

impl Mtu {
    /// The MTU of the number in `enum ibv_mtu`, 1 to 5.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::B256,
            2 => Self::B512,
            3 => Self::B1024,
            4 => Self::B2048,
            5 => Self::B4096,
            _ => return None,
        })
    }

    /// Bytes of payload.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::B256 => 256,
            Self::B512 => 512,
            Self::B1024 => 1024,
            Self::B2048 => 2048,
            Self::B4096 => 4096,
        }
    }

    /// Packets of a message: at least one.
    #[must_use]
    pub fn packets(self, length: u32) -> u32 {
        length.div_ceil(self.bytes()).max(1)
    }
}

/// The rights of a peer (`enum ibv_access_flags`, those of a queue pair).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// `IBV_ACCESS_REMOTE_WRITE`.
    pub write: bool,
    /// `IBV_ACCESS_REMOTE_READ`.
    pub read: bool,
    /// `IBV_ACCESS_REMOTE_ATOMIC`.
    pub atomic: bool,
    /// `IBV_ACCESS_FLUSH_GLOBAL`.
    pub flush_global: bool,
    /// `IBV_ACCESS_FLUSH_PERSISTENT`.
    pub flush_persistent: bool,
}

/// Values in force. Those of a new queue pair are zeros, and the port's MTU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `qp_access_flags`.
    pub access: Access,
    /// The P_Key at `pkey_index`.
    pub pkey: u16,
    /// `qkey`.
    pub qkey: u32,
    /// `path_mtu`.
    pub path_mtu: Mtu,
    /// `dest_qp_num`.
    pub dest_qp_num: u32,
    /// `rq_psn`.
    pub rq_psn: Psn,
    /// `sq_psn`.
    pub sq_psn: Psn,
    /// `timeout`.
    pub timeout: AckTimeout,
    /// `retry_cnt`. Verbs name 0 to 7; more is as many, as in the kernel's soft-RoCE.
    pub retry_cnt: u8,
    /// `rnr_retry`; 7 means without end, more than that is as many.
    pub rnr_retry: u8,
    /// `min_rnr_timer`.
    pub min_rnr_timer: RnrTimer,
    /// `max_rd_atomic`: reads and atomics under way as requester.
    pub max_rd_atomic: u8,
    /// `max_dest_rd_atomic`: reads and atomics under way as responder.
    pub max_dest_rd_atomic: u8,
    /// `en_sqd_async_notify`.
    pub en_sqd_async_notify: bool,
}

/// One call of ibv_modify_qp(3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modify {
    /// Which values count.
    pub mask: Mask,
    /// `qp_state`, with [`Mask::STATE`].
    pub state: Option<State>,
    /// `cur_qp_state`, with [`Mask::CUR_STATE`].
    pub current: Option<State>,
    /// All other values.
    pub values: Attributes,
}

impl Attributes {
    /// Those of a new queue pair. Datagrams go by the port's MTU, others until they get one.
    pub(super) fn of_port(mtu: Mtu) -> Self {
        Self {
            path_mtu: mtu,
            ..Self::default()
        }
    }

    /// Takes over those of `modify.values` that its mask names. `None`, and no change, if a value
    /// is out of range.
    pub(super) fn apply(&mut self, modify: &Modify) -> Option<()> {
        let new = &modify.values;
        let mask = modify.mask;
        let has = |bit| mask.has(bit);
        if has(Mask::DEST_QPN) && new.dest_qp_num >> 24 != 0 {
            return None;
        }
        take(has(Mask::ACCESS_FLAGS), &mut self.access, new.access);
        take(has(Mask::PKEY_INDEX), &mut self.pkey, new.pkey);
        take(has(Mask::QKEY), &mut self.qkey, new.qkey);
        take(has(Mask::PATH_MTU), &mut self.path_mtu, new.path_mtu);
        take(has(Mask::DEST_QPN), &mut self.dest_qp_num, new.dest_qp_num);
        take(has(Mask::RQ_PSN), &mut self.rq_psn, new.rq_psn);
        take(has(Mask::SQ_PSN), &mut self.sq_psn, new.sq_psn);
        take(has(Mask::TIMEOUT), &mut self.timeout, new.timeout);
        take(has(Mask::RETRY_CNT), &mut self.retry_cnt, new.retry_cnt);
        take(has(Mask::RNR_RETRY), &mut self.rnr_retry, new.rnr_retry);
        let timer = has(Mask::MIN_RNR_TIMER);
        take(timer, &mut self.min_rnr_timer, new.min_rnr_timer);
        let reads = has(Mask::MAX_QP_RD_ATOMIC);
        take(reads, &mut self.max_rd_atomic, new.max_rd_atomic);
        let served = has(Mask::MAX_DEST_RD_ATOMIC);
        take(served, &mut self.max_dest_rd_atomic, new.max_dest_rd_atomic);
        let notify = has(Mask::EN_SQD_ASYNC_NOTIFY);
        take(
            notify,
            &mut self.en_sqd_async_notify,
            new.en_sqd_async_notify,
        );
        Some(())
    }
}

fn take<T>(wanted: bool, place: &mut T, value: T) {
    if wanted {
        *place = value;
    }
}
