//! Memory that processes share: a sealed memfd, mapped.
//!
//! The other process may write anywhere in it at any time, so it is never seen as `&[u8]` or as
//! anything with rules: only as atomic words, or copied out and in. Memory that only its owner may
//! write ([`Shared::publish`]) is mapped by other processes as [`Published`].

use super::identity::{Limit, limit};
use super::out_of_range::OutOfRange;
use crate::errno::{Errno, Result};
use core::ffi::{CStr, c_void};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use rustix::fs::{MemfdFlags, SealFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Seals that keep a memfd's length, so that no part of a mapping disappears (SIGBUS).
const LENGTH: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// A mapping of shared memory, until it is dropped.
#[derive(Debug)]
pub struct Shared {
    at: NonNull<c_void>,
    length: usize,
}

// SAFETY: the mapping belongs to no thread, and is used through atomics and copies only.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// New memory of zeros, and the descriptor by which another process can map it. Pages take
    /// memory when they are first used.
    ///
    /// # Errors
    /// EFBIG if files may not be so long (RLIMIT_FSIZE); of memfd_create(2), ftruncate(2),
    /// fcntl(2), mmap(2).
    pub fn create(name: &CStr, length: usize) -> Result<(Self, OwnedFd)> {
        Self::create_sealed(name, length, SealFlags::SEAL)
    }

    /// As [`Shared::create`], of memory that this process alone may write. Others can map it for
    /// reading only ([`Published::map`]), also if they open the descriptor anew.
    ///
    /// # Errors
    /// As for [`Shared::create`]; ENOSYS before Linux 5.1, which has no such seal.
    pub fn publish(name: &CStr, length: usize) -> Result<(Self, OwnedFd)> {
        let seals = SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        Self::create_sealed(name, length, seals).map_err(|error| match error {
            Errno::INVAL => Errno::NOSYS,
            other => other,
        })
    }

    /// `seals` are added once the memory is mapped here.
    fn create_sealed(name: &CStr, length: usize, seals: SealFlags) -> Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memory_file(name, flags, length)?;
        rustix::fs::fcntl_add_seals(&fd, LENGTH)?;
        let mapped = Self::map(fd.as_fd(), length)?;
        rustix::fs::fcntl_add_seals(&fd, seals)?;
        Ok((mapped, fd))
    }

    /// Maps a memory that another process made.
    ///
    /// # Errors
    /// EINVAL if it is not sealed against changes of its length, or has another one; of fcntl(2),
    /// fstat(2), mmap(2).
    pub fn map(fd: BorrowedFd<'_>, length: usize) -> Result<Self> {
        Self::map_for(fd, length, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn map_for(fd: BorrowedFd<'_>, length: usize, protection: ProtFlags) -> Result<Self> {
        let seals = rustix::fs::fcntl_get_seals(fd)?;
        let size = usize::try_from(rustix::fs::fstat(fd)?.st_size).map_err(|_| Errno::INVAL)?;
        if !seals.contains(LENGTH) || size != length {
            return Err(Errno::INVAL);
        }
        // SAFETY: a new mapping, at a place that the kernel chooses; nothing refers to it.
        let at =
            unsafe { rustix::mm::mmap(null_mut(), length, protection, MapFlags::SHARED, fd, 0) }?;
        let at = NonNull::new(at).ok_or(Errno::NOMEM)?;
        Ok(Self { at, length })
    }

    /// Bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// All of it, as words of 8 bytes.
    #[must_use]
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        let count = self.length / size_of::<AtomicU64>();
        // SAFETY: mapped as long as `self` is, aligned to a page; any process may change atomics.
        unsafe { core::slice::from_raw_parts(self.at.as_ptr().cast(), count) }
    }

    /// All of it, as words of 4 bytes.
    #[must_use]
    #[inline]
    pub fn halves(&self) -> &[AtomicU32] {
        let count = self.length / size_of::<AtomicU32>();
        // SAFETY: as in `words`.
        unsafe { core::slice::from_raw_parts(self.at.as_ptr().cast(), count) }
    }

    pub(super) fn place(
        &self,
        offset: usize,
        length: usize,
    ) -> core::result::Result<*mut c_void, OutOfRange> {
        let end = offset.checked_add(length).ok_or(OutOfRange)?;
        if end > self.length {
            return Err(OutOfRange);
        }
        // SAFETY: inside the mapping.
        Ok(unsafe { self.at.as_ptr().byte_add(offset) })
    }

    /// Copies bytes out. Bytes that another process writes meanwhile may be torn.
    ///
    /// # Errors
    /// [`OutOfRange`].
    #[inline]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> core::result::Result<(), OutOfRange> {
        let from = self.place(offset, to.len())?;
        // SAFETY: inside the mapping; `to` is ours alone. The C function is called, rather than a
        // copy of Rust's, since others may write meanwhile.
        unsafe { libc::memcpy(to.as_mut_ptr().cast(), from, to.len()) };
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// [`OutOfRange`].
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) -> core::result::Result<(), OutOfRange> {
        let to = self.place(offset, from.len())?;
        // SAFETY: as in `read`.
        unsafe { libc::memcpy(to, from.as_ptr().cast(), from.len()) };
        Ok(())
    }
}

