//! Questions about this process's mappings.

use crate::errno::{Errno, Result};
use core::mem::size_of;
use std::{fs::File, os::fd::AsRawFd};

/// `struct procmap_query` (linux/fs.h of Linux 6.11).
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

const _: () = assert!(size_of::<Query>() == 104);

/// `PROCMAP_QUERY`: `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: libc::Ioctl = libc::_IOWR::<Query>(b'f' as u32, 17);

/// Size in bytes of the pages of the mapping at `address`; None where nothing is mapped.
///
/// # Errors
/// ENOTTY before Linux 6.11, ENOENT without /proc, and the errors of open(2).
pub fn page_size(address: usize) -> Result<Option<usize>> {
    let maps = File::open("/proc/self/maps")?;
    let mut query = Query {
        size: size_of::<Query>() as u64,
        query_addr: address as u64,
        ..Query::default()
    };
    // SAFETY: the kernel reads and writes `size` bytes of the query, which asks for no name, so
    // that no other address is in it.
    let done = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
    if done < 0 {
        return match super::errno::get() {
            Errno::NOENT => Ok(None),
            error => Err(error),
        };
    }
    let size = usize::try_from(query.vma_page_size).map_err(|_| Errno::INVAL)?;
    Ok(size.is_power_of_two().then_some(size))
}
/// Whether all of a range is mapped.
pub fn is_mapped(address: usize, length: usize) -> bool {
    let page = rustix::param::page_size();
    let begin = address - address % page;
    let Some(length) = length.checked_add(address - begin) else {
        return false;
    };
    let start = core::ptr::without_provenance_mut(begin);
    // SAFETY: with MS_ASYNC, Linux only looks whether the range is mapped (msync(2)).
    unsafe { libc::msync(start, length, libc::MS_ASYNC) == 0 }
}
