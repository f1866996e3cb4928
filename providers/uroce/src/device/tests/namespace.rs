//! Ports on the real kernel, in a network namespace of the test's own.

use super::*;
use crate::list::devices;
use crate::namespace;
use crate::node::Node;
use kit::sys::ready::{self, ReadyTo};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::mpsc;

#[test]
fn in_a_namespace() {
    if !namespace::is_root() {
        eprintln!("skipped: network namespaces need root");
        return;
    }
    namespace::run("device::tests::namespace::inside", &[], &["--exact"]);
}

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).status();
    assert!(done.expect("ip runs").success(), "ip {arguments}");
}

fn batch(text: &str) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    let path = file.path().to_str().expect("a path");
    ip(&format!("-batch {path}"));
}

/// The listing's names, and the complaints.
fn names(variable: &str) -> (String, usize) {
    let listing = devices(Some(OsStr::new(variable)));
    let names: Vec<_> = listing.devices.into_iter().map(|d| d.name).collect();
    (names.join(" "), listing.complaints.len())
}

/// Waits for notifications, and processes them.
fn wait(follower: &Follower) {
    ready::wait(follower.as_fd(), ReadyTo::Read, None).expect("notifications come");
    follower.follow().expect("listed");
}

#[test]
#[ignore = "in_a_namespace runs it, where the namespace is"]
fn inside() {
    if !namespace::there() {
        return;
    }
    assert_eq!(names("lo"), ("uroce_lo".to_owned(), 0));
    assert_eq!(names("v0,lo"), ("uroce_lo".to_owned(), 1));
    ip("link add v0 address 02:00:00:00:00:0a type veth peer name v1");
    assert_eq!(names("v0,lo"), ("uroce_lo uroce_v0".to_owned(), 0));
    let listing = devices(Some(OsStr::new("v0")));
    let first = &listing.devices[0];
    assert_ne!(first.guid, 0x0000_00ff_fe00_000a, "the EUI-64");
    follows(first.interface);
    // The same name again is another device.
    assert_eq!(names("v0"), (String::new(), 1));
    ip("link add v0 type veth peer name v1");
    let again = devices(Some(OsStr::new("v0")));
    assert_ne!(again.devices[0].interface, first.interface);
    fills(again.devices[0].interface);
    by_the_node(again.devices[0].interface);
    under_threads(again.devices[0].interface);
    routes(again.devices[0].interface);
}

/// A path exists only if a route leads to it, by the interface.
fn routes(interface: u32) {
    use crate::netdev::route::look_up;
    let from = |source: &str, destination: &str, interface| {
        let parse = |text: &str| text.parse().expect("an address");
        look_up(parse(source), parse(destination), interface)
    };
    ip("link set v0 up");
    batch("addr add 10.78.0.1/24 dev v0\naddr add fd00:78::1/64 dev v0 nodad\n");
    batch("route add unreachable 203.0.113.0/24\nroute add prohibit 198.51.100.0/24\n");
    let unreachable = Err(Errno(libc::EHOSTUNREACH));
    let v0 = |destination| from("10.78.0.1", destination, interface);
    assert_eq!(v0("10.78.0.2"), Ok(()), "a neighbour that is not asked for");
    assert_eq!(v0("10.78.0.1"), Ok(()));
    for nowhere in ["10.99.99.99", "203.0.113.7", "240.0.0.1", "127.0.0.1"] {
        assert_eq!(v0(nowhere), unreachable, "{nowhere}");
    }
    assert!(v0("198.51.100.1").is_err());
    let v6 = |destination| from("fd00:78::1", destination, interface);
    assert_eq!(v6("fd00:78::2"), Ok(()));
    assert_eq!(v6("fe80::1"), Ok(()));
    assert_eq!(v6("2001:db8::1"), Err(Errno(libc::ENETUNREACH)));
    ip("route add default via 10.78.0.9 dev v0");
    assert_eq!(v0("10.99.99.99"), Ok(()));
    let lo = |destination| from("127.0.0.1", destination, 1);
    assert_eq!(lo("127.5.0.1"), Ok(()));
    assert_eq!(lo("10.99.99.99"), unreachable, "by another interface");
    // An address to which only the routes of one source address lead.
    ip("rule add from 10.78.0.1 lookup 100");
    batch("route del default\nroute add 10.99.0.0/16 via 10.78.0.9 dev v0 table 100\n");
    assert_eq!(v0("10.99.99.99"), Ok(()));
    assert_eq!(v0("10.98.0.1"), unreachable);
}

