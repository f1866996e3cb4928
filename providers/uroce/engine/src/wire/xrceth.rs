//! XRC Extended Transport Header (IBTA volume 1, annex A14).

use super::field::{get24, put24};

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

    /// Number of the shared receive queue that the request is for.
    #[must_use]
    pub fn srqn(self) -> u32 {
        get24::<1, LEN>(self.0)
    }
}

/// The header as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XrcEth {
    /// Number of the shared receive queue that the request is for.
    pub srqn: u32,
}

impl XrcEth {
    /// Takes every field out of a view.
    #[must_use]
    pub fn parse(view: View<'_>) -> Self {
        Self { srqn: view.srqn() }
    }

    /// The header's bytes, reserved bits 0.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        put24::<1, LEN>(&mut bytes, self.srqn);
        bytes
    }
}
