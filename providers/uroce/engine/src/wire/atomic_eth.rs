//! Atomic Extended Transport Header (IBTA volume 1, 9.3.4).

super::header::header! {
    /// The header as a value.
    AtomicEth, 28 {
        /// Virtual address of the 8 bytes.
        address: u64 = get64 / put64 at 0,
        /// R_Key of the responder's memory.
        rkey: u32 = get32 / put32 at 8,
        /// The value to store (compare and swap) or to add (fetch and add).
        swap_add: u64 = get64 / put64 at 12,
        /// The value compared with; unused by fetch and add.
        compare: u64 = get64 / put64 at 20,
    }
}
