//! Answers to received datagrams.

use super::{filled, one, open};
use verbs::{
    Access, Buffer, Completion, CompletionQueue, Context, Datagram, ProtectionDomain, QueuePair,
    ReceiveRequest, Segment, SendRequest,
};

const QKEY: u32 = 0x1111_2222;
/// Bytes of the global routing header.
const HEADER: usize = 40;

struct Ends {
    pd: ProtectionDomain,
    client: (CompletionQueue, QueuePair<Datagram>),
    server: (CompletionQueue, QueuePair<Datagram>),
}

fn ends(queue: impl Fn(&Context) -> CompletionQueue) -> Ends {
    let context = open();
    let pd = context.protection_domain().unwrap();
    let end = || {
        let cq = queue(&context);
        let qp = pd.datagram(&cq).segments(2).build(QKEY).unwrap();
        (cq, qp)
    };
    let (client, server) = (end(), end());
    Ends { pd, client, server }
}

/// A datagram of the client, as it arrives in a request of the server.
fn received(ends: &Ends, room: ReceiveRequest) -> Completion {
    let ((cq, client), (server_cq, server)) = (&ends.client, &ends.server);
    server.post_receive(room).unwrap();
    let to = client.address_handle(&server.endpoint()).unwrap();
    let message = SendRequest::send(filled(&ends.pd, b"question"));
    client.post_to(message, &to, server.number(), QKEY).unwrap();
    one(cq).success().unwrap();
    one(server_cq).success().unwrap()
}

/// The server answers a datagram, and the client receives the answer.
fn answer(ends: &Ends, question: &Completion) {
    let ((client_cq, client), (cq, server)) = (&ends.client, &ends.server);
    let found = server.sender(question).unwrap();
    let at = client.endpoint();
    assert_eq!((found.number, found.gid), (at.number, at.gid));
    assert_eq!((found.qkey, found.mtu), (QKEY, at.mtu));
    for to in [
        server.answer_handle(question).unwrap(),
        server.address_handle(&found).unwrap(),
    ] {
        let room = ends.pd.buffer(HEADER + 8).unwrap();
        client.post_receive(ReceiveRequest::new(room)).unwrap();
        let message = SendRequest::send(filled(&ends.pd, b"answer"));
        let number = question.source;
        server.post_to(message, &to, number, found.qkey).unwrap();
        one(cq).success().unwrap();
        let done = one(client_cq).success().unwrap();
        assert_eq!(done.bytes, HEADER + 6);
        let buffer = done.into_buffer().unwrap();
        assert_eq!(&buffer[HEADER..HEADER + 6], b"answer");
    }
}

#[test]
fn a_received_datagram_is_answered() {
    let plain = |context: &Context| context.completion_queue(64).unwrap();
    let extended = |context: &Context| {
        let builder = context.completion_queue_builder(64);
        builder.timestamps().build().unwrap()
    };
    for ends in [ends(plain), ends(extended)] {
        let room = ends.pd.buffer(HEADER + 8).unwrap();
        let question = received(&ends, ReceiveRequest::new(room));
        answer(&ends, &question);
    }
}

#[test]
fn a_header_may_lie_in_several_pieces() {
    let ends = ends(|context| context.completion_queue(64).unwrap());
    let buffer = |length| -> Buffer { ends.pd.buffer(length).unwrap() };
    let region = ends.pd.memory_region(100, Access::LOCAL).unwrap();
    let slice = |range| Segment::Region(region.slice(range).unwrap());
    for room in [
        ReceiveRequest::new(buffer(9)).and(buffer(60)),
        ReceiveRequest::new(slice(1..20)).and(buffer(40)),
        ReceiveRequest::new(slice(50..100)),
    ] {
        let question = received(&ends, room);
        answer(&ends, &question);
    }
}

#[test]
fn only_received_datagrams_have_a_sender() {
    let ends = ends(|context| context.completion_queue(64).unwrap());
    let ((cq, client), (server_cq, server)) = (&ends.client, &ends.server);
    let errno = |qp: &QueuePair<Datagram>, completion: &Completion| {
        let refused = qp.sender(completion).unwrap_err();
        assert_eq!(refused.function(), "ibv_init_ah_from_wc");
        let no_handle = qp.answer_handle(completion).unwrap_err();
        assert_eq!(no_handle.function(), "ibv_create_ah_from_wc");
        assert_eq!(no_handle.errno(), refused.errno());
        refused.errno()
    };
    let room = || ReceiveRequest::new(ends.pd.buffer(HEADER + 8).unwrap());
    // One of another queue pair, which has another key and perhaps another port.
    let question = received(&ends, room());
    assert_eq!(errno(client, &question), libc::EINVAL);
    // One that was sent.
    let to = server.address_handle(&client.endpoint()).unwrap();
    let message = SendRequest::send(filled(&ends.pd, b"lost"));
    server.post_to(message, &to, client.number(), QKEY).unwrap();
    assert_eq!(errno(server, &one(server_cq)), libc::EINVAL);
    // One that was flushed.
    server.post_receive(room()).unwrap();
    server.shut_down().unwrap();
    assert_eq!(errno(server, &one(server_cq)), libc::EINVAL);
    assert!(cq.poll().unwrap().is_empty());
}
