//! Inside the namespace.

mod late;

use super::end::{End, data, pair, setup};
use super::there;
use crate::carrier::shm::{GateSeen, Header, Outcome, Peer};
use crate::carrier::udp::faults::{BadNetwork, Faults};
use crate::carrier::udp::{PORT, Sockets, Tools};
use crate::carrier::{Carrier, Sender, qpn};
use crate::clock;
use crate::cm::Cm;
use crate::node::teardown::Teardown;
use crate::node::{Caller, Endpoint, Incoming, Interest, Node};
use kit::errno::Errno;
use kit::sync::Mutex;
use rustix::net::{RecvFlags, recv};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;
use uroce_engine::qp::Service;
use uroce_engine::sim::{ALL, BASE, Setup};
use uroce_engine::timer::Time;
use uroce_engine::work::{Destination, Network, Remote, Request, Status, WorkRequest};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
/// The index of the loopback interface in every namespace.
const LO: u32 = 1;
/// Bytes of the long messages.
const LONG: u32 = 200_003;
/// Bytes of memory for [`exchange`].
const MEMORY: usize = 1 << 20;

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
        to.post_receive(7, 256 << 10, LONG);
        from.post(request(1, Request::Send, 0, LONG));
        from.post(request(2, Request::Write(remote(512 << 10)), 0, LONG));
        let theirs = to.bytes(0, LONG);
        from.post(request(3, Request::Read(remote(0)), 768 << 10, LONG));
        let done = from.wait(3, polling);
        let ids: Vec<_> = done.iter().map(|one| (one.id, one.status)).collect();
        assert_eq!(ids, [1, 2, 3].map(|id| (id, Status::Success)));
        let got = to.wait(1, polling);
        assert_eq!((got[0].id, got[0].length), (7, LONG));
        assert!(to.bytes(256 << 10, LONG) == text);
        assert!(to.bytes(512 << 10, LONG) == text);
        assert!(from.bytes(768 << 10, LONG) == theirs);
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
            let ends = pair([&node, &node], &setup(Service::Rc), address, MEMORY);
            exchange(&ends, polling);
            ends.iter().for_each(|end| node.detach(end.number));
        }
    }
}

/// Requests that wait for others leave although no thread polls: also after one has polled for so
/// long that the progress thread leaves the sockets to it.
#[test]
#[ignore = "in_a_namespace runs it"]
fn requests_that_wait_for_others_leave_without_a_poll() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let node = node();
    let ends = pair([&node, &node], &setup(Service::Rc), V4, MEMORY);
    for round in 0..4 {
        for _ in 0..500 * (round % 2) {
            node.progress(Caller::Node);
        }
        {
            let inner = &mut *ends[0].inner.lock();
            for id in 0..8 {
                let write = request(id, Request::Write(remote(64)), 0, 8);
                assert_eq!(inner.qp.post_send(write, &mut inner.host), Ok(()));
            }
        }
        node.post_in_batch(ends[0].number, clock::now());
        let mut done = Vec::new();
        while done.len() < 8 {
            done.extend(ends[0].completions());
            std::thread::sleep(Duration::from_micros(100));
        }
        let done: Vec<_> = done.iter().map(|one| (one.id, one.status)).collect();
        let sent: Vec<_> = (0..8).map(|id| (id, Status::Success)).collect();
        assert_eq!(done, sent);
    }
    ends.iter().for_each(|end| node.detach(end.number));
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn nodes_share_the_port() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    // Packets of these ends would change over to a link in the middle of a message, which those of
    // queue pairs do not.
    let by_udp = || Tools {
        carrier: Carrier::Udp,
        ..Tools::default()
    };
    let node = || Arc::new(Node::open_with(by_udp(), Cm::new()).expect("a node"));
    let nodes: Vec<_> = (0..3).map(|_| node()).collect();
    for address in [V4, V6] {
        for other in &nodes {
            let ends = pair([&nodes[0], other], &setup(Service::Rc), address, MEMORY);
            exchange(&ends, true);
            exchange(&ends, false);
        }
    }
}

