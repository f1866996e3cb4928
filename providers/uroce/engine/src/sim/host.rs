//! Memory and queues of a simulated host.

use std::collections::{HashMap, VecDeque};

use super::link::Random;
use crate::host::{
    Atomic, Fault, Host, LateFault, LocalAccess, NoReceive, ReceiveSource, RemoteAccess,
    RemoteRange,
};
use crate::psn::Psn;
use crate::work::{Completion, Event, Receive, Sge};

/// Address of the first byte of memory.
pub const BASE: u64 = 0x7000_0000_0000;
/// Bytes of memory.
pub const MEMORY: usize = 1 << 19;

/// The memory of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Whether a peer may read.
    pub readable: bool,
    /// Whether a peer may write, and do atomics.
    pub writable: bool,
}

/// A host in memory.
#[derive(Debug)]
pub struct SimHost {
    /// Its memory.
    pub memory: Vec<u8>,
    /// Its keys, local and remote ones alike.
    pub keys: HashMap<u32, Region>,
    /// Its receive requests.
    pub receives: VecDeque<Receive>,
    /// Its shared receive queues (XRC).
    pub shared: HashMap<u32, VecDeque<Receive>>,
    /// The completions.
    pub completions: Vec<Completion>,
    /// Events that were reported.
    pub events: Vec<Event>,
    /// Whether to count credits.
    pub advertise_credits: bool,
    /// Flushes carried out.
    pub flushes: usize,
    /// The bound windows.
    pub bound: Vec<u64>,
    /// Whether RDMA writes are done later.
    pub defers: bool,
    /// A key that ends after writes to it were checked, and before they are done.
    pub ends_early: Option<u32>,
    deferred: Vec<Deferred>,
}

/// An RDMA write to be done later.
#[derive(Debug)]
struct Deferred {
    psn: Psn,
    rkey: u32,
    address: u64,
    data: Vec<u8>,
}

/// The key that opens all memory.
pub const ALL: u32 = 0x100;

impl SimHost {
    /// A host with [`MEMORY`] random bytes and one key to all of them, [`ALL`].
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::sized(seed, MEMORY)
    }

    /// A host with so many random bytes, in whole words, and one key to all of them, [`ALL`].
    #[must_use]
    pub fn sized(seed: u64, bytes: usize) -> Self {
        let mut random = Random::new(seed);
        let mut memory = Vec::with_capacity(bytes);
        while memory.len() < bytes {
            memory.extend(random.next_u64().to_le_bytes());
        }
        let region = Region {
            address: BASE,
            length: u64::try_from(memory.len()).unwrap_or(0),
            readable: true,
            writable: true,
        };
        Self {
            memory,
            keys: HashMap::from([(ALL, region)]),
            receives: VecDeque::new(),
            shared: HashMap::new(),
            completions: Vec::new(),
            events: Vec::new(),
            advertise_credits: false,
            flushes: 0,
            bound: Vec::new(),
            defers: false,
            ends_early: None,
            deferred: Vec::new(),
        }
    }

    fn region(&self, key: u32, address: u64, length: u64) -> Result<Region, Fault> {
        let region = self.keys.get(&key).ok_or(Fault)?;
        let start = address.checked_sub(region.address).ok_or(Fault)?;
        let end = start.checked_add(length).ok_or(Fault)?;
        if end > region.length {
            return Err(Fault);
        }
        Ok(*region)
    }

    fn place(address: u64, length: usize) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(address.checked_sub(BASE)?).ok()?;
        Some(start..start.checked_add(length)?)
    }

    /// Bytes of memory without a key.
    #[must_use]
    pub fn bytes(&self, address: u64, length: u32) -> Option<&[u8]> {
        let range = Self::place(address, usize::try_from(length).ok()?)?;
        self.memory.get(range)
    }

    /// Local memory under a key.
    #[must_use]
    pub fn local(&self, key: u32, address: u64, length: u32) -> Option<&[u8]> {
        self.region(key, address, u64::from(length)).ok()?;
        self.bytes(address, length)
    }

    /// Memory that a peer reads.
    #[must_use]
    pub fn remote(&self, key: u32, address: u64, length: u32) -> Option<&[u8]> {
        let region = self.region(key, address, u64::from(length)).ok()?;
        self.bytes(address, length).filter(|_| region.readable)
    }

    fn write_now(&mut self, rkey: u32, address: u64, data: &[u8]) -> Result<(), Fault> {
        if !self.region(rkey, address, size(data))?.writable {
            return Err(Fault);
        }
        self.store(address, data)
    }

    fn store(&mut self, address: u64, data: &[u8]) -> Result<(), Fault> {
        let range = Self::place(address, data.len()).ok_or(Fault)?;
        let room = self.memory.get_mut(range).ok_or(Fault)?;
        room.copy_from_slice(data);
        Ok(())
    }
}

