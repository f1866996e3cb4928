//! The takeover state of a target: the memory in which its owner stores the state for a successor,
//! and the socket that keeps its number.
//!
//! There are two copies, written in turn. A count selects the valid one, and is written last. So a
//! reader finds a whole copy, even after the writer was killed: that of the latest step that may
//! have been answered, or that of the step before, in which case the latest step is repeated.

use super::Link;
use super::message::{Message, Record};
use super::outbox::Descriptors;
use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use kit::sys::shared::Shared;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Weak};

/// Bytes of one copy, its length in front; the pages take memory when they are first used.
const COPY: usize = 64 << 10;
const LENGTH: usize = 8;
/// Bytes in front of the copies: the owner, and how often the state was written.
const HEAD: usize = 4096;
const OWNER: usize = 0;
const COUNT: usize = 8;
/// How often a reader looks again while the owner writes.
const TRIES: usize = 100;

/// The takeover state of a target.
#[derive(Debug)]
pub struct TakeoverState {
    memory: Shared,
    /// The memory's, and the one that keeps the number.
    descriptors: Descriptors,
    /// Written last, by this process.
    latest: Mutex<Vec<u8>>,
    /// The processes that this one has sent it to.
    shown: Mutex<Vec<Weak<Link>>>,
}

impl TakeoverState {
    /// That of a target of the process of this slot. `kept` keeps its number.
    ///
    /// # Errors
    /// Those of [`Shared::create`].
    pub fn create(own: u16, kept: OwnedFd) -> Result<Self> {
        let (memory, fd) = Shared::create(c"uroce-xrc", HEAD + 2 * COPY)?;
        let takeover = Self::of(memory, fd, kept);
        takeover.word(OWNER).store(u64::from(own), SeqCst);
        Ok(takeover)
    }

    /// The state that another process has sent.
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
            descriptors: Arc::new([fd, kept]),
            latest: Mutex::default(),
            shown: Mutex::default(),
        }
    }

    /// Sends it to another process, once.
    pub fn show(&self, number: u32, link: &Arc<Link>) {
        let mut shown = self.shown.lock();
        shown.retain(|known| known.strong_count() > 0);
        if !shown
            .iter()
            .any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(link)))
        {
            shown.push(Arc::downgrade(link));
            link.send_with(&Message::TakeoverState(number), &self.descriptors);
        }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        static NOWHERE: AtomicU64 = AtomicU64::new(0);
        // The words are there: lengths were checked.
        let words = self.memory.words();
        words.get(offset / size_of::<u64>()).unwrap_or(&NOWHERE)
    }

    /// The owner: its slot, and a number that differs after each takeover.
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

    /// Writes a record. Only for the owner, one call at a time.
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

    /// The state that was written last.
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
            delegate: 3,
            delegation: psn,
            openers: vec![7, 7, 8],
        }
    }

    fn made() -> TakeoverState {
        let kept = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC);
        TakeoverState::create(5, kept.expect("a descriptor")).expect("a takeover state")
    }

    fn copy_of(takeover: &TakeoverState) -> TakeoverState {
        let [memory, kept] = &*takeover.descriptors;
        let copy = |fd: &OwnedFd| fd.try_clone().expect("a copy");
        TakeoverState::map(copy(memory), copy(kept)).expect("mapped")
    }

    #[test]
    fn the_last_written_state_is_read_by_another_process() {
        let takeover = made();
        let elsewhere = copy_of(&takeover);
        assert_eq!(elsewhere.read().err(), Some(Errno(libc::EIO)));
        for psn in 1..5 {
            takeover.write(&record(psn));
            let read = elsewhere.read().expect("a record");
            assert_eq!(read.rest.expected, Psn::new(psn));
            assert_eq!((read.delegate, read.delegation), (3, psn));
            assert_eq!(read.openers, [7, 7, 8]);
        }
    }

    #[test]
    fn a_writer_that_ends_halfway_leaves_the_former_state() {
        let takeover = made();
        takeover.write(&record(1));
        let (length, place) = copy(2);
        takeover.memory.write(place, &[0xff; 40]).expect("in range");
        takeover.word(length).store(40, SeqCst);
        let read = copy_of(&takeover).read().expect("a record");
        assert_eq!(read.rest.expected, Psn::new(1));
    }

    #[test]
    fn one_process_takes_the_target_and_only_one() {
        let takeover = made();
        let elsewhere = copy_of(&takeover);
        let (slot, before) = takeover.owner();
        assert_eq!(slot, 5);
        assert!(takeover.take(before, 6));
        assert!(!elsewhere.take(before, 7));
        assert_eq!(elsewhere.owner().0, 6);
    }
}
