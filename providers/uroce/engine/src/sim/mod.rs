//! Two queue pairs under a virtual clock: packets of one are delivered to the other as bytes, with
//! loss, duplication, reordering, corruption and delay from a seed.

mod host;
mod link;
#[cfg(test)]
mod tests;

pub use host::{ALL, BASE, MEMORY, Region, SimHost};
pub use link::{Bottleneck, Faults, Link, Random};

use crate::outgoing::{Outgoing, Payload};
use crate::psn::Psn;
use crate::qp::{Access, Arrival, Config, Mask, Modify, Mtu, QueuePair, Service, State};
use crate::timer::{AckTimeout, RnrTimer, Time};
use crate::wire::icrc::{self, Icrc, Network, Route};
use crate::wire::{ICRC_LEN, Packet};

/// A queue pair and its host.
#[derive(Debug)]
pub struct End {
    /// The queue pair.
    pub qp: QueuePair,
    /// Its memory and queues.
    pub host: SimHost,
}

/// The values both ends are connected with.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Service of end 0.
    pub service: Service,
    /// Service of end 1.
    pub peer: Service,
    /// Path MTU.
    pub mtu: Mtu,
    /// First PSN of both directions.
    pub psn: Psn,
    /// `retry_cnt`.
    pub retry_cnt: u8,
    /// `rnr_retry`.
    pub rnr_retry: u8,
    /// `max_rd_atomic` and `max_dest_rd_atomic`.
    pub reads: u8,
    /// `sq_sig_all`.
    pub sq_sig_all: bool,
    /// Whether acknowledgements carry credits.
    pub credits: bool,
    /// `timeout`.
    pub timeout: u8,
    /// Whether acknowledgements may wait for a request to go with; then the timeout is long.
    pub delays: bool,
    /// Whether neither end learns that the other understands reports of missing packets, as if it
    /// were of another make.
    pub plain: bool,
}

impl Setup {
    /// Ordinary values for one service on both ends.
    #[must_use]
    pub fn new(service: Service) -> Self {
        Self {
            service,
            peer: service,
            mtu: Mtu::B256,
            psn: Psn::new(0x00ff_fff0),
            retry_cnt: 7,
            rnr_retry: 7,
            reads: 4,
            sq_sig_all: false,
            credits: false,
            timeout: 6,
            delays: false,
            plain: false,
        }
    }
}

/// Two ends, the link and the clock.
#[derive(Debug)]
pub struct World {
    /// The ends.
    pub ends: [End; 2],
    /// The packets in flight.
    pub link: Link,
    /// The time.
    pub now: Time,
    plain: bool,
}

/// A step of one state of the way to RTS.
#[must_use]
pub fn step(setup: &Setup, service: Service, peer: u32, to: State) -> Modify {
    let mut modify = Modify {
        state: Some(to),
        ..Modify::default()
    };
    let from = match to {
        State::Init => State::Reset,
        State::Rtr => State::Init,
        _ => State::Rtr,
    };
    let required = crate::qp::table::rule(service, from, to).map(|rule| rule.required);
    modify.mask = Mask::STATE.and(required.unwrap_or_default());
    let values = &mut modify.values;
    values.pkey = 0xffff;
    values.qkey = 0x1111_1111;
    values.access = Access {
        write: true,
        read: true,
        atomic: true,
        flush_global: true,
        flush_persistent: false,
    };
    if service == Service::Ud {
        return modify;
    }
    values.path_mtu = setup.mtu;
    values.dest_qp_num = peer;
    values.max_dest_rd_atomic = setup.reads;
    values.max_rd_atomic = setup.reads;
    values.min_rnr_timer = RnrTimer::new(1).unwrap_or_default();
    let timeout = if setup.delays { 9 } else { setup.timeout };
    values.timeout = AckTimeout::new(timeout).unwrap_or_default();
    values.retry_cnt = setup.retry_cnt;
    values.rnr_retry = setup.rnr_retry;
    values.rq_psn = setup.psn;
    values.sq_psn = setup.psn;
    modify
}

impl World {
    /// Two connected ends in RTS.
    #[must_use]
    pub fn new(setup: &Setup, faults: Faults, seed: u64) -> Self {
        Self::sized(setup, faults, seed, MEMORY)
    }

    /// Two connected ends in RTS, each with so many bytes of memory.
    #[must_use]
    pub fn sized(setup: &Setup, faults: Faults, seed: u64, bytes: usize) -> Self {
        let end = |service: Service, number: u32, peer: u32| {
            let mut end = End {
                qp: QueuePair::new(Config {
                    service,
                    number,
                    max_send_wr: 256,
                    sq_sig_all: setup.sq_sig_all,
                    shared_receives: false,
                    port_mtu: Mtu::B1024,
                    max_in_flight: 64,
                }),
                host: SimHost::sized(seed ^ u64::from(number), bytes),
            };
            end.host.advertise_credits = setup.credits;
            for to in [State::Init, State::Rtr, State::Rts] {
                let modify = step(setup, service, peer, to);
                let done = end.qp.modify(&modify, &mut end.host);
                debug_assert_eq!(done, Ok(()));
            }
            end.qp.delay_acknowledgements(setup.delays);
            end
        };
        Self {
            ends: [end(setup.service, 17, 18), end(setup.peer, 18, 17)],
            link: Link::new(faults, seed),
            now: Time::default(),
            plain: setup.plain,
        }
    }

