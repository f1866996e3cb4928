#![forbid(unsafe_code)]
//! Command descriptors of devices in user space.
//!
//! A context has one because programs duplicate it and hand it on: in the same process it can be
//! opened again (ibv_import_device(3)). It is empty memory, known again by its inode.

use crate::abi::handle::HeldDevice;
use crate::errno::{Errno, Result};
use crate::log::{self, Level};
use crate::sys::lock::Lock;
use crate::sys::{denied, forks};
use memory::{Inode, NAME, inode};
use rustix::fs::readlink;
use std::any::Any;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

#[cfg_attr(miri, path = "command/interpreted.rs")]
mod memory;

/// State that the contexts of a descriptor share; the shims know its type.
pub(super) type Shared = Arc<dyn Any + Send + Sync>;

struct Open {
    inode: Inode,
    /// Contexts that are open.
    contexts: usize,
    device: HeldDevice,
    shared: Shared,
}

static OPEN: Lock<Vec<Open>> = Lock::new(Vec::new());

/// A new descriptor, for a context of the device.
///
/// # Errors
/// EMFILE, ENFILE, ENOMEM; ENOSYS before Linux 3.17.
pub(super) fn open(device: HeldDevice, shared: Shared) -> Result<OwnedFd> {
    let (fd, inode) = memory::new()
        .and_then(|fd| inode(fd.as_fd()).map(|inode| (fd, inode)))
        .inspect_err(|e| complain(*e))?;
    // Without memory for that, a child may find it locked for ever.
    let _ = forks::wait_for(&OPEN);
    OPEN.lock().push(Open {
        inode,
        contexts: 1,
        device,
        shared,
    });
    Ok(fd)
}

fn complain(e: Errno) {
    let why = denied::calls().map_or_else(String::new, |calls| {
        format!(": this process may not call {calls}")
    });
    let text = format!("no command descriptor can be made (errno {}){why}", e.raw());
    log::line(Level::Error, &text);
}

/// Opens another context of a descriptor: returns the state that it shares with the others.
///
/// # Errors
/// [`Errno::INVAL`] if none is.
pub(super) fn again(fd: BorrowedFd<'_>) -> Result<Shared> {
    let inode = inode(fd).map_err(|_| Errno::INVAL)?;
    let mut open = OPEN.lock();
    let known = open.iter_mut().find(|known| known.inode == inode);
    let known = known.ok_or(Errno::INVAL)?;
    known.contexts += 1;
    Ok(Arc::clone(&known.shared))
}

/// A context of a descriptor is closed.
pub(super) fn forget(fd: BorrowedFd<'_>) {
    let Ok(inode) = inode(fd) else {
        return;
    };
    let mut open = OPEN.lock();
    let Some(at) = open.iter().position(|known| known.inode == inode) else {
        return;
    };
    let Some(known) = open.get_mut(at) else {
        return;
    };
    known.contexts -= 1;
    if known.contexts == 0 {
        let last = open.swap_remove(at);
        drop(open);
        drop(last);
    }
}

/// The device in user space of which this is the command descriptor of an open context, or a
/// duplicate; `None` if it is of no such device.
///
/// # Errors
/// [`Errno::INVAL`] if nothing is open there; [`Errno::OPNOTSUPP`] for a descriptor of another
/// process's context: its objects are that process's memory.
pub fn command_device(fd: BorrowedFd<'_>) -> Result<Option<HeldDevice>> {
    let inode = inode(fd).map_err(|_| Errno::INVAL)?;
    let open = OPEN.lock();
    if let Some(known) = open.iter().find(|known| known.inode == inode) {
        return Ok(Some(known.device.clone()));
    }
    drop(open);
    let link = readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new());
    let foreign = format!("/memfd:{NAME}");
    match link {
        Ok(link) if link.as_bytes().starts_with(foreign.as_bytes()) => Err(Errno::OPNOTSUPP),
        _ => Ok(None),
    }
}
