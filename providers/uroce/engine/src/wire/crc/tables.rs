//! A CRC by tables.

use crc::{CRC_32_ISO_HDLC, Crc, Table};

static TABLES: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);

/// The register after some more bytes. It begins with ones, and its complement is the CRC.
pub(super) fn update(register: u32, bytes: &[u8]) -> u32 {
    // The crate expects the register in the other bit order.
    let mut digest = TABLES.digest_with_initial(register.reverse_bits());
    digest.update(bytes);
    !digest.finalize()
}
