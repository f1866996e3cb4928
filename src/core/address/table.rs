#![forbid(unsafe_code)]
//! The source of a GID table: the provider for a device in user space, the kernel for all others.

use super::Device;
use super::entry::{Entry, SIZE};
use kit::abi::ibv_gid_entry;
use kit::errno::{Errno, Result};
use kit::uverbs::gid::{query_gid_entry, query_gid_table};

/// Reads one entry into `memory`. Returns false when sysfs is to be asked, which it never is for
/// a device in user space.
///
/// # Errors
/// ENODATA for an empty entry; EINVAL for one that is not there, for flags, and for memory with
/// no room for it; EOPNOTSUPP for flags on a kernel without the query; else the kernel's.
pub fn entry<D: Device + ?Sized>(
    device: &D,
    port: u32,
    index: u32,
    flags: u32,
    memory: &mut [u8],
) -> Result<bool> {
    let Some(edges) = device.private().edges() else {
        return query_gid_entry(device, port, index, flags, memory);
    };
    if flags != 0 || memory.len() < SIZE {
        return Err(Errno::INVAL);
    }
    of_c(&edges.gid_entry(port, index)?).put(memory);
    Ok(true)
}

/// Reads the entries in use of all ports into `memory`, `size` bytes each; returns their number,
/// or nothing when sysfs is to be asked.
///
/// # Errors
/// EINVAL when there are more entries than room, or there is room for none; else as [`entry`].
pub fn entries<D: Device + ?Sized>(
    device: &D,
    flags: u32,
    size: usize,
    memory: &mut [u8],
) -> Result<Option<u64>> {
    let Some(edges) = device.private().edges() else {
        return query_gid_table(device, size, flags, memory);
    };
    if flags != 0 || size == 0 || memory.len() < size {
        return Err(Errno::INVAL);
    }
    let mut places = memory.chunks_exact_mut(size);
    let mut count = 0;
    for entry in edges.gid_table()? {
        of_c(&entry).put(places.next().ok_or(Errno::INVAL)?);
        count += 1;
    }
    Ok(Some(count))
}

fn of_c(entry: &ibv_gid_entry) -> Entry {
    Entry {
        gid: entry.gid.bytes(),
        index: entry.gid_index,
        port: entry.port_num,
        kind: entry.gid_type,
        interface: entry.ndev_ifindex,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::made_up::MadeUp;
    use super::super::{Failure, Version, gid, pkey};
    use super::*;
    use kit::abi::{IBV_GID_TYPE_ROCE_V2, be16, ibv_gid};
    use kit::provider::Edges;
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::sync::Arc;

    /// Two places of port 1 in use: 0 and 2 of 4.
    struct Provider;

    impl Provider {
        fn at(index: u32) -> ibv_gid_entry {
            ibv_gid_entry {
                gid: ibv_gid {
                    raw: [index.try_into().unwrap_or(0xff); 16],
                },
                gid_index: index,
                port_num: 1,
                gid_type: IBV_GID_TYPE_ROCE_V2,
                ndev_ifindex: 7,
            }
        }
    }

    impl Edges for Provider {
        fn create_comp_channel(&self) -> Result<OwnedFd> {
            Err(Errno(libc::EMFILE))
        }

        fn destroy_comp_channel(&self, _: BorrowedFd<'_>) {}

        fn gid_entry(&self, port: u32, index: u32) -> Result<ibv_gid_entry> {
            match (port, index) {
                (1, 1) | (1, 3) => Err(Errno::NODATA),
                (1, 0) | (1, 2) => Ok(Self::at(index + 1)),
                _ => Err(Errno::INVAL),
            }
        }

        fn gid_table(&self) -> Result<Vec<ibv_gid_entry>> {
            Ok(vec![Self::at(1), Self::at(3)])
        }

        fn pkey(&self, port: u8, index: u32) -> Result<be16> {
            match (port, index) {
                (1, 0) => Ok(be16::new(0xffff)),
                _ => Err(Errno::INVAL),
            }
        }
    }

    fn device() -> MadeUp {
        let device = MadeUp::new();
        device.private().set_edges(Arc::new(Provider));
        device
    }

    use kit::uverbs::Kernel;

    #[test]
    fn the_provider_is_asked_for_gids() {
        let device = device();
        let mut memory = [0xee; SIZE];
        assert_eq!(gid::query_into(&device, 1, 2, 0, &mut memory), Ok(()));
        assert_eq!(Entry::from_bytes(&memory), of_c(&Provider::at(3)));
        assert_eq!(gid::query(&device, 1, 0), Ok(Some([1; 16])));
        assert_eq!(gid::query(&device, 1, 1), Ok(None));
        assert_eq!(gid::version(&device, 1, 0), Ok(Version::V2));
        assert_eq!(gid::version(&device, 1, 1), Ok(Version::V1), "empty");
        assert_eq!(gid::interface(&device, 1, 0), Some(7));
        assert_eq!(gid::find(&device, 1, &[3; 16], Version::V2), Ok(2));
        let invalid = Failure::from(Errno::INVAL);
        assert_eq!(gid::find(&device, 1, &[3; 16], Version::V1), Err(invalid));
        assert_eq!(gid::query(&device, 2, 0), Err(invalid));
        let mut short = [0; SIZE - 1];
        assert_eq!(gid::query_into(&device, 1, 0, 0, &mut short), Err(invalid));
        assert_eq!(gid::query_into(&device, 1, 0, 1, &mut memory), Err(invalid));
    }

    #[test]
    fn tables_fill_the_room_that_there_is() {
        let device = device();
        let mut memory = [0xee; 3 * 40];
        assert_eq!(gid::query_table(&device, 0, 40, &mut memory), Ok(2));
        let second: &[u8; SIZE] = memory[40..].first_chunk().unwrap();
        assert_eq!(Entry::from_bytes(second), of_c(&Provider::at(3)));
        assert_eq!(memory[72..80], [0; 8]);
        assert_eq!(memory[80], 0xee);
        for (flags, size, room) in [(0, SIZE, SIZE), (0, 0, SIZE), (0, SIZE, 0), (1, SIZE, 96)] {
            let refused = gid::query_table(&device, flags, size, &mut memory[..room]);
            assert_eq!(refused, Err(Errno::INVAL), "{flags} {size} {room}");
        }
    }

    #[test]
    fn the_provider_is_asked_for_pkeys() {
        let device = device();
        assert_eq!(pkey::query(&device, 1, 0), Ok(be16::new(0xffff)));
        assert_eq!(pkey::query(&device, 1, 1), Err(Errno::INVAL));
        assert_eq!(pkey::query(&device, 1, -1), Err(Errno::INVAL));
        assert_eq!(pkey::find(&device, 1, be16::new(0xffff)), Ok(0));
        assert_eq!(pkey::find(&device, 1, be16::new(0x7fff)), Err(Errno::INVAL));
    }
}
