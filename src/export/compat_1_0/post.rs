//! Functions that programs of 1.0 call inline, by the pointers in their context: posting and
//! polling.
//!
//! A chain of requests becomes one of today: on the stack as long as it is short.

use super::{layout::*, real, zeroed};
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::sys::errno;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// The verbs of a context.
pub(super) const OPS: ibv_context_ops_1_0 = ibv_context_ops_1_0 {
    query_device: None,
    query_port: None,
    alloc_pd: None,
    dealloc_pd: None,
    reg_mr: None,
    dereg_mr: None,
    create_cq: None,
    poll_cq: Some(poll_cq),
    req_notify_cq: Some(req_notify_cq),
    cq_event: None,
    resize_cq: None,
    destroy_cq: None,
    create_srq: None,
    modify_srq: None,
    query_srq: None,
    destroy_srq: None,
    post_srq_recv: Some(post_srq_recv),
    create_qp: None,
    query_qp: None,
    modify_qp: None,
    destroy_qp: None,
    post_send: Some(post_send),
    post_recv: Some(post_recv),
    create_ah: None,
    destroy_ah: None,
    attach_mcast: None,
    detach_mcast: None,
};

/// Chains up to here need no memory.
const SHORT: usize = 16;

/// A request of 1.0.
trait Request {
    /// The request of today.
    type Today: Copy;

    fn next(&self) -> *mut Self;

    /// The same request, without one behind it.
    ///
    /// # Errors
    /// EINVAL for one that 1.0 has no members for.
    ///
    /// # Safety
    /// The objects of the request are live; `datagram` is set for a queue pair of that service.
    unsafe fn today(&self, datagram: bool) -> Result<Self::Today>;

    fn link(request: &mut Self::Today, next: *mut Self::Today);
}

impl Request for ibv_recv_wr_1_0 {
    type Today = ibv_recv_wr;

    fn next(&self) -> *mut Self {
        self.next
    }

    unsafe fn today(&self, _: bool) -> Result<ibv_recv_wr> {
        Ok(ibv_recv_wr {
            wr_id: self.wr_id,
            next: null_mut(),
            sg_list: self.sg_list,
            num_sge: self.num_sge,
        })
    }

    fn link(request: &mut ibv_recv_wr, next: *mut ibv_recv_wr) {
        request.next = next;
    }
}

impl Request for ibv_send_wr_1_0 {
    type Today = ibv_send_wr;

    fn next(&self) -> *mut Self {
        self.next
    }

    unsafe fn today(&self, datagram: bool) -> Result<ibv_send_wr> {
        Ok(ibv_send_wr {
            wr_id: self.wr_id,
            sg_list: self.sg_list,
            num_sge: self.num_sge,
            opcode: known(self.opcode)?,
            send_flags: self.send_flags.cast_unsigned(),
            imm: ibv_send_wr_imm {
                imm_data: self.imm_data,
            },
            // SAFETY: a request to a datagram queue pair has the members of a datagram; otherwise
            // all members of the union are plain numbers.
            wr: unsafe { operands(&self.wr, datagram)? },
            ..zeroed()
        })
    }

    fn link(request: &mut ibv_send_wr, next: *mut ibv_send_wr) {
        request.next = next;
    }
}

/// Operations whose operands are in a request of 1.0: its seven, and the two that take a key
/// instead of the immediate data.
fn known(opcode: ibv_wr_opcode) -> Result<ibv_wr_opcode> {
    match opcode {
        IBV_WR_RDMA_WRITE..=IBV_WR_LOCAL_INV | IBV_WR_SEND_WITH_INV => Ok(opcode),
        _ => Err(Errno::INVAL),
    }
}

