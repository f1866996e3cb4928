//! Memory that an application registered: a range that this process may read and write, as the
//! application has requested.

pub use super::out_of_range::OutOfRange;

use super::no_fault_copy::{NoFaultCopy, Staged};
use super::put::{LAST, put};
use super::shared::Shared;
use super::{kernel_copy, madvise};
use crate::errno::{Errno, Result};
use core::ffi::{c_int, c_void};
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicU64, Ordering};

const EFAULT: Errno = Errno(libc::EFAULT);

/// A range that an application registered. Any number of threads, peers and the application itself
/// may use it at the same time, as with a device that works on memory; bytes may then be torn, but
/// aligned words are not where [`ApplicationMemory::word`] is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationMemory {
    address: usize,
    length: usize,
}

impl ApplicationMemory {
    /// No bytes.
    pub const NOTHING: Self = Self {
        address: 0,
        length: 0,
    };

    /// The range of `length` bytes from `address`.
    ///
    /// # Errors
    /// EINVAL if it wraps around.
    ///
    /// # Safety
    /// As ibv_reg_mr(3) asks of its caller: whatever of the range is used through the value is
    /// mapped, and writable if it is written, as long as the value (or a copy) is used (the `try_`
    /// methods find that out by themselves). No Rust reference to the memory is alive meanwhile.
    pub unsafe fn new(address: usize, length: usize) -> Result<Self> {
        address.checked_add(length).ok_or(Errno::INVAL)?;
        Ok(Self { address, length })
    }

    /// Address of the first byte.
    #[must_use]
    pub fn address(&self) -> usize {
        self.address
    }

    /// Bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Where `length` bytes from an offset on are.
    pub(super) fn at(
        &self,
        offset: usize,
        length: usize,
    ) -> core::result::Result<*mut u8, OutOfRange> {
        let end = offset.checked_add(length).ok_or(OutOfRange)?;
        if end > self.length {
            return Err(OutOfRange);
        }
        Ok(with_exposed_provenance_mut(self.address + offset))
    }

