//! Invalidate Extended Transport Header (IBTA volume 1, 9.3.7).

use super::field::{get32, put32};

/// Bytes of the header.
pub const LEN: usize = 4;

/// The header in place. No accessor can fail: the length was checked by [`View::split`].
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(&'a [u8; LEN]);

impl<'a> View<'a> {
    /// The header at the start of `bytes`, and what follows it; `None` if `bytes` is too short.
    #[must_use]
    pub fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (head, rest) = bytes.split_first_chunk()?;
        Some((Self(head), rest))
    }

    /// The responder's R_Key to invalidate.
    #[must_use]
    pub fn rkey(self) -> u32 {
        get32::<0, LEN>(self.0)
    }
}

/// The header as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ieth {
    /// The responder's R_Key to invalidate.
    pub rkey: u32,
}

impl Ieth {
    /// Takes every field out of a view.
    #[must_use]
    pub fn parse(view: View<'_>) -> Self {
        Self { rkey: view.rkey() }
    }

    /// The header's bytes, reserved bits 0.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        put32::<0, LEN>(&mut bytes, self.rkey);
        bytes
    }
}
