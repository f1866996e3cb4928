//! Processes of this host that are watched, and the ids whose connections end with them.
//!
//! A slot does not identify a process: another one may have it after the end of the first, before
//! that end is noticed. Each watch therefore has a separate number, and an id belongs to a watch.

use super::host::Watch;
use std::collections::{BTreeSet, HashMap};

/// A process that is or was watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    slot: u16,
    number: u64,
}

/// Its watch.
struct Watched {
    process: Process,
    watch: Box<dyn Watch>,
    /// The ids with connections to it.
    ids: BTreeSet<u32>,
}

/// The latest process of each slot.
#[derive(Default)]
pub struct Peers {
    by_slot: HashMap<u16, Watched>,
    last: u64,
}

impl Peers {
    /// A process that is to be watched.
    pub fn process(&mut self, slot: u16) -> Process {
        self.last = self.last.wrapping_add(1);
        let number = self.last;
        Process { slot, number }
    }

    /// It is watched from now on. Returns the watch of another one that had its slot.
    pub fn add(&mut self, process: Process, watch: Box<dyn Watch>) -> Option<Box<dyn Watch>> {
        let watched = Watched {
            process,
            watch,
            ids: BTreeSet::new(),
        };
        let before = self.by_slot.insert(process.slot, watched);
        before.map(|watched| watched.watch)
    }

    /// The process of a slot that is watched.
    pub fn at(&self, slot: u16) -> Option<Process> {
        self.by_slot.get(&slot).map(|watched| watched.process)
    }

    /// Whether a process is known to have ended.
    pub fn has_ended(&mut self, process: Process) -> bool {
        let watched = self.watched(process);
        watched.is_none_or(|watched| watched.watch.is_ready())
    }

    /// Whether an id that a question is true of belongs to a process. The others are forgotten.
    pub fn has_open(&mut self, process: Process, is_open: impl Fn(u32) -> bool) -> bool {
        let Some(watched) = self.watched(process) else {
            return false;
        };
        while let Some(id) = watched.ids.first().copied() {
            if is_open(id) {
                return true;
            }
            watched.ids.remove(&id);
        }
        false
    }

    /// An id belongs to a process.
    pub fn join(&mut self, process: Process, id: u32) {
        if let Some(watched) = self.watched(process) {
            watched.ids.insert(id);
        }
    }

    /// An id has ended.
    pub fn leave(&mut self, process: Process, id: u32) {
        if let Some(watched) = self.watched(process) {
            watched.ids.remove(&id);
        }
    }

    /// Ends the watch of a process: the watch, and the ids that belong to the process. `None` if
    /// it has ended before.
    pub fn remove(&mut self, process: Process) -> Option<(Box<dyn Watch>, BTreeSet<u32>)> {
        self.watched(process)?;
        let watched = self.by_slot.remove(&process.slot)?;
        Some((watched.watch, watched.ids))
    }

    /// Ends all watches.
    pub fn drain(&mut self) -> impl Iterator<Item = Box<dyn Watch>> {
        self.by_slot.drain().map(|(_, watched)| watched.watch)
    }

    fn watched(&mut self, process: Process) -> Option<&mut Watched> {
        let watched = self.by_slot.get_mut(&process.slot)?;
        (watched.process == process).then_some(watched)
    }
}
