#![forbid(unsafe_code)]
//! GID queries: ibv_query_gid(3), ibv_query_gid_ex(3), ibv_query_gid_table(3).
//!
//! The provider answers for a device in user space. For others the kernel does from Linux 5.10
//! on; before that, sysfs does.

use super::entry::{Entry, SIZE};
use super::{Answer, Device, Failure, Gid, Port, Version, sysfs, table};
use kit::abi::{
    IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2, IBV_LINK_LAYER_ETHERNET,
};
use kit::errno::{Errno, Result};

/// The queried attribute, where each is read separately.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    All,
    Gid,
}

/// Reads one entry into `memory`, whose length is that of the caller's structure.
///
/// # Errors
/// ENODATA when the entry is empty; EINVAL when port or index does not exist or the memory has
/// no room for an entry; EOPNOTSUPP for flags on a kernel that does not know the query.
pub fn query_into<D: Device + ?Sized>(
    device: &D,
    port: u32,
    index: u32,
    flags: u32,
    memory: &mut [u8],
) -> Answer<()> {
    if table::entry(device, port, index, flags, memory)? {
        return Ok(());
    }
    if memory.len() < SIZE {
        return Err(Errno::INVAL.into());
    }
    from_sysfs(device, port, index, Want::All)?.put(memory);
    Ok(())
}

/// The GID of one entry; none when the entry is empty.
///
/// # Errors
/// Those of [`query_into`].
pub fn query<D: Device + ?Sized>(device: &D, port: u8, index: u32) -> Answer<Option<Gid>> {
    Ok(look_up(device, port, index, Want::Gid)?.map(|entry| entry.gid))
}

/// The network interface behind an entry, as far as it is known.
pub fn interface<D: Device + ?Sized>(device: &D, port: u8, index: u32) -> Option<u32> {
    let entry = look_up(device, port, index, Want::All).ok().flatten()?;
    (entry.interface != 0).then_some(entry.interface)
}

fn look_up<D: Device + ?Sized>(
    device: &D,
    port: u8,
    index: u32,
    want: Want,
) -> Answer<Option<Entry>> {
    let mut bytes = [0; SIZE];
    let found = match table::entry(device, port.into(), index, 0, &mut bytes) {
        Ok(true) => Ok(Entry::from_bytes(&bytes)),
        Ok(false) => from_sysfs(device, port.into(), index, want),
        Err(e) => Err(e.into()),
    };
    match found {
        Ok(entry) => Ok(Some(entry)),
        Err(e) if e.code == Errno::NODATA => Ok(None),
        Err(e) => Err(e),
    }
}

/// How the GID of an entry travels; the first version for an empty entry.
///
/// # Errors
/// Those of [`query_into`].
pub fn version<D: Device + ?Sized>(device: &D, port: u8, index: u32) -> Answer<Version> {
    let mut bytes = [0; SIZE];
    match table::entry(device, port.into(), index, 0, &mut bytes) {
        Ok(true) => Ok(Entry::from_bytes(&bytes).version()),
        Ok(false) => sysfs::version(device, port, index).map_err(Failure::in_sysfs),
        Err(Errno::NODATA) => Ok(Version::V1),
        Err(e) => Err(e.into()),
    }
}

/// The first place in a port's table that holds `gid` and travels as `version`.
///
/// # Errors
/// EOVERFLOW when the index exceeds 255, the largest one of an address handle; at the end of the
/// table the error of querying the next index.
pub fn find<D: Device + ?Sized>(device: &D, port: u8, gid: &Gid, version: Version) -> Answer<u8> {
    let mut index = 0;
    while !holds(device, port, index, gid, version)? {
        index += 1;
    }
    u8::try_from(index).map_err(|_| Errno::OVERFLOW.into())
}

