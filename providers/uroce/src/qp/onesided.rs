//! RDMA writes and reads that this side carries out by itself, in the memory of a process of this host:
//! where all is well. Whatever is not goes the ordinary way, and errors come from there.
//!
//! Nothing of the connection's packets changes, so both ways may take turns. A request goes this way
//! only when all before it are finished, and is finished itself when it returns: order is kept.

use super::core::{Core, Inner};
use super::endpoint::INDEX;
use super::requests;
use crate::carrier::shm::{Gate, Mapped, Right, Segment, Shown};
use crate::context::Context;
use crate::cq::success;
use crate::memory::piece;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{Data, SendView};
use kit::sys::application::ApplicationMemory;
use kit::sys::other_process::{MOST, OtherProcess, Source};
use kit::sys::shared_file::SharedFile;
use rustix::process::Pid;
use uroce_engine::host::LocalAccess;
use uroce_engine::qp::Service;
use uroce_engine::work::{CompletionOpcode, Sge};

/// Bytes that one call of a verb moves this way; what is longer goes by packets, which leave the caller
/// free meanwhile.
pub const MOST_BYTES: u64 = 4 << 20;

/// A request that could go this way.
struct Asked<'a> {
    right: Right,
    data: Data<'a>,
    address: u64,
    rkey: u32,
    length: u64,
}

impl<'a> Asked<'a> {
    #[inline]
    fn new(core: &Core, given: &impl SendView<'a, Context>) -> Option<Self> {
        let right = match given.opcode() {
            IBV_WR_RDMA_WRITE => Right::Write,
            IBV_WR_RDMA_READ => Right::Read,
            _ => return None,
        };
        if given.flags() & !requests::FLAGS != 0 {
            return None;
        }
        let data = given.data().ok()?;
        let length = match &data {
            Data::Sges(list) => {
                let most = usize::try_from(core.cap().max_send_sge).ok()?;
                if list.len() > most.min(MOST) {
                    return None;
                }
                list.iter().map(|sge| u64::from(sge.length)).sum()
            }
            Data::Inline(inline) if right == Right::Write => {
                let length = inline.only()?.len();
                if length > usize::try_from(core.cap().max_inline_data).ok()? {
                    return None;
                }
                u64::try_from(length).ok()?
            }
            Data::Inline(_) => return None,
        };
        let (address, rkey) = given.remote();
        Some(Self {
            right,
            data,
            address,
            rkey,
            length,
        })
    }

    fn local_access(&self) -> LocalAccess {
        match self.right {
            Right::Write => LocalAccess::Read,
            Right::Read => LocalAccess::Write,
        }
    }

    fn remote_access(&self) -> u32 {
        match self.right {
            Right::Write => IBV_ACCESS_REMOTE_WRITE,
            Right::Read => IBV_ACCESS_REMOTE_READ,
        }
    }
}

/// How the bytes of a request are moved.
enum Way<'a> {
    /// By the kernel, to or from that address.
    Process(OtherProcess, u64),
    /// Here, from that place on.
    Mapped(&'a SharedFile, usize),
}

fn fault<E>(_: E) -> Errno {
    Errno(libc::EFAULT)
}

impl Way<'_> {
    fn write(&self, from: Source<'_>, length: u64) -> Result<u64> {
        let (file, at) = match *self {
            Self::Process(process, address) => return moved(process.write(from, address)?),
            Self::Mapped(file, at) => (file, at),
        };
        match from {
            Source::Registered(pieces) => file.write_from(at, pieces),
            Source::Bytes(bytes) => file.write(at, bytes),
        }
        .map_err(fault)?;
        Ok(length)
    }

    fn read(&self, to: &[ApplicationMemory], length: u64) -> Result<u64> {
        match *self {
            Self::Process(process, address) => moved(process.read(to, address)?),
            Self::Mapped(file, at) => {
                file.read_into(at, to).map_err(fault)?;
                Ok(length)
            }
        }
    }
}

fn moved(bytes: usize) -> Result<u64> {
    u64::try_from(bytes).map_err(fault)
}

