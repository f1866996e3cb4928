//! Connections over uroce on the loopback interface, in one process.

#![cfg(all(feature = "connection", not(feature = "system")))]
#![allow(clippy::unwrap_used)] // a test that cannot continue ends

use std::{net::SocketAddr, thread, time::Duration};

use verbs::{
    Access, Completion, Ece, ReceiveRequest, Reliable, SendRequest,
    connection::{
        Connection, Event, EventChannel, Id, Listener, Options, Parameters, PreparedQueuePair,
    },
};

const TIME: Duration = Duration::from_secs(2);

fn listener() -> (Listener, SocketAddr) {
    verbs::use_uroce("lo");
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Two connected ends: the connecting one, and the accepting one.
fn pair(options: &Options) -> (Connection, Connection) {
    let (listener, address) = listener();
    let mut ends = None;
    thread::scope(|scope| {
        let accepted = scope.spawn(|| listener.accept_with(options));
        let connected = options.connect(address).unwrap();
        ends = Some((connected, accepted.join().unwrap().unwrap()));
    });
    ends.unwrap()
}

fn one(connection: &Connection) -> Completion {
    let mut all = connection.completions().unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn send(connection: &Connection, bytes: &[u8]) {
    let mut message = connection.buffer(bytes.len()).unwrap();
    message.copy_from_slice(bytes);
    connection.post(SendRequest::send(message)).unwrap();
    one(connection).success().unwrap();
}

fn room(connection: &Connection) -> ReceiveRequest {
    ReceiveRequest::new(connection.buffer(64).unwrap())
}

fn receive(connection: &Connection) -> Vec<u8> {
    let completion = one(connection).success().unwrap();
    let bytes = completion.bytes;
    completion.into_buffer().unwrap()[..bytes].to_vec()
}

#[test]
fn both_ends_exchange_messages() {
    let (a, b) = pair(&Options::new());
    assert_eq!(a.peer_addr(), b.local_addr());
    assert_eq!(a.peer_addr().unwrap().ip().to_string(), "127.0.0.1");
    b.post_receive(room(&b)).unwrap();
    a.post_receive(room(&a)).unwrap();
    send(&a, b"there");
    assert_eq!(receive(&b), b"there");
    send(&b, b"and back");
    assert_eq!(receive(&a), b"and back");
    assert!(a.is_connected().unwrap() && b.is_connected().unwrap());
}

#[test]
fn a_connection_over_ipv6() {
    verbs::use_uroce("lo");
    let Ok(listener) = Listener::bind("[::1]:0") else {
        return; // a machine without IPv6
    };
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let connection = listener.accept().unwrap();
        connection.post_receive(room(&connection)).unwrap();
        receive(&connection)
    });
    let connection = Connection::connect(address).unwrap();
    send(&connection, b"six");
    assert_eq!(server.join().unwrap(), b"six");
}

#[test]
fn private_data_and_settings_arrive() {
    let (listener, address) = listener();
    let server = thread::spawn(move || {
        let request = listener.request().unwrap();
        assert!(request.private_data().starts_with(b"who"));
        assert_eq!(request.peer_addr().unwrap().ip().to_string(), "127.0.0.1");
        let options = Options::new()
            .private_data(*b"me")
            .access(Access::REMOTE_WRITE);
        let connection = request.accept(&options).unwrap();
        let region = connection.protection_domain();
        let region = region.memory_region(64, Access::REMOTE_WRITE).unwrap();
        let mut message = connection.buffer(20).unwrap();
        message.copy_from_slice(&region.remote().to_bytes());
        connection.post(SendRequest::send(message)).unwrap();
        one(&connection).success().unwrap();
        connection.post_receive(ReceiveRequest::empty()).unwrap();
        assert_eq!(one(&connection).success().unwrap().immediate, Some(9));
        let mut bytes = [0; 7];
        region.read(0, &mut bytes).unwrap();
        bytes
    });
    let options = Options::new().private_data(*b"who").inline(32);
    let connection = options.connect(address).unwrap();
    assert!(connection.private_data().starts_with(b"me"));
    connection.post_receive(room(&connection)).unwrap();
    let received = receive(&connection);
    let remote = verbs::RemoteMemory::from_bytes(received.try_into().unwrap());
    let written = SendRequest::write_inline(*b"written", remote).immediate(9);
    connection.post(written).unwrap();
    one(&connection).success().unwrap();
    assert_eq!(&server.join().unwrap(), b"written");
}

