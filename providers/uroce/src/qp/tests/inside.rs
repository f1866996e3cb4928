//! Run by `in_a_namespace`.

use super::super::endpoint::access_mode;
use super::super::{CreateParams, QpState, XrcDomain};
use crate::channel::{Kind, Records};
use crate::cq::Cq;
use crate::device::{self, Port};
use crate::memory::{AccessMode, Mr, Pd, PdId};
use crate::namespace::there;
use crate::node::{self, Caller, Endpoint, Incoming, Node};
use crate::receive::Srq;
use crate::xrc::{DelegateState, Link, Message};
use crate::{clock, context::Context, threads};
use bytemuck::Zeroable;
use kit::abi::*;
use kit::errno::Errno;
use kit::provider::{Data, ReceiveRequest, SendRequest, Token};
use kit::sync::Mutex;
use kit::sys::scratch::Scratch;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uroce_engine::psn::Psn;
use uroce_engine::qp::{Rest, Service};
use uroce_engine::wire::{Bth, Headers, ICRC_LEN, Opcode, Operation, Transport, XrcEth};

const ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
/// Bounds a wait for what has to happen.
const HANG: Duration = Duration::from_secs(20);

fn port() -> Arc<Port> {
    let ports = device::ports().expect("ports");
    let interfaces = ports.look().expect("interfaces");
    let lo = interfaces.iter().find(|i| i.name == "lo").expect("lo");
    ports.of(lo.index).expect("a port")
}

fn av() -> ibv_ah_attr {
    let mut av = ibv_ah_attr::zeroed();
    av.is_global = 1;
    av.port_num = 1;
    av.grh.dgid = device::gid_of([127, 0, 0, 1].into());
    av.grh.hop_limit = 64;
    let table = port().gid_table();
    let own = table.iter().find(|entry| {
        let gid = |gid: ibv_gid| gid.bytes();
        gid(entry.gid) == gid(av.grh.dgid)
    });
    av.grh.sgid_index = u8::try_from(own.expect("its address").gid_index).expect("small");
    av
}

/// A queue pair, its queue and its memory.
struct End {
    state: Arc<QpState>,
    cq: Arc<Cq>,
    node: Arc<Node>,
    memory: Scratch,
    mr: Mr,
    _async: OwnedFd,
}

impl End {
    fn new(service: Service) -> Self {
        Self::with(service, None)
    }

    fn with(service: Service, xrcd: Option<Arc<dyn XrcDomain>>) -> Self {
        let node = Node::get().expect("a node");
        let (events, _async) = Records::new(Kind::Asynchronous).expect("events");
        let events = Arc::new(events);
        let cq = Cq::new(Token(1), 64, None, Arc::clone(&events), false).expect("a queue");
        let cq = Arc::new(cq);
        let pd = Pd::new().id();
        let memory = Scratch::new(2).expect("memory");
        let range = memory.memory();
        let (mr, _) = node
            .keys()
            .register(pd, range, range.address() as u64, ACCESS)
            .expect("registered");
        let is_target = service == Service::XrcTarget;
        let mut cap = ibv_qp_cap::zeroed();
        cap.max_send_wr = 16;
        cap.max_recv_wr = 16;
        cap.max_send_sge = 1;
        cap.max_recv_sge = 1;
        let params = CreateParams {
            node: Arc::clone(&node),
            port: port(),
            events,
            addresses: Arc::default(),
            service,
            pd: if is_target { PdId::NONE } else { pd },
            send_cq: (!is_target).then(|| Arc::clone(&cq)),
            recv_cq: (!is_target).then(|| Arc::clone(&cq)),
            srq: None,
            xrcd,
            cap,
            sq_sig_all: true,
        };
        let mut made = None;
        node.attach(|number| {
            let state = Arc::new_cyclic(|me| QpState::new(number, Token(2), params, me));
            made = Some(Arc::clone(&state));
            Ok(state)
        })
        .expect("a number");
        Self {
            state: made.expect("made"),
            cq,
            node,
            memory,
            mr,
            _async,
        }
    }

