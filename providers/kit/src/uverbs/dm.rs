#![forbid(unsafe_code)]
//! Memory on the device: ibv_alloc_dm(3).

use super::mr::Region;
use super::{Driver, Ioctl, Kernel, add_driver, destroyed, run};
use crate::abi::IBV_ACCESS_ZERO_BASED;
use crate::abi::kernel::ioctl::*;
use crate::errno::{Errno, Result};
use std::os::fd::OwnedFd;

/// Allocates device memory; returns its handle. `log_align` is the alignment asked for, as a
/// power of two.
///
/// # Errors
/// The kernel's own errno, EOPNOTSUPP or EPROTONOSUPPORT where the device has none.
pub fn alloc_dm<K: Kernel + ?Sized>(
    kernel: &K,
    length: u64,
    log_align: u32,
    driver: &mut Driver<'_>,
) -> Result<u32> {
    let mut call = Ioctl::new(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC);
    call.object_out(UVERBS_ATTR_ALLOC_DM_HANDLE);
    call.u64_in(UVERBS_ATTR_ALLOC_DM_LENGTH, length);
    call.u32_in(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, log_align);
    add_driver(&mut call, driver);
    run(kernel, &mut call)?;
    call.object(UVERBS_ATTR_ALLOC_DM_HANDLE)
}

/// Makes a DMA buffer of the memory that the kernel's driver maps at the offset `at` of the command
/// descriptor, in bytes; returns its descriptor.
///
/// # Errors
/// The kernel's own errno, EOPNOTSUPP or EPROTONOSUPPORT where kernel or driver cannot.
pub fn export_dmabuf<K: Kernel + ?Sized>(kernel: &K, at: u64) -> Result<OwnedFd> {
    let mut call = Ioctl::new(UVERBS_OBJECT_DMABUF, UVERBS_METHOD_DMABUF_ALLOC);
    call.fd_out(UVERBS_ATTR_ALLOC_DMABUF_HANDLE);
    call.u64_in(UVERBS_ATTR_ALLOC_DMABUF_PGOFF, at);
    run(kernel, &mut call)?;
    call.take_fd()
}

/// Frees device memory.
///
/// # Errors
/// The kernel's own errno, EBUSY while it is registered.
pub fn free_dm<K: Kernel + ?Sized>(kernel: &K, handle: u32) -> Result<()> {
    let mut call = Ioctl::new(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE);
    call.object_in(UVERBS_ATTR_FREE_DM_HANDLE, handle);
    destroyed(run(kernel, &mut call))
}

/// Registers `length` bytes of the device memory `dm` from `offset` on.
///
/// # Errors
/// EINVAL without `IBV_ACCESS_ZERO_BASED`: such a region has no address that an application
/// could know; else the kernel's own errno.
pub fn reg_dm_mr<K: Kernel + ?Sized>(
    kernel: &K,
    pd: u32,
    dm: u32,
    (offset, length): (u64, u64),
    access: u32,
    driver: &mut Driver<'_>,
) -> Result<Region> {
    if access & IBV_ACCESS_ZERO_BASED == 0 {
        return Err(Errno::INVAL);
    }
    let mut made = Region::default();
    let mut call = Ioctl::new(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG);
    call.object_out(UVERBS_ATTR_REG_DM_MR_HANDLE);
    call.value_out(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, &mut made.lkey);
    call.value_out(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, &mut made.rkey);
    call.object_in(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, pd);
    call.object_in(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, dm);
    call.u64_in(UVERBS_ATTR_REG_DM_MR_OFFSET, offset);
    call.u64_in(UVERBS_ATTR_REG_DM_MR_LENGTH, length);
    call.u32_in(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, access);
    add_driver(&mut call, driver);
    run(kernel, &mut call)?;
    let handle = call.object(UVERBS_ATTR_REG_DM_MR_HANDLE)?;
    Ok(Region { handle, ..made })
}
