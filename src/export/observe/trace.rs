//! Reads the recorded values of a call.

use super::answer::Outcome;
use super::cover::Call;
use super::explain::bytes;
use crate::core::trace::{self, record::Later, record::Record, record::verbs};
use kit::abi::*;
use std::ptr::{null_mut, with_exposed_provenance};

/// Numbers of the calls that are no verbs of the table, in the order of `record::EXTRA`.
#[derive(Clone, Copy)]
pub enum Extra {
    /// ibv_start_poll(3).
    StartPoll,
    /// ibv_next_poll(3).
    NextPoll,
    /// ibv_wr_complete(3).
    Complete,
}

/// When a call begins, if calls are recorded.
pub fn begin() -> u64 {
    if trace::on() { trace::now() } else { 0 }
}

/// Records a call that began then.
///
/// # Safety
/// The call has just returned `outcome`, and its arguments still belong to the caller; a destroyed
/// object is not read.
pub unsafe fn verb(call: &Call, outcome: Outcome, begin: u64, end: u64) {
    let mut words = Vec::with_capacity(16);
    call.words(&mut words);
    // SAFETY: vouched for by the caller.
    unsafe { details(call, outcome, &mut words) }
    add(call.slot(), outcome, begin, end, &words);
}

/// Records a call of a function that stands in an object.
pub fn extra(call: Extra, outcome: Outcome, begin: u64, end: u64, words: &[u64]) {
    let number = match call {
        Extra::StartPoll => 0,
        Extra::NextPoll => 1,
        Extra::Complete => 2,
    };
    add(verbs() + number, outcome, begin, end, words);
}

/// Records a call that came after the table's verbs.
pub fn later(call: Later, outcome: Outcome, begin: u64, end: u64, words: &[u64]) {
    let mut words = words.to_vec();
    if let (Later::RegMrEx, Outcome::Done(value)) = (call, outcome) {
        let made = with_exposed_provenance::<ibv_mr>(usize::try_from(value).unwrap_or(0));
        // SAFETY: the call has just made this object.
        words.push(unsafe { (*made).lkey }.into());
    }
    add(call.number(), outcome, begin, end, &words);
}

fn add(call: usize, outcome: Outcome, begin: u64, end: u64, words: &[u64]) {
    let (error, value) = match outcome {
        Outcome::Done(value) => (0, value),
        Outcome::Failed(e) => (e.raw().unsigned_abs(), 0),
    };
    trace::add(&Record {
        call,
        thread: trace::thread(),
        begin,
        took: end.saturating_sub(begin),
        error,
        value,
        words,
    });
}

/// The values that `record::details` names.
///
/// # Safety
/// As for [`verb`].
unsafe fn details(call: &Call, outcome: Outcome, words: &mut Vec<u64>) {
    let made = match outcome {
        Outcome::Done(value) => usize::try_from(value).unwrap_or(0),
        Outcome::Failed(_) => 0,
    };
    // SAFETY: vouched for by the caller; a provider's new object is valid.
    unsafe {
        match *call {
            Call::modify_qp(_, attr, _) => {
                words.extend([u64::from((*attr).qp_state), (*attr).dest_qp_num.into()]);
            }
            Call::create_qp(_, attr) if !attr.is_null() => {
                let queues = ((*attr).send_cq, (*attr).recv_cq, (*attr).srq);
                queue_pair((*attr).qp_type, &(*attr).cap, queues, words);
                words.push(u64::from((*attr).sq_sig_all != 0));
                number(made, words);
            }
            Call::create_qp_ex(_, attr) if !attr.is_null() => {
                let queues = ((*attr).send_cq, (*attr).recv_cq, (*attr).srq);
                queue_pair((*attr).qp_type, &(*attr).cap, queues, words);
                words.push(u64::from((*attr).sq_sig_all != 0));
                number(made, words);
            }
            Call::post_send(_, wr, bad) => {
                let of = |wr: &ibv_send_wr, posted: bool| {
                    let has_data = !matches!(wr.opcode, IBV_WR_LOCAL_INV | IBV_WR_BIND_MW);
                    let count = if posted && has_data { wr.num_sge } else { 0 };
                    let bytes = bytes(wr.sg_list, count);
                    [wr.wr_id, wr.opcode.into(), wr.send_flags.into(), bytes]
                };
                requests(wr, refused(outcome, bad), |wr| wr.next, of, words);
            }
            Call::post_recv(_, wr, bad) | Call::post_srq_recv(_, wr, bad) => {
                let of = |wr: &ibv_recv_wr, posted: bool| {
                    let count = if posted { wr.num_sge } else { 0 };
                    [wr.wr_id, bytes(wr.sg_list, count)]
                };
                requests(wr, refused(outcome, bad), |wr| wr.next, of, words);
            }
            Call::poll_cq(_, _, wc) if made != 0 => {
                for wc in std::slice::from_raw_parts(wc, made) {
                    words.push(wc.wr_id);
                    words.extend([wc.status, wc.opcode, wc.qp_num].map(u64::from));
                }
            }
            Call::reg_mr(..) if made != 0 => {
                words.push((*with_exposed_provenance::<ibv_mr>(made)).lkey.into());
            }
            _ => {}
        }
    }
}

