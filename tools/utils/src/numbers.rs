//! Numbers as C reads and keeps them.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

/// The result of strtol(3) for the front of a word in base 0: 0 without a number, and the limits
/// where it is too large.
pub(crate) fn number(word: &OsStr) -> i64 {
    let text = word.as_bytes();
    let start = text
        .iter()
        .position(|b| !is_space(*b))
        .unwrap_or(text.len());
    let text = text.get(start..).unwrap_or_default();
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (base, text) = match text {
        [b'0', b'x' | b'X', rest @ ..] if rest.first().is_some_and(u8::is_ascii_hexdigit) => {
            (16, rest)
        }
        [b'0', ..] => (8, text),
        _ => (10, text),
    };
    let digits = text
        .iter()
        .map_while(|b| char::from(*b).to_digit(base))
        .map(i64::from);
    let mut value = 0_i64;
    for digit in digits {
        let next = value.checked_mul(i64::from(base));
        let signed = if negative { -digit } else { digit };
        let Some(next) = next.and_then(|next| next.checked_add(signed)) else {
            return if negative { i64::MIN } else { i64::MAX };
        };
        value = next;
    }
    value
}

fn is_space(byte: u8) -> bool {
    byte == b' ' || (9..=13).contains(&byte)
}

/// The lower half, as C assigns a `long` to an `int`.
pub(crate) fn int(value: i64) -> i32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// The lower half, as C assigns a `long` to an `unsigned int`.
pub(crate) fn unsigned(value: i64) -> u32 {
    int(value).cast_unsigned()
}

/// The lowest byte, as C passes an `int` for a `uint8_t`.
pub(crate) fn byte(value: i32) -> u8 {
    let [low, ..] = value.to_le_bytes();
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_c_reads_them() {
        for (word, value) in [
            ("12", 12),
            (" \t12x", 12),
            ("-3", -3),
            ("+0x1F", 31),
            ("010", 8),
            ("09", 0),
            ("0x", 0),
            ("0xg", 0),
            ("", 0),
            ("x", 0),
            ("9223372036854775808", i64::MAX),
            ("-9223372036854775808", i64::MIN),
            ("-99999999999999999999", i64::MIN),
        ] {
            assert_eq!(number(OsStr::new(word)), value, "{word}");
        }
    }

    #[test]
    fn large_numbers_lose_their_upper_half() {
        assert_eq!(int(4_294_967_295), -1);
        assert_eq!(int(i64::MAX), -1);
        assert_eq!(unsigned(-1), u32::MAX);
        assert_eq!(byte(257), 1);
        assert_eq!(byte(-1), 255);
    }
}
