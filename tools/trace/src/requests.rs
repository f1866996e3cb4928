//! Follows requests from the call that posted them to the call that returned their completions.
//!
//! A completion names its queue pair by number, or else it is at a completion queue of the queue
//! pair. Of the requests there, it ends the first one with its `wr_id`; a successful one, the first
//! that asked for a completion. Sends complete in order, so it also ends those before it. Requests
//! of ibv_wr_post(3) are not recorded one by one, and not followed.
#![forbid(unsafe_code)]

use crate::file::{Call, Trace};
use crate::words::value;
use std::collections::{BTreeMap, VecDeque};

/// `IBV_SEND_SIGNALED`.
const SIGNALED: u64 = 2;
/// The bit of `enum ibv_wc_opcode` that receives have.
const RECEIVE: u64 = 0x80;

/// A request that completed.
#[derive(Debug, PartialEq, Eq)]
pub struct Flow {
    /// The call that posted it, by its place in the trace.
    pub from: usize,
    /// The call that returned its completion.
    pub to: usize,
    /// `None` for a receive request.
    pub opcode: Option<u64>,
}

/// How many requests of a queue are outstanding from a moment on.
#[derive(Debug, PartialEq, Eq)]
pub struct Level {
    /// Nanoseconds.
    pub at: u64,
    /// The process.
    pub process: u32,
    /// The queue pair or shared receive queue.
    pub queue: String,
    /// Send requests; a shared receive queue has none.
    pub sends: Option<usize>,
    /// Receive requests; a queue pair with a shared receive queue has none.
    pub receives: Option<usize>,
}

/// The requests of a trace.
#[derive(Debug, Default)]
pub struct Requests {
    /// Those that completed.
    pub flows: Vec<Flow>,
    /// In the order of their times.
    pub levels: Vec<Level>,
    /// Each completion: its process, and when it was returned.
    pub completions: Vec<(u32, u64)>,
}

/// A request without a completion yet.
#[derive(Debug)]
struct Request {
    call: usize,
    id: u64,
    signalled: bool,
    /// `None` for a receive request.
    opcode: Option<u64>,
}

/// A queue pair.
#[derive(Debug, Default)]
struct Pair {
    name: String,
    number: u64,
    send_cq: u64,
    recv_cq: u64,
    srq: u64,
    all_signalled: bool,
    sends: VecDeque<Request>,
    receives: VecDeque<Request>,
}

/// The queues of a process, by their addresses.
#[derive(Debug, Default)]
struct Queues {
    pairs: BTreeMap<u64, Pair>,
    /// The addresses of queue pairs by their numbers.
    numbers: BTreeMap<u64, u64>,
    shared: BTreeMap<u64, VecDeque<Request>>,
}

/// Follows the requests of all processes.
pub fn follow(trace: &Trace) -> Requests {
    let moment = |(at, call): (usize, &Call)| {
        // The completion of a request may be returned before the call that posts it has returned.
        let took = if is_post(trace.name(call)) {
            0
        } else {
            call.took
        };
        (call.begin.saturating_add(took), at)
    };
    let mut order: Vec<_> = trace.calls.iter().enumerate().map(moment).collect();
    order.sort_unstable();
    let mut processes: BTreeMap<u32, Queues> = BTreeMap::new();
    let mut requests = Requests::default();
    for (time, at) in order {
        let Some(call) = trace.calls.get(at) else {
            continue;
        };
        let queues = processes.entry(call.process).or_default();
        queues.take(trace, (at, call), time, &mut requests);
    }
    requests
}

fn is_post(name: &str) -> bool {
    matches!(
        name,
        "ibv_post_send" | "ibv_post_recv" | "ibv_post_srq_recv"
    )
}

