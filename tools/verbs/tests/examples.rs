//! Every example, over uroce on the loopback interface: its exact output.

#![cfg(not(feature = "system"))]
#![allow(clippy::unwrap_used)] // a test that cannot continue ends

use std::{
    env,
    io::{Read, Write},
    path::PathBuf,
    process::{Command, Stdio},
};

use watchdog::Watched;

/// A built example. `cargo test` builds them, unless its command names tests, beside the folder of
/// the tests.
fn example(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    test.parent().unwrap().with_file_name("examples").join(name)
}

fn prints(name: &str, expected: &str) {
    let output = Command::new(example(name)).watched_output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(out, expected, "{name} printed on stderr: {err}");
    assert!(output.status.success(), "{name}: {}, {err}", output.status);
}

#[test]
fn pingpong() {
    prints("pingpong", "2000 messages\n");
}

#[test]
fn write() {
    let parts = (0..4).map(|part| format!("part {part}: 1048576 bytes are there\n"));
    prints("write", &parts.collect::<String>());
}

#[cfg(feature = "connection")]
#[test]
fn connect() {
    prints("connect", "hello\n");
}

#[cfg(feature = "connection")]
#[test]
fn device() {
    let lines = [
        "messages, RDMA and atomic operations",
        "datagrams and answers",
        "a connection by address",
        "datagrams by address",
    ];
    prints("device", &lines.map(|line| format!("{line}\n")).concat());
}

#[cfg(feature = "tokio")]
#[test]
fn asynchronous() {
    prints("async", "100 messages came back\n");
}

#[test]
fn an_end_stops_when_the_other_is_gone() {
    const ENDPOINT: usize = 31;
    let mut end = Command::new(example("pingpong"))
        .arg("--second-end")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut to, mut from) = (end.stdin.take().unwrap(), end.stdout.take().unwrap());
    // It connects to itself, and waits for the first message.
    let mut address = [0; 1 + ENDPOINT];
    from.read_exact(&mut address).unwrap();
    to.write_all(&address).unwrap();
    let mut barrier = [0; 2];
    from.read_exact(&mut barrier).unwrap();
    to.write_all(&barrier).unwrap();
    drop(to);
    let status = watchdog::wait(&mut end).unwrap();
    assert_eq!(status.code(), Some(1));
    let mut text = String::new();
    end.stderr.unwrap().read_to_string(&mut text).unwrap();
    assert!(text.starts_with("the other end is gone"), "{text}");
}
