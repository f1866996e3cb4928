//! `ibv_cmd_*` of memory regions and memory windows.

use super::buffer::{bytes, driver};
use crate::{export::ret, private};
use kit::{
    abi::{
        handle::{Mr, Mw, Pd},
        kernel::{ib_uverbs_alloc_mw, ib_uverbs_reg_mr, ib_uverbs_rereg_mr},
        *,
    },
    errno::{Errno, Result},
    uverbs::{
        Driver, Link,
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

/// Writes the handle and the keys of a region.
fn set_keys(mr: &mut ibv_mr, region: Region) {
    mr.handle = region.handle;
    mr.lkey = region.lkey;
    mr.rkey = region.rkey;
}

/// Writes the members that every new region has.
fn fill(vmr: &mut verbs_mr, region: Region, pd: Pd<'_>, mr_type: ibv_mr_type) {
    set_keys(&mut vmr.ibv_mr, region);
    vmr.ibv_mr.context = pd.ctx().as_ptr();
    vmr.mr_type = mr_type;
}

/// As [`fill`], and domain, address and length. The library writes those of other regions after the
/// call.
pub(super) fn fill_whole(
    vmr: &mut verbs_mr,
    region: Region,
    pd: Pd<'_>,
    mr_type: ibv_mr_type,
    (addr, length): (*mut c_void, usize),
) {
    fill(vmr, region, pd, mr_type);
    vmr.ibv_mr.pd = pd.as_ptr();
    vmr.ibv_mr.addr = addr;
    vmr.ibv_mr.length = length;
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
        Pd::from_command(pd).and_then(|pd| {
            let vmr = vmr.as_mut().ok_or(Errno::INVAL)?;
            let cover = cover(addr.addr() as u64, length, iova, access)?;
            let mut driver = driver::<ib_uverbs_reg_mr>(cmd, cmd_size, resp, resp_size)?;
            let region = mr::reg_mr(&pd.ctx(), pd.number(), &cover, &mut driver)?;
            fill(vmr, region, pd, IBV_MR_TYPE_MR);
            vmr.access = access;
            Ok(())
        })
    })
}
private!(reg_mr => "ibv_cmd_reg_mr");

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
    // SAFETY: the provider passes a live region, whose first member is the ibv_mr, a live domain if
    // `flags` contain it, and its buffers.
    ret::command(unsafe {
        Mr::from_command(vmr.cast()).and_then(|mr| {
            let pd = match flags & IBV_REREG_MR_CHANGE_PD {
                0 => None,
                _ => Some(Pd::from_raw(pd)?),
            };
            let cover = cover(addr.addr() as u64, length, iova, access)?;
            let mut driver = driver::<ib_uverbs_rereg_mr>(cmd, cmd_size, resp, resp_size)?;
            let (number, domain) = ((*mr.as_ptr()).handle, pd.map(Pd::number));
            let region = mr::rereg_mr(&mr.ctx(), number, flags, domain, &cover, &mut driver)?;
            set_keys(&mut (*vmr).ibv_mr, region);
            if let Some(pd) = pd {
                (*vmr).ibv_mr.context = pd.ctx().as_ptr();
            }
            Ok(())
        })
    })
}
private!(rereg_mr => "ibv_cmd_rereg_mr");

/// Providers since release 54 pass their attributes as the last argument; with older ones the
/// argument is undefined.
unsafe extern "C" fn reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
    vmr: *mut verbs_mr,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: the provider passes a live domain, a new object, and, if its generation does, its
    // attributes or NULL.
    ret::command(unsafe {
        Pd::from_command(pd).and_then(|pd| {
            let vmr = vmr.as_mut().ok_or(Errno::INVAL)?;
            let cover = cover(offset, length, iova, access)?;
            let at = usize::try_from(offset).map_err(|_| Errno::INVAL)?;
            let link = match pd.ctx().private().layout().dmabuf_link {
                true => Link::from_raw(link),
                false => None,
            };
            let mut driver = Driver::linked(link);
            let region = mr::reg_dmabuf_mr(&pd.ctx(), pd.number(), &cover, fd, &mut driver)?;
            // The memory has no address here; its offset stands in for one.
            let span = (ptr::without_provenance_mut(at), length);
            fill_whole(vmr, region, pd, IBV_MR_TYPE_DMABUF_MR, span);
            Ok(())
        })
    })
}
private!(reg_dmabuf_mr => "ibv_cmd_reg_dmabuf_mr");