/// The type, sizes and other queues of a new queue pair.
fn queue_pair(
    kind: ibv_qp_type,
    cap: &ibv_qp_cap,
    (send_cq, recv_cq, srq): (*mut ibv_cq, *mut ibv_cq, *mut ibv_srq),
    words: &mut Vec<u64>,
) {
    words.extend([kind, cap.max_send_wr, cap.max_recv_wr].map(u64::from));
    words.extend([
        send_cq.addr() as u64,
        recv_cq.addr() as u64,
        srq.addr() as u64,
    ]);
}

/// # Safety
/// `made` is a new queue pair, or 0.
unsafe fn number(made: usize, words: &mut Vec<u64>) {
    if made != 0 {
        // SAFETY: vouched for by the caller.
        words.push(unsafe { (*with_exposed_provenance::<ibv_qp>(made)).qp_num }.into());
    }
}

/// The request that the provider refused, which is the first one that it did not post.
///
/// # Safety
/// `bad` is NULL or the caller's.
unsafe fn refused<T>(outcome: Outcome, bad: *mut *mut T) -> Option<*mut T> {
    match outcome {
        Outcome::Done(_) => None,
        // SAFETY: vouched for by the caller. The pointer there is only compared.
        Outcome::Failed(_) => Some(unsafe { bad.as_ref() }.map_or(null_mut(), |bad| *bad)),
    }
}

/// The number of requests that the provider looked at and how many of them were posted, then the
/// words of each. Neither the list of the refused request nor the requests behind it have to be
/// valid: the provider has not read them.
///
/// # Safety
/// `first` is a chain of requests by `next`, of which `refused` is one if any was refused.
unsafe fn requests<T, const N: usize>(
    first: *mut T,
    refused: Option<*mut T>,
    next: impl Fn(&T) -> *mut T + Copy,
    of: impl Fn(&T, bool) -> [u64; N],
    words: &mut Vec<u64>,
) {
    let chain = || {
        let mut at = first;
        std::iter::from_fn(move || {
            let this = at;
            // SAFETY: vouched for by the caller.
            let one = unsafe { this.as_ref() }?;
            at = next(one);
            Some((this, one))
        })
    };
    let posted = match refused {
        None => chain().count(),
        // Some providers do not report which one it was; then it is the first one.
        Some(bad) if bad.is_null() => 0,
        Some(bad) => chain().position(|(at, _)| at == bad).unwrap_or(0),
    };
    let seen = posted + usize::from(refused.is_some() && !first.is_null());
    words.extend([seen as u64, posted as u64]);
    for (at, (_, one)) in chain().take(seen).enumerate() {
        words.extend(of(one, at < posted));
    }
}
