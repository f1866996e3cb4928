//! Datagrams and multicast groups by the connection manager.

use std::{net::SocketAddr, thread, time::Duration};

use verbs::{
    Endpoint, ReceiveRequest, SendRequest,
    connection::{DatagramListener, Datagrams, Event, EventChannel, Id, Options},
};

use super::filled;

const TIME: Duration = Duration::from_secs(2);
/// Bytes of the global routing header.
const HEADER: usize = 40;

fn listener() -> (DatagramListener, SocketAddr) {
    verbs::use_uroce("lo");
    let listener = DatagramListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn alone() -> Datagrams {
    verbs::use_uroce("lo");
    Datagrams::bind("127.0.0.1:0").unwrap()
}

fn group(last: u8) -> SocketAddr {
    SocketAddr::from(([239, 77, 1, last], 0))
}

fn message(from: &Datagrams, bytes: &[u8]) -> SendRequest {
    SendRequest::send(filled(from.protection_domain(), bytes))
}

fn expect(at: &Datagrams) {
    let buffer = at.buffer(HEADER + 64).unwrap();
    at.post_receive(ReceiveRequest::new(buffer)).unwrap();
}

/// The bytes of received messages, among that many completions.
fn received(at: &Datagrams, count: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(at.completions().unwrap());
    }
    assert_eq!(all.len(), count);
    let all = all.into_iter().map(|one| one.success().unwrap());
    let messages = all.filter(|one| one.bytes > 0).map(|one| {
        let bytes = one.bytes;
        one.into_buffer().unwrap()[HEADER..bytes].to_vec()
    });
    messages.collect()
}

#[test]
fn both_ends_exchange_datagrams() {
    let (listener, address) = listener();
    let server = thread::spawn(move || {
        let request = listener.request().unwrap();
        assert!(request.private_data().starts_with(b"who"));
        assert_eq!(request.peer_addr().unwrap().ip().to_string(), "127.0.0.1");
        let options = Options::new().private_data(*b"me").receives(4);
        let datagrams = request.accept(&options).unwrap();
        assert!(datagrams.private_data().starts_with(b"who"));
        assert!(datagrams.peer().is_none());
        let refused = datagrams.post(message(&datagrams, b"-")).unwrap_err();
        assert_eq!(refused.error.errno(), libc::EDESTADDRREQ);
        assert!(refused.request.is_some());
        expect(&datagrams);
        datagrams
    });
    let options = Options::new().private_data(*b"who").inline(32);
    let client = options.connect_datagrams(address).unwrap();
    let server = server.join().unwrap();
    assert!(client.private_data().starts_with(b"me"));
    assert_eq!(client.peer_addr(), Some(address));
    let peer = client.peer().unwrap();
    let at = server.endpoint();
    assert_eq!((peer.number, peer.qkey), (at.number, at.qkey));

    expect(&client);
    client
        .post(message(&client, &client.endpoint().to_bytes()))
        .unwrap();
    let endpoint = received(&server, 1).remove(0);
    let peer = Endpoint::from_bytes(endpoint.try_into().unwrap());
    let peer = server.peer_at(&peer).unwrap();
    server.post_to(message(&server, b"answer"), &peer).unwrap();
    assert_eq!(received(&client, 2), [b"answer"]);
}

#[test]
fn a_datagram_is_answered_without_an_endpoint_in_it() {
    let (listener, address) = listener();
    let server = thread::spawn(move || {
        let server = alone();
        expect(&server);
        let request = listener.request().unwrap();
        request.accept_with(&server, b"").unwrap();
        let question = server.completions().unwrap().remove(0).success().unwrap();
        let sender = server.sender(&question).unwrap();
        server
            .post_to(message(&server, b"answer"), &sender)
            .unwrap();
        received(&server, 1);
        sender.number
    });
    let client = Datagrams::connect(address).unwrap();
    expect(&client);
    client.post(message(&client, b"question")).unwrap();
    assert_eq!(received(&client, 2), [b"answer"]);
    assert_eq!(server.join().unwrap(), client.endpoint().number);
}

