//! Real pages and real children.

use super::*;
use crate::core::fork::testing;
use kit::sync::{Mutex, MutexGuard};
use kit::{errno::Errno, sys::errno};
use proptest::test_runner::Config as ProptestConfig;
use rustix::{fd::AsRawFd, param::page_size, pipe::pipe};
use std::{ffi::c_void, fs, ops::Range, ptr, sync::Barrier, thread};

/// The tests of this file run one at a time, so that each sees only its children and mappings.
fn turn(huge: bool) -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock();
    testing::mark_pages(huge);
    turn
}

/// Anonymous memory by itself: the pages around it are another kind of mapping, so that the
/// kernel joins it with nothing.
struct Memory {
    around: *mut c_void,
    start: usize,
    len: usize,
}

// SAFETY: plain memory; threads write single bytes of it that are never read.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(pages: usize) -> Self {
        let len = pages * page_size();
        let all = len + 2 * page_size();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, whose inner pages are then opened.
        let around = unsafe { libc::mmap(ptr::null_mut(), all, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(around, libc::MAP_FAILED);
        let start = around.addr() + page_size();
        let open = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: as above.
        let opened = unsafe { libc::mprotect(around.with_addr(start), len, open) };
        assert_eq!(opened, 0);
        Self { around, start, len }
    }

    /// Two huge pages; None where the machine has none to give.
    fn huge(size: usize) -> Option<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
        let open = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(ptr::null_mut(), 2 * size, open, flags, -1, 0) };
        (start != libc::MAP_FAILED).then(|| Self {
            around: start,
            start: start.addr(),
            len: 2 * size,
        })
    }

    fn at(&self, offset: usize) -> *mut c_void {
        self.around.with_addr(self.start + offset)
    }

    fn page(&self, index: usize) -> *mut c_void {
        self.at(index * page_size())
    }

    fn unmap(&self, pages: Range<usize>) {
        let len = pages.len() * page_size();
        // SAFETY: pages of this mapping, which no test touches afterwards.
        assert_eq!(unsafe { libc::munmap(self.page(pages.start), len) }, 0);
    }

    fn write(&self, page: usize) {
        // SAFETY: inside the mapping; see Sync.
        unsafe { self.page(page).cast::<u8>().write_volatile(1) };
    }

    /// The pages that a child made now has.
    fn seen_by_child(&self) -> Vec<usize> {
        let (probe, answer) = (pipe().unwrap(), pipe().unwrap());
        let pages = self.len / page_size();
        let (into, out) = (probe.1.as_raw_fd(), answer.1.as_raw_fd());
        child(|| {
            for page in 0..pages {
                // SAFETY: write(2) answers EFAULT for a page that is not there.
                let there = unsafe { libc::write(into, self.page(page), 1) } == 1;
                // SAFETY: one byte from the stack.
                unsafe { libc::write(out, (&raw const there).cast(), 1) };
            }
            true
        });
        let mut seen = vec![0u8; pages];
        let mut read = 0;
        while read < pages {
            read += rustix::io::read(&answer.0, &mut seen[read..]).unwrap();
        }
        (0..pages).filter(|page| seen[*page] == 1).collect()
    }

    /// How many mappings the kernel keeps for it.
    fn mappings(&self) -> usize {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let hex = |text: &str| usize::from_str_radix(text, 16).unwrap();
        let inside = |line: &&str| {
            let (range, _) = line.split_once(' ').unwrap();
            let (from, to) = range.split_once('-').unwrap();
            hex(from) < self.start + self.len && hex(to) > self.start
        };
        maps.lines().filter(inside).count()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this value's own mapping, holes included.
        unsafe { libc::munmap(self.at(0), self.len) };
    }
}

