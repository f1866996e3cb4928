#![forbid(unsafe_code)]
//! Why a work request was not posted (ibv_post_send(3), ibv_post_recv(3)).

use super::Reasons;
use kit::abi::*;
use kit::errno::Errno;
use kit::names;

/// The queue that was posted to.
#[derive(Clone, Copy)]
pub struct Queue {
    /// `qp_num`; `None` for a shared receive queue.
    pub qp: Option<u32>,
    /// `qp_type`.
    pub kind: ibv_qp_type,
    /// The state that the device reported, or the library last knew.
    pub state: ibv_qp_state,
    /// The sizes that the queue pair got at its creation, if the device reports them.
    pub cap: Option<ibv_qp_cap>,
    /// Whether receive requests come from a shared receive queue.
    pub has_srq: bool,
    /// `max_wr` and `max_sge` of a shared receive queue.
    pub srq: Option<(u32, u32)>,
}

/// The request that was refused.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Which one of the chain, from 0.
    pub place: usize,
    /// `wr_id`.
    pub id: u64,
    /// `opcode` and `send_flags`; `None` for a receive request.
    pub send: Option<(ibv_wr_opcode, u32)>,
    /// `num_sge`.
    pub sges: i32,
    /// Bytes of all pieces.
    pub bytes: u64,
    /// Whether a datagram has no address handle.
    pub no_ah: bool,
}

/// The arguments.
pub fn arguments(queue: &Queue, request: Option<&Request>) -> String {
    let mut text = match queue.qp {
        Some(number) => format!(
            "QP {number:#x} ({}, {})",
            names::qp_type(queue.kind),
            names::qp_state(queue.state)
        ),
        None => "SRQ".to_owned(),
    };
    let Some(r) = request else {
        return text;
    };
    text += &format!(", request {} of the chain, wr_id {:#x}", r.place, r.id);
    if let Some((opcode, flags)) = r.send {
        let flags = names::bits(flags, names::SEND_FLAGS);
        text += &format!(", {}, {flags}", names::opcode(opcode));
    }
    text + &format!(", {} pieces, {} bytes", r.sges, r.bytes)
}

/// Why it was refused.
pub fn reasons(queue: &Queue, request: Option<&Request>, e: Errno) -> Reasons {
    let mut why = Reasons::default();
    let Some(r) = request else {
        why.add_if(e == Errno::INVAL, || {
            "bad_wr names no request of the chain.".to_owned()
        });
        return why;
    };
    match r.send {
        Some((opcode, flags)) => send(queue, r, opcode, flags, e, &mut why),
        None => receive(queue, r, e, &mut why),
    }
    why
}

/// Why a batch of ibv_wr_post(3) was refused, as far as is known without its requests.
pub fn batch(queue: &Queue, e: Errno) -> Reasons {
    let mut why = Reasons::default();
    if !sends_from(queue.state) {
        why.add("Requests are sent from RTS on.");
        return why;
    }
    let Some(cap) = queue.cap else {
        return why;
    };
    why.add_if(e == Errno::NOMEM, || {
        format!(
            "The batch does not fit: the send queue holds {} requests (max_send_wr), also those \
             whose completions were not polled; a request takes {} pieces (max_send_sge) and {} \
             bytes inline (max_inline_data).",
            cap.max_send_wr, cap.max_send_sge, cap.max_inline_data
        )
    });
    why.add_if(e == Errno::INVAL, || {
        format!(
            "A request of the batch is not one that the queue pair takes: more than {} pieces \
             (max_send_sge), more than {} bytes inline (max_inline_data), an operation that the \
             service does not have, or data for one that brings data in.",
            cap.max_send_sge, cap.max_inline_data
        )
    });
    why
}

/// Whether a queue pair in that state takes send requests.
fn sends_from(state: ibv_qp_state) -> bool {
    matches!(state, IBV_QPS_RTS | IBV_QPS_SQD | IBV_QPS_SQE | IBV_QPS_ERR)
}

fn send(q: &Queue, r: &Request, opcode: ibv_wr_opcode, flags: u32, e: Errno, why: &mut Reasons) {
    why.add_if(!sends_from(q.state), || {
        format!(
            "The queue pair is in {}: requests are sent from RTS on (ibv_modify_qp RESET -> INIT \
             -> RTR -> RTS).",
            names::qp_state(q.state)
        )
    });
    why.add_if(!carries(q.kind, opcode), || {
        format!(
            "{} queue pairs do not have {}.",
            names::qp_type(q.kind),
            names::opcode(opcode)
        )
    });
    why.add_if(r.no_ah, || {
        "wr.ud.ah is NULL: a datagram needs the address handle of its destination.".to_owned()
    });
    let inline = flags & IBV_SEND_INLINE != 0;
    let reads = matches!(
        opcode,
        IBV_WR_RDMA_READ | IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD
    );
    why.add_if(inline && reads, || {
        "IBV_SEND_INLINE is for data that is sent; a read or an atomic brings data in.".to_owned()
    });
    let atomic = reads && opcode != IBV_WR_RDMA_READ;
    why.add_if(atomic && r.bytes < 8, || {
        format!(
            "An atomic returns 8 bytes; there is room for {} (sg_list).",
            r.bytes
        )
    });
    let Some(cap) = q.cap else {
        return;
    };
    pieces(r.sges, cap.max_send_sge, "max_send_sge", why);
    let most = cap.max_inline_data;
    why.add_if(inline && r.bytes > u64::from(most), || {
        format!(
            "{} bytes are to go inline, the queue pair takes {most} (max_inline_data).",
            r.bytes
        )
    });
    why.add_if(e == Errno::NOMEM, || {
        format!(
            "The send queue is full: it holds {} requests (max_send_wr). A place is free again \
             when the completion of a signalled request at or behind it has been polled; requests \
             without IBV_SEND_SIGNALED free none by themselves.",
            cap.max_send_wr
        )
    });
}

