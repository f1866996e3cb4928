//! A place in the memory of a process by which its program is recognised.
#![forbid(unsafe_code)]

use kit::errno::Errno;
use kit::sys::other_process::{OtherProcess, range};

/// Where a process has its generation, as it says. A process that executes another program
/// (execve(2)) keeps its number, and loses its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    process: OtherProcess,
    address: u64,
    generation: u64,
}

impl Home {
    /// That of a process, which says it is at an address; 0 says nothing.
    pub fn new(process: OtherProcess, address: u64, generation: u64) -> Option<Self> {
        (address != 0).then_some(Self {
            process,
            address,
            generation,
        })
    }

    /// Whether the process still runs the program that has this generation. Where the kernel does
    /// not let this process look, it does not let it copy either.
    pub fn is_there(&self) -> bool {
        let mut found = [0; 8];
        match self.process.read_bytes(&mut found, &range(self.address, 8)) {
            Ok(length) => length == found.len() && u64::from_ne_bytes(found) == self.generation,
            Err(error) => matches!(error, Errno::PERM | Errno::NOSYS | Errno(libc::EACCES)),
        }
    }
}
