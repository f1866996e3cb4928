//! The program reads the library's recording: a run of a stock program over uroce, in a separate
//! network namespace.

#![allow(clippy::unwrap_used)] // a test that cannot continue ends

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use watchdog::Watched;

const TRACE: &str = env!("CARGO_BIN_EXE_ibv_trace");
/// Debian's, from ibverbs-utils.
const RECORDED: &str = "/usr/bin/ibv_devinfo";

/// A recording of `ibv_devinfo -v`, if one can be made here.
fn record(dir: &Path) -> Option<PathBuf> {
    if !Path::new(RECORDED).exists() {
        println!("skipped: there is no {RECORDED} (Debian: ibverbs-utils)");
        return None;
    }
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let unshare = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.arg("--net");
        if !root {
            command.arg("--map-root-user");
        }
        command.args(words);
        command
    };
    if !unshare(&["true"]).status().unwrap().success() {
        println!("skipped: no network namespace can be made here");
        return None;
    }
    let file = dir.join("calls");
    let output = unshare(&["sh", "-c"])
        .arg(format!("ip link set lo up && exec {RECORDED} -v"))
        .env(
            "LD_LIBRARY_PATH",
            c_tests::library::built_library().unwrap(),
        )
        .env("UROCE_DEVICES", "lo")
        .env("IBVERBS_TRACE", &file)
        .watched_output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(file)
}

fn print(words: &[&str], file: &Path) -> Output {
    let mut command = Command::new(TRACE);
    command.args(words).arg(file).watched_output().unwrap()
}

fn text(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_trace_of_the_library() {
    let dir = tempfile::tempdir().unwrap();
    let Some(file) = record(dir.path()) else {
        return;
    };
    let lines = text(print(&[], &file));
    for call in [
        "ibv_query_port(",
        "ibv_query_device_ex(",
        "ibv_close_device(",
    ] {
        assert!(lines.contains(call), "{call} is not in:\n{lines}");
    }
    let summary = text(print(&["--summary"], &file));
    assert!(summary.contains("ibv_query_port"), "{summary}");
    let picture: Value = serde_json::from_str(&text(print(&["--chrome"], &file))).unwrap();
    let events = picture["traceEvents"].as_array().unwrap();
    let calls = events.iter().filter(|event| event["ph"] == "X").count();
    assert_eq!(calls, lines.lines().count(), "an event a line");
    for event in events {
        let number = |name: &str| event[name].as_f64().unwrap();
        assert!(event["name"].as_str().unwrap().starts_with("ibv_"));
        assert!(number("pid") >= 1.0 && number("tid") >= 1.0, "{event}");
        assert!(number("ts") > 0.0 && number("dur") >= 0.0, "{event}");
        assert!(event["args"]["answer"].is_string(), "{event}");
    }

    // Cut short, as of a program that was killed: whole records are printed, and the rest is
    // reported.
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, bytes.get(..bytes.len() - 1).unwrap()).unwrap();
    let output = print(&[], &file);
    assert!(output.status.success() && !output.stderr.is_empty());
}
