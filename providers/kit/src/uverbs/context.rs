#![forbid(unsafe_code)]
//! Commands of the context itself: opening, importing, descriptors for events
//! (ibv_open_device(3), ibv_import_device(3), ibv_create_comp_channel(3)).

use super::{Driver, Fallback, Ioctl, Kernel, Path, add_driver, run, try_ioctl, write};
use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::{ib_uverbs_create_comp_channel, ib_uverbs_get_context};
use crate::errno::Result;
use crate::sys::fd;
use crate::table::slot;
use core::ffi::c_int;
use std::os::fd::OwnedFd;

/// The kernel's answer about a context.
#[derive(Debug)]
pub struct Context {
    /// A new descriptor of asynchronous events. Only the write command makes one; else see
    /// [`alloc_async_fd`].
    pub async_fd: Option<OwnedFd>,
    /// Completion vectors of the device.
    pub num_comp_vectors: c_int,
    /// `enum ib_uverbs_core_support`; the write command does not report it.
    pub core_support: Option<u64>,
}

/// A count that C keeps as an int.
fn count(n: u32) -> c_int {
    c_int::try_from(n).unwrap_or(c_int::MAX)
}

/// Makes the kernel's part of a newly opened context.
///
/// # Errors
/// The kernel's own errno.
pub fn get_context<K: Kernel + ?Sized>(kernel: &K, driver: &mut Driver<'_>) -> Result<Context> {
    get_context_with(kernel, &[], driver)
}

/// The same with descriptors for the kernel's driver.
///
/// # Errors
/// The kernel's own errno; EINVAL for more descriptors than an attribute holds.
pub fn get_context_with<K: Kernel + ?Sized>(
    kernel: &K,
    fds: &[c_int],
    driver: &mut Driver<'_>,
) -> Result<Context> {
    let (mut vectors, mut support) = (0u32, 0u64);
    let mut call = Ioctl::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT);
    call.value_out(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &mut vectors);
    call.value_out(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &mut support);
    if !fds.is_empty() {
        call.bytes_in(UVERBS_ATTR_GET_CONTEXT_FD_ARR, bytemuck::cast_slice(fds));
    }
    add_driver(&mut call, driver);
    // The verb that frees a context has no ioctl, so its slot is used for this one.
    let path = try_ioctl(kernel, slot::free_context, &mut call, Fallback::Write)?;
    if path == Path::Ioctl {
        return Ok(Context {
            async_fd: None,
            num_comp_vectors: count(vectors),
            core_support: Some(support),
        });
    }
    let answer = write(kernel, &ib_uverbs_get_context::default(), driver)?;
    Ok(Context {
        async_fd: Some(fd::made(answer.async_fd.into())?),
        num_comp_vectors: count(answer.num_comp_vectors),
        core_support: None,
    })
}

/// Asks about the context behind an imported descriptor.
///
/// # Errors
/// The kernel's own errno; EIO when the device behind the descriptor is gone.
pub fn query_context<K: Kernel + ?Sized>(kernel: &K, driver: &mut Driver<'_>) -> Result<Context> {
    let (mut vectors, mut support) = (0u32, 0u64);
    let mut call = Ioctl::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT);
    call.value_out(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, &mut vectors);
    call.value_out(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, &mut support);
    add_driver(&mut call, driver);
    run(kernel, &mut call)?;
    Ok(Context {
        async_fd: None,
        num_comp_vectors: count(vectors),
        core_support: Some(support),
    })
}

/// Makes a descriptor of asynchronous events.
///
/// # Errors
/// The kernel's own errno.
pub fn alloc_async_fd<K: Kernel + ?Sized>(kernel: &K) -> Result<OwnedFd> {
    let mut call = Ioctl::new(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC);
    call.fd_out(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE);
    run(kernel, &mut call)?;
    call.take_fd()
}

/// Makes a descriptor of completion events.
///
/// # Errors
/// The kernel's own errno.
pub fn create_comp_channel<K: Kernel + ?Sized>(kernel: &K) -> Result<OwnedFd> {
    let command = ib_uverbs_create_comp_channel::default();
    let answer = write(kernel, &command, &mut Driver::none())?;
    fd::made(answer.fd.into())
}
