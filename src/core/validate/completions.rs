#![forbid(unsafe_code)]
//! Completions as they are polled (ibv_poll_cq(3)).

use super::World;
use kit::abi::*;

/// The checked parts of a completion.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// `wr_id`.
    pub id: u64,
    /// `qp_num`.
    pub number: u32,
    /// `status`.
    pub status: ibv_wc_status,
    /// `opcode`, which counts only for successes.
    pub opcode: ibv_wc_opcode,
}

impl World {
    /// Counts a completion that was polled from a queue.
    pub fn completed(&mut self, cq: usize, context: usize, c: Completion) {
        let Some(qp) = self.queues.of_number(context, c.number) else {
            return;
        };
        if c.status != IBV_WC_SUCCESS {
            self.starved(qp, c.status);
            self.queues.failed(qp, c.id, cq);
        } else if c.opcode & IBV_WC_RECV != 0 {
            self.queues.receive_completed(qp);
        } else {
            self.queues.send_completed(qp, c.id);
        }
    }

    /// Looks whether a peer that had no receive request posted is a queue pair of this program.
    fn starved(&mut self, qp: usize, status: ibv_wc_status) {
        if status != IBV_WC_RNR_RETRY_EXC_ERR {
            return;
        }
        let peer = self.queues.pair(qp).and_then(|pair| pair.peer);
        let Some(peer) = peer.and_then(|number| self.queues.anywhere(number)) else {
            return;
        };
        let Some((number, posted)) = self
            .queues
            .pair(peer)
            .filter(|pair| !pair.has_srq)
            .map(|pair| (pair.number, pair.receives.len()))
        else {
            return;
        };
        if posted != 0 {
            return;
        }
        self.find("receives", peer, || {
            format!(
                "The receive queue of QP {number:#x} was left empty while its peer sent, so the \
                 peer's request failed (RNR retry exceeded): post receive requests before the \
                 peer may send."
            )
        });
    }
}