fn size(data: &[u8]) -> u64 {
    u64::try_from(data.len()).unwrap_or(u64::MAX)
}

impl Host for SimHost {
    fn check_local(&mut self, sges: &[Sge], _: LocalAccess) -> Result<(), Fault> {
        for sge in sges {
            self.region(sge.lkey, sge.address, u64::from(sge.length))?;
        }
        Ok(())
    }

    fn scatter(&mut self, sges: &[Sge], offset: u64, data: &[u8]) -> Result<(), Fault> {
        let length = u32::try_from(data.len()).map_err(|_| Fault)?;
        let mut rest = data;
        let pieces: Vec<Sge> = crate::outgoing::Gather::new(sges, offset, length).collect();
        for piece in pieces {
            let take = usize::try_from(piece.length).map_err(|_| Fault)?;
            let (now, later) = rest.split_at_checked(take).ok_or(Fault)?;
            self.region(piece.lkey, piece.address, size(now))?;
            self.store(piece.address, now)?;
            rest = later;
        }
        if rest.is_empty() { Ok(()) } else { Err(Fault) }
    }

    fn check_remote(&mut self, range: RemoteRange, access: RemoteAccess) -> Result<(), Fault> {
        let region = self.region(range.rkey, range.address, u64::from(range.length))?;
        let allowed = match access {
            RemoteAccess::Read => region.readable,
            RemoteAccess::Write | RemoteAccess::Atomic => region.writable,
            RemoteAccess::Flush { .. } => true,
        };
        if allowed { Ok(()) } else { Err(Fault) }
    }

    fn write(&mut self, psn: Psn, rkey: u32, address: u64, data: &[u8]) -> Result<(), Fault> {
        if !self.defers {
            return self.write_now(rkey, address, data);
        }
        if !self.region(rkey, address, size(data))?.writable {
            return Err(Fault);
        }
        self.deferred.push(Deferred {
            psn,
            rkey,
            address,
            data: data.to_vec(),
        });
        Ok(())
    }

    fn settle(&mut self) -> Result<(), LateFault> {
        let deferred = std::mem::take(&mut self.deferred);
        if let Some(key) = self.ends_early
            && deferred.iter().any(|write| write.rkey == key)
        {
            self.keys.remove(&key);
        }
        for Deferred {
            psn,
            rkey,
            address,
            data,
        } in deferred
        {
            let done = self.write_now(rkey, address, &data);
            done.map_err(|_| LateFault { psn })?;
        }
        Ok(())
    }

    fn atomic_write(&mut self, rkey: u32, address: u64, data: [u8; 8]) -> Result<(), Fault> {
        self.write_now(rkey, address, &data)
    }

    fn atomic(&mut self, rkey: u32, address: u64, operation: Atomic) -> Result<u64, Fault> {
        self.region(rkey, address, 8)?;
        let old = self.bytes(address, 8).ok_or(Fault)?;
        let old = u64::from_ne_bytes(<[u8; 8]>::try_from(old).map_err(|_| Fault)?);
        let new = match operation {
            Atomic::CompareSwap { compare, swap } if old == compare => swap,
            Atomic::CompareSwap { .. } => old,
            Atomic::FetchAdd(add) => old.wrapping_add(add),
        };
        self.store(address, &new.to_ne_bytes())?;
        Ok(old)
    }

    fn flush(&mut self, _: RemoteRange, _: u8, _: u8) -> Result<(), Fault> {
        self.flushes += 1;
        Ok(())
    }

    fn invalidate(&mut self, rkey: u32, _: bool) -> Result<(), Fault> {
        self.keys.remove(&rkey).map(|_| ()).ok_or(Fault)
    }

    fn bind(&mut self, what: u64) -> Result<(), Fault> {
        self.bound.push(what);
        Ok(())
    }

    fn receive(&mut self, source: ReceiveSource) -> Result<Receive, NoReceive> {
        let queue = match source {
            ReceiveSource::Own => &mut self.receives,
            ReceiveSource::Srq(number) => self.shared.get_mut(&number).ok_or(NoReceive::Unknown)?,
        };
        queue.pop_front().ok_or(NoReceive::Empty)
    }

    fn credits(&mut self) -> Option<u32> {
        self.advertise_credits
            .then(|| u32::try_from(self.receives.len()).unwrap_or(u32::MAX))
    }

    fn complete(&mut self, completion: Completion) {
        self.completions.push(completion);
    }

    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}