/// Addresses and state come and go; in the end the interface does.
fn follows(interface: u32) {
    let port = ports().expect("there").of(interface).expect("a port");
    let events = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&events);
    let _listener = port.subscribe(move |event| kept.lock().push(event));
    let follower = Follower::new().expect("listening");
    let address = |index| port.address(index).map(|address| address.to_string());
    // Until the port reports the event.
    let until = |event| {
        while !events.lock().contains(&event) {
            wait(&follower);
        }
        events.lock().clear();
    };
    ip("addr add 10.77.0.1/24 dev v0");
    until(IBV_EVENT_GID_CHANGE);
    assert_eq!(address(0).as_deref(), Ok("10.77.0.1"));
    ip("link set v1 up");
    ip("link set v0 up");
    until(IBV_EVENT_PORT_ACTIVE);
    ip("addr add 10.77.0.2/24 dev v0");
    until(IBV_EVENT_GID_CHANGE);
    let place = port.gid_table().iter().find_map(|entry| {
        let ours = entry.gid.bytes() == gid_of([10, 77, 0, 2].into()).bytes();
        ours.then_some(entry.gid_index)
    });
    let place = place.expect("in the table");
    // Taking away the first takes away its second addresses, unless they are promoted.
    std::fs::write("/proc/sys/net/ipv4/conf/v0/promote_secondaries", "1").expect("written");
    ip("addr del 10.77.0.1/24 dev v0");
    until(IBV_EVENT_GID_CHANGE);
    assert_eq!(address(0), Err(Errno::NODATA));
    assert_eq!(address(place).as_deref(), Ok("10.77.0.2"));
    ip("link set v1 down");
    until(IBV_EVENT_PORT_ERR);
    let mut attr = bytemuck::Zeroable::zeroed();
    port.query(&mut attr);
    assert_eq!((attr.state, attr.phys_state), (IBV_PORT_DOWN, 2));
    ip("link set v0 mtu 9000");
    while port.mtu() != Mtu::B4096 {
        wait(&follower);
    }
    ip("link del v0");
    until(IBV_EVENT_DEVICE_FATAL);
    assert!(port.is_gone());
    let gone = ports().expect("there").of(interface);
    assert_eq!(gone.err(), Some(Errno::NODEV));
}

/// Every place of the table can be filled.
fn fills(interface: u32) {
    let port = ports().expect("there").of(interface).expect("a port");
    batch(&(0..260).fold(String::new(), |text, n| {
        text + &format!("addr add 10.88.{}.{}/32 dev v0\n", n / 256, n % 256)
    }));
    assert_eq!(port.gid_table().len(), 256);
    assert!(port.gid_entry(1, PLACES - 1).is_ok());
}

/// With a node, ports follow by themselves; without one again, they ask when they are queried.
fn by_the_node(interface: u32) {
    let port = ports().expect("there").of(interface).expect("a port");
    let (report, reported) = mpsc::channel();
    let _listener = port.subscribe(move |event| report.send(event).expect("heard"));
    let node = Node::get().expect("a node");
    ip("addr flush dev v0");
    while !port.state.read().gids.in_use().eq([]) {
        assert_eq!(reported.recv(), Ok(IBV_EVENT_GID_CHANGE));
    }
    ip("link set v1 up");
    ip("link set v0 up");
    while reported.recv() != Ok(IBV_EVENT_PORT_ACTIVE) {}
    drop(node);
    ip("link set v0 down");
    assert!(port.state.read().link.is_active(), "it was not reported");
    let mut attr = bytemuck::Zeroable::zeroed();
    port.query(&mut attr);
    assert_eq!(attr.state, IBV_PORT_DOWN);
}

/// An address that stays keeps its place while others come and go and threads look on.
fn under_threads(interface: u32) {
    ip("addr flush dev v0");
    ip("addr add 10.99.0.1/32 dev v0");
    let port = ports().expect("there").of(interface).expect("a port");
    let node = Node::get().expect("a node");
    let place = |address: [u8; 4]| {
        let gid = gid_of(address.into()).bytes();
        let table = port.gid_table();
        table
            .iter()
            .find(|entry| entry.gid.bytes() == gid)
            .map(|entry| entry.gid_index)
    };
    ports().expect("there").look().expect("listed");
    let before = place([10, 99, 0, 1]);
    assert!(before.is_some());
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    assert_eq!(names("v0").0, "uroce_v0");
                    assert_eq!(place([10, 99, 0, 1]), before);
                }
            });
        }
        for _ in 0..10 {
            batch(&(1..40).fold(String::new(), |text, n| {
                text + &format!("addr add 10.98.0.{n}/32 dev v0\n")
            }));
            batch(&(1..40).fold(String::new(), |text, n| {
                text + &format!("addr del 10.98.0.{n}/32 dev v0\n")
            }));
        }
        over.store(true, Ordering::SeqCst);
    });
    ports().expect("there").look().expect("listed");
    assert_eq!(place([10, 99, 0, 1]), before);
    assert_eq!(port.gid_table().len(), 1);
    drop(node);
}
