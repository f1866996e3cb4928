//! A file that another process has mapped to share it, mapped here too.

use super::application::{ApplicationMemory, OutOfRange};
use super::put::put;
use crate::errno::{Errno, Result};
use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::BorrowedFd;

/// A mapping of part of a file, until it is dropped.
#[derive(Debug)]
pub struct SharedFile {
    at: NonNull<c_void>,
    length: usize,
}

// SAFETY: the mapping belongs to nobody's thread, and bytes are copied in and out only.
unsafe impl Send for SharedFile {}
// SAFETY: as above.
unsafe impl Sync for SharedFile {}

impl SharedFile {
    /// Maps bytes of a file. Whoever shortens the file while it is used here ends this process by
    /// SIGBUS, as he would himself.
    ///
    /// # Errors
    /// Of mmap(2).
    pub fn map(file: BorrowedFd<'_>, offset: u64, length: usize) -> Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at a place that the kernel chooses; nobody has a reference to it.
        let at = unsafe {
            rustix::mm::mmap(
                null_mut(),
                length,
                protection,
                MapFlags::SHARED,
                file,
                offset,
            )
        }?;
        let at = NonNull::new(at).ok_or(Errno::NOMEM)?;
        Ok(Self { at, length })
    }

    fn place(&self, offset: usize, length: usize) -> core::result::Result<*mut u8, OutOfRange> {
        let end = offset.checked_add(length).ok_or(OutOfRange)?;
        if end > self.length {
            return Err(OutOfRange);
        }
        // SAFETY: inside the mapping.
        Ok(unsafe { self.at.as_ptr().byte_add(offset) }.cast())
    }

    /// Writes bytes from `offset` on. The last ones become visible after all others: programs wait for
    /// the last byte of what a peer writes.
    ///
    /// # Errors
    /// [`OutOfRange`].
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> core::result::Result<(), OutOfRange> {
        let to = self.place(offset, bytes.len())?;
        // SAFETY: the bytes are lent for the call.
        unsafe { put(to, bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Reads bytes from `offset` on.
    ///
    /// # Errors
    /// [`OutOfRange`].
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> core::result::Result<(), OutOfRange> {
        let from = self.place(offset, bytes.len())?;
        // SAFETY: inside the mapping; the bytes are lent for the call. The C function is called, since
        // others may write meanwhile.
        unsafe { libc::memcpy(bytes.as_mut_ptr().cast(), from.cast(), bytes.len()) };
        Ok(())
    }

    /// As [`SharedFile::write`], of memory that the application registered.
    ///
    /// # Errors
    /// [`OutOfRange`]. Pieces in front may have been written.
    #[inline]
    pub fn write_from(
        &self,
        offset: usize,
        pieces: &[ApplicationMemory],
    ) -> core::result::Result<(), OutOfRange> {
        let mut at = offset;
        for piece in pieces {
            let to = self.place(at, piece.length())?;
            // SAFETY: the piece may be read, as `ApplicationMemory::new` was promised.
            unsafe { put(to, piece.pointer(), piece.length()) };
            at += piece.length();
        }
        Ok(())
    }

    /// Reads bytes from `offset` on into memory that the application registered.
    ///
    /// # Errors
    /// [`OutOfRange`]. Pieces in front may have been written.
    #[inline]
    pub fn read_into(
        &self,
        offset: usize,
        pieces: &[ApplicationMemory],
    ) -> core::result::Result<(), OutOfRange> {
        let mut at = offset;
        for piece in pieces {
            let from = self.place(at, piece.length())?;
            // SAFETY: inside the mapping; the piece may be written, as `ApplicationMemory::new` was
            // promised. The C function is called, since others may write meanwhile.
            unsafe { libc::memcpy(piece.pointer().cast(), from.cast(), piece.length()) };
            at += piece.length();
        }
        Ok(())
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`; nothing of it was lent.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::os::fd::AsFd;

    #[test]
    fn bytes_are_those_of_the_file() {
        let fd = memfd_create("test", MemfdFlags::CLOEXEC).expect("a file");
        ftruncate(&fd, 8192).expect("sized");
        let page = Scratch::page();
        let one = SharedFile::map(fd.as_fd(), 0, 8192).expect("mapped");
        let two = SharedFile::map(fd.as_fd(), page as u64, page).expect("mapped");
        let memory = Scratch::new(1).expect("memory").memory();
        let part = |at, length| memory.part(at, length).expect("there");
        let mut back = [0; 40];
        for length in 0..40u8 {
            for shift in 0..9 {
                let bytes: Vec<u8> = (0..length).map(|byte| byte ^ 0x55).collect();
                let at = page + 100 + shift;
                assert_eq!(one.write(at, &bytes), Ok(()));
                let pieces = [part(0, 3), part(64, usize::from(length))];
                assert_eq!(two.read_into(97 + shift, &pieces), Ok(()));
                let back = &mut back[..usize::from(length)];
                assert_eq!(memory.read(64, back), Ok(()));
                assert_eq!(back, &bytes[..]);
            }
        }
        assert_eq!(memory.write(0, b"hello world"), Ok(()));
        let pieces = [part(0, 6), part(6, 5)];
        assert_eq!(two.write_from(0, &pieces), Ok(()));
        assert_eq!(one.read_into(page, &[part(100, 11)]), Ok(()));
        let mut back = [0; 11];
        assert_eq!(memory.read(100, &mut back), Ok(()));
        assert_eq!(&back, b"hello world");
    }

    #[test]
    fn nothing_is_used_beyond_the_end() {
        let fd = memfd_create("test", MemfdFlags::CLOEXEC).expect("a file");
        ftruncate(&fd, 4096).expect("sized");
        let file = SharedFile::map(fd.as_fd(), 0, 4096).expect("mapped");
        let memory = Scratch::new(1).expect("memory").memory();
        let pieces = [memory.part(0, 8).expect("there"); 2];
        assert_eq!(file.write(4090, b"1234567"), Err(OutOfRange));
        assert_eq!(file.write(usize::MAX, b"1"), Err(OutOfRange));
        assert_eq!(file.write_from(4088, &pieces), Err(OutOfRange));
        assert_eq!(file.read_into(4088, &pieces), Err(OutOfRange));
        assert_eq!(file.write(4096, b""), Ok(()));
    }
}
