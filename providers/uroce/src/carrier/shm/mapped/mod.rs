//! Regions of peers that are mapped here, so that RDMA writes and reads are copies of this process.
//!
//! | type | contents |
//! | --- | --- |
//! | [`MappedRegion`] | a region of a peer, as it is mapped here |
//! | [`MappedRegions`] | those of a peer, and the keys that were looked for in vain |
//!
//! *Which regions.* Those in a memfd that is sealed against being shortened, as device memory is
//! (`kit::sys::sealed_file` says why no others): `find` looks in /proc for the file, without help
//! of the peer. That takes some 100 µs, so a queue pair asks for it only for a key that it has used
//! [`WORTHWHILE`] times, each registration is looked for once, and a process spends at most a
//! thirtieth of its time on it ([`SPARE`]).
//!
//! *Until when.* A mapping keeps memory that the peer has given back. So a region is unmapped after
//! a second in which it was not used ([`IDLE`]), with the last request that uses it. An idle
//! process has no mapping, and no timer for any.
//!
//! *Revocation.* As for copies by the kernel (`onesided`), except that a copy cannot be taken away
//! from a thread that is stopped in the middle of it: such a claim says so, and is awaited.
#![forbid(unsafe_code)]

mod find;

use super::onesided::Shown;
use find::file_behind;
use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use kit::sys::application::ApplicationMemory;
use kit::sys::cycles;
use kit::sys::other_process::Source;
use kit::sys::sealed_file::SealedFile;
use rustix::process::Pid;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How often a queue pair uses a key before it asks for a mapping.
pub const WORTHWHILE: u32 = 32;
/// Nanoseconds after which a region that was not used is unmapped.
pub const IDLE: u64 = 1_000_000_000;
/// Time between two searches, in times of the one before.
const SPARE: u64 = 30;
/// Keys of a peer that are remembered.
const KEYS: usize = 1024;

/// A region of a peer.
#[derive(Debug)]
pub struct MappedRegion {
    file: SealedFile,
    /// Where it begins in the peer.
    address: u64,
    /// Its key, and how often that had been changed.
    key: (u32, u64),
    /// Since it was looked at for [`IDLE`].
    used: AtomicBool,
}

impl MappedRegion {
    /// Whether it is the region that the key has now.
    #[must_use]
    #[inline]
    pub fn is_of(&self, shown: &Shown) -> bool {
        (shown.rkey(), shown.key_count()) == self.key
    }

    /// The key that it has.
    #[must_use]
    #[inline]
    pub fn rkey(&self) -> u32 {
        let (rkey, _) = self.key;
        rkey
    }

    /// Writes bytes to an address of the peer, the last ones after all others; returns how many.
    ///
    /// # Errors
    /// EFAULT out of the region; bytes may have been written.
    #[inline]
    pub fn write(&self, address: u64, from: Source<'_>) -> Result<usize> {
        let written = self.file.write(self.offset(address)?, from);
        written.map_err(|_| Errno(libc::EFAULT))
    }

    /// Reads bytes from an address of the peer on into all pieces; returns how many.
    ///
    /// # Errors
    /// EFAULT out of the region; bytes may have been read.
    #[inline]
    pub fn read(&self, address: u64, to: &[ApplicationMemory]) -> Result<usize> {
        let read = self.file.read(self.offset(address)?, to);
        read.map_err(|_| Errno(libc::EFAULT))
    }

    #[inline]
    fn offset(&self, address: u64) -> Result<usize> {
        if !self.used.load(Relaxed) {
            self.used.store(true, Relaxed);
        }
        let offset = address.checked_sub(self.address);
        let offset = offset.and_then(|offset| usize::try_from(offset).ok());
        offset.ok_or(Errno(libc::EFAULT))
    }
}

/// The outcome of a search for the region of a key.
#[derive(Debug)]
enum Found {
    Region(Arc<MappedRegion>),
    /// It is no region that can be mapped, as of that change of the key.
    Nothing(u64),
}

/// The regions of a peer.
#[derive(Debug, Default)]
pub struct MappedRegions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    by_key: HashMap<u32, Found>,
    /// When the last search ended, in cycles, and how long none follows.
    searched: Option<(u64, u64)>,
}

impl State {
    fn is_too_soon(&self) -> bool {
        let since = |(ended, wait): (u64, u64)| cycles::now().wrapping_sub(ended) < wait;
        self.searched.is_some_and(since)
    }
}

impl MappedRegions {
    /// The region of a key of a process, mapped now if need be; `None` if it cannot be, or not at
    /// the moment. The second value says whether it was mapped now.
    pub fn get(&self, process: Pid, shown: &Shown) -> Option<(Arc<MappedRegion>, bool)> {
        let state = &mut *self.0.lock();
        match state.by_key.get(&shown.rkey()) {
            Some(Found::Region(region)) if region.is_of(shown) => {
                return Some((Arc::clone(region), false));
            }
            Some(Found::Nothing(count)) if *count == shown.key_count() => return None,
            _ => {}
        }
        if state.is_too_soon() {
            return None;
        }
        let began = cycles::now();
        let region = map(process, shown).ok().map(Arc::new);
        let ended = cycles::now();
        let took = ended.wrapping_sub(began);
        state.searched = Some((ended, took.saturating_mul(SPARE)));
        if state.by_key.len() >= KEYS {
            state.by_key.clear();
        }
        let found = match &region {
            Some(region) => Found::Region(Arc::clone(region)),
            None => Found::Nothing(shown.key_count()),
        };
        state.by_key.insert(shown.rkey(), found);
        region.map(|region| (region, true))
    }

