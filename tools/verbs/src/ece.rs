//! Enhanced connection establishment: ibv_query_ece(3), ibv_set_ece(3).
#![forbid(unsafe_code)]

use kit::abi::ibv_ece;

/// Options that the devices of both ends of a connection agree on, beside the standard. They are
/// the device's own: programs carry them from one end to the other.
///
/// The active end queries its own and sends them to the passive one, which sets them and queries
/// what its device takes of them; that is sent back, and set by the active end. The connection
/// manager carries them along (`Id::set_local_ece`, `Id::remote_ece`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ece {
    /// Whose options these are; 0 if there are none.
    pub vendor_id: u32,
    /// The options, whose meaning the vendor knows.
    pub options: u32,
}

impl Ece {
    pub(crate) fn of(ece: ibv_ece) -> Self {
        Self {
            vendor_id: ece.vendor_id,
            options: ece.options,
        }
    }

    pub(crate) fn to_c(self) -> ibv_ece {
        ibv_ece {
            vendor_id: self.vendor_id,
            options: self.options,
            comp_mask: 0,
        }
    }
}
