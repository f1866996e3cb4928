//! `ibv_cmd_*` of address handles and multicast groups.

use super::buffer::response;
use crate::{export::ret, private};
use kit::{
    abi::{
        handle::{Ah, Pd, Qp},
        kernel::ib_uverbs_create_ah,
        *,
    },
    errno::Errno,
    uverbs::ah,
};
use std::ffi::{c_int, c_void};

unsafe extern "C" fn create_ah(
    pd: *mut ibv_pd,
    new: *mut ibv_ah,
    attr: *mut ibv_ah_attr,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider passes a live domain, a new object, the application's attributes and
    // its own buffer.
    ret::command(unsafe {
        Pd::from_command(pd).and_then(|pd| {
            let (attr, name) = (attr.as_ref().ok_or(Errno::INVAL)?, new.addr() as u64);
            let new = new.as_mut().ok_or(Errno::INVAL)?;
            let mut driver = response::<ib_uverbs_create_ah>(resp, resp_size)?;
            let ctx = pd.ctx();
            new.handle = ah::create_ah(&ctx, pd.number(), name, attr.into(), &mut driver)?;
            new.context = ctx.as_ptr();
            Ok(())
        })
    })
}
private!(create_ah => "ibv_cmd_create_ah");

unsafe extern "C" fn destroy_ah(ah: *mut ibv_ah) -> c_int {
    // SAFETY: the provider passes a live address handle.
    ret::command(
        unsafe { Ah::from_command(ah) }.and_then(|ah| ah::destroy_ah(&ah.ctx(), ah.number())),
    )
}
private!(destroy_ah => "ibv_cmd_destroy_ah");

unsafe extern "C" fn attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    // SAFETY: the provider passes a live queue pair and the application's GID.
    ret::command(unsafe {
        Qp::from_command(qp).and_then(|qp| {
            let gid = gid.as_ref().ok_or(Errno::INVAL)?.raw;
            ah::attach_mcast(&qp.ctx(), qp.number(), gid, lid)
        })
    })
}
private!(attach_mcast => "ibv_cmd_attach_mcast");

unsafe extern "C" fn detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    // SAFETY: as above.
    ret::command(unsafe {
        Qp::from_command(qp).and_then(|qp| {
            let gid = gid.as_ref().ok_or(Errno::INVAL)?.raw;
            ah::detach_mcast(&qp.ctx(), qp.number(), gid, lid)
        })
    })
}
private!(detach_mcast => "ibv_cmd_detach_mcast");
