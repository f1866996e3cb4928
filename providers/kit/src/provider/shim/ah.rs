//! Address handles: ibv_create_ah(3).

use super::answer::{code, pointer};
use super::context::Subject;
use super::object::{Hold, New, Side};
use super::pd::Domain;
use crate::abi::*;
use crate::errno::Errno;
use crate::provider::{Numbered, Provider};
use core::ffi::c_int;
use std::sync::Arc;

/// An address handle.
pub(super) struct Address<P: Provider> {
    pub(super) ah: Arc<P::Ah>,
    _pd: Hold,
}

// SAFETY: ibv_ah starts with its context; numbers and pointers may be 0.
unsafe impl<P: Provider> Side for Address<P> {
    type C = ibv_ah;
}

pub(super) unsafe extern "C" fn create_ah<P: Provider>(
    pd: *mut ibv_pd,
    attr: *mut ibv_ah_attr,
) -> *mut ibv_ah {
    // SAFETY: the library passes a live domain and attributes.
    pointer(unsafe {
        Subject::<P, Domain<P>>::from_raw(pd).and_then(|domain| {
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            let mut new = New::<Address<P>>::alloc(&domain.context, None)?;
            let object = domain.object;
            let ah = Arc::new(domain.provider.create_ah(&object.side.pd, attr)?);
            new.c().pd = pd;
            if let Some(number) = domain.provider.number(Numbered::Ah(&*ah)) {
                new.c().handle = number;
            }
            Ok(new.finish(Address {
                ah,
                _pd: object.uses.hold(),
            }))
        })
    })
}

pub(super) unsafe extern "C" fn destroy_ah<P: Provider>(ah: *mut ibv_ah) -> c_int {
    // SAFETY: the library passes a live address handle.
    code(unsafe {
        Subject::<P, Address<P>>::from_raw(ah).and_then(|subject| {
            subject.object.idle()?;
            subject.provider.destroy_ah(&subject.object.side.ah)?;
            subject.free();
            Ok(())
        })
    })
}
