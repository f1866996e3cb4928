//! A hostile peer: any packets, raw or bent so that they get past the first checks.

use super::{Input, assert_in_order};
use crate::psn::Psn;
use crate::qp::{Arrival, Config, Modify, QueuePair, Service, State};
use crate::sim::{ALL, BASE, Region, Setup, SimHost, step};
use crate::timer::Time;
use crate::wire::{ICRC_LEN, Opcode, Operation, Packet, aeth, bth};
use crate::work::{Data, Destination, Receive, Remote, Request, Sge, WorkRequest};
use smallvec::smallvec;

const BYTES: usize = 0x4000;
/// The range that a peer may write, and change by atomics.
const WRITABLE: std::ops::Range<usize> = 0x1000..0x2000;
/// Receive buffers.
const BUFFERS: std::ops::Range<usize> = 0x2000..0x3000;
/// Where the results of own reads go.
const RESULTS: std::ops::Range<usize> = 0x3000..0x4000;
const WRITABLE_KEY: u32 = 5;
const READABLE_KEY: u32 = 6;
const LOCAL_KEY: u32 = 7;
const XRC_QUEUE: u32 = 3;
const START: u32 = 0x00ff_fff8;

fn region(place: &std::ops::Range<usize>, readable: bool, writable: bool) -> Region {
    let address = |at: usize| BASE + u64::try_from(at).unwrap_or(0);
    Region {
        address: address(place.start),
        length: address(place.end) - address(place.start),
        readable,
        writable,
    }
}

fn host() -> SimHost {
    let mut host = SimHost::sized(1, BYTES);
    host.keys.remove(&ALL);
    host.keys
        .insert(WRITABLE_KEY, region(&WRITABLE, true, true));
    host.keys
        .insert(READABLE_KEY, region(&(0..0x1000), true, false));
    host.keys
        .insert(LOCAL_KEY, region(&(0x2000..BYTES), false, false));
    for id in 0..4u64 {
        let receive = Receive {
            id,
            sges: smallvec![Sge {
                address: BASE + 0x2000 + id * 0x400,
                length: 0x400,
                lkey: LOCAL_KEY,
            }],
        };
        host.receives.push_back(receive);
    }
    let shared = host.receives.clone();
    host.shared.insert(XRC_QUEUE, shared);
    host
}

fn queue_pair(service: Service, last: State, host: &mut SimHost) -> QueuePair {
    let mut qp = QueuePair::new(Config {
        service,
        number: 17,
        max_send_wr: 16,
        sq_sig_all: true,
        shared_receives: false,
        port_mtu: crate::qp::Mtu::B1024,
        max_in_flight: 64,
    });
    let setup = Setup {
        psn: Psn::new(START),
        ..Setup::new(service)
    };
    for to in [State::Init, State::Rtr, State::Rts] {
        let done = qp.modify(&step(&setup, service, 18, to), host);
        assert_eq!(done, Ok(()));
        if to == last {
            break;
        }
    }
    qp
}

/// Posts requests whose responses a peer may forge. Returns those accepted.
fn post(qp: &mut QueuePair, host: &mut SimHost) -> Vec<u64> {
    let result = |offset: u64, length| {
        Data::Sges(smallvec![Sge {
            address: BASE + 0x3000 + offset,
            length,
            lkey: LOCAL_KEY,
        }])
    };
    let remote = Remote {
        address: 0x1000,
        rkey: 1,
    };
    let requests = [
        (Request::Send, result(0, 600)),
        (Request::Read(remote), result(0, 600)),
        (Request::FetchAdd { remote, add: 1 }, result(1024, 8)),
        (Request::Write(remote), Data::Inline(smallvec![1; 300])),
        (Request::AtomicWrite(remote, [1; 8]), Data::default()),
    ];
    let datagram = Destination {
        address: 1,
        qpn: 18,
        qkey: 1,
    };
    let mut accepted = Vec::new();
    for (id, (request, data)) in (0..).zip(requests) {
        let mut wr = WorkRequest::new(id, request);
        wr.data = data;
        wr.destination = (qp.config().service == Service::Ud).then_some(datagram);
        if qp.post_send(wr, host).is_ok() {
            accepted.push(id);
        }
    }
    accepted
}

/// Bends a packet towards being accepted: the numbers of the queue pair, keys and addresses near
/// those that exist, PSNs near those expected.
fn bend(packet: &mut Packet<'_>, service: Service, input: &mut Input<'_>) {
    let headers = &mut packet.headers;
    let bent = Opcode::new(service.transport(), headers.opcode.operation());
    if bent.is_some_and(|opcode| opcode.extensions() == headers.opcode.extensions()) {
        headers.opcode = bent.unwrap_or(headers.opcode);
    }
    headers.bth.destination = 17;
    headers.bth.pkey = 0xffff;
    headers.bth.psn = Psn::new(START).plus(u32::from(input.byte() % 24)).minus(4);
    let key = |byte: u8| WRITABLE_KEY + u32::from(byte % 4);
    let address = |word: u32| BASE + u64::from(word % 0x5000);
    if let Some(reth) = &mut headers.reth {
        reth.rkey = key(input.byte());
        reth.address = address(input.word());
        reth.length %= 3000;
    }
    if let Some(atomic) = &mut headers.atomic_eth {
        atomic.rkey = key(input.byte());
        atomic.address = address(input.word()) & !7;
    }
    if let Some(deth) = &mut headers.deth {
        deth.qkey = 0x1111_1111;
    }
    if let Some(xrceth) = &mut headers.xrceth {
        xrceth.srqn = XRC_QUEUE;
    }
}

