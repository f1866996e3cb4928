//! Fixed-size fields inside fixed-size headers. The offset is checked when the code is compiled, so
//! none of these can fail at run time.

/// The byte at `AT`.
pub(super) fn get8<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u8 {
    const { assert!(AT < N) };
    bytes[AT]
}

/// The big-endian 16 bits at `AT`.
pub(super) fn get16<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u16 {
    const { assert!(AT + 2 <= N) };
    u16::from_be_bytes([bytes[AT], bytes[AT + 1]])
}

/// The big-endian 24 bits at `AT`.
pub(super) fn get24<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u32 {
    const { assert!(AT + 3 <= N) };
    u32::from_be_bytes([0, bytes[AT], bytes[AT + 1], bytes[AT + 2]])
}

/// The big-endian 32 bits at `AT`.
pub(super) fn get32<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u32 {
    const { assert!(AT + 4 <= N) };
    u32::from_be_bytes([bytes[AT], bytes[AT + 1], bytes[AT + 2], bytes[AT + 3]])
}

/// The big-endian 64 bits at `AT`.
pub(super) fn get64<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u64 {
    const { assert!(AT + 8 <= N) };
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[AT..AT + 8]);
    u64::from_be_bytes(word)
}

/// Stores a byte at `AT`.
pub(super) fn put8<const AT: usize, const N: usize>(bytes: &mut [u8; N], value: u8) {
    const { assert!(AT < N) };
    bytes[AT] = value;
}

/// Stores 16 bits at `AT`.
pub(super) fn put16<const AT: usize, const N: usize>(bytes: &mut [u8; N], value: u16) {
    const { assert!(AT + 2 <= N) };
    bytes[AT..AT + 2].copy_from_slice(&value.to_be_bytes());
}

/// Stores the low 24 bits of `value` at `AT`.
pub(super) fn put24<const AT: usize, const N: usize>(bytes: &mut [u8; N], value: u32) {
    const { assert!(AT + 3 <= N) };
    let [_, high, middle, low] = value.to_be_bytes();
    bytes[AT..AT + 3].copy_from_slice(&[high, middle, low]);
}

/// Stores 32 bits at `AT`.
pub(super) fn put32<const AT: usize, const N: usize>(bytes: &mut [u8; N], value: u32) {
    const { assert!(AT + 4 <= N) };
    bytes[AT..AT + 4].copy_from_slice(&value.to_be_bytes());
}

/// Stores 64 bits at `AT`.
pub(super) fn put64<const AT: usize, const N: usize>(bytes: &mut [u8; N], value: u64) {
    const { assert!(AT + 8 <= N) };
    bytes[AT..AT + 8].copy_from_slice(&value.to_be_bytes());
}
