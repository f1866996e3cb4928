//! The responder: executes the peer's requests and answers them (IBTA volume 1, 9.7.4 and 9.9.3).
//!
//! Consecutive acknowledgements become the last of them. Reads are answered one packet at a time,
//! alternating with own requests. The peer can queue at most `max_dest_rd_atomic` requests that
//! need a response; repetitions of answers do not count. A duplicate read is read again, with its
//! key checked again, before answers to later requests. Duplicates of atomics, atomic writes and
//! flushes are answered from stored results. A reply that is still pending is not queued again; a
//! reply that a duplicate requests from an earlier packet replaces the rest of the first one.
//! Beyond two replies for each request that may be in flight, and where no result is stored, a
//! duplicate is dropped, so a stray packet cannot end a connection.
//!
//! A request that comes before others is answered by a NAK, and dropped. From a requester that
//! understands reports it is kept ([`early`]), and the acknowledgement names the missing
//! packets.

mod datagram;
mod delay;
mod duplicate;
mod early;
mod reliable;
mod reply;
mod rest;
mod unreliable;

use std::collections::VecDeque;

use delay::Delay;
use early::Early;
pub(crate) use early::MOST_PACKETS;
pub(crate) use reply::{Replies, Reply};
pub use rest::{Answered, Rest};

use crate::counters::Counters;
use crate::host::{Fault, Host, LateFault, ReceiveSource, RemoteRange};
use crate::outgoing::{Outgoing, Payload};
use crate::psn::Psn;
use crate::qp::{Attributes, Service};
use crate::timer::Time;
use crate::wire::{Nak, Operation, Packet, Piggyback, Syndrome, aeth};
use crate::work::{Completion, CompletionOpcode, Event, Network, Receive, Status};

/// A message of which a part has arrived.
#[derive(Clone, Debug)]
enum Inbound {
    /// Going into the receive request that is held.
    Send { received: u64, srqn: Option<u32> },
    /// Going into the memory that the first packet named.
    Write {
        range: RemoteRange,
        received: u32,
        srqn: Option<u32>,
    },
}

/// A request that must not be executed twice, and its answer.
#[derive(Clone, Copy, Debug)]
struct Resource {
    psn: Psn,
    operation: Operation,
    reply: Reply,
}

/// Why a request ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The NAK code for the peer; `None` for services without acknowledgements.
    pub nak: Option<Nak>,
    /// Completion status of the receive request in use.
    pub status: Option<Status>,
    /// The asynchronous event.
    pub event: Option<Event>,
    /// The PSN of the refused request, if later ones were taken in before it failed.
    pub late: Option<Psn>,
}

impl Refusal {
    const INVALID: Self = Self {
        nak: Some(Nak::InvalidRequest),
        status: None,
        event: Some(Event::QpReqErr),
        late: None,
    };
    const ACCESS: Self = Self {
        nak: Some(Nak::RemoteAccess),
        status: None,
        event: Some(Event::QpAccessErr),
        late: None,
    };
    const TOO_LONG: Self = Self {
        nak: Some(Nak::InvalidRequest),
        status: Some(Status::LocLen),
        event: None,
        late: None,
    };
    const LOCAL: Self = Self {
        nak: Some(Nak::RemoteOperational),
        status: Some(Status::LocProt),
        event: None,
        late: None,
    };
}

impl From<Fault> for Refusal {
    fn from(_: Fault) -> Self {
        Self::ACCESS
    }
}

impl From<LateFault> for Refusal {
    fn from(fault: LateFault) -> Self {
        Self {
            late: Some(fault.psn),
            ..Self::ACCESS
        }
    }
}

/// The latest requests that must not be carried out twice, oldest first. Most queue pairs have
/// none.
#[derive(Debug, Default)]
struct Resources(VecDeque<Resource>);

/// State of the receiving side.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    expected: Psn,
    msn: Psn,
    /// A negative acknowledgement was sent; until the expected packet comes, none other is.
    nak_sent: bool,
    current: Option<Inbound>,
    /// The receive request in use, and the shared queue it is from.
    held: Option<(Receive, Option<u32>)>,
    replies: Replies,
    delay: Delay,
    resources: Option<Box<Resources>>,
    /// The last advertised credits were none.
    starved: bool,
    /// The peer understands reports of missing packets.
    selective: bool,
    /// The peer takes packets with bytes behind the payload.
    takes_filling: bool,
    /// Requests that came before others, once there were any.
    early: Option<Box<Early>>,
}

