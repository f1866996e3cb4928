//! Over the loopback interface.

use super::*;
use crate::errno::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsFd;

fn pair() -> (UdpSocket, UdpSocket) {
    let open = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let (left, right) = (open(), open());
    for socket in [&left, &right] {
        report_headers_v4(socket.as_fd()).expect("options");
    }
    (left, right)
}

fn to<'a>(socket: &UdpSocket, data: &'a [u8]) -> Datagram<'a> {
    Datagram {
        data,
        segment: None,
        source: IpAddr::V4(Ipv4Addr::LOCALHOST),
        destination: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: socket.local_addr().expect("bound").port(),
        interface: 0,
        hop_limit: 7,
        traffic_class: 0x28,
    }
}

#[test]
fn headers_come_along() {
    let (left, right) = pair();
    let mut receiver = Receiver::new();
    assert_eq!(receiver.receive(right.as_fd()), Err(Errno::AGAIN));
    let datagrams = [to(&right, b"one"), to(&right, b"another")];
    let sent = Datagrams(datagrams.into_iter()).send(left.as_fd());
    assert_eq!(sent, Ok(2));
    assert_eq!(receiver.receive(right.as_fd()), Ok(2));
    let first = receiver.received(0).expect("first");
    assert_eq!(first.data, b"one");
    assert_eq!(first.segment, 3);
    assert_eq!(first.source, IpAddr::V4(Ipv4Addr::LOCALHOST));
    assert_eq!(first.destination, IpAddr::V4(Ipv4Addr::LOCALHOST));
    assert_eq!(first.port, left.local_addr().expect("bound").port());
    assert_eq!((first.hop_limit, first.traffic_class), (7, 0x28));
    assert_ne!(first.interface, 0);
    assert_eq!(receiver.received(1).expect("second").data, b"another");
    assert_eq!(receiver.received(2), None);
}

#[test]
fn one_is_received_alone() {
    let (left, right) = pair();
    let mut receiver = Receiver::new();
    assert_eq!(receiver.receive_one(right.as_fd()), Err(Errno::AGAIN));
    let datagrams = [to(&right, b"one"), to(&right, b"another")];
    let sent = Datagrams(datagrams.into_iter()).send(left.as_fd());
    assert_eq!(sent, Ok(2));
    for data in [b"one".as_slice(), b"another"] {
        assert_eq!(receiver.receive_one(right.as_fd()), Ok(1));
        let received = receiver.received(0).expect("the datagram");
        assert_eq!((received.data, received.segment), (data, data.len()));
        assert_eq!((received.hop_limit, received.traffic_class), (7, 0x28));
        assert_eq!(receiver.received(1), None);
    }
    assert_eq!(receiver.receive_one(right.as_fd()), Err(Errno::AGAIN));
    assert_eq!(receiver.received(0), None);
}

#[test]
fn runs_are_cut_and_joined() {
    let (left, right) = pair();
    let mut receiver = Receiver::new();
    let bytes: Vec<u8> = (0..250).collect();
    let run = Datagram {
        segment: Some(100),
        ..to(&right, &bytes)
    };
    assert_eq!(Datagrams(std::iter::once(run)).send(left.as_fd()), Ok(1));
    assert_eq!(receiver.receive(right.as_fd()), Ok(3));
    assert_eq!(receiver.received(2).expect("last").data, &bytes[200..]);
    receive_runs(right.as_fd()).expect("runs");
    assert_eq!(Datagrams(std::iter::once(run)).send(left.as_fd()), Ok(1));
    assert_eq!(receiver.receive(right.as_fd()), Ok(1));
    let whole = receiver.received(0).expect("the run");
    assert_eq!((whole.data, whole.segment), (&bytes[..], 100));
}

#[test]
fn datagrams_without_a_checksum_come_in() {
    /// linux/udp.h
    const UDP_NO_CHECK6_TX: c_int = 101;
    let open = || UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).expect("a socket");
    let (left, right) = (open(), open());
    report_headers_v6(right.as_fd()).expect("options");
    set(left.as_fd(), libc::SOL_UDP, UDP_NO_CHECK6_TX, 1).expect("no checksum");
    let place = right.local_addr().expect("bound");
    let mut receiver = Receiver::new();
    left.send_to(b"dropped", place).expect("sent");
    assert_eq!(receiver.receive(right.as_fd()), Err(Errno::AGAIN));
    receive_without_checksum(right.as_fd()).expect("option");
    left.send_to(b"bare", place).expect("sent");
    assert_eq!(receiver.receive(right.as_fd()), Ok(1));
    assert_eq!(receiver.received(0).expect("bare").data, b"bare");
}

#[test]
fn failed_sends_are_an_errno() {
    let (left, right) = pair();
    let nowhere = Datagram {
        port: 0,
        ..to(&right, b"x")
    };
    let sent = Datagrams(std::iter::once(nowhere)).send(left.as_fd());
    assert_eq!(sent, Err(Errno::INVAL));
    assert_eq!(Datagrams(std::iter::empty()).send(left.as_fd()), Ok(0));
}