fn holds<D: Device + ?Sized>(
    device: &D,
    port: u8,
    index: u32,
    gid: &Gid,
    wanted: Version,
) -> Answer<bool> {
    let mut bytes = [0; SIZE];
    match table::entry(device, port.into(), index, 0, &mut bytes) {
        Ok(true) => {
            let entry = Entry::from_bytes(&bytes);
            return Ok(entry.gid == *gid && entry.version() == wanted);
        }
        Ok(false) => {}
        Err(Errno::NODATA) => return Ok(false),
        Err(e) => return Err(e.into()),
    }
    let found = sysfs::gid(device, port, index).map_err(Failure::in_sysfs)?;
    if found != *gid {
        return Ok(false);
    }
    let version = sysfs::version(device, port, index).map_err(Failure::in_sysfs)?;
    Ok(version == wanted)
}

/// Reads the entries in use of all ports into `memory`, `entry_size` bytes each, and returns
/// how many there are.
///
/// # Errors
/// EINVAL when there are more than `memory` has room for, or it has room for none; EOPNOTSUPP
/// for flags on a kernel that does not know the query; else those of [`query_into`].
pub fn query_table<D: Device + ?Sized>(
    device: &D,
    flags: u32,
    entry_size: usize,
    memory: &mut [u8],
) -> Result<u64> {
    if let Some(count) = table::entries(device, flags, entry_size, memory)? {
        return Ok(count);
    }
    if entry_size == 0 || memory.is_empty() {
        return Err(Errno::INVAL);
    }
    let mut places = memory.chunks_exact_mut(entry_size);
    let mut count = 0;
    for port in 1..=device.ports()? {
        let Port { link_layer, gids } = device.port(port)?;
        if gids == 0 {
            continue;
        }
        let table = sysfs::Table::open(device, port).map_err(|_| Errno::INVAL)?;
        for index in 0..gids {
            let Some(entry) = in_use(device, &table, port, index, link_layer)? else {
                continue;
            };
            entry.put(places.next().ok_or(Errno::INVAL)?);
            count += 1;
        }
    }
    Ok(count)
}

/// The entry at a place, if it is in use.
fn in_use<D: Device + ?Sized>(
    device: &D,
    table: &sysfs::Table,
    port: u8,
    index: u32,
    link_layer: u8,
) -> Result<Option<Entry>> {
    let gid = table.gid(index).map_err(|_| Errno::INVAL)?;
    let mut entry = Entry {
        gid,
        index,
        port: port.into(),
        ..Entry::default()
    };
    if entry.is_empty() {
        return Ok(None);
    }
    let version = sysfs::version(device, port, index).map_err(|_| Errno::INVAL)?;
    entry.kind = kind(version, || Ok(link_layer))?;
    entry.interface = sysfs::interface(device, port, index)?;
    Ok(Some(entry))
}

fn from_sysfs<D: Device + ?Sized>(device: &D, port: u32, index: u32, want: Want) -> Answer<Entry> {
    let number = u8::try_from(port).map_err(|_| Failure::in_sysfs(Errno::NOENT))?;
    let gid = sysfs::gid(device, number, index).map_err(Failure::in_sysfs)?;
    let mut entry = Entry {
        gid,
        index,
        port,
        ..Entry::default()
    };
    if want == Want::All {
        let version = sysfs::version(device, number, index).map_err(Failure::in_sysfs)?;
        entry.kind = kind(version, || Ok(device.port(number)?.link_layer))?;
        entry.interface = sysfs::interface(device, number, index)?;
    }
    if entry.is_empty() {
        return Err(Errno::NODATA.into());
    }
    Ok(entry)
}

/// `IBV_GID_TYPE_*`. Sysfs has one name for InfiniBand and RoCE v1, which differ by the link layer;
/// an unknown link layer counts as InfiniBand's.
fn kind(version: Version, link_layer: impl FnOnce() -> Result<u8>) -> Result<u32> {
    if version == Version::V2 {
        return Ok(IBV_GID_TYPE_ROCE_V2);
    }
    if u32::from(link_layer()?) == IBV_LINK_LAYER_ETHERNET {
        return Ok(IBV_GID_TYPE_ROCE_V1);
    }
    Ok(IBV_GID_TYPE_IB)
}

#[cfg(test)]
mod tests;
