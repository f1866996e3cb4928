//! Threads of this process: how one is started, the processor time that one has used, and whether
//! it could run.

use super::{clock, signal};
use crate::errno::{Errno, Result};
use crate::sync::{Condvar, Mutex};
use core::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How long [`start`] waits at most: for a thread that gets no processor, or that waits for a lock
/// of the dynamic linker which the caller's dlopen(3) has.
const BEGINS: Duration = Duration::from_millis(100);

/// Starts a thread in which no signal handler of the application runs, and waits until it has
/// begun.
///
/// A new thread allocates memory, for which the C library maps pages and unmaps some of them.
/// Meanwhile the program must not continue: UCX replaces the first instructions of munmap(2) and
/// others while it opens devices, and a thread that is inside one of these calls then returns into
/// the middle of an instruction. The same can happen at the end of a thread, when the C library
/// calls madvise(2) for its stack. So none should end soon after a device was opened, unless it is
/// joined.
///
/// # Errors
/// EAGAIN if there cannot be one more; those of pthread_sigmask(3).
pub fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let begun = Arc::new((Mutex::new(false), Condvar::new()));
    let of_thread = Arc::clone(&begun);
    let builder = Builder::new().name(name.to_owned());
    let started = signal::blocked(|| {
        builder.spawn(move || {
            let (has_begun, condition) = &*of_thread;
            *has_begun.lock() = true;
            condition.notify_one();
            drop(of_thread);
            run();
        })
    })?;
    let thread = started.map_err(|error| Errno::from_io(&error))?;
    let (has_begun, condition) = &*begun;
    let until = Instant::now() + BEGINS;
    let mut begun = has_begun.lock();
    let mut late = false;
    while !*begun && !late {
        (begun, late) = condition.wait_until(begun, until);
    }
    Ok(thread)
}

/// A thread of this process, by its number (gettid(2)). The number of one that has ended may be
/// that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread(i32);

impl Thread {
    /// The calling thread. Only the first call of a thread asks the kernel.
    #[inline]
    #[must_use]
    pub fn current() -> Self {
        thread_local! {
            static NUMBER: Cell<i32> = const { Cell::new(0) };
        }
        let known = NUMBER.try_with(Cell::get).unwrap_or(0);
        if known != 0 {
            return Self(known);
        }
        let number = rustix::thread::gettid().as_raw_nonzero().get();
        // In a thread that ends there may be no place for it.
        let _ = NUMBER.try_with(|place| place.set(number));
        Self(number)
    }

    /// The thread of a number.
    #[must_use]
    pub fn of(number: i32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> i32 {
        self.0
    }

    /// The processor time that it has used; `None` if there is no such thread, or where the process
    /// may not ask.
    #[must_use]
    pub fn time(self) -> Option<Duration> {
        clock::time_of_thread(self.0)
    }

    /// Whether it runs or waits for a processor, and does not sleep; `None` if that cannot be read
    /// from proc(5).
    #[must_use]
    pub fn can_run(self) -> Option<bool> {
        let mut text = [0; 64];
        let mut file = File::open(format!("/proc/self/task/{}/stat", self.0)).ok()?;
        let length = file.read(&mut text).ok()?;
        Some(state(text.get(..length)?)? == b'R')
    }
}

/// The state in `/proc/PID/stat`: it follows the name, which is in parentheses and may contain any
/// characters, of which there are 15 at most.
fn state(text: &[u8]) -> Option<u8> {
    let name_ends = text.iter().rposition(|byte| *byte == b')')?;
    text.get(name_ends + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A thread gives itself its name before it runs anything.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn a_thread_that_is_started_has_begun() {
        for turn in 0..200 {
            let name = format!("begun-{turn}");
            let end = Arc::new(Mutex::new(()));
            let of_thread = Arc::clone(&end);
            let held = end.lock();
            let thread = start(&name, move || drop(of_thread.lock())).expect("started");
            let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
            let names = tasks
                .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
            let found = names.filter(|found| found.trim_end() == name).count();
            drop(held);
            thread.join().expect("no panic");
            assert_eq!(found, 1, "{name}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no clock of another thread, and no proc(5)")]
    fn a_thread_that_computes_uses_time_and_can_run() {
        let thread = Thread::current();
        let before = thread.time().expect("permitted");
        while thread.time().expect("permitted") == before {
            std::hint::spin_loop();
        }
        assert_eq!(thread.can_run(), Some(true));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no clock of another thread, and no proc(5)")]
    fn a_thread_that_waits_cannot_run() {
        let (sender, receiver) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                sender.send(Thread::current()).expect("received");
                ends.recv().expect_err("nothing is sent");
            });
            let thread = receiver.recv().expect("sent");
            while thread.can_run() != Some(false) {
                std::thread::yield_now();
            }
            drop(end);
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no clock of another thread, and no proc(5)")]
    fn of_a_thread_that_does_not_exist_nothing_is_known() {
        // The kernel gives no such number (PID_MAX_LIMIT).
        let nothing = Thread::of(1 << 25);
        assert_eq!((nothing.time(), nothing.can_run()), (None, None));
        assert_eq!(Thread::of(Thread::current().number()), Thread::current());
    }

    #[test]
    fn the_state_follows_the_name() {
        assert_eq!(state(b"7 (cat) S 1 2"), Some(b'S'));
        assert_eq!(state(b"7 (a) R (b) R 1 2"), Some(b'R'));
        assert_eq!(state(b"7 (cat)"), None);
        assert_eq!(state(b""), None);
    }
}
