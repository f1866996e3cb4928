#![forbid(unsafe_code)]
//! `IBVERBS_TRACE`: every call with its arguments, its result, and its time, in a file that
//! `ibv_trace` reads.
//!
//! The file is a sequence of chunks, each written by one write(2), so that processes may share a
//! file. A chunk begins with [`MAGIC`], the process, the length of the rest, and the time
//! (CLOCK_MONOTONIC) from which its records count. The first chunk of a process contains the names
//! of the calls. Chunks of threads are lines `process NAME` and `thread NUMBER ID NAME`, which come
//! before the first record of a thread. All others contain records. [`record`] describes a record.
//! Numbers of a chunk's head are little-endian, those of a record are LEB128.
//!
//! The line of a call has its name and the names of its words. Words behind `...` repeat: once for
//! each request or completion.
//!
//! Records are buffered. They are written when 64 KiB are full, when a context is closed and when
//! the program exits. Records that a killed program had not written are lost.

pub mod record;

use super::config;
use kit::sync::Mutex;
use kit::sys::pthread::without_cancellation;
use kit::sys::{errno, forks, identity, output::Output, per_process::PerProcess};
use record::Record;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The first bytes of a chunk.
pub const MAGIC: &[u8; 4] = b"IBVT";
/// Version of the form.
pub const VERSION: u8 = 2;
/// Bytes of a chunk's head: magic, version, kind, two of padding, process, length, time.
const HEAD: usize = 24;
/// A chunk of names, one of records, and one of threads.
const NAMES: u8 = 0;
const RECORDS: u8 = 1;
const THREADS: u8 = 2;
/// Records are written when that many bytes are there.
const FULL: usize = 64 * 1024;

static ON: AtomicBool = AtomicBool::new(false);
static FILE: OnceLock<Output> = OnceLock::new();
static GATHERED: PerProcess<Mutex<Gathered>> = PerProcess::new();

/// Records that are not written yet.
#[derive(Debug, Default)]
struct Gathered {
    bytes: Vec<u8>,
    /// The time of the chunk, nanoseconds.
    since: u64,
    /// The names are written.
    named: bool,
    /// The numbers of the threads that have records, 64 to a word.
    threads: Vec<u64>,
    /// Lines about threads that are not written yet.
    new_threads: String,
}

/// Asks for records, and names their file.
pub const VARIABLE: &str = "IBVERBS_TRACE";

/// Reads the environment, once in the life of the process. `at_exit` registers a function that runs
/// when the program exits.
pub fn init(at_exit: fn(fn())) {
    static ONCE: std::sync::Once = std::sync::Once::new();
    if ONCE.is_completed() {
        return;
    }
    let _entered = forks::enter();
    ONCE.call_once(|| {
        let path = config::trusted(VARIABLE).filter(|path| !path.is_empty());
        let Some(path) = path else {
            return;
        };
        match Output::open(VARIABLE, &path) {
            Ok(file) => {
                if FILE.set(file).is_ok() {
                    ON.store(true, Ordering::Release);
                    at_exit(flush);
                }
            }
            Err(error) => {
                let path = path.to_string_lossy();
                let error = std::io::Error::from(error);
                crate::warn::warn(&format!("IBVERBS_TRACE={path}: {error}"));
            }
        }
    });
}

/// Whether calls are recorded.
pub fn on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// The number of this thread: threads are numbered in the order of their first calls.
pub fn thread() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static NUMBER: u32 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // A thread that is ending has no number any more.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

/// The time, nanoseconds of CLOCK_MONOTONIC.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Adds a record.
pub fn add(record: &Record<'_>) {
    let Ok(gathered) = GATHERED.get() else {
        return;
    };
    let mut gathered = gathered.lock();
    if gathered.is_first_of(record.thread) {
        let left = errno::get();
        // A thread can be cancelled where it reads a file.
        without_cancellation(|| gathered.describe(record.thread));
        errno::set(left);
    }
    if gathered.bytes.is_empty() {
        gathered.since = record.begin;
    }
    let since = gathered.since;
    record.put(since, &mut gathered.bytes);
    if gathered.bytes.len() >= FULL {
        gathered.write();
    }
}