/// Which socket of the port gets a packet depends on its sender's port.
#[test]
#[ignore = "in_a_namespace runs it"]
fn sockets_that_leave_get_nothing_of_others() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    for address in [V4, V6] {
        let [_stays, leaves] = [(), ()].map(|()| Sockets::open().expect("sockets"));
        let count = || {
            let socket = leaves.of(address).expect("of the family");
            let receive = || recv(socket, [0; 8].as_mut_slice(), RecvFlags::DONTWAIT);
            std::iter::from_fn(|| receive().ok()).count()
        };
        let send = || {
            for _ in 0..512 {
                let sender = UdpSocket::bind((address, 0)).expect("a socket");
                sender.send_to(&[0; 8], (address, PORT)).expect("sent");
            }
        };
        send();
        leaves.leave();
        assert!(count() > 0, "packets in the socket stay");
        send();
        assert_eq!(count(), 0);
    }
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn a_bad_network_only_takes_longer() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let text = "loss=1%,dup=1%,reorder=1%,corrupt=1%,delay=0-100us,seed=5";
    let tools = || Tools {
        carrier: Carrier::Udp,
        network: Some(BadNetwork::new(Faults::parse(text).expect("faults"))),
        capture: None,
    };
    let node = || Arc::new(Node::open_with(tools(), Cm::new()).expect("a node"));
    let (left, right) = (node(), node());
    for address in [V4, V6] {
        let ends = pair([&left, &right], &setup(Service::Rc), address, MEMORY);
        exchange(&ends, true);
        exchange(&ends, false);
    }
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn groups_reach_all_members_of_all_processes() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let nodes = [node(), node()];
    let setup = setup(Service::Ud);
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: multicast needs an address that only root can give");
        return;
    }
    // Linux takes no multicast from 127.0.0.1 (ip_mc_validate_source).
    let ours = Ipv4Addr::new(10, 77, 1, 1).into();
    let groups: [(IpAddr, IpAddr); 1] = [(ours, Ipv4Addr::new(239, 7, 7, 7).into())];
    for (address, group) in groups {
        let end = |node| End::new(node, &setup, address, 1, 1024);
        let members = [end(&nodes[0]), end(&nodes[0]), end(&nodes[1])];
        let stranger = end(&nodes[1]);
        for one in members.iter().chain([&stranger]) {
            one.connect(&setup, 0);
            one.inner.lock().path.destination = group;
            one.inner.lock().path.interface = LO;
            one.post_receive(3, 0, 48);
        }
        for one in &members {
            assert_eq!(one.node.join(group, LO, one.number), Ok(()));
            assert_eq!(one.node.join(group, LO, one.number), Ok(()));
        }
        let mut send = request(4, Request::Send, 64, 8);
        send.destination = Some(Destination {
            address: 0,
            qpn: 0x00ff_ffff,
            qkey: 0x1111_1111,
        });
        // From an end that is no member, and from one that is: it receives its own.
        for from in [&stranger, &members[0]] {
            from.post(send.clone());
            let own = usize::from(from.number == members[0].number);
            let done = from.wait(1 + own, true);
            assert_eq!(done[0].status, Status::Success);
            for to in &members[own..] {
                assert_eq!(to.wait(1, true)[0].length, 48);
            }
            members.iter().for_each(|one| one.post_receive(3, 0, 48));
        }
        assert!(stranger.completions().is_empty());
        let [first, second, third] = &members;
        assert_eq!(first.node.leave(group, LO, first.number), Ok(()));
        assert_eq!(first.node.leave(group, LO, first.number), Err(Errno::INVAL));
        third.node.detach(third.number);
        stranger.post(send);
        assert_eq!(second.wait(1, true).len(), 1);
        assert!(first.completions().is_empty());
        let node = &first.node;
        assert_eq!(node.join(address, LO, first.number), Err(Errno::INVAL));
        assert_eq!(node.join(group, 9999, first.number), Err(Errno::NODEV));
    }
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn hostile_packets_change_nothing() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let node = node();
    // Once it is known how this address numbers its packets: of a stranger any number is believed,
    // and of these packets 42 need but an ICRC, which in one run of 750 one has.
    exchange(&pair([&node, &node], &setup(Service::Rc), V4, MEMORY), true);
    let ends = pair([&node, &node], &setup(Service::Rc), V4, MEMORY);
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let slots = UnixDatagram::unbound().expect("a socket");
    let name = format!("uroce/{}", node.slot());
    let name = std::os::unix::net::SocketAddr::from_abstract_name(name).expect("a name");
    let before = ends[1].bytes(0, 4096);
    let mut state = 1u64;
    for round in 0..20_000u32 {
        let mut bytes = vec![0u8; usize::try_from(round % 200).expect("small")];
        for byte in &mut bytes {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *byte = state.to_be_bytes()[0];
        }
        // For this queue pair, for dead slots, for any queue pair.
        let number = match round % 4 {
            0 => ends[1].number,
            1 => 0x00ff_ffff,
            2 => round << 10,
            _ => round,
        };
        if let Some(place) = bytes.get_mut(5..8) {
            place.copy_from_slice(&number.to_be_bytes()[1..]);
        }
        let _ = socket.send_to(&bytes, (Ipv4Addr::LOCALHOST, 4791));
        slots.set_nonblocking(true).expect("an option");
        let _ = slots.send_to_addr(&bytes, &name);
        node.progress(Caller::Node);
    }
    assert!(ends[1].bytes(0, 4096) == before);
    assert_eq!(ends[1].inner.lock().qp.counters().packets_received, 0);
    exchange(&ends, true);
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn after_detaching_no_endpoint_is_called() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let node = node();
    for _ in 0..50 {
        let ends = pair([&node, &node], &setup(Service::Rc), V4, MEMORY);
        ends[1].post_receive(1, 0, LONG);
        ends[0].post(request(1, Request::Send, 0, LONG));
        let [first, second] = ends;
        node.detach(second.number);
        node.detach(first.number);
        for end in [first, second] {
            // The node's are gone.
            assert_eq!(Arc::strong_count(&end), 1);
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
        let from = End::new(&left, &setup, address, 1, 1024);
        let to = End::new(&right, &setup, address, 2, 1024);
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
                assert_eq!(got[0].grh, Some(Network::Ipv4));
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
                assert_eq!(got[0].grh, Some(Network::Ipv6));
                assert_eq!((grh[0] >> 4, grh[6], grh[7]), (6, 17, 64));
                assert_eq!(grh[8..24], v6.octets());
                assert_eq!(grh[24..], v6.octets());
            }
        }
    }
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn a_silent_peer_is_found_out_by_the_progress_thread() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let node = node();
    let mut setup = setup(Service::Rc);
    setup.retry_cnt = 2;
    let ends = pair([&node, &node], &setup, V4, 1024);
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
    let (send_ready, ready_of) = mpsc::channel();
    let watch = node
        .watch(near.as_fd(), Interest::Write, move |ready| {
            let _ = send_ready.send(ready);
        })
        .expect("a watch");
    assert!(ready_of.recv().expect("ready").writable);
    watch.set_interest(Interest::Read).expect("changed");
    while ready_of.try_recv().is_ok() {}
    drop(far);
    let ready = ready_of.iter().find(|ready| ready.readable).expect("ready");
    assert!(ready.broken);
    drop(watch);
    // The callback was dropped with its end of the channel, after the values that it had sent.
    assert!(ready_of.iter().all(|ready| ready.readable));
    assert!(ready_of.recv().is_err());
}

