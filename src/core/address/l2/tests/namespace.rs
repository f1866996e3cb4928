//! Resolution on the real kernel, in network namespaces of the test's own.

use super::*;
use crate::core::wait::{Step, Wait, to_the_end};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use watchdog::Watched;

/// The network that the test expects.
const SCRIPT: &str = include_str!("namespace.sh");
/// Says that the network is there.
const THERE: &str = "FERROVERBS_TEST_NETWORK";
/// Says that it has two cables in place of one with a VLAN.
const NO_VLAN_THERE: &str = "FERROVERBS_TEST_NO_VLAN";

const PEER_VLAN: Mac = [2, 0, 0, 0, 0, 12];

#[test]
fn in_namespaces() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: network namespaces need root");
        return;
    }
    let output = Command::new("unshare")
        .args(["-n", "sh", "-c", SCRIPT, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture"])
        .arg("core::address::l2::tests::namespace::inside")
        .env(THERE, "1")
        .watched_output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    // The skipped tests, and the reasons.
    eprint!("{complained}");
    assert!(output.status.success(), "{printed}\n{complained}");
    assert!(
        printed.contains("test result: ok. 1 passed"),
        "{printed}\n{complained}"
    );
}

fn index(name: &str) -> u32 {
    let family = rustix::net::AddressFamily::INET;
    let socket = rustix::net::socket(family, rustix::net::SocketType::DGRAM, None);
    rustix::net::netdevice::name_to_index(socket.unwrap(), name).unwrap()
}

fn next_hop(source: &str, to: &str) -> Result<NextHop> {
    next_hop_by(source, None, to)
}

fn next_hop_by(source: &str, interface: Option<u32>, to: &str) -> Result<NextHop> {
    let mut network = Rtnetlink::open()?;
    let found = resolve(&mut network, &gid(source), interface, &gid(to))?;
    to_the_end(Search::begin(network, found)?)
}

/// Changes the table so often that notifications are lost.
fn flood() {
    let mut lines = String::new();
    for turn in 10..50 {
        for host in 110..210 {
            let to = format!("10.77.0.{host} lladdr 02:00:00:00:00:{turn}");
            writeln!(lines, "neigh replace {to} dev v0").unwrap();
        }
    }
    let mut ip = Command::new("ip");
    let mut ip = ip.args(["-batch", "-"]).stdin(Stdio::piped()).spawn();
    let ip = ip.as_mut().unwrap();
    ip.stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    assert!(ip.wait().unwrap().success());
}

/// Lost notifications do not put off the next call, so that the search ends.
fn lost_notifications() {
    let mut network = Rtnetlink::open().unwrap();
    let found = resolve(&mut network, &gid("10.77.0.1"), None, &gid("10.77.0.98")).unwrap();
    let Ok(Step::Waits(search)) = Search::begin(network, found) else {
        panic!("the neighbour is not there");
    };
    flood();
    std::thread::sleep(search.left());
    let Ok(Step::Waits(search)) = search.step() else {
        panic!("the neighbour is not there");
    };
    assert_eq!(search.calls(), 2);
}

#[test]
#[ignore = "in_namespaces runs it, where the network is there"]
fn inside() {
    if std::env::var_os(THERE).is_none() {
        eprintln!("skipped: in_namespaces runs this");
        return;
    }
    let untagged = |mac| Ok(NextHop { mac, vlan: NO_VLAN });
    let vlan = if std::env::var_os(NO_VLAN_THERE).is_some() {
        eprintln!("VLANs are not tested: the kernel has none");
        NO_VLAN
    } else {
        5
    };
    let tagged = |mac| Ok(NextHop { mac, vlan });
    let unreachable = Err(Errno(libc::EHOSTUNREACH));
    for (source, to, expected) in [
        // On the cable; the second time the table knows.
        ("10.77.0.1", "10.77.0.2", untagged(PEER)),
        ("10.77.0.1", "10.77.0.2", untagged(PEER)),
        ("fd77::1", "fd77::2", untagged(PEER)),
        // In the VLAN.
        ("10.78.0.1", "10.78.0.2", tagged(PEER_VLAN)),
        // Behind a gateway, of the same family and of the other.
        ("10.77.0.1", "10.88.0.1", untagged(PEER)),
        ("10.77.0.1", "10.89.0.1", untagged(PEER)),
        ("fd77::1", "2001:db8:1::1", untagged(PEER)),
        // The host itself.
        ("10.77.0.1", "10.77.0.1", untagged(SELF)),
        ("10.78.0.1", "10.78.0.1", tagged(SELF)),
        ("fd77::1", "fd77::1", untagged(SELF)),
        ("127.0.0.1", "127.0.0.1", untagged([0; 6])),
        // Addresses that show which neighbour answered.
        (
            "10.77.0.1",
            "224.1.2.3",
            untagged([0x01, 0x00, 0x5e, 1, 2, 3]),
        ),
        (
            "10.78.0.1",
            "224.1.2.3",
            tagged([0x01, 0x00, 0x5e, 1, 2, 3]),
        ),
        ("fd77::1", "ff02::5", untagged([0x33, 0x33, 0, 0, 0, 5])),
        ("fd77::1", "fe80::ff:fe00:d", untagged([2, 0, 0, 0, 0, 13])),
        // A neighbour that answers late, one that does not exist, and an unreachable address.
        ("10.77.0.1", "10.77.0.3", untagged(PEER)),
        ("10.77.0.1", "10.77.0.99", unreachable),
        ("fd77::1", "fd77::99", unreachable),
        ("fd77::1", "2001:db8:2::1", unreachable),
        ("10.77.0.1", "10.90.0.1", unreachable),
        ("10.77.0.1", "10.91.0.1", unreachable),
        // No address of this host.
        ("10.77.0.2", "10.77.0.1", Err(Errno::INVAL)),
        ("::", "10.77.0.2", Err(Errno::INVAL)),
    ] {
        assert_eq!(next_hop(source, to), expected, "{source} to {to}");
    }
    lost_notifications();
    let to = "224.0.0.9";
    let mac = [0x01, 0x00, 0x5e, 0, 0, 9];
    let by = |interface| next_hop_by("10.79.0.1", interface, to);
    assert_eq!(by(None), untagged(mac));
    assert_eq!(by(Some(index("v0"))), untagged(mac));
    assert_eq!(by(Some(index("v0.5"))), tagged(mac));
}
