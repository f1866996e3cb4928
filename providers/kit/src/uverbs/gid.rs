#![forbid(unsafe_code)]
//! GID tables: ibv_query_gid_ex(3), ibv_query_gid_table(3).

use super::{Fallback, Ioctl, Kernel, Path, try_ioctl};
use crate::abi::kernel::ioctl::*;
use crate::errno::{Errno, Result};
use crate::table::slot;

// The verb that takes asynchronous events has no ioctl, so its slot is used for both queries: a
// kernel that lacks one lacks the other.
const SLOT: usize = slot::async_event;

/// Without the ioctl sysfs may answer, but it knows no flags.
fn answered(path: Path, flags: u32) -> Result<bool> {
    match path {
        Path::Ioctl => Ok(true),
        _ if flags != 0 => Err(Errno::OPNOTSUPP),
        _ => Ok(false),
    }
}

/// Reads one entry (`struct ibv_gid_entry`) into `entry`. Returns false when this kernel cannot
/// and sysfs is to be asked.
///
/// # Errors
/// ENODATA for an empty entry, EINVAL for one that is not there; EOPNOTSUPP for flags on a
/// kernel without the query; else the kernel's own errno.
pub fn query_gid_entry<K: Kernel + ?Sized>(
    kernel: &K,
    port: u32,
    index: u32,
    flags: u32,
    entry: &mut [u8],
) -> Result<bool> {
    let mut call = Ioctl::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY);
    call.u64_in(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, port.into());
    call.u64_in(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, index.into());
    call.u32_in(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, flags);
    call.bytes_out(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, entry);
    answered(try_ioctl(kernel, SLOT, &mut call, Fallback::Write)?, flags)
}

/// Reads all valid entries into `entries`, `entry_size` bytes each; returns their number, or
/// nothing when this kernel cannot and sysfs is to be asked.
///
/// # Errors
/// EINVAL when there are more entries than room, or more than 65535 bytes of room; EOPNOTSUPP
/// for flags on a kernel without the query; else the kernel's own errno.
pub fn query_gid_table<K: Kernel + ?Sized>(
    kernel: &K,
    entry_size: usize,
    flags: u32,
    entries: &mut [u8],
) -> Result<Option<u64>> {
    let mut number = 0u64;
    let mut call = Ioctl::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE);
    let size = u64::try_from(entry_size).map_err(|_| Errno::INVAL)?;
    call.u64_in(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, size);
    call.u32_in(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, flags);
    call.bytes_out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, entries);
    call.value_out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &mut number);
    let path = try_ioctl(kernel, SLOT, &mut call, Fallback::Write)?;
    Ok(answered(path, flags)?.then_some(number))
}
