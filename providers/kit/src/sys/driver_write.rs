//! write(2) to a driver that responds through an address in the written data.

use crate::errno::{Errno, Result};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Writes a command, in which there may be the address of memory for the response. It is no
/// cancellation point.
///
/// rustix::io::write declares to the compiler that it changes no memory. A response that is read
/// after it may have its previous value.
///
/// # Errors
/// The driver's; EINTR.
#[inline(always)]
pub fn write(fd: BorrowedFd<'_>, command: &[u8]) -> Result<usize> {
    system_call(fd, command)
}

/// The system call in place: by the C library's syscall(3) it costs several times as many
/// instructions, of which a connection's steps have few.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn system_call(fd: BorrowedFd<'_>, command: &[u8]) -> Result<usize> {
    let answer: libc::c_long;
    // SAFETY: the descriptor is open, and the bytes are there to be read. The kernel changes the
    // named registers, and memory, as the assembly may.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_write => answer,
            in("rdi") fd.as_raw_fd(),
            in("rsi") command.as_ptr(),
            in("rdx") command.len(),
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    match usize::try_from(answer) {
        Ok(taken) => Ok(taken),
        Err(_) => Err(Errno(i32::try_from(-answer).unwrap_or(libc::EIO))),
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
fn system_call(fd: BorrowedFd<'_>, command: &[u8]) -> Result<usize> {
    // SAFETY: the descriptor is open, and the bytes are there to be read.
    let taken = unsafe {
        libc::syscall(
            libc::SYS_write,
            fd.as_raw_fd(),
            command.as_ptr(),
            command.len(),
        )
    };
    usize::try_from(taken).map_err(|_| super::errno::get())
}

/// The same, again after each interruption by a signal.
///
/// # Errors
/// The driver's.
#[inline]
pub fn write_uninterrupted(fd: BorrowedFd<'_>, command: &[u8]) -> Result<usize> {
    loop {
        match write(fd, command) {
            Err(Errno(libc::EINTR)) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn memory_that_a_write_changes_is_read_anew() {
        // A write to this file changes the memory of the process, as a response does.
        let memory = File::options().write(true).open("/proc/self/mem").unwrap();
        let mut response = 0_u64;
        let at = (&raw mut response).expose_provenance() as u64;
        rustix::fs::seek(&memory, rustix::fs::SeekFrom::Start(at)).unwrap();
        let before = response;
        let taken = write_uninterrupted(memory.as_fd(), &7_u64.to_ne_bytes());
        assert_eq!((taken, before, response), (Ok(8), 0, 7));
    }

    #[test]
    fn errors_are_the_files() {
        let zero = File::open("/dev/zero").unwrap();
        assert_eq!(write(zero.as_fd(), b"x"), Err(Errno(libc::EBADF)));
    }
}
