//! A query of ibv_devinfo and pyverbs besides the public calls: the RoCE version of a GID.

use crate::core::address::{Version, gid};
use crate::export::{
    address::{self, Device},
    ret,
};
use crate::private;
use kit::abi::{
    IBV_GID_TYPE_SYSFS_IB_ROCE_V1, IBV_GID_TYPE_SYSFS_ROCE_V2, handle::Ctx, ibv_context,
    ibv_gid_type_sysfs,
};
use std::ffi::{c_int, c_uint};

unsafe extern "C" fn query_gid_type(
    context: *mut ibv_context,
    port_num: u8,
    index: c_uint,
    kind: *mut ibv_gid_type_sysfs,
) -> c_int {
    // SAFETY: the caller passes an open context and room for the type, or NULL.
    ret::minus_one(unsafe {
        let arguments = ret::not_null(kind).and_then(|_| Ctx::from_raw(context));
        arguments.and_then(|ctx| {
            let version = address::reason(gid::version(&Device(ctx), port_num, index))?;
            kind.write(match version {
                Version::V1 => IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
                Version::V2 => IBV_GID_TYPE_SYSFS_ROCE_V2,
            });
            Ok(())
        })
    })
}
private!(query_gid_type => "ibv_query_gid_type");