#[test]
fn an_address_without_a_listener() {
    let (listener, address) = listener();
    drop(listener);
    let refused = Connection::connect(address).unwrap_err();
    assert_eq!(
        (refused.function(), refused.errno()),
        ("rdma_connect", libc::ECONNREFUSED)
    );
}

#[test]
fn an_address_without_a_device_fails() {
    verbs::use_uroce("lo");
    // An address for documentation (RFC 5737).
    let refused = Options::new().connect("192.0.2.1:7471").unwrap_err();
    assert_ne!(refused.errno(), 0);
    assert!(Listener::bind("192.0.2.1:7471").is_err());
}

#[test]
fn a_program_rejects_a_request() {
    let (listener, address) = listener();
    let events = EventChannel::new().unwrap();
    let id = Id::new(&events).unwrap();
    let qp = resolved(&events, &id, address);
    id.connect(&qp, &Parameters::default()).unwrap();
    listener.request().unwrap().reject(b"no").unwrap();
    match events.wait().unwrap() {
        Event::Rejected {
            id: of,
            reason,
            private_data,
        } => {
            assert_eq!((of, reason), (id, 28));
            assert!(private_data.starts_with(b"no"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_that_is_dropped_is_rejected() {
    let (listener, address) = listener();
    let server = thread::spawn(move || drop(listener.request().unwrap()));
    let refused = Connection::connect(address).unwrap_err();
    assert_eq!(refused.errno(), libc::ECONNREFUSED);
    server.join().unwrap();
}

/// Takes an id to the queue pair with which it can connect.
fn resolved(events: &EventChannel, id: &Id, address: SocketAddr) -> PreparedQueuePair {
    id.resolve_address(address, TIME).unwrap();
    assert!(matches!(events.wait().unwrap(), Event::AddressResolved { id: of } if of == *id));
    id.resolve_route(TIME).unwrap();
    assert!(matches!(
        events.wait().unwrap(),
        Event::RouteResolved { .. }
    ));
    let pd = id.context().unwrap().protection_domain().unwrap();
    let cq = pd.context().completion_queue(64).unwrap();
    id.prepare(pd.reliable(&cq)).unwrap()
}

#[test]
fn one_channel_serves_both_ends_and_they_share_a_domain() {
    verbs::use_uroce("lo");
    let events = EventChannel::new().unwrap();
    let listening = Id::new(&events).unwrap();
    listening.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    listening.listen(1).unwrap();
    let id = Id::new(&events).unwrap();
    assert!(id.context().is_none());
    id.resolve_address(listening.local_addr().unwrap(), TIME)
        .unwrap();
    let (mut shared, mut prepared, mut accepting, mut ends) = (None, None, None, Vec::new());
    while ends.len() < 2 {
        match events.wait().unwrap() {
            Event::AddressResolved { id } => id.resolve_route(TIME).unwrap(),
            Event::RouteResolved { id } => {
                let pd = id.context().unwrap().protection_domain().unwrap();
                let cq = pd.context().completion_queue(128).unwrap();
                let qp = id.prepare(pd.reliable(&cq)).unwrap();
                qp.post_receive(ReceiveRequest::new(pd.buffer(8).unwrap()))
                    .unwrap();
                id.connect(&qp, &Parameters::default()).unwrap();
                (shared, prepared) = (Some((pd, cq)), Some(qp));
            }
            Event::ConnectRequest {
                listener,
                id,
                parameters,
            } => {
                assert!(listener == listening);
                assert!(parameters.responder_resources.unwrap() > 0);
                let (pd, cq) = shared.as_ref().unwrap();
                let qp = id.prepare(pd.reliable(cq)).unwrap();
                accepting = Some((id.accept(qp, &Parameters::default()).unwrap(), id));
            }
            Event::ConnectResponse { id, .. } => {
                let qp = id.establish(prepared.take().unwrap()).unwrap();
                ends.push((qp, id));
            }
            Event::Established { .. } => ends.push(accepting.take().unwrap()),
            other => panic!("{other:?}"),
        }
    }
    let (pd, cq) = shared.unwrap();
    // The end that accepted is the one without a receive request.
    let accepted = ends.iter().find(|(_, of)| *of != id).unwrap();
    accepted
        .0
        .post(SendRequest::send(pd.buffer(8).unwrap()))
        .unwrap();
    let mut done = Vec::new();
    while done.len() < 2 {
        done.extend(cq.wait().unwrap());
    }
    assert!(done.iter().all(|one| one.result.is_ok()));

    id.disconnect().unwrap();
    let mut gone = 0;
    while gone < 2 {
        if let Event::Disconnected { id: of } = events.wait().unwrap() {
            gone += 1;
            // The answer, without which the other end waits for some time.
            assert!(of == id || of.disconnect().is_ok());
        }
    }
}

#[test]
fn a_peer_that_is_dropped_ends_the_connection() {
    let (a, b) = pair(&Options::new());
    b.post_receive(room(&b)).unwrap();
    drop(a);
    let completion = one(&b);
    assert!(completion.result.unwrap_err().is_flushed());
    assert_eq!(completion.into_buffer().unwrap().len(), 64);
    let over = b.completions().unwrap_err();
    assert_eq!(over.errno(), libc::ENOTCONN);
    assert!(!b.is_connected().unwrap());
}

#[test]
fn all_threads_that_wait_see_the_end() {
    let (a, b) = pair(&Options::new());
    thread::scope(|scope| {
        let waiting = [(); 3].map(|()| scope.spawn(|| b.completions().unwrap_err().errno()));
        a.disconnect().unwrap();
        for one in waiting {
            assert_eq!(one.join().unwrap(), libc::ENOTCONN);
        }
    });
    assert_eq!(a.completions().unwrap_err().errno(), libc::ENOTCONN);
}

#[test]
fn objects_may_be_dropped_in_any_order() {
    for order in 0..4 {
        let (listener, address) = listener();
        let events = EventChannel::new().unwrap();
        let id = Id::new(&events).unwrap();
        let server = thread::spawn(move || listener.accept());
        let qp = resolved(&events, &id, address);
        id.connect(&qp, &Parameters::default()).unwrap();
        assert!(matches!(
            events.wait().unwrap(),
            Event::ConnectResponse { .. }
        ));
        let qp = id.establish(qp).unwrap();
        match order {
            0 => (drop(qp), drop(id), drop(events)).0,
            1 => (drop(events), drop(id), drop(qp)).0,
            2 => (drop(id), drop(events), drop(qp)).0,
            // Events wait that are not taken.
            _ => {
                id.disconnect().unwrap();
                drop((id, qp));
            }
        }
        // The end may have come before the connection was complete.
        drop(server.join().unwrap());
    }
}

#[test]
fn an_id_dropped_while_a_thread_waits_for_its_events() {
    let (listener, address) = listener();
    let events = EventChannel::new().unwrap();
    let waiting = thread::spawn({
        let events = events.clone();
        move || events.wait().map(|event| event.id().local_addr())
    });
    for _ in 0..50 {
        let id = Id::new(&events).unwrap();
        id.resolve_address(address, TIME).unwrap();
    }
    // One that stays, so that the thread ends.
    let id = Id::new(&events).unwrap();
    id.resolve_address(address, TIME).unwrap();
    waiting.join().unwrap().unwrap();
    drop(listener);
}

#[test]
fn calls_in_the_wrong_state_fail() {
    let (listener, address) = listener();
    let events = EventChannel::new().unwrap();
    let id = Id::new(&events).unwrap();
    assert!(id.resolve_route(TIME).is_err());
    assert!(id.disconnect().is_err());
    assert!(id.reject(b"").is_err());
    assert!(events.poll().unwrap().is_none());
    assert!(events.wait_for(Duration::from_millis(1)).unwrap().is_none());
    let qp = resolved(&events, &id, address);
    assert!(id.establish(qp).is_err());

    // Objects of a device that the program opened itself.
    let context = verbs::Device::find("uroce_lo").unwrap().open().unwrap();
    let pd = context.protection_domain().unwrap();
    let cq = context.completion_queue(64).unwrap();
    let builder: verbs::QueuePairBuilder<Reliable> = pd.reliable(&cq);
    let refused = id.prepare(builder).unwrap_err();
    assert_eq!(refused.errno(), libc::EINVAL);
    assert!(refused.reason().is_some());

    let long = Options::new().private_data(vec![0; 300]);
    assert_eq!(long.connect(address).unwrap_err().errno(), libc::EINVAL);
    assert!(Listener::bind(address).is_err());
    drop(listener);
}

#[test]
fn an_event_moves_along_with_its_id() {
    let (_listener, address) = listener();
    let [first, second] = [(); 2].map(|()| EventChannel::new().unwrap());
    let id = Id::new(&first).unwrap();
    id.resolve_address(address, TIME).unwrap();
    id.migrate(&second).unwrap();
    drop(first);
    assert!(matches!(second.wait().unwrap(), Event::AddressResolved { id: of } if of == id));
}

#[test]
fn ece_options_of_both_ends_arrive() {
    let ece = |options| Ece {
        vendor_id: 0x15b3,
        options,
    };
    let (listener, address) = listener();
    drop(listener);
    let events = EventChannel::new().unwrap();
    let listening = Id::new(&events).unwrap();
    listening.bind(address).unwrap();
    listening.listen(1).unwrap();
    let id = Id::new(&events).unwrap();
    let qp = resolved(&events, &id, address);
    assert_eq!(id.remote_ece().unwrap(), Ece::default());
    let refused = id.set_local_ece(Ece::default()).unwrap_err();
    assert_eq!(
        (refused.function(), refused.errno()),
        ("rdma_set_local_ece", libc::EINVAL)
    );
    id.set_local_ece(ece(3)).unwrap();
    id.connect(&qp, &Parameters::default()).unwrap();
    let (mut connecting, mut ends) = (Some(qp), Vec::new());
    while ends.len() < 2 {
        match events.wait().unwrap() {
            Event::ConnectRequest { id, .. } => {
                assert_eq!(id.remote_ece().unwrap(), ece(3));
                let pd = id.context().unwrap().protection_domain().unwrap();
                let cq = pd.context().completion_queue(64).unwrap();
                let qp = id.prepare(pd.reliable(&cq)).unwrap();
                // The device has no options.
                for errno in [
                    qp.set_ece(ece(3)).unwrap_err().errno(),
                    qp.ece().unwrap_err().errno(),
                ] {
                    assert_eq!(errno, libc::EOPNOTSUPP);
                }
                id.set_local_ece(ece(2)).unwrap();
                ends.push((id.accept(qp, &Parameters::default()).unwrap(), id));
            }
            Event::ConnectResponse { id, .. } => {
                assert_eq!(id.remote_ece().unwrap(), ece(2));
                let qp = id.establish(connecting.take().unwrap()).unwrap();
                ends.push((qp, id));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_request_is_rejected_for_its_ece_options() {
    verbs::use_uroce("lo");
    let events = EventChannel::new().unwrap();
    let listening = Id::new(&events).unwrap();
    listening.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    listening.listen(1).unwrap();
    let id = Id::new(&events).unwrap();
    let qp = resolved(&events, &id, listening.local_addr().unwrap());
    id.connect(&qp, &Parameters::default()).unwrap();
    loop {
        match events.wait().unwrap() {
            Event::ConnectRequest { id, .. } => id.reject_ece(b"other").unwrap(),
            Event::Rejected {
                reason,
                private_data,
                ..
            } => {
                assert_eq!(reason, 35);
                assert!(private_data.starts_with(b"other"));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn connections_on_tokio() {
    use verbs::connection::{AsyncConnection, AsyncListener};
    verbs::use_uroce("lo");
    let listener = AsyncListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut sums = Vec::new();
        for _ in 0..3 {
            let connection = listener.accept().await.unwrap();
            connection.post_receive(room(&connection)).unwrap();
            let done = connection.completions().await.unwrap();
            sums.extend(done.iter().map(|one| one.bytes));
            let over = connection.completions().await.unwrap_err();
            assert_eq!(over.kind(), std::io::ErrorKind::NotConnected);
        }
        sums
    });
    for _ in 0..3 {
        let connection = AsyncConnection::connect(address).await.unwrap();
        let message = connection.buffer(9).unwrap();
        connection.post(SendRequest::send(message)).unwrap();
        for completion in connection.completions().await.unwrap() {
            completion.success().unwrap();
        }
    }
    assert_eq!(server.await.unwrap(), [9, 9, 9]);
    let refused = AsyncConnection::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}
