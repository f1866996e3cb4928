//! Queue pairs: ibv_modify_qp(3), ibv_query_qp(3), ibv_post_send(3), ibv_attach_mcast(3).

use super::answer::code;
use super::builder::Builder;
use super::comp_cntr::Attached;
use super::context::Subject;
use super::object::{Ended, Hold, Side};
use super::receive::{Receives, refused};
use super::send::Sends;
use crate::abi::handle::{Qp, UNACKED};
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::Provider;
use core::ffi::c_int;
use core::mem::{MaybeUninit, offset_of, zeroed};

/// A queue pair.
pub(super) struct Pair<P: Provider> {
    pub(super) qp: P::Qp,
    pub(super) sq_sig_all: bool,
    /// For ibv_wr_* calls, if the queue pair was made for them.
    pub(super) builder: Option<Box<Builder<P>>>,
    /// Completion counters that it counts on.
    pub(super) attached: Attached,
    pub(super) ended: Ended<1>,
    /// Domains, queues and the table that it was made with.
    pub(super) _holds: [Option<Hold>; 6],
}

// SAFETY: verbs_qp starts with the context of its ibv_qp; numbers, pointers and functions may be
// 0.
unsafe impl<P: Provider> Side for Pair<P> {
    type C = verbs_qp_own;
}

/// # Safety
/// `qp` is NULL or a live queue pair of the provider.
pub(super) unsafe fn subject<'a, P: Provider>(qp: *mut ibv_qp) -> Result<Subject<'a, P, Pair<P>>> {
    // SAFETY: vouched for by the caller; an ibv_qp is the first member of its block.
    unsafe { Subject::from_raw(qp.cast()) }
}

/// Bytes of `ibv_qp_attr` in programs from before the rate limit.
const WITHOUT_RATE_LIMIT: usize = offset_of!(ibv_qp_attr, rate_limit);

/// Copies attributes; the rate limit only if the mask has it, since old programs' attributes end
/// before it.
///
/// # Safety
/// Both are valid for the copied members.
#[inline]
unsafe fn copy(from: *const ibv_qp_attr, to: *mut ibv_qp_attr, mask: u32) {
    const HALF: usize = WITHOUT_RATE_LIMIT / 2;
    const REST: usize = WITHOUT_RATE_LIMIT - HALF;
    let (source, place) = (from.cast::<u8>(), to.cast::<u8>());
    // SAFETY: vouched for by the caller. Each half is short enough to be copied without a call.
    unsafe {
        place.copy_from_nonoverlapping(source, HALF);
        place
            .add(HALF)
            .copy_from_nonoverlapping(source.add(HALF), REST);
        if mask & IBV_QP_RATE_LIMIT != 0 {
            (*to).rate_limit = (*from).rate_limit;
        }
    }
}

fn no_attr() -> ibv_qp_attr {
    // SAFETY: the structure is numbers, and addresses that are bytes.
    unsafe { zeroed() }
}

pub(super) unsafe extern "C" fn modify_qp<P: Provider>(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: the library passes a live queue pair and attributes.
    code(unsafe {
        subject::<P>(qp).and_then(|pair| {
            if attr.is_null() {
                return Err(Errno::INVAL);
            }
            let mask = mask.cast_unsigned();
            let mut asked = MaybeUninit::<ibv_qp_attr>::uninit();
            (*asked.as_mut_ptr()).rate_limit = 0;
            copy(attr, asked.as_mut_ptr(), mask);
            // The members, which are numbers, have values; only padding at the end may have none.
            let asked = asked.assume_init_ref();
            let qp_of_provider = &pair.object.side.qp;
            let state = pair.provider.modify_qp(qp_of_provider, asked, mask)?;
            (*qp).state = state;
            Ok(())
        })
    })
}

