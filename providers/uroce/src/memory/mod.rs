//! Memory that work requests and peers name by keys: regions, windows, device memory
//! (ibv_reg_mr(3), ibv_alloc_mw(3), ibv_alloc_dm(3)).
//!
//! | type | contents |
//! | --- | --- |
//! | `Keys` | the keys of the process: 24 bits of index, which lead to a slot of `table` without a search, and 8 bits of tag |
//! | `entry::Entry` | the object behind a key: a region or window, its domain, access and bounds |
//! | `space::Space` | the bytes behind it: present since registration, on demand, device memory, or null; and the access mode |
//! | `access` | access flags |
//! | `refused` | why a peer may not use memory, for `IBVERBS_EXPLAIN` |
//! | `with_pieces`, `scatter` | memory that is locked for the duration of a request, or of several messages |
//! | `mr_cache` | the key that a queue pair used last, found without a lookup |
//!
//! A region's L_Key and R_Key are the same number. Pieces and ranges of no bytes are not looked up.
//!
//! *Invariants.* While bytes move, the thread that moves them holds the read lock of the key's
//! slot. When the call that removes a key returns, no thread uses the memory any more. A queue pair
//! that remembers a key uses it under the queue pair's own lock, and the region makes each such
//! queue pair forget the key before it is removed or changed. A freed index rests until 1024
//! indices are free, and its tag differs at the next use, so an old key grants no access. A region
//! counts its windows and is EBUSY while one exists. Windows of type 2 are of type 2B: they are
//! bound to a domain and a queue pair.
//!
//! *Pages.* Registration faults the pages in (`MADV_POPULATE_WRITE` or `_READ`) and reports
//! unmapped and unwritable pages (EFAULT), like a kernel that pins them. Pages are not pinned, and
//! a program may unmap registered memory: UCX unmaps the buffers of a datagram queue pair before it
//! destroys the queue pair. With a card nothing happens then. So the access mode depends on the
//! caller. A thread accesses memory directly for requests that it posts, and for queue pairs whose
//! completion queue it polls: the application itself calls. All other callers (the progress thread,
//! a thread that polls another queue, calls at the end of a queue pair) copy through the kernel,
//! which returns EFAULT instead of raising SIGSEGV. Incoming bytes for missing pages are discarded.
//! If a request reads missing pages, it fails (local protection error), or the peer is refused
//! (remote access error), as for atomic operations. Regions on demand always use the kernel, and a
//! missing page is an error.
//!
//! Copying through the kernel (`kit::sys`) uses pread(2) and pwrite(2) on a memory file that is
//! also mapped here, so each byte is copied twice. That takes half the time of process_vm_readv(2),
//! which is the fallback without memfd_create(2); a pipe is the fallback in sandboxes that deny it.
//! The kernel copies in any order. Therefore the last 8 bytes of an RDMA write, for which programs
//! poll, and atomic operations are written directly after a check that their page exists. Data that
//! a peer reads is checked the same way and then read directly. If a program unmaps the memory
//! between check and access, it still gets the signal.
//!
//! *Locks.* Window before region. Keys of local memory are locked before anything that waits for
//! peers.
//!
//! Tests: `tests::model` runs sequences of calls against lists; other tests write by a key during
//! its deregistration and bind windows while the region is removed.

mod access;
mod advise;
mod dm;
mod entry;
mod keys;
mod listeners;
mod mr_cache;
mod peer;
mod refused;
mod scatter;
mod shown;
mod space;
mod table;
#[cfg(test)]
mod tests;
mod window;
mod with_pieces;

pub use dm::{Dm, MAX_DEVICE_MEMORY};
pub use keys::{Keys, Mr};
pub use listeners::InvalidationListener;
pub use mr_cache::MrCache;
pub use peer::Using;
pub use scatter::Scattering;
pub use shown::{Shown, ShownRegion};
pub use space::AccessMode;
pub use window::{Binding, Mw};

use kit::abi::ibv_sge;
use std::sync::atomic::{AtomicU64, Ordering};
use uroce_engine::work::Sge;

/// `max_mr`: regions a process.
pub const MAX_REGIONS: u32 = 1 << 18;
/// `max_mw`: windows a process.
pub const MAX_WINDOWS: u32 = 1 << 18;

/// A piece of memory as a request names it.
#[inline]
#[must_use]
pub fn piece(given: &ibv_sge) -> Sge {
    Sge {
        address: given.addr,
        length: given.length,
        lkey: given.lkey,
    }
}

/// The number of a protection domain, of which there is one in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PdId(u64);

impl PdId {
    /// The domain that nothing is in.
    pub const NONE: Self = Self(0);

    /// The number.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

/// A protection domain.
#[derive(Debug)]
pub struct Pd(PdId);

impl Pd {
    /// A new one.
    #[must_use]
    pub fn new() -> Self {
        static LATEST: AtomicU64 = AtomicU64::new(0);
        Self(PdId(LATEST.fetch_add(1, Ordering::Relaxed) + 1))
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> PdId {
        self.0
    }
}

impl Default for Pd {
    fn default() -> Self {
        Self::new()
    }
}

/// The queue pair on whose behalf memory is used: the destination of a peer's packets, or of a
/// local request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its protection domain.
    pub pd: PdId,
    /// Its number.
    pub qpn: u32,
}

/// Whose right it is by which bytes go into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteRight {
    /// That of a peer, for an RDMA write, by an R_Key.
    Peer(Peer),
    /// That of a local request of a domain, by an L_Key.
    Local(PdId),
}