/// One that cannot be accepted (accept(2) denied, no descriptor left) does not keep the thread
/// busy.
#[test]
#[ignore = "in_a_namespace runs it"]
fn a_connection_that_waits_is_reported_once() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let node = node();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let (send_ready, ready_of) = mpsc::channel();
    let watch = node
        .watch(listener.as_fd(), Interest::Arrival, move |ready| {
            let _ = send_ready.send(ready);
        })
        .expect("a watch");
    let connections = [(); 2].map(|()| {
        let connection = std::net::TcpStream::connect(address).expect("connected");
        assert!(ready_of.recv().expect("ready").readable);
        connection
    });
    drop(watch);
    assert_eq!(ready_of.iter().count(), 0);
    drop(connections);
}

/// Two nodes that share memory.
fn neighbours() -> [Arc<Node>; 2] {
    [(); 2].map(|()| {
        let tools = Tools {
            carrier: Carrier::Shm,
            ..Tools::default()
        };
        Arc::new(Node::open_with(tools, Cm::new()).expect("a node"))
    })
}

/// Two connected queue pairs of neighbours.
fn local_pair(nodes: &[Arc<Node>; 2], setup: &Setup) -> [Arc<End>; 2] {
    let ends = pair([&nodes[0], &nodes[1]], setup, V4, MEMORY);
    ends.iter()
        .for_each(|end| end.inner.lock().path.local = true);
    ends
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn an_acknowledgement_survives_its_sender() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let nodes = neighbours();
    let setup = setup(Service::Rc);
    let [leaves, stays] = local_pair(&nodes, &setup);
    let [busy, slow] = local_pair(&nodes, &setup);
    drop(nodes);
    leaves.post_receive(1, 0, 64);
    // No thread takes records from the ring to the end that stays, so the ring fills up.
    let held = slow.inner.lock();
    let full = || busy.inner.lock().backpressured.is_some();
    busy.post(request(2, Request::Write(remote(0)), 0, 4 * LONG));
    while !full() {
        busy.node.progress(Caller::Node);
    }
    stays.post(request(3, Request::Send, 0, 64));
    assert_eq!(leaves.wait(1, true)[0].status, Status::Success);
    let going = std::thread::spawn(move || {
        for end in [leaves, busy] {
            end.node.detach(end.number);
        }
    });
    std::thread::sleep(Duration::from_millis(20));
    drop(held);
    going.join().expect("gone");
    assert_eq!(stays.wait(1, true)[0].status, Status::Success);
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn an_acknowledgement_that_has_come_counts_at_teardown() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let (one, other) = (node(), node());
    let [stays, leaves] = pair([&one, &other], &setup(Service::Rc), V4, MEMORY);
    for round in 0..20 {
        // After the first ones packets come straight to their destination.
        let first = round < 5;
        stays.post_receive(1, 0, 64);
        // No thread receives for the end that leaves.
        let inbox = (!first).then(|| one_receiver(&leaves));
        leaves.post(request(2, Request::Send, 0, 64));
        assert_eq!(stays.wait(1, true)[0].status, Status::Success);
        if first {
            leaves.wait(1, true);
            continue;
        }
        // The thread that received it has sent the acknowledgement then.
        drop(one_receiver(&stays));
        assert!(leaves.completions().is_empty());
        drop(inbox);
        leaves.node.tear_down(leaves.number);
        let [completion] = &leaves.completions()[..] else {
            panic!("no completion");
        };
        assert_eq!(completion.status, Status::Success);
    }
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn an_acknowledgement_that_waits_counts_at_teardown() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let (one, other) = (node(), node());
    let setup = Setup {
        delays: true,
        ..setup(Service::Rc)
    };
    let ends = pair([&one, &other], &setup, V4, MEMORY);
    for round in 0..200 {
        let mut sent = [0; 2];
        // They take turns, and the last one does not answer.
        for turn in 0..4 {
            let (to, from) = (turn % 2, (turn + 1) % 2);
            ends[to].post_receive(1, 0, 64);
            ends[from].post(request(2, Request::Send, 0, 64));
            sent[to] += until_one_has_come(&ends[to]);
        }
        // tear_down waits some times as long as the peer's progress thread may back off, which is
        // not enough where the machine does not run that.
        let inner = &ends[0].node.inner;
        let index = inner.transport().index(ends[0].number).expect("attached");
        inner.teardown.flush(&inner.progress, index);
        Teardown::await_all_acknowledgements(&inner.progress, index);
        sent[0] += ends[0].completions().len();
        assert_eq!(sent[0], 2, "in round {round}");
        sent[1] += ends[1].completions().len();
        ends[1].wait(2 - sent[1], true);
    }
}

