//! Data that is copied while it is posted.

use crate::abi::ibv_sge;
use core::ptr::with_exposed_provenance;

/// The pieces of an inline request, in order. They are the application's memory, which it leaves
/// alone until the request is posted.
#[derive(Clone, Copy)]
pub struct Pieces<'a>(&'a [ibv_sge]);

impl<'a> Pieces<'a> {
    /// The pieces that the elements of a request name; their keys are not looked at.
    ///
    /// # Safety
    /// Each element with a length names readable bytes of this process that are not written during
    /// `'a`; no bytes, if it is at address 0.
    pub(super) unsafe fn new(elements: &'a [ibv_sge]) -> Self {
        Self(elements)
    }

    /// How many pieces there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Bytes in all. Nothing of the data is touched for it.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.iter().fold(0usize, |sum, piece| {
            sum.saturating_add(usize::try_from(piece.length).unwrap_or(usize::MAX))
        })
    }

    /// The bytes of each piece.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        // SAFETY: `new` was promised readable bytes.
        self.0.iter().map(|piece| unsafe { bytes(piece) })
    }

    /// The bytes, if they are in one piece.
    #[inline]
    #[must_use]
    pub fn only(&self) -> Option<&'a [u8]> {
        match self.0 {
            // SAFETY: as above.
            [piece] => Some(unsafe { bytes(piece) }),
            _ => None,
        }
    }
}

/// # Safety
/// As for [`Pieces::new`], for this element.
#[inline]
unsafe fn bytes<'a>(piece: &ibv_sge) -> &'a [u8] {
    let (Ok(address), Ok(length)) = (usize::try_from(piece.addr), usize::try_from(piece.length))
    else {
        return &[];
    };
    if address == 0 {
        return &[];
    }
    // SAFETY: vouched for by the caller; of no bytes, any address will do.
    unsafe { core::slice::from_raw_parts(with_exposed_provenance(address), length) }
}
