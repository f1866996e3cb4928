#![forbid(unsafe_code)]
//! Counts of 64 neighbouring pages, added to and taken from all at once.

/// Pages of one leaf.
pub const LEAF_PAGES: u64 = 64;

/// Binary digits of a count. A count that reaches the largest value stays there for good, so
/// that such a page errs on the protected side.
const DIGITS: usize = 31;

/// One count a page, stored by digit: bit `p` of `digits[d]` is digit `d` of the count of page
/// `p`. Adding 1 to any set of pages is then one ripple of carries, however many pages they are.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Leaf {
    digits: [u64; DIGITS],
    /// Digits in use: `digits[height..]` is zero.
    height: u32,
    /// What follows in the list of spare leaves.
    pub next_spare: u32,
}

impl Leaf {
    /// All counts 0.
    pub const EMPTY: Self = Self {
        digits: [0; DIGITS],
        height: 0,
        next_spare: 0,
    };

    /// Whether all counts are 0.
    pub fn is_empty(&self) -> bool {
        self.height == 0
    }

    fn used(&self) -> &[u64] {
        let height = DIGITS.min(self.height as usize);
        &self.digits[..height]
    }

    /// The pages whose count is 0.
    pub fn zeros(&self) -> u64 {
        !self.used().iter().fold(0, |any, digit| any | digit)
    }

    /// The pages whose count is 1.
    pub fn ones(&self) -> u64 {
        let Some((low, high)) = self.used().split_first() else {
            return 0;
        };
        low & !high.iter().fold(0, |any, digit| any | digit)
    }

    /// Both in one go.
    pub fn zeros_and_ones(&self) -> (u64, u64) {
        let Some((low, high)) = self.used().split_first() else {
            return (!0, 0);
        };
        let more = high.iter().fold(0, |any, digit| any | digit);
        (!(low | more), low & !more)
    }

    /// The pages whose count is the largest there is.
    fn full(&self) -> u64 {
        if (self.height as usize) < DIGITS {
            return 0;
        }
        self.digits.iter().fold(!0, |all, digit| all & digit)
    }

    /// Adds 1 to the count of each page of `pages`.
    pub fn add(&mut self, pages: u64) {
        let mut carry = pages & !self.full();
        for (digit, height) in self.digits.iter_mut().zip(1..) {
            if carry == 0 {
                return;
            }
            self.height = self.height.max(height);
            let next = *digit & carry;
            *digit ^= carry;
            carry = next;
        }
    }

    /// Takes 1 from the count of each page of `pages` that has one.
    pub fn remove(&mut self, pages: u64) {
        let mut borrow = pages & !self.zeros() & !self.full();
        for digit in &mut self.digits {
            if borrow == 0 {
                break;
            }
            let next = !*digit & borrow;
            *digit ^= borrow;
            borrow = next;
        }
        while self.used().last() == Some(&0) {
            self.height -= 1;
        }
    }

    #[cfg(test)]
    pub fn count(&self, page: u64) -> u64 {
        let digits = self.digits.iter().enumerate();
        digits.map(|(d, bits)| (bits >> page & 1) << d).sum()
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
        let mut leaf = Leaf {
            digits: [1; DIGITS],
            height: 31,
            next_spare: 0,
        };
        leaf.add(0b11);
        assert_eq!(leaf.count(0), (1 << DIGITS) - 1);
        assert_eq!(leaf.count(1), 1);
        leaf.remove(0b11);
        assert_eq!(leaf.count(0), (1 << DIGITS) - 1);
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
