//! Few bytes of data as words.

/// Bytes that are moved as words.
pub const FEW: usize = size_of::<Few>();

/// The words, each from a register: reading recently written bytes as a word would wait until they
/// have left the processor's store buffer.
pub type Few = [u64; 4];
