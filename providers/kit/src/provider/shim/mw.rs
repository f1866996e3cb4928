//! Memory windows: ibv_alloc_mw(3), ibv_bind_mw(3).

use super::answer::{code, pointer};
use super::context::Subject;
use super::object::{Hold, New, Side};
use super::pd::Domain;
use super::qp::Pair;
use super::send::bind_info;
use crate::abi::*;
use crate::errno::Errno;
use crate::provider::{Numbered, Provider};
use core::ffi::c_int;
use std::sync::Arc;

/// A memory window.
pub(super) struct Window<P: Provider> {
    pub(super) mw: Arc<P::Mw>,
    _pd: Hold,
}

// SAFETY: ibv_mw starts with its context; numbers and pointers may be 0.
unsafe impl<P: Provider> Side for Window<P> {
    type C = ibv_mw;
}

pub(super) unsafe extern "C" fn alloc_mw<P: Provider>(
    pd: *mut ibv_pd,
    mw_type: ibv_mw_type,
) -> *mut ibv_mw {
    // SAFETY: the caller passes a live domain.
    pointer(unsafe {
        Subject::<P, Domain<P>>::from_raw(pd).and_then(|domain| {
            if !matches!(mw_type, IBV_MW_TYPE_1 | IBV_MW_TYPE_2) {
                return Err(Errno::INVAL);
            }
            let mut new = New::<Window<P>>::alloc(&domain.context, None)?;
            let object = domain.object;
            let (mw, rkey) = domain.provider.alloc_mw(&object.side.pd, mw_type)?;
            let c = new.c();
            c.pd = pd;
            c.rkey = rkey;
            c.type_ = mw_type;
            if let Some(number) = domain.provider.number(Numbered::Mw(&mw)) {
                c.handle = number;
            }
            Ok(new.finish(Window {
                mw: Arc::new(mw),
                _pd: object.uses.hold(),
            }))
        })
    })
}

pub(super) unsafe extern "C" fn dealloc_mw<P: Provider>(mw: *mut ibv_mw) -> c_int {
    // SAFETY: the caller passes a live window.
    code(unsafe {
        Subject::<P, Window<P>>::from_raw(mw).and_then(|subject| {
            subject.object.idle()?;
            subject.provider.dealloc_mw(&subject.object.side.mw)?;
            subject.free();
            Ok(())
        })
    })
}

/// The caller has checked window and region according to ibv_bind_mw(3). The verb comes from the
/// window, so the queue pair may be any.
pub(super) unsafe extern "C" fn bind_mw<P: Provider>(
    qp: *mut ibv_qp,
    mw: *mut ibv_mw,
    bind: *mut ibv_mw_bind,
) -> c_int {
    // SAFETY: the caller passes a live queue pair and window, and a request that names a live
    // region, or NULL.
    code(unsafe {
        Subject::<P, Window<P>>::from_raw(mw).and_then(|window| {
            let pair = window.context.object::<Pair<P>>(qp.cast())?;
            let bind = bind.as_ref().ok_or(Errno::INVAL)?;
            let info = bind_info(&window.context, mw, &bind.bind_info)?;
            (*mw).rkey = window.provider.bind_mw(
                &pair.side.qp,
                &window.object.side.mw,
                bind.wr_id,
                bind.send_flags,
                &info,
            )?;
            Ok(())
        })
    })
}
