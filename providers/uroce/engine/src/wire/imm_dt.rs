//! Immediate Data (IBTA volume 1, 9.3.6).

super::header::header! {
    /// The header as a value.
    ImmDt, 4 {
        /// The 32 bits, as a number read in network order.
        data: u32 = get32 / put32 at 0,
    }
}
