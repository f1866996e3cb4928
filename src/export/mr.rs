//! Memory regions: ibv_reg_mr(3), ibv_rereg_mr(3), ibv_reg_dmabuf_mr(3), ibv_import_mr(3).

use super::ret;
use crate::{
    core::memory::{self, Range, Rereg},
    symver,
};
use kit::{
    abi::{
        handle::{Mr, Pd},
        *,
    },
    errno::{Errno, Result},
    sys::errno,
};
use std::ffi::{c_int, c_uint, c_void};

/// Registers through the provider and fills in the library's members of the region.
///
/// # Safety
/// `pd` is a live protection domain.
#[inline(always)] // few callers, and a call with six arguments costs as much as half of it
pub unsafe fn register(
    pd: Pd<'_>,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> Result<*mut ibv_mr> {
    let access = memory::access_for_kernel(access, pd.ctx().core_support());
    let range = memory::pins(access).then_some(Range {
        addr: addr.addr(),
        len: length,
    });
    memory::protected(range, || {
        // SAFETY: the provider's verb; a new region is valid.
        unsafe {
            let mr = (pd.table().reg_mr())(pd.as_ptr(), addr, length, iova, access.cast_signed());
            let Some(region) = mr.as_mut() else {
                return Err(errno::get());
            };
            region.context = pd.ctx().as_ptr();
            region.pd = pd.as_ptr();
            region.addr = addr;
            region.length = length;
            Ok(mr)
        }
    })
}

/// Registers a part of a DMA buffer through the provider, and fills in the library's members.
///
/// # Safety
/// As for [`register`].
pub unsafe fn register_dmabuf(
    pd: Pd<'_>,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> Result<*mut ibv_mr> {
    // The offset into the buffer stands in for an address, as ibv_reg_dmabuf_mr(3) has it.
    let stands_in = usize::try_from(offset).map_err(|_| Errno::OVERFLOW)?;
    // SAFETY: the provider's verb; a new region is valid.
    unsafe {
        let mr = (pd.table().reg_dmabuf_mr())(pd.as_ptr(), offset, length, iova, fd, access);
        let Some(region) = mr.as_mut() else {
            return Err(errno::get());
        };
        region.context = pd.ctx().as_ptr();
        region.pd = pd.as_ptr();
        region.addr = std::ptr::without_provenance_mut(stands_in);
        region.length = length;
        Ok(mr)
    }
}

unsafe extern "C" fn reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    // SAFETY: the caller passes a live domain or NULL.
    unsafe {
        ret::pointer(Pd::from_raw(pd).and_then(|pd| register(pd, addr, length, iova, access)))
    }
}
symver!(reg_mr_iova2 => "ibv_reg_mr_iova2", "IBVERBS_1.8");

unsafe extern "C" fn reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: as for reg_mr_iova2.
    unsafe { reg_mr_iova2(pd, addr, length, iova, access.cast_unsigned()) }
}
symver!(reg_mr_iova => "ibv_reg_mr_iova", "IBVERBS_1.7");

pub(super) unsafe extern "C" fn reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: as for reg_mr_iova2.
    unsafe { reg_mr_iova2(pd, addr, length, addr.addr() as u64, access.cast_unsigned()) }
}
symver!(reg_mr => "ibv_reg_mr", "IBVERBS_1.1");

unsafe extern "C" fn reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the caller passes a live domain or NULL.
    ret::pointer(unsafe {
        Pd::from_raw(pd).and_then(|pd| register_dmabuf(pd, offset, length, iova, fd, access))
    })
}
symver!(reg_dmabuf_mr => "ibv_reg_dmabuf_mr", "IBVERBS_1.12");

unsafe extern "C" fn rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let request = Rereg {
        flags,
        range: Range {
            addr: addr.addr(),
            len: length,
        },
        access,
    };
    let bad = |e: Errno| {
        errno::set(e);
        IBV_REREG_MR_ERR_INPUT
    };
    // SAFETY: the caller passes a live region or NULL.
    let h = match unsafe { Mr::from_raw(mr) } {
        Ok(h) => h,
        Err(e) => return bad(e),
    };
    if h.mr_type() != IBV_MR_TYPE_MR || (request.changes_pd() && pd.is_null()) {
        return bad(Errno::INVAL);
    }
    if let Err(e) = request.check() {
        return bad(e);
    }
    // SAFETY: a region of type IBV_MR_TYPE_MR is the first member of a verbs_mr (its provider
    // set the type).
    let (code, changed) = request.run(h.range().into(), || unsafe {
        (h.table().rereg_mr())(mr.cast(), flags, pd, addr, length, access)
    });
    if changed {
        // SAFETY: the region is live, and the caller does not use it meanwhile.
        let region = unsafe { &mut *mr };
        if request.changes_pd() {
            region.pd = pd;
        }
        if request.new_range().is_some() {
            region.addr = addr;
            region.length = length;
        }
    }
    code
}
symver!(rereg_mr => "ibv_rereg_mr", "IBVERBS_1.1");

pub(super) unsafe extern "C" fn dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: the caller passes a live region or NULL; its members are read before the provider
    // frees it.
    unsafe {
        ret::code_of(Mr::from_raw(mr), |h| {
            let range: Range = h.range().into();
            let pinned = h.mr_type() == IBV_MR_TYPE_MR && memory::pins(h.access().cast_unsigned());
            let answer = (h.table().dereg_mr())(mr.cast());
            if answer == 0 && pinned {
                memory::release(range);
            }
            answer
        })
    }
}
symver!(dereg_mr => "ibv_dereg_mr", "IBVERBS_1.1");

unsafe extern "C" fn import_mr(pd: *mut ibv_pd, handle: u32) -> *mut ibv_mr {
    // SAFETY: the caller passes a live domain or NULL.
    unsafe { ret::pointer_of(Pd::from_raw(pd), |h| (h.table().import_mr())(pd, handle)) }
}
symver!(import_mr => "ibv_import_mr", "IBVERBS_1.10");

unsafe extern "C" fn unimport_mr(mr: *mut ibv_mr) {
    // SAFETY: the caller passes an imported region or NULL.
    unsafe {
        if let Ok(h) = Mr::from_raw(mr) {
            (h.table().unimport_mr())(mr);
        }
    }
}
symver!(unimport_mr => "ibv_unimport_mr", "IBVERBS_1.10");
