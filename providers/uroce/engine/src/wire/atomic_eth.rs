//! Atomic Extended Transport Header (IBTA volume 1, 9.3.4).

use super::field::{get32, get64, put32, put64};

/// Bytes of the header.
pub const LEN: usize = 28;

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

    /// Virtual address of the 8 bytes.
    #[must_use]
    pub fn address(self) -> u64 {
        get64::<0, LEN>(self.0)
    }

    /// R_Key of the responder's memory.
    #[must_use]
    pub fn rkey(self) -> u32 {
        get32::<8, LEN>(self.0)
    }

    /// The value to store (compare and swap) or to add (fetch and add).
    #[must_use]
    pub fn swap_add(self) -> u64 {
        get64::<12, LEN>(self.0)
    }

    /// The value compared with; unused by fetch and add.
    #[must_use]
    pub fn compare(self) -> u64 {
        get64::<20, LEN>(self.0)
    }
}

/// The header as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicEth {
    /// Virtual address of the 8 bytes.
    pub address: u64,
    /// R_Key of the responder's memory.
    pub rkey: u32,
    /// The value to store (compare and swap) or to add (fetch and add).
    pub swap_add: u64,
    /// The value compared with; unused by fetch and add.
    pub compare: u64,
}

impl AtomicEth {
    /// Takes every field out of a view.
    #[must_use]
    pub fn parse(view: View<'_>) -> Self {
        Self {
            address: view.address(),
            rkey: view.rkey(),
            swap_add: view.swap_add(),
            compare: view.compare(),
        }
    }

    /// The header's bytes, reserved bits 0.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        put64::<0, LEN>(&mut bytes, self.address);
        put32::<8, LEN>(&mut bytes, self.rkey);
        put64::<12, LEN>(&mut bytes, self.swap_add);
        put64::<20, LEN>(&mut bytes, self.compare);
        bytes
    }
}