#[test]
fn one_queue_pair_serves_many_peers() {
    let (listener, address) = listener();
    let server = thread::spawn(move || {
        let shared = alone();
        for number in 0..3 {
            expect(&shared);
            let request = listener.request().unwrap();
            request.accept_with(&shared, &[number]).unwrap();
        }
        received(&shared, 3)
    });
    let mut clients = Vec::new();
    for number in 0..3 {
        let client = Datagrams::connect(address).unwrap();
        assert_eq!(client.private_data()[0], number);
        client.post(message(&client, &[number])).unwrap();
        clients.push(client);
    }
    let mut messages = server.join().unwrap();
    messages.sort();
    assert_eq!(messages, [[0], [1], [2]]);
}

#[test]
fn requests_are_refused() {
    let (listener, address) = listener();
    let errno = |address: SocketAddr| {
        let refused = Datagrams::connect(address).unwrap_err();
        assert_eq!(refused.function(), "rdma_connect");
        refused.errno()
    };
    thread::scope(|scope| {
        scope.spawn(|| listener.request().unwrap().reject(b"no").unwrap());
        assert_eq!(errno(address), libc::ECONNREFUSED);
    });
    thread::scope(|scope| {
        scope.spawn(|| drop(listener.request().unwrap()));
        assert_eq!(errno(address), libc::ECONNREFUSED);
    });
    drop(listener);
    assert_eq!(errno(address), libc::ECONNREFUSED);
    let long = Options::new().private_data(vec![0; 200]);
    let refused = long.connect_datagrams(address).unwrap_err();
    assert_eq!(refused.errno(), libc::EINVAL);
}