/// # Safety
/// As for [`Request::today`].
unsafe fn operands(of: &ibv_send_wr_1_0_wr, datagram: bool) -> Result<ibv_send_wr_wr> {
    // SAFETY: vouched for by the caller.
    unsafe {
        if !datagram {
            return Ok(ibv_send_wr_wr { atomic: of.atomic });
        }
        let ud = ibv_send_wr_wr_ud {
            ah: real(of.ud.ah)?,
            remote_qpn: of.ud.remote_qpn,
            remote_qkey: of.ud.remote_qkey,
        };
        Ok(ibv_send_wr_wr { ud })
    }
}

/// A chain of today: `made` requests from `first` on, each at the place that its original has in
/// the chain of 1.0.
struct Chain<'a, R: Request> {
    requests: &'a mut [MaybeUninit<R::Today>],
    made: usize,
}

impl<R: Request> Chain<'_, R> {
    /// Converts a chain up to the first invalid request; returns the error of that request.
    ///
    /// # Safety
    /// The chain is the caller's, no longer than there is room; otherwise as
    /// [`Request::today`].
    unsafe fn fill(&mut self, first: *mut R, datagram: bool) -> Result<()> {
        let mut at = first;
        // SAFETY: vouched for by the caller.
        while let Some(request) = unsafe { at.as_ref() } {
            // SAFETY: as above.
            let today = unsafe { request.today(datagram) }?;
            let Some(place) = self.requests.get_mut(self.made) else {
                return Err(Errno::INVAL);
            };
            let place: *mut R::Today = place.write(today);
            if let Some(before) = self.made.checked_sub(1) {
                // SAFETY: written in the round before.
                R::link(unsafe { self.requests[before].assume_init_mut() }, place);
            }
            self.made += 1;
            at = request.next();
        }
        Ok(())
    }

    fn first(&mut self) -> *mut R::Today {
        match self.made {
            0 => null_mut(),
            _ => self.requests.as_mut_ptr().cast(),
        }
    }

    /// The position of a request in the chain; the first, if it is not in the chain.
    fn place(&self, request: *const R::Today) -> usize {
        let places = self.requests.iter().take(self.made);
        let found = places
            .map(MaybeUninit::as_ptr)
            .position(|r| std::ptr::eq(r, request));
        found.unwrap_or(0)
    }
}

/// # Safety
/// The chain is live.
unsafe fn length<R: Request>(first: *mut R) -> usize {
    let mut at = first;
    let mut count = 0;
    // SAFETY: vouched for by the caller.
    while let Some(request) = unsafe { at.as_ref() } {
        count += 1;
        at = request.next();
    }
    count
}

/// The request at that place of a chain.
///
/// # Safety
/// The chain is live and longer than that.
unsafe fn nth<R: Request>(first: *mut R, place: usize) -> *mut R {
    // SAFETY: vouched for by the caller.
    (0..place).fold(first, |at, _| unsafe { (*at).next() })
}

/// Posts a chain of 1.0 by `to`, the current verb: 0, or the errno with `bad` set. Requests in
/// front of a bad one are posted.
///
/// # Safety
/// The chain belongs to the caller and is live, with its objects; `bad` is NULL or has room.
unsafe fn post<R: Request>(
    first: *mut R,
    bad: *mut *mut R,
    datagram: bool,
    to: impl FnOnce(*mut R::Today, *mut *mut R::Today) -> c_int,
) -> c_int {
    let mut short = [const { MaybeUninit::<R::Today>::uninit() }; SHORT];
    let mut long = Vec::new();
    // SAFETY: vouched for by the caller.
    let needed = unsafe { length(first) };
    let requests = if needed <= SHORT {
        &mut short[..]
    } else {
        if long.try_reserve_exact(needed).is_err() {
            // SAFETY: as above.
            return unsafe { refused(first, bad, Errno::NOMEM) };
        }
        long.spare_capacity_mut()
    };
    let mut chain = Chain::<R> { requests, made: 0 };
    // SAFETY: as above; there is room for all.
    let filled = unsafe { chain.fill(first, datagram) };
    if chain.made > 0 || filled.is_ok() {
        let mut refusal = chain.first();
        let answer = to(chain.first(), &raw mut refusal);
        if answer != 0 {
            let place = chain.place(refusal);
            // SAFETY: as above; the place is one of the chain.
            return unsafe { reported(nth(first, place), bad, answer) };
        }
    }
    match filled {
        Ok(()) => 0,
        // SAFETY: as above; the request behind those that were made was the bad one.
        Err(e) => unsafe { refused(nth(first, chain.made), bad, e) },
    }
}

