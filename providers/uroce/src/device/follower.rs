//! Keeping the ports up to date while devices are open.

use super::{Ports, ports};
use crate::netdev::News;
use kit::errno::Result;
use parking_lot::Mutex;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Takes in what happens to the interfaces of this process's ports, and tells the events. It has
/// no thread: whoever keeps it watches its descriptor. As long as there is one, queries of ports
/// do not ask the kernel.
pub struct Follower {
    /// The same socket as that of `news`, which is locked while it is read.
    descriptor: OwnedFd,
    news: Mutex<News>,
    ports: &'static Ports,
}

impl Follower {
    /// Listens from here on, and takes in how things are now.
    ///
    /// # Errors
    /// What a kernel or a sandbox without such news answers; ports then ask the kernel whenever
    /// they are queried. EMFILE, ENFILE, ENOMEM.
    pub fn new() -> Result<Self> {
        let news = News::listen()?;
        let descriptor = news.as_fd().try_clone_to_owned()?;
        let ports = ports()?;
        // What changed before is asked for, what changes from here on is told.
        ports.look()?;
        ports.add_follower();
        Ok(Self {
            descriptor,
            news: Mutex::new(news),
            ports,
        })
    }

    /// To be called when the descriptor can be read. It does not wait.
    ///
    /// # Errors
    /// The kernel's. What was known stays; the next news make up for it.
    pub fn follow(&self) -> Result<()> {
        if self.news.lock().take()? {
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
