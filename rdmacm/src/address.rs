#![forbid(unsafe_code)]
//! Making ids, binding and resolving addresses, listening, options.

use crate::abi::{Address, Channel};
use crate::id::{Id, Manager};
use crate::kernel::{KernelFile, KernelId};
use crate::registry::{self, Origin};
use crate::uroce::{UroceFile, UroceId};
use crate::{channel, device};
use core::ffi::c_void;
use kit::abi::ibv_qp_type;
use kit::errno::{Errno, Result};
use std::sync::Arc;

/// Makes an id; without a channel of the program it is a synchronous one.
///
/// # Errors
/// ENODEV without devices; ENOMEM if no channel could be made; EINVAL for an unknown port space;
/// EBADF.
pub fn create(
    given: Option<Channel>,
    context: *mut c_void,
    port_space: u32,
    qp_type: ibv_qp_type,
) -> Result<Arc<Id>> {
    device::any()?;
    // Every error of making a channel becomes ENOMEM, as in rdma-core's library.
    let own = || channel::create().map_err(|_| Errno::NOMEM);
    let channel = given.map_or_else(own, Ok)?;
    let made = on_channel(channel, context, port_space, qp_type);
    if let (Err(_), None) = (&made, given) {
        channel::close(channel);
    }
    let id = made?;
    id.set_sync(given.is_none());
    Ok(id)
}

fn on_channel(
    channel: Channel,
    context: *mut c_void,
    port_space: u32,
    qp_type: ibv_qp_type,
) -> Result<Arc<Id>> {
    let mut id = Arc::new(Id::new(channel.as_ptr(), context, port_space, qp_type));
    let uid = id.uid();
    let of_kernel = |descriptor| {
        let file = KernelFile::new(descriptor);
        KernelId::create(file, uid, port_space, qp_type).map(Manager::Kernel)
    };
    let manager = match registry::origin(channel) {
        Origin::Kernel(descriptor) => of_kernel(descriptor)?,
        Origin::Unknown => of_kernel(channel.fd())?,
        Origin::Uroce(channel) => {
            let file = UroceFile::new(Some(channel));
            Manager::Uroce(UroceId::create(file, uid, port_space, qp_type)?)
        }
    };
    id.set_backend(manager);
    registry::add_id(&id)?;
    Ok(id)
}

/// # Errors
/// The backend's; those of opening the device.
pub fn bind(id: &Id, address: &Address) -> Result<()> {
    id.backend()?.bind(address)?;
    id.refresh()
}

/// Asks; an event answers.
///
/// # Errors
/// The backend's.
#[inline(always)]
pub fn resolve_addr(
    id: &Id,
    source: Option<&Address>,
    destination: &Address,
    milliseconds: i32,
) -> Result<()> {
    let backend = id.backend()?;
    backend.resolve_addr(source, destination, milliseconds)?;
    id.block.set_destination(destination);
    Ok(())
}

/// Asks; an event answers.
///
/// # Errors
/// The backend's.
pub fn resolve_route(id: &Id, milliseconds: i32) -> Result<()> {
    id.backend()?.resolve_route(milliseconds)
}

/// # Errors
/// The backend's.
pub fn listen(id: &Id, backlog: i32) -> Result<()> {
    id.backend()?.listen(backlog)?;
    // The backend has now chosen a port for an id that was not bound.
    id.refresh()
}

/// Ports in network byte order: source and destination.
pub fn ports(id: &Id) -> (u16, u16) {
    let port = |address: Option<Address>| address.map_or(0, |address| address.port());
    (port(id.block.source()), port(id.block.destination()))
}

/// # Errors
/// The backend's.
pub fn set_option(id: &Id, level: i32, name: i32, value: &[u8]) -> Result<()> {
    id.backend()?.set_option(level, name, value)
}