pub(super) unsafe extern "C" fn query_qp<P: Provider>(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: the library passes a live queue pair and room for both kinds of attributes.
    code(unsafe {
        subject::<P>(qp).and_then(|pair| {
            if attr.is_null() {
                return Err(Errno::INVAL);
            }
            let init = init.as_mut().ok_or(Errno::INVAL)?;
            let mut reported = no_attr();
            pair.provider
                .query_qp(&pair.object.side.qp, &mut reported)?;
            copy(&raw const reported, attr, mask.cast_unsigned());
            (*qp).state = reported.qp_state;
            *init = ibv_qp_init_attr {
                qp_context: (*qp).qp_context,
                send_cq: (*qp).send_cq,
                recv_cq: (*qp).recv_cq,
                srq: (*qp).srq,
                cap: reported.cap,
                qp_type: (*qp).qp_type,
                sq_sig_all: pair.object.side.sq_sig_all.into(),
            };
            Ok(())
        })
    })
}

pub(super) unsafe extern "C" fn destroy_qp<P: Provider>(qp: *mut ibv_qp) -> c_int {
    // SAFETY: the library passes a live queue pair, whose mutex and condition are initialised.
    code(unsafe {
        subject::<P>(qp).and_then(|pair| {
            pair.object.idle()?;
            let reported = pair.object.side.ended.once(|| {
                let reported = pair.provider.destroy_qp(&pair.object.side.qp)?;
                Ok([reported])
            })?;
            // Without events no thread acknowledges any, or holds the mutex for it.
            if reported.iter().any(|count| *count > 0) && Qp::from_raw(qp)?.acked() != reported {
                return Err(Errno(UNACKED));
            }
            pair.free();
            Ok(())
        })
    })
}

pub(super) unsafe extern "C" fn post_send<P: Provider>(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the caller passes a live queue pair, a chain of requests and room for a pointer, or
    // NULL.
    unsafe {
        let pair = match subject::<P>(qp) {
            Ok(pair) => pair,
            Err(e) => return refused(e, wr, bad),
        };
        let mut requests = Sends::new(&pair.object, wr);
        let qp = &pair.object.side.qp;
        let answer = pair.provider.post_send(qp, &mut requests);
        requests.answer(answer, bad)
    }
}

pub(super) unsafe extern "C" fn post_recv<P: Provider>(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: as for post_send.
    unsafe {
        let pair = match subject::<P>(qp) {
            Ok(pair) => pair,
            Err(e) => return refused(e, wr, bad),
        };
        let mut requests = Receives::new(wr);
        let qp = &pair.object.side.qp;
        let answer = pair.provider.post_recv(qp, &mut requests);
        requests.answer(answer, bad)
    }
}

pub(super) unsafe extern "C" fn attach_mcast<P: Provider>(
    qp: *mut ibv_qp,
    gid: *const ibv_gid,
    lid: u16,
) -> c_int {
    // SAFETY: the library passes a live queue pair and a GID.
    code(unsafe {
        subject::<P>(qp).and_then(|pair| {
            let gid = gid.as_ref().ok_or(Errno::INVAL)?;
            let qp = &pair.object.side.qp;
            pair.provider.attach_mcast(qp, gid, lid)
        })
    })
}

pub(super) unsafe extern "C" fn detach_mcast<P: Provider>(
    qp: *mut ibv_qp,
    gid: *const ibv_gid,
    lid: u16,
) -> c_int {
    // SAFETY: as for attach_mcast.
    code(unsafe {
        subject::<P>(qp).and_then(|pair| {
            let gid = gid.as_ref().ok_or(Errno::INVAL)?;
            let qp = &pair.object.side.qp;
            pair.provider.detach_mcast(qp, gid, lid)
        })
    })
}

pub(super) unsafe extern "C" fn set_ece<P: Provider>(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    // SAFETY: the library passes a live queue pair and the options.
    code(unsafe {
        subject::<P>(qp).and_then(|pair| {
            let ece = ece.as_ref().ok_or(Errno::INVAL)?;
            pair.provider.set_ece(&pair.object.side.qp, ece)
        })
    })
}

pub(super) unsafe extern "C" fn query_ece<P: Provider>(
    qp: *mut ibv_qp,
    ece: *mut ibv_ece,
) -> c_int {
    // SAFETY: the library passes a live queue pair and room for the options.
    code(unsafe {
        subject::<P>(qp).and_then(|pair| {
            let room = ece.as_mut().ok_or(Errno::INVAL)?;
            *room = pair.provider.query_ece(&pair.object.side.qp)?;
            Ok(())
        })
    })
}
