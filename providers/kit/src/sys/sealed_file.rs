//! A part of a file in memory that another process has mapped, mapped here as well.
//!
//! A process that shortens a file ends all that use a mapping beyond its new end (SIGBUS), so only
//! a file that is sealed against that is mapped. Its owner can still give pages of it back, which
//! are brought in again as zeros when they are used. The pages of hugetlbfs, or of a tmpfs that is
//! mounted with a size, may be used up by then, which is SIGBUS again. So only files of the
//! kernel's own tmpfs are mapped, which has no size: those of memfd_create(2) without MFD_HUGETLB.

use super::application::{ApplicationMemory, OutOfRange};
use super::other_process::Source;
use super::put::put;
use crate::errno::{Errno, Result};
use core::ffi::c_void;
use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use rustix::fs::{FileType, MemfdFlags, SealFlags, Stat, fcntl_get_seals, fstat, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::BorrowedFd;

/// A part of a file, mapped until this is dropped. Other processes use it at the same time, as with
/// [`ApplicationMemory`].
#[derive(Debug)]
pub struct SealedFile {
    at: NonNull<c_void>,
    mapped: usize,
    part: ApplicationMemory,
}

// SAFETY: the mapping belongs to no thread, and is used through copies only.
unsafe impl Send for SealedFile {}
// SAFETY: as above.
unsafe impl Sync for SealedFile {}

impl SealedFile {
    /// Maps the bytes of a range of the file.
    ///
    /// # Errors
    /// EINVAL if it is no file of the kernel's own tmpfs, is not sealed against being shortened, or
    /// ends before the range does; EPERM if it is sealed against writing; of memfd_create(2),
    /// fstat(2), fcntl(2), mmap(2).
    pub fn map(file: BorrowedFd<'_>, range: Range<u64>) -> Result<Self> {
        let status = fstat(file)?;
        let sealed = fcntl_get_seals(file)?.contains(SealFlags::SHRINK);
        let ends_later = u64::try_from(status.st_size).is_ok_and(|size| size >= range.end);
        if !is_of_memfd(&status)? || !sealed || !ends_later {
            return Err(Errno::INVAL);
        }
        let page = u64::try_from(rustix::param::page_size()).map_err(|_| Errno::INVAL)?;
        let within = range.start % page;
        let number = |number| usize::try_from(number).map_err(|_| Errno::INVAL);
        let length = range.end.checked_sub(range.start).ok_or(Errno::INVAL)?;
        let (length, within_page) = (number(length)?, number(within)?);
        let mapped = length.checked_add(within_page).ok_or(Errno::INVAL)?;
        let (protection, from) = (ProtFlags::READ | ProtFlags::WRITE, range.start - within);
        // SAFETY: a new mapping, at a place that the kernel chooses; nothing refers to it.
        let at = unsafe { mmap(null_mut(), mapped, protection, MapFlags::SHARED, file, from) }?;
        let at = NonNull::new(at).ok_or(Errno::NOMEM)?;
        let address = at.as_ptr().expose_provenance() + within_page;
        // SAFETY: the mapping is there, and writable, until the value is dropped, which hands out
        // no copy of the range; nothing refers to it.
        let part = unsafe { ApplicationMemory::new(address, length) }?;
        Ok(Self { at, mapped, part })
    }

    /// Bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.part.length()
    }

    /// Writes bytes from an offset in the range, the last ones after all others; returns how many.
    ///
    /// # Errors
    /// [`OutOfRange`]; bytes may have been written.
    #[inline]
    pub fn write(
        &self,
        offset: usize,
        from: Source<'_>,
    ) -> core::result::Result<usize, OutOfRange> {
        match from {
            Source::Bytes(bytes) => {
                self.part.write(offset, bytes)?;
                Ok(bytes.len())
            }
            Source::Registered(pieces) => {
                let mut done = 0;
                for piece in pieces {
                    let length = piece.length();
                    let to = self.part.at(offset + done, length)?;
                    let source = piece.at(0, length)?;
                    // SAFETY: `to` is inside the mapping, `source` inside a range that an
                    // application registered, which may be read by the promise to
                    // `ApplicationMemory::new`.
                    unsafe { put(to, source, length) };
                    done += length;
                }
                Ok(done)
            }
        }
    }

    /// Reads bytes from an offset in the range on into all pieces; returns how many.
    ///
    /// # Errors
    /// [`OutOfRange`]; bytes may have been read.
    #[inline]
    pub fn read(
        &self,
        offset: usize,
        to: &[ApplicationMemory],
    ) -> core::result::Result<usize, OutOfRange> {
        let mut done = 0;
        for piece in to {
            let length = piece.length();
            let from = self.part.at(offset + done, length)?;
            let place = piece.at(0, length)?;
            // SAFETY: as in `write`, the other way round. The C function is called, rather than a
            // copy of Rust's, since others may write meanwhile.
            unsafe { libc::memcpy(place.cast(), from.cast::<c_void>(), length) };
            done += length;
        }
        Ok(done)
    }
}

