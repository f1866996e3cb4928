//! The completer: the effect of the peer's acknowledgements and responses on the send queue (IBTA
//! volume 1, 9.7.5 and 9.9.2).

use crate::counters::Counters;
use crate::host::Host;
use crate::psn::Psn;
use crate::qp::Attributes;
use crate::requester::{Entry, Expired, Pending, Requester};
use crate::timer::Time;
use crate::wire::{Aeth, Kind, Nak, Packet, Report, Syndrome};
use crate::work::{Data, Request, Status};

/// The parts of a queue pair that one response needs.
pub(crate) struct Completer<'a> {
    pub now: Time,
    pub attributes: &'a Attributes,
    pub requester: &'a mut Requester,
    pub counters: &'a mut Counters,
}

impl Completer<'_> {
    /// Takes in a response. Returns the status with which the oldest unfinished request fails.
    pub(crate) fn take(&mut self, packet: &Packet<'_>, host: &mut impl Host) -> Option<Status> {
        let psn = packet.headers.bth.psn;
        let aeth = packet.headers.aeth;
        let syndrome = aeth.map(|aeth| (aeth, Syndrome::parse(aeth.syndrome)));
        let kind = packet.headers.opcode.operation().kind();
        // Responses to reads and atomics need not count credits.
        if let Some((aeth, Some(Syndrome::Ack(credits)))) = syndrome
            && kind == Kind::Acknowledge
        {
            self.credits(psn, aeth, credits);
        }
        if !self.requester.is_under_way(psn) {
            // It may be news of missing packets behind.
            self.report(packet);
            return None;
        }
        self.requester.learn(&packet.headers.bth, self.attributes);
        match kind {
            Kind::Acknowledge => {
                let failed = self.answer(psn, syndrome?.1);
                self.report(packet);
                failed
            }
            Kind::ReadResponse | Kind::AtomicAcknowledge => self.response(packet, host),
            _ => None,
        }
    }

    /// Takes in missing packets, unless others have overtaken the packet.
    fn report(&mut self, packet: &Packet<'_>) {
        let bth = &packet.headers.bth;
        let acknowledges = packet.headers.opcode.operation().kind() == Kind::Acknowledge;
        if !acknowledges || bth.psn.next() != self.requester.taken() {
            return;
        }
        if let Some(report) = Report::parse(packet.payload) {
            self.requester.learn(bth, self.attributes);
            self.requester.on_report(self.now, report, self.counters);
        }
    }

    /// Only the latest acknowledgement updates the credits: older ones contain lower counts.
    fn credits(&mut self, psn: Psn, aeth: Aeth, credits: Option<u32>) {
        let latest = psn.next().at_or_after(self.requester.taken())
            && (self.requester.is_under_way(psn) || psn.next() == self.requester.taken());
        if latest {
            self.requester.set_credits(Psn::new(aeth.msn), credits);
        }
    }

    fn answer(&mut self, psn: Psn, syndrome: Option<Syndrome>) -> Option<Status> {
        let (now, attributes) = (self.now, self.attributes);
        // Each acknowledges everything before it.
        let upto = match syndrome {
            Some(Syndrome::Ack(_)) => psn.next(),
            Some(_) => psn,
            None => {
                self.counters.dropped += 1;
                return None;
            }
        };
        self.requester.acknowledge(now, upto, attributes);
        self.requester.answered(psn);
        // One that later ones have overtaken describes an earlier state of the peer.
        let current = psn == self.requester.taken();
        match syndrome? {
            Syndrome::Ack(_) => None,
            Syndrome::Rnr(timer) => {
                self.counters.rnr_received += 1;
                if !current {
                    return None;
                }
                let limit = attributes.rnr_retry;
                failure(self.requester.on_rnr(now, timer, limit, self.counters))
            }
            Syndrome::Nak(nak) => self.refused(psn, nak, current),
        }
    }

    fn refused(&mut self, psn: Psn, nak: Nak, current: bool) -> Option<Status> {
        self.counters.naks_received += 1;
        let status = match nak {
            Nak::Sequence if current => return failure(self.requester.on_gap(self.counters)),
            Nak::Sequence => return None,
            Nak::InvalidRequest => Status::RemInvReq,
            Nak::RemoteAccess => Status::RemAccess,
            Nak::RemoteOperational => Status::RemOp,
            Nak::InvalidRd => {
                self.counters.dropped += 1;
                return None;
            }
        };
        self.requester.refuse(psn, status);
        None
    }

    fn response(&mut self, packet: &Packet<'_>, host: &mut impl Host) -> Option<Status> {
        let psn = packet.headers.bth.psn;
        let Some((index, pending, entry)) = self.requester.asked(psn) else {
            if self.requester.is_no_question(psn) {
                let (now, attributes) = (self.now, self.attributes);
                self.requester.acknowledge(now, psn, attributes);
                self.requester.refuse(psn, Status::BadResp);
            }
            return None;
        };
        let at = psn.since(pending.start);
        if pending.has(at) || entry.failed.is_some() {
            return None;
        }
        let end = pending.end();
        let delivered = deliver(entry, pending, packet, self.attributes, host);
        // A response acknowledges its request and everything before it.
        self.requester.acknowledge(self.now, end, self.attributes);
        match delivered {
            Ok(()) => self.requester.arrived(self.now, index, at, self.attributes),
            Err(status) => self.requester.refuse(psn, status),
        }
        None
    }
}

fn failure(expired: Expired) -> Option<Status> {
    match expired {
        Expired::Resume => None,
        Expired::Fail(status) => Some(status),
    }
}

fn deliver(
    entry: &Entry,
    pending: &Pending,
    packet: &Packet<'_>,
    attributes: &Attributes,
    host: &mut impl Host,
) -> Result<(), Status> {
    let operation = packet.headers.opcode.operation();
    match &entry.wr.request {
        Request::Read(_) if operation.kind() == Kind::ReadResponse => {
            let at = packet.headers.bth.psn.since(pending.start);
            let mtu = attributes.path_mtu.bytes();
            let skip = pending.offset.saturating_add(at).saturating_mul(mtu);
            let expected = entry.length.saturating_sub(skip).min(mtu);
            let fits = u32::try_from(packet.payload.len()) == Ok(expected);
            // A repeated request may end earlier.
            let last = at + 1 == pending.packets;
            let ends = operation.position().ends();
            let placed = ends == last || ends && pending.was_repeated();
            if !fits || !placed {
                return Err(Status::BadResp);
            }
            scatter(entry, u64::from(skip), packet.payload, host)
        }
        Request::CompareSwap { .. } | Request::FetchAdd { .. } => {
            let answer = packet.headers.atomic_ack_eth.ok_or(Status::BadResp)?;
            scatter(entry, 0, &answer.original.to_ne_bytes(), host)
        }
        Request::AtomicWrite(..) | Request::Flush { .. } => {
            if operation.kind() == Kind::ReadResponse && packet.payload.is_empty() {
                Ok(())
            } else {
                Err(Status::BadResp)
            }
        }
        _ => Err(Status::BadResp),
    }
}

fn scatter(entry: &Entry, skip: u64, data: &[u8], host: &mut impl Host) -> Result<(), Status> {
    match &entry.wr.data {
        Data::Sges(sges) => host.scatter(sges, skip, data).map_err(|_| Status::LocProt),
        Data::Inline(_) => Err(Status::LocQpOp),
    }
}
