//! The program reads the library's recording: runs of stock programs over uroce, in a separate
//! network namespace.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot continue ends

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use watchdog::Watched;

const TRACE: &str = env!("CARGO_BIN_EXE_ibv_trace");
/// Where Debian's programs are, from ibverbs-utils.
const STOCK: &str = "/usr/bin";
/// Rounds of the pingpong.
const ROUNDS: usize = 200;

/// The recording of a shell script, if one can be made here.
fn record(dir: &Path, script: &str) -> Option<PathBuf> {
    if !Path::new(STOCK).join("ibv_rc_pingpong").exists() {
        println!("skipped: there is no {STOCK}/ibv_rc_pingpong (Debian: ibverbs-utils)");
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
        .arg(format!("ip link set lo up || exit\n{script}"))
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

fn events(file: &Path) -> Vec<Value> {
    let document: Value = serde_json::from_str(&text(print(&["--chrome"], file))).unwrap();
    assert_eq!(document["displayTimeUnit"], "ns");
    document["traceEvents"].as_array().unwrap().clone()
}

#[test]
fn a_trace_of_the_library() {
    let dir = tempfile::tempdir().unwrap();
    let Some(file) = record(dir.path(), &format!("exec {STOCK}/ibv_devinfo -v")) else {
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
    let events = events(&file);
    let calls = slices(&events).count();
    assert_eq!(calls, lines.lines().count(), "an event a line");
    check(&events);

    // Cut short, as of a program that was killed: whole records are printed, and the rest is
    // reported.
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, bytes.get(..bytes.len() - 1).unwrap()).unwrap();
    let output = print(&[], &file);
    assert!(output.status.success() && !output.stderr.is_empty());
}

#[test]
fn a_picture_of_a_pingpong() {
    let dir = tempfile::tempdir().unwrap();
    let line = format!("{STOCK}/ibv_rc_pingpong -d uroce_lo -g 0 -n {ROUNDS}");
    let script = format!(
        "{line} & server=$!
         until grep -q ':4853 .* 0A ' /proc/net/tcp; do sleep 0.02; done
         {line} 127.0.0.1 && wait $server"
    );
    let Some(file) = record(dir.path(), &script) else {
        return;
    };
    let events = events(&file);
    check(&events);
    let named = |name: &str| {
        let named = events.iter().filter(|event| event["name"] == name);
        named.cloned().collect::<Vec<Value>>()
    };

    // Two processes; each has its main thread.
    let processes = named("process_name");
    assert_eq!(processes.len(), 2);
    for process in processes.iter().chain(&named("thread_name")) {
        assert_eq!(process["args"]["name"], "ibv_rc_pingpong");
        assert_eq!(process["pid"], process["tid"]);
    }

    // Each end sends and receives a message a round.
    let starts = |name: &str| {
        let started = named(name);
        started.iter().filter(|event| event["ph"] == "s").count()
    };
    assert_eq!(starts("IBV_WR_SEND"), 2 * ROUNDS);
    assert_eq!(starts("receive"), 2 * ROUNDS);

    // The names of a state, a mask, a type, an operation, a status.
    let create = named("ibv_create_qp");
    let create = if create.is_empty() {
        named("ibv_create_qp_ex")
    } else {
        create
    };
    assert_eq!(create[0]["args"]["type"], "RC");
    let modified = named("ibv_modify_qp");
    assert_eq!(modified.len(), 6);
    assert_eq!(modified[0]["args"]["state"], "INIT");
    let mask = modified[0]["args"]["attr_mask"].as_str().unwrap();
    assert!(mask.starts_with("IBV_QP_STATE|"), "{mask}");
    let posted = named("ibv_post_send");
    let request = posted[0]["args"]["request 0"].as_str().unwrap();
    let words = "opcode IBV_WR_SEND, send_flags IBV_SEND_SIGNALED, bytes 4096";
    assert!(request.ends_with(words), "{request}");
    let polled = named("ibv_poll_cq");
    let completion = polled
        .iter()
        .find_map(|poll| poll["args"]["completion 0"].as_str());
    let completion = completion.unwrap();
    assert!(completion.contains("status IBV_WC_SUCCESS"), "{completion}");

    // Completions are counted, and in the end no send request is outstanding.
    let rates = named("completions");
    let rate = |event: &Value| event["args"]["a second"].as_f64().unwrap();
    assert!(rates.iter().any(|event| rate(event) > 0.0));
    for process in &processes {
        let levels = events.iter().filter(|event| {
            let name = event["name"].as_str().unwrap();
            event["pid"] == process["pid"] && name.starts_with("outstanding, QP 0x")
        });
        let levels: Vec<&Value> = levels.map(|event| &event["args"]).collect();
        let receives = levels.iter().map(|level| level["receives"].as_u64());
        assert_eq!(receives.max(), Some(Some(500)), "the depth of the queue");
        assert_eq!(levels.last().unwrap()["sends"], 0);
    }
}

fn slices(events: &[Value]) -> impl Iterator<Item = &Value> {
    events.iter().filter(|event| event["ph"] == "X")
}

/// A number of an event in nanoseconds. They are written as microseconds with three decimals.
fn nanoseconds(event: &Value, name: &str) -> u64 {
    let text = event[name].to_string();
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let decimals: u64 = format!("{decimals:0<3}").parse().unwrap();
    whole.parse::<u64>().unwrap() * 1000 + decimals
}

/// Checks a document by the description of the Trace Event Format, and by what Perfetto's importer
/// needs: slices of a thread are inside each other or apart, a flow begins and ends inside of a
/// slice.
fn check(events: &[Value]) {
    let mut last = 0;
    let mut open: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    let mut flows: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    let mut named: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for event in events {
        let process = event["pid"].as_u64().unwrap();
        let phase = event["ph"].as_str().unwrap();
        assert!(event["name"].is_string(), "{event}");
        if phase == "M" {
            let thread = event["tid"].as_u64().unwrap();
            assert!(event["args"]["name"].is_string(), "{event}");
            let name = event["name"].as_str().unwrap();
            named.entry(name).or_default().push((process, thread));
            continue;
        }
        let time = nanoseconds(event, "ts");
        assert!(time >= last, "{event} is before its time");
        last = time;
        if phase == "C" {
            let values = event["args"].as_object().unwrap();
            assert!(!values.is_empty() && values.values().all(Value::is_number));
            continue;
        }
        let key = (process, event["tid"].as_u64().unwrap());
        let open = open.entry(key).or_default();
        while open.last().is_some_and(|(_, end)| *end < time) {
            open.pop();
        }
        match phase {
            "X" => {
                let end = time + nanoseconds(event, "dur");
                // A slice may begin where the one before ends.
                while open.last().is_some_and(|(_, end)| *end <= time) {
                    open.pop();
                }
                let outer = open.last().map_or(u64::MAX, |(_, end)| *end);
                assert!(end <= outer, "{event} is partly inside of another one");
                assert!(event["args"].is_object(), "{event}");
                open.push((time, end));
                let threads = named.get("thread_name").unwrap();
                assert!(threads.contains(&key), "{event}: a thread without a name");
                let processes = named.get("process_name").unwrap();
                assert!(processes.iter().any(|named| named.0 == process), "{event}");
            }
            "s" | "f" => {
                assert!(!open.is_empty(), "{event} is outside of any slice");
                flows
                    .entry(event["id"].as_u64().unwrap())
                    .or_default()
                    .push(event);
            }
            _ => panic!("{event} has an unknown phase"),
        }
    }
    for (id, ends) in flows {
        let [start, end] = ends[..] else {
            panic!("flow {id}: {ends:?}");
        };
        assert_eq!((&start["ph"], &end["ph"]), (&"s".into(), &"f".into()));
        assert_eq!(end["bp"], "e");
        assert_eq!((&start["name"], &start["cat"]), (&end["name"], &end["cat"]));
    }
}
