//! RDMA Extended Transport Header (IBTA volume 1, 9.3.3): where an RDMA operation works.

super::header::header! {
    /// The header as a value.
    Reth, 16 {
        /// Virtual address of the first byte, in the responder's terms.
        address: u64 = get64 / put64 at 0,
        /// R_Key of the responder's memory.
        rkey: u32 = get32 / put32 at 8,
        /// DMA length in bytes, of the whole message.
        length: u32 = get32 / put32 at 12,
    }
}
