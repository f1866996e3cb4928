//! The functions that stand in objects: those of extended completion queues (ibv_create_cq_ex(3))
//! and of extended queue pairs (ibv_wr_post(3)). They are replaced when the object is made;
//! everything else in it stays the provider's.

use super::answer::{Answer, Outcome};
use super::originals::Originals;
use super::trace::{self, Extra};
use super::{explain, validate};
use crate::core::validate::{self as books, Completion, Piece, Send};
use crate::core::{report, trace as recording};
use kit::abi::{handle::*, *};
use kit::errno::Errno;
use kit::sys::errno;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;

type StartPoll = unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int;
type NextPoll = unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int;

static POLLS: Originals<(StartPoll, NextPoll)> = Originals::new();
static POSTS: Originals<Posts> = Originals::new();

/// Covers a new completion queue.
///
/// # Safety
/// The provider has just made it, and nothing else refers to it.
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
    // Providers of older generations have fewer functions, and their own members behind them.
    let end = qp.ctx().private().layout().qp_mask;
    // SAFETY: vouched for by the caller; the extended half is there.
    unsafe {
        if let Some(qp) = raw.as_mut()
            && qp.wr_complete.is_some()
        {
            POSTS.put(raw.addr(), Posts::of(qp, end));
            Posts::cover(qp, end, report::validates());
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
        let begin = trace::begin();
        let answer = start(cq, attr);
        polled(cq, answer, Extra::StartPoll, begin);
        answer
    }
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    let Some((_, next)) = POLLS.get(cq.addr()) else {
        return libc::EINVAL;
    };
    // SAFETY: as above.
    unsafe {
        let begin = trace::begin();
        let answer = next(cq);
        polled(cq, answer, Extra::NextPoll, begin);
        answer
    }
}

/// # Safety
/// `cq` is live, and `answer` that of the call that moved it on.
unsafe fn polled(cq: *mut ibv_cq_ex, answer: c_int, call: Extra, begin: u64) {
    let left = errno::get();
    if recording::on() {
        let end = trace::begin();
        let mut all = [cq.addr() as u64, 0, 0, 0, 0];
        // An empty queue has no completion to report.
        let mut count = 1;
        if answer == 0 {
            // SAFETY: vouched for by the caller; the readers are there if they were asked for.
            let number = unsafe {
                let opcode = (*cq).read_opcode.map_or(0, |read| read(cq));
                let number = (*cq).read_qp_num.map(|read| read(cq));
                let (id, status) = ((*cq).wr_id, (*cq).status.into());
                all = [
                    all[0],
                    id,
                    status,
                    opcode.into(),
                    number.unwrap_or(0).into(),
                ];
                number
            };
            count = if number.is_some() { 5 } else { 4 };
        }
        let words = all.get(..count).unwrap_or(&all);
        trace::extra(call, answer.outcome("start_poll"), begin, end, words);
    }
    if answer != 0 {
        errno::set(left);
        return;
    }
    // SAFETY: vouched for by the caller; the reader is there if it was asked for.
    unsafe {
        let (status, id) = ((*cq).status, (*cq).wr_id);
        let number = (*cq).read_qp_num.map(|read| read(cq));
        if let Ok(ctx) = Ctx::from_raw((*cq).context) {
            if report::explains() && status != IBV_WC_SUCCESS {
                explain::completion(ctx, number.unwrap_or(0), id, status);
            }
            if let Some(number) = number
                && report::validates()
            {
                let one = Completion {
                    id,
                    number,
                    status,
                    opcode: (*cq).read_opcode.map_or(0, |read| read(cq)),
                };
                books::with(|world| world.completed(cq.addr(), ctx.as_ptr().addr(), one));
            }
        }
    }
    errno::set(left);
}

macro_rules! posts {
    (
        operations { $( $op:ident ( $($arg:ident: $type:ty),* ) = $opcode:expr; )* }
        others { $( $other:ident ( $($other_arg:ident: $other_type:ty),* ) => $note:expr; )* }
    ) => {
        /// The functions of a queue pair.
        #[derive(Clone, Copy)]
        struct Posts {
            $( $op: Option<unsafe extern "C" fn(*mut ibv_qp_ex $(, $type)*)>, )*
            $( $other: Option<unsafe extern "C" fn(*mut ibv_qp_ex $(, $other_type)*)>, )*
            wr_complete: Option<unsafe extern "C" fn(*mut ibv_qp_ex) -> c_int>,
        }

        impl Posts {
            /// `end` is how far the provider's functions go.
            fn of(qp: &ibv_qp_ex, end: usize) -> Self {
                Self {
                    $( $op: qp.$op.filter(|_| offset_of!(ibv_qp_ex, $op) < end), )*
                    $( $other: qp.$other, )*
                    wr_complete: qp.wr_complete,
                }
            }

            /// Functions that the provider left out stay out. Without `all`, only how a batch
            /// ends is looked at.
            fn cover(qp: &mut ibv_qp_ex, end: usize, all: bool) {
                qp.wr_complete = Some(wr_complete);
                if !all {
                    return;
                }
                $(
                    if offset_of!(ibv_qp_ex, $op) < end {
                        qp.$op = qp.$op.map(|_| functions::$op as _);
                    }
                )*
                $( qp.$other = qp.$other.map(|_| functions::$other as _); )*
            }
        }

        mod functions {
            use super::*;
            $(
                pub unsafe extern "C" fn $op(qp: *mut ibv_qp_ex $(, $arg: $type)*) {
                    // SAFETY: the queue pair is live and has the function.
                    unsafe {
                        begin(qp, $opcode);
                        if let Some(original) = POSTS.get(qp.addr()).and_then(|posts| posts.$op) {
                            original(qp $(, $arg)*);
                        }
                    }
                }
            )*
            $(
                pub unsafe extern "C" fn $other(qp: *mut ibv_qp_ex $(, $other_arg: $other_type)*) {
                    let note: unsafe fn(&mut books::World, usize $(, $other_type)*) = $note;
                    // SAFETY: as above; the caller's arguments.
                    unsafe {
                        books::with(|world| note(world, qp.addr() $(, $other_arg)*));
                        if let Some(original) = POSTS.get(qp.addr()).and_then(|posts| posts.$other) {
                            original(qp $(, $other_arg)*);
                        }
                    }
                }
            )*
        }
    };
}

