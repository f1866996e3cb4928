//! The steps of two processes with a ring, under loom, which tries every order of them.
//!
//! *Time.* A thread may see late that another one has shown something: in loom a load returns any
//! value that the orderings permit. But [`super::super::LATE`] is longer than any delay. Therefore
//! a thread that shows something passes the clock before it looks at the other's number, and a
//! thread that has slept for that long passes it, too. The second of the two sees all that the
//! first did before.

use super::*;
use loom::model::Builder;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use loom::sync::{Notify, atomic};
use loom::thread;
// One of loom's ends the process where a test fails.
use std::sync::Arc;

impl Attention for atomic::AtomicU64 {
    fn load(&self) -> u64 {
        self.load(Acquire)
    }

    fn add(&self, value: u64) {
        self.fetch_add(value, AcqRel);
    }

    fn set(&self, bits: u64) -> u64 {
        self.fetch_or(bits, AcqRel)
    }

    fn clear(&self, bits: u64) {
        self.fetch_and(!bits, AcqRel);
    }

    fn swap(&self, value: u64) -> u64 {
        self.swap(value, AcqRel)
    }
}

type Shown = atomic::AtomicU64;

/// The first process writes records, the second takes them.
struct World {
    written: Shown,
    taken: Shown,
    /// Whether the first waits for the outcome of a record, as the thread notes that puts it.
    awaits: Shown,
    numbers: [Shown; 2],
    /// The sleep from which each was woken last by the other.
    woken: [Shown; 2],
    bells: [Notify; 2],
    clock: Shown,
}

const FIRST: usize = 0;
const SECOND: usize = 1;

/// How often a thread looks that goes to sleep.
#[derive(Clone, Copy, PartialEq)]
enum Looks {
    Once,
    Twice,
    AsOftenAsNeeded,
}

impl World {
    fn new() -> Arc<Self> {
        let number = || Shown::new(0);
        Arc::new(Self {
            written: number(),
            taken: number(),
            awaits: number(),
            numbers: [number(), number()],
            woken: [number(), number()],
            bells: [Notify::new(), Notify::new()],
            clock: number(),
        })
    }

    fn pass_clock(&self) {
        self.clock.fetch_add(1, AcqRel);
    }

    /// Wakes the other process, if it sleeps with this flag.
    fn wake(&self, other: usize, flag: u64) {
        if wakes(
            Attention::load(&self.numbers[other]),
            flag,
            &self.woken[other],
        ) {
            self.bells[other].notify();
        }
    }

    /// As `Peers::put`: the record of a number, whose outcome is awaited.
    fn put(&self, number: u64) {
        request_reports(&self.numbers[FIRST]);
        self.written.store(number, Release);
        self.awaits.store(1, Release);
        self.was_put();
    }

    /// As `Peers::was_put`.
    fn was_put(&self) {
        self.pass_clock();
        self.wake(SECOND, SLEEPS);
        if request_reports(&self.numbers[FIRST]) {
            self.bells[FIRST].notify();
        }
    }

    /// As `Rings::drain`: so many records have been taken.
    fn report(&self, taken: u64) {
        self.taken.store(taken, Release);
        self.pass_clock();
        self.wake(FIRST, AWAITS);
    }

    /// As the progress thread: returns when something is found, or the bell was rung.
    fn sleep(
        &self,
        process: usize,
        looks: Looks,
        found: impl Fn() -> bool,
        awaits: impl Fn() -> bool,
    ) {
        let own = &self.numbers[process];
        sleep(own, &awaits);
        let mut is_found = found();
        let mut is_last = looks == Looks::Once;
        while !is_found && !is_last {
            self.pass_clock();
            is_last = !sleep_on(own, &awaits) || looks == Looks::Twice;
            is_found = found();
        }
        if !is_found {
            self.bells[process].wait();
        }
        wake(own);
    }

    /// The second process takes so many records, and sleeps while there is none.
    fn take(&self, all: u64, looks: Looks) {
        let mut taken = 0;
        while taken < all {
            let is_there = || self.written.load(Acquire) > taken;
            if !is_there() {
                self.sleep(SECOND, looks, is_there, || false);
                continue;
            }
            taken += 1;
            self.report(taken);
        }
    }

    /// The first process learns that so many records were taken, and sleeps until then.
    fn learn(&self, taken: u64, looks: Looks) {
        let is_awaited = || self.awaits.load(Acquire) != 0;
        let is_there = || is_awaited() && self.taken.load(Acquire) >= taken;
        while !is_there() {
            self.sleep(FIRST, looks, is_there, is_awaited);
        }
    }
}

/// Tries every order in which threads are interrupted no oftener than so many times. One is enough
/// for each of the failures below.
fn every_order(interruptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.check(run);
}

fn put_and_sleep(looks: Looks) {
    every_order(2, move || {
        let world = World::new();
        let second = Arc::clone(&world);
        let takes = thread::spawn(move || second.take(2, looks));
        world.put(1);
        world.put(2);
        takes.join().expect("ends well");
    });
}

#[test]
fn a_record_wakes_the_process_that_takes_it() {
    put_and_sleep(Looks::AsOftenAsNeeded);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_record_is_missed_without_a_second_look() {
    put_and_sleep(Looks::Once);
}

/// Another thread puts the record while the progress thread falls asleep, and the peer polls.
fn put_and_learn(looks: Looks) {
    every_order(1, move || {
        let world = World::new();
        let [puts, second] = [Arc::clone(&world), Arc::clone(&world)];
        let puts = thread::spawn(move || puts.put(1));
        let polls = thread::spawn(move || {
            while second.written.load(Acquire) == 0 {
                thread::yield_now();
            }
            second.report(1);
        });
        world.learn(1, looks);
        puts.join().expect("ends well");
        polls.join().expect("ends well");
    });
}

#[test]
fn an_outcome_wakes_the_process_that_waits_for_it() {
    put_and_learn(Looks::AsOftenAsNeeded);
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_outcome_is_missed_without_a_third_look() {
    put_and_learn(Looks::Twice);
}

/// There is room for one record: the second waits until the first was taken.
fn refill(is_announced: bool) {
    every_order(2, move || {
        let world = World::new();
        let second = Arc::clone(&world);
        let takes = thread::spawn(move || second.take(2, Looks::AsOftenAsNeeded));
        world.put(1);
        world.learn(1, Looks::AsOftenAsNeeded);
        world.written.store(2, Release);
        if is_announced {
            world.was_put();
        }
        takes.join().expect("ends well");
    });
}

#[test]
fn a_record_that_waited_for_room_wakes_the_process_that_takes_it() {
    refill(true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_record_that_waited_for_room_is_missed_without_a_bell() {
    refill(false);
}
