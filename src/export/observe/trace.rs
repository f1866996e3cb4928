//! Reads the recorded values of a call.

use super::answer::Outcome;
use super::cover::Call;
use crate::core::trace::{self, record::Later, record::Record, record::verbs};
use kit::abi::*;
use std::ptr::with_exposed_provenance;

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
                sizes((*attr).qp_type, &(*attr).cap, made, words);
            }
            Call::create_qp_ex(_, attr) if !attr.is_null() => {
                sizes((*attr).qp_type, &(*attr).cap, made, words);
            }
            Call::post_send(_, wr, _) => {
                let (mut count, mut bytes, mut at) = (0, 0, wr);
                while let Some(one) = at.as_ref() {
                    count += 1;
                    bytes += length(one.sg_list, one.num_sge);
                    at = one.next;
                }
                let first = wr
                    .as_ref()
                    .map_or((0, 0), |wr| (wr.wr_id, wr.opcode.into()));
                words.extend([count, first.0, first.1, bytes]);
            }
            Call::post_recv(_, wr, _) | Call::post_srq_recv(_, wr, _) => {
                let (mut count, mut bytes, mut at) = (0, 0, wr);
                while let Some(one) = at.as_ref() {
                    count += 1;
                    bytes += length(one.sg_list, one.num_sge);
                    at = one.next;
                }
                words.extend([count, wr.as_ref().map_or(0, |wr| wr.wr_id), bytes]);
            }
            Call::poll_cq(_, _, wc) if made != 0 => {
                words.extend([(*wc).wr_id, (*wc).status.into()]);
            }
            Call::reg_mr(..) if made != 0 => {
                words.push((*with_exposed_provenance::<ibv_mr>(made)).lkey.into());
            }
            _ => {}
        }
    }
}

/// # Safety
/// `made` is a new queue pair, or 0.
unsafe fn sizes(kind: ibv_qp_type, cap: &ibv_qp_cap, made: usize, words: &mut Vec<u64>) {
    words.extend([
        u64::from(kind),
        cap.max_send_wr.into(),
        cap.max_recv_wr.into(),
    ]);
    if made != 0 {
        // SAFETY: vouched for by the caller.
        words.push(unsafe { (*with_exposed_provenance::<ibv_qp>(made)).qp_num }.into());
    }
}

/// Bytes of a request that may have been refused for an error in it: a missing list counts as 0
/// bytes.
///
/// # Safety
/// `list` has that many pieces.
unsafe fn length(list: *const ibv_sge, count: i32) -> u64 {
    // SAFETY: vouched for by the caller.
    unsafe { super::validate::pieces(list, count) }
        .iter()
        .map(|piece| piece.length)
        .sum()
}