    /// Part of the range.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn part(&self, offset: usize, length: usize) -> core::result::Result<Self, OutOfRange> {
        self.at(offset, length)?;
        let address = self.address + offset;
        Ok(Self { address, length })
    }

    /// Reads the bytes from `offset` on.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> core::result::Result<(), OutOfRange> {
        let from = self.at(offset, to.len())?;
        // SAFETY: inside the range, which `new` was promised; `to` is ours alone. The C function is
        // called, rather than a copy of Rust's, since others may write meanwhile.
        unsafe { libc::memcpy(to.as_mut_ptr().cast(), from.cast::<c_void>(), to.len()) };
        Ok(())
    }

    /// Writes bytes from `offset`. The last ones become visible after all others, because programs
    /// poll for the last byte of a peer's write.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn write(&self, offset: usize, from: &[u8]) -> core::result::Result<(), OutOfRange> {
        let to = self.at(offset, from.len())?;
        // SAFETY: as in `read`.
        unsafe { put(to, from.as_ptr(), from.len()) };
        Ok(())
    }

    /// Writes as many bytes as the range has, from `at` of shared memory on. The process that it is
    /// shared with may change them meanwhile.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn write_from(&self, shared: &Shared, at: usize) -> core::result::Result<(), OutOfRange> {
        let from = shared.place(at, self.length)?;
        let to = self.at(0, self.length)?;
        // SAFETY: `from` is inside the mapping, `to` inside the range, which `new` was promised.
        // The C function is called, rather than a copy of Rust's, since others may write meanwhile.
        unsafe { libc::memcpy(to.cast(), from, self.length) };
        Ok(())
    }

    /// Reads all bytes of the range into shared memory, from `at` on.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn read_into(&self, shared: &Shared, at: usize) -> core::result::Result<(), OutOfRange> {
        let to = shared.place(at, self.length)?;
        let from = self.at(0, self.length)?;
        // SAFETY: as in `write_from`, the other way round.
        unsafe { libc::memcpy(to, from.cast::<c_void>(), self.length) };
        Ok(())
    }

    /// As [`Self::read`], for a range of which parts may not be mapped.
    ///
    /// # Errors
    /// EFAULT out of the range, and where nothing is mapped; ENOMEM, EMFILE.
    pub fn try_read(&self, offset: usize, to: &mut [u8], by: &NoFaultCopy) -> Result<()> {
        let from = self.at(offset, to.len()).map_err(|_| EFAULT)?;
        by.read(from.addr(), to)
    }

    /// As [`Self::try_read`], but with plain loads, right after a check that the bytes are there.
    /// If another thread unmaps them in between, a signal ends the process. The page that was
    /// `found` last is not checked again.
    ///
    /// # Errors
    /// EFAULT out of the range, and where nothing is mapped.
    pub fn find_and_read(&self, offset: usize, to: &mut [u8], found: &mut FoundPage) -> Result<()> {
        let piece = self.part(offset, to.len()).map_err(|_| EFAULT)?;
        found.find(&piece)?;
        self.read(offset, to).map_err(|_| EFAULT)
    }

    /// Writes the bytes from `offset` on, in any order, for a range of which parts may not be
    /// mapped, or not writable. Bytes in front of such a part may have been written.
    ///
    /// # Errors
    /// EFAULT out of the range, and where nothing is mapped, or not so; ENOMEM, EMFILE.
    pub fn try_write(&self, offset: usize, from: &[u8], by: &NoFaultCopy) -> Result<()> {
        let to = self.at(offset, from.len()).map_err(|_| EFAULT)?;
        // SAFETY: inside the range, which `new` was promised is the application's to be written.
        unsafe { by.write(to.addr(), from) }
    }

    /// As [`Self::try_write`], but the last bytes become visible after all others, and an aligned
    /// word of them at once, as in [`Self::write`]. Those are written with plain stores, right
    /// after a check that they are there. If another thread unmaps them in between, a signal ends
    /// the process.
    ///
    /// # Errors
    /// As for [`Self::try_write`].
    pub fn try_write_in_order(&self, offset: usize, from: &[u8], by: &NoFaultCopy) -> Result<()> {
        let first = from.len().saturating_sub(LAST);
        let (most, last) = from.split_at_checked(first).ok_or(EFAULT)?;
        let all = self.part(offset, from.len()).map_err(|_| EFAULT)?;
        self.try_write(offset, most, by)?;
        all.try_write_last(first, last)
    }

    /// Writes the last bytes, those from `first` on, after the others were written.
    fn try_write_last(&self, first: usize, last: &[u8]) -> Result<()> {
        let end = self.part(first, last.len()).map_err(|_| EFAULT)?;
        // All bytes are in one page with the preceding ones, which the kernel has just written.
        let within = end.address % rustix::param::page_size();
        let apart = within == 0 || within + last.len() > rustix::param::page_size();
        if first == 0 || apart {
            end.find(true)?;
        }
        end.write(0, last).map_err(|_| EFAULT)
    }

    /// As [`Self::try_write_in_order`], of bytes that were collected.
    fn try_write_staged(&self, offset: usize, from: &Staged) -> Result<()> {
        let first = from.length().saturating_sub(LAST);
        let all = self.part(offset, from.length()).map_err(|_| EFAULT)?;
        // SAFETY: inside the range, which `new` was promised is the application's to be written.
        unsafe { from.write(all.address, first) }?;
        all.try_write_last(first, &from.copy(first))
    }

    /// As [`Self::write_mapped_part`] in order, of bytes that were collected.
    ///
    /// # Errors
    /// EFAULT out of the range; ENOMEM, EMFILE.
    pub fn write_staged(&self, offset: usize, from: &Staged, by: &NoFaultCopy) -> Result<()> {
        self.at(offset, from.length()).map_err(|_| EFAULT)?;
        match self.try_write_staged(offset, from) {
            Err(EFAULT) => self.write_pages(offset, &from.copy(0), by),
            written => written,
        }
    }

    /// Writes the bytes from `offset` on where something is mapped, and writable; the others are
    /// lost, as those that a card writes to pinned pages that are not mapped any more.
    /// `in_order`: as [`Self::try_write_in_order`] where all is there.
    ///
    /// # Errors
    /// EFAULT out of the range; ENOMEM, EMFILE.
    pub fn write_mapped_part(
        &self,
        offset: usize,
        from: &[u8],
        in_order: bool,
        by: &NoFaultCopy,
    ) -> Result<()> {
        self.at(offset, from.len()).map_err(|_| EFAULT)?;
        let written = match in_order {
            true => self.try_write_in_order(offset, from, by),
            false => self.try_write(offset, from, by),
        };
        match written {
            Err(EFAULT) => self.write_pages(offset, from, by),
            written => written,
        }
    }

    #[cold]
    fn write_pages(&self, offset: usize, from: &[u8], by: &NoFaultCopy) -> Result<()> {
        let page = rustix::param::page_size();
        let (mut at, mut rest) = (offset, from);
        while !rest.is_empty() {
            let within = page - (self.address + at) % page;
            let (now, later) = rest.split_at(within.min(rest.len()));
            match self.try_write(at, now, by) {
                Ok(()) | Err(EFAULT) => {}
                error => return error,
            }
            (at, rest) = (at + now.len(), later);
        }
        Ok(())
    }

    /// As [`Self::word`], for a range of which parts may not be mapped, or not writable. If another
    /// thread unmaps the word before it is used, a signal ends the process.
    ///
    /// # Errors
    /// EFAULT out of the range, if its address is no multiple of 8, and where nothing is mapped, or
    /// not so.
    pub fn try_word(&self, offset: usize) -> Result<AtomicWord<'_>> {
        let word = self.word(offset).map_err(|_| EFAULT)?;
        self.part(offset, size_of::<u64>())
            .map_err(|_| EFAULT)?
            .find(true)?;
        Ok(word)
    }

    /// Finds out whether the bytes are there to be read, or to be written.
    fn find(&self, writable: bool) -> Result<()> {
        if self.length == 0 {
            return Ok(());
        }
        let page = rustix::param::page_size();
        self.probe(self.address - self.address % page, page, writable)
    }

    /// The word of 8 bytes at `offset`, for atomic operations.
    ///
    /// # Errors
    /// [`OutOfRange`], also if its address is no multiple of 8.
    #[inline]
    pub fn word(&self, offset: usize) -> core::result::Result<AtomicWord<'_>, OutOfRange> {
        let at = self.at(offset, size_of::<u64>())?.cast::<u64>();
        if !at.is_aligned() {
            return Err(OutOfRange);
        }
        // SAFETY: aligned and inside the range, which `new` was promised.
        Ok(AtomicWord(unsafe { AtomicU64::from_ptr(at) }))
    }

    /// Faults in the pages of the range, for writing or only for reading, and so finds out whether
    /// they are mapped, as a kernel does that pins them.
    ///
    /// # Errors
    /// EFAULT if part of the range is not mapped, or not so; ENOMEM.
    pub fn populate(&self, writable: bool) -> Result<()> {
        if self.length == 0 {
            return Ok(());
        }
        let page = rustix::param::page_size();
        let begin = self.address - self.address % page;
        let length = self.address - begin + self.length;
        let advice = if writable {
            libc::MADV_POPULATE_WRITE
        } else {
            libc::MADV_POPULATE_READ
        };
        let probe = || self.probe(begin, page, writable);
        match populate(begin, length, advice) {
            // A kernel before Linux 5.14, a mapping of a device, or one that may not be used so, or
            // a sandbox that denies the call: pages are tried one by one.
            Err(e) if e.is_denial() => probe(),
            Err(Errno::NOMEM) => Err(probe().err().unwrap_or(Errno::NOMEM)),
            Err(_) => Err(Errno(libc::EFAULT)),
            Ok(()) => Ok(()),
        }
    }

    /// Copies each page through the kernel, which returns EFAULT for a page that is not there.
    fn probe(&self, begin: usize, page: usize, writable: bool) -> Result<()> {
        let end = self.address + self.length;
        let mut at = begin;
        while at < end {
            if writable {
                madvise::fault_in(at)?;
            } else {
                kernel_copy::find(at)?;
            }
            let Some(next) = at.checked_add(page) else {
                break;
            };
            at = next;
        }
        Ok(())
    }
}