#[test]
fn ids_of_datagrams() {
    verbs::use_uroce("lo");
    let events = EventChannel::new().unwrap();
    let listening = Id::datagrams(&events).unwrap();
    listening.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    listening.listen(1).unwrap();
    let id = Id::datagrams(&events).unwrap();
    assert!(id.is_datagram());
    id.resolve_address(listening.local_addr().unwrap(), TIME)
        .unwrap();
    let (reason, private_data) = loop {
        match events.wait().unwrap() {
            Event::AddressResolved { id } => {
                let early = id.request_datagrams(b"").unwrap_err();
                assert_eq!(early.errno(), libc::EINVAL);
                id.resolve_route(TIME).unwrap();
            }
            Event::RouteResolved { id } => id.request_datagrams(b"?").unwrap(),
            Event::ConnectRequest {
                listener,
                id,
                parameters,
            } => {
                assert!(listener == listening && id.is_datagram());
                assert!(parameters.private_data.starts_with(b"?"));
                assert_eq!(parameters.responder_resources, None);
                id.reject(b"first").unwrap();
            }
            Event::Rejected {
                reason,
                private_data,
                ..
            } => break (reason, private_data),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(reason, 2);
    assert!(private_data.starts_with(b"first"));

    // Each kind of id has its own queue pairs and calls.
    let pd = id.context().unwrap().protection_domain().unwrap();
    let cq = pd.context().completion_queue(64).unwrap();
    assert_eq!(
        id.prepare(pd.reliable(&cq)).unwrap_err().errno(),
        libc::EINVAL
    );
    let of_connections = Id::new(&events).unwrap();
    assert!(!of_connections.is_datagram());
    of_connections.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let refused = of_connections.datagram_queue_pair(pd.datagram(&cq));
    assert_eq!(refused.unwrap_err().errno(), libc::EINVAL);
    let refused = of_connections.join_multicast(group(9), false).unwrap_err();
    assert_eq!(refused.errno(), libc::EINVAL);
    let context = super::open();
    let other = context.protection_domain().unwrap();
    let cq = context.completion_queue(64).unwrap();
    let refused = id.datagram_queue_pair(other.datagram(&cq)).unwrap_err();
    assert_eq!(refused.errno(), libc::EINVAL);
    let qp = other.datagram(&cq).build(1).unwrap();
    let refused = id.accept_datagrams(&qp, b"").unwrap_err();
    assert_eq!(refused.errno(), libc::EINVAL);
}

#[test]
fn members_receive_the_messages_of_their_group() {
    let [a, b] = [alone(), alone()];
    let to = a.join(group(1)).unwrap();
    assert_eq!(to.number, 0x00ff_ffff);
    b.join(group(1)).unwrap();
    assert_eq!(a.join(group(1)).unwrap_err().errno(), libc::EADDRINUSE);
    expect(&a);
    expect(&b);
    a.post_to(message(&a, b"all"), &to).unwrap();
    assert_eq!(received(&a, 2), [b"all"]);
    assert_eq!(received(&b, 1), [b"all"]);

    // One that has left, and a member that only sends, receive nothing.
    b.leave(group(1)).unwrap();
    assert_eq!(b.leave(group(1)).unwrap_err().errno(), libc::EADDRNOTAVAIL);
    let to = b.join_send_only(group(1)).unwrap();
    expect(&a);
    expect(&b);
    b.post_to(message(&b, b"again"), &to).unwrap();
    assert_eq!(received(&a, 1), [b"again"]);
    assert_eq!(received(&b, 1), Vec::<Vec<u8>>::new());
    assert!(b.queue().poll().unwrap().is_empty());
    b.leave(group(1)).unwrap();
}

#[test]
fn a_group_is_joined_by_an_id() {
    verbs::use_uroce("lo");
    let events = EventChannel::new().unwrap();
    let id = Id::datagrams(&events).unwrap();
    let errno = |result: verbs::Result<()>| result.unwrap_err().errno();
    assert_eq!(errno(id.join_multicast(group(2), false)), libc::EINVAL);
    id.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    assert_eq!(errno(id.leave_multicast(group(2))), libc::EADDRNOTAVAIL);
    let six = "[ff05::1]:0".parse().unwrap();
    assert!(id.join_multicast(six, false).is_err());

    let groups = [group(2), group(3)];
    for group in groups {
        id.join_multicast(group, false).unwrap();
        assert_eq!(errno(id.join_multicast(group, true)), libc::EADDRINUSE);
    }
    let pd = id.context().unwrap().protection_domain().unwrap();
    let cq = pd.context().completion_queue(64).unwrap();
    let qp = id.datagram_queue_pair(pd.datagram(&cq)).unwrap();
    for expected in groups {
        match events.wait().unwrap() {
            Event::MulticastJoin {
                id: of,
                group,
                destination,
            } => {
                assert_eq!((&of, group), (&id, expected));
                assert_eq!(destination.qkey(), qp.endpoint().qkey);
                let SocketAddr::V4(address) = group else {
                    unreachable!()
                };
                assert_eq!(destination.gid(), address.ip().to_ipv6_mapped().octets());
                assert_eq!(destination.lid(), 0);
                destination.attach(&qp).unwrap();
                destination.detach(&qp).unwrap();
                assert!(destination.detach(&qp).is_err());
                destination.attach(&qp).unwrap();
                assert_eq!(destination.peer(&pd).unwrap().number, destination.number());
            }
            other => panic!("{other:?}"),
        }
    }
    id.leave_multicast(groups[0]).unwrap();
    id.join_multicast(groups[0], true).unwrap();
    // Left before its event was taken.
    id.leave_multicast(groups[0]).unwrap();
    assert!(events.poll().unwrap().is_none());
    // The group stays until the queue pair is dropped, whatever is dropped first.
    drop((id, events, cq, pd));
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn datagrams_on_tokio() {
    use verbs::connection::{AsyncDatagramListener, AsyncDatagrams};
    verbs::use_uroce("lo");
    let listener = AsyncDatagramListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let server = listener.accept().await.unwrap();
        server.join(group(4)).await.unwrap();
        expect(&server);
        expect(&server);
        let request = listener.request().await.unwrap();
        request.accept_with(&server, b"ready").unwrap();
        let mut count = 0;
        while count < 2 {
            count += server.completions().await.unwrap().len();
        }
        listener.request().await.unwrap().reject(b"").unwrap();
    });
    let first = AsyncDatagrams::connect(address).await.unwrap();
    let client = AsyncDatagrams::connect(address).await.unwrap();
    assert!(client.private_data().starts_with(b"ready"));
    client.post(message(&client, b"direct")).unwrap();
    let to = first.join_send_only(group(4)).await.unwrap();
    first.post_to(message(&first, b"to all"), &to).unwrap();
    assert_eq!(first.completions().await.unwrap().len(), 1);
    let refused = AsyncDatagrams::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    server.await.unwrap();
}
