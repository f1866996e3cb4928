#![forbid(unsafe_code)]
//! Events of the connection manager, taken one at a time and acknowledged at once.

use crate::abi::{Address, Channel, Conn, EventBlock, event_type};
use crate::id::Id;
use crate::verbs::deferred;
use crate::{ack, address, channel, destroy, event, registry};
use core::ptr::null_mut;
use kit::abi::ibv_qp_type;
use kit::errno::{Errno, Result};
use rustix::fd::BorrowedFd;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::sync::Arc;

/// An event.
pub struct CmEvent {
    pub kind: u32,
    pub status: i32,
    pub conn: Conn,
    pub private_data: Vec<u8>,
    /// The id of the event: of a request, the new id.
    pub id: usize,
}

impl CmEvent {
    /// The event as an error of a call that waits for another event.
    pub fn error(&self) -> Errno {
        match (self.kind, self.status) {
            (event_type::REJECTED, _) => Errno(libc::ECONNREFUSED),
            (_, 0) => Errno(libc::ECONNRESET),
            (_, status) => Errno(status.saturating_abs()),
        }
    }
}

fn read(block: &EventBlock) -> CmEvent {
    let (kind, status) = block.outcome();
    let (conn, private_data) = block.conn();
    CmEvent {
        kind,
        status,
        conn,
        private_data,
        id: block.id().addr(),
    }
}

/// An id with a channel that it does not share.
pub struct CmId {
    pub id: Arc<Id>,
    channel: Channel,
    ended: bool,
}

/// Makes a channel whose reads do not block.
///
/// # Errors
/// Those of making one.
pub fn new_channel() -> Result<Channel> {
    let made = channel::create()?;
    set_nonblocking(made).inspect_err(|_| channel::close(made))?;
    Ok(made)
}

fn set_nonblocking(channel: Channel) -> Result<()> {
    let fd = borrow(&channel)?;
    fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
    Ok(())
}

/// The descriptor of a channel, if the program has not closed it.
fn borrow(channel: &Channel) -> Result<BorrowedFd<'_>> {
    channel.borrow().ok_or(Errno(libc::EBADF))
}

impl CmId {
    /// # Errors
    /// Those of rdma_create_event_channel(3) and rdma_create_id(3).
    pub fn new(port_space: u32, qp_type: ibv_qp_type) -> Result<Self> {
        let channel = new_channel()?;
        let made = address::create(Some(channel), null_mut(), port_space, qp_type);
        let id = made.inspect_err(|_| channel::close(channel))?;
        Ok(Self {
            id,
            channel,
            ended: false,
        })
    }

    /// Takes over the id of a request, and moves it to a new channel.
    ///
    /// # Errors
    /// Those of making a channel and rdma_migrate_id(3); then the id is destroyed.
    pub fn of_request(id: Arc<Id>) -> Result<Self> {
        let moved = new_channel().and_then(|channel| {
            crate::migrate::migrate(&id, Some(channel)).inspect_err(|_| channel::close(channel))?;
            Ok(channel)
        });
        let channel = moved.inspect_err(|_| {
            let _ = destroy::id(&id);
        })?;
        Ok(Self {
            id,
            channel,
            ended: false,
        })
    }

    pub fn fd(&self) -> i32 {
        self.channel.fd()
    }

    /// Destroys the id, which frees its port. The channel remains until the value is dropped.
    pub fn end(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            // The callers have no result to report an error by.
            let _ = destroy::id(&self.id);
        }
    }

    /// The next event, if there is one.
    ///
    /// # Errors
    /// Those of the connection manager.
    pub fn next_event(&self) -> Result<Option<CmEvent>> {
        let source = registry::source(self.channel);
        loop {
            let mut block = EventBlock::new()?;
            block.expect_record();
            match source.next_event(self.channel.fd(), block.record_mut()) {
                Ok(()) => {}
                Err(Errno::AGAIN | Errno(libc::EINTR)) => return Ok(None),
                Err(e) => return Err(e),
            }
            // Swallowed events are skipped.
            let taken = deferred(|thread| event::take(self.channel, block, thread));
            let Some(event) = taken else {
                continue;
            };
            let read = registry::with_event(event.addr(), read);
            ack::event(event.addr())?;
            return Ok(Some(read?));
        }
    }

    /// # Errors
    /// EBADF if the program has closed it.
    pub fn borrow(&self) -> Result<BorrowedFd<'_>> {
        borrow(&self.channel)
    }

    pub fn local(&self) -> Option<Address> {
        self.id.block.source()
    }

    pub fn peer(&self) -> Option<Address> {
        self.id.block.destination()
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        self.end();
        channel::close(self.channel);
    }
}
