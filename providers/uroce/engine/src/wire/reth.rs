//! RDMA Extended Transport Header (IBTA volume 1, 9.3.3): where an RDMA operation works.

use super::field::{get32, get64, put32, put64};

/// Bytes of the header.
pub const LEN: usize = 16;

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

    /// Virtual address of the first byte, in the responder's terms.
    #[must_use]
    pub fn address(self) -> u64 {
        get64::<0, LEN>(self.0)
    }

    /// R_Key of the responder's memory.
    #[must_use]
    pub fn rkey(self) -> u32 {
        get32::<8, LEN>(self.0)
    }

    /// DMA length in bytes, of the whole message.
    #[must_use]
    pub fn length(self) -> u32 {
        get32::<12, LEN>(self.0)
    }
}

/// The header as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reth {
    /// Virtual address of the first byte, in the responder's terms.
    pub address: u64,
    /// R_Key of the responder's memory.
    pub rkey: u32,
    /// DMA length in bytes, of the whole message.
    pub length: u32,
}

impl Reth {
    /// Takes every field out of a view.
    #[must_use]
    pub fn parse(view: View<'_>) -> Self {
        Self {
            address: view.address(),
            rkey: view.rkey(),
            length: view.length(),
        }
    }

    /// The header's bytes, reserved bits 0.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        put64::<0, LEN>(&mut bytes, self.address);
        put32::<8, LEN>(&mut bytes, self.rkey);
        put32::<12, LEN>(&mut bytes, self.length);
        bytes
    }
}
