//! Requests of the reliable services.

use super::{Inbound, Refusal, Reply, Request, Resource, Responder};
use crate::host::{Atomic, Host, RemoteAccess, RemoteRange};
use crate::qp::Service;
use crate::wire::{Kind, Nak, Operation, Reth, Syndrome, feth};
use crate::work::MAX_MESSAGE;

/// Whether a request was carried out.
pub(super) enum Outcome {
    /// It was; the next PSN is so many further on.
    Done(u32),
    /// There was no receive request.
    NotReady,
}

impl Responder {
    pub(super) fn take_reliable(
        &mut self,
        request: &mut Request<'_>,
        host: &mut impl Host,
    ) -> Result<(), Refusal> {
        let psn = request.packet.headers.bth.psn;
        if psn.before(self.expected) {
            request.counters.duplicates += 1;
            self.take_duplicate(request, host);
            return Ok(());
        }
        // The processes of an XRC domain pass on a responder without kept requests.
        self.selective = request.packet.headers.bth.selective && request.service == Service::Rc;
        self.takes_filling = self.selective && request.packet.headers.bth.equal;
        if psn != self.expected {
            request.counters.out_of_sequence += 1;
            if self.selective {
                self.keep(request, host);
            } else {
                self.report_gap(request);
            }
            return Ok(());
        }
        self.take_expected(request, host)?;
        self.take_kept(request, host)
    }

    fn take_expected(
        &mut self,
        request: &mut Request<'_>,
        host: &mut impl Host,
    ) -> Result<(), Refusal> {
        match self.carry_out(request, host)? {
            Outcome::NotReady => {
                // The requester goes back and sends all of it again.
                self.early = None;
                self.not_ready(request);
            }
            Outcome::Done(packets) => {
                self.nak_sent = false;
                self.expected = self.expected.plus(packets);
                self.acknowledge(request, host);
            }
        }
        Ok(())
    }

    /// Keeps a request that came before others, and reports missing packets.
    fn keep(&mut self, request: &Request<'_>, host: &mut impl Host) {
        if self.nak_sent {
            return;
        }
        let packet = request.packet;
        let read = packet.headers.opcode.operation() == Operation::ReadRequest;
        let length = packet.headers.reth.filter(|_| read);
        let psns = length.map_or(1, |reth| request.attributes.path_mtu.packets(reth.length));
        let early = self.early.get_or_insert_default();
        early.keep(self.expected, packet, psns);
        self.push_ack(host);
    }

    /// Carries out kept requests whose turn it is.
    fn take_kept(
        &mut self,
        request: &mut Request<'_>,
        host: &mut impl Host,
    ) -> Result<(), Refusal> {
        while let Some(early) = &mut self.early {
            let Some(kept) = early.next(self.expected) else {
                if early.is_empty() {
                    self.early = None;
                }
                return Ok(());
            };
            let packet = kept.packet();
            let mut kept = Request {
                packet: &packet,
                counters: &mut *request.counters,
                ..*request
            };
            self.take_expected(&mut kept, host)?;
        }
        Ok(())
    }

    fn report_gap(&mut self, request: &mut Request<'_>) {
        if self.nak_sent {
            return;
        }
        self.nak_sent = true;
        request.counters.naks_sent += 1;
        self.answer(Reply::Ack {
            psn: self.expected,
            syndrome: Syndrome::Nak(Nak::Sequence),
        });
    }

    fn not_ready(&mut self, request: &mut Request<'_>) {
        self.nak_sent = true;
        request.counters.rnr_sent += 1;
        self.answer(Reply::Ack {
            psn: self.expected,
            syndrome: Syndrome::Rnr(request.attributes.min_rnr_timer),
        });
    }

    fn acknowledge(&mut self, request: &Request<'_>, host: &mut impl Host) {
        let headers = &request.packet.headers;
        if headers.opcode.always_answered() || !headers.bth.ack_request {
            return;
        }
        let idle = request.idle && self.replies.responses() == 0;
        let earlier = self.delay.until();
        self.push_ack(host);
        if headers.opcode.operation().position().ends() {
            let timeout = request.attributes.timeout.nanos();
            self.delay.begin(request.now, earlier, idle, timeout);
        }
    }

    /// Acknowledges all that was carried out.
    pub(super) fn push_ack(&mut self, host: &mut impl Host) {
        let credits = host.credits();
        self.starved = credits == Some(0);
        self.answer(Reply::Ack {
            psn: self.expected.previous(),
            syndrome: Syndrome::Ack(credits),
        });
    }

    /// Adds an answer, which takes an acknowledgement along that waits.
    pub(super) fn answer(&mut self, reply: Reply) {
        self.delay.end();
        self.replies.push(reply);
    }

    /// Whether the peer was last informed of 0 credits.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Receive requests were posted: a peer that was informed of 0 credits learns of them.
    pub(crate) fn receives_posted(&mut self, host: &mut impl Host) {
        if self.starved {
            self.push_ack(host);
        }
    }

