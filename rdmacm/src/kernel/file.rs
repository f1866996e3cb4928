//! Commands on the character device: a header, a command, and the address of the response.

use kit::cm::{Command, GetEvent, Record};
use kit::errno::{Errno, Result};
use kit::sys::driver_write;
use rustix::fd::BorrowedFd;

/// A command with its header, as the device takes them.
#[repr(C)]
struct Request<C> {
    number: u32,
    command_size: u16,
    response_size: u16,
    command: C,
}

/// Executes a command on a channel's descriptor. A command that a signal interrupts is given again,
/// unless it waits for an event.
///
/// # Errors
/// The kernel's; EBADF for a negative descriptor.
pub fn ask<C: Command>(channel: i32, command: C) -> Result<C::Response> {
    let mut response = bytemuck::Zeroable::zeroed();
    ask_into(channel, command, &mut response)?;
    Ok(response)
}

/// The same, with a response that is filled in. Members that an older kernel does not write remain.
///
/// # Errors
/// As above.
pub fn ask_into<C: Command>(channel: i32, command: C, response: &mut C::Response) -> Result<()> {
    // The members leave no gap.
    const { assert!(size_of::<Request<C>>() == 8 + size_of::<C>()) };
    if channel < 0 {
        return Err(Errno(libc::EBADF));
    }
    let length = |bytes: usize| u16::try_from(bytes).map_err(|_| Errno::INVAL);
    let mut request = Request {
        number: C::NUMBER,
        command_size: length(size_of::<C>())?,
        response_size: length(size_of::<C::Response>())?,
        command,
    };
    let at = (&raw mut *response).expose_provenance();
    request.command.respond(at as u64);
    // SAFETY: a command is plain bytes, as its header is, and there is no gap.
    let request = unsafe {
        core::slice::from_raw_parts((&raw const request).cast::<u8>(), size_of_val(&request))
    };
    // SAFETY: the descriptor of a channel is open until the program destroys the channel, which
    // happens after its ids; an invalid number is EBADF.
    let fd = unsafe { BorrowedFd::borrow_raw(channel) };
    // The kernel writes the response through the address in the request.
    let taken = if C::WAITS {
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
pub fn next_event(channel: i32) -> Result<Record> {
    ask(channel, GetEvent { response: 0 })
}
