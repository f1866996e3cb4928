//! Numbers that other processes gave, whose queue pairs are here now.

use crate::carrier::udp::{Socket, heirs};
use kit::errno::Result;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The numbers that this process has inherited, and what keeps its own for its heirs.
#[derive(Default)]
pub(super) struct Inherited {
    /// Whether there is any: most processes have none.
    any: AtomicBool,
    /// Each with its index, and the name by which it is found.
    numbers: RwLock<HashMap<u32, (u32, Socket)>>,
    kept: Mutex<Option<OwnedFd>>,
}

impl Inherited {
    /// The index of a number.
    #[inline]
    pub fn index(&self, number: u32) -> Option<u32> {
        if !self.any.load(SeqCst) {
            return None;
        }
        let numbers = self.numbers.read();
        numbers.get(&number).map(|(index, _)| *index)
    }

    /// One more.
    ///
    /// # Errors
    /// Of socket(2), bind(2).
    pub fn add(&self, number: u32, index: u32, own: u16) -> Result<()> {
        let announced = heirs::announce(number, own)?;
        self.numbers.write().insert(number, (index, announced));
        self.any.store(true, SeqCst);
        Ok(())
    }

    /// One less.
    pub fn remove(&self, number: u32) {
        let mut numbers = self.numbers.write();
        numbers.remove(&number);
        self.any.store(!numbers.is_empty(), SeqCst);
    }

    /// What keeps the slot.
    ///
    /// # Errors
    /// Of socket(2), bind(2), fcntl(2).
    pub fn keeps(&self, own: u16) -> Result<OwnedFd> {
        let mut kept = self.kept.lock();
        if let Some(kept) = &*kept {
            return Ok(rustix::io::fcntl_dupfd_cloexec(kept, 3)?);
        }
        let new = heirs::keep(own)?;
        let copy = rustix::io::fcntl_dupfd_cloexec(&new, 3)?;
        *kept = Some(new);
        Ok(copy)
    }
}
