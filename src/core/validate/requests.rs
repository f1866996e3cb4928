#![forbid(unsafe_code)]
//! Work requests as they are posted (ibv_post_send(3), ibv_post_recv(3)).

use super::World;
use super::queue::{Sent, SharedQueue};
use kit::abi::*;
use kit::names;

/// A piece of memory that a request names.
#[derive(Clone, Copy, Debug, Default)]
pub struct Piece {
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// Its key.
    pub lkey: u32,
}

/// A send request.
#[derive(Clone, Debug, Default)]
pub struct Send {
    /// `wr_id`.
    pub id: u64,
    /// `opcode`.
    pub opcode: ibv_wr_opcode,
    /// `send_flags`.
    pub flags: u32,
    /// Pieces of registered memory.
    pub pieces: Vec<Piece>,
    /// Bytes that go inline.
    pub inline: u64,
    /// The address handle of a datagram.
    pub ah: usize,
}

/// A receive request.
#[derive(Clone, Debug, Default)]
pub struct Receive {
    /// `wr_id`.
    pub id: u64,
    /// Its pieces.
    pub pieces: Vec<Piece>,
}

impl World {
    /// How many pieces a send request and a receive request of a queue pair may have. Requests with
    /// more are refused, and their lists may be shorter.
    pub fn most_pieces(&self, qp: usize) -> (u32, u32) {
        let cap = self.queues.pair(qp).map(|queue| queue.cap);
        cap.map_or((0, 0), |cap| (cap.max_send_sge, cap.max_recv_sge))
    }

    /// The same for a shared receive queue.
    pub fn most_pieces_shared(&self, srq: usize) -> u32 {
        self.queues.shared(srq).map_or(0, |queue| queue.max_sge)
    }

    /// Looks at send requests that are about to be posted, and counts them as posted.
    pub fn posting(&mut self, qp: usize, requests: &[Send]) {
        let Some(queue) = self.queues.pair(qp) else {
            return;
        };
        let (context, pd, state, cap) = (queue.context, queue.pd, queue.state, queue.cap);
        let (number, all) = (queue.number, queue.sig_all);
        if matches!(state, IBV_QPS_RESET | IBV_QPS_INIT | IBV_QPS_RTR) {
            self.find("state", qp, || {
                format!(
                    "A send request is posted on QP {number:#x}, which is in {}: it takes them \
                     from RTS on.",
                    names::qp_state(state)
                )
            });
        }
        for request in requests {
            self.flags(qp, number, request.flags);
            let (bytes, most) = (request.inline, cap.max_inline_data);
            if bytes > u64::from(most) {
                self.find("inline", qp, || {
                    format!(
                        "{bytes} bytes are to go inline on QP {number:#x}, whose max_inline_data \
                         is {most}."
                    )
                });
            }
            let written = matches!(
                request.opcode,
                IBV_WR_RDMA_READ | IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD
            );
            for piece in &request.pieces {
                self.check_piece(qp, context, pd, *piece, written);
            }
            if request.ah != 0 {
                self.is_destroyed(request.ah, false);
            }
        }
        let sent = requests.iter().map(|request| Sent {
            id: request.id,
            signaled: all || request.flags & IBV_SEND_SIGNALED != 0,
        });
        self.queues.sent(qp, sent);
        self.check_send_queue(qp);
        self.check_room(qp);
    }

    fn check_send_queue(&mut self, qp: usize) {
        let Some(queue) = self.queues.pair(qp) else {
            return;
        };
        let (number, most) = (queue.number, queue.cap.max_send_wr);
        let posted = queue.sends.len();
        let reapable = queue.sends.iter().any(|sent| sent.signaled);
        if !queue.tracked || queue.state != IBV_QPS_RTS {
            return;
        }
        let full = u32::try_from(posted).is_ok_and(|posted| posted >= most);
        if full && !reapable {
            self.find("unsignalled", qp, || {
                format!(
                    "The send queue of QP {number:#x} is full ({posted} requests) and none of them \
                     is signalled: no completion will come, so none of the places becomes free. \
                     At least one of {most} requests has to have IBV_SEND_SIGNALED."
                )
            });
        } else if u32::try_from(posted).is_ok_and(|posted| posted > most) {
            self.find("overflow", qp, || {
                format!(
                    "{posted} requests are posted on QP {number:#x} whose completions were not \
                     polled, but its max_send_wr is {most}."
                )
            });
        }
    }

