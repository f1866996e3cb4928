//! Keeping the ports up to date while devices are open.

use super::{Ports, ports};
use crate::netdev::Notifications;
use kit::errno::Result;
use kit::sync::Mutex;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Follows changes of the interfaces of this process's ports, and reports the events. It has no
/// thread: its owner watches its descriptor. As long as there is one, queries of ports do not ask
/// the kernel.
pub struct Follower {
    /// The same socket as that of `notifications`, which is locked while it is read.
    descriptor: OwnedFd,
    notifications: Mutex<Notifications>,
    ports: &'static Ports,
}

impl Follower {
    /// Listens from here on, and takes in how things are now.
    ///
    /// # Errors
    /// The error of a kernel or a sandbox without such notifications; ports then ask the kernel
    /// whenever they are queried. EMFILE, ENFILE, ENOMEM.
    pub fn new() -> Result<Self> {
        let notifications = Notifications::listen()?;
        let descriptor = notifications.as_fd().try_clone_to_owned()?;
        let ports = ports()?;
        // Earlier changes are queried, later ones are reported.
        ports.look()?;
        ports.add_follower();
        Ok(Self {
            descriptor,
            notifications: Mutex::new(notifications),
            ports,
        })
    }

    /// To be called when the descriptor can be read. It does not wait.
    ///
    /// # Errors
    /// The kernel's. The known state remains; the next notifications update it.
    pub fn follow(&self) -> Result<()> {
        if self.notifications.lock().take()? {
            self.ports.look()?;
        }
        Ok(())
    }
}

impl AsFd for Follower {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.ports.remove_follower();
    }
}
