//! Text of C's structures.

use std::ffi::c_char;

/// The bytes before the first NUL, or all, as text.
pub(crate) fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars
        .iter()
        .take_while(|c| **c != 0)
        .flat_map(|c| c.to_ne_bytes())
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
