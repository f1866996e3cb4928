//! The counters that a process reports, and the users that may read them.
#![allow(
    clippy::expect_used,
    reason = "a test ends where something is not as expected"
)]

mod ends;

use ends::{End, connect, pair};
use kit::abi::*;
use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::Command;
use watchdog::Watched;

/// The name of the socket that reports the counters of an end's process.
fn name(end: &End) -> String {
    let begin = format!("uroce/{}/stat/", end.number() >> 14);
    let table = std::fs::read("/proc/net/unix").expect("a table");
    let table = String::from_utf8_lossy(&table);
    let names = table.lines().filter_map(|line| line.rsplit_once('@'));
    let mut names = names.map(|(_, name)| name);
    let found = names.find(|name| name.starts_with(&begin));
    found.expect("a name").to_owned()
}

fn ask(end: &End) -> String {
    let address = SocketAddr::from_abstract_name(name(end)).expect("a name");
    let mut text = String::new();
    let mut stream = UnixStream::connect_addr(&address).expect("a listener");
    stream.read_to_string(&mut text).expect("text");
    text
}

/// A value of the line about a queue pair.
fn value(text: &str, end: &End, wanted: &str) -> String {
    let about = format!("qp {:#08x} ", end.number());
    let line = text.lines().find(|line| line.starts_with(&about));
    let words: Vec<_> = line.expect("a line").split(' ').collect();
    let at = words.iter().position(|word| *word == wanted);
    words[at.expect("a name") + 1].to_owned()
}

#[test]
fn counters_are_reported() {
    let [a, b] = pair(IBV_QPT_RC);
    for id in 0..3 {
        b.post_recv(id, 0, 4096);
        a.post_send(id, IBV_WR_SEND, 0, 1000, 0, 0);
        assert_eq!(a.completion().status, IBV_WC_SUCCESS);
        assert_eq!(b.completion().status, IBV_WC_SUCCESS);
    }
    let text = ask(&a);
    let process = format!("process {} slot {}\n", std::process::id(), a.number() >> 14);
    assert!(text.starts_with(&process), "{text}");
    assert_eq!(value(&text, &a, "device"), "uroce_lo");
    assert_eq!(value(&text, &a, "type"), "RC");
    assert_eq!(value(&text, &a, "state"), "RTS");
    let peer = format!("127.0.0.1/{:#08x}", b.number());
    assert_eq!(value(&text, &a, "peer"), peer);
    assert_eq!(value(&text, &a, "bytes_sent"), "3000");
    assert_eq!(value(&text, &b, "bytes_received"), "3000");
    assert_eq!(value(&text, &b, "errors"), "0");
    // A request that the peer refuses: both count it.
    a.post_send(9, IBV_WR_RDMA_WRITE, 0, 8, 0, b.rkey() ^ 0x100);
    assert_eq!(a.completion().status, IBV_WC_REM_ACCESS_ERR);
    let text = ask(&a);
    assert_eq!(value(&text, &a, "state"), "ERR");
    assert_eq!(value(&text, &a, "errors"), "1");
    assert_eq!(value(&text, &a, "naks_received"), "1");
    assert_eq!(value(&text, &b, "naks_sent"), "1");
}

#[test]
fn a_long_text_comes_whole() {
    let first = End::new(IBV_QPT_UD);
    connect(&first, 0);
    let more: Vec<_> = (0..1500).map(|_| first.another()).collect();
    let text = ask(&first);
    assert!(text.len() > 300_000, "{}", text.len());
    for end in &more {
        assert_eq!(value(&text, end, "state"), "RESET");
    }
}

#[test]
fn another_user_gets_nothing() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root, to be another user");
        return;
    }
    let end = End::new(IBV_QPT_RC);
    let script = "import socket,sys\n\
        s=socket.socket(socket.AF_UNIX)\n\
        s.connect('\\0'+sys.argv[1])\n\
        sys.stdout.write(s.recv(100).decode())";
    let of = |user: &str| {
        let output = Command::new("setpriv")
            .args(["--reuid", user, "--clear-groups"])
            .args(["/usr/bin/python3", "-c", script, &name(&end)])
            .watched_output()
            .expect("setpriv");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(of("0").starts_with("process "));
    assert_eq!(of("65534"), "");
}