/// The parts of a queue pair that one request needs.
pub(crate) struct Request<'a> {
    pub service: Service,
    pub attributes: &'a Attributes,
    pub packet: &'a Packet<'a>,
    /// Network header of a datagram.
    pub grh: Option<&'a [u8; 40]>,
    pub counters: &'a mut Counters,
    pub now: Time,
    /// At most one request of this side is under way: the acknowledgement of that comes behind.
    pub idle: bool,
}

impl Request<'_> {
    fn mtu(&self) -> usize {
        usize::try_from(self.attributes.path_mtu.bytes()).unwrap_or(0)
    }

    fn payload_length(&self) -> u32 {
        u32::try_from(self.packet.payload.len()).unwrap_or(u32::MAX)
    }

    /// Whether the payload has the length that the packet's place in the message asks for.
    fn fits_mtu(&self) -> bool {
        let length = self.packet.payload.len();
        let position = self.packet.headers.opcode.operation().position();
        if position.ends() || self.packet.headers.is_of_equal_parts() {
            length <= self.mtu()
        } else {
            length == self.mtu()
        }
    }

    fn srqn(&self) -> Option<u32> {
        self.packet.headers.xrceth.map(|xrceth| xrceth.srqn)
    }

    fn source(&self) -> ReceiveSource {
        self.srqn().map_or(ReceiveSource::Own, ReceiveSource::Srq)
    }
}

