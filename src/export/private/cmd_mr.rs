//! `ibv_cmd_*` of memory regions and memory windows.

use super::buffer::bytes;
use crate::{export::ret, symver};
use kit::{
    abi::{
        handle::{Mr, Mw, Pd},
        kernel::{ib_uverbs_alloc_mw, ib_uverbs_reg_mr, ib_uverbs_rereg_mr},
        *,
    },
    errno::{Errno, Result},
    uverbs::{
        Driver,
        mr::{self, Cover, Region},
    },
};
use std::{
    ffi::{c_int, c_uint, c_void},
    ptr,
};

fn cover(start: u64, length: usize, iova: u64, access: c_int) -> Result<Cover> {
    Ok(Cover {
        start,
        length: u64::try_from(length).map_err(|_| Errno::INVAL)?,
        iova,
        access: access.cast_unsigned(),
    })
}

/// Notes the kernel's names of a region.
pub(super) fn note(mr: &mut ibv_mr, region: Region) {
    mr.handle = region.handle;
    mr.lkey = region.lkey;
    mr.rkey = region.rkey;
}

unsafe extern "C" fn reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
    vmr: *mut verbs_mr,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider passes a live domain, a new object and its own buffers.
    ret::command(unsafe {
        Pd::from_raw(pd).and_then(|pd| {
            let vmr = vmr.as_mut().ok_or(Errno::INVAL)?;
            let cover = cover(addr.addr() as u64, length, iova, access)?;
            let (cmd, resp) = (bytes(cmd, cmd_size), bytes(resp, resp_size));
            let mut driver = Driver::buffers::<ib_uverbs_reg_mr>(cmd, resp)?;
            let region = mr::reg_mr(&pd.ctx(), pd.number(), &cover, &mut driver)?;
            note(&mut vmr.ibv_mr, region);
            vmr.ibv_mr.context = pd.ctx().as_ptr();
            vmr.mr_type = IBV_MR_TYPE_MR;
            vmr.access = access;
            Ok(())
        })
    })
}
symver!(reg_mr => "ibv_cmd_reg_mr", "IBVERBS_PRIVATE_34");

unsafe extern "C" fn rereg_mr(
    vmr: *mut verbs_mr,
    flags: u32,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
    pd: *mut ibv_pd,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider passes a live region, whose first member is the ibv_mr, a live domain
    // where `flags` say so, and its own buffers.
    ret::command(unsafe {
        Mr::from_raw(vmr.cast()).and_then(|mr| {
            let pd = match flags & IBV_REREG_MR_CHANGE_PD {
                0 => None,
                _ => Some(Pd::from_raw(pd)?),
            };
            let cover = cover(addr.addr() as u64, length, iova, access)?;
            let (cmd, resp) = (bytes(cmd, cmd_size), bytes(resp, resp_size));
            let mut driver = Driver::buffers::<ib_uverbs_rereg_mr>(cmd, resp)?;
            let (number, domain) = ((*mr.as_ptr()).handle, pd.map(Pd::number));
            let region = mr::rereg_mr(&mr.ctx(), number, flags, domain, &cover, &mut driver)?;
            note(&mut (*vmr).ibv_mr, region);
            if let Some(pd) = pd {
                (*vmr).ibv_mr.context = pd.ctx().as_ptr();
            }
            Ok(())
        })
    })
}
symver!(rereg_mr => "ibv_cmd_rereg_mr", "IBVERBS_PRIVATE_34");

unsafe extern "C" fn reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
    vmr: *mut verbs_mr,
) -> c_int {
    // SAFETY: the provider passes a live domain and a new object.
    ret::command(unsafe {
        Pd::from_raw(pd).and_then(|pd| {
            let vmr = vmr.as_mut().ok_or(Errno::INVAL)?;
            let cover = cover(offset, length, iova, access)?;
            let at = usize::try_from(offset).map_err(|_| Errno::INVAL)?;
            let region = mr::reg_dmabuf_mr(&pd.ctx(), pd.number(), &cover, fd)?;
            note(&mut vmr.ibv_mr, region);
            vmr.ibv_mr.context = pd.ctx().as_ptr();
            vmr.ibv_mr.pd = pd.as_ptr();
            // The memory has no address here; its offset stands in for one.
            vmr.ibv_mr.addr = ptr::without_provenance_mut(at);
            vmr.ibv_mr.length = length;
            vmr.mr_type = IBV_MR_TYPE_DMABUF_MR;
            Ok(())
        })
    })
}
symver!(reg_dmabuf_mr => "ibv_cmd_reg_dmabuf_mr", "IBVERBS_PRIVATE_34");

