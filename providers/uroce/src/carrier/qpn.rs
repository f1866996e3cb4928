//! The parts of a QP number: 10 bits of slot, which name the process, and 14 bits of index, which
//! count its queue pairs.

pub use super::registry::name::LAST;

/// Bits of a QP number that count the process's queue pairs.
pub const INDEX_BITS: u32 = 14;

/// The slot that a QP number names.
#[must_use]
#[inline]
pub fn slot_of(qpn: u32) -> u16 {
    u16::try_from(qpn >> INDEX_BITS & 0x3ff).unwrap_or(0)
}

/// The index that a QP number names, among those of its process.
#[must_use]
#[inline]
pub fn index_of(qpn: u32) -> u32 {
    qpn & ((1 << INDEX_BITS) - 1)
}

/// The QP number of a slot and an index.
#[must_use]
#[inline]
pub fn number(slot: u16, index: u32) -> u32 {
    u32::from(slot) << INDEX_BITS | index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_slots() {
        assert_eq!(slot_of(17), 0);
        assert_eq!(slot_of(1 << INDEX_BITS | 5), 1);
        assert_eq!(slot_of(0x00ff_ffff), LAST + 1);
    }

    #[test]
    fn numbers_are_made_of_slots_and_indices() {
        let number = number(LAST, 16383);
        assert_eq!((slot_of(number), index_of(number)), (LAST, 16383));
        assert_eq!(number >> 24, 0);
    }
}
