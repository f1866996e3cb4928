//! The handle of an open context.

use crate::abi::{ibv_context, verbs_context};
use crate::{errno::Errno, table::{Private, Table}};
use core::{ffi::c_int, marker::PhantomData, mem::offset_of, ptr::NonNull};
use std::os::fd::BorrowedFd;

/// An open context, valid for `'a`.
#[derive(Clone, Copy)]
pub struct Ctx<'a> {
    raw: NonNull<ibv_context>,
    life: PhantomData<&'a ibv_context>,
}

impl<'a> Ctx<'a> {
    /// Takes the pointer that C passed.
    ///
    /// # Errors
    /// EINVAL when the pointer is NULL or the context is not one of this library's (its
    /// `abi_compat` is not all ones, or it has no private part).
    ///
    /// # Safety
    /// A pointer that is not NULL must be the `ibv_context` inside a `verbs_context`, which
    /// stays allocated for `'a`.
    pub unsafe fn from_raw(raw: *mut ibv_context) -> Result<Self, Errno> {
        let raw = NonNull::new(raw).ok_or(Errno::INVAL)?;
        // SAFETY: the caller vouches for the pointer.
        let abi_compat = unsafe { (*raw.as_ptr()).abi_compat };
        if abi_compat as usize != usize::MAX {
            return Err(Errno::INVAL);
        }
        let ctx = Self {
            raw,
            life: PhantomData,
        };
        // SAFETY: abi_compat says that a verbs_context lies around the context.
        let private = unsafe { (*ctx.verbs()).priv_ };
        if private.is_null() {
            return Err(Errno::INVAL);
        }
        Ok(ctx)
    }

    /// The pointer for C.
    pub fn as_ptr(self) -> *mut ibv_context {
        self.raw.as_ptr()
    }

    /// The `verbs_context` around it.
    pub fn verbs(self) -> *mut verbs_context {
        let below = offset_of!(verbs_context, context);
        self.raw
            .as_ptr()
            .cast::<u8>()
            .wrapping_sub(below)
            .cast::<verbs_context>()
    }

    /// The library's own part.
    pub fn private(self) -> &'a Private {
        // SAFETY: `from_raw` saw a private part; it lives as long as the context, and what
        // changes inside it is atomic.
        unsafe { &*(*self.verbs()).priv_.cast::<Private>() }
    }

    /// The provider's verbs.
    pub fn table(self) -> &'a Table {
        &self.private().verbs
    }

    /// Number of the command descriptor, -1 when the device has none.
    pub fn cmd_fd_raw(self) -> c_int {
        // SAFETY: the context is valid for 'a.
        unsafe { (*self.raw.as_ptr()).cmd_fd }
    }

    /// The command descriptor.
    ///
    /// # Errors
    /// EBADF when the device has none.
    pub fn cmd_fd(self) -> Result<BorrowedFd<'a>, Errno> {
        let fd = self.cmd_fd_raw();
        if fd < 0 {
            return Err(Errno(libc::EBADF));
        }
        // SAFETY: the context owns the descriptor and is open for 'a.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }
}
