#![forbid(unsafe_code)]
//! The operations of a connection manager on an id. The implementations are the kernel's
//! ([`crate::kernel`]) and that of devices in user space ([`crate::uroce`]).
//!
//! A backend keeps the state of the connection, and delivers events as [`Record`]s. It returns
//! EINVAL for a call in the wrong state.

use crate::abi::{Address, Conn};
use crate::source::Source;
use kit::abi::{be16, kernel::ib_uverbs_qp_attr};
pub use kit::cm::{Addresses, Ece, Paths, Record};
use kit::errno::Result;

/// A port of a device.
pub struct DevicePort {
    pub guid: u64,
    /// The kernel's index of the device, if the kernel reports it.
    pub index: Option<u32>,
    pub port: u8,
    pub pkey: be16,
}

impl DevicePort {
    /// The port in a binding; none without a device.
    pub fn of(found: &Addresses) -> Option<Self> {
        // Ports count from 1.
        (found.port_num != 0).then_some(Self {
            guid: found.node_guid.wire(),
            index: (found.ibdev_index != u32::MAX).then_some(found.ibdev_index),
            port: found.port_num,
            pkey: found.pkey,
        })
    }
}

/// The connection manager of an id.
pub trait Backend: Send + Sync {
    /// Ends the id, and returns the number of its events that were delivered.
    fn destroy(&self) -> Result<u32>;
    fn bind(&self, address: &Address) -> Result<()>;
    fn resolve_addr(
        &self,
        source: Option<&Address>,
        destination: &Address,
        milliseconds: i32,
    ) -> Result<()>;
    fn resolve_route(&self, milliseconds: i32) -> Result<()>;
    /// The local binding of an id: addresses, and the device if there is one
    /// ([`DevicePort::of`]).
    fn binding(&self, found: &mut Addresses) -> Result<()>;
    /// Source and destination as `AF_IB` addresses, which contain the GIDs.
    fn gids(&self, found: &mut Addresses) -> Result<()>;
    /// The paths in wire format: [`crate::path::records`] reads them.
    fn paths(&self, found: &mut Paths) -> Result<()>;
    fn listen(&self, backlog: i32) -> Result<()>;
    /// The private data is in two parts.
    fn connect(&self, conn: &Conn, data: [&[u8]; 2], ece: Ece) -> Result<()>;
    /// Without parameters it answers a response. Later events name the id by `uid`.
    fn accept(&self, uid: u64, given: Option<(&Conn, &[u8])>, ece: Ece) -> Result<()>;
    fn reject(&self, reason: u8, data: &[u8]) -> Result<()>;
    fn disconnect(&self) -> Result<()>;
    fn notify(&self, event: u32) -> Result<()>;
    fn qp_attr(&self, state: u32, attr: &mut ib_uverbs_qp_attr) -> Result<()>;
    fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<()>;
    /// Returns the number by which the join is left.
    fn join(&self, uid: u64, group: &Address, flags: u16) -> Result<u32>;
    /// Returns the number of events of the join that were delivered.
    fn leave(&self, join: u32) -> Result<u32>;
    /// Moves the id to the channel of another event source, and returns the number of events that
    /// were delivered.
    fn migrate(&self, to: &Source) -> Result<u32>;
    fn write_event(&self, event: u32, status: i32, arg: u64) -> Result<()>;
    /// The channel is destroyed: from now on every call returns EBADF.
    fn orphan(&self);
    /// The number of the id at the backend. Events of accepted ids may contain it as the only name.
    fn number(&self) -> u32;
}
