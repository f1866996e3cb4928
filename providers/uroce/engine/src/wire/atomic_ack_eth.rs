//! Atomic ACK Extended Transport Header (IBTA volume 1, 9.3.5.3).

use super::field::{get64, put64};

/// Bytes of the header.
pub const LEN: usize = 8;

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

    /// What the memory held before the operation.
    #[must_use]
    pub fn original(self) -> u64 {
        get64::<0, LEN>(self.0)
    }
}

/// The header as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicAckEth {
    /// What the memory held before the operation.
    pub original: u64,
}

impl AtomicAckEth {
    /// Takes every field out of a view.
    #[must_use]
    pub fn parse(view: View<'_>) -> Self {
        Self {
            original: view.original(),
        }
    }

    /// The header's bytes, reserved bits 0.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        put64::<0, LEN>(&mut bytes, self.original);
        bytes
    }
}
