use super::*;
use crate::netdev::Interface;
use kit::abi::*;
use kit::errno::Errno;
use kit::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use uroce_engine::qp::Mtu;

mod namespace;

fn interface(addresses: &[&str]) -> Interface {
    Interface {
        name: "eth0".to_owned(),
        index: 7,
        mtu: 1500,
        mac: Some([2, 0, 0, 0, 0, 1]),
        up: true,
        running: true,
        has_neighbours: true,
        speed: Some(10_000),
        addresses: addresses.iter().map(|a| a.parse().expect("ip")).collect(),
    }
}

/// A port, and the events that it has reported.
struct ObservedPort {
    port: Port,
    events: Arc<Mutex<Vec<ibv_event_type>>>,
    _listener: Arc<Listener>,
}

impl ObservedPort {
    fn new(interface: &Interface) -> Self {
        let port = Port::new(interface);
        let events = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&events);
        let listener = port.subscribe(move |event| kept.lock().push(event));
        Self {
            port,
            events,
            _listener: listener,
        }
    }

    fn follow(&self, interface: Option<&Interface>) -> Vec<ibv_event_type> {
        self.port.follow(interface);
        std::mem::take(&mut *self.events.lock())
    }
}

#[test]
fn events() {
    let there = interface(&["10.0.0.1"]);
    let reported = ObservedPort::new(&there);
    assert_eq!(reported.follow(Some(&there)), []);
    let more = interface(&["10.0.0.1", "fd00::1"]);
    assert_eq!(reported.follow(Some(&more)), [IBV_EVENT_GID_CHANGE]);
    let down = Interface {
        running: false,
        ..more.clone()
    };
    assert_eq!(reported.follow(Some(&down)), [IBV_EVENT_PORT_ERR]);
    let both = [IBV_EVENT_GID_CHANGE, IBV_EVENT_PORT_ACTIVE];
    assert_eq!(reported.follow(Some(&there)), both);
    let jumbo = Interface {
        mtu: 9000,
        ..there.clone()
    };
    assert_eq!(reported.follow(Some(&jumbo)), []);
    assert_eq!(reported.port.mtu(), Mtu::B4096);
    assert_eq!(reported.follow(None), [IBV_EVENT_DEVICE_FATAL]);
    assert!(reported.port.is_gone());
    assert_eq!(reported.follow(None), [], "reported once");
    assert_eq!(reported.follow(Some(&there)), [], "gone for good");
    assert_eq!(reported.port.address(0), Err(Errno::NODATA));
}

#[test]
fn a_closed_subscription_gets_no_events() {
    let there = interface(&[]);
    let port = Port::new(&there);
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let listener = port.subscribe(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    port.follow(Some(&interface(&["10.0.0.1"])));
    assert_eq!(count.load(Ordering::SeqCst), 1);
    drop(listener);
    port.follow(Some(&there));
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn a_listener_may_read_the_port_and_subscribe() {
    let port = Arc::new(Port::new(&interface(&["10.0.0.1"])));
    let (asked, answer) = (Arc::downgrade(&port), Arc::new(Mutex::new(None)));
    let kept = Arc::clone(&answer);
    let _listener = port.subscribe(move |_| {
        let port = asked.upgrade().expect("alive");
        let unsubscribed = port.subscribe(|_| ());
        *kept.lock() = Some((port.address(0), port.mtu()));
        drop(unsubscribed);
    });
    port.follow(Some(&interface(&["10.0.0.2"])));
    let expected = (Ok([10, 0, 0, 2].into()), Mtu::B1024);
    assert_eq!(*answer.lock(), Some(expected));
}

#[test]
fn tables() {
    let port = Port::new(&interface(&["10.0.0.1", "fe80::1"]));
    let entry = port.gid_entry(1, 0).expect("in use");
    assert_eq!(entry.gid.bytes()[10..], [0xff, 0xff, 10, 0, 0, 1]);
    assert_eq!((entry.gid_index, entry.port_num), (0, 1));
    assert_eq!(
        (entry.gid_type, entry.ndev_ifindex),
        (IBV_GID_TYPE_ROCE_V2, 7)
    );
    assert_eq!(port.gid_entry(1, 255).err(), Some(Errno::NODATA));
    assert_eq!(port.gid_entry(1, 256).err(), Some(Errno::INVAL));
    assert_eq!(port.gid_entry(0, 0).err(), Some(Errno::INVAL));
    assert_eq!(port.gid_entry(2, 0).err(), Some(Errno::INVAL));
    let table: Vec<_> = port.gid_table().iter().map(|e| e.gid.bytes()).collect();
    let link_local = port.gid_entry(1, 1).expect("in use").gid.bytes();
    assert_eq!(table, [entry.gid.bytes(), link_local]);
    assert_eq!(port.address(1), Ok("fe80::1".parse().expect("ip")));
    assert_eq!(port.address(2), Err(Errno::NODATA));
    assert!(port.has([10, 0, 0, 1].into()));
    assert!(!port.has([10, 0, 0, 2].into()));
    assert_eq!(port.pkey(1, 0), Ok(be16::new(0xffff)));
    assert_eq!(port.pkey(1, 1), Err(Errno::INVAL));
    assert_eq!(port.pkey(2, 0), Err(Errno::INVAL));
}

#[test]
fn attributes() {
    let port = Port::new(&interface(&[]));
    let mut attr = bytemuck::Zeroable::zeroed();
    port.query(&mut attr);
    assert_eq!((attr.state, attr.phys_state), (IBV_PORT_ACTIVE, 5));
    assert_eq!(
        (attr.max_mtu, attr.active_mtu),
        (IBV_MTU_4096, IBV_MTU_1024)
    );
    assert_eq!((attr.gid_tbl_len, attr.pkey_tbl_len), (256, 1));
    assert_eq!((attr.link_layer, attr.flags), (2, 1));
    assert_eq!((attr.active_width, attr.active_speed), (1, 8));
    assert_eq!(port.guid().get(), guid(&interface(&[])));
}
