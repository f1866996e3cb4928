//! The next packet of the send queue.

use super::batching::SHORT;
use super::congestion::Window;
use super::cut::Cut;
use super::responses::MOST_PACKETS as OF_REQUEST;
use super::{Entry, Pending, Requester};
use crate::host::{Host, LocalAccess};
use crate::outgoing::{Gather, Origin, Outgoing, Payload};
use crate::qp::{Attributes, Service};
use crate::responder::MOST_PACKETS;
use crate::timer::Time;
use crate::wire::{
    AtomicEth, Bth, Deth, Feth, Headers, Ieth, Opcode, Operation, Position, Reth, XrcEth, imm_dt,
    pad_of, reth,
};
use crate::work::{Data, Request, Status};

/// No more than this many PSNs are in use: half of the circle is the specification's limit.
const MAX_PSNS: u32 = (1 << 23) - 1;
/// At least one packet in this many asks for an acknowledgement.
const ACK_EVERY: u32 = 16;

/// The parts of the queue pair that the requester needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub now: Time,
    pub service: Service,
    pub number: u32,
    pub attributes: &'a Attributes,
    /// SQD: no request may begin.
    pub draining: bool,
    /// No request may begin once the last packet asks for an acknowledgement.
    pub pausing: bool,
    /// The host lets short requests wait for others.
    pub batching: bool,
}

/// The part of a message that a packet carries or asks for.
struct Part {
    /// The place of the entry.
    entry: usize,
    /// Packets of the message before it.
    offset: u32,
    /// Number of packets: 1 for a sent packet, all for a requested response.
    packets: u32,
}

/// The action for the entry at the cursor.
enum Step {
    Send,
    Skip,
    Wait,
    /// Wait until fewer packets are in flight.
    Full,
}

impl Requester {
    /// Moves to the next packet that may be sent now, and executes local operations before it.
    /// `false` if there is none.
    pub(crate) fn prepare(&mut self, context: &Context<'_>, host: &mut impl Host) -> bool {
        if self.rnr_wait.is_some() {
            return false;
        }
        if context.service.reliable() && !self.queue.is_empty() {
            self.begin_path(context.attributes);
        }
        if self.next_missing().is_some() || self.next_repeated().is_some() {
            return true;
        }
        loop {
            match self.step(context, host) {
                Step::Wait => return false,
                Step::Full => {
                    self.window_limits();
                    return false;
                }
                Step::Skip => self.advance(),
                Step::Send => return true,
            }
        }
    }

