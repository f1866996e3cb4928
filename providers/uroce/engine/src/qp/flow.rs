//! Packets in, packets out, time (IBTA volume 1, chapter 9).

use super::{Attributes, QueuePair, Service, State};
use crate::completer::Completer;
use crate::host::Host;
use crate::outgoing::Outgoing;
use crate::psn::Psn;
use crate::requester::{Context, Expired};
use crate::responder::Request;
use crate::timer::Time;
use crate::wire::{Aeth, Bth, Headers, Kind, Opcode, Packet, piggyback};
use crate::work::Event;

/// The QP number in multicast datagrams.
const MULTICAST: u32 = 0x00ff_ffff;

/// A packet that came in for the queue pair's number, its ICRC checked. For connected services the
/// caller has made sure that it came from the peer's address.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The packet.
    pub packet: &'a Packet<'a>,
    /// The bytes before a datagram's payload in the receive buffer: the IPv6 header, or 20
    /// undefined bytes and the IPv4 header.
    pub grh: Option<&'a [u8; 40]>,
}

impl QueuePair {
    /// Takes in a packet. Whatever is in it, the answer is a completion, an event, a counted drop
    /// or an answer to the peer.
    pub fn receive(&mut self, now: Time, arrival: &Arrival<'_>, host: &mut impl Host) {
        let packet = arrival.packet;
        self.counters.packets_received += 1;
        let length = u64::try_from(packet.payload.len()).unwrap_or(u64::MAX);
        self.counters.bytes_received = self.counters.bytes_received.saturating_add(length);
        let opcode = packet.headers.opcode;
        if opcode.operation().kind() == Kind::Notification {
            self.counters.congestion += 1;
            self.requester.on_congestion();
            return;
        }
        if !self.accepts(packet) {
            self.counters.dropped += 1;
        } else if opcode.operation().is_response() {
            self.receive_response(now, packet, host);
        } else {
            self.receive_piggyback(now, packet, host);
            // The acknowledgement may have ended the connection.
            if self.state.receives() {
                self.receive_request(now, arrival, host);
            } else {
                self.counters.dropped += 1;
            }
        }
    }

    /// Whether the packet is meant for this queue pair in this state.
    fn accepts(&self, packet: &Packet<'_>) -> bool {
        let service = self.config.service;
        let headers = &packet.headers;
        let role = if headers.opcode.operation().is_response() {
            service.requests() && self.state.sends()
        } else {
            service.responds() && self.state.receives()
        };
        // Two limited members do not talk to each other (IBTA volume 1, 10.9.3).
        let (ours, theirs) = (self.attributes.pkey, headers.bth.pkey);
        let partition = (ours ^ theirs) & 0x7fff == 0 && (ours | theirs) & 0x8000 != 0;
        let multicast = service == Service::Ud && headers.bth.destination == MULTICAST;
        role && partition
            && headers.opcode.transport() == service.transport()
            && (headers.bth.destination == self.config.number || multicast)
    }

    /// The peer has used the connection, perhaps on the fast path.
    pub fn used(&mut self, host: &mut impl Host) {
        if self.awaits_use() {
            self.established = true;
            host.event(Event::CommEst);
        }
    }

    fn receive_request(&mut self, now: Time, arrival: &Arrival<'_>, host: &mut impl Host) {
        self.used(host);
        let mut request = Request {
            service: self.config.service,
            attributes: &self.attributes,
            packet: arrival.packet,
            grh: arrival.grh,
            counters: &mut self.counters,
            now,
            idle: self.state.sends() && self.requester.outstanding() <= 1,
        };
        if let Err(refusal) = self.responder.take(&mut request, host) {
            self.refuse(refusal, host);
        }
    }

    fn receive_response(&mut self, now: Time, packet: &Packet<'_>, host: &mut impl Host) {
        if packet.headers.bth.becn {
            self.requester.on_congestion();
        }
        let mut completer = Completer {
            now,
            attributes: &self.attributes,
            requester: &mut self.requester,
            counters: &mut self.counters,
        };
        match completer.take(packet, host) {
            Some(status) => self.fail_request(status, host),
            None => self.report_completed(host),
        }
    }

    /// Takes in the acknowledgement in a request, as if it had come alone before the request.
    fn receive_piggyback(&mut self, now: Time, packet: &Packet<'_>, host: &mut impl Host) {
        let Some(piggyback) = packet.headers.piggyback else {
            return;
        };
        if !self.config.service.requests() || !self.state.sends() {
            return;
        }
        let bth = Bth {
            selective: true,
            piggyback: true,
            psn: Psn::new(piggyback.psn),
            ..Bth::default()
        };
        let mut headers = Headers::new(Opcode::ACKNOWLEDGE, bth);
        headers.aeth = Some(Aeth {
            syndrome: piggyback.syndrome,
            msn: piggyback.msn,
        });
        let acknowledgement = Packet {
            headers,
            payload: &[],
        };
        self.receive_response(now, &acknowledgement, host);
    }

