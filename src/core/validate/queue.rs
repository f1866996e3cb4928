#![forbid(unsafe_code)]
//! Requests that are posted on queues and have not completed.

use super::{Kind, Send, World};
use kit::abi::*;
use std::collections::{BTreeMap, VecDeque};

/// A send request that has not completed.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub id: u64,
    pub signaled: bool,
}

/// A queue pair.
#[derive(Clone)]
pub struct QueuePair {
    pub number: u32,
    pub context: usize,
    pub pd: usize,
    pub state: ibv_qp_state,
    pub cap: ibv_qp_cap,
    pub sig_all: bool,
    send_cq: usize,
    recv_cq: usize,
    pub has_srq: bool,
    /// The peer's number, once it is known.
    pub peer: Option<u32>,
    pub sends: VecDeque<Sent>,
    pub receives: VecDeque<u64>,
    /// Requests by calls that are not posted yet.
    batch: Vec<Send>,
    /// Whether its completions are seen, one by one and in order.
    pub tracked: bool,
}

impl std::fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QP {:#x}", self.number)
    }
}

/// A queue pair that was made.
#[derive(Clone, Copy)]
pub struct NewQueuePair {
    /// Its address.
    pub object: usize,
    /// `qp_num`.
    pub number: u32,
    /// Its context.
    pub context: usize,
    /// Its domain.
    pub pd: usize,
    /// The granted capacities.
    pub cap: ibv_qp_cap,
    /// `sq_sig_all`.
    pub sig_all: bool,
    /// `send_cq`.
    pub send_cq: usize,
    /// `recv_cq`.
    pub recv_cq: usize,
    /// Whether it has a shared receive queue.
    pub has_srq: bool,
    /// `qp_type`.
    pub kind: ibv_qp_type,
}

/// A shared receive queue that was made.
#[derive(Clone, Copy, Debug)]
pub struct SharedQueue {
    /// Its address.
    pub object: usize,
    /// Its context.
    pub context: usize,
    /// Its domain.
    pub pd: usize,
    /// How many pieces a request may have.
    pub max_sge: u32,
}

/// A completion queue.
#[derive(Clone, Copy, Debug)]
struct CompletionQueue {
    room: usize,
    /// Signalled requests and receive requests whose completions have not been polled.
    pending: usize,
    /// Whether its completions name their queue pair.
    reports: bool,
}

/// All of them, by address.
#[derive(Debug, Default)]
pub struct Queues {
    pairs: BTreeMap<usize, QueuePair>,
    numbers: BTreeMap<(usize, u32), usize>,
    cqs: BTreeMap<usize, CompletionQueue>,
    shared: BTreeMap<usize, SharedQueue>,
}

impl Queues {
    /// A queue pair.
    pub fn pair(&self, qp: usize) -> Option<&QueuePair> {
        self.pairs.get(&qp)
    }

    /// The queue pair of a number.
    pub fn of_number(&self, context: usize, number: u32) -> Option<usize> {
        self.numbers.get(&(context, number)).copied()
    }

    /// The queue pair of a number on any context.
    pub fn anywhere(&self, number: u32) -> Option<usize> {
        let mut of_number = self
            .numbers
            .iter()
            .filter(|((_, other), _)| *other == number);
        of_number.next().map(|(_, qp)| *qp)
    }

    /// A shared receive queue.
    pub fn shared(&self, srq: usize) -> Option<&SharedQueue> {
        self.shared.get(&srq)
    }

    /// Forgets a queue.
    pub fn remove(&mut self, object: usize) {
        self.empty(object);
        if let Some(pair) = self.pairs.remove(&object) {
            let key = (pair.context, pair.number);
            // The number may be another's already.
            if self.numbers.get(&key) == Some(&object) {
                self.numbers.remove(&key);
            }
        }
        self.cqs.remove(&object);
        self.shared.remove(&object);
    }

