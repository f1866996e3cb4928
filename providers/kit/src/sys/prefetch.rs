//! Fetching a cache line before it is needed: a hint alone.

use core::sync::atomic::AtomicU64;

/// Has the processor fetch the cache line of a word that is about to be written. A line that
/// another processor wrote last takes as long as a hundred instructions. A locked instruction (of
/// any lock) waits for the stores before it, and so for their lines.
#[inline(always)]
pub fn to_write(word: &AtomicU64) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: PREFETCHW changes neither memory nor registers, and raises no exception. Processors
    // without it execute it as NOP.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) word, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above, of PRFM.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) word, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = word;
}