    /// Hands over everything that the ends want to send.
    pub fn pump(&mut self) {
        self.settle();
        for side in 0..self.ends.len() {
            while self.send_one(side) {}
        }
    }

    fn send_one(&mut self, side: usize) -> bool {
        let Some(end) = self.ends.get_mut(side) else {
            return false;
        };
        let is_quiet = end.qp.is_quiet(self.now);
        let reported = end.host.completions.len();
        let Some(outgoing) = end.qp.transmit(self.now, &mut end.host) else {
            assert!(!is_quiet || end.host.completions.len() == reported);
            return false;
        };
        assert!(!is_quiet);
        let origin = outgoing.origin;
        match bytes_of(&outgoing, &end.host, side) {
            Some(bytes) => self.link.send(self.now, 1 - side, bytes),
            None => end.qp.gather_failed(origin, &mut end.host),
        }
        true
    }

    /// When the next thing happens, once everything that can is sent. `None` if nothing ever will.
    pub fn next_time(&mut self) -> Option<Time> {
        self.pump();
        let arrival = self.link.next_arrival();
        let deadline = self.ends.iter().filter_map(|end| end.qp.deadline()).min();
        [arrival, deadline].into_iter().flatten().min()
    }

    /// Lets the next thing happen: a packet arrives or a deadline passes. `false` if nothing ever
    /// will.
    pub fn step(&mut self) -> bool {
        let Some(next) = self.next_time() else {
            return false;
        };
        self.now = self.now.max(next);
        while let Some((to, bytes)) = self.link.receive(self.now) {
            self.deliver(to, &bytes);
        }
        self.settle();
        for end in &mut self.ends {
            end.qp.on_time(self.now, &mut end.host);
        }
        true
    }

    fn settle(&mut self) {
        for end in &mut self.ends {
            end.qp.settle(&mut end.host);
        }
    }

    /// Takes a datagram in at one end, as a carrier does. Writes that the end's host does later are
    /// done before the next packet leaves, unless something else has to wait for them.
    pub fn deliver(&mut self, to: usize, bytes: &[u8]) {
        let Some(end) = self.ends.get_mut(to) else {
            return;
        };
        if !icrc::verify(&route(1 - to.min(1)), bytes) {
            return;
        }
        let Ok(mut packet) = Packet::parse(bytes) else {
            return;
        };
        packet.headers.bth.selective &= !self.plain;
        let arrival = Arrival {
            packet: &packet,
            grh: packet.headers.deth.map(|_| &[0x60; 40]),
        };
        end.qp.receive(self.now, &arrival, &mut end.host);
    }

    /// Runs until nothing is left to happen, or for so many steps. Returns whether it came to rest.
    pub fn run(&mut self, steps: usize) -> bool {
        (0..steps).any(|_| !self.step())
    }
}

/// The route of one side's packets.
#[must_use]
pub fn route(side: usize) -> Route {
    let (source, destination) = if side == 0 { (1, 2) } else { (2, 1) };
    Route {
        network: Network::V4 {
            source: [10, 0, 0, source],
            destination: [10, 0, 0, destination],
            identification: 0,
            dont_fragment: true,
        },
        source_port: 0xc000,
        destination_port: 4791,
    }
}

/// The datagram of a packet; `None` if its payload cannot be read.
fn bytes_of(outgoing: &Outgoing<'_>, host: &SimHost, side: usize) -> Option<Vec<u8>> {
    let headers = outgoing.headers.emit();
    let mut bytes = headers.as_slice().to_vec();
    match outgoing.payload {
        Payload::Bytes(data) => bytes.extend_from_slice(data),
        Payload::Local(gather) => {
            for sge in gather {
                bytes.extend_from_slice(host.local(sge.lkey, sge.address, sge.length)?);
            }
        }
        Payload::Remote {
            rkey,
            address,
            length,
        } => bytes.extend_from_slice(host.remote(rkey, address, length)?),
    }
    let tail = outgoing.headers.tail() - ICRC_LEN;
    bytes.resize(bytes.len() + tail, 0);
    Some(seal(bytes, side))
}

/// Adds the ICRC.
#[must_use]
pub fn seal(mut bytes: Vec<u8>, side: usize) -> Vec<u8> {
    let crc = Icrc::begin(&route(side), &bytes, bytes.len() + ICRC_LEN).finish();
    bytes.extend(crc);
    bytes
}