/// The page that reads have found last, for as long as those follow each other without a pause:
/// packets are shorter than pages, and a check takes longer than the copy of one.
#[derive(Debug, Default)]
pub struct FoundPage(Option<usize>);

impl FoundPage {
    /// Finds out whether the bytes are there to be read.
    fn find(&mut self, piece: &ApplicationMemory) -> Result<()> {
        let Some(last) = piece.length.checked_sub(1) else {
            return Ok(());
        };
        let page = rustix::param::page_size();
        let [first, last] = [0, last].map(|at| piece.address + at - (piece.address + at) % page);
        let begin = match self.0 {
            Some(found) if found == first && found == last => return Ok(()),
            Some(found) if found == first => first + page,
            _ => first,
        };
        // Nothing is known of it if this fails.
        self.0 = None;
        piece.probe(begin, page, false)?;
        self.0 = Some(last);
        Ok(())
    }
}

/// A word of an application's memory.
#[derive(Clone, Copy, Debug)]
pub struct AtomicWord<'a>(&'a AtomicU64);

impl AtomicWord<'_> {
    /// The value of the word.
    #[must_use]
    #[inline]
    pub fn load(self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Adds, modulo 2^64; returns the previous value.
    pub fn fetch_add(self, add: u64) -> u64 {
        self.0.fetch_add(add, Ordering::SeqCst)
    }

    /// Stores `swap` if the word is `compare`; returns the previous value.
    pub fn compare_swap(self, compare: u64, swap: u64) -> u64 {
        self.0
            .compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst)
            .unwrap_or_else(|there| there)
    }

    /// Stores.
    pub fn store(self, value: u64) {
        self.0.store(value, Ordering::SeqCst);
    }
}

