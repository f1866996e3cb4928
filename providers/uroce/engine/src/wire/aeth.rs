//! ACK Extended Transport Header (IBTA volume 1, 9.3.5).

super::header::header! {
    /// The header as a value.
    Aeth, 4 {
        /// Syndrome; [`super::Syndrome`] reads it.
        syndrome: u8 = get8 / put8 at 0,
        /// Message sequence number: messages completed by the responder, modulo 2^24.
        msn: u32 = get24 / put24 at 1,
    }
}
