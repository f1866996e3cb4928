#![forbid(unsafe_code)]
//! Reasons of a REJ: their meaning (InfiniBand specification, volume 1, table "REJ Reason Code"),
//! and what causes them between programs.

/// What a reason means.
pub fn meaning(reason: i32) -> &'static str {
    match reason {
        1 => "no queue pair available",
        2 => "no EE context available",
        3 => "no resources available",
        4 => "timeout",
        5 => "unsupported request",
        6 => "invalid communication id",
        7 => "invalid communication instance",
        8 => "invalid service id",
        9 => "invalid transport service type",
        10 => "stale connection",
        11 => "RDC does not exist",
        12 => "primary remote port GID rejected",
        13 => "primary remote port LID rejected",
        14 => "invalid primary SL",
        15 => "invalid primary traffic class",
        16 => "invalid primary hop limit",
        17 => "invalid primary packet rate",
        18 => "alternate remote port GID rejected",
        19 => "alternate remote port LID rejected",
        20 => "invalid alternate SL",
        21 => "invalid alternate traffic class",
        22 => "invalid alternate hop limit",
        23 => "invalid alternate packet rate",
        24 => "port and CM redirection",
        25 => "port redirection",
        26 => "invalid path MTU",
        27 => "insufficient responder resources",
        28 => "rejected by the consumer",
        29 => "RNR retry count rejected",
        30 => "duplicate local communication id",
        31 => "invalid class version",
        32 => "invalid flow label",
        33 => "invalid alternate flow label",
        35 => "vendor option not supported",
        _ => "a reason that the specification does not name",
    }
}

/// What usually causes it, and what helps.
pub fn cause(reason: i32) -> &'static str {
    match reason {
        1 | 3 => {
            "The peer has no room for another connection: its backlog (rdma_listen) is full, or \
             its device has no more queue pairs."
        }
        4 => {
            "The peer waited in vain for the next message of this side: it was lost, or this \
             program took longer than the peer waits."
        }
        8 => {
            "No process listens at that port: the server is not started yet, or has ended; or it \
             listens at another port, in another port space (RDMA_PS_TCP, RDMA_PS_UDP), at another \
             address, or by TCP alone, whose ports are independent of these."
        }
        9 => {
            "The listener takes connections of another type (RC, UC, XRC): rdma_create_ep and \
             rdma_create_id of both sides have to agree on qp_type."
        }
        10 => {
            "The peer still has a connection with this queue pair: it was not taken down by \
             rdma_disconnect, or its time of waiting is not over. Connect again, with a new queue \
             pair."
        }
        12 | 13 => "The address that led here is none that the peer's device has.",
        26 => "The path's MTU is one that the peer's port does not take.",
        27 => {
            "initiator_depth or responder_resources are more than the peer's device has \
             (max_qp_rd_atom, max_qp_init_rd_atom)."
        }
        28 => {
            "The program of the peer called rdma_reject, or destroyed the id of the request \
             without accepting it; the event's private data has its reason. A connection \
             manager answers the same to a request whose addresses are not those of its packets \
             (address translation), or whose queue pair type is not the listener's."
        }
        30 => "The peer has a connection with this communication id: it did not notice its end.",
        35 => "The peer called rdma_reject_ece: it does not take the vendor's options of ECE.",
        _ => "The message of the request differs from what the peer takes.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_of_the_specification_has_a_meaning() {
        let unnamed = |reason: &i32| meaning(*reason).contains("does not name");
        let unnamed: Vec<_> = (1..=35).filter(unnamed).collect();
        assert_eq!(unnamed, [34]);
        assert_eq!(meaning(8), "invalid service id");
        assert!(cause(8).contains("No process listens"));
    }
}
