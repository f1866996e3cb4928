//! The bytes behind a key.

use kit::sys::application::ApplicationMemory;
use kit::sys::device_memory::DeviceMemory;
use std::sync::Arc;
use uroce_engine::host::{Atomic, Fault};

/// Where the bytes of a region or window are.
#[derive(Clone, Debug)]
pub enum Space {
    /// None.
    Nothing,
    /// In the application, brought in when it was registered.
    Pinned(ApplicationMemory),
    /// In the application, which may map and unmap it as it likes (`IBV_ACCESS_ON_DEMAND`).
    OnDemand(ApplicationMemory),
    /// In device memory, from an offset on.
    Device(Arc<DeviceMemory>, usize),
    /// Reads as zeros, and forgets what is written (ibv_alloc_null_mr(3)).
    Null,
}

fn fault<E>(_: E) -> Fault {
    Fault
}

impl Space {
    /// What begins `offset` bytes later and has `length` bytes.
    pub fn part(&self, offset: usize, length: usize) -> Result<Self, Fault> {
        Ok(match self {
            Self::Pinned(memory) => Self::Pinned(memory.part(offset, length).map_err(fault)?),
            Self::OnDemand(memory) => Self::OnDemand(memory.part(offset, length).map_err(fault)?),
            Self::Device(memory, start) => {
                let start = start.checked_add(offset).ok_or(Fault)?;
                Self::Device(Arc::clone(memory), start)
            }
            Self::Null => Self::Null,
            Self::Nothing => return Err(Fault),
        })
    }

    /// Reads from `offset` on.
    #[inline]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), Fault> {
        match self {
            Self::Pinned(memory) => memory.read(offset, to).map_err(fault),
            Self::OnDemand(memory) => memory.try_read(offset, to).map_err(fault),
            Self::Device(memory, start) => {
                let at = start.checked_add(offset).ok_or(Fault)?;
                memory.read(at, to).map_err(fault)
            }
            Self::Null => {
                to.fill(0);
                Ok(())
            }
            Self::Nothing => Err(Fault),
        }
    }

    /// Writes from `offset` on.
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), Fault> {
        match self {
            Self::Pinned(memory) => memory.write(offset, from).map_err(fault),
            Self::OnDemand(memory) => memory.try_write(offset, from).map_err(fault),
            Self::Device(memory, start) => {
                let at = start.checked_add(offset).ok_or(Fault)?;
                memory.write(at, from).map_err(fault)
            }
            Self::Null => Ok(()),
            Self::Nothing => Err(Fault),
        }
    }

    /// Works on the word at `offset`; answers what was there.
    pub fn change(&self, offset: usize, change: Change) -> Result<u64, Fault> {
        let word = match self {
            Self::Pinned(memory) => memory.word(offset),
            Self::OnDemand(memory) => {
                // The word is used by the CPU, so its page is asked for first.
                let word = memory.part(offset, size_of::<u64>()).map_err(fault)?;
                word.populate(true).map_err(fault)?;
                memory.word(offset)
            }
            Self::Device(memory, start) => memory.word(start.checked_add(offset).ok_or(Fault)?),
            Self::Null | Self::Nothing => return Err(Fault),
        };
        let word = word.map_err(fault)?;
        Ok(match change {
            Change::Atomic(Atomic::CompareSwap { compare, swap }) => {
                word.compare_swap(compare, swap)
            }
            Change::Atomic(Atomic::FetchAdd(add)) => word.fetch_add(add),
            Change::Store(value) => {
                word.store(value);
                0
            }
        })
    }
}

/// What is done to a word.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// An atomic operation.
    Atomic(Atomic),
    /// An atomic write.
    Store(u64),
}
