//! Commands on the character device: a header, a command, and the address of the response.

use kit::cm::{Command, GetEvent, Record};
use kit::errno::{Errno, Result};
use kit::sys::driver_write;
use rustix::fd::BorrowedFd;

/// Bytes of the header and the largest command.
const ROOM: usize = 8 + 320;

/// Executes a command on a channel's descriptor. A command that a signal interrupts is given again,
/// unless it waits for an event.
///
/// # Errors
/// The kernel's; EBADF for a negative descriptor.
pub fn ask<C: Command>(channel: i32, command: C) -> Result<C::Response> {
    ask_into(channel, command, bytemuck::Zeroable::zeroed())
}

/// The same, with initial bytes of the response for the members that an older kernel does not
/// write.
///
/// # Errors
/// As above.
pub fn ask_into<C: Command>(
    channel: i32,
    mut command: C,
    mut response: C::Response,
) -> Result<C::Response> {
    if channel < 0 {
        return Err(Errno(libc::EBADF));
    }
    command.respond((&raw mut response).expose_provenance() as u64);
    let mut room = [0; ROOM];
    let bytes = bytemuck::bytes_of(&command);
    let length = |bytes: usize| u16::try_from(bytes).map_err(|_| Errno::INVAL);
    room[..4].copy_from_slice(&C::NUMBER.to_ne_bytes());
    room[4..6].copy_from_slice(&length(bytes.len())?.to_ne_bytes());
    room[6..8].copy_from_slice(&length(size_of::<C::Response>())?.to_ne_bytes());
    let request = room.get_mut(..8 + bytes.len()).ok_or(Errno::INVAL)?;
    request[8..].copy_from_slice(bytes);
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
    Ok(response)
}

/// Takes the next event of a channel.
///
/// # Errors
/// EINTR; EAGAIN for a non-blocking descriptor; EBADF.
pub fn next_event(channel: i32) -> Result<Record> {
    ask(channel, GetEvent { response: 0 })
}
