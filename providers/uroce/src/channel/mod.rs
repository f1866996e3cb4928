//! Completion channels and the descriptors of asynchronous events: what the application reads from
//! them has the kernel's formats (`struct ib_uverbs_comp_event_desc`,
//! `struct ib_uverbs_async_event_desc`), so that the library's event calls, poll(2) and
//! `O_NONBLOCK` need no branch.

mod records;
mod socket;
#[cfg(test)]
mod tests;

pub use records::Records;

use kit::errno::{Errno, Result};
use parking_lot::Mutex;
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
        let (records, descriptor) = Records::new()?;
        let number = descriptor.as_raw_fd();
        self.0.lock().insert(number, Arc::new(records));
        Ok(descriptor)
    }

    /// The channel of a descriptor.
    ///
    /// # Errors
    /// EINVAL if it is none of this context's.
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
