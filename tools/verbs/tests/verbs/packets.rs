//! Raw packets, flows and their counters, on the loopback interface. Without CAP_NET_RAW nothing is
//! tested.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{filled, one, open, take};
use verbs::{
    CompletionQueue, HashFields, ProtectionDomain, QueuePair, RawPacket, ReceiveRequest,
    SendRequest, WorkError,
    flow::{Counted, Ethernet, Ipv4, Ipv6, Ports, Rule},
};

struct End {
    pd: ProtectionDomain,
    cq: CompletionQueue,
    qp: QueuePair<RawPacket>,
}

fn end() -> Option<End> {
    let pd = open().protection_domain().unwrap();
    let cq = pd.context().completion_queue(64).unwrap();
    match pd.raw_packets(&cq).segments(2).batches().build() {
        Ok(qp) => Some(End { pd, cq, qp }),
        Err(error) => {
            assert_eq!(error.errno(), libc::EPERM, "{error}");
            eprintln!("skipped: raw packets need CAP_NET_RAW");
            None
        }
    }
}

/// The address that a test sends to, as all tests share an interface.
fn group(number: u8) -> [u8; 6] {
    [1, 0x50, 0x56, 0x30, 0x20, number]
}

fn to(address: [u8; 6]) -> Rule {
    let of = |destination| Ethernet {
        destination,
        ..Ethernet::default()
    };
    Rule::new().ethernet(of(address), of([0xff; 6]))
}

/// A frame of UDP over IPv4.
fn ipv4(to: [u8; 6], from: [u8; 4], ports: [u16; 2]) -> Vec<u8> {
    let mut frame = [to, [2, 0, 0, 0, 0, 9]].concat();
    frame.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend(from);
    frame.extend([2, 2, 2, 2]);
    frame.extend(ports.map(u16::to_be_bytes).concat());
    frame.extend([0, 26, 0, 0]);
    frame.resize(60, 7);
    frame
}

/// A frame of TCP over IPv6.
fn ipv6(to: [u8; 6], from: Ipv6Addr) -> Vec<u8> {
    let mut frame = [to, [2, 0, 0, 0, 0, 9]].concat();
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64]);
    frame.extend(from.octets());
    frame.extend(Ipv6Addr::LOCALHOST.octets());
    frame.extend([0, 80, 0, 81]);
    frame.resize(74, 9);
    frame
}

impl End {
    fn expect(&self, id: u64) {
        let room = ReceiveRequest::new(self.pd.buffer(100).unwrap());
        self.qp.post_receive(room.id(id)).unwrap();
    }

    fn send(&self, frame: &[u8]) {
        let (front, rest) = frame.split_at(9);
        let request = SendRequest::send(filled(&self.pd, front)).and(filled(&self.pd, rest));
        self.qp.post(request).unwrap();
        one(&self.cq).success().unwrap();
    }

    fn received(&self) -> Vec<u8> {
        let done = one(&self.cq).success().unwrap();
        let bytes = done.bytes;
        done.into_buffer().unwrap()[..bytes].to_vec()
    }
}

#[test]
fn a_flow_gives_a_queue_pair_its_frames() {
    let (Some(a), Some(b)) = (end(), end()) else {
        return;
    };
    let flow = b.qp.flow(&to(group(1))).unwrap();
    (0..3).for_each(|id| b.expect(id));
    let frame = ipv4(group(1), [1, 1, 1, 1], [4, 5]);
    a.send(&ipv4(group(2), [1, 1, 1, 1], [4, 5]));
    a.send(&frame);
    assert_eq!(b.received(), frame);
    // In a batch.
    let mut batch = a.qp.batch();
    batch
        .push(SendRequest::send(filled(&a.pd, &frame)))
        .unwrap();
    batch.post().unwrap();
    one(&a.cq).success().unwrap();
    assert_eq!(b.received(), frame);
    drop(flow);
    a.send(&frame);
    let flow = b.qp.flow(&to(group(3))).unwrap();
    let last = ipv4(group(3), [1, 1, 1, 1], [4, 5]);
    a.send(&last);
    assert_eq!(b.received(), last);
    // The flow keeps its queue pair, with the memory of the requests.
    b.expect(9);
    let End { cq, qp, .. } = b;
    drop(qp);
    a.send(&last);
    assert_eq!(one(&cq).success().unwrap().id, 9);
    drop(flow);
}