    fn carry_out(
        &mut self,
        request: &mut Request<'_>,
        host: &mut impl Host,
    ) -> Result<Outcome, Refusal> {
        let operation = request.packet.headers.opcode.operation();
        self.check_order(operation)?;
        if !request.fits_mtu() {
            return Err(Refusal::INVALID);
        }
        // No write comes in the middle of another message.
        if operation.kind() != Kind::Write && operation.position().begins() {
            host.settle()?;
        }
        match operation.kind() {
            Kind::Send => self.send(request, host),
            Kind::Write => self.write(request, host),
            Kind::ReadRequest => self.read(request, host),
            Kind::Atomic => self.atomic(request, host),
            Kind::AtomicWrite => self.atomic_write(request, host),
            Kind::Flush => self.flush_memory(request, host),
            _ => Err(Refusal::INVALID),
        }
    }

    /// Checks that a message is finished before another begins, and continues as it began.
    pub(super) fn check_order(&self, operation: Operation) -> Result<(), Refusal> {
        let begins = operation.position().begins();
        let fits = match &self.current {
            None => begins,
            Some(Inbound::Send { .. }) => !begins && operation.kind() == Kind::Send,
            Some(Inbound::Write { .. }) => !begins && operation.kind() == Kind::Write,
        };
        if fits { Ok(()) } else { Err(Refusal::INVALID) }
    }

    pub(super) fn send(
        &mut self,
        request: &Request<'_>,
        host: &mut impl Host,
    ) -> Result<Outcome, Refusal> {
        let operation = request.packet.headers.opcode.operation();
        if operation.position().begins() && !self.hold(request, host)? {
            return Ok(Outcome::NotReady);
        }
        let received = match &self.current {
            Some(Inbound::Send { srqn, .. }) if *srqn != request.srqn() => {
                return Err(Refusal::INVALID);
            }
            Some(Inbound::Send { received, .. }) => *received,
            _ => 0,
        };
        let Some((receive, _)) = &self.held else {
            return Err(Refusal::INVALID);
        };
        let total = received + u64::from(request.payload_length());
        if total > receive.room().min(u64::from(MAX_MESSAGE)) {
            return Err(Refusal::TOO_LONG);
        }
        host.scatter(&receive.sges, received, request.packet.payload)
            .map_err(|_| Refusal::LOCAL)?;
        if !operation.position().ends() {
            self.current = Some(Inbound::Send {
                received: total,
                srqn: request.srqn(),
            });
            return Ok(Outcome::Done(1));
        }
        if let Some(ieth) = request.packet.headers.ieth {
            host.invalidate(ieth.rkey, true)?;
        }
        self.current = None;
        self.msn = self.msn.next();
        self.deliver(
            request,
            u32::try_from(total).unwrap_or(u32::MAX),
            false,
            host,
        );
        Ok(Outcome::Done(1))
    }

    pub(super) fn write(
        &mut self,
        request: &Request<'_>,
        host: &mut impl Host,
    ) -> Result<Outcome, Refusal> {
        let operation = request.packet.headers.opcode.operation();
        let ends = operation.position().ends();
        let (range, received) = self.write_target(request, host)?;
        let length = request.payload_length();
        let total = received.saturating_add(length);
        if total > range.length || ends && total != range.length {
            return Err(Refusal::INVALID);
        }
        if operation.has_immediate() && !self.hold(request, host)? {
            return Ok(Outcome::NotReady);
        }
        if length > 0 {
            let psn = request.packet.headers.bth.psn;
            let address = range.address.wrapping_add(u64::from(received));
            host.write(psn, range.rkey, address, request.packet.payload)?;
        }
        if operation.has_immediate() {
            host.settle()?;
        }
        if !ends {
            self.current = Some(Inbound::Write {
                range,
                received: total,
                srqn: request.srqn(),
            });
            return Ok(Outcome::Done(1));
        }
        self.current = None;
        self.msn = self.msn.next();
        if operation.has_immediate() {
            self.deliver(request, total, true, host);
        }
        Ok(Outcome::Done(1))
    }

    /// The target of a write and the number of its received bytes: from its first packet, which is
    /// checked, or from the state stored then.
    fn write_target(
        &self,
        request: &Request<'_>,
        host: &mut impl Host,
    ) -> Result<(RemoteRange, u32), Refusal> {
        if let Some(Inbound::Write {
            range,
            received,
            srqn,
        }) = &self.current
        {
            return if *srqn == request.srqn() {
                Ok((*range, *received))
            } else {
                Err(Refusal::INVALID)
            };
        }
        let reth = request.packet.headers.reth.ok_or(Refusal::INVALID)?;
        if !request.attributes.access.write || reth.length > MAX_MESSAGE {
            return Err(Refusal::INVALID);
        }
        let range = range_of(reth);
        if range.length > 0 {
            host.check_remote(range, RemoteAccess::Write)?;
        }
        Ok((range, 0))
    }