impl Responder {
    /// Requests that must not be carried out twice.
    fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.resources.iter().flat_map(|all| &all.0)
    }

    pub(crate) fn start(&mut self, attributes: &Attributes) {
        self.expected = attributes.rq_psn;
    }

    /// Takes in a request.
    ///
    /// # Errors
    /// The request ends the connection; the answer is queued by [`Responder::refuse`].
    pub(crate) fn take(
        &mut self,
        request: &mut Request<'_>,
        host: &mut impl Host,
    ) -> Result<(), Refusal> {
        match request.service {
            Service::Rc | Service::XrcTarget => self.take_reliable(request, host),
            Service::Uc => self.take_unreliable(request, host),
            Service::Ud => self.take_datagram(request, host),
            Service::XrcInitiator => Ok(()),
        }
    }

    /// Ends the connection: held messages complete, the peer gets a NAK.
    pub(crate) fn refuse(
        &mut self,
        refusal: Refusal,
        counters: &mut Counters,
        host: &mut impl Host,
    ) {
        self.current = None;
        self.early = None;
        if let Some(psn) = refusal.late {
            self.expected = psn;
            self.replies.forget_from(psn);
        }
        // Without a status, the receive request stays for the flush.
        if let Some(status) = refusal.status
            && let Some((receive, srqn)) = self.held.take()
        {
            let mut completion = Completion::new(receive.id, status, CompletionOpcode::Receive);
            completion.srqn = srqn;
            counters.errors += 1;
            host.complete(completion);
        }
        if let Some(nak) = refusal.nak {
            self.delay.end();
            counters.naks_sent += 1;
            self.replies.end_with(Reply::Ack {
                psn: self.expected,
                syndrome: Syndrome::Nak(nak),
            });
        }
        if let Some(event) = refusal.event {
            host.event(event);
        }
    }

    /// The memory of an answer at `psn` cannot be read any more: the request is refused late.
    pub(crate) fn refuse_late(&mut self, psn: Psn, counters: &mut Counters, host: &mut impl Host) {
        self.delay.end();
        self.replies.clear();
        counters.naks_sent += 1;
        self.replies.end_with(Reply::Ack {
            psn,
            syndrome: Syndrome::Nak(Nak::RemoteAccess),
        });
        host.event(Event::QpAccessErr);
    }

    /// Completes the receive request in use, and those still queued if they are the queue pair's
    /// own, as flushed.
    pub(crate) fn flush(&mut self, own_queue: bool, host: &mut impl Host) {
        self.current = None;
        self.early = None;
        if let Some((receive, srqn)) = self.held.take() {
            host.complete(flushed(&receive, srqn));
        }
        if !own_queue {
            return;
        }
        while let Ok(receive) = host.receive(ReceiveSource::Own) {
            host.complete(flushed(&receive, None));
        }
    }

    /// Takes the next receive request, unless one is already held.
    fn hold(&mut self, request: &Request<'_>, host: &mut impl Host) -> Result<bool, Refusal> {
        if self.held.is_some() {
            return Ok(true);
        }
        match host.receive(request.source()) {
            Ok(receive) => {
                self.held = Some((receive, request.srqn()));
                Ok(true)
            }
            Err(crate::host::NoReceive::Empty) => Ok(false),
            Err(crate::host::NoReceive::Unknown) => Err(Refusal::INVALID),
        }
    }

    /// Completes the receive request in use.
    fn deliver(&mut self, request: &Request<'_>, length: u32, write: bool, host: &mut impl Host) {
        let Some((receive, srqn)) = self.held.take() else {
            return;
        };
        let headers = &request.packet.headers;
        let opcode = if write {
            CompletionOpcode::ReceiveWithImm
        } else {
            CompletionOpcode::Receive
        };
        let mut completion = Completion::new(receive.id, Status::Success, opcode);
        completion.length = length;
        completion.immediate = headers.imm_dt;
        completion.invalidated = headers.ieth.map(|ieth| ieth.rkey);
        completion.source = match headers.deth {
            Some(deth) => deth.source,
            None => request.attributes.dest_qp_num,
        };
        completion.grh = request.grh.map(Network::of);
        completion.solicited = headers.bth.solicited;
        completion.srqn = srqn;
        host.complete(completion);
    }

    /// Whether no message is half received.
    pub(crate) fn is_between(&self) -> bool {
        self.current.is_none() && self.held.is_none()
    }

    pub(crate) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Whether there is an answer that does not wait for a request.
    pub(crate) fn has_due(&self, now: Time) -> bool {
        self.has_replies() && self.delay.until().is_none_or(|until| until <= now)
    }

    /// Whether acknowledgements may wait for requests to go with.
    pub(crate) fn delay(&mut self, wanted: bool) {
        self.delay.want(wanted);
    }

    /// A packet of a request leaves, perhaps the last of a message.
    pub(crate) fn speak(&mut self, ends: bool) {
        self.delay.speak(ends);
    }

    /// Whether the message was sent for which an acknowledgement waited.
    pub(crate) fn has_spoken(&self) -> bool {
        self.delay.is_over()
    }

    /// Whether an acknowledgement is delayed, including one whose delay has expired unnoticed.
    pub(crate) fn waits(&self) -> bool {
        self.delay.until().is_some()
    }

    /// Until when an acknowledgement waits.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.delay.until()
    }

    /// An acknowledgement waits no longer if its time has passed.
    pub(crate) fn on_time(&mut self, now: Time) {
        self.delay.expire(now);
    }

    /// An acknowledgement waits no longer. Returns whether one did.
    pub(crate) fn hurry(&mut self) -> bool {
        self.delay.end()
    }

    /// Takes the acknowledgement that waits for a request, to be sent inside it. One that names
    /// missing packets stays.
    pub(crate) fn take_waiting(&mut self) -> Option<Piggyback> {
        if !self.waits() || self.early.is_some() {
            return None;
        }
        let (psn, syndrome) = self.replies.take_ack()?;
        self.delay.end();
        Some(Piggyback {
            syndrome: syndrome.byte(),
            msn: self.msn.value(),
            psn: psn.value(),
        })
    }

    pub(crate) fn emit(
        &mut self,
        service: Service,
        attributes: &Attributes,
    ) -> Option<Outgoing<'_>> {
        self.delay.end();
        let mut outgoing: Outgoing<'_> = self.replies.emit(service, attributes, self.msn)?;
        outgoing.headers.bth.selective = self.selective;
        outgoing.headers.bth.piggyback = self.selective;
        outgoing.headers.bth.equal = self.selective;
        if self.takes_filling {
            fill_response(&mut outgoing);
        }
        let bth = &outgoing.headers.bth;
        let syndrome = outgoing.headers.aeth.map(|aeth| aeth.syndrome);
        let is_latest = outgoing.headers.opcode.operation() == Operation::Acknowledge
            && bth.psn == self.expected.previous()
            && matches!(syndrome.and_then(Syndrome::parse), Some(Syndrome::Ack(_)));
        if let Some(early) = self.early.as_mut().filter(|_| is_latest) {
            outgoing.payload = Payload::Bytes(early.report(self.expected));
        }
        Some(outgoing)
    }
}

/// Makes a packet in the middle of a response as long as the first and the last one, which have an
/// AETH: one run takes them all.
fn fill_response(outgoing: &mut Outgoing<'_>) {
    if outgoing.headers.opcode.operation() == Operation::ReadResponseMiddle {
        let length = u32::try_from(aeth::LEN).unwrap_or(0);
        outgoing.headers.fill(length);
    }
}

fn flushed(receive: &Receive, srqn: Option<u32>) -> Completion {
    let mut completion = Completion::new(receive.id, Status::WrFlush, CompletionOpcode::Receive);
    completion.srqn = srqn;
    completion
}
