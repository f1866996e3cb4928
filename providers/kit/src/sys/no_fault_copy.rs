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
pub struct NoFaultCopy(First<Option<Mutex<File>>>);

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

impl NoFaultCopy {
    /// Makes the descriptor now instead of at the first use, because later there may be no free
    /// descriptor.
    pub fn prepare(&self) {
        self.file();
    }

    fn file(&self) -> Option<&Mutex<File>> {
        let file = self.0.get_or_make(|| File::new().map(Mutex::new));
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
        assert!(without.0.get_or_make(|| None).is_none());
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