/// Memory that another process has published ([`Shared::publish`]), mapped for reading.
#[derive(Debug)]
pub struct Published(Shared);

impl Published {
    /// Maps a memory that another process made.
    ///
    /// # Errors
    /// As for [`Shared::map`].
    pub fn map(fd: BorrowedFd<'_>, length: usize) -> Result<Self> {
        Shared::map_for(fd, length, ProtFlags::READ).map(Self)
    }

    /// All of it, as words of 8 bytes.
    #[must_use]
    #[inline]
    pub fn words(&self) -> &[ReadOnlyWord] {
        ReadOnlyWord::of(self.0.words())
    }
}

/// A word that is written elsewhere and only read here.
#[derive(Debug)]
#[repr(transparent)]
pub struct ReadOnlyWord(AtomicU64);

impl ReadOnlyWord {
    /// The words, to be read only.
    #[must_use]
    #[inline]
    pub fn of(words: &[AtomicU64]) -> &[Self] {
        // SAFETY: the same layout, and less can be done with it.
        unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), words.len()) }
    }

    /// The value of the word. A load of 8 bytes never writes, on any processor that this library
    /// supports.
    #[must_use]
    #[inline]
    pub fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }
}

/// A file in memory, of zeros.
///
/// # Errors
/// EFBIG beyond RLIMIT_FSIZE, for which the kernel would also send SIGXFSZ, which ends most
/// programs; of memfd_create(2), ftruncate(2).
fn memory_file(name: &CStr, flags: MemfdFlags, length: usize) -> Result<OwnedFd> {
    let size = u64::try_from(length).map_err(|_| Errno::INVAL)?;
    let most = limit(Limit::FileSize);
    if most.is_some_and(|most| most < size) {
        return Err(Errno(libc::EFBIG));
    }
    let fd = memfd_create(name, flags)?;
    ftruncate(&fd, size)?;
    Ok(fd)
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`; all that was lent of it is gone.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering::SeqCst;
    use std::os::fd::AsRawFd;

    #[test]
    fn two_mappings_are_the_same_memory() {
        let (ours, fd) = Shared::create(c"test", 8192).expect("memory");
        let theirs = Shared::map(fd.as_fd(), 8192).expect("mapped");
        assert_eq!(ours.words().len(), 1024);
        assert_eq!(ours.halves().len(), 2048);
        ours.words()[1023].store(7, SeqCst);
        assert_eq!(theirs.words()[1023].load(SeqCst), 7);
        assert_eq!(theirs.write(100, b"hello"), Ok(()));
        let mut back = [0; 5];
        assert_eq!(ours.read(100, &mut back), Ok(()));
        assert_eq!(&back, b"hello");
    }

    #[test]
    fn published_memory_can_be_written_by_its_owner_alone() {
        let (ours, fd) = match Shared::publish(c"test", 8192) {
            Err(Errno::NOSYS) => return println!("skipped: no F_SEAL_FUTURE_WRITE"),
            made => made.expect("memory"),
        };
        let theirs = Published::map(fd.as_fd(), 8192).expect("mapped");
        ours.words()[1023].store(7, SeqCst);
        assert_eq!(theirs.words()[1023].load(SeqCst), 7);
        assert_eq!(Shared::map(fd.as_fd(), 8192).err(), Some(Errno::PERM));
        assert!(rustix::io::pwrite(&fd, b"x", 0).is_err());
        // Another descriptor of the same file is no way around.
        let name = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let mode = rustix::fs::Mode::empty();
        let anew = rustix::fs::open(name, rustix::fs::OFlags::RDWR, mode).expect("opened");
        assert!(Shared::map(anew.as_fd(), 8192).is_err());
        assert!(rustix::io::pwrite(&anew, b"x", 0).is_err());
        assert!(rustix::fs::fcntl_add_seals(&fd, SealFlags::WRITE).is_err());
        ours.words()[0].store(9, SeqCst);
        assert_eq!(theirs.words()[0].load(SeqCst), 9);
    }

    #[test]
    fn nothing_is_used_beyond_the_end() {
        let (ours, _fd) = Shared::create(c"test", 4096).expect("memory");
        assert_eq!(ours.write(4092, b"hello"), Err(OutOfRange));
        assert_eq!(ours.read(usize::MAX, &mut [0; 2]), Err(OutOfRange));
        assert_eq!(ours.write(4091, b"hello"), Ok(()));
    }

    #[test]
    fn files_that_may_shrink_or_differ_in_length_are_refused() {
        let (_ours, fd) = Shared::create(c"test", 4096).expect("memory");
        assert!(Shared::map(fd.as_fd(), 8192).is_err());
        assert!(ftruncate(&fd, 0).is_err());
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let open = memory_file(c"test", flags, 4096).expect("a memfd");
        assert_eq!(Shared::map(open.as_fd(), 4096).err(), Some(Errno::INVAL));
        let (pipe, _) = rustix::pipe::pipe().expect("a pipe");
        assert!(Shared::map(pipe.as_fd(), 4096).is_err());
    }
}
