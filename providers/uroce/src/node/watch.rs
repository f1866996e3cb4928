//! Descriptors that the helper thread waits on for others.

use super::core::Core;
use crate::carrier::udp::Socket;
use kit::errno::Result;
use parking_lot::Mutex;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read.
    Read,
    /// Room to write.
    Write,
    /// Either.
    Both,
}

/// What a descriptor is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// There is something to read.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// An error, or the other side is gone.
    pub broken: bool,
}

type Callback = Mutex<Box<dyn FnMut(Ready) + Send>>;

/// Descriptors watched, by the number under which epoll knows them.
#[derive(Default)]
pub(super) struct Watches {
    callbacks: Mutex<HashMap<u64, Arc<Callback>>>,
    last: AtomicU64,
}

impl Watches {
    /// Calls whoever waits under this number.
    pub fn call(&self, id: u64, flags: EventFlags) {
        let callback = self.callbacks.lock().get(&id).cloned();
        let Some(callback) = callback else {
            return;
        };
        let mut callback = callback.lock();
        // It may have been dropped while we waited for the lock.
        if self.callbacks.lock().contains_key(&id) {
            callback(Ready {
                readable: flags.contains(EventFlags::IN),
                writable: flags.contains(EventFlags::OUT),
                broken: flags.intersects(EventFlags::ERR | EventFlags::HUP),
            });
        }
    }
}

/// A descriptor being watched, until this is dropped.
pub struct Watch {
    core: Weak<Core>,
    id: u64,
    /// A copy of its own, so that it can be taken from the epoll set whatever became of the other.
    fd: Option<Socket>,
    callback: Arc<Callback>,
}

impl Watch {
    pub(super) fn new(
        core: &Arc<Core>,
        fd: BorrowedFd<'_>,
        interest: Interest,
        callback: Box<dyn FnMut(Ready) + Send>,
    ) -> Result<Self> {
        // In a forked child it would keep the other end from seeing the end of this process.
        let fd = Socket::new(rustix::io::fcntl_dupfd_cloexec(fd, 0)?);
        let id = core.watches.last.fetch_add(1, Relaxed) + 1;
        let callback = Arc::new(Mutex::new(callback));
        let watches = &core.watches.callbacks;
        watches.lock().insert(id, Arc::clone(&callback));
        let watch = Self {
            core: Arc::downgrade(core),
            id,
            fd: Some(fd),
            callback,
        };
        let flags = flags(interest);
        let data = EventData::new_u64(id);
        if let Some(fd) = &watch.fd {
            epoll::add(core.alarm.watches(), fd, data, flags)?;
        }
        Ok(watch)
    }

    /// Waits for something else from now on.
    ///
    /// # Errors
    /// Of epoll_ctl(2).
    pub fn set_interest(&self, interest: Interest) -> Result<()> {
        if let (Some(core), Some(fd)) = (self.core.upgrade(), &self.fd) {
            let data = EventData::new_u64(self.id);
            epoll::modify(core.alarm.watches(), fd, data, flags(interest))?;
        }
        Ok(())
    }
}

fn flags(interest: Interest) -> EventFlags {
    match interest {
        Interest::Read => EventFlags::IN,
        Interest::Write => EventFlags::OUT,
        Interest::Both => EventFlags::IN | EventFlags::OUT,
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(core) = self.core.upgrade() else {
            return;
        };
        if core.here().is_err() {
            // In a forked child its number is free, or another's.
            std::mem::forget(self.fd.take());
            return;
        }
        if let Some(fd) = &self.fd {
            let _ = epoll::delete(core.alarm.watches(), fd);
        }
        core.watches.callbacks.lock().remove(&self.id);
        // Waits for a call that is running, unless it is that call which drops this.
        if !core.alarm.is_helper() {
            drop(self.callback.lock());
        }
    }
}
