#![forbid(unsafe_code)]
//! The objects behind the program's descriptors.

use kit::sys::lock::Lock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Limit of descriptor numbers: a larger number is never an rsocket.
const MOST: usize = 1 << 16;
/// Flag of an entry that is in use.
const THERE: u64 = 1 << 63;

/// The object behind a descriptor of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// One of `enum kind` in `preload.h`; never 0.
    pub kind: u16,
    /// The descriptor that the calls use in its place.
    pub inner: i32,
}

/// By descriptor.
static ENTRIES: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
/// Number of program descriptors that share a used descriptor.
static USES: [AtomicU32; MOST] = [const { AtomicU32::new(0) }; MOST];

/// Kind of an entry: a set of descriptors.
const SET: u16 = 7;
/// The descriptors that are sets.
static SETS: Lock<Vec<i32>> = Lock::new(Vec::new());

impl Entry {
    fn packed(self) -> u64 {
        THERE | u64::from(self.kind) << 32 | u64::from(self.inner.cast_unsigned())
    }

    fn unpacked(packed: u64) -> Option<Self> {
        let [a, b, c, d, e, f, ..] = packed.to_le_bytes();
        let entry = Self {
            kind: u16::from_le_bytes([e, f]),
            inner: i32::from_le_bytes([a, b, c, d]),
        };
        (packed != 0).then_some(entry)
    }
}

fn at<T>(array: &'static [T; MOST], fd: i32) -> Option<&'static T> {
    array.get(usize::try_from(fd).ok()?)
}

/// The object behind a descriptor; none for an ordinary descriptor.
pub fn find(fd: i32) -> Option<Entry> {
    Entry::unpacked(at(&ENTRIES, fd)?.load(Ordering::Acquire))
}

/// Records the object behind a descriptor. False if there is no room for it.
pub fn put(fd: i32, entry: Entry) -> bool {
    let (Some(place), Some(uses)) = (at(&ENTRIES, fd), at(&USES, entry.inner)) else {
        return false;
    };
    if entry.kind == SET {
        SETS.lock().push(fd);
    }
    uses.fetch_add(1, Ordering::AcqRel);
    place.store(entry.packed(), Ordering::Release);
    true
}

/// Replaces the object behind a descriptor, which is never without one meanwhile: other threads use
/// it. Returns the previous object as [`take`] does; None if there is no room. The new one is no
/// set.
pub fn exchange(fd: i32, entry: Entry) -> Option<Option<(Entry, bool)>> {
    let (place, uses) = (at(&ENTRIES, fd)?, at(&USES, entry.inner)?);
    uses.fetch_add(1, Ordering::AcqRel);
    let before = Entry::unpacked(place.swap(entry.packed(), Ordering::AcqRel));
    Some(before.and_then(|before| end_use(fd, before)))
}

fn end_use(fd: i32, entry: Entry) -> Option<(Entry, bool)> {
    if entry.kind == SET {
        SETS.lock().retain(|set| *set != fd);
    }
    let uses = at(&USES, entry.inner)?;
    Some((entry, uses.fetch_sub(1, Ordering::AcqRel) == 1))
}

/// Makes a descriptor ordinary again. Returns the object behind it, and whether no other descriptor
/// has the same.
pub fn take(fd: i32) -> Option<(Entry, bool)> {
    end_use(
        fd,
        Entry::unpacked(at(&ENTRIES, fd)?.swap(0, Ordering::AcqRel))?,
    )
}

/// The next set after a descriptor, in order of numbers.
pub fn set_behind(fd: i32) -> Option<i32> {
    let sets = SETS.lock();
    sets.iter().copied().filter(|set| *set > fd).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_entry_of_a_descriptor_is_reported() {
        let entry = Entry { kind: 3, inner: 7 };
        assert_eq!(find(60000), None);
        assert!(put(60000, entry) && put(60001, entry));
        assert_eq!((find(60000), find(60001)), (Some(entry), Some(entry)));
        assert_eq!(take(60000), Some((entry, false)));
        assert_eq!(take(60000), None);
        assert_eq!(take(60001), Some((entry, true)));
    }

    #[test]
    fn an_exchange_ends_the_use_of_the_previous_object() {
        let (tcp, rsocket) = (Entry { kind: 6, inner: 17 }, Entry { kind: 1, inner: 18 });
        assert_eq!(exchange(60020, tcp), Some(None));
        assert_eq!(exchange(60020, rsocket), Some(Some((tcp, true))));
        assert_eq!(exchange(60020, rsocket), Some(Some((rsocket, false))));
        assert_eq!(find(60020), Some(rsocket));
        let set = Entry {
            kind: SET,
            inner: 19,
        };
        assert!(put(60021, set));
        assert_eq!(exchange(60021, rsocket), Some(Some((set, true))));
        assert_eq!(set_behind(60020), None);
        assert_eq!(take(60021), Some((rsocket, false)));
        assert_eq!(take(60020), Some((rsocket, true)));
        assert_eq!(exchange(-1, tcp), None);
    }

    #[test]
    fn sets_are_reported_in_order() {
        let set = Entry {
            kind: SET,
            inner: 9,
        };
        assert!(put(60011, set) && put(60010, set));
        assert_eq!(set_behind(-1), Some(60010));
        assert_eq!(set_behind(60010), Some(60011));
        assert_eq!(set_behind(60011), None);
        assert_eq!(take(60010), Some((set, false)));
        assert_eq!(set_behind(0), Some(60011));
        assert_eq!(take(60011), Some((set, true)));
    }

    #[test]
    fn there_is_no_room_for_numbers_that_are_too_large() {
        let entry = Entry { kind: 1, inner: 0 };
        let too_large = i32::try_from(MOST).unwrap();
        assert!(!put(too_large, entry) && !put(-1, entry));
        let inner = Entry {
            inner: too_large,
            ..entry
        };
        assert!(!put(60002, inner));
        assert_eq!(find(too_large), None);
        assert_eq!(find(-1), None);
    }
}
