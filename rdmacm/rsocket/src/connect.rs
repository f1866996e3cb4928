//! Connection parameters of both sides: the private data of request and reply.

use crate::entry::{SGE, Sge};

/// Bytes of the private data.
const LENGTH: usize = 40;
const VERSION: u8 = 1;
/// Flag: the sender is big-endian.
const NET: u8 = 1;
/// Flag: the field with the size of the iomap is valid.
const IOMAP: u8 = 2;
/// Largest iomap whose size is sent as a plain number, and the flag of larger ones, which count in
/// units of 256.
const SCALED: u8 = 0x80;

/// Memory of the sender, in network byte order.
pub type Buffer = Sge;

/// Connection parameters of one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectData {
    /// The sender is big-endian: the peer writes entries for it in that byte order.
    pub big_endian: bool,
    /// Number of receive requests of the sender.
    pub credits: u16,
    /// Entries of the iomap, behind the target SGL.
    pub iomap_size: u16,
    /// Address of the target SGL, which takes the entries; the length is their number.
    pub target_sgl: Buffer,
    /// The first receive buffer.
    pub data: Buffer,
}

/// Private data that no rsocket of this version sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

impl ConnectData {
    /// The encoded bytes.
    pub const LENGTH: usize = LENGTH;

    /// Whether this machine is big-endian.
    pub const NATIVE: bool = cfg!(target_endian = "big");

    /// # Errors
    /// [`Refused`] for too few bytes or another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, Refused> {
        let bytes: &[u8; LENGTH] = bytes.first_chunk().ok_or(Refused)?;
        let [version, flags, high, low, _, _, _, iomap, rest @ ..] = bytes;
        if *version != VERSION {
            return Err(Refused);
        }
        let iomap_size = match flags & IOMAP {
            0 => 0,
            _ => unscaled(*iomap),
        };
        Ok(Self {
            big_endian: flags & NET != 0,
            credits: u16::from_be_bytes([*high, *low]),
            iomap_size,
            target_sgl: Sge::decode_big_endian(&rest[..SGE]),
            data: Sge::decode_big_endian(&rest[SGE..]),
        })
    }

    /// Encodes the parameters.
    #[must_use]
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0] = VERSION;
        bytes[1] = IOMAP | if self.big_endian { NET } else { 0 };
        bytes[2..4].copy_from_slice(&self.credits.to_be_bytes());
        bytes[7] = scaled(self.iomap_size);
        bytes[8..24].copy_from_slice(&self.target_sgl.encode(true));
        bytes[24..].copy_from_slice(&self.data.encode(true));
        bytes
    }

    /// The size of an iomap as the peer will decode it: larger sizes count in units of 256.
    #[must_use]
    pub fn sent_iomap_size(size: u16) -> u16 {
        unscaled(scaled(size))
    }
}

fn scaled(size: u16) -> u8 {
    match u8::try_from(size) {
        Ok(size) if size <= SCALED => size,
        _ => {
            let [high, _] = size.to_be_bytes();
            SCALED | high & !SCALED
        }
    }
}

/// 128 is encoded as a plain number.
fn unscaled(size: u8) -> u16 {
    if size <= SCALED {
        return size.into();
    }
    u16::from(size & !SCALED) << 8
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: ConnectData = ConnectData {
        big_endian: false,
        credits: 384,
        iomap_size: 5,
        target_sgl: Sge {
            address: 0x1000,
            key: 7,
            length: 2,
        },
        data: Sge {
            address: 0x2000,
            key: 8,
            length: 65536,
        },
    };

    #[test]
    fn fields_are_where_the_peer_looks() {
        let bytes = DATA.encode();
        assert_eq!(bytes[..8], [1, 2, 1, 0x80, 0, 0, 0, 5]);
        assert_eq!(
            bytes[8..24],
            [0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 7, 0, 0, 0, 2]
        );
        assert_eq!(
            bytes[24..],
            [0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 8, 0, 1, 0, 0]
        );
        assert_eq!(ConnectData::decode(&bytes), Ok(DATA));
        // The length field exceeds the data of the peer.
        assert_eq!(
            ConnectData::decode(&[&bytes[..], &[9; 16]].concat()),
            Ok(DATA)
        );
    }

    #[test]
    fn another_version_and_short_data_are_refused() {
        let mut bytes = DATA.encode();
        assert_eq!(ConnectData::decode(&bytes[..39]), Err(Refused));
        bytes[0] = 2;
        assert_eq!(ConnectData::decode(&bytes), Err(Refused));
    }

    #[test]
    fn an_iomap_is_announced_in_one_byte() {
        for (size, sent) in [
            (0, 0),
            (127, 127),
            (128, 128),
            (255, 128),
            (300, 256),
            (0x7fff, 0x7f00),
        ] {
            assert_eq!(ConnectData::sent_iomap_size(size), sent);
        }
        // The sent size never exceeds the true one.
        for size in 0..=u16::MAX {
            assert!(ConnectData::sent_iomap_size(size) <= size);
        }
        let without = ConnectData {
            big_endian: true,
            ..DATA
        };
        let mut bytes = without.encode();
        assert_eq!(bytes[1], 3);
        bytes[1] = 1;
        let read = ConnectData::decode(&bytes).unwrap();
        assert_eq!((read.big_endian, read.iomap_size), (true, 0));
    }
}