fn receive(q: &Queue, r: &Request, e: Errno, why: &mut Reasons) {
    if let Some((max_wr, max_sge)) = q.srq {
        pieces(r.sges, max_sge, "max_sge", why);
        why.add_if(e == Errno::NOMEM, || {
            full("shared receive queue", max_wr, "max_wr")
        });
        return;
    }
    why.add_if(q.state == IBV_QPS_RESET, || {
        "The queue pair is in RESET: receive requests are taken from INIT on.".to_owned()
    });
    why.add_if(q.has_srq, || {
        "The queue pair takes its receive requests from a shared receive queue: post them with \
         ibv_post_srq_recv."
            .to_owned()
    });
    why.add_if(q.kind == IBV_QPT_XRC_SEND, || {
        "XRC_SEND queue pairs receive nothing.".to_owned()
    });
    let Some(cap) = q.cap else {
        return;
    };
    pieces(r.sges, cap.max_recv_sge, "max_recv_sge", why);
    why.add_if(e == Errno::NOMEM, || {
        full("receive queue", cap.max_recv_wr, "max_recv_wr")
    });
}

fn full(queue: &str, most: u32, limit: &str) -> String {
    format!(
        "The {queue} is full: it holds {most} requests ({limit}). A place is free again when a \
         message has come and its completion has been polled."
    )
}

fn pieces(given: i32, most: u32, limit: &str, why: &mut Reasons) {
    let fits = u32::try_from(given).is_ok_and(|given| given <= most);
    why.add_if(!fits, || {
        format!("num_sge is {given}, the queue takes {most} ({limit}).")
    });
}

/// Whether a service has an operation (IBTA volume 1, table 35).
pub fn carries(kind: ibv_qp_type, opcode: ibv_wr_opcode) -> bool {
    match kind {
        IBV_QPT_UD => matches!(opcode, IBV_WR_SEND | IBV_WR_SEND_WITH_IMM | IBV_WR_TSO),
        IBV_QPT_RAW_PACKET => matches!(opcode, IBV_WR_SEND | IBV_WR_TSO),
        IBV_QPT_UC => !matches!(
            opcode,
            IBV_WR_RDMA_READ
                | IBV_WR_ATOMIC_CMP_AND_SWP
                | IBV_WR_ATOMIC_FETCH_AND_ADD
                | IBV_WR_ATOMIC_WRITE
                | IBV_WR_FLUSH
        ),
        IBV_QPT_XRC_RECV => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(state: ibv_qp_state) -> Queue {
        Queue {
            qp: Some(17),
            kind: IBV_QPT_RC,
            state,
            cap: Some(ibv_qp_cap {
                max_send_wr: 4,
                max_recv_wr: 5,
                max_send_sge: 1,
                max_recv_sge: 2,
                max_inline_data: 32,
            }),
            has_srq: false,
            srq: None,
        }
    }

    fn request(send: Option<(ibv_wr_opcode, u32)>) -> Request {
        Request {
            place: 0,
            id: 7,
            send,
            sges: 1,
            bytes: 8,
            no_ah: false,
        }
    }

    fn explanation(q: &Queue, r: &Request, e: Errno) -> String {
        reasons(q, Some(r), e).text()
    }

    #[test]
    fn states_operations_and_sizes() {
        let send = request(Some((IBV_WR_SEND, 0)));
        assert!(explanation(&queue(IBV_QPS_INIT), &send, Errno::INVAL).contains("is in INIT"));
        let rts = queue(IBV_QPS_RTS);
        assert_eq!(explanation(&rts, &send, Errno::INVAL), "");
        assert!(explanation(&rts, &send, Errno::NOMEM).contains("holds 4 requests"));
        let long = Request {
            bytes: 33,
            ..request(Some((IBV_WR_SEND, IBV_SEND_INLINE)))
        };
        assert!(explanation(&rts, &long, Errno::INVAL).contains("33 bytes are to go inline"));
        let many = Request { sges: 2, ..send };
        assert!(explanation(&rts, &many, Errno::INVAL).contains("num_sge is 2, the queue takes 1"));
        let ud = Queue {
            kind: IBV_QPT_UD,
            ..rts
        };
        let read = request(Some((IBV_WR_RDMA_READ, 0)));
        assert!(explanation(&ud, &read, Errno::INVAL).contains("UD queue pairs do not have"));
    }

    #[test]
    fn receives() {
        let r = request(None);
        assert!(explanation(&queue(IBV_QPS_RESET), &r, Errno::INVAL).contains("in RESET"));
        assert!(explanation(&queue(IBV_QPS_RTS), &r, Errno::NOMEM).contains("holds 5 requests"));
        let shared = Queue {
            has_srq: true,
            ..queue(IBV_QPS_RTS)
        };
        assert!(explanation(&shared, &r, Errno::INVAL).contains("ibv_post_srq_recv"));
    }
}
