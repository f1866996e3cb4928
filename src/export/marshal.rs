//! Marshalling for librdmacm. A NULL leaves the destination untouched.

use crate::{core::marshal, symver};
use kit::abi::{kernel::*, *};

unsafe extern "C" fn copy_ah_attr_from_kern(dst: *mut ibv_ah_attr, src: *const ib_uverbs_ah_attr) {
    // SAFETY: the caller passes structures of these types, or NULL.
    if let (Some(dst), Some(src)) = unsafe { (dst.as_mut(), src.as_ref()) } {
        *dst = marshal::ah_attr(src);
    }
}
symver!(copy_ah_attr_from_kern => "ibv_copy_ah_attr_from_kern", "IBVERBS_1.1");

unsafe extern "C" fn copy_qp_attr_from_kern(dst: *mut ibv_qp_attr, src: *const ib_uverbs_qp_attr) {
    // SAFETY: as above.
    if let (Some(dst), Some(src)) = unsafe { (dst.as_mut(), src.as_ref()) } {
        marshal::qp_attr(dst, src);
    }
}
symver!(copy_qp_attr_from_kern => "ibv_copy_qp_attr_from_kern", "IBVERBS_1.0");

unsafe extern "C" fn copy_path_rec_from_kern(
    dst: *mut ibv_sa_path_rec,
    src: *const ib_user_path_rec,
) {
    // SAFETY: as above.
    if let (Some(dst), Some(src)) = unsafe { (dst.as_mut(), src.as_ref()) } {
        *dst = marshal::path_from_kernel(src);
    }
}
symver!(copy_path_rec_from_kern => "ibv_copy_path_rec_from_kern", "IBVERBS_1.0");

unsafe extern "C" fn copy_path_rec_to_kern(
    dst: *mut ib_user_path_rec,
    src: *const ibv_sa_path_rec,
) {
    // SAFETY: as above.
    if let (Some(dst), Some(src)) = unsafe { (dst.as_mut(), src.as_ref()) } {
        *dst = marshal::path_to_kernel(src);
    }
}
symver!(copy_path_rec_to_kern => "ibv_copy_path_rec_to_kern", "IBVERBS_1.0");
