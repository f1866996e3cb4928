#![forbid(unsafe_code)]
//! Counts of 64 neighbouring pages, added to and taken from all at once.

/// Pages of one leaf.
pub const LEAF_PAGES: u64 = 64;

/// Binary digits of a count that every change goes through: pages in more than 15 ranges are
/// rare, and a loop that ends early takes longer than these four.
const LOW: usize = 4;
/// The digits above them. A count that reaches the largest value stays there for good, so that
/// such a page errs on the protected side.
const DIGITS: usize = 25;

/// One count a page, stored by digit: bit `p` of a word is the word's digit for page `p`. Adding
/// 1 to any set of pages is then one ripple of carries, however many pages they are.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Leaf {
    /// Pages with a digit in `digits` that is not 0.
    high: u64,
    low: [u64; LOW],
    /// Pages whose count is not 0: those with any digit that is not 0.
    some: u64,
    digits: [u64; DIGITS],
    /// Digits in use: `digits[height..]` is zero.
    height: u32,
    /// The next leaf in the list of spare leaves.
    pub next_spare: u32,
}

impl Leaf {
    /// All counts 0.
    pub const EMPTY: Self = Self {
        high: 0,
        low: [0; LOW],
        some: 0,
        digits: [0; DIGITS],
        height: 0,
        next_spare: 0,
    };

    /// Whether all counts are 0.
    pub fn is_empty(&self) -> bool {
        self.some == 0
    }

    /// The pages whose count is 0.
    #[inline]
    pub fn zeros(&self) -> u64 {
        !self.some
    }

    /// The pages whose count is 1.
    #[inline]
    pub fn ones(&self) -> u64 {
        self.some & !self.shared()
    }

    /// The pages whose count is 2 or more.
    #[inline]
    fn shared(&self) -> u64 {
        let [_, twos, fours, eights] = self.low;
        twos | fours | eights | self.high
    }

    /// Whether no page of `pages` counts 0.
    #[inline(always)]
    pub fn has(&self, pages: u64) -> bool {
        pages & self.zeros() == 0
    }

    /// Whether [`take`](Self::take) may be called with `pages`.
    #[inline(always)]
    pub fn can_spare(&self, pages: u64) -> bool {
        pages & !self.shared() == 0 && (self.height as usize) < DIGITS
    }

    /// The pages whose count is the maximum.
    fn full(&self) -> u64 {
        if (self.height as usize) < DIGITS {
            return 0;
        }
        let digits = self.low.iter().chain(&self.digits);
        digits.fold(!0, |all, digit| all & digit)
    }

    /// Adds 1 to the count of each page of `pages`.
    #[inline(always)]
    pub fn add(&mut self, pages: u64) {
        self.some |= pages;
        let mut carry = pages;
        for digit in &mut self.low {
            let next = *digit & carry;
            *digit ^= carry;
            carry = next;
        }
        if carry != 0 {
            self.carry(carry);
        }
    }

    #[cold]
    #[inline(never)]
    fn carry(&mut self, pages: u64) {
        let full = self.digits.iter().fold(pages, |all, digit| all & digit);
        for digit in &mut self.low {
            *digit |= full;
        }
        let mut carry = pages & !full;
        self.high |= carry;
        for (digit, height) in self.digits.iter_mut().zip(1..) {
            let next = *digit & carry;
            *digit ^= carry;
            carry = next;
            if carry == 0 {
                self.height = self.height.max(height);
                return;
            }
        }
    }

    /// Takes 1 from the count of each page of `pages` that has one.
    #[inline(always)]
    pub fn remove(&mut self, pages: u64) {
        let counted = pages & self.some & !self.full();
        self.some &= !(counted & self.ones());
        self.ripple_down(counted);
    }

    /// Takes 1 from the count of each page of `pages`: none of them counts less than 2, or as
    /// much as can be.
    #[inline(always)]
    pub fn take(&mut self, pages: u64) {
        self.ripple_down(pages);
    }

    #[inline(always)]
    fn ripple_down(&mut self, pages: u64) {
        let mut borrow = pages;
        for digit in &mut self.low {
            *digit ^= borrow;
            // A digit that is 1 now was 0.
            borrow &= *digit;
        }
        if borrow != 0 {
            self.borrow(borrow);
        }
    }