/// # Safety
/// `bad` is NULL or has room.
unsafe fn reported<R>(request: *mut R, bad: *mut *mut R, answer: c_int) -> c_int {
    // SAFETY: vouched for by the caller.
    if let Some(bad) = unsafe { bad.as_mut() } {
        *bad = request;
    }
    answer
}

/// # Safety
/// `bad` is NULL or has room.
unsafe fn refused<R>(request: *mut R, bad: *mut *mut R, e: Errno) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe { reported(request, bad, e.raw()) }
}

unsafe extern "C" fn post_send(
    qp: *mut ibv_qp_1_0,
    wr: *mut ibv_send_wr_1_0,
    bad: *mut *mut ibv_send_wr_1_0,
) -> c_int {
    // SAFETY: the caller passes a live queue pair and a chain that it owns.
    unsafe {
        let pair = match real(qp) {
            Ok(pair) => pair,
            Err(e) => return refused(wr, bad, e),
        };
        let Some(verb) = (*(*pair).context).ops.post_send else {
            return refused(wr, bad, Errno::OPNOTSUPP);
        };
        let datagram = (*qp).qp_type == IBV_QPT_UD;
        post(wr, bad, datagram, |first, refusal| {
            verb(pair, first, refusal)
        })
    }
}

unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp_1_0,
    wr: *mut ibv_recv_wr_1_0,
    bad: *mut *mut ibv_recv_wr_1_0,
) -> c_int {
    // SAFETY: as for post_send.
    unsafe {
        let pair = match real(qp) {
            Ok(pair) => pair,
            Err(e) => return refused(wr, bad, e),
        };
        let Some(verb) = (*(*pair).context).ops.post_recv else {
            return refused(wr, bad, Errno::OPNOTSUPP);
        };
        post(wr, bad, false, |first, refusal| verb(pair, first, refusal))
    }
}

unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq_1_0,
    wr: *mut ibv_recv_wr_1_0,
    bad: *mut *mut ibv_recv_wr_1_0,
) -> c_int {
    // SAFETY: as for post_send, with a shared receive queue.
    unsafe {
        let queue = match real(srq) {
            Ok(queue) => queue,
            Err(e) => return refused(wr, bad, e),
        };
        let Some(verb) = (*(*queue).context).ops.post_srq_recv else {
            return refused(wr, bad, Errno::OPNOTSUPP);
        };
        post(wr, bad, false, |first, refusal| verb(queue, first, refusal))
    }
}

unsafe extern "C" fn poll_cq(cq: *mut ibv_cq_1_0, count: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the caller passes a live queue and room for that many completions.
    unsafe {
        let Ok(queue) = real(cq) else {
            errno::set(Errno::INVAL);
            return -1;
        };
        match (*(*queue).context).ops.poll_cq {
            Some(verb) => verb(queue, count, wc),
            None => -Errno::OPNOTSUPP.raw(),
        }
    }
}

unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq_1_0, solicited_only: c_int) -> c_int {
    // SAFETY: the caller passes a live queue.
    unsafe {
        let queue = match real(cq) {
            Ok(queue) => queue,
            Err(e) => return e.raw(),
        };
        match (*(*queue).context).ops.req_notify_cq {
            Some(verb) => verb(queue, solicited_only),
            None => Errno::OPNOTSUPP.raw(),
        }
    }
}

#[cfg(test)]
mod tests;
