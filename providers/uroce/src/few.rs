//! Few bytes of data as words.

/// Bytes that are moved as words.
pub const FEW: usize = size_of::<Few>();

/// They, each word from a register: what was just written byte by byte is read as a word only when
/// it has left the processor's store buffer.
pub type Few = [u64; 4];
