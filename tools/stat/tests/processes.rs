//! The program beside processes that have a device of uroce open, in a separate network namespace.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot continue ends

use std::{
    ffi::OsStr,
    path::Path,
    process::{Command, Output},
};

use watchdog::Watched;

const STAT: &str = env!("CARGO_BIN_EXE_uroce-stat");
/// Debian's, from ibverbs-utils.
const PINGPONG: &str = "/usr/bin/ibv_rc_pingpong";

/// Runs a script in a new network where `lo` is up, over the library of this workspace.
fn script(text: &str) -> Output {
    let library = c_tests::library::built_library().unwrap();
    run(text, &[("LD_LIBRARY_PATH", library.as_os_str())])
}

/// Runs a script in a new network where `lo` is up.
fn run(text: &str, environment: &[(&str, &OsStr)]) -> Output {
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let mut command = Command::new("unshare");
    command.arg("--net");
    if !root {
        command.arg("--map-root-user");
    }
    command
        .args(["bash", "-c"])
        .arg(format!("ip link set lo up || exit\nstat={STAT}\n{text}"))
        .envs(environment.iter().copied())
        .env("UROCE_DEVICES", "lo")
        .env_remove("UROCE_FAULTS")
        .watched_output()
        .unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Whether processes can be started and asked.
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
fn the_counters_of_a_process() {
    if !can_try() {
        return;
    }
    assert_eq!(
        text(&script("$stat --lines")),
        "",
        "no process has a device"
    );
    // A server that waits for its client has its queue pair in INIT, and no other is there.
    let waiting = format!(
        "{PINGPONG} -d uroce_lo -g 0 >/dev/null & server=$!
         until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.02; done"
    );
    let reported = text(&script(&format!(
        "{waiting}; echo $server; $stat --lines; kill $server"
    )));
    let mut lines = reported.lines();
    let server = lines.next().unwrap();
    let process = lines.next().unwrap();
    assert!(
        process.starts_with(&format!("process {server} slot ")),
        "{reported}"
    );
    assert!(lines.next().unwrap().starts_with("network packets_sent "));
    let qp = lines.next().unwrap();
    assert!(
        qp.contains(" device uroce_lo type RC state INIT "),
        "{reported}"
    );
    let device = lines.next().unwrap();
    assert!(device.starts_with("device uroce_lo "), "{reported}");
    assert!(device.contains(" qps 1"), "{reported}");
    assert_eq!(lines.next(), None, "{reported}");
    // One that is named, and one that is not there.
    let named = text(&script(&format!(
        "{waiting}; $stat --lines $server; kill $server"
    )));
    assert!(named.contains(" state INIT "), "{named}");
    let other = text(&script(&format!(
        "{waiting}; $stat --lines 1; kill $server"
    )));
    assert_eq!(other, "");
}

/// A client and a server that exchange messages, while a command runs.
fn beside_traffic(command: &str) -> String {
    text(&script(&format!(
        "{PINGPONG} -d uroce_lo -g 0 -n 1000000000 >/dev/null & server=$!
         until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.02; done
         {PINGPONG} -d uroce_lo -g 0 -n 1000000000 127.0.0.1 >/dev/null & client=$!
         until [ $($stat --lines | grep -c ' state RTS ') = 2 ]; do sleep 0.02; done
         {command}; kill $server $client"
    )))
}

#[test]
fn a_table_for_people() {
    if !can_try() {
        return;
    }
    let nobody = text(&script("$stat"));
    assert_eq!(nobody, "no process has a device of uroce open\n");
    let table = beside_traffic("$stat");
    let mut lines = table.lines();
    let columns = lines.next().unwrap();
    assert!(columns.starts_with("PROCESS  COMMAND "), "{table}");
    for _ in 0..2 {
        let row: Vec<_> = lines.next().unwrap().split_whitespace().collect();
        let [
            _,
            command,
            _,
            "uroce_lo",
            "RC",
            "RTS",
            peer,
            _,
            sent,
            unit,
            ..,
        ] = row[..]
        else {
            panic!("{table}");
        };
        assert_eq!(command, "ibv_rc_pingpong");
        assert!(peer.starts_with("127.0.0.1/0x"), "{table}");
        let sent: u64 = sent.parse().unwrap();
        assert!(sent > 0 && unit.ends_with('B'), "{table}");
    }
    let twice = beside_traffic("$stat --watch 0.1 --count 2");
    assert_eq!(twice.matches("PROCESS  COMMAND ").count(), 2, "{twice}");
    assert!(!twice.contains('\x1b'), "only a terminal is cleared");
}

#[test]
fn a_document_for_programs() {
    if !can_try() {
        return;
    }
    let document = beside_traffic("$stat --json");
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let processes = document["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 2);
    for process in processes {
        assert_eq!(process["command"], "ibv_rc_pingpong");
        let pair = &process["queue_pairs"][0];
        assert!(pair["bytes_sent"].as_u64().unwrap() > 0, "{document}");
        assert_eq!(pair["state"], "RTS");
    }
    assert_eq!(document["devices"]["uroce_lo"]["qps"], 2);
}

/// Debian's, from rdmacm-utils.
const RPING: &str = "/usr/bin/rping";

#[test]
fn listeners_and_connections_of_a_process() {
    if !can_try() {
        return;
    }
    if !Path::new(RPING).exists() {
        println!("skipped: there is no {RPING} (Debian: rdmacm-utils)");
        return;
    }
    let folders = [
        c_tests::library::built_library().unwrap(),
        c_tests::library::built_rdmacm().unwrap(),
    ];
    let folders = std::env::join_paths(folders).unwrap();
    let output = run(
        &format!(
            "shown() {{ until $stat --lines $1 | grep '^cm .* state '$2' .*'; do sleep 0.05; done; }}
             {RPING} -s -a 127.0.0.1 -p 7471 >/dev/null 2>&1 & server=$!
             shown $server LISTEN
             {RPING} -c -a 127.0.0.1 -p 7471 >/dev/null 2>&1 & client=$!
             shown $client CONNECT
             shown $server CONNECT
             kill -9 $client $server"
        ),
        &[("LD_LIBRARY_PATH", folders.as_os_str())],
    );
    let shown = text(&output);
    let lines: Vec<_> = shown.lines().collect();
    let [listener, client, server] = lines[..] else {
        panic!("{shown}");
    };
    let listening = "device uroce_lo space TCP type RC state LISTEN address 127.0.0.1:7471 peer -";
    assert!(listener.ends_with(listening), "{shown}");
    assert!(client.ends_with(" peer 127.0.0.1:7471"), "{shown}");
    assert!(server.contains(" state CONNECT address 127.0.0.1:7471 peer 127.0.0.1:"));
}

#[test]
fn bad_arguments() {
    let output = Command::new(STAT).arg("x").watched_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    let help = Command::new(STAT).arg("--help").watched_output().unwrap();
    assert!(text(&help).starts_with("usage: uroce-stat"));
}

/// Sockets with names like uroce's, whose owner replies with no data, endless data, or control
/// characters for a terminal.
const HOSTILE: &str = r#"
import os, socket, sys, threading
os.setuid(int(sys.argv[1]))
def serve(slot, answer):
    listening = socket.socket(socket.AF_UNIX)
    listening.bind('\0uroce/%d/stat/%024x' % (slot, slot))
    listening.listen(5)
    def run():
        kept = []
        while True:
            connected, _ = listening.accept()
            kept.append(connected)
            threading.Thread(target=answer, args=(connected,)).start()
    threading.Thread(target=run).start()
def nothing(connected):
    pass
def endless(connected):
    try:
        while True:
            connected.sendall(b'process 1 slot 2\n' * 4096)
    except OSError:
        pass
def escapes(connected):
    connected.sendall(b'process 1 slot 3\n\x1b]0;x\x07\n'
        b'qp 0x1 device uroce_lo type RC packets_sent 1000000\n')
    connected.shutdown(socket.SHUT_RDWR)
for slot, answer in [(1, nothing), (2, endless), (3, escapes), (4, nothing)]:
    serve(slot, answer)
print('ready', flush=True)
"#;

/// A script in which `$hostile USER` has started such a process.
fn beside_hostile(name: &str, user: u32, text: &str) -> Output {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let program = format!("{folder}/{name}-{}.py", std::process::id());
    std::fs::write(&program, HOSTILE).unwrap();
    let output = run(
        &format!(
            "exec 3< <(exec python3 {program} {user}); hostile=$!; read -u 3 ready
         {text}; kill -9 $hostile; exit $status"
        ),
        &[],
    );
    std::fs::remove_file(&program).unwrap();
    output
}

fn is_root() -> bool {
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !root {
        println!("skipped: only root can be another user");
    }
    root
}

#[test]
fn sockets_of_other_users_are_not_asked() {
    if !is_root() {
        return;
    }
    let output = beside_hostile("others", 65534, "$stat --lines; status=$?");
    assert!(output.status.success(), "{output:?}");
    assert!(
        output.stdout.is_empty() && output.stderr.is_empty(),
        "{output:?}"
    );
}

#[test]
fn malformed_messages_do_no_harm() {
    if !is_root() {
        return;
    }
    // Memory for little more than one answer of the longest.
    let output = beside_hostile(
        "form",
        65534,
        "ulimit -v 3000000; $stat --lines --user 65534; status=$?; echo $hostile",
    );
    assert!(output.status.success(), "{output:?}");
    let shown = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = shown.lines().collect();
    let [process, escaped, qp, device, hostile] = lines[..] else {
        panic!("{shown}");
    };
    // The reply claims to be from process 1.
    assert_eq!(process, format!("process {hostile} slot 3"));
    assert_eq!(escaped, "\\x1b]0;x\\x07");
    assert!(qp.starts_with("qp 0x1 ") && device.starts_with("device uroce_lo "));
    let complaints = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        complaints.matches(" does not answer").count(),
        2,
        "{complaints}"
    );
    assert_eq!(
        complaints.matches(" sends too much").count(),
        1,
        "{complaints}"
    );
}

/// A table takes two samples, and asks each process twice.
#[test]
fn one_sample_of_a_table_complains() {
    if !is_root() {
        return;
    }
    let table = "$stat --user 65534 >/dev/null; status=$?";
    let output = beside_hostile("once", 65534, table);
    assert!(output.status.success(), "{output:?}");
    let complaints = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        complaints.matches(" does not answer").count(),
        2,
        "{complaints}"
    );
}
