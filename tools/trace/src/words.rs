//! Words of calls as text: errnos, names of states, masks, operations and statuses, numbers.
#![forbid(unsafe_code)]

use kit::names;

/// The name of an errno that verbs return, or its number.
pub fn errno(number: u64) -> String {
    let known = [
        (1, "EPERM"),
        (2, "ENOENT"),
        (4, "EINTR"),
        (5, "EIO"),
        (11, "EAGAIN"),
        (12, "ENOMEM"),
        (13, "EACCES"),
        (14, "EFAULT"),
        (16, "EBUSY"),
        (19, "ENODEV"),
        (22, "EINVAL"),
        (28, "ENOSPC"),
        (38, "ENOSYS"),
        (61, "ENODATA"),
        (75, "EOVERFLOW"),
        (95, "EOPNOTSUPP"),
        (98, "EADDRINUSE"),
        (99, "EADDRNOTAVAIL"),
        (101, "ENETUNREACH"),
        (110, "ETIMEDOUT"),
        (111, "ECONNREFUSED"),
        (113, "EHOSTUNREACH"),
    ];
    let name = known.iter().find(|(value, _)| *value == number);
    name.map_or_else(|| format!("errno {number}"), |(_, name)| (*name).to_owned())
}

/// A word of a call: the name of the value if the headers have one, otherwise the number.
pub fn value(call: &str, word: &str, value: u64) -> String {
    let Ok(small) = u32::try_from(value) else {
        return signed(word, value).unwrap_or_else(|| number(value));
    };
    let polls = matches!(call, "ibv_poll_cq" | "ibv_start_poll" | "ibv_next_poll");
    let bits = |table| names::bits(small, table);
    match (call, word) {
        ("ibv_modify_qp", "state") => names::qp_state(small),
        ("ibv_create_qp" | "ibv_create_qp_ex", "type") => names::qp_type(small),
        ("rdma_get_cm_event", "type") => known(CM_EVENTS, small),
        ("rdma_write_cm_event", "event") => known(CM_EVENTS, small),
        ("ibv_modify_srq", "attr_mask") => bits(names::SRQ_ATTRIBUTES),
        (_, "attr_mask") => bits(names::QP_ATTRIBUTES),
        (_, "access") => bits(names::ACCESS),
        (_, "send_flags") => bits(names::SEND_FLAGS),
        (_, "opcode") if polls => names::completed(small),
        (_, "opcode" | "wr_opcode") => names::opcode(small),
        (_, "status") if polls => names::status(small),
        (_, "status") => signed(word, value).unwrap_or_else(|| small.to_string()),
        (_, "ps") => known(PORT_SPACES, small),
        (_, "family") => known(FAMILIES, small),
        (_, "mw_type") => known(MW_TYPES, small),
        (_, "dest_qp_num" | "qp_num") => format!("{small:#x}"),
        (_, "bytes" | "length" | "size" | "requests" | "posted") => small.to_string(),
        _ => number(value),
    }
}

/// The status of an event: an errno if it is negative.
fn signed(word: &str, value: u64) -> Option<String> {
    let low = u32::try_from(value & u64::from(u32::MAX)).ok()?;
    let status = low.cast_signed();
    (word == "status" && status < 0)
        .then(|| format!("-{}", errno(u64::from(status.unsigned_abs()))))
}

