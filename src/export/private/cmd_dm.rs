//! `ibv_cmd_*` of device memory and counters.

use super::{buffer::bytes, cmd_mr::fill_whole};
use crate::{export::ret, private};
use kit::{
    abi::{
        handle::{Counters, Ctx, Dm, Pd},
        *,
    },
    errno::Errno,
    uverbs::{Driver, Link, counters, dm},
};
use std::{
    ffi::{c_int, c_uint},
    os::fd::IntoRawFd,
    ptr,
};

unsafe extern "C" fn alloc_dm(
    context: *mut ibv_context,
    attr: *const ibv_alloc_dm_attr,
    vdm: *mut verbs_dm,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: the provider passes its context, the application's attributes, a new object and its
    // attributes or NULL.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let (attr, vdm) = (attr.as_ref(), vdm.as_mut());
            let (attr, vdm) = attr.zip(vdm).ok_or(Errno::INVAL)?;
            let length = u64::try_from(attr.length).map_err(|_| Errno::INVAL)?;
            let mut driver = Driver::linked(Link::from_raw(link));
            vdm.handle = dm::alloc_dm(&ctx, length, attr.log_align_req, &mut driver)?;
            vdm.dm.handle = vdm.handle;
            vdm.dm.comp_mask = IBV_DM_MASK_HANDLE;
            vdm.dm.context = context;
            Ok(())
        })
    })
}
private!(alloc_dm => "ibv_cmd_alloc_dm");

/// Returns the descriptor of a DMA buffer, or -1 with errno set.
unsafe extern "C" fn export_dmabuf_fd(context: *mut ibv_context, at: i64) -> c_int {
    // SAFETY: the provider passes its context.
    ret::count(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let at = u64::try_from(at).map_err(|_| Errno::INVAL)?;
            Ok(dm::export_dmabuf(&ctx, at)?.into_raw_fd())
        })
    })
}
private!(export_dmabuf_fd => "ibv_cmd_export_dmabuf_fd", [59, 64, 65]);

unsafe extern "C" fn free_dm(vdm: *mut verbs_dm) -> c_int {
    // SAFETY: the provider passes live device memory, whose first member is the ibv_dm.
    ret::command(unsafe {
        Dm::from_command(vdm.cast()).and_then(|dm| dm::free_dm(&dm.ctx(), (*vdm).handle))
    })
}
private!(free_dm => "ibv_cmd_free_dm");

unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    vdm: *mut verbs_dm,
    offset: u64,
    length: usize,
    access: c_uint,
    vmr: *mut verbs_mr,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: the provider passes a live domain, live device memory, a new object and its
    // attributes or NULL.
    ret::command(unsafe {
        Pd::from_command(pd).and_then(|pd| {
            let (vdm, vmr) = vdm.as_ref().zip(vmr.as_mut()).ok_or(Errno::INVAL)?;
            let span = (offset, u64::try_from(length).map_err(|_| Errno::INVAL)?);
            let mut driver = Driver::linked(Link::from_raw(link));
            let (ctx, number) = (pd.ctx(), pd.number());
            let region = dm::reg_dm_mr(&ctx, number, vdm.handle, span, access, &mut driver)?;
            let span = (ptr::null_mut(), length);
            fill_whole(vmr, region, pd, IBV_MR_TYPE_MR, span);
            Ok(())
        })
    })
}
private!(reg_dm_mr => "ibv_cmd_reg_dm_mr");

unsafe extern "C" fn create_counters(
    context: *mut ibv_context,
    attr: *mut ibv_counters_init_attr,
    set: *mut verbs_counters,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: the provider passes its context, the application's attributes, a new object and its
    // attributes or NULL.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let (attr, set) = attr.as_ref().zip(set.as_mut()).ok_or(Errno::INVAL)?;
            if attr.comp_mask != 0 {
                return Err(Errno::OPNOTSUPP);
            }
            let mut driver = Driver::linked(Link::from_raw(link));
            set.handle = counters::create_counters(&ctx, &mut driver)?;
            set.counters.context = context;
            Ok(())
        })
    })
}
private!(create_counters => "ibv_cmd_create_counters");

unsafe extern "C" fn destroy_counters(set: *mut verbs_counters) -> c_int {
    // SAFETY: the provider passes a live set, whose first member is the ibv_counters.
    ret::command(unsafe {
        Counters::from_command(set.cast())
            .and_then(|c| counters::destroy_counters(&c.ctx(), (*set).handle))
    })
}
private!(destroy_counters => "ibv_cmd_destroy_counters");

unsafe extern "C" fn read_counters(
    set: *mut verbs_counters,
    values: *mut u64,
    count: u32,
    flags: u32,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: the provider passes a live set, room for `count` values and its attributes or NULL.
    ret::command(unsafe {
        Counters::from_command(set.cast()).and_then(|c| {
            let size = usize::try_from(count)
                .ok()
                .and_then(|count| count.checked_mul(size_of::<u64>()));
            let size = size.ok_or(Errno::INVAL)?;
            if values.is_null() && size != 0 {
                return Err(Errno::INVAL);
            }
            let values = bytes(values.cast(), size);
            let mut driver = Driver::linked(Link::from_raw(link));
            counters::read_counters(&c.ctx(), (*set).handle, values, flags, &mut driver)
        })
    })
}
private!(read_counters => "ibv_cmd_read_counters");
