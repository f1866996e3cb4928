//! Atomic ACK Extended Transport Header (IBTA volume 1, 9.3.5.3).

super::header::header! {
    /// The header as a value.
    AtomicAckEth, 8 {
        /// The memory's value before the operation.
        original: u64 = get64 / put64 at 0,
    }
}