    /// The packet that [`Requester::prepare`] moved to.
    pub(crate) fn emit(&mut self, context: &Context<'_>) -> Option<Outgoing<'_>> {
        let missing = self.next_missing();
        let mut repeated = false;
        let part = if let Some((entry, offset)) = missing {
            Part {
                entry,
                offset,
                packets: 1,
            }
        } else if let Some(pending) = self.next_repeated() {
            repeated = true;
            self.repeat(pending, context)?
        } else {
            self.account(context)?
        };
        let reliable = context.service.reliable();
        if reliable {
            self.wait_for_answer(context);
        }
        let ack_request = missing.is_some() || reliable && self.wants_ack(context, &part);
        if ack_request {
            self.since_ack_request = 0;
        }
        let first = self.queue.get(part.entry)?.start.plus(part.offset);
        if missing.is_some() {
            self.note_sent_again(first);
        } else if reliable {
            let now = self.latest(context.now);
            let asks = ack_request.then_some(now);
            self.note_sent(first, part.packets, asks, repeated);
        }
        let offers = self.offers_reports() && context.service == Service::Rc;
        let equal = offers && self.may_equalize();
        let entry = self.queue.get(part.entry)?;
        let equal = equal || entry.cut != Cut::default();
        let mut packet = packet(entry, &part, ack_request, context);
        packet.headers.bth.selective = offers;
        packet.headers.bth.equal = equal;
        fill(&mut packet, entry.cut);
        Some(packet)
    }

    /// Timers run while something is under way.
    fn wait_for_answer(&mut self, context: &Context<'_>) {
        let probes = self
            .path
            .as_ref()
            .is_some_and(|path| path.probe_timer.is_some());
        if !self.timer.is_some() && !probes {
            self.arm(context.now, context.attributes);
        }
    }

    /// The first request before the cursor whose response has to be requested again.
    fn next_repeated(&mut self) -> Option<usize> {
        let cursor = self.cursor();
        self.responses.next_lost(cursor)
    }

    /// Requests the first missing part of a response again.
    fn repeat(&mut self, index: usize, context: &Context<'_>) -> Option<Part> {
        let most = context.attributes.timeout.nanos();
        let packets = self.responses.repeat(index, context.now, most)?;
        let pending = self.responses.get(index)?;
        let (number, before) = (pending.entry, pending.offset);
        Some(Part {
            entry: self.numbered(number)?,
            offset: before + packets.start,
            packets: packets.end - packets.start,
        })
    }

    fn advance(&mut self) {
        self.next += 1;
        self.offset = 0;
    }

    fn step(&mut self, context: &Context<'_>, host: &mut impl Host) -> Step {
        let Some(entry) = self.queue.get(self.next) else {
            return Step::Wait;
        };
        if entry.failed.is_some() {
            return Step::Wait;
        }
        if entry.done || entry.sent && self.offset >= entry.packets {
            return Step::Skip;
        }
        if !entry.sent && !self.may_begin(entry, context) {
            return Step::Wait;
        }
        let fresh = !entry.sent;
        if entry.wr.request.has_response() && self.cursor() == self.next_psn {
            // Requests that were sent before have passed these checks already.
            if self.peer_is_busy(context) {
                // Its requests would be longer with a larger window.
                let rest = entry.packets.saturating_sub(self.offset).min(OF_REQUEST);
                let part = self.next_part(entry, context.attributes);
                return if part < rest { Step::Full } else { Step::Wait };
            }
            if !self.may_ask(entry, context) {
                return Step::Full;
            }
        }
        if !entry.wr.request.has_response() && !entry.wr.request.is_local() {
            if context.service.reliable() && self.is_full(entry, context) {
                return Step::Full;
            }
            // The peer keeps no more behind missing packets.
            if self.recovers() && self.cursor().since(self.taken) >= MOST_PACKETS {
                return Step::Wait;
            }
            if self.lacks_credit(entry) {
                return Step::Wait;
            }
        }
        if !fresh {
            return Step::Send;
        }
        let begun = self.begin(host);
        if matches!(begun, Step::Wait) && context.service.reliable() {
            self.probe();
        }
        begun
    }

    fn may_begin(&self, entry: &Entry, context: &Context<'_>) -> bool {
        // The acknowledgement of the packets in flight may not be due soon.
        let pauses = context.pausing && self.since_ack_request == 0;
        if context.draining || pauses || entry.wr.fence && self.responses.len() > 0 {
            return false;
        }
        self.next_psn
            .since(self.una())
            .saturating_add(entry.packets)
            <= MAX_PSNS
    }

    /// Whether the window has no room for a packet of this message.
    fn is_full(&self, entry: &Entry, context: &Context<'_>) -> bool {
        // Requests that wait for others leave together without the limit for short messages.
        let all = context.batching && entry.length <= SHORT;
        let limit = self.window().map(|window| match all {
            true => window.size(),
            false => window.before(entry.packets),
        });
        let under_way = self.flight.saturating_sub(self.arrived_early());
        limit.is_some_and(|limit| under_way >= limit)
    }

    /// Whether the peer serves as many requests as it may: `max_rd_atomic` at a time, and one for a
    /// limit of 0. ConnectX cards have no smaller limit than 1 as requester.
    fn peer_is_busy(&self, context: &Context<'_>) -> bool {
        let reads = usize::from(context.attributes.max_rd_atomic.max(1));
        self.responses.len() >= reads
    }

    /// Whether the path back has room for the next part of a response: a peer answers as fast as it
    /// can, and packets that overflow the queues of the path are lost.
    fn may_ask(&self, entry: &Entry, context: &Context<'_>) -> bool {
        let awaited = self.responses.awaited();
        let all = awaited.saturating_add(self.next_part(entry, context.attributes));
        let most = self.window().map(Window::responses);
        awaited == 0 || most.is_none_or(|most| all <= most)
    }

    /// For how many packets of a response the next request asks.
    fn next_part(&self, entry: &Entry, attributes: &Attributes) -> u32 {
        let rest = entry.packets.saturating_sub(self.offset);
        let most = self.window();
        let most = most.map(|window| window.request(attributes.max_rd_atomic));
        rest.min(most.unwrap_or(1))
    }

    /// Whether the peer is short of receive requests for this message. The first packet of the
    /// oldest one may be sent all the same, to find out (IBTA volume 1, 9.7.7.2.5).
    fn lacks_credit(&self, entry: &Entry) -> bool {
        let Some(limit) = self.limit else {
            return false;
        };
        let ssn = if entry.sent {
            entry.ssn
        } else {
            self.ssn.next()
        };
        if !entry.wr.request.takes_receive() || !limit.before(ssn) {
            return false;
        }
        if self.offset == 0 {
            self.taken != self.cursor()
        } else {
            !entry.start.before(self.taken)
        }
    }

    /// Checks a request that has not been sent, or carries out a local one.
    fn begin(&mut self, host: &mut impl Host) -> Step {
        let Some(entry) = self.queue.get_mut(self.next) else {
            return Step::Wait;
        };
        let outcome = match &entry.wr.request {
            Request::LocalInvalidate(rkey) => {
                entry.done = true;
                host.invalidate(*rkey, false).map_err(|_| Status::MwBind)
            }
            Request::Bind(what) => {
                entry.done = true;
                host.bind(*what).map_err(|_| Status::MwBind)
            }
            request => check_local(&entry.wr.data, request, host),
        };
        if let Err(status) = outcome {
            entry.done = false;
            entry.failed = Some(status);
            return Step::Wait;
        }
        if entry.done { Step::Skip } else { Step::Send }
    }

    /// Assigns PSNs and moves the cursor. Returns the packet to send.
    fn account(&mut self, context: &Context<'_>) -> Option<Part> {
        let equal = context.service == Service::Rc && self.may_equalize();
        let entry = self.queue.get_mut(self.next)?;
        if !entry.sent {
            entry.sent = true;
            entry.start = self.next_psn;
            if equal {
                let mtu = context.attributes.path_mtu.bytes();
                entry.cut(&mut self.latest_cut, mtu);
            }
            if !entry.wr.request.has_response() {
                self.ssn = self.ssn.next();
                entry.ssn = self.ssn;
                self.next_psn = entry.end();
            }
        }
        if entry.wr.request.has_response() {
            return self.ask(context);
        }
        let part = Part {
            entry: self.next,
            offset: self.offset,
            packets: 1,
        };
        let last = self.offset + 1 >= entry.packets;
        if context.service.reliable() {
            self.flight += 1;
            self.since_ack_request += 1;
        } else {
            entry.done |= last;
            self.taken = self.next_psn;
        }
        if last {
            self.advance();
        } else {
            self.offset += 1;
        }
        Some(part)
    }

    /// Asks for the part of a response that is at the cursor: one that was asked for before the
    /// cursor went back, or the next.
    fn ask(&mut self, context: &Context<'_>) -> Option<Part> {
        let psn = self.cursor();
        let index = self.responses.find(psn);
        if index.is_none() {
            let entry = self.queue.get(self.next)?;
            let packets = self.next_part(entry, context.attributes);
            let number = self.number(self.next);
            let pending = Pending::new(number, self.offset, psn, packets, context.now);
            self.responses.push(pending);
            self.next_psn = psn.plus(packets);
            // The peer counts each request as a message.
            self.ssn = self.ssn.next();
            let part = Part {
                entry: self.next,
                offset: self.offset,
                packets,
            };
            self.pass(packets);
            return Some(part);
        }
        let index = index?;
        let pending = self.responses.get(index)?;
        let rest = pending.end().since(psn);
        let part = self.repeat(index, context);
        self.pass(rest);
        part
    }

    /// Moves the cursor on, to the next entry behind the last packet.
    fn pass(&mut self, packets: u32) {
        self.since_ack_request += 1;
        self.offset += packets;
        let all = self.queue.get(self.next).map_or(0, |entry| entry.packets);
        if self.offset >= all {
            self.advance();
        }
    }

    fn wants_ack(&self, context: &Context<'_>, part: &Part) -> bool {
        let Some(entry) = self.queue.get(part.entry) else {
            return true;
        };
        let size = self.window().map_or(1, Window::size);
        let every = (size / 4).clamp(1, ACK_EVERY);
        if entry.wr.request.has_response() || self.since_ack_request >= every {
            return true;
        }
        let limited = entry.wr.request.takes_receive()
            && self.limit.is_some_and(|limit| limit.before(entry.ssn));
        if part.offset + 1 < entry.packets {
            return limited;
        }
        entry.wr.signaled || limited || self.probing || !self.follows_freely(context)
    }

    /// Whether the entry at the cursor will be sent without anything else happening first.
    fn follows_freely(&self, context: &Context<'_>) -> bool {
        let Some(entry) = self.queue.get(self.next) else {
            return false;
        };
        let plain = !entry.wr.fence
            && !entry.wr.request.has_response()
            && !entry.wr.request.is_local()
            && entry.failed.is_none();
        plain && !context.draining && !context.pausing && self.limit.is_none()
    }
}

fn check_local(data: &Data, request: &Request, host: &mut impl Host) -> Result<(), Status> {
    let Data::Sges(sges) = data else {
        return Ok(());
    };
    let access = if request.has_response() {
        LocalAccess::Write
    } else {
        LocalAccess::Read
    };
    host.check_local(sges, access).map_err(|_| Status::LocProt)
}

fn operation(request: &Request, position: Position) -> Operation {
    match (request, position) {
        (Request::Write(_) | Request::WriteImm(..), Position::First) => Operation::WriteFirst,
        (Request::Write(_) | Request::WriteImm(..), Position::Middle) => Operation::WriteMiddle,
        (Request::Write(_), Position::Last) => Operation::WriteLast,
        (Request::Write(_), Position::Only) => Operation::WriteOnly,
        (Request::WriteImm(..), Position::Last) => Operation::WriteLastImm,
        (Request::WriteImm(..), Position::Only) => Operation::WriteOnlyImm,
        (Request::Read(_), _) => Operation::ReadRequest,
        (Request::CompareSwap { .. }, _) => Operation::CompareSwap,
        (Request::FetchAdd { .. }, _) => Operation::FetchAdd,
        (Request::AtomicWrite(..), _) => Operation::AtomicWrite,
        (Request::Flush { .. }, _) => Operation::Flush,
        (_, Position::First) => Operation::SendFirst,
        (_, Position::Middle) => Operation::SendMiddle,
        (Request::SendImm(_), Position::Last) => Operation::SendLastImm,
        (Request::SendImm(_), Position::Only) => Operation::SendOnlyImm,
        (Request::SendInvalidate(_), Position::Last) => Operation::SendLastInvalidate,
        (Request::SendInvalidate(_), Position::Only) => Operation::SendOnlyInvalidate,
        (_, Position::Last) => Operation::SendLast,
        (_, Position::Only) => Operation::SendOnly,
    }
}

fn packet<'e>(
    entry: &'e Entry,
    part: &Part,
    ack_request: bool,
    context: &Context<'_>,
) -> Outgoing<'e> {
    let mtu = context.attributes.path_mtu.bytes();
    let offset = part.offset;
    let carries = !entry.wr.request.has_response();
    let position = if carries {
        Position::of(offset == 0, offset + 1 >= entry.packets)
    } else {
        Position::Only
    };
    let (skip, length) = entry.part(offset, mtu);
    let most = part.packets.saturating_mul(mtu);
    let payload = payload(entry, skip, length);
    let psn = entry.start.plus(offset);
    let bth = Bth {
        opcode: 0,
        solicited: entry.wr.solicited && position.ends() && entry.wr.request.takes_receive(),
        migrated: true,
        pad: pad_of(usize::try_from(payload.length()).unwrap_or(0)),
        pkey: context.attributes.pkey,
        fecn: false,
        becn: false,
        destination: destination(entry, context),
        ack_request,
        selective: false,
        piggyback: false,
        equal: false,
        filled: false,
        psn,
    };
    let mut headers = Headers::new(opcode(entry, position, context.service), bth);
    extend(&mut headers, entry, (skip, most), context);
    Outgoing {
        headers,
        payload,
        address: entry.wr.destination.map(|destination| destination.address),
        origin: Origin::Request(psn),
    }
}

