#![forbid(unsafe_code)]
//! Names of numbers, as the headers have them.

use crate::abi::*;
pub use crate::errno::named as errno;

/// Names of bits, joined by `|`; bits without a name as one number. `0` for none.
#[must_use]
pub fn bits(value: u32, names: &[(u32, &str)]) -> String {
    let mut rest = value;
    let mut parts = Vec::new();
    for (bit, name) in names {
        if value & bit == *bit {
            parts.push((*name).to_owned());
            rest &= !bit;
        }
    }
    if rest != 0 || parts.is_empty() {
        parts.push(if rest == 0 {
            "0".to_owned()
        } else {
            format!("{rest:#x}")
        });
    }
    parts.join("|")
}

/// Access flags of regions and queue pairs.
pub const ACCESS: &[(u32, &str)] = &[
    (IBV_ACCESS_LOCAL_WRITE, "IBV_ACCESS_LOCAL_WRITE"),
    (IBV_ACCESS_REMOTE_WRITE, "IBV_ACCESS_REMOTE_WRITE"),
    (IBV_ACCESS_REMOTE_READ, "IBV_ACCESS_REMOTE_READ"),
    (IBV_ACCESS_REMOTE_ATOMIC, "IBV_ACCESS_REMOTE_ATOMIC"),
    (IBV_ACCESS_MW_BIND, "IBV_ACCESS_MW_BIND"),
    (IBV_ACCESS_ZERO_BASED, "IBV_ACCESS_ZERO_BASED"),
    (IBV_ACCESS_ON_DEMAND, "IBV_ACCESS_ON_DEMAND"),
    (IBV_ACCESS_HUGETLB, "IBV_ACCESS_HUGETLB"),
    (IBV_ACCESS_FLUSH_GLOBAL, "IBV_ACCESS_FLUSH_GLOBAL"),
    (IBV_ACCESS_FLUSH_PERSISTENT, "IBV_ACCESS_FLUSH_PERSISTENT"),
    (IBV_ACCESS_RELAXED_ORDERING, "IBV_ACCESS_RELAXED_ORDERING"),
];

/// Attributes of ibv_modify_qp(3).
pub const QP_ATTRIBUTES: &[(u32, &str)] = &[
    (IBV_QP_STATE, "IBV_QP_STATE"),
    (IBV_QP_CUR_STATE, "IBV_QP_CUR_STATE"),
    (IBV_QP_EN_SQD_ASYNC_NOTIFY, "IBV_QP_EN_SQD_ASYNC_NOTIFY"),
    (IBV_QP_ACCESS_FLAGS, "IBV_QP_ACCESS_FLAGS"),
    (IBV_QP_PKEY_INDEX, "IBV_QP_PKEY_INDEX"),
    (IBV_QP_PORT, "IBV_QP_PORT"),
    (IBV_QP_QKEY, "IBV_QP_QKEY"),
    (IBV_QP_AV, "IBV_QP_AV"),
    (IBV_QP_PATH_MTU, "IBV_QP_PATH_MTU"),
    (IBV_QP_TIMEOUT, "IBV_QP_TIMEOUT"),
    (IBV_QP_RETRY_CNT, "IBV_QP_RETRY_CNT"),
    (IBV_QP_RNR_RETRY, "IBV_QP_RNR_RETRY"),
    (IBV_QP_RQ_PSN, "IBV_QP_RQ_PSN"),
    (IBV_QP_MAX_QP_RD_ATOMIC, "IBV_QP_MAX_QP_RD_ATOMIC"),
    (IBV_QP_ALT_PATH, "IBV_QP_ALT_PATH"),
    (IBV_QP_MIN_RNR_TIMER, "IBV_QP_MIN_RNR_TIMER"),
    (IBV_QP_SQ_PSN, "IBV_QP_SQ_PSN"),
    (IBV_QP_MAX_DEST_RD_ATOMIC, "IBV_QP_MAX_DEST_RD_ATOMIC"),
    (IBV_QP_PATH_MIG_STATE, "IBV_QP_PATH_MIG_STATE"),
    (IBV_QP_CAP, "IBV_QP_CAP"),
    (IBV_QP_DEST_QPN, "IBV_QP_DEST_QPN"),
    (IBV_QP_RATE_LIMIT, "IBV_QP_RATE_LIMIT"),
];

/// Attributes of ibv_modify_srq(3).
pub const SRQ_ATTRIBUTES: &[(u32, &str)] = &[
    (IBV_SRQ_MAX_WR, "IBV_SRQ_MAX_WR"),
    (IBV_SRQ_LIMIT, "IBV_SRQ_LIMIT"),
];