unsafe extern "C" fn query_mr(pd: *mut ibv_pd, vmr: *mut verbs_mr, handle: u32) -> c_int {
    // SAFETY: the provider passes a live domain and a new object.
    ret::command(unsafe {
        Pd::from_raw(pd).and_then(|pd| {
            let vmr = vmr.as_mut().ok_or(Errno::INVAL)?;
            let (region, length) = mr::query_mr(&pd.ctx(), handle)?;
            note(&mut vmr.ibv_mr, region);
            vmr.ibv_mr.length = usize::try_from(length).map_err(|_| Errno::OVERFLOW)?;
            vmr.ibv_mr.context = pd.ctx().as_ptr();
            vmr.ibv_mr.pd = pd.as_ptr();
            vmr.ibv_mr.addr = ptr::null_mut();
            vmr.mr_type = IBV_MR_TYPE_IMPORTED_MR;
            Ok(())
        })
    })
}
symver!(query_mr => "ibv_cmd_query_mr", "IBVERBS_PRIVATE_34");

unsafe extern "C" fn advise_mr(
    pd: *mut ibv_pd,
    advice: c_uint,
    flags: u32,
    ranges: *mut ibv_sge,
    count: u32,
) -> c_int {
    // SAFETY: the caller passes a live domain and a list of `count` ranges.
    ret::command(unsafe {
        Pd::from_raw(pd).and_then(|pd| {
            let size = usize::try_from(count)
                .ok()
                .and_then(|count| count.checked_mul(size_of::<ibv_sge>()));
            let size = size.ok_or(Errno::INVAL)?;
            if ranges.is_null() && size != 0 {
                return Err(Errno::INVAL);
            }
            let ranges = bytes(ranges.cast(), size);
            mr::advise_mr(&pd.ctx(), pd.number(), advice, flags, ranges)
        })
    })
}
symver!(advise_mr => "ibv_cmd_advise_mr", "IBVERBS_PRIVATE_34");

unsafe extern "C" fn dereg_mr(vmr: *mut verbs_mr) -> c_int {
    // SAFETY: the provider passes a live region, whose first member is the ibv_mr.
    ret::command(unsafe {
        Mr::from_raw(vmr.cast()).and_then(|mr| mr::dereg_mr(&mr.ctx(), (*mr.as_ptr()).handle))
    })
}
symver!(dereg_mr => "ibv_cmd_dereg_mr", "IBVERBS_PRIVATE_34");

unsafe extern "C" fn alloc_mw(
    pd: *mut ibv_pd,
    mw_type: ibv_mw_type,
    mw: *mut ibv_mw,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider passes a live domain, a new object and its own buffers.
    ret::command(unsafe {
        Pd::from_raw(pd).and_then(|pd| {
            let mw = mw.as_mut().ok_or(Errno::INVAL)?;
            let (cmd, resp) = (bytes(cmd, cmd_size), bytes(resp, resp_size));
            let mut driver = Driver::buffers::<ib_uverbs_alloc_mw>(cmd, resp)?;
            (mw.handle, mw.rkey) = mr::alloc_mw(&pd.ctx(), pd.number(), mw_type, &mut driver)?;
            mw.context = pd.ctx().as_ptr();
            mw.pd = pd.as_ptr();
            mw.type_ = mw_type;
            Ok(())
        })
    })
}
symver!(alloc_mw => "ibv_cmd_alloc_mw", "IBVERBS_PRIVATE_34");

unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    // SAFETY: the provider passes a live window.
    ret::command(unsafe {
        Mw::from_raw(mw).and_then(|mw| mr::dealloc_mw(&mw.ctx(), (*mw.as_ptr()).handle))
    })
}
symver!(dealloc_mw => "ibv_cmd_dealloc_mw", "IBVERBS_PRIVATE_34");
