//! Memory of this process that may be unmapped, accessed through a memfd: read(2) and write(2)
//! return EFAULT where a direct access would raise a signal, at half the cost of
//! process_vm_readv(2).

use super::first::First;
use super::kernel_copy;
use super::shared::Shared;
use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use core::ffi::c_int;
use core::ptr::without_provenance_mut;
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes that go through the file at once.
const ROOM: usize = 1 << 16;

/// The way, for any number of threads, one after the other.
#[derive(Debug, Default)]
pub struct NoFaultCopy {
    file: First<Option<Mutex<File>>>,
    /// The file in which a thread collects bytes, while no thread does.
    spare: Mutex<Option<Staged>>,
}

/// The file, mapped here.
#[derive(Debug)]
struct File {
    fd: OwnedFd,
    bytes: Shared,
}

impl File {
    /// `None` where there can be no such file.
    fn new() -> Option<Self> {
        let (bytes, fd) = Shared::create(c"verbs-no-fault-copy", ROOM).ok()?;
        Some(Self { fd, bytes })
    }

    /// Moves bytes between the beginning of the file and memory.
    ///
    /// # Safety
    /// The call may access the memory that is mapped there.
    unsafe fn transfer(&self, call: Transfer, at: usize, length: usize) -> Result<()> {
        let piece = libc::iovec {
            iov_base: without_provenance_mut(at),
            iov_len: length,
        };
        // SAFETY: vouched for by the caller; the kernel checks the address.
        let done = unsafe { call(self.fd.as_raw_fd(), &raw const piece, 1, 0) };
        match usize::try_from(done) {
            Ok(done) if done == length => Ok(()),
            // The rest is not mapped.
            Ok(_) => Err(Errno(libc::EFAULT)),
            Err(_) => Err(super::errno::get()),
        }
    }
}

type Transfer =
    unsafe extern "C" fn(c_int, *const libc::iovec, c_int, libc::off_t) -> libc::ssize_t;

/// Bytes on their way to one place in memory, collected from several pieces: they need no copy
/// besides those of each piece that is written alone.
#[derive(Debug)]
pub struct Staged {
    file: File,
    used: usize,
}

impl Staged {
    fn new() -> Option<Self> {
        let file = File::new()?;
        Some(Self { file, used: 0 })
    }

    /// Bytes that were added.
    #[must_use]
    pub fn length(&self) -> usize {
        self.used
    }

    /// Adds bytes behind the others. Returns whether there was room for them.
    pub fn add(&mut self, bytes: &[u8]) -> bool {
        let is_added = self.file.bytes.write(self.used, bytes).is_ok();
        if is_added {
            self.used += bytes.len();
        }
        is_added
    }

    /// Forgets all bytes.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// A copy of those from `from` on.
    #[must_use]
    pub fn copy(&self, from: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.used.saturating_sub(from)];
        // They are inside, as all that were added.
        let _ = self.file.bytes.read(from, &mut bytes);
        bytes
    }

    /// Writes the first bytes, that many, from `at` on. After an error some may have been written.
    ///
    /// # Errors
    /// EFAULT where nothing is mapped, or not writable, and for more bytes than there are.
    ///
    /// # Safety
    /// No code relies on the memory that is mapped there to stay unchanged.
    pub(super) unsafe fn write(&self, at: usize, length: usize) -> Result<()> {
        if length > self.used {
            return Err(Errno(libc::EFAULT));
        }
        if length == 0 {
            return Ok(());
        }
        // SAFETY: vouched for by the caller.
        unsafe { self.file.transfer(libc::preadv, at, length) }
    }
}

impl NoFaultCopy {
    /// Takes the file for bytes that are collected; makes one if another thread has it. `None`
    /// where there can be no such file.
    #[must_use]
    pub fn stage(&self) -> Option<Staged> {
        let spare = self.spare.lock().take();
        spare.or_else(Staged::new)
    }

    /// Gives it back.
    pub fn unstage(&self, mut staged: Staged) {
        staged.clear();
        *self.spare.lock() = Some(staged);
    }

    /// Makes the descriptor now instead of at the first use, because later there may be no free
    /// descriptor.
    pub fn prepare(&self) {
        self.file();
    }

    fn file(&self) -> Option<&Mutex<File>> {
        let file = self.file.get_or_make(|| File::new().map(Mutex::new));
        file.as_ref()
    }

    /// Reads bytes from `at` on.
    ///
    /// # Errors
    /// EFAULT where nothing is mapped; where there is no file in memory, those of
    /// process_vm_readv(2) and pipe(2).
    pub(super) fn read(&self, at: usize, to: &mut [u8]) -> Result<()> {
        let Some(file) = self.file() else {
            return kernel_copy::read(at, to);
        };
        let (file, mut at) = (file.lock(), at);
        for chunk in to.chunks_mut(ROOM) {
            // SAFETY: only reads the memory that is mapped there.
            unsafe { file.transfer(libc::pwritev, at, chunk.len()) }?;
            let read = file.bytes.read(0, chunk);
            read.map_err(|_| Errno(libc::EFAULT))?;
            at = at.wrapping_add(chunk.len());
        }
        Ok(())
    }