    /// Takes back the last requests, which were not posted after all.
    pub fn not_posted(&mut self, qp: usize, count: usize) {
        self.queues.unsend(qp, count);
    }

    /// Looks at receive requests of a queue pair that are about to be posted, and counts them.
    pub fn posting_receives(&mut self, qp: usize, requests: &[Receive]) {
        let Some(queue) = self.queues.pair(qp) else {
            return;
        };
        let (context, pd, state, number) = (queue.context, queue.pd, queue.state, queue.number);
        if state == IBV_QPS_RESET {
            self.find("state", qp, || {
                format!(
                    "A receive request is posted on QP {number:#x}, which is in RESET: it takes \
                     them from INIT on."
                )
            });
        }
        self.check_receives(qp, context, pd, requests);
        self.queues
            .received(qp, requests.iter().map(|request| request.id));
        self.check_room(qp);
    }

    /// Takes back the last receive requests, which were not posted after all.
    pub fn not_received(&mut self, qp: usize, count: usize) {
        self.queues.unreceive(qp, count);
    }

    /// Looks at requests for a shared receive queue.
    pub fn posting_shared(&mut self, srq: usize, requests: &[Receive]) {
        let Some(&SharedQueue { context, pd, .. }) = self.queues.shared(srq) else {
            return;
        };
        self.check_receives(srq, context, pd, requests);
    }

    fn check_receives(&mut self, queue: usize, context: usize, pd: usize, requests: &[Receive]) {
        for piece in requests.iter().flat_map(|request| &request.pieces) {
            self.check_piece(queue, context, pd, *piece, true);
        }
    }

    /// Whether the completion queues of a queue pair have room for all that may complete.
    fn check_room(&mut self, qp: usize) {
        for (cq, pending, room) in self.queues.crowded(qp) {
            let name = self.objects.name(cq);
            self.find("overrun", cq, || {
                format!(
                    "{name} has room for {room} completions, but {pending} signalled requests and \
                     receive requests are posted that complete on it: it overruns if they do \
                     before it is polled, and its queue pairs fail."
                )
            });
        }
    }
}

/// Requests by calls (ibv_wr_post(3)), which are posted together at the end.
impl World {
    /// Starts a batch; one that was not posted is forgotten.
    pub fn batch_begins(&mut self, qp: usize) {
        self.queues.batch(qp, Vec::clear);
    }

    /// Adds a request.
    pub fn batch_request(&mut self, qp: usize, request: Send) {
        self.queues.batch(qp, |batch| batch.push(request));
    }

    /// Adds a piece to the last request.
    pub fn batch_piece(&mut self, qp: usize, piece: Piece) {
        self.queues.batch(qp, |batch| {
            if let Some(last) = batch.last_mut() {
                last.pieces.push(piece);
            }
        });
    }

    /// Adds inline data to the last request.
    pub fn batch_inline(&mut self, qp: usize, bytes: u64) {
        self.queues.batch(qp, |batch| {
            if let Some(last) = batch.last_mut() {
                last.inline = last.inline.saturating_add(bytes);
            }
        });
    }

    /// Gives the last request its destination.
    pub fn batch_address(&mut self, qp: usize, ah: usize) {
        self.queues.batch(qp, |batch| {
            if let Some(last) = batch.last_mut() {
                last.ah = ah;
            }
        });
    }

    /// Looks at the batch that is about to be posted, and counts it; how many requests it has.
    pub fn batch_posting(&mut self, qp: usize) -> usize {
        let mut batch = Vec::new();
        self.queues
            .batch(qp, |requests| std::mem::swap(requests, &mut batch));
        self.posting(qp, &batch);
        batch.len()
    }
}
