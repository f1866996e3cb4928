#![forbid(unsafe_code)]
//! The rsockets of a process, by their descriptors.

use super::socket::Socket;
use kit::errno::{Errno, Result};
use kit::sys::{lock::Lock, per_process::PerProcess};
use std::sync::Arc;

#[derive(Default)]
struct Table(Lock<Vec<Option<Arc<Socket>>>>);

/// A forked child has no rsockets: they stay with the process that made them.
static TABLE: PerProcess<Table> = PerProcess::new();

/// The rsocket of a descriptor; none for another descriptor.
pub fn get(fd: i32) -> Option<Arc<Socket>> {
    let at = usize::try_from(fd).ok()?;
    let table = TABLE.made()?;
    table.0.lock().get(at)?.clone()
}

/// # Errors
/// EBADF for a descriptor without an rsocket.
pub fn socket(fd: i32) -> Result<Arc<Socket>> {
    get(fd).ok_or(Errno(libc::EBADF))
}

/// Adds a socket under its descriptor.
///
/// # Errors
/// ENOMEM; EBADF.
pub fn add(socket: &Arc<Socket>) -> Result<()> {
    let at = usize::try_from(socket.fd).map_err(|_| Errno(libc::EBADF))?;
    let mut table = TABLE.get()?.0.lock();
    if table.len() <= at {
        table.resize(at + 1, None);
    }
    table[at] = Some(socket.clone());
    Ok(())
}

/// Removes a socket.
///
/// # Errors
/// EBADF for a descriptor without an rsocket.
pub fn remove(fd: i32) -> Result<Arc<Socket>> {
    let at = usize::try_from(fd).map_err(|_| Errno(libc::EBADF))?;
    let table = TABLE.made().ok_or(Errno(libc::EBADF))?;
    let mut table = table.0.lock();
    table
        .get_mut(at)
        .and_then(Option::take)
        .ok_or(Errno(libc::EBADF))
}
