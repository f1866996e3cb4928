//! The functions that stand in objects: those of extended completion queues (ibv_create_cq_ex(3))
//! and of extended queue pairs (ibv_wr_post(3)). Those that are looked at are replaced when the
//! object is made; everything else in it stays the provider's.

use super::{explain, originals::Originals};
use crate::core::report;
use kit::abi::{handle::*, *};
use kit::sys::errno;
use std::ffi::c_int;

type StartPoll = unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int;
type NextPoll = unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int;
type Complete = unsafe extern "C" fn(*mut ibv_qp_ex) -> c_int;

static POLLS: Originals<(StartPoll, NextPoll)> = Originals::new();
static POSTS: Originals<Complete> = Originals::new();

/// Covers a new completion queue.
///
/// # Safety
/// The provider has just made it, and nobody else knows it.
pub unsafe fn cq(raw: *mut ibv_cq_ex) {
    // SAFETY: vouched for by the caller.
    unsafe {
        if let (Some(start), Some(next)) = ((*raw).start_poll, (*raw).next_poll) {
            POLLS.put(raw.addr(), (start, next));
            (*raw).start_poll = Some(start_poll);
            (*raw).next_poll = Some(next_poll);
        }
    }
}

/// Covers a new queue pair, if it is an extended one.
///
/// # Safety
/// As for [`cq`].
pub unsafe fn qp(qp: Qp<'_>) {
    let raw = qp.extended();
    // SAFETY: vouched for by the caller; the extended half is there.
    unsafe {
        let Some(qp) = raw.as_mut() else {
            return;
        };
        if let Some(complete) = qp.wr_complete {
            POSTS.put(raw.addr(), complete);
            qp.wr_complete = Some(wr_complete);
        }
    }
}

/// Forgets an object that is gone.
pub fn gone(object: usize) {
    POLLS.take(object);
    POSTS.take(object);
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    let Some((start, _)) = POLLS.get(cq.addr()) else {
        return libc::EINVAL;
    };
    // SAFETY: the provider's function for this queue, with the caller's arguments.
    unsafe {
        let answer = start(cq, attr);
        polled(cq, answer);
        answer
    }
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    let Some((_, next)) = POLLS.get(cq.addr()) else {
        return libc::EINVAL;
    };
    // SAFETY: as above.
    unsafe {
        let answer = next(cq);
        polled(cq, answer);
        answer
    }
}

/// # Safety
/// `cq` is live, and `answer` that of the call that moved it on.
unsafe fn polled(cq: *mut ibv_cq_ex, answer: c_int) {
    // SAFETY: vouched for by the caller.
    let status = unsafe { (*cq).status };
    if answer != 0 || status == IBV_WC_SUCCESS || !report::explains() {
        return;
    }
    let left = errno::get();
    // SAFETY: as above; the reader is there if it was asked for.
    unsafe {
        let number = (*cq).read_qp_num.map_or(0, |read| read(cq));
        if let Ok(ctx) = Ctx::from_raw((*cq).context) {
            explain::completion(ctx, number, (*cq).wr_id, status);
        }
    }
    errno::set(left);
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    let Some(complete) = POSTS.get(qp.addr()) else {
        return libc::EINVAL;
    };
    // SAFETY: the provider's function for this queue pair; a queue pair that is live afterwards.
    unsafe {
        let answer = complete(qp);
        if answer != 0 && report::explains() {
            let left = errno::get();
            explain::batch(qp.cast(), kit::errno::Errno(answer));
            errno::set(left);
        }
        answer
    }
}