    /// Forgets the regions that were not used since the last call; returns whether any is left.
    pub fn forget_idle(&self) -> bool {
        let mut any = false;
        self.0.lock().by_key.retain(|_, found| match found {
            Found::Region(region) => {
                let is_used = region.used.swap(false, Relaxed);
                any |= is_used;
                is_used
            }
            Found::Nothing(_) => true,
        });
        any
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.0.lock().by_key.clear();
    }
}

fn map(process: Pid, shown: &Shown) -> Result<MappedRegion> {
    let address = shown.key.address;
    let end = address.checked_add(shown.key.length).ok_or(Errno::INVAL)?;
    let (file, place) = file_behind(process, &(address..end))?;
    Ok(MappedRegion {
        file: SealedFile::map(file.as_fd(), place)?,
        address,
        key: (shown.rkey(), shown.key_count()),
        used: AtomicBool::new(true),
    })
}

#[cfg(test)]
mod tests {
    use super::super::onesided::{Gate, Key};
    use super::super::segment::{PeerSegment, Segment};
    use super::*;
    use kit::sys::scratch::Scratch;
    use kit::sys::shared::Shared;
    use rustix::process::getpid;
    use std::sync::atomic::Ordering::SeqCst;

    const INDEX: u32 = 3;
    const RKEY: u32 = 1 << 8 | 7;

    /// A region of this process, as its peers are shown it.
    fn show(segment: &Segment, seen: &PeerSegment, address: usize, length: usize) -> Shown {
        let gate = Gate {
            peer: 1,
            generation: 2,
            pd: 4,
            pkey: 0xffff,
            write: true,
            read: true,
            awaits_use: false,
            credits: false,
        };
        let key = Key {
            tag: 7,
            access: 6,
            pd: Some(4),
            qpn: None,
            base: 0,
            length: u64::try_from(length).expect("64 bits"),
            address: u64::try_from(address).expect("64 bits"),
        };
        segment.show_gate(INDEX, Some(gate));
        segment.show_key(RKEY >> 8, Some(key));
        seen.shown(INDEX, RKEY).expect("shown")
    }

    /// The region, once another search is permitted.
    fn get(regions: &MappedRegions, shown: &Shown) -> (Arc<MappedRegion>, bool) {
        loop {
            if let Some(found) = regions.get(getpid(), shown) {
                return found;
            }
        }
    }

    #[test]
    fn a_region_is_mapped_until_it_is_idle_or_its_key_changes() {
        let (segment, fd) = Segment::create(5, 9).expect("a segment");
        let seen = PeerSegment::map(fd.as_fd(), 5, 9).expect("mapped");
        let (memory, _file) = Shared::create(c"uroce-test", 1 << 16).expect("memory");
        let start = memory.words().as_ptr().addr();
        let shown = show(&segment, &seen, start + 8, 1000);
        let regions = MappedRegions::default();
        let (region, is_new) = get(&regions, &shown);
        assert!(is_new && region.is_of(&shown) && region.rkey() == RKEY);
        let address = shown.key.address;
        assert_eq!(region.write(address + 8, Source::Bytes(&[1; 8])), Ok(8));
        assert_eq!(memory.words()[2].load(SeqCst), u64::from_ne_bytes([1; 8]));
        let here = Scratch::new(1).expect("memory").memory();
        let piece = here.part(0, 8).expect("there");
        assert_eq!(region.read(address + 8, &[piece]), Ok(8));
        assert_eq!(
            here.word(0).expect("there").load(),
            u64::from_ne_bytes([1; 8])
        );
        for outside in [address - 1, address + 993] {
            assert!(region.write(outside, Source::Bytes(&[1; 8])).is_err());
            assert!(region.read(outside, &[piece]).is_err());
        }
        let (again, is_new) = get(&regions, &shown);
        assert!(!is_new && Arc::ptr_eq(&again, &region));
        drop(again);
        let other = show(&segment, &seen, start, 1000);
        assert!(!region.is_of(&other));
        let (changed, is_new) = get(&regions, &other);
        assert!(is_new && changed.is_of(&other));
        assert_eq!(Arc::strong_count(&region), 1, "forgotten");
        assert!(regions.forget_idle(), "it was used");
        assert_eq!(changed.write(other.key.address, Source::Bytes(&[2])), Ok(1));
        assert!(regions.forget_idle(), "and again");
        assert!(!regions.forget_idle());
        assert_eq!(Arc::strong_count(&changed), 1, "forgotten");
    }

    #[test]
    fn memory_that_cannot_be_mapped_is_looked_for_once() {
        let (segment, fd) = Segment::create(5, 9).expect("a segment");
        let seen = PeerSegment::map(fd.as_fd(), 5, 9).expect("mapped");
        let private = Scratch::new(1).expect("memory").memory();
        let shown = show(&segment, &seen, private.address(), private.length());
        let regions = MappedRegions::default();
        assert!(regions.get(getpid(), &shown).is_none());
        let searched = regions.0.lock().searched;
        assert!(regions.get(getpid(), &shown).is_none());
        let state = regions.0.lock();
        assert_eq!(state.searched, searched);
        assert!(matches!(
            state.by_key.get(&RKEY),
            Some(Found::Nothing(count)) if *count == shown.key_count()
        ));
    }
}
