//! All kinds of regions in one call: ibv_reg_mr_ex(3).
//!
//! A provider that has the verb is asked by it. For others it becomes one of the older calls,
//! which every provider has.

use super::{mr, observe, ret};
use crate::{
    core::{
        memory::{self, Range},
        region::{Buffer, Plan, RegionParams},
    },
    symver,
};
use kit::{
    abi::{handle::Pd, *},
    errno::{Errno, Result},
    sys::errno,
    table::Known,
};
use std::ffi::c_void;

/// Reads the members that the mask names.
///
/// # Safety
/// `attr` has those members; a buffer that it names is live.
unsafe fn read(pd: Pd<'_>, attr: *const ibv_mr_init_attr) -> RegionParams {
    // SAFETY: vouched for by the caller.
    unsafe {
        let mask = (*attr).comp_mask;
        let gives = |member| mask & member != 0;
        let mut params = RegionParams {
            mask,
            length: (*attr).length,
            ..RegionParams::default()
        };
        if gives(IBV_REG_MR_MASK_IOVA) {
            params.iova = (*attr).iova;
        }
        if gives(IBV_REG_MR_MASK_ADDR) {
            params.addr = (*attr).addr.addr();
        }
        if gives(IBV_REG_MR_MASK_FD) {
            params.fd = (*attr).fd;
        }
        if gives(IBV_REG_MR_MASK_FD_OFFSET) {
            params.fd_offset = (*attr).fd_offset;
        }
        if gives(IBV_REG_MR_MASK_BUF) {
            params.buffer = (*attr).buf.as_ref().map(|buf| Buffer {
                addr: buf.addr.addr(),
                size: buf.size,
                same_domain: buf.pd == pd.as_ptr(),
                dmabuf: (buf.dmabuf_fd >= 0).then_some(buf.dmabuf_fd),
            });
        }
        params
    }
}

/// # Safety
/// As for [`read`].
unsafe fn register(pd: Pd<'_>, attr: *const ibv_mr_init_attr) -> Result<*mut ibv_mr> {
    // SAFETY: vouched for by the caller.
    let (params, access) = unsafe { (read(pd, attr), (*attr).access.cast_unsigned()) };
    if let Known::Is(verb) = pd.ctx().private().later().reg_mr_ex() {
        // SAFETY: as above.
        return unsafe { by_provider(pd, attr, params, verb) };
    }
    let plan = planned(pd, &params, false)?;
    // SAFETY: vouched for by the caller: a domain and memory that are there.
    unsafe {
        match plan {
            Plan::Memory { iova } => {
                let addr = (*attr).addr;
                mr::register(pd, addr, params.length, iova, access)
            }
            Plan::DmaBuffer { fd, offset, iova } => {
                let access = memory::access_for_kernel(access, pd.ctx().core_support());
                let region =
                    mr::register_dmabuf(pd, offset, params.length, iova, fd, access.cast_signed())?;
                if params.mask & IBV_REG_MR_MASK_ADDR != 0 {
                    (*region).addr = (*attr).addr.cast::<c_void>();
                }
                Ok(region)
            }
        }
    }
}

/// Checks the request.
fn planned(pd: Pd<'_>, params: &RegionParams, hints: bool) -> Result<Plan> {
    params.plan(hints).inspect_err(|e| {
        observe::failed("ibv_reg_mr_ex", pd.ctx(), *e, || {
            format!(
                "comp_mask is {:#x}: it has to name one of memory (IBV_REG_MR_MASK_ADDR), a DMA \
                 buffer (IBV_REG_MR_MASK_FD with IBV_REG_MR_MASK_FD_OFFSET) and a buffer of \
                 ibv_alloc_buf (IBV_REG_MR_MASK_BUF), and the range has to be inside; hints \
                 (IBV_REG_MR_MASK_DMAH) need a provider that has ibv_alloc_dmah.",
                params.mask
            )
        });
    })
}

type Verb = unsafe extern "C" fn(*mut ibv_pd, *mut ibv_mr_init_attr) -> *mut ibv_mr;

/// Registers by the provider's verb. The provider sees a copy of the attributes with the request in
/// its plainest form: memory, or a part of a DMA buffer.
///
/// # Safety
/// As for [`read`]; `params` was read from `attr`.
unsafe fn by_provider(
    pd: Pd<'_>,
    attr: *const ibv_mr_init_attr,
    params: RegionParams,
    verb: Verb,
) -> Result<*mut ibv_mr> {
    let plan = planned(pd, &params, true)?;
    let hints = params.mask & IBV_REG_MR_MASK_DMAH;
    // SAFETY: vouched for by the caller.
    let (given, dmah) = unsafe {
        let dmah = match hints {
            0 => std::ptr::null_mut(),
            _ => ret::not_null((*attr).dmah)?,
        };
        ((*attr).access.cast_unsigned(), dmah)
    };
    let access = memory::access_for_kernel(given, pd.ctx().core_support());
    let plain = ibv_mr_init_attr {
        length: params.length,
        access: access.cast_signed(),
        comp_mask: hints | IBV_REG_MR_MASK_IOVA,
        iova: 0,
        addr: std::ptr::null_mut(),
        fd: 0,
        fd_offset: 0,
        dmah,
        buf: std::ptr::null_mut(),
    };
    let with_addr = params.mask & IBV_REG_MR_MASK_ADDR != 0;
    let (mut plain, range, shown) = match plan {
        Plan::Memory { iova } => {
            // SAFETY: as above; memory has an address.
            let addr = unsafe { (*attr).addr };
            let range = Range::from((params.addr, params.length));
            let plain = ibv_mr_init_attr {
                comp_mask: plain.comp_mask | IBV_REG_MR_MASK_ADDR,
                iova,
                addr,
                ..plain
            };
            (plain, memory::pins(access).then_some(range), addr)
        }
        Plan::DmaBuffer { fd, offset, iova } => {
            let stands_in = usize::try_from(offset).map_err(|_| Errno::OVERFLOW)?;
            let plain = ibv_mr_init_attr {
                comp_mask: plain.comp_mask | IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET,
                iova,
                fd,
                fd_offset: offset,
                ..plain
            };
            let shown = match with_addr {
                // SAFETY: as above; the mask names the address.
                true => unsafe { (*attr).addr },
                false => std::ptr::without_provenance_mut(stands_in),
            };
            (plain, None, shown)
        }
    };
    memory::protected(range, || {
        // SAFETY: the provider's verb; a new region is valid.
        unsafe {
            let reported = plain;
            observe::reg_mr_ex(pd.ctx(), pd.as_ptr(), &reported, range.is_some(), || {
                let mr = verb(pd.as_ptr(), &raw mut plain);
                let Some(region) = mr.as_mut() else {
                    return Err(errno::get());
                };
                region.context = pd.ctx().as_ptr();
                region.pd = pd.as_ptr();
                region.addr = shown;
                region.length = params.length;
                Ok(mr)
            })
        }
    })
}

pub unsafe extern "C" fn reg_mr_ex(pd: *mut ibv_pd, attr: *mut ibv_mr_init_attr) -> *mut ibv_mr {
    // SAFETY: the caller passes a live domain and attributes, or NULL.
    ret::pointer(unsafe {
        ret::not_null(attr)
            .and_then(|_| Pd::from_raw(pd))
            .and_then(|pd| register(pd, attr))
    })
}
symver!(reg_mr_ex => "ibv_reg_mr_ex", "IBVERBS_1.15");
