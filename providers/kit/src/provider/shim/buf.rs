//! Buffers that other processes of the user can map: ibv_alloc_buf(3).

use super::answer::pointer;
use crate::abi::{ibv_buf, ibv_pd};
use crate::errno::{Errno, Result};
use crate::provider::Provider;
use crate::sys::device_memory::DeviceMemory;
use crate::sys::memory;
use crate::table::Given;
use core::ffi::c_void;
use core::ptr::with_exposed_provenance_mut;

/// A buffer as its caller has it, and its memory.
#[repr(C)]
struct Buffer {
    buf: ibv_buf,
    memory: DeviceMemory,
}

/// Adds the verbs of buffers to others, if the provider wants them.
pub(super) fn with_verbs<P: Provider>(others: Given) -> Given {
    if !P::SHARES_BUFFERS {
        return others;
    }
    Given {
        alloc_buf: Some(alloc),
        free_buf: Some(free),
        ..others
    }
}

fn make(pd: *mut ibv_pd, size: usize) -> Result<(*mut Buffer, *mut c_void)> {
    // The kernel rounds up to pages, and must not come to 0 by that.
    if isize::try_from(size).is_err() {
        return Err(Errno::NOMEM);
    }
    let memory = DeviceMemory::new(size)?;
    let addr = with_exposed_provenance_mut(memory.address());
    let buf = ibv_buf {
        addr,
        size,
        pd,
        dmabuf_fd: -1,
    };
    Ok((memory::new(Buffer { buf, memory })?, addr))
}

unsafe extern "C" fn alloc(pd: *mut ibv_pd, size: usize, buf: *mut *mut ibv_buf) -> *mut c_void {
    let made = make(pd, size).map(|(made, addr)| {
        // SAFETY: the library passes room for a pointer. The structure begins with the buffer.
        unsafe { buf.write(made.cast()) };
        addr
    });
    pointer(made)
}

unsafe extern "C" fn free(buf: *mut ibv_buf) {
    let buffer: *mut Buffer = buf.cast();
    // SAFETY: the caller passes a buffer of `alloc`, which it uses no more.
    unsafe {
        buffer.drop_in_place();
        memory::free(buffer.cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_memory_that_others_can_map() {
        let is_file = |addr: usize| {
            // As proc_pid_maps(5) has it: at least 8 digits.
            let start = format!("{addr:08x}-");
            let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
            let mapping = maps.lines().find(|line| line.starts_with(&start));
            mapping.is_some_and(|line| line.contains("/memfd:"))
        };
        // Another test may have all files that a process opens, for a moment.
        let (made, addr) = loop {
            let (made, addr) = make(core::ptr::null_mut(), 100).expect("a buffer");
            if is_file(addr.addr()) {
                break (made, addr.addr());
            }
            // SAFETY: made by `make`, as `alloc` does, and not used any more.
            unsafe { free(made.cast()) };
        };
        // SAFETY: the buffer is there, and nothing else refers to it.
        let buf = unsafe { (*made).buf };
        assert_eq!((buf.addr.addr(), buf.size, buf.dmabuf_fd), (addr, 100, -1));
        // SAFETY: as above.
        unsafe { free(made.cast()) };
        assert!(!is_file(addr));
        for wrong in [0, usize::MAX, usize::MAX / 2] {
            assert!(make(core::ptr::null_mut(), wrong).is_err());
        }
    }
}