/// Memory of the process, or of a DMA buffer where the attributes name one; the members that the
/// mask leaves out are not read.
///
/// # Errors
/// EINVAL for members that contradict each other.
///
/// # Safety
/// `attr` has the members that its mask names; a handle of hints that it names is live.
unsafe fn params(attr: *const ibv_mr_init_attr) -> Result<(Cover, Option<c_int>, Option<u32>)> {
    // SAFETY: vouched for by the caller; providers embed every ibv_dmah.
    unsafe {
        let gives = |member| (*attr).comp_mask & member != 0;
        let fd = gives(IBV_REG_MR_MASK_FD).then(|| (*attr).fd);
        let with_offset = gives(IBV_REG_MR_MASK_FD_OFFSET);
        if with_offset != fd.is_some() || gives(IBV_REG_MR_MASK_ADDR) == fd.is_some() {
            return Err(Errno::INVAL);
        }
        let start = match fd {
            None => (*attr).addr.addr() as u64,
            Some(_) => (*attr).fd_offset,
        };
        let iova = match gives(IBV_REG_MR_MASK_IOVA) {
            true => (*attr).iova,
            false if fd.is_none() => start,
            false => return Err(Errno::INVAL),
        };
        let dmah = match gives(IBV_REG_MR_MASK_DMAH) {
            false => None,
            true => Some((*ret::not_null((*attr).dmah)?.cast::<verbs_dmah>()).handle),
        };
        Ok((
            cover(start, (*attr).length, iova, (*attr).access)?,
            fd,
            dmah,
        ))
    }
}

unsafe extern "C" fn reg_mr_ex(
    pd: *mut ibv_pd,
    vmr: *mut verbs_mr,
    attr: *mut ibv_mr_init_attr,
) -> c_int {
    // SAFETY: the provider passes a live domain, a new object and the application's attributes.
    ret::command(unsafe {
        Pd::from_command(pd).and_then(|pd| {
            let vmr = vmr.as_mut().ok_or(Errno::INVAL)?;
            let (cover, fd, dmah) = params(ret::not_null(attr)?)?;
            let region = mr::reg_mr_ex(&pd.ctx(), pd.number(), &cover, fd, dmah)?;
            let mr_type = match fd {
                None => IBV_MR_TYPE_MR,
                Some(_) => IBV_MR_TYPE_DMABUF_MR,
            };
            fill(vmr, region, pd, mr_type);
            vmr.access = cover.access.cast_signed();
            Ok(())
        })
    })
}
private!(reg_mr_ex => "ibv_cmd_reg_mr_ex", [59, 64, 65]);

unsafe extern "C" fn query_mr(pd: *mut ibv_pd, vmr: *mut verbs_mr, handle: u32) -> c_int {
    // SAFETY: the provider passes a live domain and a new object.
    ret::command(unsafe {
        Pd::from_command(pd).and_then(|pd| {
            let vmr = vmr.as_mut().ok_or(Errno::INVAL)?;
            let (region, length) = mr::query_mr(&pd.ctx(), handle)?;
            let length = usize::try_from(length).map_err(|_| Errno::OVERFLOW)?;
            let span = (ptr::null_mut(), length);
            fill_whole(vmr, region, pd, IBV_MR_TYPE_IMPORTED_MR, span);
            Ok(())
        })
    })
}
private!(query_mr => "ibv_cmd_query_mr");

unsafe extern "C" fn advise_mr(
    pd: *mut ibv_pd,
    advice: c_uint,
    flags: u32,
    ranges: *mut ibv_sge,
    count: u32,
) -> c_int {
    // SAFETY: the caller passes a live domain and a list of `count` ranges.
    ret::command(unsafe {
        Pd::from_command(pd).and_then(|pd| {
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
private!(advise_mr => "ibv_cmd_advise_mr");

unsafe extern "C" fn dereg_mr(vmr: *mut verbs_mr) -> c_int {
    // SAFETY: the provider passes a live region, whose first member is the ibv_mr.
    ret::command(unsafe {
        Mr::from_command(vmr.cast()).and_then(|mr| mr::dereg_mr(&mr.ctx(), (*mr.as_ptr()).handle))
    })
}
private!(dereg_mr => "ibv_cmd_dereg_mr");

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
        Pd::from_command(pd).and_then(|pd| {
            let mw = mw.as_mut().ok_or(Errno::INVAL)?;
            let mut driver = driver::<ib_uverbs_alloc_mw>(cmd, cmd_size, resp, resp_size)?;
            (mw.handle, mw.rkey) = mr::alloc_mw(&pd.ctx(), pd.number(), mw_type, &mut driver)?;
            mw.context = pd.ctx().as_ptr();
            mw.pd = pd.as_ptr();
            mw.type_ = mw_type;
            Ok(())
        })
    })
}
private!(alloc_mw => "ibv_cmd_alloc_mw");

unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    // SAFETY: the provider passes a live window.
    ret::command(unsafe {
        Mw::from_command(mw).and_then(|mw| mr::dealloc_mw(&mw.ctx(), (*mw.as_ptr()).handle))
    })
}
private!(dealloc_mw => "ibv_cmd_dealloc_mw");