/// Returns how many requests of this end have completed meanwhile.
fn until_one_has_come(end: &End) -> usize {
    let mut sent = 0;
    loop {
        let all = end.wait(1, true);
        assert!(all.iter().all(|one| one.status == Status::Success));
        let came = all.iter().filter(|one| one.id == 1).count();
        sent += all.len() - came;
        if came > 0 {
            return sent;
        }
    }
}

fn one_receiver(end: &End) -> impl Drop + '_ {
    end.node.inner.progress.inbox.lock()
}

/// Records the outcomes of messages.
#[derive(Default)]
struct Outcomes(Mutex<Vec<Outcome>>);

impl Endpoint for Outcomes {
    fn receive(&self, _: Time, _: &Incoming<'_>, _: Caller) -> bool {
        false
    }

    fn transmit(&self, _: Time, _: &mut Sender<'_>, _: Caller) {}
    fn on_time(&self, _: Time) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn on_outcome(&self, _: &Peer, outcome: Outcome, _: Caller) -> bool {
        self.0.lock().push(outcome);
        false
    }
}

/// Sends for a while, once the program leaves.
#[derive(Default)]
struct Slow {
    begun: AtomicBool,
    leaving: AtomicBool,
    sent: AtomicBool,
}

impl Endpoint for Slow {
    fn receive(&self, _: Time, _: &Incoming<'_>, _: Caller) -> bool {
        false
    }

