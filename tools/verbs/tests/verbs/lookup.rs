//! Addresses of names.

use std::{net::ToSocketAddrs, thread};

use verbs::{
    abi,
    connection::{Address, Connection, DatagramListener, Datagrams, Listener, Lookup},
};

fn only(mut all: Vec<Address>) -> Address {
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn an_address_has_the_type_of_its_port_space() {
    verbs::use_uroce("lo");
    let find = |lookup: &Lookup| only(lookup.find(Some("127.0.0.1"), Some("7471")).unwrap());
    let address = Some("127.0.0.1:7471".parse().unwrap());
    let to = find(&Lookup::new().reliable());
    assert_eq!(
        (to.queue_pair_type, to.port_space),
        (abi::IBV_QPT_RC, 0x106)
    );
    assert_eq!((to.source, to.destination), (None, address));
    assert_eq!(to.family, libc::AF_INET);
    assert!(!to.is_passive() && !to.is_datagram());
    assert!(to.route.is_empty() && to.connect.is_empty());
    let at = find(&Lookup::new().datagrams().passive().numeric_host().ipv4());
    assert_eq!(
        (at.queue_pair_type, at.port_space),
        (abi::IBV_QPT_UD, 0x111)
    );
    assert_eq!((at.source, at.destination), (address, None));
    assert!(at.is_passive() && at.is_datagram());
    let both = Lookup::new().source("127.0.0.1:5".parse().unwrap());
    let both = find(&both);
    assert_eq!(both.source, Some("127.0.0.1:5".parse().unwrap()));
    assert_eq!(both.destination, address);
    // Hints alone.
    let given = Lookup::new().destination("[::1]:9".parse().unwrap());
    let given = only(given.find(None, None).unwrap());
    assert_eq!(given.to_socket_addrs().unwrap().count(), 1);
    let all = Lookup::new().passive().ipv4().find(None, Some("7471"));
    assert_eq!(
        only(all.unwrap()).source,
        Some("0.0.0.0:7471".parse().unwrap())
    );
}

#[test]
fn both_ends_find_each_other() {
    verbs::use_uroce("lo");
    let here = |lookup: Lookup| only(lookup.passive().find(Some("127.0.0.1"), Some("0")).unwrap());
    let there = |lookup: Lookup, port: u16| {
        let port = port.to_string();
        only(lookup.find(Some("localhost"), Some(&port)).unwrap())
    };
    let listener = Listener::bind(here(Lookup::new().reliable())).unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepted = thread::spawn(move || listener.accept().unwrap());
    let connection = Connection::connect(there(Lookup::new().reliable().ipv4(), port)).unwrap();
    assert_eq!(
        accepted.join().unwrap().local_addr(),
        connection.peer_addr()
    );
    let listener = DatagramListener::bind(here(Lookup::new().datagrams())).unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepted = thread::spawn(move || listener.accept().unwrap());
    let datagrams = Datagrams::connect(there(Lookup::new().datagrams().ipv4(), port)).unwrap();
    let server = accepted.join().unwrap();
    assert_eq!(datagrams.peer().unwrap().number, server.endpoint().number);
}

#[test]
fn a_question_without_an_answer() {
    verbs::use_uroce("lo");
    let errno = |node, service| {
        let refused = Lookup::new().find(node, service).unwrap_err();
        assert_eq!(refused.function(), "rdma_getaddrinfo");
        refused.errno()
    };
    assert_eq!(errno(None, None), libc::EINVAL);
    assert_eq!(errno(Some("a\0b"), None), libc::EINVAL);
    assert_eq!(
        errno(Some("127.0.0.1"), Some("no-such-service")),
        libc::EADDRNOTAVAIL
    );
    let name = Lookup::new().numeric_host().find(Some("localhost"), None);
    assert_eq!(name.unwrap_err().errno(), libc::EADDRNOTAVAIL);
}
