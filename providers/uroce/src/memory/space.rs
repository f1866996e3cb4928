//! The bytes behind a key.

use kit::sys::application::{ApplicationMemory, FoundPage};
use kit::sys::device_memory::DeviceMemory;
use kit::sys::no_fault_copy::{NoFaultCopy, Staged};
use std::sync::Arc;
use uroce_engine::host::{Atomic, Fault};

/// How the bytes of registered memory are accessed. They were mapped when they were registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// By plain reads and writes: for calls of the application about this memory. If it is not
    /// mapped any more, the application gets a signal.
    Direct,
    /// By copies of the kernel, which returns EFAULT for missing pages: for calls that come while
    /// the application does something else, or ends a queue pair.
    Faultable,
}

/// An access mode, with its means of copying.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accessor<'k> {
    pub mode: AccessMode,
    pub no_fault_copy: &'k NoFaultCopy,
}

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
    /// Reads as zeros, and discards writes (ibv_alloc_null_mr(3)).
    Null,
}

fn fault<E>(_: E) -> Fault {
    Fault
}

impl Space {
    /// The part that begins at `offset` and has `length` bytes.
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

    /// The part from `offset` on, if its bytes are accessed directly.
    #[inline]
    pub(super) fn direct(
        &self,
        offset: usize,
        length: usize,
        mode: AccessMode,
    ) -> Option<ApplicationMemory> {
        match self {
            Self::Pinned(memory) if mode == AccessMode::Direct => memory.part(offset, length).ok(),
            _ => None,
        }
    }

    /// Reads from `offset` on.
    #[inline]
    pub(super) fn read(
        &self,
        offset: usize,
        to: &mut [u8],
        accessor: Accessor<'_>,
    ) -> Result<(), Fault> {
        match self {
            Self::Pinned(memory) if accessor.mode == AccessMode::Direct => {
                memory.read(offset, to).map_err(fault)
            }
            Self::Pinned(memory) | Self::OnDemand(memory) => memory
                .try_read(offset, to, accessor.no_fault_copy)
                .map_err(fault),
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

    /// The same for a peer. A no-fault copy would halve the speed of long reads, so this checks
    /// first whether the bytes are there, unless that was `found` for the packet before, and then
    /// reads plainly. Another thread may unmap them in between.
    #[inline]
    pub(super) fn read_for_peer(
        &self,
        offset: usize,
        to: &mut [u8],
        accessor: Accessor<'_>,
        found: &mut FoundPage,
    ) -> Result<(), Fault> {
        match self {
            Self::Pinned(memory) if accessor.mode == AccessMode::Faultable => {
                memory.find_and_read(offset, to, found).map_err(fault)
            }
            _ => self.read(offset, to, accessor),
        }
    }

    /// Writes from `offset`; `in_order` if the application may poll for the last byte, rather than
    /// for a completion. Bytes for missing pages are discarded, which is not an error: a card
    /// behaves like this.
    #[inline]
    pub(super) fn write(
        &self,
        offset: usize,
        from: &[u8],
        in_order: bool,
        accessor: Accessor<'_>,
    ) -> Result<(), Fault> {
        match self {
            Self::Pinned(memory) if accessor.mode == AccessMode::Direct => {
                memory.write(offset, from).map_err(fault)
            }
            Self::Pinned(memory) => memory
                .write_mapped_part(offset, from, in_order, accessor.no_fault_copy)
                .map_err(fault),
            Self::OnDemand(memory) => memory
                .try_write_in_order(offset, from, accessor.no_fault_copy)
                .map_err(fault),
            Self::Device(memory, start) => {
                let at = start.checked_add(offset).ok_or(Fault)?;
                memory.write(at, from).map_err(fault)
            }
            Self::Null => Ok(()),
            Self::Nothing => Err(Fault),
        }
    }

    /// The same of bytes that were collected, in order.
    pub(super) fn write_staged(
        &self,
        offset: usize,
        from: &Staged,
        accessor: Accessor<'_>,
    ) -> Result<(), Fault> {
        match self {
            Self::Pinned(memory) if accessor.mode == AccessMode::Faultable => memory
                .write_staged(offset, from, accessor.no_fault_copy)
                .map_err(fault),
            // Another region has the key by now.
            _ => self.write(offset, &from.copy(0), true, accessor),
        }
    }

    /// Whether a write for missing pages is no error.
    pub(super) fn ignores_missing_pages(&self) -> bool {
        matches!(self, Self::Pinned(_))
    }

    /// Changes the word at `offset`; returns the previous value.
    pub(super) fn change(
        &self,
        offset: usize,
        change: Change,
        accessor: Accessor<'_>,
    ) -> Result<u64, Fault> {
        let word = match self {
            Self::Pinned(memory) if accessor.mode == AccessMode::Direct => {
                memory.word(offset).map_err(fault)?
            }
            Self::Pinned(memory) | Self::OnDemand(memory) => {
                memory.try_word(offset).map_err(fault)?
            }
            Self::Device(memory, start) => {
                let at = start.checked_add(offset).ok_or(Fault)?;
                memory.word(at).map_err(fault)?
            }
            Self::Null | Self::Nothing => return Err(Fault),
        };
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

/// The operation on a word.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// An atomic operation.
    Atomic(Atomic),
    /// An atomic write.
    Store(u64),
}
