//! Datagram Extended Transport Header (IBTA volume 1, 9.3.2).

use super::field::{get24, get32, put24, put32};

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

    /// Q_Key.
    #[must_use]
    pub fn qkey(self) -> u32 {
        get32::<0, LEN>(self.0)
    }

    /// QP number of the sender.
    #[must_use]
    pub fn source(self) -> u32 {
        get24::<5, LEN>(self.0)
    }
}

/// The header as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deth {
    /// Q_Key.
    pub qkey: u32,
    /// QP number of the sender.
    pub source: u32,
}

impl Deth {
    /// Takes every field out of a view.
    #[must_use]
    pub fn parse(view: View<'_>) -> Self {
        Self {
            qkey: view.qkey(),
            source: view.source(),
        }
    }

    /// The header's bytes, reserved bits 0.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        put32::<0, LEN>(&mut bytes, self.qkey);
        put24::<5, LEN>(&mut bytes, self.source);
        bytes
    }
}
