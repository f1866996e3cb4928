//! Bytes behind a payload that mean nothing, between two ends of this make: packets of equal length
//! leave by one system call, and a shorter or longer one ends such a run.
//!
//! The header stands behind all others of a packet whose BTH has [`super::bth::Bth::filled`]. The
//! filling is between the payload with its pad and the ICRC, which covers both. A packet that is
//! to become 4 bytes longer has the header alone.

super::header::header! {
    /// The header as a value.
    Filler, 4 {
        /// Bytes behind the payload and its pad.
        length: u16 = get16 / put16 at 0,
    }
}

impl Filler {
    /// Makes a packet longer by so many bytes; `None` if the header does not fit in.
    #[must_use]
    pub fn of(bytes: u32) -> Option<Self> {
        let header = u32::try_from(LEN).ok()?;
        let length = u16::try_from(bytes.checked_sub(header)?).ok()?;
        Some(Self { length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_counts() {
        assert_eq!(Filler::of(0), None);
        assert_eq!(Filler::of(3), None);
        assert_eq!(Filler::of(4), Some(Filler { length: 0 }));
        assert_eq!(Filler::of(16), Some(Filler { length: 12 }));
        assert_eq!(Filler::of(1 << 17), None);
    }
}
