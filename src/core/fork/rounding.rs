#![forbid(unsafe_code)]
//! From bytes to the whole pages that hold them.

use super::{
    counts::{LIMIT, Pages},
    page_size,
};
use kit::errno::{Errno, Result};
use std::collections::BTreeMap;

/// The pages that hold the bytes, all of the ordinary size.
///
/// # Errors
/// EINVAL when the range wraps around.
pub fn plain(addr: usize, len: usize) -> Result<Pages> {
    let size = page_size::base();
    let end = addr.checked_add(len).ok_or(Errno::INVAL)?;
    let end = end.checked_add(size - 1).ok_or(Errno::INVAL)?;
    // Divisions by a power of two, which the compiler does not know to be one; an address fits
    // in 64 bits.
    let bits = size.trailing_zeros();
    Ok((addr >> bits) as u64..(end >> bits) as u64)
}

/// [`plain`] by fewer steps; none for ranges that wrap around or cannot be
/// [counted](super::counts), and for others at addresses that no program has.
#[inline(always)]
pub fn countable(addr: usize, len: usize) -> Option<Pages> {
    /// Half of the countable range at the smallest page size of any system: so the end of a shorter
    /// range that begins below it can be counted, too.
    const HALF: u64 = LIMIT / 2 * 4096;
    // An address fits in 64 bits.
    let (addr, len) = (addr as u64, len as u64);
    if (addr | len) >= HALF {
        return None;
    }
    let size = page_size::base() as u64;
    let bits = size.trailing_zeros();
    Some(addr >> bits..(addr + len + (size - 1)) >> bits)
}

/// The pages that hold the bytes, with the first and the last of them as large as the mapping
/// there has them.
///
/// # Errors
/// EINVAL when the range wraps around.
pub fn huge(addr: usize, len: usize) -> Result<Pages> {
    let base = page_size::base();
    let end = addr.checked_add(len).ok_or(Errno::INVAL)?;
    let last = end.saturating_sub(1).max(addr);
    let first_size = page_size::at(addr).unwrap_or(base).max(base);
    let same_page = last / first_size == addr / first_size;
    let last_size = if same_page {
        first_size
    } else {
        page_size::at(last).unwrap_or(base).max(base)
    };
    pages(addr / first_size * first_size, end, last_size)
}

/// `start` is a page boundary; `end` is rounded up to `end_size`.
fn pages(start: usize, end: usize, end_size: usize) -> Result<Pages> {
    let base = page_size::base();
    let end = end.checked_next_multiple_of(end_size).ok_or(Errno::INVAL)?;
    // An address fits in 64 bits.
    Ok((start / base) as u64..(end / base) as u64)
}

/// The rounded bounds of live ranges, where they differ from [`plain`]: when a range is given back,
/// its mapping may have been removed, and its page size with it.
#[derive(Default)]
pub struct Rounding(BTreeMap<(usize, usize), Vec<Pages>>);

impl Rounding {
    /// Notes the pages of a new range.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn note(&mut self, addr: usize, len: usize, pages: &Pages) -> Result<()> {
        if plain(addr, len).as_ref() == Ok(pages) {
            return Ok(());
        }
        let noted = self.0.entry((addr, len)).or_default();
        noted.try_reserve(1).map_err(|_| Errno::NOMEM)?;
        noted.push(pages.clone());
        Ok(())
    }

    /// Whether every live range was rounded to its [`plain`] pages.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pages of the latest such range that was noted.
    pub fn lookup(&self, addr: usize, len: usize) -> Option<Pages> {
        self.0.get(&(addr, len))?.last().cloned()
    }

    /// Forgets the latest such range, if it was noted with these pages.
    pub fn take(&mut self, addr: usize, len: usize, pages: &Pages) {
        let Some(noted) = self.0.get_mut(&(addr, len)) else {
            return;
        };
        noted.pop_if(|last| last == pages);
        if noted.is_empty() {
            self.0.remove(&(addr, len));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages() {
        let size = rustix::param::page_size();
        assert_eq!(plain(size, size), Ok(1..2));
        assert_eq!(plain(size - 1, 2), Ok(0..2));
        assert_eq!(plain(1, 1), Ok(0..1));
        assert_eq!(plain(usize::MAX, 1), Err(Errno::INVAL));
        assert_eq!(plain(usize::MAX - 1, 1), Err(Errno::INVAL));
        assert_eq!(huge(usize::MAX, 9), Err(Errno::INVAL));
    }

    #[test]
    fn few_steps_come_to_the_same_pages() {
        let size = rustix::param::page_size();
        let half = usize::try_from(LIMIT / 2).unwrap() * 4096;
        let edges = [1, 2, size - 1, size, size + 1, 9 * size + 7, half - 1];
        for addr in edges {
            for len in edges {
                let pages = plain(addr, len).unwrap();
                assert!(pages.end <= LIMIT);
                assert_eq!(countable(addr, len), Some(pages));
            }
            assert_eq!(countable(addr, half), None);
            assert_eq!(countable(half, addr), None);
            assert_eq!(countable(addr, usize::MAX), None);
        }
    }

    #[test]
    fn unusual_roundings_are_noted_in_order() {
        let mut rounding = Rounding::default();
        let base = plain(4096, 1).unwrap();
        rounding.note(4096, 1, &base).unwrap();
        assert_eq!(rounding.lookup(4096, 1), None);
        rounding.note(4096, 1, &(0..512)).unwrap();
        rounding.note(4096, 1, &(0..1024)).unwrap();
        assert!(!rounding.is_empty());
        assert_eq!(rounding.lookup(4096, 1), Some(0..1024));
        rounding.take(4096, 1, &base);
        assert_eq!(rounding.lookup(4096, 1), Some(0..1024));
        rounding.take(4096, 1, &(0..1024));
        rounding.take(4096, 1, &(0..512));
        assert!(rounding.is_empty());
    }
}