    fn on_time(&self, _: Time) {}

    fn transmit(&self, _: Time, _: &mut Sender<'_>, _: Caller) {
        self.begun.store(true, SeqCst);
        while !self.leaving.load(SeqCst) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(3));
        self.sent.store(true, SeqCst);
    }

    fn deadline(&self) -> Option<Time> {
        None
    }
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn exit_waits_for_threads_that_send() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let node = node();
    let waited = || {
        let slow = Arc::new(Slow::default());
        let endpoint = Arc::clone(&slow);
        let number = node.attach(|_| Ok(endpoint)).expect("a number");
        let sent = std::thread::scope(|scope| {
            scope.spawn(|| node.post(number));
            while !slow.begun.load(SeqCst) {
                std::thread::yield_now();
            }
            slow.leaving.store(true, SeqCst);
            node.inner.teardown.exits(&node.inner.transport().alarm);
            slow.sent.load(SeqCst)
        });
        node.detach(number);
        sent
    };
    // Not for long: on a machine with much to do, some find that too short.
    assert!((0..50).any(|_| waited()));
}

/// Takes a while to see to its failure.
#[derive(Default)]
struct Failed {
    begun: AtomicBool,
    ended: AtomicBool,
}

impl Endpoint for Failed {
    fn receive(&self, _: Time, _: &Incoming<'_>, _: Caller) -> bool {
        false
    }

    fn transmit(&self, _: Time, _: &mut Sender<'_>, _: Caller) {}
    fn on_time(&self, _: Time) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn failed(&self) {
        self.begun.store(true, SeqCst);
        std::thread::sleep(Duration::from_millis(3));
        self.ended.store(true, SeqCst);
    }
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn no_call_is_inside_a_removed_endpoint() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let node = node();
    for _ in 0..20 {
        let failed = Arc::new(Failed::default());
        let endpoint = Arc::clone(&failed);
        let number = node.attach(|_| Ok(endpoint)).expect("a number");
        node.failed(number);
        while !failed.begun.load(SeqCst) {
            std::thread::yield_now();
        }
        node.detach(number);
        assert!(failed.ended.load(SeqCst));
        assert_eq!(Arc::strong_count(&failed), 1);
    }
}

fn header(source: u32, destination: u32) -> Header {
    Header {
        source,
        destination,
        epoch: 0,
        immediate: None,
        solicited: false,
        completed: false,
    }
}

/// The process of a number, once there is a link with it.
fn met(node: &Node, number: u32) -> Arc<Peer> {
    let directory = node.directory().expect("a directory");
    loop {
        if let Some(peer) = directory.connect(qpn::slot_of(number), 0) {
            return peer;
        }
        std::thread::yield_now();
    }
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn messages_to_a_peer_that_came_and_went_are_reported_lost() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let [left, right] = neighbours();
    let outcomes = Arc::new(Outcomes::default());
    let endpoint = Arc::clone(&outcomes);
    let source = left.attach(|_| Ok(endpoint)).expect("a number");
    let destination = right
        .attach(|_| Ok(Arc::new(Outcomes::default())))
        .expect("a number");
    // No thread looks at rings, so none sees that there is one more.
    let inbox = left.inner.progress.inbox.lock();
    let peer = met(&left, destination);
    peer.long(
        &header(source, destination),
        8,
        &mut |_| Ok(()),
        GateSeen::default(),
    )
    .expect("room");
    let directory = left.directory().expect("a directory");
    drop(right);
    while directory.peer(peer.slot()).is_some() {
        directory.attend();
    }
    drop(inbox);
    left.inner
        .progress
        .inbox
        .lock()
        .take_in_rings(left.inner.transport(), Caller::Node);
    assert_eq!(outcomes.0.lock().len(), 1);
    left.detach(source);
}