/// Writes the buffered records.
pub fn flush() {
    if let Ok(gathered) = GATHERED.get() {
        gathered.lock().write();
    }
}

impl Gathered {
    /// Whether a thread has no record yet. From then on it has one.
    fn is_first_of(&mut self, thread: u32) -> bool {
        let at = usize::try_from(thread / 64).unwrap_or(0);
        if self.threads.len() <= at {
            self.threads.resize(at + 1, 0);
        }
        let bit = 1 << (thread % 64);
        self.threads.get_mut(at).is_some_and(|threads| {
            let is_new = *threads & bit == 0;
            *threads |= bit;
            is_new
        })
    }

    /// Adds the lines about the calling thread, and about the process before its first thread.
    fn describe(&mut self, thread: u32) {
        if !self.named && self.new_threads.is_empty() {
            self.new_threads = format!("process {}\n", process_name());
        }
        let (id, name) = (identity::thread(), own_name());
        self.new_threads += &format!("thread {thread} {id} {name}\n");
    }

    fn write(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        if !self.named {
            self.named = true;
            put_chunk(NAMES, 0, &record::names());
        }
        if !self.new_threads.is_empty() {
            put_chunk(THREADS, 0, self.new_threads.as_bytes());
            self.new_threads.clear();
        }
        put_chunk(RECORDS, self.since, &self.bytes);
        self.bytes.clear();
    }
}

/// The name of the calling thread. It takes no descriptor: there may be none left.
fn own_name() -> String {
    printable(&rustix::thread::name().unwrap_or_default().into_bytes())
}

/// The name of the process, which is that of its first thread. Where that cannot be read, it is the
/// calling thread's, which most programs do not change.
fn process_name() -> String {
    let Ok(name) = std::fs::read("/proc/self/comm") else {
        return own_name();
    };
    // The kernel ends it with a new line. Others may be in it.
    printable(name.strip_suffix(b"\n").unwrap_or(&name))
}

fn printable(name: &[u8]) -> String {
    String::from_utf8_lossy(name).replace(char::is_control, "?")
}

fn put_chunk(kind: u8, since: u64, bytes: &[u8]) {
    let Some(file) = FILE.get() else {
        return;
    };
    if !file.write(&chunk(kind, std::process::id(), since, bytes)) {
        ON.store(false, Ordering::Relaxed);
    }
}

fn chunk(kind: u8, process: u32, since: u64, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut chunk = Vec::with_capacity(HEAD + bytes.len());
    chunk.extend_from_slice(MAGIC);
    chunk.extend_from_slice(&[VERSION, kind, 0, 0]);
    chunk.extend_from_slice(&process.to_le_bytes());
    chunk.extend_from_slice(&length.to_le_bytes());
    chunk.extend_from_slice(&since.to_le_bytes());
    chunk.extend_from_slice(bytes);
    chunk
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_has_its_head() {
        let bytes = chunk(RECORDS, 7, 9, &[1, 2]);
        assert_eq!(bytes.len(), HEAD + 2);
        assert_eq!(&bytes[..8], b"IBVT\x02\x01\0\0");
        assert_eq!(bytes[8..16], [7, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(bytes[16..24], 9u64.to_le_bytes());
    }

    #[test]
    fn a_thread_is_described_once() {
        let mut gathered = Gathered::default();
        assert!(gathered.is_first_of(1) && !gathered.is_first_of(1));
        assert!(gathered.is_first_of(700) && gathered.is_first_of(0));
        assert!(!gathered.is_first_of(700));
        gathered.describe(1);
        gathered.describe(2);
        let lines: Vec<&str> = gathered.new_threads.lines().collect();
        assert!(lines[0].starts_with("process "), "{lines:?}");
        let thread = format!("thread 1 {} ", identity::thread());
        assert!(lines[1].starts_with(&thread), "{lines:?}");
        assert_eq!(lines.len(), 3);
    }
}