impl Queues {
    /// Takes over what a call changed.
    fn take(&mut self, trace: &Trace, (at, call): (usize, &Call), time: u64, to: &mut Requests) {
        let word = |name| trace.word(call, name).unwrap_or(0);
        let process = call.process;
        let done = call.error == 0;
        match trace.name(call) {
            "ibv_create_qp" | "ibv_create_qp_ex" if done => {
                self.numbers.insert(word("qp_num"), call.value);
                self.pairs.insert(call.value, pair(trace, call));
            }
            "ibv_destroy_qp" if done => {
                self.pairs.remove(&word("qp"));
            }
            "ibv_destroy_srq" if done => {
                self.shared.remove(&word("srq"));
            }
            "ibv_modify_qp" if done && word("attr_mask") & 1 != 0 && word("state") == 0 => {
                if let Some(pair) = self.pairs.get_mut(&word("qp")) {
                    pair.sends.clear();
                    pair.receives.clear();
                    to.levels.push(pair.level(process, time));
                }
            }
            "ibv_post_send" => {
                let Some(pair) = self.pairs.get_mut(&word("qp")) else {
                    return;
                };
                let all = pair.all_signalled;
                pair.sends.extend(posted(trace, (at, call), all));
                to.levels.push(pair.level(process, time));
            }
            "ibv_post_recv" => {
                if let Some(pair) = self.pairs.get_mut(&word("qp")) {
                    pair.receives.extend(posted(trace, (at, call), true));
                    to.levels.push(pair.level(process, time));
                }
            }
            "ibv_post_srq_recv" => {
                let srq = word("srq");
                let receives = self.shared.entry(srq).or_default();
                receives.extend(posted(trace, (at, call), true));
                to.levels.push(shared_level(process, time, srq, receives));
            }
            "ibv_poll_cq" if done => {
                for completion in trace.groups(call) {
                    let completion = Completion::read(word("cq"), completion);
                    self.complete(&completion, (at, call), time, to);
                }
            }
            "ibv_start_poll" | "ibv_next_poll" if done => {
                let completion = Completion::read(word("cq"), trace.words(call));
                self.complete(&completion, (at, call), time, to);
            }
            _ => {}
        }
    }

    fn complete(
        &mut self,
        completion: &Completion,
        (at, call): (usize, &Call),
        time: u64,
        to: &mut Requests,
    ) {
        to.completions.push((call.process, time));
        let its = completion.pair.map(|number| self.numbers.get(&number));
        let addresses = match its {
            Some(address) => Vec::from_iter(address.copied()),
            None => self.pairs.keys().copied().collect(),
        };
        for address in addresses {
            let Some(pair) = self.pairs.get_mut(&address) else {
                continue;
            };
            let shared = self.shared.get_mut(&pair.srq);
            let Some(request) = pair.complete(completion, shared) else {
                continue;
            };
            to.flows.push(Flow {
                from: request.call,
                to: at,
                opcode: request.opcode,
            });
            to.levels.push(pair.level(call.process, time));
            if let Some(receives) = self.shared.get(&pair.srq)
                && request.opcode.is_none()
            {
                let level = shared_level(call.process, time, pair.srq, receives);
                to.levels.push(level);
            }
            return;
        }
    }
}

/// A completion as it was recorded.
#[derive(Debug, Default)]
struct Completion {
    cq: u64,
    id: u64,
    status: u64,
    opcode: u64,
    /// The number of the queue pair, if the completion has it.
    pair: Option<u64>,
}

impl Completion {
    fn read<'a>(cq: u64, words: impl Iterator<Item = (&'a str, u64)>) -> Self {
        let mut completion = Self {
            cq,
            ..Self::default()
        };
        for (name, word) in words {
            match name {
                "wr_id" => completion.id = word,
                "status" => completion.status = word,
                "opcode" => completion.opcode = word,
                "qp_num" => completion.pair = Some(word),
                _ => {}
            }
        }
        completion
    }
}

fn pair(trace: &Trace, call: &Call) -> Pair {
    let word = |name| trace.word(call, name).unwrap_or(0);
    let number = word("qp_num");
    Pair {
        name: format!(
            "QP {number:#x} ({})",
            value("ibv_create_qp", "type", word("type"))
        ),
        number,
        send_cq: word("send_cq"),
        recv_cq: word("recv_cq"),
        srq: word("srq"),
        all_signalled: word("sq_sig_all") != 0,
        ..Pair::default()
    }
}

