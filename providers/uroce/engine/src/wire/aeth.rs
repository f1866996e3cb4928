//! ACK Extended Transport Header (IBTA volume 1, 9.3.5).

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

    /// Syndrome; [`super::Syndrome`] reads it.
    #[must_use]
    pub fn syndrome(self) -> u8 {
        self.0[0]
    }

    /// Message sequence number: messages completed by the responder, modulo 2^24.
    #[must_use]
    pub fn msn(self) -> u32 {
        get24::<1, LEN>(self.0)
    }
}

/// The header as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aeth {
    /// Syndrome; [`super::Syndrome`] reads it.
    pub syndrome: u8,
    /// Message sequence number: messages completed by the responder, modulo 2^24.
    pub msn: u32,
}

impl Aeth {
    /// Takes every field out of a view.
    #[must_use]
    pub fn parse(view: View<'_>) -> Self {
        Self {
            syndrome: view.syndrome(),
            msn: view.msn(),
        }
    }

    /// The header's bytes, reserved bits 0.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[0] = self.syndrome;
        put24::<1, LEN>(&mut bytes, self.msn);
        bytes
    }
}
