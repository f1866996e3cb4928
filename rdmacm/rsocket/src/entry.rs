//! Structures that are written into the peer's memory, in the byte order of the peer.

/// Bytes of an [`Sge`].
pub const SGE: usize = 16;
/// Bytes of an [`IomapEntry`].
pub const IOMAP_ENTRY: usize = 24;

fn field<const SIZE: usize>(bytes: &[u8], at: usize) -> [u8; SIZE] {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk().copied())
        .unwrap_or([0; SIZE])
}

/// Memory that the reader of the entry may write to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sge {
    /// Address of its first byte.
    pub address: u64,
    /// The remote key.
    pub key: u32,
    /// Bytes, or the entries of a table.
    pub length: u32,
}

impl Sge {
    /// Encodes the entry for a peer of this byte order.
    #[must_use]
    pub fn encode(&self, big_endian: bool) -> [u8; SGE] {
        let mut bytes = [0; SGE];
        let (address, key, length) = if big_endian {
            (
                self.address.to_be_bytes(),
                self.key.to_be_bytes(),
                self.length.to_be_bytes(),
            )
        } else {
            (
                self.address.to_le_bytes(),
                self.key.to_le_bytes(),
                self.length.to_le_bytes(),
            )
        };
        bytes[..8].copy_from_slice(&address);
        bytes[8..12].copy_from_slice(&key);
        bytes[12..].copy_from_slice(&length);
        bytes
    }

    /// Decodes an entry that the peer wrote into this side's memory.
    #[must_use]
    pub fn decode_native(bytes: &[u8; SGE]) -> Self {
        Self {
            address: u64::from_ne_bytes(field(bytes, 0)),
            key: u32::from_ne_bytes(field(bytes, 8)),
            length: u32::from_ne_bytes(field(bytes, 12)),
        }
    }

    /// Encodes the entry as the private data of a connection contains it.
    pub(crate) fn decode_big_endian(bytes: &[u8]) -> Self {
        Self {
            address: u64::from_be_bytes(field(bytes, 0)),
            key: u32::from_be_bytes(field(bytes, 8)),
            length: u32::from_be_bytes(field(bytes, 12)),
        }
    }
}

/// Memory that the peer may write to by an offset (riomap).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IomapEntry {
    /// The offset by which programs name the memory.
    pub offset: u64,
    /// The memory.
    pub memory: Sge,
}

impl IomapEntry {
    /// Encodes the entry for a peer of this byte order.
    #[must_use]
    pub fn encode(&self, big_endian: bool) -> [u8; IOMAP_ENTRY] {
        let mut bytes = [0; IOMAP_ENTRY];
        let offset = if big_endian {
            self.offset.to_be_bytes()
        } else {
            self.offset.to_le_bytes()
        };
        bytes[..8].copy_from_slice(&offset);
        bytes[8..].copy_from_slice(&self.memory.encode(big_endian));
        bytes
    }

    /// Decodes an entry that the peer wrote into this side's memory.
    #[must_use]
    pub fn decode_native(bytes: &[u8; IOMAP_ENTRY]) -> Self {
        Self {
            offset: u64::from_ne_bytes(field(bytes, 0)),
            memory: Sge::decode_native(&field(bytes, 8)),
        }
    }

    /// The part of `length` bytes at an offset that is within the entry; none if no byte is.
    #[must_use]
    pub fn within(&self, offset: u64, length: usize) -> Option<(Sge, usize)> {
        let at = offset.checked_sub(self.offset)?;
        let left = u64::from(self.memory.length).checked_sub(at)?;
        if left == 0 {
            return None;
        }
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(length);
        let memory = Sge {
            address: self.memory.address.checked_add(at)?,
            key: self.memory.key,
            length: u32::try_from(length).unwrap_or(u32::MAX),
        };
        Some((memory, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: Sge = Sge {
        address: 0x0102_0304_0506_0708,
        key: 0x1112_1314,
        length: 0x2122_2324,
    };

    #[test]
    fn entries_have_the_byte_order_of_their_reader() {
        let big = ENTRY.encode(true);
        assert_eq!(big[..9], [1, 2, 3, 4, 5, 6, 7, 8, 0x11]);
        let little = ENTRY.encode(false);
        assert_eq!(little[..9], [8, 7, 6, 5, 4, 3, 2, 1, 0x14]);
        let native = ENTRY.encode(cfg!(target_endian = "big"));
        assert_eq!(Sge::decode_native(&native), ENTRY);
        assert_eq!(Sge::decode_big_endian(&big), ENTRY);
        assert_eq!(Sge::decode_big_endian(&big[..3]), Sge::default());
        let entry = IomapEntry {
            offset: 9,
            memory: ENTRY,
        };
        assert_eq!(entry.encode(true)[7], 9);
        let native = entry.encode(cfg!(target_endian = "big"));
        assert_eq!(IomapEntry::decode_native(&native), entry);
    }

    #[test]
    fn a_write_is_cut_at_the_end_of_its_entry() {
        let entry = IomapEntry {
            offset: 100,
            memory: Sge {
                address: 1000,
                key: 5,
                length: 50,
            },
        };
        assert_eq!(entry.within(99, 1), None);
        assert_eq!(entry.within(150, 1), None);
        let (memory, length) = entry.within(120, 100).unwrap();
        assert_eq!((memory.address, memory.key, length), (1020, 5, 30));
        let end = IomapEntry {
            offset: 0,
            memory: Sge {
                address: u64::MAX,
                ..entry.memory
            },
        };
        assert_eq!(end.within(1, 1), None);
    }
}
