#![forbid(unsafe_code)]
//! Destinations of diagnostics: reports, traces, captures, the log. The program continues after any
//! failure of a destination.
//!
//! A destination may be a pipe whose reader leaves or does not read, a file that may not grow any
//! more (`ulimit -f`), a full disk. No write raises a signal, none waits longer than a second, and
//! the first failure is the last write: a line on the standard error reports it. The written part
//! of a record that did not fit is removed from the end of the file, so that readers find whole
//! records.

use super::ready::{self, ReadyTo};
use super::signal;
use rustix::event::Timespec;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, fstat, ftruncate, open, seek};
use rustix::io::{Errno, Result, write};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long a write may wait for the reader.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes that a pipe accepts without blocking once it is reported writable (`PIPE_BUF`).
const PIECE: usize = 4096;

/// A place for diagnostics.
#[derive(Debug)]
pub struct Output {
    /// None for the standard error.
    file: Option<OwnedFd>,
    /// The name in the message.
    name: String,
    stopped: AtomicBool,
}

impl Output {
    /// The program's standard error.
    #[must_use]
    pub const fn standard_error() -> Self {
        Self {
            file: None,
            name: String::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Appends to a file, which is created if missing. `variable` named it.
    ///
    /// # Errors
    /// Of open(2); ENXIO for a FIFO without a reader.
    pub fn open(variable: &str, path: &OsStr) -> Result<Self> {
        // A FIFO without a reader would be waited for otherwise.
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let file = open(path, flags | OFlags::NONBLOCK | OFlags::NOCTTY, mode)?;
        Ok(Self {
            file: Some(file),
            name: format!("{variable}={}", path.to_string_lossy()),
            stopped: AtomicBool::new(false),
        })
    }

    /// The file, if it is one.
    #[must_use]
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Writes a record, by one write(2) where there is room. False if the place is lost, also since
    /// an earlier write.
    pub fn write(&self, record: &[u8]) -> bool {
        if self.stopped.load(Relaxed) {
            return false;
        }
        let written = signal::without_those_of_writing(|| match &self.file {
            None => in_pieces(std::io::stderr().as_fd(), record),
            Some(file) => whole(file.as_fd(), record),
        });
        let Err(error) = written.unwrap_or(Err(Errno::INTR)) else {
            return true;
        };
        if !self.stopped.swap(true, Relaxed) && self.file.is_some() {
            let why = std::io::Error::from(error);
            print_line(&format!("{}: {why}: nothing more is written", self.name));
        }
        false
    }
}

/// Prints one line in the library's name on the standard error, or loses it.
pub fn print_line(text: &str) {
    let mut line = String::new();
    // A string takes everything.
    let _ = writeln!(line, "libibverbs: {text}");
    let _ =
        signal::without_those_of_writing(|| in_pieces(std::io::stderr().as_fd(), line.as_bytes()));
}

/// To a descriptor that does not wait.
fn whole(file: BorrowedFd<'_>, record: &[u8]) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    let mut rest = record;
    while !rest.is_empty() {
        match write(file, rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => room(file, until)?,
            Err(error) => {
                cut(file, record.len() - rest.len());
                return Err(error);
            }
        }
    }
    Ok(())
}

/// To a descriptor that the program has as well, and that may wait.
fn in_pieces(file: BorrowedFd<'_>, record: &[u8]) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    let mut rest = record;
    while !rest.is_empty() {
        room(file, until)?;
        match write(file, rest.get(..PIECE).unwrap_or(rest)) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until the descriptor can be written to.
fn room(file: BorrowedFd<'_>, until: Instant) -> Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left).map_err(|_| Errno::TIMEDOUT)?;
    match ready::wait(file, ReadyTo::Write, Some(&left)).map_err(|error| error.raw()) {
        Ok(false) => Err(Errno::TIMEDOUT),
        Ok(true) | Err(libc::EINTR) => Ok(()),
        Err(error) => Err(Errno::from_raw_os_error(error)),
    }
}

/// Removes the last `count` bytes from the end of a file, if this process wrote them last.
fn cut(file: BorrowedFd<'_>, count: usize) {
    let (Ok(count), Ok(stat)) = (u64::try_from(count), fstat(file)) else {
        return;
    };
    if count == 0 || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return;
    }
    let (end, size) = (
        seek(file, SeekFrom::Current(0)),
        u64::try_from(stat.st_size),
    );
    if let (Ok(end), Ok(size)) = (end, size)
        && end == size
    {
        // If that fails, readers of the file have to cope with half a record.
        let _ = ftruncate(file, end.saturating_sub(count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::ready::tests::answers;
    use rustix::fs::{CWD, mkfifoat};
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;

    fn fifo() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        (folder, path)
    }

    fn reader(path: &std::path::Path) -> std::fs::File {
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
        let mut options = std::fs::OpenOptions::new();
        options.read(true).custom_flags(flags).open(path).unwrap()
    }

    /// Until the last writer is gone.
    fn read_all(mut from: &std::fs::File) {
        let mut buffer = [0; PIECE];
        while from.read(&mut buffer).map_or(true, |count| count > 0) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn records_are_appended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        for text in ["one\n", "two\n"] {
            let output = Output::open("VARIABLE", path.as_os_str()).unwrap();
            assert!(output.write(text.as_bytes()));
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_fifo_without_a_reader_is_not_waited_for() {
        let (_folder, path) = fifo();
        let opened = Output::open("VARIABLE", path.as_os_str());
        assert_eq!(opened.err(), Some(Errno::NXIO));
    }

    #[test]
    fn a_reader_that_leaves_ends_it() {
        let (_folder, path) = fifo();
        let reader = reader(&path);
        let output = Output::open("VARIABLE", path.as_os_str()).unwrap();
        assert!(output.write(b"one"));
        drop(reader);
        // Children that other tests fork have it for a moment, too.
        let ends = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            !output.write(b"two")
        });
        assert!(ends);
        assert!(!output.write(b"three"));
    }

    #[test]
    fn a_reader_that_does_not_read_ends_it() {
        let (_folder, path) = fifo();
        let _reader = reader(&path);
        let output = Output::open("VARIABLE", path.as_os_str()).unwrap();
        // More than any pipe of an ordinary user holds.
        let much = vec![0; 1 << 21];
        assert!(!output.write(&much));
        assert!(!output.write(b"one"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no fork(2)")]
    fn a_limit_of_no_descriptors_loses_nothing() {
        let (_read, written) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let in_pieces = || Ok(in_pieces(written.as_fd(), b"line\n").is_ok());
        assert_eq!(answers(in_pieces), [Ok(true); 2]);
        let (_folder, path) = fifo();
        let reader = reader(&path);
        let output = Output::open("VARIABLE", path.as_os_str()).unwrap();
        // More than there is room for at once.
        let record = vec![0; 1 << 17];
        std::thread::scope(|threads| {
            threads.spawn(|| read_all(&reader));
            assert_eq!(answers(|| Ok(output.write(&record))), [Ok(true); 2]);
            drop(output);
        });
    }

    #[test]
    fn half_a_record_is_taken_from_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let output = Output::open("VARIABLE", path.as_os_str()).unwrap();
        assert!(output.write(b"whole") && output.write(b"ha"));
        cut(output.file().unwrap(), 2);
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        // In another file, the bytes written last are not the end.
        let other = Output::open("VARIABLE", path.as_os_str()).unwrap();
        assert!(output.write(b"ha") && other.write(b"other"));
        cut(output.file().unwrap(), 2);
        assert_eq!(std::fs::read(&path).unwrap(), b"wholehaother");
    }
}
