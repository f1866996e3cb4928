//! Keys as peers of this host are shown them, so that they use memory by themselves.

use super::entry::{Entry, Kind};
use super::space::Space;
use kit::abi::*;
use kit::errno::Result;

/// A region that peers of this host may use by themselves, as it is shown to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownRegion {
    /// The low 8 bits of its key.
    pub tag: u8,
    /// Bits of `enum ibv_access_flags`.
    pub access: u32,
    /// The number of its protection domain.
    pub pd: u64,
    /// The address by which the first byte is named.
    pub base: u64,
    /// Bytes.
    pub length: u64,
    /// Where the first byte is, in this process.
    pub address: u64,
}

/// Where keys are shown.
pub trait Shown: Send + Sync {
    /// Publishes the region of a key's index.
    fn show(&self, index: u32, region: Option<ShownRegion>);

    /// Waits until no peer uses the previous value, and none will. Called without any lock that
    /// serving peers needs.
    ///
    /// # Errors
    /// EBUSY if that is not known after a while.
    fn wait(&self, index: u32) -> Result<()>;
}

impl Entry {
    /// The published form: a region of the application's memory, or of device memory, that peers
    /// may read or write.
    /// Windows are not published. They are bound and invalidated in the middle of other operations,
    /// by peers too, where waiting for other users is impossible.
    pub(super) fn shown(&self) -> Option<ShownRegion> {
        let address = match &self.space {
            Space::Pinned(memory) | Space::OnDemand(memory) => memory.address(),
            Space::Device(memory, start) => memory.address().checked_add(*start)?,
            Space::Nothing | Space::Null => return None,
        };
        let used = self.access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ) != 0;
        if self.kind != Kind::Region || !used || self.length == 0 {
            return None;
        }
        Some(ShownRegion {
            tag: self.tag,
            access: self.access,
            pd: self.pd.number(),
            base: self.base,
            length: self.length,
            address: u64::try_from(address).ok()?,
        })
    }
}
