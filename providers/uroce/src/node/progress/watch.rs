//! Descriptors that the progress thread waits on for others.
//!
//! Dropping a watch waits for its callback, so that the callback does not run afterwards. The table
//! of callbacks is not locked while one runs, and each has a separate lock.

use crate::carrier::udp::Socket;
use kit::errno::Result;
use kit::sync::Mutex;
use kit::sys::fork_guard::ForkGuard;
use kit::sys::ready::is_readable;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::ThreadId;

/// The events to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read.
    Read,
    /// Room to write.
    Write,
    /// Either.
    Both,
    /// Connections to a listening socket, or messages of which all are read at once. Each one is
    /// reported once, taken or not: accept(2) and recvmsg(2) may be denied, or lack a descriptor,
    /// and a waiting one would be reported all the time.
    Arrival,
}

/// The events that are ready.
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

/// The number of the kick in the set; no watch has it.
pub(super) const KICK: u64 = 0;
/// The number of the timer of requests that wait for others; no watch has it.
pub(super) const BATCHES: u64 = u64::MAX;

/// Descriptors watched, by the number under which epoll knows them.
pub(in crate::node) struct Watches {
    guard: ForkGuard,
    /// The descriptors, the kick and the timer.
    set: OwnedFd,
    callbacks: Mutex<HashMap<u64, Arc<Callback>>>,
    last: AtomicU64,
    /// The thread that calls.
    thread: OnceLock<ThreadId>,
}

impl Watches {
    /// None yet.
    ///
    /// # Errors
    /// Of epoll_create(2).
    pub fn new(guard: ForkGuard) -> Result<Self> {
        Ok(Self {
            guard,
            set: epoll::create(CreateFlags::CLOEXEC)?,
            callbacks: Mutex::default(),
            last: AtomicU64::new(KICK),
            thread: OnceLock::new(),
        })
    }

    /// The set of the descriptors.
    pub(super) fn set(&self) -> &OwnedFd {
        &self.set
    }

    /// This thread calls from now on.
    pub(super) fn serve(&self) {
        let _ = self.thread.set(std::thread::current().id());
    }

    /// Whether this is the thread that calls.
    pub fn is_served_here(&self) -> bool {
        self.thread.get() == Some(&std::thread::current().id())
    }

    /// Calls the watcher of this number.
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
    watches: Weak<Watches>,
    id: u64,
    /// A separate copy, so that it can be removed from the epoll set whatever happened to the
    /// other.
    fd: Option<Socket>,
    callback: Arc<Callback>,
}

impl Watch {
    pub(in crate::node) fn new(
        watches: &Arc<Watches>,
        fd: BorrowedFd<'_>,
        interest: Interest,
        callback: Box<dyn FnMut(Ready) + Send>,
    ) -> Result<Self> {
        // In a forked child it would keep the other end from seeing the end of this process.
        let fd = Socket::new(rustix::io::fcntl_dupfd_cloexec(fd, 0)?);
        let id = watches.last.fetch_add(1, Relaxed) + 1;
        let callback = Arc::new(Mutex::new(callback));
        let callbacks = &watches.callbacks;
        callbacks.lock().insert(id, Arc::clone(&callback));
        let watch = Self {
            watches: Arc::downgrade(watches),
            id,
            fd: Some(fd),
            callback,
        };
        let flags = flags(interest);
        let data = EventData::new_u64(id);
        if let Some(fd) = &watch.fd {
            epoll::add(&watches.set, fd, data, flags)?;
        }
        Ok(watch)
    }

    /// Whether the descriptor can be read now.
    pub fn can_be_read(&self) -> bool {
        let fd = self.fd.as_ref();
        fd.is_some_and(|fd| is_readable(fd.as_fd()) == Ok(true))
    }

    /// Waits for something else from now on.
    ///
    /// # Errors
    /// Of epoll_ctl(2).
    pub fn set_interest(&self, interest: Interest) -> Result<()> {
        if let (Some(watches), Some(fd)) = (self.watches.upgrade(), &self.fd) {
            let data = EventData::new_u64(self.id);
            epoll::modify(&watches.set, fd, data, flags(interest))?;
        }
        Ok(())
    }
}

fn flags(interest: Interest) -> EventFlags {
    match interest {
        Interest::Read => EventFlags::IN,
        Interest::Write => EventFlags::OUT,
        Interest::Both => EventFlags::IN | EventFlags::OUT,
        Interest::Arrival => EventFlags::IN | EventFlags::ET,
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(watches) = self.watches.upgrade() else {
            return;
        };
        if watches.guard.here().is_err() {
            // In a forked child its number is free, or another's.
            std::mem::forget(self.fd.take());
            return;
        }
        if let Some(fd) = &self.fd {
            let _ = epoll::delete(&watches.set, fd);
        }
        watches.callbacks.lock().remove(&self.id);
        // Waits for a call that is running, unless it is that call which drops this.
        if !watches.is_served_here() {
            drop(self.callback.lock());
        }
    }
}
