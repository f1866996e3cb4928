//! Keys in use: by local requests, and by peers.

use super::access;
use super::keys::Keys;
use super::scatter::Scattering;
use super::space::{AccessMode, Accessor, Change};
use super::{PdId, Peer, WriteRight};
use kit::abi::*;
use kit::sys::application::{ApplicationMemory, FoundPage};
use kit::sys::no_fault_copy::Staged;
use uroce_engine::host::{Atomic, Fault, LocalAccess, RemoteAccess, RemoteRange};
use uroce_engine::wire::feth;
use uroce_engine::work::Sge;

type Done<T = ()> = Result<T, Fault>;

fn size(bytes: &[u8]) -> Done<u64> {
    u64::try_from(bytes.len()).map_err(|_| Fault)
}

fn flags(access: LocalAccess) -> u32 {
    match access {
        LocalAccess::Read => 0,
        LocalAccess::Write => IBV_ACCESS_LOCAL_WRITE,
    }
}

/// Local requests, by L_Keys of regions.
impl Keys {
    /// Whether all pieces may be used so.
    ///
    /// # Errors
    /// [`Fault`] if one may not.
    pub fn check_local(&self, pd: PdId, sges: &[Sge], access: LocalAccess) -> Done {
        for sge in sges.iter().filter(|sge| sge.length > 0) {
            let (address, length) = (sge.address, u64::from(sge.length));
            self.with(sge.lkey, |entry| {
                entry.local(pd, address, length, flags(access)).map(|_| ())
            })?;
        }
        Ok(())
    }

    /// To access memory by them.
    #[must_use]
    #[inline]
    pub fn using(&self, mode: AccessMode) -> Using<'_> {
        Using { keys: self, mode }
    }
}

/// Keys, and how memory is accessed by them.
#[derive(Clone, Copy)]
pub struct Using<'k> {
    keys: &'k Keys,
    mode: AccessMode,
}

impl Using<'_> {
    fn accessor(&self) -> Accessor<'_> {
        self.keys.accessor(self.mode)
    }
}

/// Local requests, by L_Keys of regions.
impl Using<'_> {
    /// Reads a piece; `out` has as many bytes as the piece.
    ///
    /// # Errors
    /// [`Fault`] if it may not be read, or has another length.
    #[inline]
    pub fn gather(&self, pd: PdId, sge: Sge, out: &mut [u8]) -> Done {
        let length = u64::from(sge.length);
        if size(out)? != length {
            return Err(Fault);
        }
        if length == 0 {
            return Ok(());
        }
        self.keys.with(sge.lkey, |entry| {
            let at = entry.local(pd, sge.address, length, 0)?;
            entry.space.read(at, out, self.accessor())
        })
    }

    /// Calls a function with the bytes of a piece to be read, if they are accessed directly: they
    /// stay registered until it returns. `None` if they are not, and for no bytes.
    ///
    /// # Errors
    /// [`Fault`] if the piece may not be read.
    #[inline]
    pub fn lend<T>(
        &self,
        pd: PdId,
        sge: Sge,
        call: impl FnOnce(ApplicationMemory) -> T,
    ) -> Done<Option<T>> {
        let length = u64::from(sge.length);
        if length == 0 {
            return Ok(None);
        }
        self.keys.with(sge.lkey, |entry| {
            let at = entry.local(pd, sge.address, length, 0)?;
            let length = usize::try_from(length).map_err(|_| Fault)?;
            Ok(entry.space.direct(at, length, self.mode).map(call))
        })
    }

    /// Writes `data` into the pieces, `offset` bytes after the beginning of the first.
    ///
    /// # Errors
    /// [`Fault`] if a piece may not be written, or there is too little room. Pieces in front of it
    /// have been written.
    pub fn scatter(&self, pd: PdId, sges: &[Sge], offset: u64, data: &[u8]) -> Done {
        Scattering::new(self.keys, pd, self.mode).write_at(sges, offset, data)
    }
}

/// Bytes that are collected before they are written.
impl Using<'_> {
    /// Writes bytes that were collected.
    ///
    /// # Errors
    /// [`Fault`] if memory may not be written.
    pub fn write_staged(&self, by: WriteRight, key: u32, address: u64, staged: &Staged) -> Done {
        let length = u64::try_from(staged.length()).map_err(|_| Fault)?;
        self.keys.with(key, |entry| {
            let at = entry.writable(by, address, length)?;
            entry.space.write_staged(at, staged, self.accessor())
        })
    }

    /// Whether a payload may be written, and be collected with others to be written later: only
    /// where a write that is permitted cannot fail.
    ///
    /// # Errors
    /// [`Fault`] if memory may not be written.
    pub fn combines(
        &self,
        by: WriteRight,
        key: u32,
        address: u64,
        data: &[u8],
    ) -> Result<bool, Fault> {
        let length = size(data)?;
        if length == 0 {
            return Ok(false);
        }
        self.keys.with(key, |entry| {
            entry.writable(by, address, length)?;
            Ok(entry.space.ignores_missing_pages())
        })
    }
}

