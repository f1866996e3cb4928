//! Import of device memory: ibv_import_dm(3).

use super::ret;
use crate::symver;
use kit::abi::{
    handle::{Ctx, Dm},
    ibv_context, ibv_dm,
};

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
