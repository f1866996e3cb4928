#![forbid(unsafe_code)]
//! Which of the three ways to the kernel a command takes.

use super::{Driver, Ioctl, Kernel};
use crate::abi::kernel::IB_USER_VERBS_CMD_QUERY_DEVICE;
use crate::abi::kernel::ioctl::{
    UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT, UVERBS_ATTR_WRITE_CMD, UVERBS_METHOD_INVOKE_WRITE,
    UVERBS_OBJECT_DEVICE,
};
use crate::errno::{Errno, Result};
use crate::sys::first::Answer;
use crate::table::Private;
use core::sync::atomic::Ordering;

/// The alternative of a command on a kernel without an ioctl for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// The plain write command is equivalent.
    Write,
    /// Only the extended write command does.
    WriteEx,
    /// Nothing: EOPNOTSUPP.
    None,
}

/// The way that a command is to take, or took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// The ioctl was carried out.
    Ioctl,
    /// The plain write command is to be issued.
    Write,
    /// The extended write command is to be issued.
    WriteEx,
}

/// Adds the driver data to a method call.
pub fn add_driver<'a>(call: &mut Ioctl<'a>, driver: &'a mut Driver<'_>) {
    let (input, output, link) = driver.pieces();
    if !input.is_empty() {
        call.bytes_in(UVERBS_ATTR_UHW_IN, input);
    }
    if !output.is_empty() {
        call.bytes_out(UVERBS_ATTR_UHW_OUT, output);
    }
    call.link(link);
}

/// Carries out a method call that has no other form. It is tried even where write commands
/// are forced.
///
/// # Errors
/// The kernel's errno; EINVAL for a request that cannot be expressed.
pub fn run<K: Kernel + ?Sized>(kernel: &K, call: &mut Ioctl<'_>) -> Result<()> {
    kernel.ioctl(call)
}

/// Executes a method call if the kernel has it, otherwise returns the alternative.
///
/// `slot` is the verb's place in the table ([`crate::table::slot`]); a refusal is remembered
/// under it for the context's life.
///
/// # Errors
/// EOPNOTSUPP when the kernel has no such method and neither `fallback` nor the provider's own
/// attributes allow a write command; else the kernel's own errno.
pub fn try_ioctl<K: Kernel + ?Sized>(
    kernel: &K,
    slot: usize,
    call: &mut Ioctl<'_>,
    fallback: Fallback,
) -> Result<Path> {
    try_ioctl_here(kernel, slot, call, fallback)
}

/// The same within the function that calls it: a call of a few attributes is put together and
/// issued with less work than a function's registers take.
///
/// # Errors
/// As [`try_ioctl`].
#[inline(always)]
pub fn try_ioctl_here<K: Kernel + ?Sized>(
    kernel: &K,
    slot: usize,
    call: &mut Ioctl<'_>,
    fallback: Fallback,
) -> Result<Path> {
    let private = kernel.private();
    if private.ioctl_unsupported(slot) {
        return instead(call, fallback);
    }
    match kernel.ioctl(call) {
        Ok(()) => Ok(Path::Ioctl),
        Err(e) => refused(private, slot, call, fallback, e),
    }
}

#[cold]
#[inline(never)]
fn refused(
    private: &Private,
    slot: usize,
    call: &Ioctl<'_>,
    fallback: Fallback,
    error: Errno,
) -> Result<Path> {
    match error {
        // No ioctl interface at all.
        Errno(libc::ENOTTY) => {
            private.set_all_ioctls_unsupported();
            instead(call, fallback)
        }
        // No such method, or not with a mandatory attribute that was given.
        Errno::PROTONOSUPPORT => {
            private.set_ioctl_unsupported(slot);
            instead(call, fallback)
        }
        e => Err(e),
    }
}

#[cold]
fn instead(call: &Ioctl<'_>, fallback: Fallback) -> Result<Path> {
    let link = call.linked();
    if fallback == Fallback::None || link.is_some_and(|l| l.ioctl_only()) {
        return Err(Errno::OPNOTSUPP);
    }
    if fallback == Fallback::WriteEx || link.is_some_and(|l| l.extended_only()) {
        return Ok(Path::WriteEx);
    }
    Ok(Path::Write)
}

/// Finds out how a newly opened context's kernel takes commands. To be called once, before
/// the first command.
///
/// With `IBVERBS_FORCE_WRITE=1` in the environment, which is read once ([`read_environment`]),
/// every command that has a write form is written to the command descriptor.
pub fn choose_paths<K: Kernel + ?Sized>(kernel: &K) {
    settle(kernel, is_forced());
}

fn is_forced() -> bool {
    static FORCED: Answer = Answer::new();
    FORCED.get_or_find(|| std::env::var_os("IBVERBS_FORCE_WRITE").is_some_and(|v| v == "1"))
}

/// Reads the environment now rather than when the first context opens.
pub fn read_environment() {
    is_forced();
}

/// As [`choose_paths`], with the environment's answer given.
pub(super) fn settle<K: Kernel + ?Sized>(kernel: &K, forced: bool) {
    let private = kernel.private();
    if forced {
        private.set_all_ioctls_unsupported();
        return;
    }
    private
        .ioctl_write
        .store(carries_write(kernel), Ordering::Relaxed);
}

/// Whether the kernel carries write commands inside its ioctl interface.
fn carries_write<K: Kernel + ?Sized>(kernel: &K) -> bool {
    // Without its structure the command is refused (ENOSPC), but only by a kernel that knows it.
    let mut call = Ioctl::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    call.u64_in(UVERBS_ATTR_WRITE_CMD, IB_USER_VERBS_CMD_QUERY_DEVICE.into());
    match kernel.ioctl(&mut call) {
        Ok(()) => true,
        Err(e) => e != Errno::PROTONOSUPPORT && e.raw() != libc::ENOTTY,
    }
}