/// Makes a packet as long as the others of its message.
fn fill(packet: &mut Outgoing<'_>, cut: Cut) {
    if cut == Cut::default() {
        return;
    }
    let has = packet.headers.opcode.extensions();
    let reth = if has.reth { reth::LEN } else { 0 };
    let last = if has.imm_dt || has.ieth {
        imm_dt::LEN
    } else {
        0
    };
    let headers = u32::try_from(reth + last).unwrap_or(0);
    let payload = packet.payload.length() + u32::from(packet.headers.bth.pad);
    packet.headers.fill(cut.lacks(headers + payload));
}

fn opcode(entry: &Entry, position: Position, service: Service) -> Opcode {
    let transport = service.transport();
    let operation = operation(&entry.wr.request, position);
    // Requests that the service lacks are refused when they are posted.
    Opcode::new(transport, operation).unwrap_or(Opcode::SEND_ONLY)
}

fn destination(entry: &Entry, context: &Context<'_>) -> u32 {
    match entry.wr.destination {
        Some(destination) => destination.qpn,
        None => context.attributes.dest_qp_num,
    }
}

fn payload(entry: &Entry, skip: u32, length: u32) -> Payload<'_> {
    match &entry.wr.request {
        Request::AtomicWrite(_, value) => return Payload::Bytes(value),
        request if request.has_response() => return Payload::Bytes(&[]),
        _ => {}
    }
    match &entry.wr.data {
        Data::Sges(sges) => Payload::Local(Gather::new(sges, u64::from(skip), length)),
        Data::Inline(bytes) => {
            let from = usize::try_from(skip).unwrap_or(usize::MAX);
            let to = from.saturating_add(usize::try_from(length).unwrap_or(0));
            Payload::Bytes(bytes.get(from..to).unwrap_or_default())
        }
    }
}

