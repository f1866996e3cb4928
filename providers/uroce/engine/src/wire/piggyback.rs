//! An acknowledgement inside a request, between two ends of this make.
//!
//! It stands behind all other headers of a request whose BTH has [`super::bth::Bth::piggyback`],
//! and says what an acknowledgement alone would say.

super::header::header! {
    /// The header as a value.
    Piggyback, 8 {
        /// Syndrome of an AETH.
        syndrome: u8 = get8 / put8 at 0,
        /// Message sequence number of an AETH.
        msn: u32 = get24 / put24 at 1,
        /// The PSN of the acknowledgement, 24 bits.
        psn: u32 = get24 / put24 at 5,
    }
}
