//! A few words that one process writes and others read, whole or not at all (a sequence lock).
//!
//! The first word counts: it is odd while the others change. A reader that finds it odd, or changed
//! afterwards, has read nothing. It does not wait, because the writer may have died there.

use kit::sys::shared::ReadOnlyWord;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

/// Writes the words behind the count. By one at a time.
pub fn write<const N: usize>(place: &[AtomicU64], words: [u64; N]) {
    let Some((count, places)) = place.split_first() else {
        return;
    };
    let before = count.load(Relaxed);
    count.store(before | 1, Relaxed);
    // No reader sees a new word without the odd count.
    fence(Release);
    for (place, word) in places.iter().zip(words) {
        place.store(word, Relaxed);
    }
    count.store((before | 1).wrapping_add(1), Release);
}

/// Reads the count and the words, if they are not being written.
pub fn read<const N: usize>(place: &[ReadOnlyWord]) -> Option<(u64, [u64; N])> {
    let (count, places) = place.split_first()?;
    let before = count.load(Acquire);
    let places = places.first_chunk::<N>()?;
    let words = places.each_ref().map(|place| place.load(Relaxed));
    // The words were read before the count is read again.
    fence(Acquire);
    let same = before & 1 == 0 && count.load(Relaxed) == before;
    same.then_some((before, words))
}

/// Whether the words are still those that were read with that count.
#[inline]
pub fn is_still(place: &[ReadOnlyWord], count: u64) -> bool {
    place.first().is_some_and(|now| now.load(Acquire) == count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn seen(place: &[AtomicU64]) -> &[ReadOnlyWord] {
        ReadOnlyWord::of(place)
    }

    #[test]
    fn words_are_read_whole() {
        let place: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 1..200_000 {
                    write(&place, [turn, turn + 1, turn + 2]);
                }
                done.store(true, Release);
            });
            let mut last = 0;
            while !done.load(Acquire) {
                if let Some([a, b, c]) = read(seen(&place))
                    .map(|(_, words)| words)
                    .filter(|words| *words != [0; 3])
                {
                    assert_eq!((b, c), (a + 1, a + 2));
                    assert!(a >= last);
                    last = a;
                }
            }
        });
        let last = Some((399_998, [199_999, 200_000, 200_001]));
        assert_eq!(read(seen(&place)), last);
    }

    #[test]
    fn a_half_written_record_is_none() {
        let place: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(1)).collect();
        assert_eq!(read::<2>(seen(&place)), None);
        write(&place, [7, 8]);
        assert_eq!(read(seen(&place)), Some((2, [7, 8])));
        assert_eq!(read::<9>(seen(&place)), None);
    }

    #[test]
    fn a_read_record_is_known_to_be_current() {
        let place: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
        let (count, _) = read::<2>(seen(&place)).expect("whole");
        assert!(is_still(seen(&place), count));
        place[0].store(1, Relaxed);
        assert!(!is_still(seen(&place), count));
        write(&place, [0, 0]);
        assert!(!is_still(seen(&place), count));
    }
}
