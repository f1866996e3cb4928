//! All kinds of regions in one call: ibv_reg_mr_ex(3).
//!
//! It becomes one of the older calls, which every provider has: nothing that they cannot say can
//! be said to a provider of the generation that is loaded.

use super::{mr, ret};
use crate::{
    core::{
        memory,
        region::{Asked, Buffer, Plan},
    },
    symver,
};
use kit::{
    abi::{handle::Pd, *},
    errno::Result,
};
use std::ffi::c_void;

/// Reads the members that the mask names.
///
/// # Safety
/// `attr` has those members; a buffer that it names is live.
unsafe fn asked(pd: Pd<'_>, attr: *const ibv_mr_init_attr) -> Asked {
    // SAFETY: vouched for by the caller.
    unsafe {
        let mask = (*attr).comp_mask;
        let gives = |member| mask & member != 0;
        let mut asked = Asked {
            mask,
            length: (*attr).length,
            ..Asked::default()
        };
        if gives(IBV_REG_MR_MASK_IOVA) {
            asked.iova = (*attr).iova;
        }
        if gives(IBV_REG_MR_MASK_ADDR) {
            asked.addr = (*attr).addr.addr();
        }
        if gives(IBV_REG_MR_MASK_FD) {
            asked.fd = (*attr).fd;
        }
        if gives(IBV_REG_MR_MASK_FD_OFFSET) {
            asked.fd_offset = (*attr).fd_offset;
        }
        if gives(IBV_REG_MR_MASK_BUF) {
            asked.buffer = (*attr).buf.as_ref().map(|buf| Buffer {
                addr: buf.addr.addr(),
                size: buf.size,
                same_domain: buf.pd == pd.as_ptr(),
                dmabuf: (buf.dmabuf_fd >= 0).then_some(buf.dmabuf_fd),
            });
        }
        asked
    }
}

/// # Safety
/// As for [`asked`].
unsafe fn register(pd: Pd<'_>, attr: *const ibv_mr_init_attr) -> Result<*mut ibv_mr> {
    // SAFETY: vouched for by the caller.
    let (asked, access) = unsafe { (asked(pd, attr), (*attr).access.cast_unsigned()) };
    let plan = asked.plan()?;
    // SAFETY: vouched for by the caller: a domain and memory that are there.
    unsafe {
        match plan {
            Plan::Memory { iova } => {
                let addr = (*attr).addr;
                mr::register(pd, addr, asked.length, iova, access)
            }
            Plan::DmaBuffer { fd, offset, iova } => {
                let access = memory::access_for_kernel(access, pd.ctx().core_support());
                let region =
                    mr::register_dmabuf(pd, offset, asked.length, iova, fd, access.cast_signed())?;
                if asked.mask & IBV_REG_MR_MASK_ADDR != 0 {
                    (*region).addr = (*attr).addr.cast::<c_void>();
                }
                Ok(region)
            }
        }
    }
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
