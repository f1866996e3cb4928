//! What a target leaves: the memory in which its home writes down what another process must know to
//! go on in its place, and what keeps its number.
//!
//! There are two copies, written in turn. Which one counts is said last, so that whoever reads after
//! the writer was killed finds a whole one: that of the latest step which may have been answered, or
//! that of the step before, which then comes again.

use super::Link;
use super::words::{Record, Word};
use kit::errno::{Errno, Result};
use kit::sys::shared::Shared;
use parking_lot::Mutex;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Weak};

/// Bytes of one copy, its length in front; the pages take memory when they are first used.
const COPY: usize = 64 << 10;
const LENGTH: usize = 8;
/// Bytes in front of the copies: whose the target is, and how often it was written.
const HEAD: usize = 4096;
const OWNER: usize = 0;
const COUNT: usize = 8;
/// How often who reads looks again while somebody writes.
const TRIES: usize = 100;

/// The estate of a target.
#[derive(Debug)]
pub struct Estate {
    memory: Shared,
    fd: OwnedFd,
    kept: OwnedFd,
    /// Written last, by this process.
    latest: Mutex<Vec<u8>>,
    /// To whom this process has handed it over.
    shown: Mutex<Vec<Weak<Link>>>,
}

impl Estate {
    /// That of a target of the process of this slot. `kept` keeps its number.
    ///
    /// # Errors
    /// Those of [`Shared::create`].
    pub fn create(own: u16, kept: OwnedFd) -> Result<Self> {
        let (memory, fd) = Shared::create(c"uroce-xrc", HEAD + 2 * COPY)?;
        let estate = Self::of(memory, fd, kept);
        estate.word(OWNER).store(u64::from(own), SeqCst);
        Ok(estate)
    }

    /// That which another process has handed over.
    ///
    /// # Errors
    /// Those of [`Shared::map`].
    pub fn map(fd: OwnedFd, kept: OwnedFd) -> Result<Self> {
        let memory = Shared::map(fd.as_fd(), HEAD + 2 * COPY)?;
        Ok(Self::of(memory, fd, kept))
    }

    fn of(memory: Shared, fd: OwnedFd, kept: OwnedFd) -> Self {
        Self {
            memory,
            fd,
            kept,
            latest: Mutex::default(),
            shown: Mutex::default(),
        }
    }

    fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.fd.as_fd(), self.kept.as_fd()]
    }

    /// Hands it over to another process, once.
    pub fn show(&self, number: u32, link: &Arc<Link>) {
        let mut shown = self.shown.lock();
        shown.retain(|known| known.strong_count() > 0);
        if !shown
            .iter()
            .any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(link)))
        {
            shown.push(Arc::downgrade(link));
            link.hand(&Word::Estate(number), &self.descriptors());
        }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        static NOWHERE: AtomicU64 = AtomicU64::new(0);
        // The words are there: lengths were checked.
        let words = self.memory.words();
        words.get(offset / size_of::<u64>()).unwrap_or(&NOWHERE)
    }

    /// Whose the target is: the slot, and a number that differs each time it changes hands.
    pub fn owner(&self) -> (u16, u64) {
        let word = self.word(OWNER).load(SeqCst);
        (u16::try_from(word & 0xffff).unwrap_or(0), word)
    }

    /// Takes the target for the process of a slot, unless another was faster since `before`.
    pub fn take(&self, before: u64, own: u16) -> bool {
        let after = ((before >> 16) + 1) << 16 | u64::from(own);
        let owner = self.word(OWNER);
        owner
            .compare_exchange(before, after, SeqCst, SeqCst)
            .is_ok()
    }

    /// Writes down how things stand. Only for whom the target belongs to, one call at a time.
    pub fn write(&self, record: &Record) {
        let mut bytes = record.emit();
        bytes.truncate(COPY - LENGTH);
        let mut latest = self.latest.lock();
        if *latest == bytes {
            return;
        }
        let count = self.word(COUNT).load(SeqCst).wrapping_add(1);
        let (length, place) = copy(count);
        let written = self.memory.write(place, &bytes);
        self.word(length)
            .store(u64::try_from(bytes.len()).unwrap_or(0), SeqCst);
        if written.is_ok() {
            self.word(COUNT).store(count, SeqCst);
        }
        *latest = bytes;
    }

    /// What was written last.
    ///
    /// # Errors
    /// EIO if there is nothing that can be understood.
    pub fn read(&self) -> Result<Record> {
        for _ in 0..TRIES {
            let count = self.word(COUNT).load(SeqCst);
            let (length, place) = copy(count);
            let length = usize::try_from(self.word(length).load(SeqCst)).unwrap_or(usize::MAX);
            if count == 0 || length > COPY - LENGTH {
                break;
            }
            let mut bytes = vec![0; length];
            let read = self.memory.read(place, &mut bytes);
            if read.is_ok() && self.word(COUNT).load(SeqCst) == count {
                return Record::parse(&bytes).ok_or(Errno(libc::EIO));
            }
        }
        Err(Errno(libc::EIO))
    }
}

/// Where the copy of a count is: its length, and its bytes.
fn copy(count: u64) -> (usize, usize) {
    let at = if count.is_multiple_of(2) {
        HEAD
    } else {
        HEAD + COPY
    };
    (at, at + LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;
    use kit::abi::ibv_qp_attr;
    use uroce_engine::psn::Psn;
    use uroce_engine::qp::Rest;

    fn record(psn: u32) -> Record {
        Record {
            attr: ibv_qp_attr::zeroed(),
            rest: Rest {
                expected: Psn::new(psn),
                ..Rest::default()
            },
            at: 3,
            turn: psn,
            visitors: vec![7, 7, 8],
        }
    }

    fn made() -> Estate {
        let kept = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC);
        Estate::create(5, kept.expect("a descriptor")).expect("an estate")
    }

    fn copy_of(estate: &Estate) -> Estate {
        let [memory, kept] = estate.descriptors();
        let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().expect("a copy");
        Estate::map(copy(memory), copy(kept)).expect("mapped")
    }

    #[test]
    fn what_was_written_last_is_read_elsewhere() {
        let estate = made();
        let elsewhere = copy_of(&estate);
        assert_eq!(elsewhere.read().err(), Some(Errno(libc::EIO)));
        for psn in 1..5 {
            estate.write(&record(psn));
            let read = elsewhere.read().expect("a record");
            assert_eq!(read.rest.expected, Psn::new(psn));
            assert_eq!((read.at, read.turn), (3, psn));
            assert_eq!(read.visitors, [7, 7, 8]);
        }
    }

    #[test]
    fn a_writer_that_ends_halfway_leaves_what_was_before() {
        let estate = made();
        estate.write(&record(1));
        let (length, place) = copy(2);
        estate.memory.write(place, &[0xff; 40]).expect("in range");
        estate.word(length).store(40, SeqCst);
        let read = copy_of(&estate).read().expect("a record");
        assert_eq!(read.rest.expected, Psn::new(1));
    }

    #[test]
    fn one_takes_it_and_only_one() {
        let estate = made();
        let elsewhere = copy_of(&estate);
        let (slot, before) = estate.owner();
        assert_eq!(slot, 5);
        assert!(estate.take(before, 6));
        assert!(!elsewhere.take(before, 7));
        assert_eq!(elsewhere.owner().0, 6);
    }
}
