//! Memory of the program's own that is registered.

use std::ptr::NonNull;

/// Memory that a program has and that is to be registered: mapped, of huge pages, shared with other
/// processes, of another library
/// ([`ProtectionDomain::region_of`](crate::ProtectionDomain::region_of)). The region owns the
/// value, and drops it after the device has given the memory up.
///
/// With [`fork_init`](crate::fork_init), registered pages are missing in child processes of
/// fork(2), whole ones: memory that shares its first or last page with other data takes that away
/// too.
///
/// # Safety
/// The memory is initialised, and can be read and written until the value is dropped; moving the
/// value does not move the memory. While the region has the value, this process accesses the memory
/// by the region alone. Other processes and devices may access it at any time.
pub unsafe trait MemoryOwner: Send + Sync + 'static {
    /// The memory. It is called once.
    fn memory(&mut self) -> NonNull<[u8]>;
}

/// Memory that no other process and no other device accesses, so that it can be a
/// [`Buffer`](crate::Buffer) ([`ProtectionDomain::buffer_of`](crate::ProtectionDomain::buffer_of)).
///
/// # Safety
/// While the buffer has the value, nothing accesses the memory but by the buffer.
pub unsafe trait ExclusiveMemory: MemoryOwner {}

// SAFETY: a vector's elements are initialised, stay where they are when it is moved, and are freed
// with it. Nothing else accesses them.
unsafe impl MemoryOwner for Vec<u8> {
    fn memory(&mut self) -> NonNull<[u8]> {
        NonNull::from(self.as_mut_slice())
    }
}

// SAFETY: as above.
unsafe impl ExclusiveMemory for Vec<u8> {}