    fn sge(&self) -> ibv_sge {
        ibv_sge {
            addr: self.memory.memory().address() as u64,
            length: 8,
            lkey: self.mr.key(),
        }
    }

    fn post(&self, id: u64, opcode: ibv_wr_opcode) -> Result<(), Errno> {
        let sges = [self.sge()];
        let mut request = SendRequest::<Context>::new(id, opcode, 0);
        request.data = Data::Sges(&sges);
        self.state.post_send(&mut Some(request).into_iter())
    }

    fn receive(&self, id: u64) {
        let sges = [self.sge()];
        let mut requests = std::iter::once(ReceiveRequest { id, sges: &sges });
        self.state.post_recv(&mut requests).expect("posted");
    }

    fn outstanding(&self) -> [usize; 2] {
        let locked = self.state.locked.lock();
        let engine = locked.connection.engine();
        [locked.fast_path.outstanding(), engine.outstanding()]
    }

    /// The next completions: identifier, status and opcode.
    fn wait(&self, count: usize) -> Vec<(u64, u32, u32)> {
        let began = Instant::now();
        let mut done = Vec::new();
        while done.len() < count {
            assert!(began.elapsed() < HANG, "{done:?}");
            let mut room = [ibv_wc::zeroed(); 1];
            if self.cq.poll(&mut room) == 0 {
                self.node.progress(Caller::Node);
                std::thread::yield_now();
                continue;
            }
            let [wc] = room;
            done.push((wc.wr_id, wc.status, wc.opcode));
        }
        done
    }

    fn modify(&self, state: ibv_qp_state) {
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = state;
        self.state.modify(&attr, IBV_QP_STATE).expect("modified");
    }

    /// To RTS, or to RTR for what only receives.
    fn connect(&self, peer: u32) {
        let mut attr = ibv_qp_attr::zeroed();
        attr.port_num = 1;
        attr.qp_access_flags = ACCESS;
        attr.ah_attr = av();
        attr.path_mtu = IBV_MTU_1024;
        attr.dest_qp_num = peer;
        attr.min_rnr_timer = 1;
        attr.max_rd_atomic = 1;
        attr.max_dest_rd_atomic = 1;
        attr.timeout = 14;
        attr.retry_cnt = 7;
        attr.rnr_retry = 7;
        let init = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        let rtr = IBV_QP_AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER;
        let rts = IBV_QP_SQ_PSN
            | IBV_QP_TIMEOUT
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_MAX_QP_RD_ATOMIC;
        let steps = [(IBV_QPS_INIT, init), (IBV_QPS_RTR, rtr), (IBV_QPS_RTS, rts)];
        let last = if self.state.resources().xrcd().is_some() {
            2
        } else {
            3
        };
        for (state, mask) in steps.into_iter().take(last) {
            attr.qp_state = state;
            let mask = IBV_QP_STATE | mask;
            self.state.modify(&attr, mask).expect("modified");
        }
    }

