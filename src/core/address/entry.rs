#![forbid(unsafe_code)]
//! One entry of a GID table, in the form that applications and the kernel share
//! (`struct ibv_gid_entry`, `struct ib_uverbs_gid_entry`).

use super::{EMPTY, Gid, Version};
use kit::abi::{IBV_GID_TYPE_ROCE_V2, ibv_gid_entry};

/// Bytes of an entry.
pub const SIZE: usize = size_of::<ibv_gid_entry>();

/// One entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The GID; all zeros when the entry is empty.
    pub gid: Gid,
    /// Its place in the table.
    pub index: u32,
    /// The port of the table.
    pub port: u32,
    /// `IBV_GID_TYPE_*`.
    pub kind: u32,
    /// Index of its network interface, or 0.
    pub interface: u32,
}

impl Entry {
    /// Whether the place in the table is unused.
    pub fn is_empty(&self) -> bool {
        self.gid == EMPTY
    }

    /// How the GID travels.
    pub fn version(&self) -> Version {
        if self.kind == IBV_GID_TYPE_ROCE_V2 {
            Version::V2
        } else {
            Version::V1
        }
    }

    /// The entry as it stands in memory.
    pub fn bytes(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        let (gid, rest) = bytes.split_at_mut(size_of::<Gid>());
        gid.copy_from_slice(&self.gid);
        let numbers = [self.index, self.port, self.kind, self.interface];
        for (place, number) in rest.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    /// Reads an entry out of memory.
    pub fn from_bytes(bytes: &[u8; SIZE]) -> Self {
        let mut entry = Self::default();
        let (gid, rest) = bytes.split_at(size_of::<Gid>());
        entry.gid.copy_from_slice(gid);
        let mut numbers = rest.chunks_exact(4).map(|four| {
            let mut number = [0; 4];
            number.copy_from_slice(four);
            u32::from_ne_bytes(number)
        });
        for place in [
            &mut entry.index,
            &mut entry.port,
            &mut entry.kind,
            &mut entry.interface,
        ] {
            *place = numbers.next().unwrap_or_default();
        }
        entry
    }

    /// Copies the entry into memory of any length, as the kernel does: cut, or followed by
    /// zeros.
    pub fn put(&self, memory: &mut [u8]) {
        let bytes = self.bytes();
        let length = memory.len().min(bytes.len());
        let (front, behind) = memory.split_at_mut(length);
        front.copy_from_slice(bytes.get(..length).unwrap_or_default());
        behind.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::abi::{IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V1, ibv_gid};
    use proptest::prelude::*;

    fn entry() -> impl Strategy<Value = Entry> {
        any::<(Gid, u32, u32, u32, u32)>().prop_map(|(gid, index, port, kind, interface)| Entry {
            gid,
            index,
            port,
            kind,
            interface,
        })
    }

    proptest! {
        #[test]
        fn a_written_entry_is_read(entry in entry()) {
            prop_assert_eq!(Entry::from_bytes(&entry.bytes()), entry);
        }

        #[test]
        fn any_length_is_filled(entry in entry(), length in 0usize..80) {
            let mut memory = vec![0xee; length];
            entry.put(&mut memory);
            let mut expected = entry.bytes().to_vec();
            expected.resize(length, 0);
            prop_assert_eq!(memory, expected);
        }
    }

    #[test]
    fn the_layout_is_that_of_the_c_structure() {
        let numbers = [2u32, 1, IBV_GID_TYPE_ROCE_V2, 7];
        let mut memory = [9; 16].to_vec();
        memory.extend(numbers.iter().flat_map(|n| n.to_ne_bytes()));
        let c = ibv_gid_entry {
            gid: ibv_gid { raw: [9; 16] },
            gid_index: 2,
            port_num: 1,
            gid_type: IBV_GID_TYPE_ROCE_V2,
            ndev_ifindex: 7,
        };
        let entry = Entry {
            gid: c.gid.bytes(),
            index: c.gid_index,
            port: c.port_num,
            kind: c.gid_type,
            interface: c.ndev_ifindex,
        };
        assert_eq!(entry.bytes().as_slice(), memory);
    }

    #[test]
    fn versions() {
        for (kind, version) in [
            (IBV_GID_TYPE_IB, Version::V1),
            (IBV_GID_TYPE_ROCE_V1, Version::V1),
            (IBV_GID_TYPE_ROCE_V2, Version::V2),
        ] {
            let entry = Entry {
                kind,
                ..Entry::default()
            };
            assert_eq!(entry.version(), version);
        }
    }
}
