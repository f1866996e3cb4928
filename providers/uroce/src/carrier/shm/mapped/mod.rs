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
