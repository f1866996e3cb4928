//! RDMA writes and reads that the initiator carries out by itself, in the memory of a process of
//! this host.
//!
//! [`OneSided`] owns the initiator's knowledge of the peer: the process, the gate and the key that
//! were read last, and whether the peer was informed that its connection is used.
//!
//! *Invariants.* A request takes this path only when all requests before it are complete, and is
//! itself complete when the call returns, so order is kept. Nothing of the connection's packets
//! changes, so both paths may take turns. Only the case without an error is handled here: in all
//! other cases nothing is done, and the request takes the protocol path, which finds and reports
//! the error.
//!
//! *Locks.* Under the queue pair's lock. The keys of local memory are locked before the claim is
//! made, so a thread that waits for claims never waits for one that waits for those keys.
//!
//! *Where the kernel forbids it* (EPERM: another user namespace, Yama; ENOSYS: a filter of system
//! calls), the queue pair uses packets from then on.
//!
//! *Tests.* Here: which requests qualify. `providers/uroce/tests/onesided.rs`: all operations
//! between processes, errors, deregistering. `unmapped.rs`: partial copies.

use super::super::connection::Connection;
use super::super::requests;
use super::super::resources::Resources;
use super::eager_send::EagerSender;
use crate::carrier::qpn;
use crate::carrier::shm::{MappedRegion, Peer, PeerSegment, Right, Shown, WORTHWHILE};
use crate::clock;
use crate::cq::success;
use crate::memory::piece;
use crate::objects::Objects;
use bytemuck::Zeroable;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{Data, SendView};
use kit::sys::application::ApplicationMemory;
use kit::sys::other_process::{MOST, OtherProcess, Range, Source};
use std::sync::{Arc, Weak};
use uroce_engine::host::LocalAccess;
use uroce_engine::qp::Service;
use uroce_engine::work::{CompletionOpcode, Request, Sge, WorkRequest};

/// Bytes that one call of a verb moves directly, if its first request is not longer, and those that
/// one system call moves.
pub const MOST_BYTES: u64 = 4 << 20;
/// Bytes of the longest request that is carried out directly, in parts. Still longer ones go by
/// packets, which do not block the caller: this many take about 10 ms.
const LONGEST: u64 = 64 << 20;

/// A request that could take this path.
struct OneSidedRequest<'a> {
    right: Right,
    data: Data<'a>,
    address: u64,
    rkey: u32,
    length: u64,
    /// The application posts it now, so that its memory may be used by plain loads and stores.
    is_posted: bool,
}