/// Flags of a send request.
pub const SEND_FLAGS: &[(u32, &str)] = &[
    (IBV_SEND_FENCE, "IBV_SEND_FENCE"),
    (IBV_SEND_SIGNALED, "IBV_SEND_SIGNALED"),
    (IBV_SEND_SOLICITED, "IBV_SEND_SOLICITED"),
    (IBV_SEND_INLINE, "IBV_SEND_INLINE"),
    (IBV_SEND_IP_CSUM, "IBV_SEND_IP_CSUM"),
];

/// A state of a queue pair.
#[must_use]
pub fn qp_state(state: ibv_qp_state) -> String {
    match state {
        IBV_QPS_RESET => "RESET",
        IBV_QPS_INIT => "INIT",
        IBV_QPS_RTR => "RTR",
        IBV_QPS_RTS => "RTS",
        IBV_QPS_SQD => "SQD",
        IBV_QPS_SQE => "SQE",
        IBV_QPS_ERR => "ERR",
        other => return format!("state {other}"),
    }
    .to_owned()
}

/// A type of queue pair.
#[must_use]
pub fn qp_type(kind: ibv_qp_type) -> String {
    match kind {
        IBV_QPT_RC => "RC",
        IBV_QPT_UC => "UC",
        IBV_QPT_UD => "UD",
        IBV_QPT_RAW_PACKET => "RAW_PACKET",
        IBV_QPT_XRC_SEND => "XRC_SEND",
        IBV_QPT_XRC_RECV => "XRC_RECV",
        IBV_QPT_DRIVER => "DRIVER",
        other => return format!("of type {other}"),
    }
    .to_owned()
}

/// The operation of a send request.
#[must_use]
pub fn opcode(opcode: ibv_wr_opcode) -> String {
    match opcode {
        IBV_WR_RDMA_WRITE => "IBV_WR_RDMA_WRITE",
        IBV_WR_RDMA_WRITE_WITH_IMM => "IBV_WR_RDMA_WRITE_WITH_IMM",
        IBV_WR_SEND => "IBV_WR_SEND",
        IBV_WR_SEND_WITH_IMM => "IBV_WR_SEND_WITH_IMM",
        IBV_WR_RDMA_READ => "IBV_WR_RDMA_READ",
        IBV_WR_ATOMIC_CMP_AND_SWP => "IBV_WR_ATOMIC_CMP_AND_SWP",
        IBV_WR_ATOMIC_FETCH_AND_ADD => "IBV_WR_ATOMIC_FETCH_AND_ADD",
        IBV_WR_LOCAL_INV => "IBV_WR_LOCAL_INV",
        IBV_WR_BIND_MW => "IBV_WR_BIND_MW",
        IBV_WR_SEND_WITH_INV => "IBV_WR_SEND_WITH_INV",
        IBV_WR_TSO => "IBV_WR_TSO",
        IBV_WR_ATOMIC_WRITE => "IBV_WR_ATOMIC_WRITE",
        IBV_WR_FLUSH => "IBV_WR_FLUSH",
        other => return format!("opcode {other}"),
    }
    .to_owned()
}

/// The operation of a completion.
#[must_use]
pub fn completed(opcode: ibv_wc_opcode) -> String {
    match opcode {
        IBV_WC_SEND => "IBV_WC_SEND",
        IBV_WC_RDMA_WRITE => "IBV_WC_RDMA_WRITE",
        IBV_WC_RDMA_READ => "IBV_WC_RDMA_READ",
        IBV_WC_COMP_SWAP => "IBV_WC_COMP_SWAP",
        IBV_WC_FETCH_ADD => "IBV_WC_FETCH_ADD",
        IBV_WC_BIND_MW => "IBV_WC_BIND_MW",
        IBV_WC_LOCAL_INV => "IBV_WC_LOCAL_INV",
        IBV_WC_TSO => "IBV_WC_TSO",
        IBV_WC_FLUSH => "IBV_WC_FLUSH",
        IBV_WC_ATOMIC_WRITE => "IBV_WC_ATOMIC_WRITE",
        IBV_WC_RECV => "IBV_WC_RECV",
        IBV_WC_RECV_RDMA_WITH_IMM => "IBV_WC_RECV_RDMA_WITH_IMM",
        IBV_WC_TM_ADD => "IBV_WC_TM_ADD",
        IBV_WC_TM_DEL => "IBV_WC_TM_DEL",
        IBV_WC_TM_SYNC => "IBV_WC_TM_SYNC",
        IBV_WC_TM_RECV => "IBV_WC_TM_RECV",
        IBV_WC_TM_NO_TAG => "IBV_WC_TM_NO_TAG",
        IBV_WC_DRIVER1 => "IBV_WC_DRIVER1",
        IBV_WC_DRIVER2 => "IBV_WC_DRIVER2",
        IBV_WC_DRIVER3 => "IBV_WC_DRIVER3",
        other => return format!("opcode {other}"),
    }
    .to_owned()
}

