//! Completion channels and the descriptors of asynchronous events. The application reads records in
//! the kernel's formats (`struct ib_uverbs_comp_event_desc`, `struct ib_uverbs_async_event_desc`),
//! so the library's event calls, poll(2) and `O_NONBLOCK` work as for a kernel device.
//!
//! A descriptor is the reading end of a pipe in packet mode (`pipe`); a record is a packet.
//! Writing never waits: a pipe without room is enlarged, up to 256 records, and further records are
//! kept in order and written by a thread that exists only while there are some.
//!
//! An object that is destroyed withdraws its unread records. All unread records are read through a
//! second descriptor of the application's end (vmsplice(2), which does not wait), and those of
//! other objects are written again in order. The number of the object's records, less the withdrawn
//! ones, is the number that the application received and has to acknowledge.
//!
//! Tests: `tests`, among them a thread that reads a channel while an object withdraws its records.

mod pipe;
mod records;
#[cfg(test)]
mod tests;

pub use pipe::Kind;
pub use records::Records;

use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

/// The completion channels of a context, by the numbers of their descriptors.
#[derive(Default)]
pub struct Channels(Mutex<HashMap<RawFd, Arc<Records>>>);

impl Channels {
    /// ibv_create_comp_channel(3): the application's descriptor.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    pub fn create(&self) -> Result<OwnedFd> {
        let (records, descriptor) = Records::new(Kind::Completions)?;
        let number = descriptor.as_raw_fd();
        self.0.lock().insert(number, Arc::new(records));
        Ok(descriptor)
    }

    /// The channel of a descriptor.
    ///
    /// # Errors
    /// EINVAL if it does not belong to this context.
    pub fn find(&self, channel: BorrowedFd<'_>) -> Result<Arc<Records>> {
        let channels = self.0.lock();
        channels
            .get(&channel.as_raw_fd())
            .cloned()
            .ok_or(Errno::INVAL)
    }

    /// ibv_destroy_comp_channel(3): the descriptor is about to be closed.
    pub fn destroy(&self, channel: BorrowedFd<'_>) {
        self.0.lock().remove(&channel.as_raw_fd());
    }
}
