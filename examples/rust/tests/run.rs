//! Every example, in C and in Rust, over the library of this workspace and `uroce_lo`: its exact
//! output. Each runs in a separate network namespace.

#![allow(clippy::unwrap_used)] // a test that cannot continue ends

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;
use watchdog::Watched;

/// The folder of the examples in C.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../c")
}

/// Whether namespaces can be made; prints the reason otherwise.
fn have_namespaces() -> bool {
    let have = in_namespace(Path::new("/bin/true")).status.success();
    if !have {
        println!("skipped: no network namespace can be made here");
    }
    have
}

fn in_namespace(program: &Path) -> Output {
    let library = c_tests::library::built_library().unwrap();
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let mut command = Command::new("unshare");
    command.arg("--net");
    if !root {
        command.arg("--map-root-user");
    }
    command
        .args(["sh", "-c", "ip link set lo up && exec \"$0\""])
        .arg(program)
        .env("LD_LIBRARY_PATH", library)
        .env("UROCE_DEVICES", "lo")
        .env_remove("UROCE_FAULTS")
        .watched_output()
        .unwrap()
}

fn compile(folder: &TempDir, name: &str) -> PathBuf {
    let program = folder.path().join(name);
    let library = c_tests::library::built_library().unwrap();
    let made = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(&program)
        .arg(sources().join(format!("{name}.c")))
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include"))
        .arg("-L")
        .arg(library)
        .arg("-libverbs")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{name}.c does not compile: {words}");
    program
}

fn prints(program: &Path, expected: &str) {
    let output = in_namespace(program);
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let name = program.display();
    assert_eq!(out, expected, "{name} printed on stderr: {err}");
    assert!(output.status.success(), "{name}: {}, {err}", output.status);
}

/// Runs both forms of an example.
macro_rules! example {
    ($name:ident, $c:expr, $rust:expr) => {
        #[test]
        fn $name() {
            if !have_namespaces() {
                return;
            }
            let folder = TempDir::new().unwrap();
            prints(&compile(&folder, stringify!($name)), &$c);
            let program = env!(concat!("CARGO_BIN_EXE_", stringify!($name)));
            prints(Path::new(program), &$rust);
        }
    };
}

fn parts() -> String {
    (0..4)
        .map(|part| format!("part {part}: 1048576 bytes are there\n"))
        .collect()
}

fn datagrams() -> String {
    (0..8)
        .map(|number| format!("datagram {number}\n"))
        .collect()
}

const FORKED: &str = "the child runs a program\nreceived: written after the fork\n";

example!(
    pingpong,
    "1000 messages each way over uroce_lo\n",
    "1000 messages each way\n"
);
example!(write_with_events, parts(), parts());
example!(multicast, datagrams(), datagrams());
example!(
    async_events,
    "SRQ limit reached\nthe shared receive queue ran low\n",
    "the shared receive queue ran low\n"
);
example!(fork, FORKED, FORKED);

#[test]
fn every_source_is_run() {
    let mut found: Vec<_> = sources()
        .read_dir()
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".c").map(str::to_owned))
        .collect();
    found.sort();
    let expected = [
        "async_events",
        "fork",
        "multicast",
        "pingpong",
        "write_with_events",
    ];
    assert_eq!(found, expected);
}
