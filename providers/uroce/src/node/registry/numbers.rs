//! QP numbers of this process: those of its slot, and those taken over from other processes, whose
//! queue pairs are here now.

use crate::carrier::udp::Socket;
use crate::carrier::{qpn, registry, successors};
use kit::errno::Result;
use kit::sync::{Mutex, RwLock};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The numbers of this process's queue pairs, and the sockets that keep its numbers for successors.
pub(in crate::node) struct Numbers {
    /// The slot of this process.
    slot: u16,
    /// Whether there is any: most processes have none.
    any: AtomicBool,
    /// Each with its index, and the name by which it is found.
    numbers: RwLock<HashMap<u32, (u32, Socket)>>,
    kept: Mutex<Option<OwnedFd>>,
}

impl Numbers {
    /// Those of a slot.
    pub fn new(slot: u16) -> Self {
        Self {
            slot,
            any: AtomicBool::new(false),
            numbers: RwLock::default(),
            kept: Mutex::default(),
        }
    }

    /// The slot of this process.
    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// The number of an index.
    pub fn of(&self, index: u32) -> u32 {
        qpn::number(self.slot, index)
    }

    /// The index of a number of this process, or of one that it has taken over.
    #[inline]
    pub fn index(&self, number: u32) -> Option<u32> {
        if number >> 24 == 0 && qpn::slot_of(number) == self.slot {
            return Some(qpn::index_of(number));
        }
        self.taken_over(number)
    }

    #[inline]
    fn taken_over(&self, number: u32) -> Option<u32> {
        if !self.any.load(SeqCst) {
            return None;
        }
        let numbers = self.numbers.read();
        numbers.get(&number).map(|(index, _)| *index)
    }

    /// One that was taken over leads to an index from now on.
    ///
    /// # Errors
    /// Of socket(2), bind(2), listen(2).
    pub fn take_over(&self, number: u32, index: u32) -> Result<()> {
        let announced = successors::announce(number, self.slot)?;
        self.numbers.write().insert(number, (index, announced));
        self.any.store(true, SeqCst);
        Ok(())
    }

    /// One that was taken over leads nowhere any more.
    pub fn release(&self, number: u32) {
        let mut numbers = self.numbers.write();
        numbers.remove(&number);
        self.any.store(!numbers.is_empty(), SeqCst);
    }

    /// Takes the connections by which others make sure of the process that has taken a number over.
    pub fn take_connections(&self) {
        if self.any.load(SeqCst) {
            let numbers = self.numbers.read();
            let sockets = numbers.values().map(|(_, socket)| socket);
            sockets.for_each(registry::accept_and_close);
        }
    }

    /// The socket that keeps the slot.
    ///
    /// # Errors
    /// Of socket(2), bind(2), listen(2), fcntl(2).
    pub fn keep_slot(&self) -> Result<OwnedFd> {
        let mut kept = self.kept.lock();
        if let Some(kept) = &*kept {
            return Ok(rustix::io::fcntl_dupfd_cloexec(kept, 3)?);
        }
        let new = successors::keep(self.slot)?;
        let copy = rustix::io::fcntl_dupfd_cloexec(&new, 3)?;
        *kept = Some(new);
        Ok(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_other_processes_lead_nowhere_until_they_are_taken_over() {
        let numbers = Numbers::new(7);
        assert_eq!(numbers.index(numbers.of(9)), Some(9));
        let others = qpn::number(8, 9);
        assert_eq!(numbers.index(others), None);
        assert_eq!(numbers.take_over(others, 4), Ok(()));
        assert_eq!(numbers.index(others), Some(4));
        numbers.release(others);
        assert_eq!(numbers.index(others), None);
        assert_eq!(numbers.index(1 << 24 | numbers.of(9)), None);
    }
}