/// Fills in the extension headers; a read asks for at most so many bytes from so many on.
fn extend(headers: &mut Headers, entry: &Entry, (skip, most): (u32, u32), context: &Context<'_>) {
    let has = headers.opcode.extensions();
    headers.xrceth = has.xrceth.then_some(XrcEth {
        srqn: entry.wr.srqn,
    });
    if let Some(destination) = entry.wr.destination {
        let own = destination.qkey >> 31 != 0;
        headers.deth = Some(Deth {
            qkey: if own {
                context.attributes.qkey
            } else {
                destination.qkey
            },
            source: context.number,
        });
    }
    let reth = |address: u64, rkey, length| Reth {
        address,
        rkey,
        length,
    };
    match &entry.wr.request {
        Request::Write(remote) if has.reth => {
            headers.reth = Some(reth(remote.address, remote.rkey, entry.length));
        }
        Request::WriteImm(remote, immediate) => {
            headers.reth = has
                .reth
                .then_some(reth(remote.address, remote.rkey, entry.length));
            headers.imm_dt = has.imm_dt.then_some(*immediate);
        }
        Request::SendImm(immediate) => headers.imm_dt = has.imm_dt.then_some(*immediate),
        Request::SendInvalidate(rkey) => {
            headers.ieth = has.ieth.then_some(Ieth { rkey: *rkey });
        }
        Request::Read(remote) => {
            let address = remote.address.wrapping_add(u64::from(skip));
            let length = entry.length.saturating_sub(skip).min(most);
            headers.reth = Some(reth(address, remote.rkey, length));
        }
        Request::AtomicWrite(remote, _) => {
            headers.reth = Some(reth(remote.address, remote.rkey, 8));
        }
        Request::Flush {
            remote,
            length,
            placement,
            selectivity,
        } => {
            headers.reth = Some(reth(remote.address, remote.rkey, *length));
            headers.feth = Some(Feth {
                placement: *placement,
                selectivity: *selectivity,
            });
        }
        Request::CompareSwap {
            remote,
            compare,
            swap,
        } => headers.atomic_eth = Some(atomic(remote.address, remote.rkey, *swap, *compare)),
        Request::FetchAdd { remote, add } => {
            headers.atomic_eth = Some(atomic(remote.address, remote.rkey, *add, 0));
        }
        _ => {}
    }
}

fn atomic(address: u64, rkey: u32, swap_add: u64, compare: u64) -> AtomicEth {
    AtomicEth {
        address,
        rkey,
        swap_add,
        compare,
    }
}