    /// The next packet to send, if there is one now. To be called after anything else was, until it
    /// answers `None`; a caller that cannot send just now calls later, and nothing is lost.
    ///
    /// A request without acknowledgement is finished when its last packet was handed out; the next
    /// call reports it.
    pub fn transmit(&mut self, now: Time, host: &mut impl Host) -> Option<Outgoing<'_>> {
        self.report_completed(host);
        let replies = self.responder.has_due(now);
        // An acknowledgement that has waited goes behind the answer even if that comes late.
        let first = std::mem::take(&mut self.requests_turn) || self.responder.waits();
        if replies && !first {
            self.requests_turn = true;
            return self.transmit_reply();
        }
        if !self.state.sends() {
            return self.transmit_reply();
        }
        self.transmit_request(now, replies, host)
    }

    /// Whether [`QueuePair::transmit`] has nothing to hand out and nothing to report: no request
    /// is left, and no answer but one that waits for a request.
    #[must_use]
    #[inline]
    pub fn is_quiet(&self, now: Time) -> bool {
        let replies = match self.state.sends() {
            true => self.responder.has_due(now) || self.responder.has_spoken(),
            false => self.responder.has_replies(),
        };
        self.requester.outstanding() == 0 && !replies
    }

    fn transmit_reply(&mut self) -> Option<Outgoing<'_>> {
        let outgoing = self.responder.emit(self.config.service, &self.attributes)?;
        count(&mut self.counters, &outgoing);
        Some(outgoing)
    }

    fn transmit_request(
        &mut self,
        now: Time,
        replies: bool,
        host: &mut impl Host,
    ) -> Option<Outgoing<'_>> {
        let attributes = &self.attributes;
        let context = Context {
            now,
            service: self.config.service,
            number: self.config.number,
            attributes,
            draining: self.state == State::Sqd,
            pausing: self.pausing,
            batching: self.batching,
        };
        if !self.requester.prepare(&context, host) {
            if replies || self.responder.has_spoken() {
                return self.transmit_reply();
            }
            // A local operation, or a request found to be wrong, may have come to its end.
            self.report_completed(host);
            return None;
        }
        let piggybacks = self.config.service == Service::Rc && self.requester.may_piggyback();
        let mut outgoing = self.requester.emit(&context)?;
        let position = outgoing.headers.opcode.operation().position();
        self.responder.speak(position.ends());
        if piggybacks && has_room_for_piggyback(&outgoing, &self.attributes) {
            let piggyback = self.responder.take_waiting();
            outgoing.headers.bth.piggyback = piggyback.is_some();
            outgoing.headers.piggyback = piggyback;
        }
        count(&mut self.counters, &outgoing);
        Some(outgoing)
    }

    /// The caller cannot send the pending packets, because the path to the peer is full. The
    /// timeout of a reliable connection runs meanwhile, so its retries are used up in the same time
    /// as if packets left and were lost.
    pub fn wait_for_room(&mut self, now: Time) {
        if self.config.service.reliable() && self.state.sends() {
            self.requester.wait_for_room(now, &self.attributes);
        }
    }

    /// The path is still full, but has had room since the timeout began: the peer is alive, and
    /// receives packets of others. Called before [`QueuePair::on_time`].
    pub fn postpone(&mut self, now: Time) {
        self.requester.postpone(now, &self.attributes);
    }

    /// Acts on the deadline, if it has passed.
    pub fn on_time(&mut self, now: Time, host: &mut impl Host) {
        self.responder.on_time(now);
        match self
            .requester
            .on_time(now, &self.attributes, &mut self.counters)
        {
            Expired::Resume => {}
            Expired::Fail(status) => self.fail_request(status, host),
        }
    }
}

/// Whether a packet is no longer than others of the path with an acknowledgement in it.
fn has_room_for_piggyback(outgoing: &Outgoing<'_>, attributes: &Attributes) -> bool {
    let length = usize::try_from(outgoing.payload.length());
    let most = usize::try_from(attributes.path_mtu.bytes());
    matches!((length, most), (Ok(length), Ok(most)) if length + piggyback::LEN <= most)
}

fn count(counters: &mut crate::counters::Counters, outgoing: &Outgoing<'_>) {
    counters.packets_sent += 1;
    counters.bytes_sent += u64::from(outgoing.payload.length());
}
