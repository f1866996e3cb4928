//! Memory of this process that may not be mapped, or not so: copied through the kernel, which
//! answers EFAULT where a plain access would be a signal.

use crate::errno::{Errno, Result};
use core::ffi::c_void;
use core::ptr::{null_mut, without_provenance, without_provenance_mut};
use rustix::pipe::{PipeFlags, pipe_with};
use std::os::fd::{AsRawFd, OwnedFd};

const EFAULT: Errno = Errno(libc::EFAULT);

/// Finds out whether the word of 8 bytes in which this address lies can be read.
///
/// It is a call of rt_sigprocmask(2) that asks for nothing that there is: the kernel reads the
/// mask, answers EFAULT if it cannot, and EINVAL then. No system call that reads memory and does
/// nothing is cheaper, and no sandbox forbids it.
///
/// # Errors
/// EFAULT if not.
pub(super) fn find(at: usize) -> Result<()> {
    const NOTHING: libc::c_int = -1;
    const WORD: usize = 8;
    let word = without_provenance::<c_void>(at - at % WORD);
    // SAFETY: nothing is changed, since there is no such way to change the mask; the kernel checks
    // the address.
    let done = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            NOTHING,
            word,
            null_mut::<c_void>(),
            WORD,
        )
    };
    match super::errno::get() {
        EFAULT if done < 0 => Err(EFAULT),
        _ => Ok(()),
    }
}

/// Reads bytes from `at` on.
///
/// # Errors
/// EFAULT where nothing is mapped; ENOMEM; EMFILE, ENFILE where the direct way is forbidden.
pub(super) fn read(at: usize, to: &mut [u8]) -> Result<()> {
    let (address, mut done) = (to.as_mut_ptr(), 0);
    while done < to.len() {
        let local = libc::iovec {
            // The kernel writes there, not further than the slice.
            iov_base: address.wrapping_add(done).cast(),
            iov_len: to.len() - done,
        };
        // SAFETY: the kernel writes into the rest of `to` only, and checks the other address.
        let got = unsafe { own(libc::process_vm_readv, &local, at.wrapping_add(done)) };
        match got {
            Ok(got) => done += got,
            Err(error) if forbidden(error) => {
                return read_through(&Pipe::new()?, at.wrapping_add(done), to.get_mut(done..));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes bytes from `at` on. After an error some may have been written.
///
/// # Errors
/// EFAULT where nothing is mapped, or not writable; ENOMEM; EMFILE, ENFILE where the direct way is
/// forbidden.
///
/// # Safety
/// No code relies on the memory that is mapped there to stay unchanged.
pub(super) unsafe fn write(at: usize, from: &[u8]) -> Result<()> {
    let (address, mut done) = (from.as_ptr(), 0);
    while done < from.len() {
        let local = libc::iovec {
            // Only read.
            iov_base: address.wrapping_add(done).cast_mut().cast(),
            iov_len: from.len() - done,
        };
        // SAFETY: the kernel reads the rest of `from`; the rest is vouched for by the caller.
        let put = unsafe { own(libc::process_vm_writev, &local, at.wrapping_add(done)) };
        match put {
            Ok(put) => done += put,
            Err(error) if forbidden(error) => {
                let rest = from.get(done..).unwrap_or_default();
                // SAFETY: vouched for by the caller.
                return unsafe { write_through(&Pipe::new()?, at.wrapping_add(done), rest) };
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The errors of a sandbox or an old kernel without the calls.
fn forbidden(error: Errno) -> bool {
    matches!(error, Errno::PERM | Errno::NOSYS) || error == Errno(libc::EACCES)
}

type Transfer = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> isize;

/// # Safety
/// The transfer may use the local memory, and the memory that is mapped at `at`.
unsafe fn own(transfer: Transfer, local: &libc::iovec, at: usize) -> Result<usize> {
    let remote = libc::iovec {
        iov_base: without_provenance_mut(at),
        iov_len: local.iov_len,
    };
    // SAFETY: vouched for by the caller; the kernel checks the addresses.
    let done = unsafe { transfer(libc::getpid(), local, 1, &raw const remote, 1, 0) };
    match usize::try_from(done) {
        Ok(0) => Err(EFAULT),
        Ok(done) => Ok(done),
        Err(_) => Err(super::errno::get()),
    }
}

/// Copies through the kernel's buffer, for where the direct way is forbidden.
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// Bytes of a step: every pipe has room for them.
const STEP: usize = 4096;

impl Pipe {
    fn new() -> Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { read, write })
    }

    /// # Safety
    /// As read(2): the memory that is mapped at `to` may be written.
    unsafe fn take(&self, to: *mut c_void, length: usize) -> Result<()> {
        // SAFETY: vouched for by the caller; the kernel checks the address.
        whole(length, || unsafe {
            libc::read(self.read.as_raw_fd(), to, length)
        })
    }

    fn put(&self, from: *const c_void, length: usize) -> Result<()> {
        // SAFETY: the kernel checks the address and only reads.
        whole(length, || unsafe {
            libc::write(self.write.as_raw_fd(), from, length)
        })
    }
}

/// Calls until no signal interrupts. Part of the bytes means that the rest is not mapped.
fn whole(length: usize, mut call: impl FnMut() -> isize) -> Result<()> {
    loop {
        match usize::try_from(call()) {
            Ok(done) if done == length => return Ok(()),
            Ok(_) => return Err(EFAULT),
            Err(_) if super::errno::get() == Errno(libc::EINTR) => {}
            Err(_) => return Err(super::errno::get()),
        }
    }
}

fn read_through(pipe: &Pipe, at: usize, to: Option<&mut [u8]>) -> Result<()> {
    let mut at = at;
    for step in to.unwrap_or_default().chunks_mut(STEP) {
        pipe.put(without_provenance_mut::<c_void>(at), step.len())?;
        // SAFETY: into the slice.
        unsafe { pipe.take(step.as_mut_ptr().cast(), step.len()) }?;
        at = at.wrapping_add(step.len());
    }
    Ok(())
}

/// # Safety
/// As [`write()`].
unsafe fn write_through(pipe: &Pipe, at: usize, from: &[u8]) -> Result<()> {
    let mut at = at;
    for step in from.chunks(STEP) {
        pipe.put(step.as_ptr().cast(), step.len())?;
        // SAFETY: vouched for by the caller.
        unsafe { pipe.take(without_provenance_mut(at), step.len()) }?;
        at = at.wrapping_add(step.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_through_a_pipe_where_the_direct_way_is_forbidden() {
        let pipe = Pipe::new().expect("a pipe");
        let bytes: Vec<u8> = (0..10_000u32).map(|n| n.to_le_bytes()[0]).collect();
        let mut back = vec![0u8; bytes.len()];
        assert_eq!(
            read_through(&pipe, bytes.as_ptr().expose_provenance(), Some(&mut back)),
            Ok(())
        );
        assert_eq!(back, bytes);
        let mut room = vec![0u8; bytes.len()];
        let at = room.as_mut_ptr().expose_provenance();
        // SAFETY: into `room`.
        assert_eq!(unsafe { write_through(&pipe, at, &bytes) }, Ok(()));
        assert_eq!(room, bytes);
        assert_eq!(read_through(&pipe, 4096, Some(&mut back)), Err(EFAULT));
        // SAFETY: nothing is mapped there.
        assert_eq!(unsafe { write_through(&pipe, 4096, &bytes) }, Err(EFAULT));
    }
}
