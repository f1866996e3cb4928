#![forbid(unsafe_code)]
//! Event channels of devices in user space.

use super::table;
use kit::cm::{Command, GetEvent, Record};
use kit::errno::{Errno, Result};
use rustix::fd::BorrowedFd;
use rustix::net::{RecvFlags, recv};
use std::sync::Arc;

/// A channel, which is closed when its last reference is dropped.
#[derive(Clone)]
pub struct Channel(Arc<Open>);

struct Open(u32);

impl Drop for Open {
    fn drop(&mut self) {
        table::close(self.0);
    }
}

impl Channel {
    /// A new channel, and a descriptor that is readable as long as an event is pending.
    ///
    /// # Errors
    /// ENODEV if libibverbs has no such devices, or does not support them; EMFILE, ENFILE, ENOMEM.
    pub fn open() -> Result<(Self, i32)> {
        let (number, descriptor) = table::open()?;
        Ok((Self(Arc::new(Open(number))), descriptor))
    }

    pub fn number(&self) -> u32 {
        self.0.0
    }

    /// # Errors
    /// The command's; ENODEV in a forked child.
    pub fn ask<C: Command>(&self, command: &C, response: &mut C::Response) -> Result<()> {
        let room = bytemuck::bytes_of_mut(response);
        self.ask_bytes(C::NUMBER, bytemuck::bytes_of(command), room)
    }

    /// The same, of a command that bytes follow.
    ///
    /// # Errors
    /// As above.
    pub fn ask_bytes(&self, number: u32, command: &[u8], response: &mut [u8]) -> Result<()> {
        table::ask(self.number(), number, command, response)
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// EAGAIN if no event is pending; ENODEV in a forked child.
    pub fn next_event(&self, record: &mut Record) -> Result<()> {
        self.ask(&GetEvent { response: 0 }, record)
    }
}

/// Waits until an event is pending.
///
/// # Errors
/// EINTR; EAGAIN for a non-blocking descriptor; EBADF.
pub fn wait(descriptor: i32) -> Result<()> {
    table::borrow(descriptor, |fd: BorrowedFd<'_>| {
        match recv(fd, &mut [0; 1], RecvFlags::PEEK) {
            Ok((0, _)) => Err(Errno(libc::EBADF)),
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    })
}