posts! {
    operations {
        wr_atomic_cmp_swp(rkey: u32, addr: u64, compare: u64, swap: u64) = IBV_WR_ATOMIC_CMP_AND_SWP;
        wr_atomic_fetch_add(rkey: u32, addr: u64, add: u64) = IBV_WR_ATOMIC_FETCH_AND_ADD;
        wr_bind_mw(mw: *mut ibv_mw, rkey: u32, info: *const ibv_mw_bind_info) = IBV_WR_BIND_MW;
        wr_local_inv(rkey: u32) = IBV_WR_LOCAL_INV;
        wr_rdma_read(rkey: u32, addr: u64) = IBV_WR_RDMA_READ;
        wr_rdma_write(rkey: u32, addr: u64) = IBV_WR_RDMA_WRITE;
        wr_rdma_write_imm(rkey: u32, addr: u64, imm: be32) = IBV_WR_RDMA_WRITE_WITH_IMM;
        wr_send() = IBV_WR_SEND;
        wr_send_imm(imm: be32) = IBV_WR_SEND_WITH_IMM;
        wr_send_inv(rkey: u32) = IBV_WR_SEND_WITH_INV;
        wr_send_tso(header: *mut c_void, size: u16, mss: u16) = IBV_WR_TSO;
        wr_atomic_write(rkey: u32, addr: u64, value: *const c_void) = IBV_WR_ATOMIC_WRITE;
        wr_flush(rkey: u32, addr: u64, length: usize, placement: u8, selectivity: u8) = IBV_WR_FLUSH;
    }
    others {
        wr_start() => |world, qp| world.batch_begins(qp);
        wr_abort() => |world, qp| world.batch_begins(qp);
        wr_set_ud_addr(ah: *mut ibv_ah, qpn: u32, qkey: u32) => |world, qp, ah, _, _| {
            world.batch_address(qp, ah.addr());
        };
        wr_set_inline_data(addr: *mut c_void, length: usize) => |world, qp, _, length| {
            world.batch_inline(qp, length as u64);
        };
        wr_set_inline_data_list(count: usize, list: *const ibv_data_buf) => |world, qp, count, list| {
            for at in 0..count {
                // SAFETY: the caller's list of that many buffers.
                world.batch_inline(qp, unsafe { (*list.add(at)).length } as u64);
            }
        };
        wr_set_sge(lkey: u32, addr: u64, length: u32) => |world, qp, lkey, addr, length| {
            let length = length.into();
            world.batch_piece(qp, Piece { addr, length, lkey });
        };
        wr_set_sge_list(count: usize, list: *const ibv_sge) => |world, qp, count, list| {
            let count = i32::try_from(count).unwrap_or(0);
            let (most, _) = world.most_pieces(qp);
            // SAFETY: as above.
            for piece in unsafe { validate::pieces(list, count, most) } {
                world.batch_piece(qp, piece);
            }
        };
    }
}

/// # Safety
/// The queue pair is live.
unsafe fn begin(qp: *mut ibv_qp_ex, opcode: ibv_wr_opcode) {
    // SAFETY: vouched for by the caller.
    let (id, flags) = unsafe { ((*qp).wr_id, (*qp).wr_flags) };
    let request = Send {
        id,
        opcode,
        flags,
        ..Send::default()
    };
    books::with(|world| world.batch_request(qp.addr(), request));
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    let Some(complete) = POSTS.get(qp.addr()).and_then(|posts| posts.wr_complete) else {
        return libc::EINVAL;
    };
    let posted = match report::validates() {
        true => books::with(|world| world.batch_posting(qp.addr())),
        false => 0,
    };
    // SAFETY: the provider's function for this queue pair; a queue pair that is live afterwards.
    unsafe {
        let begin = trace::begin();
        let answer = complete(qp);
        let left = errno::get();
        if recording::on() {
            let outcome: Outcome = answer.outcome("wr_complete");
            trace::extra(
                Extra::Complete,
                outcome,
                begin,
                trace::begin(),
                &[qp.addr() as u64],
            );
        }
        if answer == 0 {
            errno::set(left);
            return answer;
        }
        books::with(|world| world.not_posted(qp.addr(), posted));
        if report::explains() {
            explain::batch(qp.cast(), Errno(answer));
        }
        errno::set(left);
        answer
    }
}
