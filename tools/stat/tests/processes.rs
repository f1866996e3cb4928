//! The program beside processes that have a device of uroce open, in a network of their own.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by ending

use std::{
    path::Path,
    process::{Command, Output},
};

const STAT: &str = env!("CARGO_BIN_EXE_uroce-stat");
/// Debian's, from ibverbs-utils.
const PINGPONG: &str = "/usr/bin/ibv_rc_pingpong";

/// Runs a script in a new network where `lo` is up, over the library of this workspace.
fn script(text: &str) -> Output {
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let mut command = Command::new("unshare");
    command.arg("--net");
    if !root {
        command.arg("--map-root-user");
    }
    command
        .args(["bash", "-c"])
        .arg(format!("ip link set lo up || exit\nstat={STAT}\n{text}"))
        .env(
            "LD_LIBRARY_PATH",
            c_tests::library::built_library().unwrap(),
        )
        .env("UROCE_DEVICES", "lo")
        .env_remove("UROCE_FAULTS")
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Whether processes can be had to ask.
fn can_try() -> bool {
    if !Path::new(PINGPONG).exists() {
        println!("skipped: there is no {PINGPONG} (Debian: ibverbs-utils)");
        return false;
    }
    let possible = script("true").status.success();
    if !possible {
        println!("skipped: no network namespace can be made here");
    }
    possible
}

#[test]
fn what_a_process_has_counted() {
    if !can_try() {
        return;
    }
    assert_eq!(text(&script("$stat")), "", "nobody has a device");
    // A server that waits for its client has its queue pair in INIT, and no other is there.
    let waiting = format!(
        "{PINGPONG} -d uroce_lo -g 0 >/dev/null & server=$!
         until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.02; done"
    );
    let told = text(&script(&format!(
        "{waiting}; echo $server; $stat; kill $server"
    )));
    let mut lines = told.lines();
    let server = lines.next().unwrap();
    let process = lines.next().unwrap();
    assert!(
        process.starts_with(&format!("process {server} slot ")),
        "{told}"
    );
    assert!(lines.next().unwrap().starts_with("network packets_sent "));
    let qp = lines.next().unwrap();
    assert!(
        qp.contains(" device uroce_lo type RC state INIT "),
        "{told}"
    );
    let device = lines.next().unwrap();
    assert!(device.starts_with("device uroce_lo "), "{told}");
    assert!(device.contains(" qps 1"), "{told}");
    assert_eq!(lines.next(), None, "{told}");
    // One that is named, and one that is not there.
    let named = text(&script(&format!("{waiting}; $stat $server; kill $server")));
    assert!(named.contains(" state INIT "), "{named}");
    let other = text(&script(&format!("{waiting}; $stat 1; kill $server")));
    assert_eq!(other, "");
}

#[test]
fn bad_arguments() {
    let output = Command::new(STAT).arg("x").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    let help = Command::new(STAT).arg("--help").output().unwrap();
    assert!(text(&help).starts_with("usage: uroce-stat"));
}
