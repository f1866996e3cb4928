#![forbid(unsafe_code)]
//! Protection domains and XRC domains.

use super::destroy::{Method, destroy};
use super::{Driver, Kernel, write};
use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::{
    ib_uverbs_alloc_pd, ib_uverbs_close_xrcd, ib_uverbs_dealloc_pd, ib_uverbs_open_xrcd,
};
use crate::errno::Result;
use crate::table::slot;

/// Makes a protection domain; returns its handle.
///
/// # Errors
/// The kernel's own errno.
pub fn alloc_pd<K: Kernel + ?Sized>(kernel: &K, driver: &mut Driver<'_>) -> Result<u32> {
    write(kernel, &ib_uverbs_alloc_pd::default(), driver).map(|answer| answer.pd_handle)
}

/// Ends a protection domain.
///
/// # Errors
/// The kernel's own errno, EBUSY while objects belong to it.
pub fn dealloc_pd<K: Kernel + ?Sized>(kernel: &K, handle: u32) -> Result<()> {
    const METHOD: Method = Method {
        slot: slot::dealloc_pd,
        object: UVERBS_OBJECT_PD,
        method: UVERBS_METHOD_PD_DESTROY,
        attr: UVERBS_ATTR_DESTROY_PD_HANDLE,
    };
    let command = ib_uverbs_dealloc_pd { pd_handle: handle };
    destroy(kernel, &METHOD, handle, &command)
}

/// Opens or makes the XRC domain of the inode behind `fd`; returns its handle. `fd` and
/// `oflags` are those of ibv_open_xrcd(3), as bits.
///
/// # Errors
/// The kernel's own errno.
pub fn open_xrcd<K: Kernel + ?Sized>(
    kernel: &K,
    fd: u32,
    oflags: u32,
    driver: &mut Driver<'_>,
) -> Result<u32> {
    let command = ib_uverbs_open_xrcd {
        response: 0,
        fd,
        oflags,
    };
    write(kernel, &command, driver).map(|answer| answer.xrcd_handle)
}

/// Gives an XRC domain back.
///
/// # Errors
/// The kernel's own errno, EBUSY while objects belong to it.
pub fn close_xrcd<K: Kernel + ?Sized>(kernel: &K, handle: u32) -> Result<()> {
    const METHOD: Method = Method {
        slot: slot::close_xrcd,
        object: UVERBS_OBJECT_XRCD,
        method: UVERBS_METHOD_XRCD_DESTROY,
        attr: UVERBS_ATTR_DESTROY_XRCD_HANDLE,
    };
    let command = ib_uverbs_close_xrcd {
        xrcd_handle: handle,
    };
    destroy(kernel, &METHOD, handle, &command)
}
