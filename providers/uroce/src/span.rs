//! A set of occupied places in a row that wraps around: completions of a queue, messages in flight.

/// Places in use, one behind the other; behind the last place of the row comes its first.
#[derive(Debug, Default)]
pub struct Span {
    /// Where the oldest is.
    first: usize,
    length: usize,
}

impl Span {
    /// So many are in use, from the first place on.
    #[must_use]
    pub fn from_start(length: usize) -> Self {
        Self { first: 0, length }
    }

    /// How many are in use.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Where the oldest is.
    #[must_use]
    #[inline(always)]
    pub fn first(&self) -> usize {
        self.first
    }

    /// The place so many behind the oldest, of a row of `places`.
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

    /// One more is in use, behind the others.
    #[inline(always)]
    pub fn add(&mut self) {
        self.length += 1;
    }

    /// The oldest is in use no more. There is one.
    #[inline(always)]
    pub fn pass(&mut self, places: usize) {
        self.first = self.index(1, places);
        self.length -= 1;
    }
}
