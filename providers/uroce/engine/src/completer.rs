//! The completer: what the peer's acknowledgements and responses mean for the send queue (IBTA
//! volume 1, 9.7.5 and 9.9.2).

use crate::counters::Counters;
use crate::host::Host;
use crate::psn::Psn;
use crate::qp::Attributes;
use crate::requester::{Entry, Expired, Requester};
use crate::timer::Time;
use crate::wire::{Aeth, Kind, Nak, Packet, Syndrome};
use crate::work::{Data, Request, Status};

/// What a queue pair lends for one response.
pub(crate) struct Completer<'a> {
    pub now: Time,
    pub attributes: &'a Attributes,
    pub requester: &'a mut Requester,
    pub counters: &'a mut Counters,
}

impl Completer<'_> {
    /// Takes in a response. Answers the status with which the oldest unfinished request fails.
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
            return None;
        }
        match kind {
            Kind::Acknowledge => match syndrome?.1 {
                Some(Syndrome::Ack(_)) => self.acknowledged(psn),
                Some(Syndrome::Rnr(timer)) => {
                    self.counters.rnr_received += 1;
                    if !self.requester.acknowledge(self.now, psn, self.attributes) {
                        return self.gap();
                    }
                    let limit = self.attributes.rnr_retry;
                    failure(self.requester.on_rnr(self.now, timer, limit, self.counters))
                }
                Some(Syndrome::Nak(nak)) => self.refused(psn, nak),
                None => {
                    self.counters.dropped += 1;
                    None
                }
            },
            Kind::ReadResponse | Kind::AtomicAcknowledge => self.response(packet, host),
            _ => None,
        }
    }

    /// Credits are news only with the latest acknowledgement: older ones count less.
    fn credits(&mut self, psn: Psn, aeth: Aeth, credits: Option<u32>) {
        let latest = self.requester.is_under_way(psn) || psn.next() == self.requester.una();
        if latest {
            self.requester.set_credits(Psn::new(aeth.msn), credits);
        }
    }

    fn gap(&mut self) -> Option<Status> {
        failure(self.requester.on_gap(self.counters))
    }

    fn acknowledged(&mut self, psn: Psn) -> Option<Status> {
        if self
            .requester
            .acknowledge(self.now, psn.next(), self.attributes)
        {
            None
        } else {
            self.gap()
        }
    }

    fn refused(&mut self, psn: Psn, nak: Nak) -> Option<Status> {
        self.counters.naks_received += 1;
        if !self.requester.acknowledge(self.now, psn, self.attributes)
            && psn != self.requester.una()
        {
            return self.gap();
        }
        match nak {
            Nak::Sequence => self.gap(),
            Nak::InvalidRequest => Some(Status::RemInvReq),
            Nak::RemoteAccess => Some(Status::RemAccess),
            Nak::RemoteOperational => Some(Status::RemOp),
            Nak::InvalidRd => {
                self.counters.dropped += 1;
                None
            }
        }
    }

    fn response(&mut self, packet: &Packet<'_>, host: &mut impl Host) -> Option<Status> {
        let psn = packet.headers.bth.psn;
        self.requester.acknowledge(self.now, psn, self.attributes);
        if psn != self.requester.una() {
            return self.gap();
        }
        let Some(entry) = self.requester.oldest() else {
            self.counters.dropped += 1;
            return None;
        };
        if !entry.wr.request.has_response() {
            // A response to what is no question.
            return Some(Status::BadResp);
        }
        if let Err(status) = deliver(entry, packet, self.attributes, host) {
            return Some(status);
        }
        self.requester.response_arrived(self.now, self.attributes);
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
    packet: &Packet<'_>,
    attributes: &Attributes,
    host: &mut impl Host,
) -> Result<(), Status> {
    let operation = packet.headers.opcode.operation();
    match &entry.wr.request {
        Request::Read(_) if operation.kind() == Kind::ReadResponse => {
            let skip = entry.arrived.saturating_mul(attributes.path_mtu.bytes());
            let left = entry.length.saturating_sub(skip);
            let expected = left.min(attributes.path_mtu.bytes());
            let last = entry.arrived + 1 == entry.packets;
            let fits = u32::try_from(packet.payload.len()) == Ok(expected);
            if !fits || operation.position().ends() != last {
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
