//! Import and export of device memory: ibv_import_dm(3), ibv_dm_export_dmabuf_fd(3).

use super::observe::{self, Argument, Later};
use super::ret;
use crate::symver;
use kit::{
    abi::{
        handle::{Ctx, Dm},
        ibv_context, ibv_dm,
    },
    errno::Errno,
    table::Known,
};
use std::ffi::c_int;

unsafe extern "C" fn import_dm(context: *mut ibv_context, handle: u32) -> *mut ibv_dm {
    // SAFETY: the caller passes an open context or NULL.
    unsafe {
        ret::pointer_of(Ctx::from_raw(context), |ctx| {
            (ctx.table().import_dm())(context, handle)
        })
    }
}
symver!(import_dm => "ibv_import_dm", "IBVERBS_1.13");

unsafe extern "C" fn unimport_dm(dm: *mut ibv_dm) {
    // SAFETY: the caller passes imported memory or NULL.
    unsafe {
        if let Ok(h) = Dm::from_raw(dm) {
            (h.table().unimport_dm())(dm);
        }
    }
}
symver!(unimport_dm => "ibv_unimport_dm", "IBVERBS_1.13");

/// Where the memory lies in the kernel's driver is known to the provider alone.
pub unsafe extern "C" fn dm_export_dmabuf_fd(dm: *mut ibv_dm) -> c_int {
    // SAFETY: the caller passes live device memory or NULL.
    unsafe {
        match Dm::from_raw(dm) {
            Ok(h) => {
                let ctx = h.ctx();
                observe::later(ctx, Later::DmExportDmabufFd, &[dm.number()], || {
                    match ctx.private().later().dm_export_dmabuf_fd() {
                        Known::Is(verb) => verb(dm),
                        Known::LeftOut | Known::TooOld => ret::count(Err(Errno::OPNOTSUPP)),
                    }
                })
            }
            Err(e) => ret::count(Err(e)),
        }
    }
}
symver!(dm_export_dmabuf_fd => "ibv_dm_export_dmabuf_fd", "IBVERBS_1.16");