    #[cold]
    #[inline(never)]
    fn borrow(&mut self, pages: u64) {
        let mut borrow = pages;
        let height = DIGITS.min(self.height as usize);
        let mut high = 0;
        for digit in &mut self.digits[..height] {
            *digit ^= borrow;
            borrow &= *digit;
            high |= *digit;
        }
        self.high = high;
        while self.digits[..self.height as usize].last() == Some(&0) {
            self.height -= 1;
        }
    }

    #[cfg(test)]
    pub fn count(&self, page: u64) -> u64 {
        let digits = self.low.iter().chain(&self.digits).enumerate();
        let count = digits.map(|(d, bits)| (bits >> page & 1) << d).sum();
        assert_eq!(self.some >> page & 1, u64::from(count > 0));
        count
    }
}

/// The bits of the pages `from..to` of a leaf; `to` is 64 at most.
pub fn mask(from: u64, to: u64) -> u64 {
    if from >= to {
        return 0;
    }
    (!0 >> (LEAF_PAGES - (to - from))) << from
}

/// The runs of set bits, lowest first, as `from..to`.
pub fn runs(mut bits: u64) -> impl Iterator<Item = (u64, u64)> {
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let from = bits.trailing_zeros();
        let to = from + (bits >> from).trailing_ones();
        bits &= if to < u64::BITS { !0 << to } else { 0 };
        Some((from.into(), to.into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_up_and_down() {
        let mut leaf = Leaf::EMPTY;
        for n in 0..1000 {
            assert_eq!(leaf.count(3), n);
            leaf.add(mask(3, 5));
        }
        assert_eq!(leaf.zeros(), !mask(3, 5));
        for _ in 0..999 {
            leaf.remove(mask(0, 64));
        }
        assert_eq!(leaf.ones(), mask(3, 5));
        leaf.remove(!0);
        assert!(leaf.is_empty());
    }

    #[test]
    fn takes_what_counts() {
        let mut leaf = Leaf::EMPTY;
        for n in 0..40 {
            assert_eq!(leaf.has(mask(0, 9)), n > 0);
            assert_eq!(leaf.can_spare(mask(0, 9)), n > 1);
            leaf.add(mask(0, 10));
        }
        assert!(!leaf.has(mask(9, 11)) && !leaf.can_spare(mask(9, 11)));
        for n in (1..40).rev() {
            leaf.take(mask(3, 5));
            assert_eq!([leaf.count(2), leaf.count(3), leaf.count(4)], [40, n, n]);
        }
        assert!(leaf.has(mask(3, 5)) && !leaf.can_spare(mask(4, 6)));
        leaf.remove(mask(2, 64));
        assert_eq!([leaf.count(1), leaf.count(2), leaf.count(3)], [40, 39, 0]);
    }

    #[test]
    fn the_largest_count_stays() {
        const LARGEST: u64 = (1 << (LOW + DIGITS)) - 1;
        let mut leaf = Leaf {
            high: 0b101,
            low: [0b101; LOW],
            some: 0b101,
            digits: [0b101; DIGITS],
            height: 25,
            next_spare: 0,
        };
        leaf.low[0] = 0b001;
        let counts = |leaf: &Leaf| [0, 1, 2].map(|page| leaf.count(page));
        leaf.add(0b111);
        assert_eq!(counts(&leaf), [LARGEST, 1, LARGEST]);
        leaf.add(0b111);
        assert_eq!(counts(&leaf), [LARGEST, 2, LARGEST]);
        assert!(!leaf.can_spare(0b111), "this takes a closer look");
        leaf.remove(0b111);
        assert_eq!(counts(&leaf), [LARGEST, 1, LARGEST]);
        assert_eq!(leaf.zeros(), !0b111);
    }

    #[test]
    fn masks_and_runs() {
        assert_eq!(mask(0, 64), !0);
        assert_eq!(mask(63, 64), 1 << 63);
        assert_eq!(mask(5, 5), 0);
        let all = |bits| runs(bits).collect::<Vec<_>>();
        assert_eq!(all(0), []);
        assert_eq!(all(!0), [(0, 64)]);
        assert_eq!(all(0b1011 | 1 << 63), [(0, 2), (3, 4), (63, 64)]);
    }
}
