#![forbid(unsafe_code)]
//! `IBVERBS_TRACE`: every call with its arguments, its result, and its time, in a file that
//! `ibv_trace` reads.
//!
//! The file is a sequence of chunks, each written by one write(2), so that processes may share a
//! file. A chunk begins with [`MAGIC`], the process, the length of the rest, and the time
//! (CLOCK_MONOTONIC) from which its records count; the first chunk of a process contains the names
//! of the calls, all others contain records. [`record`] describes a record. Numbers of a chunk's
//! head are little-endian, those of a record are LEB128.
//!
//! Records are buffered. They are written when 64 KiB are full, when a context is closed and when
//! the program exits. Records that a killed program had not written are lost.

pub mod record;

use super::config;
use kit::sync::Mutex;
use kit::sys::{forks, output::Output, per_process::PerProcess};
use record::Record;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The first bytes of a chunk.
pub const MAGIC: &[u8; 4] = b"IBVT";
/// Version of the form.
pub const VERSION: u8 = 1;
/// Bytes of a chunk's head: magic, version, kind, two of padding, process, length, time.
const HEAD: usize = 24;
/// A chunk of names, and one of records.
const NAMES: u8 = 0;
const RECORDS: u8 = 1;
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
    fn write(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        if !self.named {
            self.named = true;
            put_chunk(NAMES, 0, &record::names());
        }
        put_chunk(RECORDS, self.since, &self.bytes);
        self.bytes.clear();
    }
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
        assert_eq!(&bytes[..8], b"IBVT\x01\x01\0\0");
        assert_eq!(bytes[8..16], [7, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(bytes[16..24], 9u64.to_le_bytes());
    }
}
