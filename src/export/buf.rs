//! Buffers that are allocated for a device: ibv_alloc_buf(3).
//!
//! They are pages of the process, unless the provider allocates them in another way.

use super::observe::{self, Argument, Later as Call};
use super::{mr_ex, ret};
use crate::symver;
use kit::{
    abi::{handle::Pd, *},
    errno::{Errno, Result},
    sys::{memory, pages},
    table::{Known, Later},
};
use std::{
    ffi::{c_int, c_void},
    os::fd::{BorrowedFd, IntoRawFd},
};

/// `dmabuf_fd` of a buffer that is no DMA buffer.
const NONE: c_int = -1;

/// # Safety
/// `pd` is a live domain or NULL, `buf` has room for a pointer or is NULL.
unsafe fn alloc(pd: *mut ibv_pd, size: usize, buf: *mut *mut ibv_buf) -> Result<*mut c_void> {
    // SAFETY: vouched for by the caller.
    unsafe { Pd::from_raw(pd) }?;
    let buf = ret::not_null(buf)?;
    let addr = pages::map(size)?;
    let made = memory::new(ibv_buf {
        addr,
        size,
        pd,
        dmabuf_fd: NONE,
    });
    match made {
        // SAFETY: vouched for by the caller.
        Ok(made) => unsafe { buf.write(made) },
        Err(e) => {
            // SAFETY: mapped above, and nothing else refers to the pages.
            unsafe { pages::unmap(addr, size) };
            return Err(e);
        }
    }
    Ok(addr)
}

pub unsafe extern "C" fn alloc_buf(
    pd: *mut ibv_pd,
    size: usize,
    buf: *mut *mut ibv_buf,
) -> *mut c_void {
    // SAFETY: the caller passes a live domain and room for a pointer, or NULL.
    unsafe {
        let make = || match provider(pd, Later::alloc_buf) {
            Some(verb) if !buf.is_null() => verb(pd, size, buf),
            _ => ret::pointer(alloc(pd, size, buf)),
        };
        match Pd::from_raw(pd) {
            Ok(h) => {
                let words = [pd.number(), size.number(), buf.number()];
                observe::later(h.ctx(), Call::AllocBuf, &words, make)
            }
            Err(_) => make(),
        }
    }
}

/// The provider's own verb.
///
/// # Safety
/// `pd` is a live domain or NULL.
unsafe fn provider<F>(pd: *mut ibv_pd, verb: impl FnOnce(&Later) -> Known<F>) -> Option<F> {
    // SAFETY: vouched for by the caller.
    let pd = unsafe { Pd::from_raw(pd) }.ok()?;
    match verb(pd.ctx().private().later()) {
        Known::Is(verb) => Some(verb),
        Known::LeftOut | Known::TooOld => None,
    }
}
symver!(alloc_buf => "ibv_alloc_buf", "IBVERBS_1.17");

pub unsafe extern "C" fn free_buf(buf: *mut ibv_buf) {
    // SAFETY: the caller passes a buffer that it uses no more, or NULL, before its domain ends. A
    // provider that allocates buffers made it, and else `alloc`.
    unsafe {
        let Some(ibv_buf { addr, size, pd, .. }) = buf.as_ref().copied() else {
            return;
        };
        let free = || {
            if provider(pd, Later::alloc_buf).is_none() {
                pages::unmap(addr, size);
                memory::free(buf.cast());
            } else if let Some(verb) = provider(pd, Later::free_buf) {
                verb(buf);
            }
        };
        match Pd::from_raw(pd) {
            Ok(h) => observe::later(h.ctx(), Call::FreeBuf, &[buf.number()], free),
            Err(_) => free(),
        }
    }
}
symver!(free_buf => "ibv_free_buf", "IBVERBS_1.17");

unsafe extern "C" fn reg_buf_mr(
    pd: *mut ibv_pd,
    buf: *mut ibv_buf,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    let mut attr = ibv_mr_init_attr {
        length,
        access,
        comp_mask: IBV_REG_MR_MASK_BUF | IBV_REG_MR_MASK_ADDR,
        iova: 0,
        addr,
        fd: NONE,
        fd_offset: 0,
        dmah: std::ptr::null_mut(),
        buf,
    };
    // SAFETY: the caller passes a live domain and buffer, or NULL.
    unsafe { mr_ex::reg_mr_ex(pd, &raw mut attr) }
}
symver!(reg_buf_mr => "ibv_reg_buf_mr", "IBVERBS_1.17");

/// # Safety
/// `buf` is a live buffer or NULL.
unsafe fn export(buf: *mut ibv_buf) -> Result<c_int> {
    // SAFETY: vouched for by the caller; the buffer owns its descriptor.
    unsafe {
        let fd = (*ret::not_null(buf)?).dmabuf_fd;
        if fd < 0 {
            return Err(Errno(libc::ENODATA));
        }
        let copy = BorrowedFd::borrow_raw(fd).try_clone_to_owned()?;
        Ok(copy.into_raw_fd())
    }
}

unsafe extern "C" fn export_buf_dmabuf_fd(buf: *mut ibv_buf) -> c_int {
    // SAFETY: the caller passes a live buffer or NULL.
    unsafe {
        let run = || ret::count(export(buf));
        let domain = buf.as_ref().map(|buf| Pd::from_raw(buf.pd));
        match domain {
            Some(Ok(h)) => observe::later(h.ctx(), Call::ExportBufDmabufFd, &[buf.number()], run),
            // The owner of the memory is known only to the provider.
            Some(Err(_)) | None => run(),
        }
    }
}
symver!(export_buf_dmabuf_fd => "ibv_export_buf_dmabuf_fd", "IBVERBS_1.18");
