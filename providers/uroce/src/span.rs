//! The occupied positions of a ring: completions of a queue, messages in flight.

/// A contiguous range of positions in use. The first position follows the last one.
#[derive(Debug, Default)]
pub struct Span {
    /// The position of the oldest.
    first: usize,
    length: usize,
}

impl Span {
    /// The first positions are in use, that many.
    #[must_use]
    pub fn from_start(length: usize) -> Self {
        Self { first: 0, length }
    }

    /// The number of positions in use.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.length
    }

    /// The position of the oldest.
    #[must_use]
    #[inline(always)]
    pub fn first(&self) -> usize {
        self.first
    }

    /// The position that far behind the oldest, in a ring of `places`.
    #[must_use]
    #[inline(always)]
    pub fn index(&self, behind: usize, places: usize) -> usize {
        let index = self.first + behind;
        if index >= places {
            index - places
        } else {
            index
        }
    }

    /// Adds a position behind the others.
    #[inline(always)]
    pub fn add(&mut self) {
        self.length += 1;
    }

    /// Releases the oldest position. There is one.
    #[inline(always)]
    pub fn pass(&mut self, places: usize) {
        self.first = self.index(1, places);
        self.length -= 1;
    }
}