/// The peer's gate and key that were used last, and the key's memory once that is mapped here.
pub struct Recent {
    shown: Shown,
    uses: u32,
    mapped: Option<Mapped>,
}

/// So often a key is used in succession before its memory is looked for, which takes the time of many
/// uses.
const USES: u32 = 8;

impl Recent {
    /// What a peer shows of a gate and a key, read only where it has changed since it was used last.
    #[inline]
    fn look<'a>(
        recent: &'a mut Option<Self>,
        segment: &Segment,
        (index, rkey): (u32, u32),
    ) -> Option<&'a mut Self> {
        let current =
            |known: &Self| known.shown.is_of(index, rkey) && segment.still_shows(&known.shown);
        if !recent.as_ref().is_some_and(current) {
            Self::read(recent, segment.shown(index, rkey)?);
        }
        recent.as_mut()
    }

    #[inline(never)]
    fn read(recent: &mut Option<Self>, shown: Shown) {
        let kept = recent.take().filter(|known| known.shown.has_key_of(&shown));
        *recent = Some(match kept {
            Some(known) => Self { shown, ..known },
            None => Self {
                shown,
                uses: 0,
                mapped: None,
            },
        });
    }

    /// Notes a use; answers the mapping of the key's memory, if there is one.
    #[inline]
    fn mapped(&mut self, pid: Pid) -> Option<&Mapped> {
        if self.uses < USES {
            self.uses += 1;
            if self.uses == USES {
                let key = &self.shown.key;
                self.mapped = Mapped::find(pid, key.address, key.length);
            }
        }
        self.mapped.as_ref()
    }
}