    /// Drops the requests that are posted on a queue pair.
    fn empty(&mut self, qp: usize) {
        let Some(pair) = self.pairs.get_mut(&qp) else {
            return;
        };
        let sends = pair.sends.drain(..).filter(|sent| sent.signaled).count();
        let receives = pair.receives.drain(..).count();
        let (send_cq, recv_cq) = (pair.send_cq, pair.recv_cq);
        pair.tracked = true;
        self.less(send_cq, sends);
        self.less(recv_cq, receives);
    }

    fn less(&mut self, cq: usize, count: usize) {
        if let Some(cq) = self.cqs.get_mut(&cq) {
            cq.pending = cq.pending.saturating_sub(count);
        }
    }

    fn more(&mut self, cq: usize, count: usize) {
        if let Some(cq) = self.cqs.get_mut(&cq) {
            cq.pending = cq.pending.saturating_add(count);
        }
    }

    /// Works on the requests by calls that are not posted yet.
    pub fn batch(&mut self, qp: usize, work: impl FnOnce(&mut Vec<Send>)) {
        if let Some(pair) = self.pairs.get_mut(&qp) {
            work(&mut pair.batch);
        }
    }

    /// Counts requests as posted.
    pub fn sent(&mut self, qp: usize, requests: impl Iterator<Item = Sent>) {
        let Some(pair) = self.pairs.get_mut(&qp) else {
            return;
        };
        let before = pair.sends.len();
        pair.sends.extend(requests);
        let signaled = pair
            .sends
            .range(before..)
            .filter(|sent| sent.signaled)
            .count();
        let cq = pair.send_cq;
        self.more(cq, signaled);
    }

    /// Takes the last requests back.
    pub fn unsend(&mut self, qp: usize, count: usize) {
        let Some(pair) = self.pairs.get_mut(&qp) else {
            return;
        };
        let left = pair.sends.len().saturating_sub(count);
        let signaled = pair
            .sends
            .drain(left..)
            .filter(|sent| sent.signaled)
            .count();
        let cq = pair.send_cq;
        self.less(cq, signaled);
    }

    /// Counts receive requests as posted.
    pub fn received(&mut self, qp: usize, requests: impl Iterator<Item = u64>) {
        let Some(pair) = self.pairs.get_mut(&qp) else {
            return;
        };
        let before = pair.receives.len();
        pair.receives.extend(requests);
        let (count, cq) = (pair.receives.len() - before, pair.recv_cq);
        self.more(cq, count);
    }

    /// Takes the last receive requests back.
    pub fn unreceive(&mut self, qp: usize, count: usize) {
        let Some(pair) = self.pairs.get_mut(&qp) else {
            return;
        };
        let left = pair.receives.len().saturating_sub(count);
        let count = pair.receives.drain(left..).count();
        let cq = pair.recv_cq;
        self.less(cq, count);
    }

    /// Counts the oldest signalled send request, and those before it, as completed. If `id` is not
    /// its `wr_id`, the records are wrong.
    pub fn send_completed(&mut self, qp: usize, id: u64) {
        let Some(pair) = self.pairs.get_mut(&qp) else {
            return;
        };
        let Some(at) = pair.sends.iter().position(|sent| sent.signaled) else {
            pair.tracked = false;
            return;
        };
        pair.tracked &= pair
            .sends
            .drain(..=at)
            .next_back()
            .is_some_and(|sent| sent.id == id);
        let cq = pair.send_cq;
        self.less(cq, 1);
    }

    /// Counts the oldest receive request as completed.
    pub fn receive_completed(&mut self, qp: usize) {
        let Some(pair) = self.pairs.get_mut(&qp) else {
            return;
        };
        if pair.receives.pop_front().is_some() {
            let cq = pair.recv_cq;
            self.less(cq, 1);
        }
    }

