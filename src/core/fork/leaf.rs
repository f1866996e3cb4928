#![forbid(unsafe_code)]
//! Counts of 64 neighbouring pages, added to and taken from all at once.

/// Pages of one leaf.
pub const LEAF_PAGES: u64 = 64;

/// Binary digits of what a count has above 2. A count that reaches the largest value stays there
/// for good, so that such a page errs on the protected side.
const DIGITS: usize = 28;

/// One count a page. Whether it is 1 or more, and 2 or more, is what is asked for, so there is a
/// bit a page for each, and one for 3 or more; what it has above 2 is stored by digit: bit `p` of `digits[d]` is digit
/// `d` for page `p`. Adding 1 to any set of pages is then one ripple of carries, however many
/// pages they are.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Leaf {
    /// Pages whose count is 1 or more.
    some: u64,
    /// Pages whose count is 2 or more.
    shared: u64,
    /// Pages whose count is 3 or more: those with a digit that is not 0.
    many: u64,
    digits: [u64; DIGITS],
    /// Digits in use: `digits[height..]` is zero.
    height: u32,
    /// What follows in the list of spare leaves.
    pub next_spare: u32,
}

impl Leaf {
    /// All counts 0.
    pub const EMPTY: Self = Self {
        some: 0,
        shared: 0,
        many: 0,
        digits: [0; DIGITS],
        height: 0,
        next_spare: 0,
    };

    /// Whether all counts are 0.
    pub fn is_empty(&self) -> bool {
        self.some == 0
    }

    /// The pages whose count is 0.
    pub fn zeros(&self) -> u64 {
        !self.some
    }

    /// The pages whose count is 1.
    pub fn ones(&self) -> u64 {
        self.some & !self.shared
    }

    /// The pages whose count is the largest there is.
    fn full(&self) -> u64 {
        if (self.height as usize) < DIGITS {
            return 0;
        }
        self.digits.iter().fold(!0, |all, digit| all & digit)
    }

    /// Adds 1 to the count of each page of `pages`.
    #[inline]
    pub fn add(&mut self, pages: u64) {
        let again = pages & self.some;
        let more = again & self.shared;
        self.some |= pages;
        self.shared |= again;
        if more != 0 {
            self.carry(more);
        }
    }

    fn carry(&mut self, pages: u64) {
        let mut carry = pages & !self.full();
        self.many |= carry;
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
    #[inline]
    pub fn remove(&mut self, pages: u64) {
        let shared = pages & self.shared;
        // What counts 1 leaves the first set, what counts 2 the second.
        self.some &= !pages | self.shared;
        let more = shared & self.many;
        self.shared ^= shared & !more;
        if more != 0 {
            self.borrow(more);
        }
    }

    fn borrow(&mut self, pages: u64) {
        let mut borrow = pages & !self.full();
        let height = DIGITS.min(self.height as usize);
        let mut many = 0;
        for digit in &mut self.digits[..height] {
            let next = !*digit & borrow;
            *digit ^= borrow;
            borrow = next;
            many |= *digit;
        }
        self.many = many;
        while self.digits[..self.height as usize].last() == Some(&0) {
            self.height -= 1;
        }
    }

    #[cfg(test)]
    pub fn count(&self, page: u64) -> u64 {
        let digits = self.digits.iter().enumerate();
        let above_two: u64 = digits.map(|(d, bits)| (bits >> page & 1) << d).sum();
        (self.some >> page & 1) + (self.shared >> page & 1) + above_two
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
    fn the_largest_count_stays() {
        const LARGEST: u64 = (1 << DIGITS) + 1;
        let mut leaf = Leaf {
            some: 1,
            shared: 1,
            many: 1,
            digits: [1; DIGITS],
            height: 28,
            next_spare: 0,
        };
        leaf.add(0b11);
        assert_eq!(leaf.count(0), LARGEST);
        assert_eq!(leaf.count(1), 1);
        leaf.remove(0b11);
        assert_eq!(leaf.count(0), LARGEST);
        assert_eq!(leaf.zeros(), !1);
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
