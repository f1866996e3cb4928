use super::message::Owned;
use super::*;
use std::net::IpAddr;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn owned(interface: u32, address: &str, scope: u8) -> Owned {
    Owned {
        interface,
        address: ip(address),
        scope,
    }
}

#[test]
fn addresses_are_given_in_order() {
    let mut interfaces = [1, 2].map(|index| Interface {
        index,
        ..Interface::default()
    });
    let reported = vec![
        owned(2, "fe80::1", 253),
        owned(2, "fd00::2", 0),
        owned(2, "10.0.0.1", 0),
        owned(1, "127.0.0.1", 254),
        owned(2, "10.0.0.1", 0),
        owned(2, "10.0.0.2", 0),
        owned(9, "10.0.0.9", 0),
    ];
    give(&mut interfaces, reported);
    let [lo, eth0] = interfaces.map(|interface| interface.addresses);
    assert_eq!(lo, [ip("127.0.0.1")]);
    let expected = ["10.0.0.1", "10.0.0.2", "fd00::2", "fe80::1"].map(ip);
    assert_eq!(eth0, expected);
}

#[test]
fn those_of_this_host() {
    let interfaces = interfaces().expect("listed");
    let lo = interfaces.iter().find(|i| i.name == "lo").expect("there");
    assert_eq!((lo.mac, lo.speed), (None, None));
    assert!(lo.mtu > 0 && lo.index > 0);
}

#[test]
fn no_notification_is_no_change() {
    let mut notifications = Notifications::listen().expect("listening");
    // Changes that other tests make to their own namespaces are not reported here.
    let first = notifications.take();
    assert!(first.is_ok(), "{first:?}");
}
