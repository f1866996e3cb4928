//! Run by `in_a_namespace`.

use super::super::XrcDomain;
use super::super::endpoint::access_mode;
use super::super::write_combining::WriteCombining;
use super::end::{End, HANG, pair};
use crate::carrier::shm::{Few, GateSeen, Header};
use crate::memory::AccessMode;
use crate::namespace::there;
use crate::node::{self, Caller, Endpoint, Incoming, Node};
use crate::receive::Srq;
use crate::xrc::{DelegateState, Link, Message};
use crate::{clock, threads};
use bytemuck::Zeroable;
use kit::abi::*;
use kit::errno::Errno;
use kit::sync::Mutex;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;
use uroce_engine::host::{Fault, Host, LateFault};
use uroce_engine::psn::Psn;
use uroce_engine::qp::{Rest, Service};
use uroce_engine::wire::{Bth, Headers, ICRC_LEN, Opcode, Operation, Transport, XrcEth};
use uroce_engine::work::{Completion, CompletionOpcode, Sge, Status};

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

/// Servers that only receive leave their queue pairs in RTR.
#[test]
#[ignore = "run by in_a_namespace"]
fn the_first_messages_to_a_queue_pair_in_rtr_take_the_fast_path() {
    if !there() {
        return;
    }
    let [from, to] = [End::new(Service::Rc), End::new(Service::Rc)];
    from.connect(to.state.number());
    to.connect_up_to(from.state.number(), IBV_QPS_RTR);
    [&from, &to].into_iter().for_each(End::await_link);
    for id in 1..4 {
        to.receive(id);
    }
    assert_eq!(to.event(), None);
    for id in 1..4 {
        from.post(id, IBV_WR_SEND).expect("posted");
    }
    let expected = |opcode| [1, 2, 3].map(|id| (id, SUCCESS, opcode));
    assert_eq!(to.wait(3), expected(IBV_WC_RECV));
    assert_eq!(from.wait(3), expected(IBV_WC_SEND));
    assert_eq!(from.packets_received(), 0, "no acknowledgements");
    // As for the first packet, once.
    assert_eq!(to.event(), Some(IBV_EVENT_COMM_EST));
    assert_eq!(to.event(), None);
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

/// Messages that found no room take the fast path when a caller finds some.
fn a_full_ring(caller: Caller) {
    let [from, to] = pair();
    from.cq.attend(threads::mark());
    for id in 1..=9 {
        to.receive(id);
    }
    // A message by credit would be complete before it is seen.
    to.state.revoke_credits();
    let mut receiving = from.node.receive_alone();
    fill(&from);
    for id in 1..=8 {
        from.post(id, IBV_WR_SEND).expect("posted");
    }
    assert_eq!(from.outstanding(), [8, 0], "there is no room");
    let began = Instant::now();
    while from.outstanding() != [0, 0] {
        assert!(began.elapsed() < HANG, "{:?}", from.outstanding());
        receiving.take_in_rings(caller);
        assert_eq!(from.outstanding()[1], 0, "the protocol has no request");
    }
    drop(receiving);
    to.state.grant_credits();
    from.post(9, IBV_WR_SEND).expect("posted");
    let sent: Vec<_> = (1..=9).map(|id| (id, SUCCESS, IBV_WC_SEND)).collect();
    assert_eq!(from.wait(9), sent);
    let received: Vec<_> = (1..=9).map(|id| (id, SUCCESS, IBV_WC_RECV)).collect();
    assert_eq!(to.wait(9), received);
}

#[test]
#[ignore = "run by in_a_namespace"]
fn messages_without_room_wait_for_it_and_take_the_fast_path() {
    if there() {
        a_full_ring(Caller::Poller(threads::mark()));
    }
}

#[test]
#[ignore = "run by in_a_namespace"]
fn messages_without_room_take_it_where_no_poller_finds_some() {
    if there() {
        a_full_ring(Caller::Node);
    }
}

/// They do not stay in the list of a ring whose queue pair goes.
#[test]
#[ignore = "run by in_a_namespace"]
fn messages_that_wait_for_room_are_flushed_with_their_queue_pair() {
    if !there() {
        return;
    }
    let [from, _to] = pair();
    let receiving = from.node.receive_alone();
    fill(&from);
    for id in 1..=3 {
        from.post(id, IBV_WR_SEND).expect("posted");
    }
    assert_eq!(from.outstanding(), [3, 0]);
    drop(receiving);
    from.modify(IBV_QPS_ERR);
    let done = from.wait(3);
    assert_eq!(done.iter().map(|one| one.0).collect::<Vec<_>>(), [1, 2, 3]);
    from.modify(IBV_QPS_RESET);
    assert_eq!(from.outstanding(), [0, 0]);
}

/// Fills the ring to the peer with messages for no queue pair.
fn fill(end: &End) {
    let header = Header {
        source: end.state.number() ^ 1 << 13,
        destination: end.state.number() ^ 1 << 13,
        epoch: 0,
        immediate: None,
        solicited: false,
        completed: false,
    };
    let peer = end.peer();
    let directory = end.node.directory().expect("a directory");
    let put = || {
        directory.put(&peer, |peer| {
            peer.short(&header, Few::default(), 0, GateSeen::default())
        })
    };
    while put().is_some() {}
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
            selective: false,
            piggyback: false,
            equal: false,
            filled: false,
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

    /// The messages sent to the other process so far, as one letter each.
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
    assert_eq!(target.sent(), "Dp", "the packet behind it is forwarded");
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
    // The peer repeats unanswered requests, and the target is delegated anew.
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

fn first_bytes(end: &End) -> [u8; 24] {
    let mut bytes = [0; 24];
    end.memory.memory().read(0, &mut bytes).expect("inside");
    bytes
}

/// Collected writes are there before anything that comes after them.
#[test]
#[ignore = "run by in_a_namespace"]
fn combined_writes_are_made_in_their_turn() {
    if !there() {
        return;
    }
    let end = End::new(Service::Rc);
    let (keys, range) = (end.node.keys(), end.memory.memory());
    let first = range.address() as u64;
    let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    let pd = end.state.resources().pd();
    let (mr, _) = keys.register(pd, range, first, access).expect("a region");
    let bytes = || first_bytes(&end);
    let locked = &mut *end.state.locked.lock();
    let qp = end.state.resources();
    let (_, mut host) = locked.connection.split(qp, clock::now());
    host.writes = qp.keys().stage().map(WriteCombining::new);
    let (rkey, psn) = (mr.key(), Psn::new(7));
    assert_eq!(host.write(psn, rkey, first, &[1; 8]), Ok(()));
    assert_eq!(host.write(psn, rkey, first + 8, &[2; 4]), Ok(()));
    assert_eq!(bytes(), [0; 24], "nothing is written yet");
    let outside = first + range.length() as u64;
    assert_eq!(host.write(psn, rkey, outside, &[9; 4]), Err(Fault));
    assert_eq!(bytes()[..12], [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(host.write(psn, rkey, first, &[4; 8]), Ok(()));
    assert_eq!(host.atomic_write(rkey, first + 16, [5; 8]), Ok(()));
    assert_eq!(bytes()[..8], [4; 8]);
    assert_eq!(bytes()[16..], [5; 8]);
    assert_eq!(host.settle(), Ok(()));
    // The region ends between the check and the write.
    assert_eq!(host.write(psn, rkey, first, &[6; 8]), Ok(()));
    keys.deregister(&mr).expect("deregistered");
    host.flush_writes();
    assert_eq!(host.write(Psn::new(8), rkey, first, &[6; 8]), Err(Fault));
    assert_eq!(host.settle(), Err(LateFault { psn }));
    assert_eq!(host.settle(), Ok(()), "once");
    assert_eq!(bytes()[..8], [4; 8]);
}

/// Payloads of a receive request are collected as well, and are there before its completion.
#[test]
#[ignore = "run by in_a_namespace"]
fn combined_payloads_are_there_before_the_completion() {
    if !there() {
        return;
    }
    let end = End::new(Service::Rc);
    let (keys, range) = (end.node.keys(), end.memory.memory());
    let first = range.address() as u64;
    let qp = end.state.resources();
    let pd = qp.pd();
    let registered = keys.register(pd, range, first, IBV_ACCESS_LOCAL_WRITE);
    let (mr, _) = registered.expect("a region");
    let bytes = || first_bytes(&end);
    let sge = |address, length| Sge {
        address,
        length,
        lkey: mr.key(),
    };
    let pieces = [sge(first, 10), sge(first + 16, 8)];
    let completion = Completion::new(1, Status::Success, CompletionOpcode::Receive);
    let mut locked = end.state.locked.lock();
    let (_, mut host) = locked.connection.split(qp, clock::now());
    host.writes = qp.keys().stage().map(WriteCombining::new);
    assert_eq!(host.scatter(&pieces, 0, &[1; 8]), Ok(()));
    assert_eq!(bytes(), [0; 24], "nothing is written yet");
    // The end of the first piece, and the beginning of the second.
    assert_eq!(host.scatter(&pieces, 8, &[2; 4]), Ok(()));
    assert_eq!(bytes()[..11], [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 0]);
    host.complete(completion);
    assert_eq!(bytes()[16..19], [2, 2, 0]);
    assert!(!qp.has_overrun());
    // Outside of the region, and with more bytes than there is room for.
    let outside = [sge(first + range.length() as u64 - 4, 8)];
    assert_eq!(host.scatter(&outside, 0, &[3; 8]), Err(Fault));
    assert_eq!(host.scatter(&pieces, 16, &[3; 4]), Err(Fault));
    // The region ends before the collected bytes are written.
    assert_eq!(host.scatter(&pieces, 0, &[4; 8]), Ok(()));
    keys.deregister(&mr).expect("deregistered");
    host.complete(completion);
    assert!(qp.take_overrun(), "the queue pair fails");
    assert_eq!(bytes()[..8], [1; 8]);
    drop(locked);
    let statuses = end.wait(2).into_iter().map(|(_, status, _)| status);
    assert!(statuses.eq([IBV_WC_SUCCESS, IBV_WC_LOC_PROT_ERR]));
}