    /// Whether one more read or atomic may be under way.
    pub(super) fn check_resources(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let limit = usize::from(request.attributes.max_dest_rd_atomic);
        if self.replies.unanswered() < limit {
            Ok(())
        } else {
            Err(Refusal::INVALID)
        }
    }

    fn read(&mut self, request: &Request<'_>, host: &mut impl Host) -> Result<Outcome, Refusal> {
        let headers = &request.packet.headers;
        let reth = headers.reth.ok_or(Refusal::INVALID)?;
        if !request.attributes.access.read || reth.length > MAX_MESSAGE {
            return Err(Refusal::INVALID);
        }
        self.check_resources(request)?;
        let range = range_of(reth);
        if range.length > 0 {
            host.check_remote(range, RemoteAccess::Read)?;
        }
        let packets = request.attributes.path_mtu.packets(range.length);
        self.msn = self.msn.next();
        self.answer(Reply::Data {
            psn: headers.bth.psn,
            range,
            sent: 0,
            packets,
        });
        Ok(Outcome::Done(packets))
    }

    fn atomic(&mut self, request: &Request<'_>, host: &mut impl Host) -> Result<Outcome, Refusal> {
        let headers = &request.packet.headers;
        let atomic = headers.atomic_eth.ok_or(Refusal::INVALID)?;
        if !request.attributes.access.atomic || atomic.address % 8 != 0 {
            return Err(Refusal::INVALID);
        }
        self.check_resources(request)?;
        let range = RemoteRange {
            rkey: atomic.rkey,
            address: atomic.address,
            length: 8,
        };
        host.check_remote(range, RemoteAccess::Atomic)?;
        let operation = if headers.opcode.operation() == Operation::CompareSwap {
            Atomic::CompareSwap {
                compare: atomic.compare,
                swap: atomic.swap_add,
            }
        } else {
            Atomic::FetchAdd(atomic.swap_add)
        };
        let original = host.atomic(atomic.rkey, atomic.address, operation)?;
        let psn = headers.bth.psn;
        self.answer_once(request, Reply::Atomic { psn, original });
        Ok(Outcome::Done(1))
    }

    fn atomic_write(
        &mut self,
        request: &Request<'_>,
        host: &mut impl Host,
    ) -> Result<Outcome, Refusal> {
        let reth = request.packet.headers.reth.ok_or(Refusal::INVALID)?;
        let aligned = reth.address.is_multiple_of(8) && reth.length == 8;
        let data = <[u8; 8]>::try_from(request.packet.payload).map_err(|_| Refusal::INVALID)?;
        if !request.attributes.access.write || !aligned {
            return Err(Refusal::INVALID);
        }
        self.check_resources(request)?;
        host.check_remote(range_of(reth), RemoteAccess::Write)?;
        host.atomic_write(reth.rkey, reth.address, data)?;
        self.answer_once(request, empty_response(request));
        Ok(Outcome::Done(1))
    }

    fn flush_memory(
        &mut self,
        request: &Request<'_>,
        host: &mut impl Host,
    ) -> Result<Outcome, Refusal> {
        let headers = &request.packet.headers;
        let (Some(reth), Some(flush)) = (headers.reth, headers.feth) else {
            return Err(Refusal::INVALID);
        };
        let access = request.attributes.access;
        let forbidden = flush.placement & feth::GLOBAL != 0 && !access.flush_global
            || flush.placement & feth::PERSISTENT != 0 && !access.flush_persistent;
        if forbidden {
            return Err(Refusal::INVALID);
        }
        self.check_resources(request)?;
        let range = range_of(reth);
        let (placement, selectivity) = (flush.placement, flush.selectivity);
        if range.length > 0 || selectivity == feth::REGION {
            let access = RemoteAccess::Flush {
                placement,
                selectivity,
            };
            host.check_remote(range, access)?;
            host.flush(range, placement, selectivity)?;
        }
        self.answer_once(request, empty_response(request));
        Ok(Outcome::Done(1))
    }

    /// Answers a request, and notes the answer for when it is asked again.
    fn answer_once(&mut self, request: &Request<'_>, reply: Reply) {
        self.msn = self.msn.next();
        let limit = usize::from(request.attributes.max_dest_rd_atomic);
        let resources = &mut self.resources.get_or_insert_default().0;
        while resources.len() >= limit.max(1) {
            resources.pop_front();
        }
        resources.push_back(Resource {
            psn: request.packet.headers.bth.psn,
            operation: request.packet.headers.opcode.operation(),
            reply,
        });
        self.answer(reply);
    }
}

pub(super) fn range_of(reth: Reth) -> RemoteRange {
    RemoteRange {
        rkey: reth.rkey,
        address: reth.address,
        length: reth.length,
    }
}

fn empty_response(request: &Request<'_>) -> Reply {
    Reply::Data {
        psn: request.packet.headers.bth.psn,
        range: RemoteRange {
            rkey: 0,
            address: 0,
            length: 0,
        },
        sent: 0,
        packets: 1,
    }
}