/// The requests that a call posted.
fn posted(trace: &Trace, (at, call): (usize, &Call), signalled: bool) -> Vec<Request> {
    let one = |words: &mut dyn Iterator<Item = (&str, u64)>| {
        let mut request = Request {
            call: at,
            id: 0,
            signalled,
            opcode: None,
        };
        for (name, word) in words {
            match name {
                "wr_id" => request.id = word,
                "opcode" => request.opcode = Some(word),
                "send_flags" => request.signalled |= word & SIGNALED != 0,
                _ => {}
            }
        }
        request
    };
    let count = trace.word(call, "posted").unwrap_or(0);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let groups = trace.groups(call).take(count);
    groups.map(|mut group| one(&mut group)).collect()
}

fn shared_level(process: u32, at: u64, srq: u64, receives: &VecDeque<Request>) -> Level {
    Level {
        at,
        process,
        queue: format!("SRQ {srq:#x}"),
        sends: None,
        receives: Some(receives.len()),
    }
}

impl Pair {
    fn level(&self, process: u32, at: u64) -> Level {
        Level {
            at,
            process,
            queue: self.name.clone(),
            sends: Some(self.sends.len()),
            receives: (self.srq == 0).then_some(self.receives.len()),
        }
    }

    /// Ends the request of a completion; `None` if it is of another queue pair or unknown.
    fn complete(
        &mut self,
        completion: &Completion,
        shared: Option<&mut VecDeque<Request>>,
    ) -> Option<Request> {
        let receives = shared.unwrap_or(&mut self.receives);
        match completion.pair {
            Some(number) if number != self.number => return None,
            None if ![self.send_cq, self.recv_cq].contains(&completion.cq) => return None,
            _ => {}
        }
        let success = completion.status == 0;
        let is_receive = completion.opcode & RECEIVE != 0;
        let is_its = |request: &Request| request.id == completion.id;
        // The operation of a failed request is undefined, so it counts only where both have the
        // identifier.
        let send = self
            .sends
            .iter()
            .position(|request| is_its(request) && (request.signalled || !success));
        let receive = receives.iter().position(is_its);
        match (send, receive) {
            (_, Some(at)) if is_receive || (send.is_none() && !success) => receives.remove(at),
            (Some(at), _) if !is_receive || !success => self.sends.drain(..=at).next_back(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{read, tests::chunk};

    const NAMES: &[u8] = b"ibv_create_qp pd type send_cq recv_cq srq sq_sig_all qp_num\n\
        ibv_post_send qp requests posted ... wr_id opcode send_flags bytes\n\
        ibv_post_recv qp requests posted ... wr_id bytes\n\
        ibv_post_srq_recv srq requests posted ... wr_id bytes\n\
        ibv_poll_cq cq ... wr_id status opcode qp_num\n\
        ibv_start_poll cq wr_id status opcode qp_num\n\
        ibv_modify_qp qp attr_mask state\n";
    const CREATE: u8 = 0;
    const SEND: u8 = 1;
    const RECEIVE: u8 = 2;
    const RECEIVE_SHARED: u8 = 3;
    const POLL: u8 = 4;
    const START: u8 = 5;
    const MODIFY: u8 = 6;
    /// A queue pair at address 1 with number 9, and another one whose receives are at queue 8.
    const PAIR: (u8, u8, &[u8]) = (CREATE, 1, &[0, 2, 5, 6, 0, 0, 9]);
    const SHARING: (u8, u8, &[u8]) = (CREATE, 2, &[0, 2, 5, 5, 8, 1, 10]);

    /// Calls, their results and words, one after the other.
    fn of(calls: &[(u8, u8, &[u8])]) -> Requests {
        let mut bytes = chunk(0, 0, NAMES);
        for (at, (name, value, words)) in (1u8..).zip(calls) {
            // Bytes of a number that more follow.
            let more = words.iter().filter(|byte| **byte & 0x80 != 0).count();
            let count = u8::try_from(words.len() - more).unwrap();
            let head = [*name, 1, at * 2, 1, 0, *value, count];
            bytes.extend(chunk(1, 0, &[&head[..], words].concat()));
        }
        follow(&read(&bytes).expect("a trace"))
    }

    fn pairs(requests: &Requests) -> Vec<(usize, usize)> {
        let flows = requests.flows.iter();
        flows.map(|flow| (flow.from, flow.to)).collect()
    }

    fn levels(requests: &Requests) -> Vec<(Option<usize>, Option<usize>)> {
        let levels = requests.levels.iter();
        levels.map(|level| (level.sends, level.receives)).collect()
    }

    #[test]
    fn a_completion_ends_the_first_request_of_its_identifier() {
        let requests = of(&[
            PAIR,
            (RECEIVE, 0, &[1, 2, 2, 7, 64, 7, 64]),
            (SEND, 0, &[1, 1, 1, 7, 2, 2, 64]),
            // The operation of a receive takes two bytes.
            (POLL, 2, &[5, 7, 0, 0x80, 1, 9, 7, 0, 0, 9]),
            (POLL, 0, &[5]),
        ]);
        assert_eq!(pairs(&requests), [(1, 3), (2, 3)]);
        assert_eq!(requests.completions, [(7, 5), (7, 5)]);
        assert_eq!(levels(&requests).last(), Some(&(Some(0), Some(1))));
    }

    #[test]
    fn sends_without_a_completion_end_with_the_next_one() {
        let requests = of(&[
            PAIR,
            (SEND, 0, &[1, 2, 2, 7, 2, 0, 64, 7, 2, 2, 64]),
            (SEND, 0, &[1, 1, 1, 7, 2, 2, 64]),
            (POLL, 1, &[5, 7, 0, 0, 9]),
            (POLL, 1, &[5, 7, 0, 0, 9]),
        ]);
        assert_eq!(pairs(&requests), [(1, 3), (2, 4)]);
        let sends: Vec<_> = levels(&requests).iter().map(|level| level.0).collect();
        assert_eq!(sends, [Some(2), Some(3), Some(1), Some(0)]);
        assert_eq!(requests.flows[0].opcode, Some(2));
        assert_eq!(requests.levels[0].queue, "QP 0x9 (RC)");
    }

    #[test]
    fn refused_requests_do_not_count() {
        let requests = of(&[
            PAIR,
            (SEND, 0, &[1, 2, 1, 7, 2, 2, 64, 8, 2, 2, 64]),
            (POLL, 1, &[5, 8, 0, 0, 9]),
        ]);
        assert_eq!(pairs(&requests), []);
        assert_eq!(levels(&requests), [(Some(1), Some(0))]);
    }

    #[test]
    fn a_failed_completion_ends_requests_without_a_flag() {
        let flushed = 5;
        let requests = of(&[
            PAIR,
            (RECEIVE, 0, &[1, 1, 1, 3, 64]),
            (SEND, 0, &[1, 1, 1, 7, 2, 0, 64]),
            (POLL, 2, &[5, 7, flushed, 0, 9, 3, flushed, 0, 9]),
        ]);
        assert_eq!(pairs(&requests), [(2, 3), (1, 3)]);
        assert_eq!(requests.flows[1].opcode, None);
    }

    #[test]
    fn a_completion_without_a_number_is_found_by_its_queue() {
        let requests = of(&[
            PAIR,
            (SEND, 0, &[1, 1, 1, 7, 2, 2, 64]),
            (START, 0, &[4, 7, 0, 0]),
            (START, 0, &[5, 7, 0, 0]),
        ]);
        assert_eq!(pairs(&requests), [(1, 3)]);
    }

    #[test]
    fn receives_may_be_shared() {
        let failed = 5;
        let requests = of(&[
            SHARING,
            (RECEIVE_SHARED, 0, &[8, 2, 2, 7, 64, 8, 64]),
            (POLL, 1, &[5, 8, failed, 0, 10]),
        ]);
        assert_eq!(pairs(&requests), [(1, 2)]);
        let all = [(None, Some(2)), (Some(0), None), (None, Some(1))];
        assert_eq!(levels(&requests), all);
        assert_eq!(requests.levels[0].queue, "SRQ 0x8");
    }

    #[test]
    fn a_reset_forgets_requests() {
        let requests = of(&[
            PAIR,
            (SEND, 0, &[1, 1, 1, 7, 2, 2, 64]),
            (MODIFY, 0, &[1, 1, 0]),
            (POLL, 1, &[5, 7, 0, 0, 9]),
        ]);
        assert_eq!(pairs(&requests), []);
        assert_eq!(levels(&requests)[1], (Some(0), Some(0)));
    }
}
