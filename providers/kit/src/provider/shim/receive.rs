//! Chains of receive requests (ibv_post_recv(3)), seen one by one while they are posted.

use crate::abi::{ibv_recv_wr, ibv_sge};
use crate::errno::{Errno, Result};
use crate::provider::ReceiveRequest;
use core::ffi::c_int;
use core::marker::PhantomData;

/// The elements of a request.
///
/// # Errors
/// EINVAL for a negative count, and for elements at NULL.
///
/// # Safety
/// `list` is NULL or good for `count` elements during `'a`.
#[inline]
pub(super) unsafe fn elements<'a>(list: *const ibv_sge, count: c_int) -> Result<&'a [ibv_sge]> {
    let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: vouched for by the caller.
    Ok(unsafe { core::slice::from_raw_parts(list, count) })
}

/// Reports to C that nothing of a chain was posted, or nothing from `request` on.
///
/// # Safety
/// `bad` is NULL or has room for a pointer.
pub(super) unsafe fn refused<W>(e: Errno, request: *mut W, bad: *mut *mut W) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe {
        if !bad.is_null() {
            *bad = request;
        }
    }
    e.raw()
}

/// The requests of a chain.
pub(super) struct Receives<'a> {
    next: *mut ibv_recv_wr,
    /// The last that was looked at; the first before that.
    last: *mut ibv_recv_wr,
    /// Why the last ended the chain, if it did.
    bad: Option<Errno>,
    life: PhantomData<&'a ibv_recv_wr>,
}

impl Receives<'_> {
    /// The chain that starts at `first`, which may be NULL.
    ///
    /// # Safety
    /// It is one as ibv_post_recv(3) wants it, and stays so for the life of the value.
    pub(super) unsafe fn new(first: *mut ibv_recv_wr) -> Self {
        Self {
            next: first,
            last: first,
            bad: None,
            life: PhantomData,
        }
    }

    /// Returns the provider's answer to C, and the request that failed.
    ///
    /// # Safety
    /// `bad` is NULL or has room for a pointer.
    pub(super) unsafe fn answer(self, answer: Result<()>, bad: *mut *mut ibv_recv_wr) -> c_int {
        match answer.err().or(self.bad) {
            None => 0,
            // SAFETY: vouched for by the caller.
            Some(e) => unsafe { refused(e, self.last, bad) },
        }
    }
}

impl<'a> Iterator for Receives<'a> {
    type Item = ReceiveRequest<'a>;

    #[inline]
    fn next(&mut self) -> Option<ReceiveRequest<'a>> {
        if self.next.is_null() || self.bad.is_some() {
            return None;
        }
        self.last = self.next;
        // SAFETY: `new` was promised a good chain.
        let (wr, sges) = unsafe {
            let wr = &*self.next;
            (wr, elements(wr.sg_list, wr.num_sge))
        };
        self.next = wr.next;
        match sges {
            Ok(sges) => Some(ReceiveRequest { id: wr.wr_id, sges }),
            Err(e) => {
                self.bad = Some(e);
                None
            }
        }
    }
}
