//! The connection manager's interface to the node.

use crate::carrier::udp::Path;
use kit::errno::Result;
use kit::sys::datagram::Received;
use std::os::fd::{BorrowedFd, OwnedFd};
use uroce_cm::wire::LEN;

/// The end of another process of this host.
#[derive(Debug)]
pub enum End {
    /// The descriptor can be read once it has ended.
    Awaited(OwnedFd),
    /// There is no such process any more.
    Past,
    /// It is not known yet whether there is one.
    Unclear,
    /// It is not to be seen from here.
    Hidden,
}

/// The functions of the node for the connection manager.
pub trait Network {
    /// The slot of the process.
    fn slot(&self) -> u16;
    /// Sends a datagram from QP 1 to QP 1.
    fn send(&self, path: &Path, psn: u32, mad: &[u8; LEN]);
    /// Hands a packet on to the process of another slot.
    ///
    /// # Errors
    /// ECONNREFUSED if the process does not exist; EAGAIN if it does not keep up, or its existence
    /// is not known yet.
    fn hand_on(&self, to: u16, packet: &Received<'_>) -> Result<()>;
    /// Has [`Cm::on_time`](super::Cm::on_time) called at this time at the latest.
    fn wake_at(&self, nanos: u64);
    /// How the end of the process of a slot is noticed.
    fn end_of(&self, slot: u16) -> End;
}

/// A descriptor that is watched, until this is dropped, which waits for a call that is running.
pub trait Watch: Send {
    /// Whether the descriptor can be read.
    fn is_ready(&self) -> bool;
}

/// The node of the process, which stays open as long as this is kept.
pub trait Host: Send + Sync {
    /// The functions of the node for the connection manager.
    fn network(&self) -> &dyn Network;
    /// Calls once a descriptor can be read, until the answer is dropped.
    ///
    /// # Errors
    /// Of dup(2), epoll_ctl(2); ENODEV in a forked child.
    fn watch(
        &self,
        descriptor: BorrowedFd<'_>,
        call: Box<dyn FnMut() + Send>,
    ) -> Result<Box<dyn Watch>>;
}