/// Peers, by R_Keys of regions and windows.
impl Keys {
    /// Whether peers of a queue pair may do this with memory.
    ///
    /// # Errors
    /// [`Fault`] if not.
    pub fn check_remote(&self, who: Peer, range: RemoteRange, access: RemoteAccess) -> Done {
        let flags = match access {
            RemoteAccess::Read => IBV_ACCESS_REMOTE_READ,
            RemoteAccess::Write => IBV_ACCESS_REMOTE_WRITE,
            RemoteAccess::Atomic => IBV_ACCESS_REMOTE_ATOMIC,
            RemoteAccess::Flush {
                placement,
                selectivity,
            } => return self.check_flush(who, range, placement, selectivity),
        };
        let length = u64::from(range.length);
        if length == 0 {
            return Ok(());
        }
        self.with(range.rkey, |entry| {
            entry.remote(who, range.address, length, flags).map(|_| ())
        })
    }

    fn check_flush(&self, who: Peer, range: RemoteRange, placement: u8, selectivity: u8) -> Done {
        let flags = access::flush(placement).ok_or(Fault)?;
        self.with(range.rkey, |entry| {
            if selectivity == feth::RANGE {
                let length = u64::from(range.length);
                return entry.remote(who, range.address, length, flags).map(|_| ());
            }
            let may = selectivity == feth::REGION && entry.admits(who, flags);
            if may { Ok(()) } else { Err(Fault) }
        })
    }

    /// Makes written bytes visible to every thread here.
    ///
    /// # Errors
    /// [`Fault`] if the key does not allow it; for any placement but [`feth::GLOBAL`].
    pub fn flush(&self, who: Peer, range: RemoteRange, placement: u8, selectivity: u8) -> Done {
        self.check_flush(who, range, placement, selectivity)?;
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }
}

/// Peers, by R_Keys of regions and windows.
impl Using<'_> {
    /// RDMA write.
    ///
    /// # Errors
    /// [`Fault`] if memory may not be written.
    #[inline]
    pub fn write(&self, who: Peer, rkey: u32, address: u64, data: &[u8]) -> Done {
        let length = size(data)?;
        if length == 0 {
            return Ok(());
        }
        self.keys.with(rkey, |entry| {
            let at = entry.remote(who, address, length, IBV_ACCESS_REMOTE_WRITE)?;
            entry.space.write(at, data, true, self.accessor())
        })
    }

    /// RDMA read, or a part of it.
    ///
    /// # Errors
    /// [`Fault`] if memory may not be read.
    #[inline]
    pub fn read(
        &self,
        who: Peer,
        rkey: u32,
        address: u64,
        out: &mut [u8],
        found: &mut FoundPage,
    ) -> Done {
        let length = size(out)?;
        if length == 0 {
            return Ok(());
        }
        self.keys.with(rkey, |entry| {
            let at = entry.remote(who, address, length, IBV_ACCESS_REMOTE_READ)?;
            entry.space.read_for_peer(at, out, self.accessor(), found)
        })
    }

    /// An atomic operation; returns the previous value.
    ///
    /// # Errors
    /// [`Fault`] if memory may not be used so, or is not aligned to 8 bytes here.
    pub fn atomic(&self, who: Peer, rkey: u32, address: u64, operation: Atomic) -> Done<u64> {
        self.word(
            who,
            rkey,
            address,
            IBV_ACCESS_REMOTE_ATOMIC,
            Change::Atomic(operation),
        )
    }

    /// Atomic write of 8 bytes.
    ///
    /// # Errors
    /// [`Fault`] if memory may not be written, or is not aligned to 8 bytes here.
    pub fn atomic_write(&self, who: Peer, rkey: u32, address: u64, data: [u8; 8]) -> Done {
        let store = Change::Store(u64::from_ne_bytes(data));
        self.word(who, rkey, address, IBV_ACCESS_REMOTE_WRITE, store)
            .map(|_| ())
    }

    fn word(&self, who: Peer, rkey: u32, address: u64, flags: u32, change: Change) -> Done<u64> {
        self.keys.with(rkey, |entry| {
            let at = entry.remote(who, address, 8, flags)?;
            entry.space.change(at, change, self.accessor())
        })
    }
}
