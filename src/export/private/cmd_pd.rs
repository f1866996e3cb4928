//! `ibv_cmd_*` of protection domains and XRC domains.

use super::buffer::driver;
use crate::{export::ret, private};
use kit::{
    abi::{
        handle::{Ctx, Pd, Xrcd},
        ibv_context, ibv_pd, ibv_xrcd_init_attr,
        kernel::{ib_uverbs_alloc_pd, ib_uverbs_open_xrcd},
        verbs_xrcd, *,
    },
    errno::{Errno, Result},
    uverbs::pd,
};
use std::{
    ffi::{c_int, c_void},
    mem::offset_of,
};

unsafe extern "C" fn alloc_pd(
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider passes its context, a new object and its own buffers.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let pd = pd.as_mut().ok_or(Errno::INVAL)?;
            let mut driver = driver::<ib_uverbs_alloc_pd>(cmd, cmd_size, resp, resp_size)?;
            pd.handle = pd::alloc_pd(&ctx, &mut driver)?;
            pd.context = context;
            Ok(())
        })
    })
}
private!(alloc_pd => "ibv_cmd_alloc_pd");

unsafe extern "C" fn dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: the provider passes a live domain.
    ret::command(
        unsafe { Pd::from_command(pd) }.and_then(|pd| pd::dealloc_pd(&pd.ctx(), pd.number())),
    )
}
private!(dealloc_pd => "ibv_cmd_dealloc_pd");

/// Both are needed; a mask with an unknown bit is from a later version.
fn check(attr: &ibv_xrcd_init_attr) -> Result<()> {
    const NEEDED: u32 = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if attr.comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED {
        return Err(Errno::OPNOTSUPP);
    }
    if attr.comp_mask & NEEDED != NEEDED {
        return Err(Errno::INVAL);
    }
    Ok(())
}

/// `size` is how much of the object the provider allocated.
unsafe extern "C" fn open_xrcd(
    context: *mut ibv_context,
    xrcd: *mut verbs_xrcd,
    size: c_int,
    attr: *mut ibv_xrcd_init_attr,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider passes its context, a new object, the application's attributes and
    // its own buffers. Members of the object are written one by one: it may be shorter.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            let xrcd = ret::not_null(xrcd)?;
            check(attr)?;
            let (fd, oflags) = (attr.fd.cast_unsigned(), attr.oflags.cast_unsigned());
            let mut driver = driver::<ib_uverbs_open_xrcd>(cmd, cmd_size, resp, resp_size)?;
            let handle = pd::open_xrcd(&ctx, fd, oflags, &mut driver)?;
            (*xrcd).xrcd.context = context;
            (*xrcd).comp_mask = 0;
            let end = offset_of!(verbs_xrcd, handle) + size_of::<u32>();
            if usize::try_from(size).is_ok_and(|size| size >= end) {
                (*xrcd).comp_mask = VERBS_XRCD_HANDLE;
                (*xrcd).handle = handle;
            }
            Ok(())
        })
    })
}
private!(open_xrcd => "ibv_cmd_open_xrcd");

unsafe extern "C" fn close_xrcd(xrcd: *mut verbs_xrcd) -> c_int {
    // SAFETY: the provider passes a live domain; ibv_xrcd is its first member.
    ret::command(unsafe {
        Xrcd::from_command(xrcd.cast()).and_then(|x| pd::close_xrcd(&x.ctx(), (*xrcd).handle))
    })
}
private!(close_xrcd => "ibv_cmd_close_xrcd");