impl<'a> OneSidedRequest<'a> {
    #[inline]
    fn new<P: Objects>(cap: &ibv_qp_cap, given: &impl SendView<'a, P>) -> Option<Self> {
        let right = match given.opcode() {
            IBV_WR_RDMA_WRITE => Right::Write,
            IBV_WR_RDMA_READ => Right::Read,
            _ => return None,
        };
        let data = given.data().ok()?;
        let length = match &data {
            Data::Sges(list) => {
                let most = usize::try_from(cap.max_send_sge).ok()?;
                if list.len() > most.min(MOST) {
                    return None;
                }
                list.iter().map(|sge| u64::from(sge.length)).sum()
            }
            Data::Inline(inline) if right == Right::Write => {
                let length = inline.only()?.len();
                if length > usize::try_from(cap.max_inline_data).ok()? {
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
            is_posted: true,
        })
    }

    /// That of a request which the protocol has; `sges` is room for its pieces.
    fn of_protocol(wr: &'a WorkRequest, sges: &'a mut [ibv_sge; MOST]) -> Option<Self> {
        let (right, remote) = match wr.request {
            Request::Write(remote) => (Right::Write, remote),
            Request::Read(remote) => (Right::Read, remote),
            _ => return None,
        };
        Some(Self {
            right,
            data: requests::given(&wr.data, sges)?,
            address: remote.address,
            rkey: remote.rkey,
            length: wr.data.length()?.into(),
            is_posted: false,
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

/// Whether the initiator may be able to carry a request out by itself.
pub fn may_be_one_sided(wr: &WorkRequest) -> bool {
    let is_one_sided = matches!(wr.request, Request::Write(_) | Request::Read(_));
    let length = wr.data.length().map(u64::from);
    is_one_sided && length.is_some_and(|length| (1..=LONGEST).contains(&length))
}

/// Whether a request may be carried out by a call that may still move `budget` bytes. A long one
/// has to be the first.
fn fits(length: u64, budget: u64) -> bool {
    length <= budget || length <= LONGEST && budget >= MOST_BYTES
}

/// The part of pieces that begins after `offset` bytes and has at most [`MOST_BYTES`]; returns how
/// many pieces it has.
fn part(pieces: &[Sge], offset: u64, room: &mut [Sge; MOST]) -> usize {
    let (mut skipped, mut left) = (offset, MOST_BYTES);
    let mut rest = pieces.iter().filter_map(|piece| {
        let length = u64::from(piece.length);
        let skips = skipped.min(length);
        skipped -= skips;
        let taken = (length - skips).min(left);
        left -= taken;
        let length = u32::try_from(taken).ok().filter(|length| *length > 0)?;
        let address = piece.address.wrapping_add(skips);
        Some(Sge {
            address,
            length,
            ..*piece
        })
    });
    let places = room.iter_mut().zip(&mut rest);
    places.map(|(place, piece)| *place = piece).count()
}

/// The memory of the peer, and where in it.
enum Target<'a> {
    /// That of the process, by the kernel.
    Process(OtherProcess, &'a Range),
    /// A region that is mapped here, and an address there.
    Mapped(&'a MappedRegion, u64),
}

impl Target<'_> {
    fn write(&self, from: Source<'_>) -> Result<u64> {
        moved(match self {
            Self::Process(process, range) => process.write(from, range),
            Self::Mapped(region, address) => region.write(*address, from),
        }?)
    }

    fn read(&self, to: &[ApplicationMemory]) -> Result<u64> {
        moved(match self {
            Self::Process(process, range) => process.read(to, range),
            Self::Mapped(region, address) => region.read(*address, to),
        }?)
    }
}

/// A range of a request that one copy moves.
#[derive(Clone, Copy)]
struct Part {
    /// Where it begins in the request.
    offset: u64,
    length: u64,
    /// Whether local memory may be used by plain loads and stores.
    plain: bool,
}

fn moved(bytes: usize) -> Result<u64> {
    u64::try_from(bytes).map_err(|_| Errno(libc::EFAULT))
}

/// A gate and a key of a peer, read only if they have changed since their last use.
#[inline]
fn look<'a>(
    cached: &'a mut Option<Shown>,
    segment: &PeerSegment,
    (index, rkey): (u32, u32),
) -> Option<&'a Shown> {
    let current = |known: &Shown| known.is_of(index, rkey) && segment.still_shows(known);
    if !cached.as_ref().is_some_and(current) {
        *cached = Some(segment.shown(index, rkey)?);
    }
    cached.as_ref()
}

/// The initiator's knowledge of the peer.
#[derive(Default)]
pub(super) struct OneSided {
    /// The peer's process, if its memory can be used from here.
    process: Option<OtherProcess>,
    /// The peer's gate and key that were used last.
    cached: Option<Shown>,
    /// The peer was informed that its connection is used.
    reported_use: bool,
    /// The peer's region that was mapped last.
    mapped: Weak<MappedRegion>,
    /// How often the kernel has copied since a region was asked for.
    copies: u32,
}

impl OneSided {
    /// The peer's memory can be used from now on, if the kernel lets it.
    pub fn use_link(&mut self, peer: &Peer) {
        self.process = OtherProcess::new(peer.pid()).ok();
        self.mapped = Weak::new();
    }

    /// Executes a request, and completes it; `None`, without any effect, if it has to take the
    /// protocol path. `budget` is the number of bytes that the call may still move.
    #[inline]
    pub fn post<'a, P: Objects>(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        sender: &EagerSender,
        given: &impl SendView<'a, P>,
        budget: &mut u64,
    ) -> Option<()> {
        if self.process.is_none() || qp.service() != Service::Rc {
            return None;
        }
        let request = OneSidedRequest::new(qp.cap(), given)?;
        let signaled = given.flags() & IBV_SEND_SIGNALED != 0 || qp.sq_sig_all();
        let completion = (given.id(), signaled);
        self.execute(connection, qp, sender, &request, completion, budget)
    }

    /// The same for a request that the protocol had.
    pub fn retry(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        sender: &EagerSender,
        wr: &WorkRequest,
        budget: &mut u64,
    ) -> Option<()> {
        if self.process.is_none() || qp.service() != Service::Rc {
            return None;
        }
        let mut sges = [ibv_sge::zeroed(); MOST];
        let request = OneSidedRequest::of_protocol(wr, &mut sges)?;
        let completion = (wr.id, wr.signaled || qp.sq_sig_all());
        self.execute(connection, qp, sender, &request, completion, budget)
    }

    #[inline]
    fn execute(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        sender: &EagerSender,
        request: &OneSidedRequest<'_>,
        (id, signaled): (u64, bool),
        budget: &mut u64,
    ) -> Option<()> {
        let idle = connection.engine().may_take_fast_path() && !sender.is_busy();
        if !idle || request.length == 0 || !fits(request.length, *budget) {
            return None;
        }
        if !connection.requests_by_link(qp, clock::now) {
            return None;
        }
        if request.right == Right::Read && !may_read(connection, sender) {
            return None;
        }
        self.carry_out(connection, qp, request)?;
        *budget = budget.saturating_sub(request.length);
        let (counted, reported) = match request.right {
            Right::Write => (CompletionOpcode::Write, IBV_WC_RDMA_WRITE),
            Right::Read => (CompletionOpcode::Read, IBV_WC_RDMA_READ),
        };
        let length = u32::try_from(request.length).ok()?;
        connection.counting().succeeded(counted, length);
        if signaled {
            qp.push_sent(success(id, reported, length, qp.number));
        }
        Some(())
    }

    fn carry_out(
        &mut self,
        connection: &Connection,
        qp: &Resources,
        request: &OneSidedRequest<'_>,
    ) -> Option<()> {
        match &request.data {
            Data::Inline(inline) => {
                let bytes = inline.only()?;
                let write = |target: &Target<'_>| target.write(Source::Bytes(bytes));
                let all = Part {
                    offset: 0,
                    length: request.length,
                    plain: request.is_posted,
                };
                self.reach(connection, qp, request, all, write)
            }
            Data::Sges(list) => {
                let mut sges = [Sge::default(); MOST];
                for (place, given) in sges.iter_mut().zip(*list) {
                    *place = piece(given);
                }
                let sges = sges.get(..list.len())?;
                if request.length > MOST_BYTES {
                    return self.move_in_parts(connection, qp, request, sges);
                }
                let range = (0, request.length);
                self.move_pieces(connection, qp, request, range, sges)
            }
        }
    }

    /// Moves the bytes of a long request from or to pieces, a part by each system call. A process
    /// that takes memory away waits for one of them at most.
    #[cold]
    fn move_in_parts(
        &mut self,
        connection: &Connection,
        qp: &Resources,
        request: &OneSidedRequest<'_>,
        pieces: &[Sge],
    ) -> Option<()> {
        let mut moved = 0;
        while moved < request.length {
            let mut room = [Sge::default(); MOST];
            let count = part(pieces, moved, &mut room);
            let part = room.get(..count)?;
            let length = MOST_BYTES.min(request.length - moved);
            self.move_pieces(connection, qp, request, (moved, length), part)?;
            moved += length;
        }
        Some(())
    }

    /// Moves the bytes of a range of the request, an offset and a length, from or to pieces.
    #[inline]
    fn move_pieces(
        &mut self,
        connection: &Connection,
        qp: &Resources,
        request: &OneSidedRequest<'_>,
        (offset, length): (u64, u64),
        pieces: &[Sge],
    ) -> Option<()> {
        // Locks of this process first, then the locks that the peer waits for.
        let access = request.local_access();
        let reach = |memory: &[ApplicationMemory], is_pinned| {
            let part = Part {
                offset,
                length,
                plain: is_pinned && request.is_posted,
            };
            self.reach(connection, qp, request, part, |target| {
                match request.right {
                    Right::Write => target.write(Source::Registered(memory)),
                    Right::Read => target.read(memory),
                }
            })
        };
        qp.keys().with_pieces(qp.pd(), pieces, access, reach)
    }

    /// Calls a function with the peer's memory of a range of the request while that is unchanged;
    /// `None` if it did not move all bytes. The request's whole range has to be accessible, so that
    /// nothing is written of one that is refused.
    fn reach(
        &mut self,
        connection: &Connection,
        qp: &Resources,
        request: &OneSidedRequest<'_>,
        part: Part,
        call: impl FnOnce(&Target<'_>) -> Result<u64>,
    ) -> Option<()> {
        let process = self.process?;
        let peer = connection.live_peer()?;
        // `None` in a forked child, whose peers are the parent's.
        let directory = qp.node().directory()?;
        let attributes = connection.engine().attributes();
        let theirs = attributes.dest_qp_num;
        let index = qpn::index_of(theirs);
        let region = part.plain.then(|| self.region_of(request.rkey)).flatten();
        let copy = (part.length, region.is_some());
        let what = (index, request.rkey >> 8);
        let claim = peer.claim(directory.generation(), what, copy)?;
        let shown = *look(&mut self.cached, peer.segment(), (index, request.rkey))?;
        // The key may be another region's by now.
        let region = region.filter(|region| region.is_of(&shown));
        let Shown { gate, key, .. } = shown;
        let ours = gate.peer == qp.number
            && gate.generation == directory.generation()
            && (gate.pkey ^ attributes.pkey) & 0x7fff == 0
            && (gate.pkey | attributes.pkey) & 0x8000 != 0;
        if !ours || !gate.admits(request.right) {
            return None;
        }
        if gate.awaits_use && !self.reported_use {
            directory.report_used(peer.slot(), index).ok()?;
            self.reported_use = true;
        }
        let whole = (request.address, request.length);
        let address = key
            .place(gate.pd, theirs, request.remote_access(), whole)?
            .checked_add(part.offset)?;
        if !peer.has_its_number() {
            return None;
        }
        let done = match &region {
            Some(region) => call(&Target::Mapped(region, address)),
            None => call(&Target::Process(process, claim.range(address))),
        };
        drop(claim);
        // The bytes are another process's, or may be: the protocol finds that the peer is gone.
        if done.is_ok() && !peer.has_its_number() {
            return None;
        }
        if done.is_err_and(forbids) {
            self.process = None;
        }
        let moved = done.ok()?;
        if region.is_none() {
            self.map_if_worthwhile(peer, qp, &shown);
        }
        // Part of it, or nothing: the memory was taken away, by the application that registered it
        // or as it was deregistered. The protocol path begins anew, and finds the same.
        (moved == part.length).then_some(())
    }

    /// The region of a key, if it was mapped last.
    #[inline]
    fn region_of(&self, rkey: u32) -> Option<Arc<MappedRegion>> {
        let region = self.mapped.upgrade()?;
        (region.rkey() == rkey).then_some(region)
    }

    /// The kernel has copied once more for a key, whose region may be one that can be mapped.
    #[inline]
    fn map_if_worthwhile(&mut self, peer: &Peer, qp: &Resources, shown: &Shown) {
        self.copies += 1;
        if self.copies >= WORTHWHILE {
            self.copies = 0;
            self.map(peer, qp, shown);
        }
    }

    #[cold]
    fn map(&mut self, peer: &Peer, qp: &Resources, shown: &Shown) {
        if let Some((region, is_new)) = peer.mapped_region(shown) {
            self.mapped = Arc::downgrade(&region);
            if is_new {
                qp.node().mapped_region(clock::now());
            }
        }
    }
}

/// Whether a read may be executed now: it has to see the data of earlier messages, so they must
/// have been received.
fn may_read(connection: &Connection, sender: &EagerSender) -> bool {
    let is_behind = |peer: &Arc<Peer>| sender.window().is_ahead(peer);
    !connection.peer().is_some_and(is_behind)
}

/// Whether the kernel denies access to the process: because of another user namespace, a security
/// module, or a filter of system calls.
fn forbids(error: Errno) -> bool {
    matches!(error, Errno::PERM | Errno::NOSYS) || error == Errno(libc::EACCES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use kit::provider::Inline;
    use kit::provider::SendRequest;

    fn cap() -> ibv_qp_cap {
        let mut cap = ibv_qp_cap::zeroed();
        cap.max_send_sge = 2;
        cap.max_inline_data = 8;
        cap
    }

    fn qualifies(opcode: ibv_wr_opcode, data: Data<'_>) -> Option<(Right, u64)> {
        let mut given = SendRequest::<Context>::new(1, opcode, 0);
        given.data = data;
        let request = OneSidedRequest::new(&cap(), &given)?;
        Some((request.right, request.length))
    }

    #[test]
    fn writes_and_reads_within_the_sizes_qualify() {
        let piece = |length| ibv_sge {
            addr: 0,
            length,
            lkey: 0,
        };
        let pieces = [piece(u32::MAX), piece(3), piece(1)];
        let two = Data::Sges(&pieces[..2]);
        let sum = u64::from(u32::MAX) + 3;
        assert_eq!(qualifies(IBV_WR_RDMA_WRITE, two), Some((Right::Write, sum)));
        assert_eq!(qualifies(IBV_WR_RDMA_READ, two), Some((Right::Read, sum)));
        assert_eq!(qualifies(IBV_WR_RDMA_WRITE, Data::Sges(&pieces)), None);
        assert_eq!(qualifies(IBV_WR_SEND, two), None);
        assert_eq!(qualifies(IBV_WR_RDMA_WRITE_WITH_IMM, two), None);
    }

    #[test]
    fn inline_data_qualifies_for_writes_only() {
        let inline = |bytes| Data::Inline(Inline::Bytes(bytes));
        let eight = qualifies(IBV_WR_RDMA_WRITE, inline(&[0; 8]));
        assert_eq!(eight, Some((Right::Write, 8)));
        assert_eq!(qualifies(IBV_WR_RDMA_WRITE, inline(&[0; 9])), None);
        assert_eq!(qualifies(IBV_WR_RDMA_READ, inline(&[0; 8])), None);
    }

    #[test]
    fn a_long_request_has_to_be_the_first_of_a_call() {
        assert!(fits(MOST_BYTES, MOST_BYTES) && fits(5, 5) && !fits(5, 4));
        assert!(fits(LONGEST, MOST_BYTES) && !fits(LONGEST, MOST_BYTES - 1));
        assert!(!fits(LONGEST + 1, MOST_BYTES));
    }

    #[test]
    fn parts_are_the_whole() {
        let sge = |address, length| Sge {
            address,
            length,
            lkey: 7,
        };
        let most = u32::try_from(MOST_BYTES).expect("32 bits");
        let pieces = [sge(100, 3), sge(9, 0), sge(1 << 32, 2 * most), sge(7, 5)];
        let parts = |offset| {
            let mut room = [Sge::default(); MOST];
            let count = part(&pieces, offset, &mut room);
            room[..count].to_vec()
        };
        assert_eq!(parts(0), [sge(100, 3), sge(1 << 32, most - 3)]);
        let second = (1 << 32) + MOST_BYTES - 3;
        assert_eq!(parts(MOST_BYTES), [sge(second, most)]);
        assert_eq!(
            parts(2 * MOST_BYTES),
            [sge(second + MOST_BYTES, 3), sge(7, 5)]
        );
    }

    #[test]
    fn only_errors_of_permission_end_the_path() {
        for error in [Errno::PERM, Errno::NOSYS, Errno(libc::EACCES)] {
            assert!(forbids(error));
        }
        for error in [libc::EFAULT, libc::ESRCH, libc::ENOMEM] {
            assert!(!forbids(Errno(error)));
        }
    }
}
