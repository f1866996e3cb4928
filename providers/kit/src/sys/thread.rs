//! Which thread this is, in one instruction where that can be had.

/// A number of this thread's own, never 0. One that has ended leaves it to another.
#[inline(always)]
#[must_use]
pub fn number() -> usize {
    pointer()
}

/// The thread pointer: on this processor it points to itself.
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", not(miri)))]
#[inline(always)]
fn pointer() -> usize {
    let pointer: usize;
    // SAFETY: the psABI for thread-local storage has the address of the thread's control block in its
    // first word, and keeps it there as long as the thread runs. Nothing else is touched.
    unsafe {
        core::arch::asm!(
            "mov {}, fs:[0]",
            out(reg) pointer,
            options(nostack, preserves_flags, readonly, pure)
        );
    }
    pointer
}

/// The address of something that each thread has.
#[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64", not(miri))))]
#[inline]
fn pointer() -> usize {
    thread_local! {
        static MARK: u8 = const { 0 };
    }
    MARK.with(|mark| core::ptr::from_ref(mark).addr())
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn threads_have_numbers_of_their_own() {
        let ours = number();
        assert_ne!(ours, 0);
        assert_eq!(number(), ours);
        std::thread::scope(|scope| {
            let theirs = scope.spawn(number).join().expect("a number");
            assert_ne!(theirs, ours);
        });
    }
}