/// The status of a completion.
#[must_use]
pub fn status(status: ibv_wc_status) -> String {
    match status {
        IBV_WC_SUCCESS => "IBV_WC_SUCCESS",
        IBV_WC_LOC_LEN_ERR => "IBV_WC_LOC_LEN_ERR",
        IBV_WC_LOC_QP_OP_ERR => "IBV_WC_LOC_QP_OP_ERR",
        IBV_WC_LOC_EEC_OP_ERR => "IBV_WC_LOC_EEC_OP_ERR",
        IBV_WC_LOC_PROT_ERR => "IBV_WC_LOC_PROT_ERR",
        IBV_WC_WR_FLUSH_ERR => "IBV_WC_WR_FLUSH_ERR",
        IBV_WC_MW_BIND_ERR => "IBV_WC_MW_BIND_ERR",
        IBV_WC_BAD_RESP_ERR => "IBV_WC_BAD_RESP_ERR",
        IBV_WC_LOC_ACCESS_ERR => "IBV_WC_LOC_ACCESS_ERR",
        IBV_WC_REM_INV_REQ_ERR => "IBV_WC_REM_INV_REQ_ERR",
        IBV_WC_REM_ACCESS_ERR => "IBV_WC_REM_ACCESS_ERR",
        IBV_WC_REM_OP_ERR => "IBV_WC_REM_OP_ERR",
        IBV_WC_RETRY_EXC_ERR => "IBV_WC_RETRY_EXC_ERR",
        IBV_WC_RNR_RETRY_EXC_ERR => "IBV_WC_RNR_RETRY_EXC_ERR",
        IBV_WC_LOC_RDD_VIOL_ERR => "IBV_WC_LOC_RDD_VIOL_ERR",
        IBV_WC_REM_INV_RD_REQ_ERR => "IBV_WC_REM_INV_RD_REQ_ERR",
        IBV_WC_REM_ABORT_ERR => "IBV_WC_REM_ABORT_ERR",
        IBV_WC_INV_EECN_ERR => "IBV_WC_INV_EECN_ERR",
        IBV_WC_INV_EEC_STATE_ERR => "IBV_WC_INV_EEC_STATE_ERR",
        IBV_WC_FATAL_ERR => "IBV_WC_FATAL_ERR",
        IBV_WC_RESP_TIMEOUT_ERR => "IBV_WC_RESP_TIMEOUT_ERR",
        IBV_WC_GENERAL_ERR => "IBV_WC_GENERAL_ERR",
        IBV_WC_TM_ERR => "IBV_WC_TM_ERR",
        IBV_WC_TM_RNDV_INCOMPLETE => "IBV_WC_TM_RNDV_INCOMPLETE",
        other => return format!("status {other}"),
    }
    .to_owned()
}

/// Bytes of `enum ibv_mtu`.
#[must_use]
pub fn mtu(value: ibv_mtu) -> String {
    match value {
        1..=5 => (128u32 << value).to_string(),
        other => format!("enum value {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::Errno;

    #[test]
    fn bits_have_their_names() {
        assert_eq!(bits(0, ACCESS), "0");
        assert_eq!(
            bits(3, ACCESS),
            "IBV_ACCESS_LOCAL_WRITE|IBV_ACCESS_REMOTE_WRITE"
        );
        assert_eq!(
            bits(1 << 30 | 1, ACCESS),
            "IBV_ACCESS_LOCAL_WRITE|0x40000000"
        );
        assert_eq!(bits(1 << 30, SEND_FLAGS), "0x40000000");
    }

    #[test]
    fn numbers_have_their_names() {
        assert_eq!(mtu(IBV_MTU_1024), "1024");
        assert_eq!(qp_state(IBV_QPS_RTR), "RTR");
        assert_eq!(qp_type(77), "of type 77");
        assert_eq!(completed(IBV_WC_RECV), "IBV_WC_RECV");
        assert_eq!(status(IBV_WC_RETRY_EXC_ERR), "IBV_WC_RETRY_EXC_ERR");
        assert_eq!(status(99), "status 99");
        assert_eq!(errno(Errno::NOMEM), "ENOMEM (Cannot allocate memory)");
        assert!(errno(Errno(4095)).starts_with("errno 4095"));
    }
}
