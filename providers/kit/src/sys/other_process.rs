//! Memory of another process: read and written through the kernel, which checks that this process
//! may, and that the memory is there (process_vm_readv(2)).
//!
//! Two words contain the range in the other process. The kernel reads them when the call begins. If
//! the other process can write them, it can withdraw its memory from a call that has not begun.
//! This is needed because a thread can be stopped for any time between its check whether the memory
//! may be used and the system call, but not between the kernel's read of the words and the copy.

use super::application::ApplicationMemory;
use super::put::LAST;
use crate::errno::{Errno, Result};
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::AtomicU64;
use rustix::process::Pid;

/// Pieces of local memory in one transfer.
pub const MOST: usize = 8;

/// Another process of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherProcess(Pid);

/// The data to be written to another process.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// Memory that the application registered.
    Registered(&'a [ApplicationMemory]),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// A range in another process, as the kernel reads it (`struct iovec`): the address of its first
/// byte, and its length. After the length is set to 0, calls that begin later copy nothing.
pub type Range = [AtomicU64; 2];

const _: () = assert!(size_of::<Range>() == size_of::<libc::iovec>());
const _: () = assert!(core::mem::offset_of!(libc::iovec, iov_base) == 0);

/// A range that no other thread or process writes.
#[must_use]
pub fn range(address: u64, length: u64) -> Range {
    [AtomicU64::new(address), AtomicU64::new(length)]
}

impl OtherProcess {
    /// The process of that number.
    ///
    /// # Errors
    /// EINVAL for this process: its own memory is not written through a number.
    pub fn new(pid: Pid) -> Result<Self> {
        if pid == rustix::process::getpid() {
            return Err(Errno::INVAL);
        }
        Ok(Self(pid))
    }

    /// Writes bytes to a range, the last ones after all others; returns how many, which are fewer
    /// where the range, or the memory that is there, ends.
    ///
    /// # Errors
    /// EINVAL for more than [`MOST`] pieces; EFAULT if nothing is there, or here; EPERM if the
    /// process may not be looked into; ESRCH if it is gone; ENOSYS.
    pub fn write(self, from: Source<'_>, to: &Range) -> Result<usize> {
        let mut list = List::new();
        match from {
            Source::Registered(pieces) => list.fill(pieces)?,
            // Only read.
            Source::Bytes(bytes) => list.push(bytes.as_ptr().cast_mut().cast(), bytes.len())?,
        }
        list.part_last()?;
        self.transfer(libc::process_vm_writev, &list, to)
    }

    /// Reads bytes of a range into the pieces; returns how many.
    ///
    /// # Errors
    /// As for [`OtherProcess::write`].
    pub fn read(self, to: &[ApplicationMemory], from: &Range) -> Result<usize> {
        let mut list = List::new();
        list.fill(to)?;
        self.transfer(libc::process_vm_readv, &list, from)
    }

    /// Reads bytes of a range; returns how many.
    ///
    /// # Errors
    /// As for [`OtherProcess::write`].
    pub fn read_bytes(self, to: &mut [u8], from: &Range) -> Result<usize> {
        let mut list = List::new();
        list.push(to.as_mut_ptr().cast(), to.len())?;
        self.transfer(libc::process_vm_readv, &list, from)
    }

    fn transfer(self, call: Transfer, list: &List, there: &Range) -> Result<usize> {
        let pid = self.0.as_raw_nonzero().get();
        // SAFETY: the local pieces are bytes that are borrowed for the call (exclusively, if they
        // are written), or memory that an application registered, which may be read and written by
        // the promise to `ApplicationMemory::new`: no more bytes are moved than those have,
        // whatever the range contains. The process is another one, so no other memory of this
        // process is accessed. The kernel checks every address, and reads the range, whose words
        // may change meanwhile, once.
        let done = unsafe {
            call(
                pid,
                list.pieces.as_ptr(),
                list.count,
                core::ptr::from_ref(there).cast(),
                1,
                0,
            )
        };
        usize::try_from(done).map_err(|_| super::errno::get())
    }
}

type Transfer = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> isize;

/// One more than [`MOST`], for the last bytes.
struct List {
    pieces: [libc::iovec; MOST + 1],
    count: libc::c_ulong,
}

impl List {
    fn new() -> Self {
        const NOTHING: libc::iovec = libc::iovec {
            iov_base: null_mut(),
            iov_len: 0,
        };
        Self {
            pieces: [NOTHING; MOST + 1],
            count: 0,
        }
    }

    fn fill(&mut self, pieces: &[ApplicationMemory]) -> Result<()> {
        if pieces.len() > MOST {
            return Err(Errno::INVAL);
        }
        for piece in pieces {
            let address = core::ptr::with_exposed_provenance_mut(piece.address());
            self.push(address, piece.length())?;
        }
        Ok(())
    }

    fn push(&mut self, iov_base: *mut c_void, iov_len: usize) -> Result<()> {
        let at = usize::try_from(self.count).map_err(|_| Errno::INVAL)?;
        *self.pieces.get_mut(at).ok_or(Errno::INVAL)? = libc::iovec { iov_base, iov_len };
        self.count += 1;
        Ok(())
    }

    /// Makes the last bytes a piece, which the kernel copies after the others. The stores of one
    /// copy (`rep movsb`) may become visible in any order, and programs poll for the last byte.
    fn part_last(&mut self) -> Result<()> {
        let count = usize::try_from(self.count).map_err(|_| Errno::INVAL)?;
        let end = count.checked_sub(1).and_then(|at| self.pieces.get_mut(at));
        let Some(end) = end.filter(|end| end.iov_len > LAST) else {
            return Ok(());
        };
        end.iov_len -= LAST;
        let last = end.iov_base.wrapping_byte_add(end.iov_len);
        self.push(last, LAST)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;
    use core::sync::atomic::Ordering::Relaxed;
    use std::process::{Child, Command, Stdio};

    fn child() -> (Child, OtherProcess) {
        let mut sleeper = Command::new("cat");
        let sleeper = sleeper.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let sleeper = sleeper.expect("a child");
        let pid = i32::try_from(sleeper.id()).ok().and_then(Pid::from_raw);
        let process = OtherProcess::new(pid.expect("a number"));
        (sleeper, process.expect("another process"))
    }

    /// An address of a page in the child that may be written.
    fn writable(of: &Child) -> u64 {
        loop {
            let maps = std::fs::read_to_string(format!("/proc/{}/maps", of.id())).expect("maps");
            let stack = maps.lines().find(|line| line.ends_with("[stack]"));
            if let Some((start, _)) = stack.and_then(|line| line.split_once('-')) {
                return u64::from_str_radix(start, 16).expect("a number");
            }
        }
    }

    #[test]
    fn bytes_go_there_and_come_back() {
        let (mut other, process) = child();
        let at = writable(&other);
        assert_eq!(process.write(Source::Bytes(b"hello"), &range(at, 5)), Ok(5));
        let here = Scratch::new(1).expect("memory").memory();
        let pieces = [(100, 2), (200, 3)].map(|(at, length)| here.part(at, length).expect("there"));
        assert_eq!(process.read(&pieces, &range(at, 5)), Ok(5));
        let mut back = [0; 3];
        assert_eq!(here.read(200, &mut back), Ok(()));
        assert_eq!(&back, b"llo");
        assert_eq!(process.read_bytes(&mut back, &range(at + 1, 3)), Ok(3));
        assert_eq!(&back, b"ell");
        assert_eq!(
            process.write(Source::Registered(&pieces), &range(at + 8, 5)),
            Ok(5)
        );
        assert_eq!(
            process.read(&pieces, &range(4096, 5)),
            Err(Errno(libc::EFAULT))
        );
        assert_eq!(
            process.read(&[pieces[0]; MOST + 1], &range(at, 5)),
            Err(Errno::INVAL)
        );
        other.kill().expect("killed");
        other.wait().expect("gone");
        assert_eq!(
            process.read(&pieces, &range(at, 5)),
            Err(Errno(libc::ESRCH))
        );
    }

    #[test]
    fn the_range_at_the_call_selects_the_bytes() {
        let (mut other, process) = child();
        let at = writable(&other);
        let here = Scratch::new(1).expect("memory").memory();
        let pieces = [here.part(0, 5).expect("there")];
        let there = range(at, 5);
        assert_eq!(process.write(Source::Bytes(b"hello"), &there), Ok(5));
        // More than there is here, or nothing.
        there[1].store(1 << 20, Relaxed);
        assert_eq!(process.read(&pieces, &there), Ok(5));
        assert_eq!(process.write(Source::Bytes(b"HELLO"), &there), Ok(5));
        there[1].store(0, Relaxed);
        assert_eq!(process.write(Source::Bytes(b"other"), &there), Ok(0));
        assert_eq!(process.read(&pieces, &there), Ok(0));
        there[1].store(u64::MAX, Relaxed);
        assert!(process.read(&pieces, &there).is_err());
        assert_eq!(process.read(&pieces, &range(at, 5)), Ok(5));
        let mut back = [0; 5];
        assert_eq!(here.read(0, &mut back), Ok(()));
        assert_eq!(&back, b"HELLO");
        other.kill().expect("killed");
        other.wait().expect("gone");
    }

    #[test]
    fn the_last_bytes_are_a_piece() {
        let lengths = |given: &[usize]| {
            let here = Scratch::new(1).expect("memory").memory();
            let pieces = given.iter().map(|length| here.part(100, *length));
            let pieces: Vec<_> = pieces.map(|piece| piece.expect("there")).collect();
            let mut list = List::new();
            list.fill(&pieces).expect("room");
            list.part_last().expect("room");
            let count = usize::try_from(list.count).expect("few");
            let end = list.pieces[count - 1];
            let last = given[given.len() - 1];
            assert_eq!(
                end.iov_base.addr() + end.iov_len,
                here.address() + 100 + last
            );
            list.pieces[..count]
                .iter()
                .map(|piece| piece.iov_len)
                .collect::<Vec<_>>()
        };
        assert_eq!(lengths(&[8]), [8]);
        assert_eq!(lengths(&[9]), [1, 8]);
        assert_eq!(lengths(&[1000, 4]), [1000, 4]);
        let most = lengths(&[50; MOST]);
        assert_eq!((most.len(), &most[MOST - 1..]), (MOST + 1, &[42, 8][..]));
    }

    #[test]
    fn the_own_process_is_refused() {
        assert!(OtherProcess::new(rustix::process::getpid()).is_err());
    }
}