    fn await_link(&self) {
        let began = Instant::now();
        while self.state.locked.lock().connection.peer().is_none() {
            assert!(began.elapsed() < HANG, "no link");
            self.node.progress(Caller::Node);
            std::thread::yield_now();
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.state.remove_token(Token(2));
        self.state.end();
    }
}

/// Two connected reliable queue pairs, with a link.
fn pair() -> [End; 2] {
    let ends = [End::new(Service::Rc), End::new(Service::Rc)];
    ends[0].connect(ends[1].state.number());
    ends[1].connect(ends[0].state.number());
    ends.iter().for_each(End::await_link);
    ends
}

const SUCCESS: u32 = IBV_WC_SUCCESS;

#[test]
#[ignore = "run by in_a_namespace"]
fn messages_take_the_fast_path() {
    if !there() {
        return;
    }
    let [from, to] = pair();
    from.memory.memory().write(0, b"8 bytes!").expect("inside");
    for id in 1..20 {
        to.receive(id);
        from.post(id, IBV_WR_SEND).expect("posted");
        assert_eq!(from.outstanding()[1], 0, "the protocol has no request");
        assert_eq!(to.wait(1), [(id, SUCCESS, IBV_WC_RECV)]);
        assert_eq!(from.wait(1), [(id, SUCCESS, IBV_WC_SEND)]);
    }
    let mut bytes = [0; 8];
    to.memory.memory().read(0, &mut bytes).expect("inside");
    assert_eq!(&bytes, b"8 bytes!");
    assert_eq!(from.outstanding(), [0, 0]);
}

#[test]
#[ignore = "run by in_a_namespace"]
fn a_refused_message_takes_the_protocol_path() {
    if !there() {
        return;
    }
    let [from, to] = pair();
    from.post(1, IBV_WR_SEND).expect("posted");
    let began = Instant::now();
    while from.outstanding()[1] == 0 {
        assert!(began.elapsed() < HANG, "it was not refused");
        from.node.progress(Caller::Node);
    }
    assert_eq!(from.outstanding(), [0, 1]);
    to.receive(7);
    assert_eq!(from.wait(1), [(1, SUCCESS, IBV_WC_SEND)]);
    assert_eq!(to.wait(1), [(7, SUCCESS, IBV_WC_RECV)]);
    // One request after the refusal takes the protocol path, the next one the fast path again.
    for (id, with_protocol) in [(2, 1), (3, 0)] {
        to.receive(id);
        from.post(id, IBV_WR_SEND).expect("posted");
        assert!(from.outstanding()[1] <= with_protocol);
        assert_eq!(from.wait(1), [(id, SUCCESS, IBV_WC_SEND)]);
        assert_eq!(to.wait(1), [(id, SUCCESS, IBV_WC_RECV)]);
    }
}

#[test]
#[ignore = "run by in_a_namespace"]
fn requests_are_flushed_in_err_and_forgotten_in_reset() {
    if !there() {
        return;
    }
    let [from, to] = pair();
    to.receive(9);
    to.modify(IBV_QPS_ERR);
    assert_eq!(to.wait(1)[0].0, 9);
    from.modify(IBV_QPS_ERR);
    from.post(4, IBV_WR_SEND).expect("posted");
    let flushed = from.wait(1);
    assert_eq!(flushed[0].0, 4);
    assert_eq!(flushed[0].1, IBV_WC_WR_FLUSH_ERR);
    from.modify(IBV_QPS_RESET);
    assert_eq!(from.outstanding(), [0, 0]);
    assert!(from.state.locked.lock().connection.peer().is_none());
    assert_eq!(from.post(5, IBV_WR_SEND), Err(Errno::INVAL));
}

#[test]
#[ignore = "run by in_a_namespace"]
fn packets_of_other_addresses_are_not_the_peers() {
    if !there() {
        return;
    }
    let [end, peer] = pair();
    let (ours, theirs) = (end.state.number(), peer.state.number());
    let is_peer = |bytes: &[u8]| {
        let incoming = node::incoming(bytes).expect("a packet");
        let connection = &end.state.locked.lock().connection;
        connection.is_from_peer(end.state.resources(), &incoming)
    };
    assert!(is_peer(&packet(ours, 0, theirs, [127, 0, 0, 1])));
    assert!(!is_peer(&packet(ours, 0, theirs, [127, 0, 0, 2])));
}

/// A domain in which one other process has a shared receive queue.
struct Domain {
    link: Arc<Link>,
    reported: Mutex<Vec<ibv_event_type>>,
}

impl XrcDomain for Domain {
    fn srq(&self, _: u32) -> Option<Arc<Srq>> {
        None
    }

    fn link(&self, slot: u16) -> Option<Arc<Link>> {
        (slot == self.link.slot()).then(|| Arc::clone(&self.link))
    }

    fn is_coming(&self, _: u16) -> bool {
        false
    }

    fn report(&self, _: u16, _: u32, event: ibv_event_type) {
        self.reported.lock().push(event);
    }

