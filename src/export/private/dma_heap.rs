//! Buffers that a device may reach in confidential machines, for providers since release 64.

use crate::{export::ret, private};
use kit::{
    errno::Errno,
    sys::{dma_heap::DmaHeap, memory, pages},
};
use std::{
    ffi::{c_int, c_void},
    os::fd::{FromRawFd, IntoRawFd, OwnedFd},
    path::Path,
};

/// The kernel's heap of memory that is shared with the machine's host.
const SHARED: &str = "/dev/dma_heap/system_cc_shared";

unsafe extern "C" fn init() -> *mut DmaHeap {
    ret::pointer(DmaHeap::open(Path::new(SHARED)).and_then(memory::new))
}
private!(init => "ibv_dmabuf_heap_cc_shared_init", [64, 65]);

unsafe extern "C" fn destroy(heap: *mut DmaHeap) {
    if heap.is_null() {
        return;
    }
    // SAFETY: the provider passes the result of `init`, once.
    unsafe {
        heap.drop_in_place();
        memory::free(heap.cast());
    }
}
private!(destroy => "ibv_dmabuf_heap_destroy", [64, 65]);

unsafe extern "C" fn alloc(heap: *mut DmaHeap, size: usize, fd: *mut c_int) -> *mut c_void {
    // SAFETY: the provider passes a heap that `init` answered, and room for a descriptor.
    ret::pointer(unsafe {
        heap.as_ref()
            .zip(fd.as_mut())
            .ok_or(Errno::INVAL)
            .and_then(|(heap, fd)| {
                let (at, buffer) = heap.alloc(size)?;
                *fd = buffer.into_raw_fd();
                Ok(at)
            })
    })
}
private!(alloc => "ibv_dmabuf_heap_alloc", [64, 65]);

unsafe extern "C" fn free(at: *mut c_void, size: usize, fd: c_int) {
    // SAFETY: the provider returns the result of `alloc`, once.
    unsafe {
        if !at.is_null() {
            pages::unmap(at, size);
        }
        if fd >= 0 {
            drop(OwnedFd::from_raw_fd(fd));
        }
    }
}
private!(free => "ibv_dmabuf_heap_free", [64, 65]);