/// A datagram: raw bytes, or bytes behind an opcode that the service has.
fn datagram(input: &mut Input<'_>, service: Service) -> (bool, Vec<u8>) {
    let shape = input.byte();
    let length = if shape & 1 == 0 {
        usize::from(input.byte())
    } else {
        256
    };
    let mut bytes: Vec<u8> = (0..length + 48).map(|_| input.byte()).collect();
    let raw = shape & 0x80 != 0 && shape & 0x40 != 0;
    if raw {
        return (true, bytes);
    }
    let all: Vec<Opcode> = (0..=255)
        .filter_map(Opcode::parse)
        .filter(|opcode| opcode.transport() == service.transport())
        .collect();
    let choice = usize::from(input.byte())
        .checked_rem(all.len())
        .unwrap_or(0);
    let Some(opcode) = all.get(choice) else {
        return (true, bytes);
    };
    let reports = opcode.operation() == Operation::Acknowledge && shape & 0x20 != 0;
    // The length that the opcode's headers and payload need.
    let headers = crate::wire::Headers::new(*opcode, crate::wire::Bth::default());
    let payload = match opcode.payload_rule() {
        _ if reports => 4 * usize::from(input.byte() % 8),
        crate::wire::PayloadRule::Empty => 0,
        crate::wire::PayloadRule::Full => 256,
        crate::wire::PayloadRule::Eight => 8,
        crate::wire::PayloadRule::Sixteen => 16,
        _ => usize::from(input.byte() & 0xfc).max(4),
    };
    bytes.resize(headers.emit().as_slice().len() + payload + 4, 0x5a);
    if let Some(start) = bytes.first_chunk_mut::<2>() {
        *start = [opcode.byte(), start[1] & 0xc0];
    }
    if reports {
        report(&mut bytes, input);
    }
    (false, bytes)
}

/// Makes an acknowledgement a report of few packets, behind the BTH and AETH.
fn report(bytes: &mut [u8], input: &mut Input<'_>) {
    if let Some(byte) = bytes.get_mut(8) {
        *byte |= 0x40;
    }
    let rest = bytes.len().saturating_sub(ICRC_LEN);
    let payload = bytes.get_mut(bth::LEN + aeth::LEN..rest);
    for pair in payload.into_iter().flat_map(|all| all.chunks_exact_mut(2)) {
        pair.copy_from_slice(&u16::from(input.byte() % 8).to_be_bytes());
    }
}

fn drain(qp: &mut QueuePair, now: Time, host: &mut SimHost) {
    let mut sent = 0;
    while qp.transmit(now, host).is_some() {
        sent += 1;
        assert!(sent < 1000, "a packet leads to few");
    }
}

fn assert_untouched(before: &[u8], after: &[u8]) {
    let open = [WRITABLE, BUFFERS, RESULTS];
    let place = before.iter().zip(after).position(|(old, new)| old != new);
    let changed = before
        .iter()
        .zip(after)
        .enumerate()
        .filter(|(_, (old, new))| old != new);
    for (at, _) in changed {
        assert!(
            open.iter().any(|range| range.contains(&at)),
            "{at:#x}, first {place:?}"
        );
    }
}

/// Feeds a queue pair packets made from the bytes, interleaved with time. Checks that memory
/// changes only within keys and receive requests, that a packet causes a bounded number of others,
/// and that every request completes once and in order.
///
/// # Panics
/// When a check fails.
pub fn fuzz_packet(data: &[u8]) {
    let mut input = Input(data);
    let service = match input.byte() % 8 {
        0..=2 => Service::Rc,
        3 => Service::Uc,
        4 => Service::Ud,
        5 => Service::XrcInitiator,
        _ => Service::XrcTarget,
    };
    let last = if input.byte() % 8 == 0 {
        State::Rtr
    } else {
        State::Rts
    };
    let mut host = host();
    let mut qp = queue_pair(service, last, &mut host);
    let accepted = post(&mut qp, &mut host);
    let before = host.memory.clone();
    let mut now = Time::default();
    drain(&mut qp, now, &mut host);
    while !input.is_empty() {
        now = now.plus(u64::from(input.byte()) * 1000);
        qp.on_time(now, &mut host);
        let (raw, bytes) = datagram(&mut input, service);
        if let Ok(mut packet) = Packet::parse(&bytes) {
            if !raw {
                bend(&mut packet, service, &mut input);
            }
            let arrival = Arrival {
                packet: &packet,
                grh: (service == Service::Ud).then_some(&[0x60; 40]),
            };
            qp.receive(now, &arrival, &mut host);
        }
        drain(&mut qp, now, &mut host);
    }
    assert_untouched(&before, &host.memory);
    let error = Modify {
        mask: crate::qp::Mask::STATE,
        state: Some(State::Error),
        ..Modify::default()
    };
    assert_eq!(qp.modify(&error, &mut host), Ok(()));
    drain(&mut qp, now, &mut host);
    assert_eq!(qp.outstanding(), 0);
    assert_eq!(qp.deadline(), None);
    assert_in_order(&host.completions, &accepted);
    let received = host
        .completions
        .iter()
        .filter(|completion| completion.is_receive());
    let ids: Vec<u64> = received.map(|completion| completion.id).collect();
    assert!(
        ids.iter().zip(0..).all(|(id, place)| *id == place),
        "{ids:?}"
    );
}
