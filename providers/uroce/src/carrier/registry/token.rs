//! The part of a name that cannot be guessed.

use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt::{self, Display, Formatter};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Hexadecimal digits of a token.
const DIGITS: usize = 24;
const BYTES: usize = DIGITS / 2;

/// 96 random bits. A name that ends in them cannot be taken before its owner takes it; three of
/// them fit into a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token([u8; BYTES]);

impl Token {
    /// A new one.
    #[must_use]
    pub fn random() -> Self {
        let mut bytes = [0; BYTES];
        match getrandom(&mut bytes, GetRandomFlags::NONBLOCK) {
            Ok(BYTES) => Self(bytes),
            // Where getrandom(2) is denied.
            _ => Self(hashed()),
        }
    }

    /// The token of a number.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        let mut bytes = [0; BYTES];
        if let Some(place) = bytes.last_chunk_mut() {
            *place = number.to_be_bytes();
        }
        Self(bytes)
    }

    /// The token that was written so.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        if text.len() != DIGITS || !text.bytes().all(|byte| digit(&byte)) {
            return None;
        }
        let number = u128::from_str_radix(text, 16).ok()?;
        Some(Self(*number.to_be_bytes().last_chunk()?))
    }
}

/// Bytes from the keys that the standard library's hash maps get from the kernel. Two
/// processes may have the same keys after fork(2), and one process twice the same number.
fn hashed() -> [u8; BYTES] {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Relaxed);
    let keys = RandomState::new();
    let half = |half: u8| {
        keys.hash_one((half, std::process::id(), count))
            .to_be_bytes()
    };
    let mut bytes = [0; BYTES];
    let both = half(0).into_iter().chain(half(1));
    for (place, byte) in bytes.iter_mut().zip(both) {
        *place = byte;
    }
    bytes
}

impl Display for Token {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn tokens_differ_and_are_read_as_written() {
        let tokens: HashSet<_> = (0..1000).map(|_| Token::random()).collect();
        assert_eq!(tokens.len(), 1000);
        for token in tokens {
            assert_eq!(Token::parse(&token.to_string()), Some(token));
        }
        let hashed: HashSet<_> = (0..1000).map(|_| hashed()).collect();
        assert_eq!(hashed.len(), 1000);
        assert!(Token::from_number(3) < Token::from_number(4));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-gA-G+/]{22,26}") {
            if let Some(token) = Token::parse(&text) {
                prop_assert_eq!(token.to_string(), text);
            }
        }
    }
}