/// `enum rdma_cm_event_type` of rdma_cma.h, from 0.
const CM_EVENTS: &[(u32, &str)] = &[
    (0, "RDMA_CM_EVENT_ADDR_RESOLVED"),
    (1, "RDMA_CM_EVENT_ADDR_ERROR"),
    (2, "RDMA_CM_EVENT_ROUTE_RESOLVED"),
    (3, "RDMA_CM_EVENT_ROUTE_ERROR"),
    (4, "RDMA_CM_EVENT_CONNECT_REQUEST"),
    (5, "RDMA_CM_EVENT_CONNECT_RESPONSE"),
    (6, "RDMA_CM_EVENT_CONNECT_ERROR"),
    (7, "RDMA_CM_EVENT_UNREACHABLE"),
    (8, "RDMA_CM_EVENT_REJECTED"),
    (9, "RDMA_CM_EVENT_ESTABLISHED"),
    (10, "RDMA_CM_EVENT_DISCONNECTED"),
    (11, "RDMA_CM_EVENT_DEVICE_REMOVAL"),
    (12, "RDMA_CM_EVENT_MULTICAST_JOIN"),
    (13, "RDMA_CM_EVENT_MULTICAST_ERROR"),
    (14, "RDMA_CM_EVENT_ADDR_CHANGE"),
    (15, "RDMA_CM_EVENT_TIMEWAIT_EXIT"),
    (16, "RDMA_CM_EVENT_ADDRINFO_RESOLVED"),
    (17, "RDMA_CM_EVENT_ADDRINFO_ERROR"),
    (18, "RDMA_CM_EVENT_USER"),
    (19, "RDMA_CM_EVENT_INTERNAL"),
];

/// `enum rdma_port_space`.
const PORT_SPACES: &[(u32, &str)] = &[
    (0x0002, "RDMA_PS_IPOIB"),
    (0x0106, "RDMA_PS_TCP"),
    (0x0111, "RDMA_PS_UDP"),
    (0x013f, "RDMA_PS_IB"),
];

/// Families of addresses, of socket.h.
const FAMILIES: &[(u32, &str)] = &[(2, "AF_INET"), (10, "AF_INET6"), (27, "AF_IB")];

/// `enum ibv_mw_type`.
const MW_TYPES: &[(u32, &str)] = &[(1, "IBV_MW_TYPE_1"), (2, "IBV_MW_TYPE_2")];

fn known(table: &[(u32, &str)], value: u32) -> String {
    let name = table.iter().find(|(number, _)| *number == value);
    name.map_or_else(|| value.to_string(), |(_, name)| (*name).to_owned())
}

/// A number as people read it: addresses and keys in hexadecimal.
pub fn number(value: u64) -> String {
    if value < 0x1_0000 {
        value.to_string()
    } else {
        format!("{value:#x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_names() {
        let cases = [
            (("ibv_modify_qp", "state", 3), "RTS"),
            (
                ("ibv_modify_qp", "attr_mask", 0x21),
                "IBV_QP_STATE|IBV_QP_PORT",
            ),
            (("ibv_modify_srq", "attr_mask", 2), "IBV_SRQ_LIMIT"),
            (("ibv_create_qp", "type", 4), "UD"),
            (("ibv_post_send", "opcode", 4), "IBV_WR_RDMA_READ"),
            (("ibv_poll_cq", "opcode", 128), "IBV_WC_RECV"),
            (("ibv_next_poll", "status", 5), "IBV_WC_WR_FLUSH_ERR"),
            (("ibv_post_send", "send_flags", 2), "IBV_SEND_SIGNALED"),
            (("ibv_reg_mr", "access", 1), "IBV_ACCESS_LOCAL_WRITE"),
            (("ibv_reg_mr", "length", 70000), "70000"),
            (("ibv_reg_mr", "addr", 70000), "0x11170"),
            (("ibv_poll_cq", "qp_num", 17), "0x11"),
            (
                ("rdma_get_cm_event", "type", 9),
                "RDMA_CM_EVENT_ESTABLISHED",
            ),
            (("rdma_get_cm_event", "event", 9), "9"),
            (("rdma_get_cm_event", "status", 28), "28"),
            (("rdma_get_cm_event", "status", 0xffff_ff92), "-ETIMEDOUT"),
            (
                ("rdma_get_cm_event", "status", 0u64.wrapping_sub(110)),
                "-ETIMEDOUT",
            ),
            (("rdma_create_id", "ps", 0x106), "RDMA_PS_TCP"),
        ];
        for ((call, word, number), name) in cases {
            assert_eq!(value(call, word, number), name, "{call} {word}");
        }
    }
}
