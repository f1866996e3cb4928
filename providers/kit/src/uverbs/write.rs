#![forbid(unsafe_code)]
//! Write commands: laid out, then carried by the ioctl interface or written
//! (`rdma/ib_user_verbs.h`).

use super::driver::{Driver, Own};
use super::{Ioctl, Kernel};
use crate::abi::kernel::ioctl::{
    UVERBS_ATTR_CORE_IN, UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT,
    UVERBS_ATTR_WRITE_CMD, UVERBS_METHOD_INVOKE_WRITE, UVERBS_OBJECT_DEVICE,
};
use crate::errno::{Errno, Result};
use crate::sys::{
    command::WriteCommand,
    write::{CommandBuffers, Request},
};
use bytemuck::Zeroable;
use core::mem::size_of;
use core::sync::atomic::Ordering;

/// Issues the write command `command` and reads its answer.
///
/// Structure and response stand in the provider's buffers afterwards, in front of its data, so a
/// provider may read the kernel's answer there.
///
/// # Errors
/// EINVAL for driver data whose length the kernel's units cannot express; EIO for a command taken
/// in part; otherwise the kernel's errno.
pub fn write<K: Kernel + ?Sized, C: WriteCommand>(
    kernel: &K,
    command: &C,
    driver: &mut Driver<'_>,
) -> Result<C::Resp> {
    let mut answer = C::Resp::zeroed();
    write_into(kernel, command, driver, &mut answer)?;
    Ok(answer)
}

/// As [`write`](fn@write), with the response put into `answer`, which is zero: a long one is then
/// not moved. After an error the contents of `answer` are undefined.
///
/// # Errors
/// As [`write`](fn@write).
pub fn write_into<K: Kernel + ?Sized, C: WriteCommand>(
    kernel: &K,
    command: &C,
    driver: &mut Driver<'_>,
    answer: &mut C::Resp,
) -> Result<()> {
    if !kernel.private().ioctl_write.load(Ordering::Relaxed) {
        *answer = write_parts(kernel, command, &[], driver, &mut [])?;
        return Ok(());
    }
    // Carried, the pieces need not lie in a row, so they stay where they are.
    let (driver_in, driver_out, _) = driver.pieces();
    let parts = CommandBuffers {
        core_in: bytemuck::bytes_of(command),
        driver_in,
        core_out: bytemuck::bytes_of_mut(answer),
        driver_out,
    };
    carry(kernel, C::CODE, parts)?;
    driver.cmd.show(bytemuck::bytes_of(command));
    driver.resp.show(bytemuck::bytes_of(answer));
    Ok(())
}

/// As [`write`](fn@write), for a command whose structure is followed by `more` and whose
/// response is followed by `more_resp`.
///
/// # Errors
/// As [`write`](fn@write), and ENOMEM.
pub fn write_parts<K: Kernel + ?Sized, C: WriteCommand>(
    kernel: &K,
    command: &C,
    more: &[u8],
    driver: &mut Driver<'_>,
    more_resp: &mut [u8],
) -> Result<C::Resp> {
    let (mut own, mut own_resp) = (Own::new(), Own::new());
    let head = size_of::<C::Resp>();
    let core = add(size_of::<C>(), more.len())?;
    let resp_front = add(head, more_resp.len())?;

    let buf = driver.cmd.with_front(add(C::HEADER, core)?, &mut own)?;
    let (front, behind) = buf.split_at_mut(C::FRONT.min(buf.len()));
    let place = front.get_mut(C::HEADER..).unwrap_or_default();
    place.copy_from_slice(bytemuck::bytes_of(command));
    let place = behind.get_mut(..more.len()).unwrap_or_default();
    place.copy_from_slice(more);

    let resp = driver.resp.with_front(resp_front, &mut own_resp)?;
    let (answer, _) = resp.split_at_mut(resp_front.min(resp.len()));
    answer.fill(0);

    issue(kernel, &mut Request::new::<C>(buf, core, resp, resp_front)?)?;

    let (first, rest) = resp.split_at(head.min(resp.len()));
    let answer = bytemuck::try_pod_read_unaligned(first).map_err(|_| Errno::INVAL)?;
    more_resp.copy_from_slice(rest.get(..more_resp.len()).ok_or(Errno::INVAL)?);
    driver.resp.take_back(resp_front, &own_resp);
    Ok(answer)
}

fn add(a: usize, b: usize) -> Result<usize> {
    a.checked_add(b).ok_or(Errno::INVAL)
}

fn issue<K: Kernel + ?Sized>(kernel: &K, request: &mut Request<'_>) -> Result<()> {
    if !kernel.private().ioctl_write.load(Ordering::Relaxed) {
        return kernel.write(request);
    }
    carry(kernel, request.number(), request.parts())
}

/// Has the ioctl interface carry the write command `number`.
// Where it is called, the lengths are known, so that most of it is done by the compiler.
#[inline(always)]
fn carry<K: Kernel + ?Sized>(kernel: &K, number: u32, parts: CommandBuffers<'_>) -> Result<()> {
    let mut call = Ioctl::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    call.u64_in(UVERBS_ATTR_WRITE_CMD, number.into());
    if !parts.core_in.is_empty() {
        call.bytes_in(UVERBS_ATTR_CORE_IN, parts.core_in);
    }
    if !parts.core_out.is_empty() {
        call.bytes_out(UVERBS_ATTR_CORE_OUT, parts.core_out);
    }
    if !parts.driver_in.is_empty() {
        call.bytes_in(UVERBS_ATTR_UHW_IN, parts.driver_in);
    }
    if !parts.driver_out.is_empty() {
        call.bytes_out(UVERBS_ATTR_UHW_OUT, parts.driver_out);
    }
    kernel.ioctl(&mut call)
}