#[test]
fn rules_compare_all_headers() {
    let (Some(a), Some(b)) = (end(), end()) else {
        return;
    };
    let source = Ipv4Addr::new(9, 8, 7, 6);
    let address = |source, protocol| Ipv4 {
        source,
        protocol,
        ..Ipv4::default()
    };
    let ports = |destination, source| Ports {
        destination,
        source,
    };
    let peer = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 5);
    let from = |source, next_header| Ipv6 {
        source,
        next_header,
        ..Ipv6::default()
    };
    let all_v4 = Ipv4Addr::BROADCAST;
    let all_v6 = Ipv6Addr::from([0xff; 16]);
    let of_ipv4 = to(group(4)).ipv4(address(source, 0), address(all_v4, 0));
    let of_udp = to(group(5))
        .ipv4(address(source, 17), address(all_v4, 0xff))
        .udp(ports(500, 0), ports(0xffff, 0));
    let of_ipv6 = to(group(6))
        .ipv6(from(peer, 6), from(all_v6, 0xff))
        .tcp(ports(81, 80), ports(0xffff, 0xffff));
    let _flows = [of_ipv4, of_udp, of_ipv6].map(|rule| b.qp.flow(&rule).unwrap());
    (0..4).for_each(|id| b.expect(id));
    for (wrong, right) in [
        (
            ipv4(group(4), [9, 8, 7, 5], [1, 2]),
            ipv4(group(4), [9, 8, 7, 6], [1, 2]),
        ),
        (
            ipv4(group(5), [9, 8, 7, 6], [1, 501]),
            ipv4(group(5), [9, 8, 7, 6], [1, 500]),
        ),
        (ipv6(group(6), Ipv6Addr::LOCALHOST), ipv6(group(6), peer)),
    ] {
        a.send(&wrong);
        a.send(&right);
        assert_eq!(b.received(), right);
    }
}

#[test]
fn frames_are_counted_and_dropped() {
    let (Some(a), Some(b)) = (end(), end()) else {
        return;
    };
    let [dropped, taken] = [(); 2].map(|()| b.pd.context().counters().unwrap());
    for counters in [&dropped, &taken] {
        counters.attach(Counted::Packets, 0).unwrap();
        counters.attach(Counted::Bytes, 2).unwrap();
        let refused = counters.attach(Counted::Bytes, 1000).unwrap_err();
        assert_eq!(refused.errno(), libc::EINVAL);
    }
    let of = |source| Ipv4 {
        source,
        ..Ipv4::default()
    };
    let bad = to(group(7)).ipv4(of([6; 4].into()), of(Ipv4Addr::BROADCAST));
    let bad = bad.drop_frames().count(&dropped);
    let _bad = b.qp.flow(&bad).unwrap();
    let good = to(group(7)).priority(1).count(&taken);
    let _good = b.qp.flow(&good).unwrap();
    assert_eq!(
        dropped.attach(Counted::Bytes, 1).unwrap_err().errno(),
        libc::EBUSY
    );
    b.expect(1);
    a.send(&ipv4(group(7), [6; 4], [1, 1]));
    let frame = ipv4(group(7), [5; 4], [1, 1]);
    a.send(&frame);
    assert_eq!(b.received(), frame);
    assert_eq!(dropped.read(3).unwrap(), [1, 0, 60]);
    assert_eq!(taken.read_cached(1).unwrap(), [1]);
    assert_eq!(taken.read(1000).unwrap_err().errno(), libc::EINVAL);
    // Rules keep their counters.
    drop((dropped, taken));
}