fn populate(begin: usize, length: usize, advice: c_int) -> Result<()> {
    let start = core::ptr::without_provenance_mut::<c_void>(begin);
    // SAFETY: brings in pages as a read or a write of them would, without changing a byte; the
    // kernel checks the addresses.
    if unsafe { libc::madvise(start, length, advice) } == 0 {
        return Ok(());
    }
    Err(super::errno::get())
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;

    fn of(bytes: &mut [u8]) -> ApplicationMemory {
        let address = bytes.as_mut_ptr().expose_provenance();
        // SAFETY: the tests use the value while the bytes live, and the bytes only when it is not.
        unsafe { ApplicationMemory::new(address, bytes.len()) }.expect("in the address space")
    }

    #[test]
    fn bytes_are_read_and_written_inside_the_range_only() {
        let mut bytes = [0u8; 32];
        let memory = of(&mut bytes);
        assert_eq!(memory.write(4, &[1, 2, 3]), Ok(()));
        let mut back = [0u8; 3];
        assert_eq!(memory.read(4, &mut back), Ok(()));
        assert_eq!(back, [1, 2, 3]);
        assert_eq!(memory.write(30, &[1, 2, 3]), Err(OutOfRange));
        assert_eq!(memory.read(usize::MAX, &mut back), Err(OutOfRange));
        assert_eq!(memory.write(32, &[]), Ok(()));
        assert_eq!(bytes[3..8], [0, 1, 2, 3, 0]);
    }

    /// Rounds of one length.
    const ROUNDS: u8 = 200;

    #[test]
    #[cfg_attr(miri, ignore = "bytes are read while another thread writes them")]
    fn a_reader_of_the_last_byte_sees_all() {
        let memory = Scratch::new(1).expect("memory").memory();
        for length in [2, 7, 8, 9, 31, 64, 255, 256, 1024, 4000] {
            for shift in [0, 3] {
                let at = memory.part(shift, length).expect("there");
                at.write(0, &vec![0; length]).expect("there");
                let seen = AtomicU64::new(0);
                std::thread::scope(|scope| {
                    let watcher = scope.spawn(|| watch(&at, &seen));
                    for round in 1..=ROUNDS {
                        at.write(0, &vec![round; length]).expect("there");
                        while seen.load(Ordering::Acquire) != u64::from(round) {
                            // With its assertion, unless that was the last round.
                            let gone = watcher.is_finished();
                            let done = seen.load(Ordering::Acquire) == u64::from(round);
                            assert!(done || !gone, "round {round} of {length} bytes");
                            std::thread::yield_now();
                        }
                    }
                });
            }
        }
    }

    /// Waits for the last byte of each round, as programs do that poll for a peer's write.
    fn watch(at: &ApplicationMemory, seen: &AtomicU64) {
        let mut all = vec![0; at.length()];
        for round in 1..=ROUNDS {
            let mut last = [0];
            while last != [round] {
                at.read(at.length() - 1, &mut last).expect("there");
                std::hint::spin_loop();
            }
            at.read(0, &mut all).expect("there");
            assert_eq!(all, vec![round; at.length()]);
            seen.store(u64::from(round), Ordering::Release);
        }
    }

    #[test]
    fn bytes_are_copied_to_and_from_shared_memory_inside_both() {
        let (shared, _fd) = Shared::create(c"test", 4096).expect("memory");
        let mut bytes = *b"abcdef";
        let memory = of(&mut bytes);
        assert_eq!(memory.read_into(&shared, 4090), Ok(()));
        assert_eq!(memory.read_into(&shared, 4091), Err(OutOfRange));
        assert_eq!(memory.read_into(&shared, usize::MAX), Err(OutOfRange));
        let part = memory.part(1, 2).expect("inside");
        assert_eq!(part.write_from(&shared, 4094), Ok(()));
        assert_eq!(part.write_from(&shared, 4095), Err(OutOfRange));
        assert_eq!(&bytes, b"aefdef");
    }

    #[test]
    fn words_are_atomic_and_aligned() {
        let mut words = [5u64; 2];
        let bytes = bytemuck::bytes_of_mut(&mut words);
        let memory = of(bytes);
        let word = memory.word(8).expect("aligned");
        assert_eq!(word.fetch_add(2), 5);
        assert_eq!(word.compare_swap(1, 9), 7);
        assert_eq!(word.compare_swap(7, 9), 7);
        assert!(memory.word(4).is_err());
        assert!(memory.word(16).is_err());
        assert_eq!(words, [5, 9]);
    }

    #[test]
    fn ranges_that_wrap_or_are_not_mapped_are_refused() {
        // SAFETY: nothing of it is used.
        assert!(unsafe { ApplicationMemory::new(usize::MAX, 2) }.is_err());
        // SAFETY: as above; the kernel is only asked about it.
        let nothing = unsafe { ApplicationMemory::new(4096, 4096) }.expect("in the address space");
        assert_eq!(nothing.populate(true), Err(Errno(libc::EFAULT)));
        assert_eq!(nothing.populate(false), Err(Errno(libc::EFAULT)));
        let mut bytes = vec![0u8; 100_000];
        assert_eq!(of(&mut bytes).populate(true), Ok(()));
    }

    #[test]
    fn memory_that_may_not_be_written_is_reported() {
        let page = Scratch::page();
        let pages = Scratch::new(2).expect("memory");
        let memory = pages.memory();
        let efault = Err(Errno(libc::EFAULT));
        pages.forbid_writing().expect("protected");
        assert_eq!(memory.populate(false), Ok(()));
        assert_eq!(memory.populate(true), efault);
        let by = NoFaultCopy::default();
        assert_eq!(memory.try_write(0, &[1; 4], &by), efault);
        let mut back = [7; 4];
        assert_eq!(memory.try_read(page - 2, &mut back, &by), Ok(()));
        assert_eq!(back, [0; 4]);
        pages.forbid().expect("protected");
        assert_eq!(memory.populate(false), efault);
        assert_eq!(memory.try_read(page - 2, &mut back, &by), efault);
    }

    #[test]
    fn copies_through_the_kernel_end_at_unmapped_pages() {
        let (page, by) = (Scratch::page(), NoFaultCopy::default());
        let first = Scratch::new(1).expect("memory").memory();
        assert_eq!(first.try_write(page - 2, &[1; 2], &by), Ok(()));
        let mut back = [7; 2];
        assert_eq!(first.try_read(page - 2, &mut back, &by), Ok(()));
        assert_eq!(back, [1, 1]);
        assert!(first.try_read(page - 1, &mut back, &by).is_err());
        let gone = Scratch::new(1).expect("memory");
        gone.unmap().expect("unmapped");
        let (memory, mut found) = (gone.memory(), FoundPage::default());
        assert_eq!(memory.try_write(0, &[1], &by), Err(EFAULT));
        assert_eq!(memory.populate(true), Err(EFAULT));
        assert_eq!(memory.try_word(8).map(AtomicWord::load), Err(EFAULT));
        assert_eq!(
            memory.find_and_read(8, &mut [0; 8], &mut found),
            Err(EFAULT)
        );
        assert_eq!(memory.find_and_read(8, &mut [], &mut found), Ok(()));
        for length in [0, 1, 8, 9, 100] {
            let wanted = if length == 0 { Ok(()) } else { Err(EFAULT) };
            let written = memory.try_write_in_order(0, &vec![1; length], &by);
            assert_eq!(written, wanted, "{length} bytes");
        }
    }

    #[test]
    fn bytes_are_lost_where_nothing_is_mapped() {
        let (page, by) = (Scratch::page(), NoFaultCopy::default());
        for in_order in [false, true] {
            let pages = Scratch::new(3).expect("memory");
            let second = pages.range(page, page).expect("there");
            let all = pages.memory();
            let gone = pages.part(1, 1).expect("there");
            gone.unmap().expect("unmapped");
            let bytes = vec![7; 2 * page];
            let written = all.write_mapped_part(page / 2, &bytes, in_order, &by);
            assert_eq!(written, Ok(()));
            let mut back = [0; 2];
            for at in [page / 2, page - 2, 2 * page, 2 * page + page / 2 - 2] {
                assert_eq!(all.read(at, &mut back), Ok(()));
                assert_eq!(back, [7; 2], "{at}");
            }
            assert_eq!(all.read(2 * page + page / 2, &mut back), Ok(()));
            assert_eq!(back, [0; 2]);
            assert_eq!(second.populate(false), Err(EFAULT));
            let beyond = all.write_mapped_part(2 * page, &bytes, in_order, &by);
            assert_eq!(beyond, Err(EFAULT));
        }
    }

    #[test]
    fn the_last_bytes_may_be_those_that_are_not_there() {
        let (page, by) = (Scratch::page(), NoFaultCopy::default());
        let pages = Scratch::new(2).expect("memory");
        let all = pages.memory();
        let second = pages.range(page, page).expect("there");
        for length in [3usize, 8, 20, 4000] {
            for beyond in 0..=length.min(9) {
                let bytes: Vec<u8> = (0..length).map(|at| at.to_le_bytes()[0] | 1).collect();
                let at = page + beyond - length;
                assert_eq!(all.try_write_in_order(at, &bytes, &by), Ok(()));
                let mut back = vec![0; length];
                assert_eq!(all.read(at, &mut back), Ok(()));
                assert_eq!(back, bytes);
            }
        }
        assert_eq!(
            all.try_word(page).map(AtomicWord::load),
            second.try_word(0).map(AtomicWord::load)
        );
        assert!(all.try_word(page + 4).is_err());
        let read = |length| {
            let found = &mut FoundPage::default();
            all.find_and_read(page - 5, &mut vec![0; length], found)
        };
        assert_eq!(read(10), Ok(()));
        pages.forbid_writing().expect("protected");
        assert_eq!(read(10), Ok(()));
        assert_eq!(all.try_write_in_order(page - 8, &[1; 16], &by), Err(EFAULT));
        assert_eq!(all.try_word(page).map(AtomicWord::load), Err(EFAULT));
        let second = pages.part(1, 1).expect("there");
        second.unmap().expect("unmapped");
        assert_eq!(read(10), Err(EFAULT));
        assert_eq!(read(5), Ok(()));
    }

    #[test]
    fn the_page_that_was_found_last_is_not_checked_again() {
        let page = Scratch::page();
        let pages = Scratch::new(3).expect("memory");
        let all = pages.memory();
        let mut found = FoundPage::default();
        let mut knows = |offset, length| {
            let piece = all.part(offset, length).expect("inside");
            let there = found.find(&piece);
            let first = (found.0).is_some_and(|page| page <= all.address() + offset);
            (there, first)
        };
        assert_eq!(knows(8, 0), (Ok(()), false));
        assert_eq!(knows(0, page), (Ok(()), true));
        let second = pages.part(1, 1).expect("there");
        second.unmap().expect("unmapped");
        assert_eq!(knows(page - 8, 8), (Ok(()), true));
        assert_eq!(knows(page - 8, 9), (Err(EFAULT), false));
        assert_eq!(knows(page, 1), (Err(EFAULT), false));
        // From the third page to the first.
        assert_eq!(knows(2 * page, page), (Ok(()), true));
        assert_eq!(knows(0, 1), (Ok(()), true));
    }
}