/// Runs `inside` in a forked child and returns its result.
fn child(inside: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls only functions that are allowed after fork, and ends with _exit.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let good = inside();
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    let mut status = 0;
    // SAFETY: the child just made.
    while unsafe { libc::waitpid(pid, &mut status, 0) } != pid {
        assert_eq!(errno::get().raw(), libc::EINTR);
    }
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

fn outcome(answer: c_int) -> Result<(), Errno> {
    match answer {
        0 => Ok(()),
        -1 => Err(errno::get()),
        other => panic!("{other} is no answer of these functions"),
    }
}

fn protect(memory: &Memory, first: usize, count: usize) {
    let done = ibv_dontfork_range(memory.page(first), count * page_size());
    assert_eq!(outcome(done), Ok(()));
}

fn give_back(memory: &Memory, first: usize, count: usize) {
    let done = ibv_dofork_range(memory.page(first), count * page_size());
    assert_eq!(outcome(done), Ok(()));
}

#[test]
fn a_child_has_the_pages_that_no_live_range_holds() {
    let _turn = turn(false);
    let memory = Memory::new(8);
    assert_eq!(memory.seen_by_child(), [0, 1, 2, 3, 4, 5, 6, 7]);
    protect(&memory, 1, 3);
    protect(&memory, 3, 2);
    assert_eq!(memory.seen_by_child(), [0, 5, 6, 7]);
    give_back(&memory, 1, 3);
    assert_eq!(memory.seen_by_child(), [0, 1, 2, 5, 6, 7]);
    give_back(&memory, 3, 2);
    assert_eq!(memory.seen_by_child(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn bytes_hold_their_whole_pages() {
    let _turn = turn(false);
    let memory = Memory::new(4);
    let across = memory.at(2 * page_size() - 1);
    assert_eq!(ibv_dontfork_range(across, 2), 0);
    assert_eq!(memory.seen_by_child(), [0, 3]);
    assert_eq!(ibv_dofork_range(across, 2), 0);
    assert_eq!(memory.seen_by_child(), [0, 1, 2, 3]);
}

#[test]
fn a_range_is_given_back_as_it_was_rounded() {
    let _turn = turn(false);
    let memory = Memory::new(6);
    protect(&memory, 1, 3);
    testing::note_rounding(memory.page(1).addr(), page_size(), 3);
    protect(&memory, 3, 2);
    give_back(&memory, 1, 1);
    assert_eq!(memory.seen_by_child(), [0, 1, 2, 5]);
    give_back(&memory, 3, 2);
    assert_eq!(memory.seen_by_child(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn empty_and_impossible_ranges() {
    let _turn = turn(false);
    let at = ptr::without_provenance_mut::<c_void>;
    let dont = |base, size| outcome(ibv_dontfork_range(at(base), size));
    let give = |base, size| outcome(ibv_dofork_range(at(base), size));
    assert_eq!(dont(0, 100), Ok(()));
    assert_eq!(dont(4096, 0), Ok(()));
    assert_eq!(dont(4096, 1), Err(Errno::NOMEM));
    assert_eq!(dont(usize::MAX - 10, 100), Err(Errno::INVAL));
    assert_eq!(give(usize::MAX - 10, 100), Err(Errno::INVAL));
    assert_eq!(dont(usize::MAX / 2, 1), Err(Errno::NOMEM));
    assert_eq!(give(usize::MAX / 2, 1), Ok(()));
    assert_eq!(ibv_fork_init(), 0, "once started, nothing to do");
}

#[test]
fn a_range_with_a_hole_is_refused_whole() {
    let _turn = turn(false);
    let memory = Memory::new(6);
    memory.unmap(3..4);
    let done = ibv_dontfork_range(memory.at(0), memory.len);
    assert_eq!(outcome(done), Err(Errno::NOMEM));
    assert_eq!(memory.seen_by_child(), [0, 1, 2, 4, 5]);
}

#[test]
fn a_range_that_stays_mapped_is_given_back() {
    let _turn = turn(false);
    let memory = Memory::new(6);
    protect(&memory, 0, 6);
    memory.unmap(2..3);
    give_back(&memory, 0, 6);
    assert_eq!(memory.seen_by_child(), [0, 1, 3, 4, 5]);
}

#[test]
fn a_child_counts_from_zero() {
    let _turn = turn(false);
    let memory = Memory::new(1);
    protect(&memory, 0, 1);
    // As if another thread were at work at the moment of the fork.
    let free = testing::while_locked(|| child(testing::is_free));
    assert!(free);
    let anew = child(|| {
        let own = Memory::new(1);
        protect(&own, 0, 1);
        own.seen_by_child().is_empty()
    });
    assert!(anew);
    give_back(&memory, 0, 1);
    assert_eq!(memory.seen_by_child(), [0]);
}

#[test]
fn mappings_come_back_together() {
    let _turn = turn(false);
    let memory = Memory::new(400);
    for i in 0..100 {
        protect(&memory, 4 * i, 2);
        // Registration brings the pages in while they are apart.
        memory.write(4 * i);
        memory.write(4 * i + 1);
    }
    assert_eq!(memory.mappings(), 200);
    for i in 0..100 {
        give_back(&memory, 4 * i, 2);
    }
    assert_eq!(memory.mappings(), 1);
}

/// A small generator: the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

fn cycle(memory: &Memory, seed: u64, cycles: usize) {
    let mut random = Random(seed);
    let mut live = Vec::new();
    for _ in 0..cycles {
        let (first, count) = (random.below(990), 1 + random.below(10));
        protect(memory, first, count);
        memory.write(first + random.below(count));
        live.push((first, count));
        while live.len() > 50 + random.below(100) {
            let (first, count) = live.swap_remove(random.below(live.len()));
            give_back(memory, first, count);
        }
    }
    for (first, count) in live {
        give_back(memory, first, count);
    }
}

/// On how many inputs properties are tried.
fn cases() -> usize {
    ProptestConfig::default().cases.try_into().unwrap_or(256)
}

#[test]
fn a_million_cycles_leave_no_mapping_behind() {
    let _turn = turn(false);
    let memory = Memory::new(1000);
    assert_eq!(memory.mappings(), 1);
    let start = Barrier::new(4);
    // A million, or fewer where properties are tried on fewer inputs, as they are under tools that
    // make each step slow.
    let cycles = 250_000 * cases().min(256) / 256;
    thread::scope(|scope| {
        for seed in 1..=4 {
            let (memory, start) = (&memory, &start);
            scope.spawn(move || {
                start.wait();
                cycle(memory, seed, cycles);
            });
        }
    });
    assert_eq!(memory.mappings(), 1);
    assert_eq!(memory.seen_by_child().len(), 1000);
}

#[test]
fn huge_pages() {
    const HUGE: usize = 2 << 20;
    let _turn = turn(false);
    let Some(memory) = Memory::huge(HUGE) else {
        println!("skipped: no free huge pages (sysctl vm.nr_hugepages=4 gives some)");
        return;
    };
    let dont = |from, len| outcome(ibv_dontfork_range(memory.at(from), len));
    let give = |from, len| outcome(ibv_dofork_range(memory.at(from), len));
    let all = memory.len / page_size();
    assert_eq!(dont(100, 1000), Err(Errno::INVAL), "a part of a huge page");
    assert_eq!(memory.seen_by_child().len(), all);
    testing::mark_pages(true);
    assert_eq!(dont(100, 1000), Ok(()));
    assert_eq!(dont(HUGE - 1, 2), Ok(()));
    assert_eq!(memory.seen_by_child(), []);
    assert_eq!(give(HUGE - 1, 2), Ok(()));
    assert_eq!(memory.seen_by_child().len(), all / 2);
    assert_eq!(give(100, 1000), Ok(()));
    assert_eq!(memory.seen_by_child().len(), all);
    testing::mark_pages(false);
}
