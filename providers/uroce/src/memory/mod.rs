//! Memory that work requests and peers name by keys: regions, windows, device memory
//! (ibv_reg_mr(3), ibv_alloc_mw(3), ibv_alloc_dm(3)).
//!
//! A key is 24 bits of index and 8 bits of tag. The index leads to a slot of a table without a
//! search. Whoever uses memory holds the slot's lock for reading while bytes move, so that a key
//! that has been taken away is no longer in use anywhere when the call that took it returns. The
//! tag changes when the slot is used again. Who sends few bytes may go by what he remembers of a key,
//! until he is told to forget it ([`Recent`]).
//!
//! A region's L_Key and R_Key are the same number. Pieces and ranges of no bytes are not looked up.

mod access;
mod advise;
mod dm;
mod entry;
mod keys;
mod lend;
mod peer;
mod recent;
mod scatter;
mod shown;
mod space;
mod table;
#[cfg(test)]
mod tests;
mod window;

pub use dm::{Dm, MAX_DEVICE_MEMORY};
pub use keys::{Keys, Mr};
pub use peer::Using;
pub use recent::{Recent, Remembers};
pub use scatter::Scattering;
pub use shown::Shown;
pub use space::Care;
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

/// In whose name memory is used: a queue pair here, which a peer's packets or a local request came
/// to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its protection domain.
    pub pd: PdId,
    /// Its number.
    pub qpn: u32,
}
