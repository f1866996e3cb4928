//! The entries of the table.

use super::listeners::InvalidationListeners;
use super::space::Space;
use super::{PdId, Peer, WriteRight};
use kit::abi::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE};
use kit::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use uroce_engine::host::Fault;

/// The object of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Free,
    /// A memory region.
    Region,
    /// A window that goes by the protection domain; bound anew at any time.
    Type1,
    /// A window that goes by the queue pair that bound it.
    Type2A,
    /// A window that goes by the queue pair that bound it and the protection domain.
    Type2B,
}

impl Kind {
    pub fn is_type_2(self) -> bool {
        matches!(self, Self::Type2A | Self::Type2B)
    }
}

/// One region or window, apart from all that had its index before.
#[derive(Debug, Default)]
pub struct Identity {
    /// A region: windows that are bound to it.
    pub windows: AtomicU32,
    /// A region: the objects that cache it.
    pub listeners: InvalidationListeners,
    /// A region: held while the key's object changes, or while the change waits for peers.
    pub changing: Mutex<()>,
}

/// A slot's content.
#[derive(Debug)]
pub struct Entry {
    /// The low 8 bits of the key.
    pub tag: u8,
    pub kind: Kind,
    /// Bits of `enum ibv_access_flags`.
    pub access: u32,
    pub pd: PdId,
    /// The address by which the first byte is named.
    pub base: u64,
    /// Bytes; 0 for a window that is not bound.
    pub length: u64,
    pub space: Space,
    /// The queue pair that a window of type 2 is bound by.
    pub qpn: u32,
    /// The identity of the object.
    pub identity: Option<Arc<Identity>>,
    /// A window: the region that it is bound to.
    pub bound: Option<Arc<Identity>>,
}

impl Entry {
    pub const FREE: Self = Self {
        tag: 0,
        kind: Kind::Free,
        access: 0,
        pd: PdId::NONE,
        base: 0,
        length: 0,
        space: Space::Nothing,
        qpn: 0,
        identity: None,
        bound: None,
    };

    pub fn is(&self, identity: &Arc<Identity>) -> bool {
        let own = self.identity.as_ref();
        own.is_some_and(|own| Arc::ptr_eq(own, identity))
    }

    /// The offset of a range that lies inside.
    #[inline]
    pub fn place(&self, address: u64, length: u64) -> Result<usize, Fault> {
        let start = address.checked_sub(self.base).ok_or(Fault)?;
        let end = start.checked_add(length).ok_or(Fault)?;
        if end > self.length {
            return Err(Fault);
        }
        usize::try_from(start).map_err(|_| Fault)
    }

    /// The offset of a range that local requests of a domain may use with these flags.
    #[inline]
    pub fn local(&self, pd: PdId, address: u64, length: u64, flags: u32) -> Result<usize, Fault> {
        let may = self.kind == Kind::Region && self.pd == pd && self.access & flags == flags;
        if !may {
            return Err(Fault);
        }
        self.place(address, length)
    }

    /// Whether peers of a queue pair may use it with these flags.
    #[inline]
    pub fn admits(&self, who: Peer, flags: u32) -> bool {
        let theirs = match self.kind {
            Kind::Free => false,
            Kind::Region | Kind::Type1 => self.pd == who.pd,
            Kind::Type2A => self.qpn == who.qpn,
            Kind::Type2B => self.pd == who.pd && self.qpn == who.qpn,
        };
        theirs && self.access & flags == flags
    }

    /// The offset of a range that peers may use with these flags.
    #[inline]
    pub fn remote(&self, who: Peer, address: u64, length: u64, flags: u32) -> Result<usize, Fault> {
        if !self.admits(who, flags) {
            return Err(Fault);
        }
        self.place(address, length)
    }

    /// The offset of a range that may be written by this right.
    pub fn writable(&self, by: WriteRight, address: u64, length: u64) -> Result<usize, Fault> {
        match by {
            WriteRight::Peer(who) => self.remote(who, address, length, IBV_ACCESS_REMOTE_WRITE),
            WriteRight::Local(pd) => self.local(pd, address, length, IBV_ACCESS_LOCAL_WRITE),
        }
    }
}