    /// Writes bytes from `at` on, in any order. After an error some may have been written.
    ///
    /// # Errors
    /// EFAULT where nothing is mapped, or not writable; as for [`NoFaultCopy::read`].
    ///
    /// # Safety
    /// No code relies on the memory that is mapped there to stay unchanged.
    pub(super) unsafe fn write(&self, at: usize, from: &[u8]) -> Result<()> {
        let Some(file) = self.file() else {
            // SAFETY: vouched for by the caller.
            return unsafe { kernel_copy::write(at, from) };
        };
        let (file, mut at) = (file.lock(), at);
        for chunk in from.chunks(ROOM) {
            let put = file.bytes.write(0, chunk);
            put.map_err(|_| Errno(libc::EFAULT))?;
            // SAFETY: vouched for by the caller.
            unsafe { file.transfer(libc::preadv, at, chunk.len()) }?;
            at = at.wrapping_add(chunk.len());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;

    /// With the file, and without it.
    fn ways() -> [NoFaultCopy; 2] {
        let without = NoFaultCopy::default();
        assert!(without.file.get_or_make(|| None).is_none());
        [NoFaultCopy::default(), without]
    }

    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|at| at.to_le_bytes()[0] ^ 0x5a).collect()
    }

    #[test]
    fn bytes_arrive_of_any_number() {
        for copy in ways() {
            for length in [0, 1, 8, 4095, ROOM, ROOM + 1, 2 * ROOM + 77] {
                let (from, mut to) = (pattern(length), vec![0; length]);
                let at = to.as_mut_ptr().expose_provenance();
                // SAFETY: into `to`.
                assert_eq!(unsafe { copy.write(at, &from) }, Ok(()));
                assert_eq!(to, from);
                let mut back = vec![0; length];
                let at = to.as_ptr().expose_provenance();
                assert_eq!(copy.read(at, &mut back), Ok(()));
                assert_eq!(back, from);
            }
        }
    }

    #[test]
    fn staged_bytes_are_written_together() {
        let copy = NoFaultCopy::default();
        let mut staged = copy.stage().expect("a file");
        let from = pattern(ROOM);
        let (first, second) = from.split_at(777);
        assert!(staged.add(first) && staged.add(second) && !staged.add(b"x"));
        assert_eq!((staged.length(), staged.copy(777)), (ROOM, second.to_vec()));
        let mut to = vec![0; ROOM];
        let at = to.as_mut_ptr().expose_provenance();
        // SAFETY: into `to`.
        let write = |staged: &Staged, length| unsafe { staged.write(at, length) };
        assert_eq!(write(&staged, 777), Ok(()));
        assert_eq!((&to[..777], to[777]), (first, 0));
        assert_eq!(write(&staged, ROOM), Ok(()));
        assert_eq!(to, from);
        assert_eq!(write(&staged, ROOM + 1), Err(Errno(libc::EFAULT)));
        copy.unstage(staged);
        let mut again = copy.stage().expect("the same");
        assert_eq!(again.length(), 0);
        assert!(again.add(b"ab") && again.copy(0) == b"ab");
        assert!(copy.stage().is_some_and(|other| other.length() == 0));
    }

    #[test]
    fn staged_bytes_for_unmapped_memory_are_reported() {
        let mut staged = NoFaultCopy::default().stage().expect("a file");
        assert!(staged.add(&[1; 200]));
        let pages = Scratch::new(2).expect("memory");
        let at = pages.memory().address();
        pages.unmap().expect("unmapped");
        // SAFETY: the test's own pages.
        let written = unsafe { staged.write(at, 200) };
        assert_eq!(written, Err(Errno(libc::EFAULT)));
    }

    #[test]
    fn unmapped_memory_is_reported() {
        let efault = Err(Errno(libc::EFAULT));
        for copy in ways() {
            let pages = Scratch::new(2).expect("memory");
            let at = pages.memory().address();
            // SAFETY: the test's own pages.
            let write = |at, bytes: &[u8]| unsafe { copy.write(at, bytes) };
            assert_eq!(write(at, &[1; 8192]), Ok(()));
            pages.forbid_writing().expect("protected");
            assert_eq!(write(at + 4000, &[1; 200]), efault);
            assert_eq!(copy.read(at + 4000, &mut [0; 200]), Ok(()));
            pages.unmap().expect("unmapped");
            assert_eq!(write(at, &[1]), efault);
            assert_eq!(copy.read(at, &mut [0]), efault);
            assert_eq!(copy.read(usize::MAX - 3, &mut [0; 8]), efault);
        }
    }
}
