//! Inside the namespace.

use super::end::{End, data, pair, setup};
use super::there;
use crate::node::{Interest, Node};
use parking_lot::Mutex;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc;
use uroce_engine::qp::Service;
use uroce_engine::sim::{ALL, BASE};
use uroce_engine::work::{Destination, Remote, Request, Status, WorkRequest};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
/// Bytes of the long messages.
const LONG: u32 = 1_000_003;

/// One at a time: nodes are many in one process here.
static TURN: Mutex<()> = Mutex::new(());

fn node() -> Arc<Node> {
    Arc::new(Node::open().expect("a node"))
}

fn remote(offset: u64) -> Remote {
    Remote {
        address: BASE + offset,
        rkey: ALL,
    }
}

fn request(id: u64, request: Request, offset: u64, length: u32) -> WorkRequest {
    WorkRequest {
        data: data(offset, length),
        ..WorkRequest::new(id, request)
    }
}

/// Send, write and read in both directions, byte-exact.
fn exchange(ends: &[Arc<End>; 2], polling: bool) {
    for [from, to] in [[0, 1], [1, 0]].map(|pair: [usize; 2]| pair.map(|at| &ends[at])) {
        let text = from.bytes(0, LONG);
        to.post_receive(7, 2 << 20, LONG);
        from.post(request(1, Request::Send, 0, LONG));
        from.post(request(2, Request::Write(remote(4 << 20)), 0, LONG));
        let theirs = to.bytes(1 << 20, LONG);
        from.post(request(3, Request::Read(remote(1 << 20)), 6 << 20, LONG));
        let done = from.wait(3, polling);
        let ids: Vec<_> = done.iter().map(|one| (one.id, one.status)).collect();
        assert_eq!(ids, [1, 2, 3].map(|id| (id, Status::Success)));
        let got = to.wait(1, polling);
        assert_eq!((got[0].id, got[0].length), (7, LONG));
        assert!(to.bytes(2 << 20, LONG) == text);
        assert!(to.bytes(4 << 20, LONG) == text);
        assert!(from.bytes(6 << 20, LONG) == theirs);
    }
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn a_node_talks_to_itself() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let node = node();
    for address in [V4, V6] {
        for polling in [true, false] {
            let ends = pair([&node, &node], &setup(Service::Rc), address);
            exchange(&ends, polling);
            ends.iter().for_each(|end| node.detach(end.number));
        }
    }
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn nodes_share_the_port() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let nodes: Vec<_> = (0..3).map(|_| node()).collect();
    for address in [V4, V6] {
        for other in &nodes {
            let ends = pair([&nodes[0], other], &setup(Service::Rc), address);
            exchange(&ends, true);
            exchange(&ends, false);
        }
    }
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn datagrams_show_where_they_came_from() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let (left, right) = (node(), node());
    for address in [V4, V6] {
        let setup = setup(Service::Ud);
        let from = End::new(&left, &setup, address, 1);
        let to = End::new(&right, &setup, address, 2);
        from.connect(&setup, 0);
        to.connect(&setup, 0);
        to.post_receive(5, 0, 140);
        let mut send = request(4, Request::Send, 64, 100);
        send.destination = Some(Destination {
            address: 0,
            qpn: to.number,
            qkey: 0x1111_1111,
        });
        from.post(send);
        assert_eq!(from.wait(1, true)[0].status, Status::Success);
        let got = to.wait(1, true);
        assert_eq!((got[0].length, got[0].source), (140, from.number));
        assert!(to.bytes(40, 100) == from.bytes(64, 100));
        let grh = to.bytes(0, 40);
        match address {
            IpAddr::V4(_) => {
                assert_eq!(grh[..20], [0; 20]);
                assert_eq!(grh[20], 0x45);
                assert_eq!((grh[28], grh[29]), (64, 17));
                assert_eq!(grh[32..], [127, 0, 0, 1, 127, 0, 0, 1]);
                let words = grh[20..].chunks(2);
                let sum: u32 = words
                    .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
                    .sum();
                assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
            }
            IpAddr::V6(v6) => {
                assert_eq!((grh[0] >> 4, grh[6], grh[7]), (6, 17, 64));
                assert_eq!(grh[8..24], v6.octets());
                assert_eq!(grh[24..], v6.octets());
            }
        }
    }
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn a_silent_peer_is_found_out_by_the_helper() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let node = node();
    let mut setup = setup(Service::Rc);
    setup.retry_cnt = 2;
    let ends = pair([&node, &node], &setup, V4);
    node.detach(ends[1].number);
    ends[0].post(request(9, Request::Send, 0, 10));
    let done = ends[0].wait(1, false);
    assert_eq!((done[0].id, done[0].status), (9, Status::RetryExc));
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn descriptors_are_watched_until_they_are_not() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let node = node();
    let (near, far) = std::os::unix::net::UnixStream::pair().expect("sockets");
    let (tell, told) = mpsc::channel();
    let watch = node
        .watch(near.as_fd(), Interest::Write, move |ready| {
            let _ = tell.send(ready);
        })
        .expect("a watch");
    assert!(told.recv().expect("told").writable);
    watch.set_interest(Interest::Read).expect("changed");
    while told.try_recv().is_ok() {}
    drop(far);
    let ready = told.iter().find(|ready| ready.readable).expect("told");
    assert!(ready.broken);
    drop(watch);
    // The callback is gone with its end of the channel, after what it had told.
    assert!(told.iter().all(|ready| ready.readable));
    assert!(told.recv().is_err());
}
