//! P_Key tables: ibv_query_pkey(3), ibv_get_pkey_index(3).

use super::{address::Device, ret};
use crate::{core::address::pkey, symver};
use kit::abi::{be16, handle::Ctx, ibv_context};
use std::ffi::c_int;

pub(super) unsafe extern "C" fn query_pkey(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    pkey: *mut be16,
) -> c_int {
    // SAFETY: the caller passes an open context and room for a P_Key, or NULL.
    ret::minus_one(unsafe {
        let arguments = ret::not_null(pkey).and_then(|_| Ctx::from_raw(context));
        arguments.and_then(|ctx| {
            pkey.write(pkey::query(&Device(ctx), port_num, index)?);
            Ok(())
        })
    })
}
symver!(query_pkey => "ibv_query_pkey", "IBVERBS_1.1");

unsafe extern "C" fn get_pkey_index(context: *mut ibv_context, port_num: u8, pkey: be16) -> c_int {
    // SAFETY: the caller passes an open context or NULL.
    let arguments = unsafe { Ctx::from_raw(context) };
    ret::count(arguments.and_then(|ctx| pkey::find(&Device(ctx), port_num, pkey)))
}
symver!(get_pkey_index => "ibv_get_pkey_index", "IBVERBS_1.5");
