//! XRC Extended Transport Header (IBTA volume 1, annex A14).

super::header::header! {
    /// The header as a value.
    XrcEth, 4 {
        /// Number of the shared receive queue that the request is for.
        srqn: u32 = get24 / put24 at 1,
    }
}