    fn remove_target(&self, _: u32) {}
}

/// A packet of an XRC send of no bytes, as it lies in a ring.
fn packet(destination: u32, psn: u32, srqn: u32, [a, b, c, d]: [u8; 4]) -> Vec<u8> {
    let opcode = Opcode::new(Transport::Xrc, Operation::SendOnly).expect("an opcode");
    let mut headers = Headers::new(
        opcode,
        Bth {
            opcode: 0,
            solicited: false,
            migrated: true,
            pad: 0,
            pkey: 0xffff,
            fecn: false,
            becn: false,
            destination,
            ack_request: true,
            psn: Psn::new(psn),
        },
    );
    headers.xrceth = Some(XrcEth { srqn });
    let mut bytes = vec![4, 0, 64, 0, 1, 0, 0, 0];
    for address in [[a, b, c, d], [127, 0, 0, 1]] {
        bytes.extend(Ipv4Addr::from(address).to_ipv6_mapped().octets());
    }
    bytes.extend_from_slice(headers.emit().as_slice());
    bytes.resize(bytes.len() + ICRC_LEN, 0);
    bytes
}

/// An XRC target, and the end of a link at which a test is the other process.
struct Target {
    end: End,
    domain: Arc<Domain>,
    other: OwnedFd,
    slot: u16,
}

impl Target {
    fn new() -> Self {
        let node = Node::get().expect("a node");
        let slot = node.slot() % 100 + 1;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (own, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("sockets");
        let domain = Arc::new(Domain {
            link: Link::new(&node, slot, own, |_, _| {}).expect("a link"),
            reported: Mutex::default(),
        });
        let xrcd = Arc::clone(&domain) as Arc<dyn XrcDomain>;
        let end = End::with(Service::XrcTarget, Some(xrcd));
        end.connect(77);
        Self {
            end,
            domain,
            other,
            slot,
        }
    }

    /// A packet of that PSN for a queue of a process.
    fn packet(&self, psn: u32, slot: u16) {
        let number = self.end.state.number();
        let bytes = packet(number, psn, u32::from(slot) << 14 | 5, [127, 0, 0, 1]);
        let incoming: Incoming<'_> = node::incoming(&bytes).expect("a packet");
        self.end
            .state
            .receive(clock::now(), &incoming, Caller::Node);
    }

    /// What was sent to the other process by now, as one letter each.
    fn sent(&self) -> String {
        let mut buffer = vec![0; 1 << 16];
        let mut letters = String::new();
        while let Ok((length, _)) = recv(&self.other, &mut buffer[..], RecvFlags::DONTWAIT) {
            letters.push(match Message::parse(&buffer[..length]) {
                Some(Message::Delegate(..)) => 'D',
                Some(Message::Packet(..)) => 'p',
                Some(Message::Revoke(_, false)) => 'r',
                Some(Message::Revoke(_, true)) => 'R',
                Some(Message::Change(..)) => 'c',
                _ => '?',
            });
        }
        letters
    }

    fn report(&self, state: DelegateState, expected: u32) {
        let rest = Rest {
            expected: Psn::new(expected),
            ..Rest::default()
        };
        self.end.state.on_report(&self.domain.link, state, &rest);
    }

    fn state(&self) -> ibv_qp_state {
        let mut attr = ibv_qp_attr::zeroed();
        self.end.state.query(&mut attr);
        attr.qp_state
    }
}

#[test]
#[ignore = "run by in_a_namespace"]
fn a_target_goes_where_its_packets_go_and_comes_back() {
    if !there() {
        return;
    }
    let target = Target::new();
    target.packet(0, target.slot);
    assert_eq!(target.sent(), "Dp");
    target.packet(1, target.slot);
    assert_eq!(target.sent(), "p");
    // A third process: its packet waits, and those behind it, whatever process they are for.
    target.packet(2, target.slot + 1);
    target.packet(3, target.slot);
    assert_eq!(target.sent(), "r", "revoked once");
    target.report(DelegateState::Returned, 3);
    assert_eq!(target.sent(), "Dp", "the packet behind it goes on");
    target.report(DelegateState::Returned, 4);
    assert_eq!(target.sent(), "");
    assert_eq!(target.state(), IBV_QPS_RTR);
}

#[test]
#[ignore = "run by in_a_namespace"]
fn a_target_that_fails_elsewhere_is_in_err() {
    if !there() {
        return;
    }
    let target = Target::new();
    let sharing = target.end.state.resources().sharing().expect("a target");
    sharing.add_user(target.slot);
    target.packet(0, target.slot);
    let seen = sharing.returns().count();
    target.report(DelegateState::Failed, 0);
    assert_eq!(target.state(), IBV_QPS_ERR);
    assert_eq!(sharing.returns().count(), seen.wrapping_add(1));
    let reported = target.domain.reported.lock().clone();
    assert_eq!(
        reported,
        [IBV_EVENT_COMM_EST, IBV_EVENT_QP_LAST_WQE_REACHED]
    );
    // A report of no delegation is ignored.
    target.report(DelegateState::Returned, 9);
    assert_eq!(target.state(), IBV_QPS_ERR);
    sharing.remove_user(target.slot, 1);
}

#[test]
#[ignore = "run by in_a_namespace"]
fn changes_are_passed_on_and_a_reset_takes_the_target_back() {
    if !there() {
        return;
    }
    let target = Target::new();
    target.packet(0, target.slot);
    assert_eq!(target.sent(), "Dp");
    let mut attr = ibv_qp_attr::zeroed();
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    let mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT;
    target.end.state.modify(&attr, mask).expect("modified");
    assert_eq!(target.sent(), "c");
    // The other process does not answer: the target is taken within a second.
    let began = Instant::now();
    target.end.modify(IBV_QPS_RESET);
    assert!(began.elapsed() < HANG);
    assert_eq!(target.sent(), "R");
    target.report(DelegateState::Returned, 50);
    assert_eq!(target.state(), IBV_QPS_RESET);
}

#[test]
#[ignore = "run by in_a_namespace"]
fn a_process_that_ends_leaves_the_target_to_its_owner() {
    if !there() {
        return;
    }
    let target = Target::new();
    target.packet(0, target.slot);
    assert_eq!(target.sent(), "Dp");
    target.end.state.on_lost(&target.domain.link);
    // The peer sends again what was not answered, and it is delegated anew.
    target.packet(0, target.slot);
    assert_eq!(target.sent(), "Dp");
    assert_eq!(target.state(), IBV_QPS_RTR);
}

/// Addresses in a packet are those of the ring's format.
#[test]
fn a_packet_of_the_test_is_read_as_it_was_written() {
    let bytes = packet(9, 5, 7, [127, 0, 0, 1]);
    let incoming = node::incoming(&bytes).expect("a packet");
    assert_eq!(incoming.packet.headers.bth.psn, Psn::new(5));
    assert_eq!(incoming.packet.headers.xrceth.map(|it| it.srqn), Some(7));
    assert_eq!(incoming.source, Ipv4Addr::LOCALHOST);
}

#[test]
#[ignore = "run by in_a_namespace"]
fn memory_is_accessed_directly_by_threads_that_attend_to_the_queue_pair() {
    if !there() {
        return;
    }
    let end = End::new(Service::Rc);
    let mode = |caller| access_mode(end.state.resources(), caller);
    assert_eq!(mode(Caller::Poster), AccessMode::Direct);
    assert_eq!(mode(Caller::Node), AccessMode::Faultable);
    let own = threads::mark();
    assert_eq!(mode(Caller::Poller(own)), AccessMode::Faultable);
    end.cq.attend(own);
    assert_eq!(mode(Caller::Poller(own)), AccessMode::Direct);
    assert_eq!(
        mode(Caller::Poller(own.wrapping_add(1))),
        AccessMode::Faultable
    );
}
