//! Invalidate Extended Transport Header (IBTA volume 1, 9.3.7).

super::header::header! {
    /// The header as a value.
    Ieth, 4 {
        /// The responder's R_Key to invalidate.
        rkey: u32 = get32 / put32 at 0,
    }
}
