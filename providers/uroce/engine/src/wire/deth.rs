//! Datagram Extended Transport Header (IBTA volume 1, 9.3.2).

super::header::header! {
    /// The header as a value.
    Deth, 8 {
        /// Q_Key.
        qkey: u32 = get32 / put32 at 0,
        /// QP number of the sender.
        source: u32 = get24 / put24 at 5,
    }
}