    /// Counts the request of that `wr_id` as failed: at an error also those that are not signalled
    /// complete.
    pub fn failed(&mut self, qp: usize, id: u64, cq: usize) {
        let Some(pair) = self.pairs.get_mut(&qp) else {
            return;
        };
        let sends = pair.send_cq == cq;
        let receives = pair.recv_cq == cq;
        let sent = pair
            .sends
            .iter()
            .position(|sent| sent.id == id)
            .filter(|_| sends);
        let received = pair.receives.front() == Some(&id) && receives;
        match (sent, received) {
            (Some(at), false) => {
                let signaled = pair.sends.drain(..=at).filter(|sent| sent.signaled).count();
                self.less(cq, signaled);
            }
            (None, true) => self.receive_completed(qp),
            // It is unknown which of both it was.
            (Some(_), true) | (None, false) => {
                self.empty(qp);
                self.lose(qp);
            }
        }
    }

    /// The books of a queue pair are not kept any more.
    fn lose(&mut self, qp: usize) {
        if let Some(pair) = self.pairs.get_mut(&qp) {
            pair.tracked = false;
        }
    }

    /// The completion queues of a queue pair on which more may complete than they have room for.
    pub fn crowded(&self, qp: usize) -> Vec<(usize, usize, usize)> {
        let Some(pair) = self.pairs.get(&qp).filter(|pair| pair.tracked) else {
            return Vec::new();
        };
        let full = |cq: &usize| {
            let known = self.cqs.get(cq)?;
            (known.reports && known.pending > known.room).then_some((
                *cq,
                known.pending,
                known.room,
            ))
        };
        [pair.send_cq, pair.recv_cq]
            .iter()
            .filter_map(full)
            .collect()
    }
}

impl World {
    /// Notes a new completion queue. `reports` means that its completions name their queue pair.
    pub fn made_cq(&mut self, cq: usize, context: usize, cqe: usize, reports: bool) {
        self.made(Kind::Cq, cq, context, &format!("{cq:#x} of {cqe} entries"));
        let new = CompletionQueue {
            room: cqe,
            pending: 0,
            reports,
        };
        self.queues.cqs.insert(cq, new);
    }

    /// Notes the new size of a completion queue.
    pub fn resized_cq(&mut self, cq: usize, cqe: usize) {
        if let Some(known) = self.queues.cqs.get_mut(&cq) {
            known.room = cqe;
        }
    }

    /// Notes a new shared receive queue.
    pub fn made_srq(&mut self, new: &SharedQueue) {
        self.made(Kind::Srq, new.object, new.context, "");
        self.queues.shared.insert(new.object, *new);
    }

    /// Notes a new queue pair.
    pub fn made_qp(&mut self, new: &NewQueuePair) {
        self.made(
            Kind::Qp,
            new.object,
            new.context,
            &format!("{:#x}", new.number),
        );
        let reports = |cq: usize| self.queues.cqs.get(&cq).is_none_or(|cq| cq.reports);
        let pair = QueuePair {
            number: new.number,
            context: new.context,
            pd: new.pd,
            state: IBV_QPS_RESET,
            cap: new.cap,
            sig_all: new.sig_all,
            send_cq: new.send_cq,
            recv_cq: new.recv_cq,
            has_srq: new.has_srq,
            peer: None,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            batch: Vec::new(),
            // A vendor's type has unknown rules.
            tracked: reports(new.send_cq) && new.kind != IBV_QPT_DRIVER,
        };
        self.queues
            .numbers
            .insert((new.context, new.number), new.object);
        self.queues.pairs.insert(new.object, pair);
    }

    /// Notes that the program moved a queue pair to a state, or set its peer.
    pub fn modified(&mut self, qp: usize, state: Option<ibv_qp_state>, peer: Option<u32>) {
        if state == Some(IBV_QPS_RESET) {
            self.queues.empty(qp);
        }
        if let Some(pair) = self.queues.pairs.get_mut(&qp) {
            pair.state = state.unwrap_or(pair.state);
            pair.peer = peer.or(pair.peer);
        }
    }
}
