//! Every example, over uroce on the loopback interface: its exact output.

#![cfg(not(feature = "system"))]
#![allow(clippy::unwrap_used)] // a test that cannot continue ends

use std::{env, path::PathBuf, process::Command};

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

#[cfg(feature = "tokio")]
#[test]
fn asynchronous() {
    prints("async", "100 messages came back\n");
}