#[test]
fn requests_and_rules_that_frames_do_not_have_are_refused() {
    let Some(a) = end() else {
        return;
    };
    let errno = |request: SendRequest| {
        let refused = a.qp.post(request).unwrap_err();
        assert!(refused.request.is_some());
        refused.error.errno()
    };
    let frame = || filled(&a.pd, &[0; 60]);
    assert_eq!(errno(SendRequest::send(frame()).immediate(1)), libc::EINVAL);
    assert_eq!(errno(SendRequest::invalidate(1)), libc::EINVAL);
    let region = a.pd.memory_region(64, verbs::Access::REMOTE_WRITE).unwrap();
    assert_eq!(
        errno(SendRequest::write(frame(), region.remote())),
        libc::EINVAL
    );
    let errno = |rule: &Rule| {
        let refused = a.qp.flow(rule).unwrap_err();
        assert_eq!(refused.function(), "ibv_create_flow");
        refused.errno()
    };
    assert_eq!(
        errno(&to(group(8)).ethernet(Ethernet::default(), Ethernet::default())),
        libc::EINVAL
    );
    assert_eq!(errno(&to(group(8)).tag(5)), libc::EOPNOTSUPP);
    let elsewhere = open().counters().unwrap();
    assert_eq!(errno(&to(group(8)).count(&elsewhere)), libc::EINVAL);
    // A frame that is longer than the interface allows.
    let long = a.pd.buffer(1 << 17).unwrap();
    a.qp.post(SendRequest::send(long)).unwrap();
    let failed: WorkError = one(&a.cq).result.unwrap_err();
    assert!(!failed.is_flushed());
    a.qp.resume().unwrap();
    a.send(&ipv4(group(9), [1; 4], [0, 0]));
    a.qp.post(SendRequest::send(frame())).unwrap();
    assert_eq!(take(&a.cq, 1).len(), 1);
}

#[test]
fn frames_are_spread_over_work_queues() {
    let Some(a) = end() else {
        return;
    };
    let context = a.pd.context();
    let cq = context.completion_queue(256).unwrap();
    let queues = [(); 4].map(|()| a.pd.work_queue(&cq, 64, 1).unwrap());
    for queue in &queues {
        for id in 0..32 {
            let room = ReceiveRequest::new(a.pd.buffer(64).unwrap());
            queue.post_receive(room.id(id)).unwrap();
        }
    }
    let refused = context.work_queue_table(&queues[..3]).unwrap_err();
    assert_eq!(refused.errno(), libc::EINVAL);
    let table = context.work_queue_table(&queues).unwrap();
    let key: Vec<u8> = (0..40u8).map(|at| at.wrapping_mul(37) ^ 0x5a).collect();
    let errno = |fields, key: &[u8]| a.pd.spread(&table, fields, key).unwrap_err().errno();
    let fields = HashFields::IPV4_SOURCE | HashFields::UDP_SOURCE;
    assert_eq!(errno(fields, &key[1..]), libc::EINVAL);
    assert_eq!(errno(HashFields::IPSEC_INDEX, &key), libc::EOPNOTSUPP);
    let qp = a.pd.spread(&table, fields, &key).unwrap();
    let flow = qp.flow(&to(group(20))).unwrap();
    let mut met = Vec::new();
    for round in 0..2 {
        for source in 0..16 {
            let frame = ipv4(group(20), [10, 0, 0, source], [9, 9]);
            a.send(&frame);
            let done = one(&cq).success().unwrap();
            let number = done.queue_pair;
            assert_eq!(&done.into_buffer().unwrap()[..60], frame);
            match round {
                0 => met.push(number),
                _ => assert_eq!(met[usize::from(source)], number),
            }
        }
    }
    let hit = |queue: &verbs::WorkQueue| met.contains(&queue.number());
    assert!(queues.iter().all(hit));
    // The flow keeps the objects that are dropped here.
    let [first, ..] = queues;
    drop((qp, table));
    a.send(&ipv4(group(20), [10, 0, 0, 1], [9, 9]));
    one(&cq).success().unwrap();
    drop(flow);
    first.shut_down().unwrap();
    let flushed = cq.wait().unwrap();
    assert!(flushed.iter().all(|one| one.queue_pair == first.number()));
    assert!(
        flushed
            .iter()
            .all(|one| one.result.unwrap_err().is_flushed())
    );
}
