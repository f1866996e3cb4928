//! FLUSH Extended Transport Header (IBTA volume 1, annex A19).

use super::field::{get32, put32};

/// Bytes of the header.
pub const LEN: usize = 4;

/// Placement type: made visible to every other reader.
pub const GLOBAL: u8 = 1;
/// Placement type: made persistent.
pub const PERSISTENT: u8 = 2;
/// Selectivity level: the range in the RETH.
pub const RANGE: u8 = 0;
/// Selectivity level: the whole memory region.
pub const REGION: u8 = 1;

/// The header in place. No accessor can fail: the length was checked by [`View::split`].
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(&'a [u8; LEN]);

impl<'a> View<'a> {
    /// Splits `bytes` into the header and the rest; `None` if `bytes` is too short.
    #[must_use]
    pub fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (head, rest) = bytes.split_first_chunk()?;
        Some((Self(head), rest))
    }

    /// PLT: a set of [`GLOBAL`] and [`PERSISTENT`].
    #[must_use]
    pub fn placement(self) -> u8 {
        self.0[3] & 0xf
    }

    /// SEL: [`RANGE`] or [`REGION`]; 2 and 3 are reserved.
    #[must_use]
    pub fn selectivity(self) -> u8 {
        (self.0[3] >> 4) & 3
    }

    /// The bits that have no meaning yet, in place.
    #[must_use]
    pub fn reserved(self) -> u32 {
        get32::<0, LEN>(self.0) & !0x3f
    }
}

/// The header as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feth {
    /// PLT: a set of [`GLOBAL`] and [`PERSISTENT`].
    pub placement: u8,
    /// SEL: [`RANGE`] or [`REGION`].
    pub selectivity: u8,
}

impl Feth {
    /// Takes every field out of a view.
    #[must_use]
    pub fn parse(view: View<'_>) -> Self {
        Self {
            placement: view.placement(),
            selectivity: view.selectivity(),
        }
    }

    /// The header's bytes, reserved bits 0.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        put32::<0, LEN>(
            &mut bytes,
            u32::from(self.selectivity & 3) << 4 | u32::from(self.placement & 0xf),
        );
        bytes
    }
}
