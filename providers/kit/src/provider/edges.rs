#![forbid(unsafe_code)]
//! Questions that the library itself puts to the kernel for a kernel device, and to the provider
//! for a device in user space.

use crate::abi::{be16, ibv_gid_entry};
use crate::errno::Result;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The edges of a device in user space. They use the kernel's formats, so that code that reads the
/// descriptors needs no branch.
pub trait Edges: Send + Sync {
    /// ibv_create_comp_channel(3): a descriptor from which records of
    /// `struct ib_uverbs_comp_event_desc` are read, one a read(2), and that poll(2) and
    /// `O_NONBLOCK` work with.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    fn create_comp_channel(&self) -> Result<OwnedFd>;

    /// ibv_destroy_comp_channel(3): the descriptor is about to be closed. No queue uses it.
    fn destroy_comp_channel(&self, channel: BorrowedFd<'_>);

    /// ibv_query_gid_ex(3).
    ///
    /// # Errors
    /// EINVAL for a port or an index that there is not; ENODATA for an empty entry.
    fn gid_entry(&self, port: u32, index: u32) -> Result<ibv_gid_entry>;

    /// ibv_query_gid_table(3): the entries that are not empty, of all ports.
    ///
    /// # Errors
    /// ENOMEM.
    fn gid_table(&self) -> Result<Vec<ibv_gid_entry>>;

    /// ibv_query_pkey(3).
    ///
    /// # Errors
    /// EINVAL for a port or an index that there is not.
    fn pkey(&self, port: u8, index: u32) -> Result<be16>;
}
