//! Copying into memory that another process reads meanwhile.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

/// Bytes that are written last, at once where they are aligned.
pub(super) const LAST: usize = size_of::<u64>();

/// Copies, the last bytes after all others, and each of them after those before it, because
/// programs poll for the last byte of a peer's write. The C library's copy has any order.
///
/// # Safety
/// `length` bytes may be written at `to` and read at `from`, also while others use them.
#[inline]
pub(super) unsafe fn put(to: *mut u8, from: *const u8, length: usize) {
    let first = length.saturating_sub(LAST);
    // SAFETY: vouched for by the caller; both places stay inside.
    unsafe {
        if first > 0 {
            libc::memcpy(to.cast(), from.cast(), first);
            fence(Ordering::Release);
        }
        let (to, from) = (to.add(first), from.add(first));
        if length >= LAST && to.addr().is_multiple_of(LAST) {
            let word = from.cast::<u64>().read_unaligned();
            AtomicU64::from_ptr(to.cast()).store(word, Ordering::Release);
            return;
        }
        for at in 0..length - first {
            let byte = from.add(at).read_volatile();
            AtomicU8::from_ptr(to.add(at)).store(byte, Ordering::Release);
        }
    }
}
