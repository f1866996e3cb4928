#![forbid(unsafe_code)]
//! A block without an owner, kept for the next one who needs a block.
//!
//! A thread takes the block by an exchange for NULL, so one thread alone has it. A thread with a
//! block to free exchanges NULL for it; where another block is kept already, the thread keeps its
//! own and frees it. There is no state between the two that a forked child could find. The exchange
//! that takes a block sees all that its former owner wrote to it (acquire and release).

/// Defines `Spare` over an atomic pointer: that of the standard library, or loom's.
macro_rules! spare {
    ($atomic:ident) => {
        /// The block, or NULL.
        pub struct Spare<T>($atomic<T>);

        impl<T> Spare<T> {
            /// Takes the block; none if there is none.
            #[inline]
            pub fn take(&self) -> Option<core::ptr::NonNull<T>> {
                let taken = self.0.swap(core::ptr::null_mut(), Ordering::Acquire);
                core::ptr::NonNull::new(taken)
            }

            /// Keeps a block. False if another one is kept: then the caller still owns it.
            #[inline]
            pub fn keep(&self, block: core::ptr::NonNull<T>) -> bool {
                let none = core::ptr::null_mut();
                let kept = self.0.compare_exchange(
                    none,
                    block.as_ptr(),
                    Ordering::Release,
                    Ordering::Relaxed,
                );
                kept.is_ok()
            }
        }
    };
}

use core::sync::atomic::{AtomicPtr, Ordering};

spare!(AtomicPtr);

impl<T> Spare<T> {
    /// Without a block.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }
}

#[cfg(test)]
mod interleavings {
    use loom::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
    use loom::sync::{Arc, Mutex};

    spare!(AtomicPtr);

    /// Blocks are numbered places; the pointers are never followed.
    fn block(number: usize) -> core::ptr::NonNull<u8> {
        let pointer = core::ptr::without_provenance_mut(number);
        core::ptr::NonNull::new(pointer).expect("numbers begin with 1")
    }

    struct Shared {
        spare: Spare<u8>,
        made: AtomicUsize,
        freed: Mutex<Vec<usize>>,
        /// The contents of the blocks, by their numbers: loom reports two threads that use one
        /// block at a time, and one that does not see what the former owner wrote.
        contents: Vec<loom::cell::Cell<usize>>,
    }

    const THREADS: usize = 2;
    const TURNS: usize = 2;

    fn use_blocks(shared: &Shared) {
        for _ in 0..TURNS {
            let own = shared.spare.take().unwrap_or_else(|| {
                let before = shared.made.fetch_add(1, Ordering::Relaxed);
                block(before + 1)
            });
            let number = own.as_ptr().addr();
            let contents = &shared.contents[number];
            contents.set(contents.get() + 1);
            if !shared.spare.keep(own) {
                shared.freed.lock().expect("no panic").push(number);
            }
        }
    }

    /// In each order of events a block has one owner at a time, each block but the last one that is
    /// kept is freed once, and none is used after that.
    #[test]
    fn a_block_has_one_owner_at_a_time() {
        loom::model(|| {
            let cells = 0..=THREADS * TURNS;
            let shared = Arc::new(Shared {
                spare: Spare(AtomicPtr::new(core::ptr::null_mut())),
                made: AtomicUsize::new(0),
                freed: Mutex::new(Vec::new()),
                contents: cells.map(|_| loom::cell::Cell::new(0)).collect(),
            });
            let theirs = Arc::clone(&shared);
            let other = loom::thread::spawn(move || use_blocks(&theirs));
            use_blocks(&shared);
            other.join().expect("no panic");
            let mut blocks = shared.freed.lock().expect("no panic").clone();
            blocks.extend(shared.spare.take().map(|kept| kept.as_ptr().addr()));
            blocks.sort_unstable();
            let made = shared.made.load(Ordering::Relaxed);
            assert!(blocks.into_iter().eq(1..=made));
            let uses: usize = shared.contents.iter().map(loom::cell::Cell::get).sum();
            assert_eq!(uses, THREADS * TURNS);
        });
    }
}
