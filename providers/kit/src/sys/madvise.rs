//! madvise(2) for fork, and related functions.
//!
//! These are safe to call for any address: the process's own view of its memory stays as it is.

use crate::errno::{Errno, Result};
use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicU32;
use std::ptr::NonNull;

fn advise(addr: usize, len: usize, advice: c_int) -> Result<()> {
    let start = core::ptr::without_provenance_mut::<c_void>(addr);
    // SAFETY: the advice given here changes the memory of a future child, and not of this process;
    // the kernel checks the addresses.
    if unsafe { libc::madvise(start, len, advice) } == 0 {
        return Ok(());
    }
    Err(super::errno::get())
}

/// Keeps the pages out of forked children (`MADV_DONTFORK`).
///
/// # Errors
/// EINVAL where `addr` is not page-aligned, the range wraps around or cuts a huge page; ENOMEM
/// where part of the range is not mapped (the rest is marked); EAGAIN without kernel memory or
/// map entries.
pub fn dont_fork(addr: usize, len: usize) -> Result<()> {
    advise(addr, len, libc::MADV_DONTFORK)
}

/// Lets forked children have the pages again (`MADV_DOFORK`).
///
/// # Errors
/// As [`dont_fork`]; EINVAL also for device memory, which children never get.
pub fn do_fork(addr: usize, len: usize) -> Result<()> {
    advise(addr, len, libc::MADV_DOFORK)
}

/// Makes the kernel put a page of the process's own under `addr`, as a write of the process
/// would, without changing a byte and without a signal where that cannot be.
///
/// It is futex(2)'s atomic OR, with 0: on any kernel the cheapest write that answers EFAULT.
///
/// # Errors
/// EFAULT where nothing writable is mapped, EINVAL where `addr` is no multiple of 4.
pub fn fault_in(addr: usize) -> Result<()> {
    static UNUSED: AtomicU32 = AtomicU32::new(0);
    const OR_ZERO: c_int = (libc::FUTEX_OP_OR << 28) | (libc::FUTEX_OP_CMP_LT << 24);
    const WAKE_NONE: c_int = 0;
    // SAFETY: the one write is an atomic OR with 0, which leaves the word as it is for all other
    // users; the kernel checks the address. A waiter woken by chance has to check its word.
    let done = unsafe {
        libc::syscall(
            libc::SYS_futex,
            &raw const UNUSED,
            libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG,
            WAKE_NONE,
            core::ptr::null::<c_void>(),
            core::ptr::without_provenance::<c_void>(addr),
            OR_ZERO,
        )
    };
    if done >= 0 {
        return Ok(());
    }
    Err(super::errno::get())
}

/// A separate page of anonymous memory, zeroed; unmapped when dropped.
pub struct Page(NonNull<c_void>);

impl Page {
    /// Maps one.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new() -> Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let addr = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                rustix::param::page_size(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if addr == libc::MAP_FAILED {
            return Err(super::errno::get());
        }
        NonNull::new(addr).map(Self).ok_or(Errno::NOMEM)
    }

    /// Where it is.
    pub fn as_ptr(&self) -> *mut c_void {
        self.0.as_ptr()
    }

    /// Its address.
    pub fn addr(&self) -> usize {
        self.as_ptr().addr()
    }

    /// Zeroes the page in forked children (`MADV_WIPEONFORK`).
    ///
    /// # Errors
    /// EINVAL before Linux 4.14.
    pub fn wipe_on_fork(&self) -> Result<()> {
        advise(
            self.addr(),
            rustix::param::page_size(),
            libc::MADV_WIPEONFORK,
        )
    }

    /// Lets the page be read and written, as it can be already (mprotect(2)).
    ///
    /// # Errors
    /// Of mprotect(2).
    pub fn protect(&self) -> Result<()> {
        let size = rustix::param::page_size();
        let both = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the page is this value's own, and stays as it is.
        if unsafe { libc::mprotect(self.as_ptr(), size, both) } == 0 {
            return Ok(());
        }
        Err(super::errno::get())
    }

    /// Keeps the page mapped for good.
    pub fn leak(self) -> NonNull<c_void> {
        let page = self.0;
        core::mem::forget(self);
        page
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no address of it outlives the value.
        unsafe { libc::munmap(self.0.as_ptr(), rustix::param::page_size()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmapped_memory_is_an_errno() {
        let page = Page::new().unwrap();
        let (addr, len) = (page.addr(), rustix::param::page_size());
        assert_eq!(fault_in(addr), Ok(()));
        assert_eq!(dont_fork(addr, len), Ok(()));
        assert_eq!(do_fork(addr, len), Ok(()));
        assert_eq!(fault_in(addr + 1), Err(Errno::INVAL));
        assert_eq!(dont_fork(addr + 1, len), Err(Errno::INVAL));
        assert_eq!(fault_in(0), Err(Errno(libc::EFAULT)));
        assert_eq!(dont_fork(0, len), Err(Errno::NOMEM));
    }

    #[test]
    fn a_word_in_use_keeps_its_value() {
        let word = AtomicU32::new(0xdead_beef);
        assert_eq!(fault_in((&raw const word).addr()), Ok(()));
        assert_eq!(word.into_inner(), 0xdead_beef);
    }
}
