//! Output of a command, collected beside the waiting: a full pipe would stop the command.

use std::{
    io::Read,
    mem,
    os::fd::AsFd,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::fs::fstat;

/// How often a command and its output are looked at.
pub const PERIOD: Duration = Duration::from_millis(5);

/// Reads a pipe to its end in a separate thread.
pub struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
    inode: Option<u64>,
}

impl Collector {
    /// Begins to read. Without a pipe there is nothing to be read.
    pub fn start<R: Read + AsFd + Send + 'static>(pipe: Option<R>) -> Self {
        let inode = pipe.as_ref().and_then(|pipe| fstat(pipe).ok());
        let bytes = Arc::default();
        let into = Arc::clone(&bytes);
        let thread = pipe.map(|pipe| thread::spawn(move || read(pipe, &into)));
        Self {
            bytes,
            thread,
            inode: inode.map(|stat| stat.st_ino),
        }
    }

    /// Whether all writers have closed it.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The number of the pipe, by which /proc names it.
    pub fn pipe(&self) -> Option<u64> {
        self.inode
    }

    /// The bytes read. Waits at most so long for the end; then a thread remains.
    pub fn bytes(self, patience: Duration) -> Vec<u8> {
        let started = Instant::now();
        while !self.is_finished() && started.elapsed() < patience {
            thread::sleep(PERIOD);
        }
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        mem::take(&mut bytes)
    }
}

fn read(mut pipe: impl Read, into: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 8192];
    // An error ends the output early, and the test that compares it finds that.
    while let Ok(got @ 1..) = pipe.read(&mut buffer) {
        let mut bytes = into.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.extend_from_slice(buffer.get(..got).unwrap_or_default());
    }
}