impl Drop for SealedFile {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, no part of which is used any more. It cannot fail for a
        // mapping that is there, and there would be nothing to do about it.
        let _ = unsafe { munmap(self.at.as_ptr(), self.mapped) };
    }
}

/// Whether a file is in the file system of memfd_create(2).
///
/// # Errors
/// Of memfd_create(2), fstat(2).
fn is_of_memfd(status: &Stat) -> Result<bool> {
    let ours = memfd_create(c"uroce-device", MemfdFlags::CLOEXEC)?;
    let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    Ok(is_file && fstat(ours)?.st_dev == status.st_dev)
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;
    use rustix::fs::{fcntl_add_seals, ftruncate};
    use std::os::fd::{AsFd, OwnedFd};

    fn file(seals: SealFlags) -> OwnedFd {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create(c"test", flags).expect("a file");
        ftruncate(&fd, 20_000).expect("sized");
        fcntl_add_seals(&fd, seals).expect("sealed");
        fd
    }

    #[test]
    fn two_mappings_of_a_file_have_the_same_bytes() {
        let fd = file(SealFlags::SHRINK);
        let all = SealedFile::map(fd.as_fd(), 0..20_000).expect("mapped");
        let part = SealedFile::map(fd.as_fd(), 5000..5100).expect("mapped");
        assert_eq!((all.length(), part.length()), (20_000, 100));
        assert_eq!(part.write(1, Source::Bytes(b"hello")), Ok(5));
        let here = Scratch::new(1).expect("memory").memory();
        let pieces = [(100, 2), (200, 3)].map(|(at, length)| here.part(at, length).expect("there"));
        assert_eq!(all.read(5001, &pieces), Ok(5));
        let mut found = [0; 3];
        assert_eq!(here.read(200, &mut found), Ok(()));
        assert_eq!(&found, b"llo");
        assert_eq!(all.write(19_995, Source::Registered(&pieces)), Ok(5));
        assert_eq!(all.read(19_997, &pieces[1..]), Ok(3));
        assert_eq!(here.read(200, &mut found), Ok(()));
        assert_eq!(&found, b"llo");
        assert_eq!(part.write(96, Source::Bytes(b"hello")), Err(OutOfRange));
        assert_eq!(part.write(96, Source::Registered(&pieces)), Err(OutOfRange));
        assert_eq!(part.read(96, &pieces), Err(OutOfRange));
    }

    #[test]
    fn files_whose_bytes_may_go_away_are_not_mapped() {
        let map = |fd: &OwnedFd, range| SealedFile::map(fd.as_fd(), range).map(|_| ());
        assert_eq!(map(&file(SealFlags::SHRINK), 0..20_001), Err(Errno::INVAL));
        assert_eq!(map(&file(SealFlags::GROW), 0..20_000), Err(Errno::INVAL));
        let sealed = file(SealFlags::SHRINK | SealFlags::WRITE);
        assert_eq!(map(&sealed, 0..20_000), Err(Errno::PERM));
        let folder = std::env::temp_dir();
        let other = std::fs::File::open(folder).expect("a folder").into();
        assert!(map(&other, 0..1).is_err());
    }
}