impl Core {
    /// Carries a request out, and completes it; `None`, and nothing is done, if it has to go the
    /// ordinary way. `budget` is what the call may still move.
    pub(super) fn one_sided<'a>(
        &self,
        inner: &mut Inner,
        given: &impl SendView<'a, Context>,
        budget: &mut u64,
    ) -> Option<()> {
        if inner.reach.is_none() || self.service() != Service::Rc {
            return None;
        }
        let asked = Asked::new(self, given)?;
        let idle = inner.engine.may_send_past() && !inner.bypass.is_busy();
        if !idle || asked.length == 0 || asked.length > *budget {
            return None;
        }
        if asked.right == Right::Read && !self.may_read(inner) {
            return None;
        }
        self.carry_out(inner, &asked)?;
        *budget -= asked.length;
        let (counted, told) = match asked.right {
            Right::Write => (CompletionOpcode::Write, IBV_WC_RDMA_WRITE),
            Right::Read => (CompletionOpcode::Read, IBV_WC_RDMA_READ),
        };
        let length = u32::try_from(asked.length).ok()?;
        inner.counting.succeeded(counted, length);
        if given.flags() & IBV_SEND_SIGNALED != 0 || inner.engine.config().sq_sig_all {
            let wc = success(given.id(), told, length, self.number);
            self.push_success(self.parts.send_cq.as_ref(), wc, false);
        }
        Some(())
    }

    /// Whether a read may be carried out now: it sees what messages before it have brought, so they must have
    /// been taken in.
    fn may_read(&self, inner: &Inner) -> bool {
        let peer = inner.peer.as_ref();
        let is_behind = peer.is_some_and(|peer| inner.permit.is_ahead(peer));
        inner.engine.attributes().max_rd_atomic > 0 && !is_behind
    }

    fn carry_out(&self, inner: &mut Inner, asked: &Asked<'_>) -> Option<()> {
        let moved = match &asked.data {
            Data::Inline(inline) => {
                let bytes = inline.only()?;
                self.reach(inner, asked, |way| {
                    way.write(Source::Bytes(bytes), asked.length)
                })?
            }
            Data::Sges(list) => {
                let mut sges = [Sge::default(); MOST];
                for (place, given) in sges.iter_mut().zip(*list) {
                    *place = piece(given);
                }
                let sges = sges.get(..list.len())?;
                // Locks of this process first, then what the peer waits for: see `Writing`.
                let keys = self.keys();
                let inner = &mut *inner;
                keys.lend(self.pd, sges, asked.local_access(), |memory| {
                    self.reach(inner, asked, |way| match asked.right {
                        Right::Write => way.write(Source::Registered(memory), asked.length),
                        Right::Read => way.read(memory, asked.length),
                    })
                })?
            }
        };
        // Part of it: the memory was taken away by the application that registered it. The ordinary
        // way begins anew, and finds the same.
        (moved == asked.length).then_some(())
    }

    /// Calls with the way to the peer's memory while that stays what it is.
    fn reach(
        &self,
        inner: &mut Inner,
        asked: &Asked<'_>,
        call: impl FnOnce(&Way<'_>) -> Result<u64>,
    ) -> Option<u64> {
        let process = inner.reach?;
        let peer = inner.peer.as_ref().filter(|peer| !peer.is_gone())?;
        // `None` in a forked child, which has nothing to say here.
        let directory = self.node().directory()?;
        let attributes = inner.engine.attributes();
        let theirs = attributes.dest_qp_num;
        let index = theirs & INDEX;
        let claim =
            directory
                .claims()
                .claim(directory.segment(), peer.slot(), index, asked.rkey >> 8)?;
        let recent = Recent::look(&mut inner.recent, peer.segment(), (index, asked.rkey))?;
        let Shown { gate, key, .. } = &recent.shown;
        let ours = gate.peer == self.number
            && gate.generation == directory.generation()
            && (gate.pkey ^ attributes.pkey) & 0x7fff == 0
            && (gate.pkey | attributes.pkey) & 0x8000 != 0;
        if !ours || !gate.admits(asked.right) {
            return None;
        }
        if gate.awaits_use && !inner.told_use {
            directory.tell_used(peer.slot(), index).ok()?;
            inner.told_use = true;
        }
        let range = (asked.address, asked.length);
        let address = key.place(gate.pd, theirs, asked.remote_access(), range)?;
        let mapped = recent.mapped(peer.pid());
        let way = match mapped.and_then(|mapped| mapped.place(address, asked.length)) {
            Some((file, at)) => Way::Mapped(file, at),
            None => Way::Process(process, address),
        };
        let done = call(&way);
        drop(claim);
        if done.is_err_and(forbids) {
            inner.reach = None;
        }
        done.ok()
    }

    /// Shows the peer what it may do here by itself, if that has changed; what it is doing by what is
    /// taken away is waited for.
    pub(super) fn mind_gate(&self, inner: &mut Inner) {
        let gate = self.gate(inner);
        if gate == inner.gate {
            return;
        }
        let Some(directory) = self.node().directory() else {
            return;
        };
        let index = self.number & INDEX;
        if gate.is_some_and(|gate| gate.credits) {
            inner.engine.keep_receives();
            self.show_credit(inner, directory);
        }
        directory.segment().show_gate(index, gate);
        let rights = |gate: Option<Gate>| {
            gate.map(|gate| Gate {
                awaits_use: false,
                credits: false,
                ..gate
            })
        };
        if inner.gate.is_some() && rights(inner.gate) != rights(gate) {
            directory.wait_for_gate(index);
        }
        inner.gate = gate;
    }

    fn gate(&self, inner: &Inner) -> Option<Gate> {
        let peer = inner.peer.as_ref()?;
        if self.service() != Service::Rc || !inner.engine.state().receives() || inner.closing {
            return None;
        }
        let attributes = inner.engine.attributes();
        let access = attributes.access;
        Some(Gate {
            peer: attributes.dest_qp_num,
            generation: peer.generation(),
            pd: self.pd.number(),
            pkey: attributes.pkey,
            write: access.write,
            read: access.read && attributes.max_dest_rd_atomic > 0,
            awaits_use: inner.engine.awaits_use(),
            credits: self.offers(inner),
        })
    }
}

/// Whether the kernel says that the process may not be looked into: because of another user namespace,
/// a security module, or a filter of system calls.
fn forbids(error: Errno) -> bool {
    matches!(error, Errno::PERM | Errno::NOSYS) || error == Errno(libc::EACCES)
}
