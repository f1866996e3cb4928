//! Commands on the character device: a header, a command, and the address of the response.

use crate::request::Request;
use kit::cm::{Command, GetEvent, Record};
use kit::errno::{Errno, Result};
use kit::sys::driver_write;
use rustix::fd::BorrowedFd;

/// Executes a command on a channel's descriptor, and fills the response in: members that an older
/// kernel does not write remain. A command that a signal interrupts is given again, unless it waits
/// for an event.
///
/// # Errors
/// The kernel's; EBADF for a negative descriptor.
#[inline(always)]
pub fn ask_into<C: Command>(
    channel: i32,
    request: &mut Request<C>,
    response: &mut C::Response,
) -> Result<()> {
    let at = (&raw mut *response).expose_provenance();
    request.command.respond(at as u64);
    // SAFETY: a command is plain bytes, as its header is, and there is no gap.
    let request = unsafe {
        core::slice::from_raw_parts((&raw const *request).cast::<u8>(), size_of_val(request))
    };
    write(channel, request, C::WAITS)
}

/// The kernel writes the response through the address in the request.
fn write(channel: i32, request: &[u8], waits: bool) -> Result<()> {
    if channel < 0 {
        return Err(Errno(libc::EBADF));
    }
    // SAFETY: the descriptor of a channel is open until the program destroys the channel, which
    // happens after its ids; an invalid number is EBADF.
    let fd = unsafe { BorrowedFd::borrow_raw(channel) };
    let taken = if waits {
        driver_write::write(fd, request)?
    } else {
        driver_write::write_uninterrupted(fd, request)?
    };
    if taken != request.len() {
        return Err(Errno(libc::ENODATA));
    }
    Ok(())
}

/// Takes the next event of a channel.
///
/// # Errors
/// EINTR; EAGAIN for a non-blocking descriptor; EBADF.
pub fn next_event(channel: i32, record: &mut Record) -> Result<()> {
    ask_into(channel, &mut Request::of(GetEvent { response: 0 }), record)
}
