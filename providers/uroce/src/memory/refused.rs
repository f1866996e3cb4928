//! Why a peer may not use memory: a line for `IBVERBS_EXPLAIN`.

use super::entry::{Entry, Kind};
use super::keys::Keys;
use super::{Peer, access};
use kit::abi::*;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use uroce_engine::host::{RemoteAccess, RemoteRange};
use uroce_engine::wire::feth;

/// Explanations in the life of a process: a peer can be refused as often as it likes (UC, repeated
/// reads), and must not fill the file of the explanations.
const MOST: u32 = 1000;
static EXPLAINED: AtomicU32 = AtomicU32::new(0);

/// Whether one more may be explained.
fn may_explain(explained: &AtomicU32) -> bool {
    let next = |explained: u32| (explained < MOST).then_some(explained + 1);
    explained.fetch_update(Relaxed, Relaxed, next).is_ok()
}

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No object has the key.
    NoSuchKey,
    /// The object is of another protection domain, or a window of another queue pair.
    Foreign,
    /// Its access flags lack this one.
    Lacks(&'static str),
    /// It has other addresses: the first one, and the number of bytes.
    OutOfRange(u64, u64),
    /// The memory itself cannot be used: it has been unmapped, or has no such pages.
    Memory,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchKey => f.write_str(
                "no region or window has this R_Key: it was never given out here, or its object \
                 is deregistered, deallocated or invalidated",
            ),
            Self::Foreign => f.write_str(
                "it belongs to another protection domain, or is a window of another queue pair",
            ),
            Self::Lacks(flag) => write!(f, "its access flags lack {flag}"),
            Self::OutOfRange(base, length) => {
                write!(f, "its object has {length} bytes from {base:#x}")
            }
            Self::Memory => f.write_str("its pages are not mapped, or lack the permission"),
        }
    }
}

/// What a peer asked for, and the flag that it needs; `None` for a flush of an unknown placement.
fn wanted(wanted: RemoteAccess) -> (&'static str, Option<(u32, &'static str)>) {
    match wanted {
        RemoteAccess::Read => (
            "an RDMA read",
            Some((IBV_ACCESS_REMOTE_READ, "IBV_ACCESS_REMOTE_READ")),
        ),
        RemoteAccess::Write => (
            "an RDMA write",
            Some((IBV_ACCESS_REMOTE_WRITE, "IBV_ACCESS_REMOTE_WRITE")),
        ),
        RemoteAccess::Atomic => (
            "an atomic operation",
            Some((IBV_ACCESS_REMOTE_ATOMIC, "IBV_ACCESS_REMOTE_ATOMIC")),
        ),
        RemoteAccess::Flush { placement, .. } => (
            "a flush",
            access::flush(placement).map(|flag| (flag, "IBV_ACCESS_FLUSH_GLOBAL")),
        ),
    }
}

impl Entry {
    fn why_refused(&self, who: Peer, range: RemoteRange, asked: RemoteAccess) -> Why {
        let whole = matches!(asked, RemoteAccess::Flush { selectivity, .. }
            if selectivity != feth::RANGE);
        if self.kind == Kind::Free {
            return Why::NoSuchKey;
        }
        if !self.admits(who, 0) {
            return Why::Foreign;
        }
        match wanted(asked).1 {
            Some((flag, name)) if self.access & flag == 0 => return Why::Lacks(name),
            Some(_) => {}
            None => return Why::Lacks("the placement"),
        }
        match self.place(range.address, range.length.into()) {
            Err(_) if !whole => Why::OutOfRange(self.base, self.length),
            _ => Why::Memory,
        }
    }
}

impl Keys {
    /// Why [`Keys::check_remote`] has refused this. The key may have changed since then.
    pub fn why_refused(&self, who: Peer, range: RemoteRange, asked: RemoteAccess) -> Why {
        self.reading(range.rkey)
            .map_or(Why::NoSuchKey, |entry| entry.why_refused(who, range, asked))
    }

    /// Explains a refusal.
    #[cold]
    pub fn explain_refusal(&self, who: Peer, range: RemoteRange, asked: RemoteAccess) {
        if !may_explain(&EXPLAINED) {
            return;
        }
        kit::explain::line(|| {
            let (what, _) = wanted(asked);
            let RemoteRange {
                rkey,
                address,
                length,
            } = range;
            let why = self.why_refused(who, range, asked);
            format!(
                "QP {:#x} refuses its peer {what} of {length} bytes at {address:#x} by R_Key \
                 {rkey:#x}: {why}.",
                who.qpn
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_does_not_get_any_number_of_explanations() {
        let explained = AtomicU32::new(MOST - 1);
        assert!(may_explain(&explained));
        assert!(!may_explain(&explained) && !may_explain(&explained));
    }
}
