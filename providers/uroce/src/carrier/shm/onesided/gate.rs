//! The rights that a queue pair grants its peer.

/// Words of a gate, the count included.
pub const WORDS: usize = 4;

/// A queue pair that takes requests of its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The number of the peer's queue pair.
    pub peer: u32,
    /// The generation of the peer's process.
    pub generation: u64,
    /// The number of the protection domain.
    pub pd: u64,
    /// The P_Key.
    pub pkey: u16,
    /// RDMA writes are let in.
    pub write: bool,
    /// RDMA reads are let in.
    pub read: bool,
    /// The first user has to report the use.
    pub awaits_use: bool,
    /// The peer may go by the queue pair's credits.
    pub credits: bool,
}

/// The rights that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// RDMA write.
    Write,
    /// RDMA read.
    Read,
}

const OPEN: u64 = 1 << 63;
const WRITE: u64 = 1 << 62;
const READ: u64 = 1 << 61;
const AWAITS_USE: u64 = 1 << 60;
const CREDITS: u64 = 1 << 59;

fn bit(set: bool, bit: u64) -> u64 {
    if set { bit } else { 0 }
}

impl Gate {
    /// Whether it lets that request in.
    #[must_use]
    pub fn admits(&self, right: Right) -> bool {
        match right {
            Right::Write => self.write,
            Right::Read => self.read,
        }
    }

    pub(super) fn words(self) -> [u64; WORDS - 1] {
        let first = OPEN
            | bit(self.write, WRITE)
            | bit(self.read, READ)
            | bit(self.awaits_use, AWAITS_USE)
            | bit(self.credits, CREDITS)
            | u64::from(self.pkey) << 24
            | u64::from(self.peer & 0x00ff_ffff);
        [first, self.generation, self.pd]
    }

    pub(super) fn of([first, generation, pd]: [u64; WORDS - 1]) -> Option<Self> {
        if first & OPEN == 0 {
            return None;
        }
        Some(Self {
            peer: u32::try_from(first & 0x00ff_ffff).ok()?,
            generation,
            pd,
            pkey: u16::try_from(first >> 24 & 0xffff).ok()?,
            write: first & WRITE != 0,
            read: first & READ != 0,
            awaits_use: first & AWAITS_USE != 0,
            credits: first & CREDITS != 0,
        })
    }
}
