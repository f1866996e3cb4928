//! Running one case: a server, a client once the server listens, and the judgement of both.
#![forbid(unsafe_code)]

use std::{
    ffi::OsString,
    fs,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{
    library::Witness,
    patience,
    process::{End, Process, UNREAD},
    setup,
};
use crate::{
    record::{Record, Verdict},
    suites::{Case, Ready},
};

/// When a program is called hung. The longest takes a few seconds in emulation.
const BOUND: Duration = Duration::from_secs(300);
/// The same where that is known to happen, and the case takes a second: it is run again then.
const SHORT_BOUND: Duration = Duration::from_secs(90);

/// Time for the error messages of a server whose client has failed, before it is ended.
const COMPLAINING: Duration = Duration::from_secs(5);
/// Time for a client whose server has failed: it may be about to notice by itself, in emulation.
const FINDING_OUT: Duration = Duration::from_secs(30);
/// How many lines of each program are printed after a failure: of its end, and of a crash.
const LAST_LINES: usize = 12;
const CRASH_LINES: usize = 40;
/// How a report of UCX and OpenMPI begins that shows where a program got a signal.
const CRASHES: [&str; 2] = ["Caught signal", "Process received signal"];

pub struct Stage<'a> {
    pub witness: Witness<'a>,
    /// Set for every program.
    pub env: Vec<(&'static str, &'static str)>,
    /// Set for every program, too.
    pub paths: Vec<(&'static str, OsString)>,
    /// Where outputs go, one file a program.
    pub logs: PathBuf,
    /// The device of the suite.
    pub device: &'a str,
}

impl Stage<'_> {
    /// When a program of a case is called hung.
    fn bound(&self) -> Duration {
        if patience::may_hang(self.device) {
            SHORT_BOUND
        } else {
            BOUND
        }
    }
}

struct Ends {
    server: Option<End>,
    client: End,
}

#[derive(Default)]
struct Printed {
    server: String,
    client: String,
    /// Of each program that was given up, in that order: where its threads were.
    hung: String,
}

/// Runs a case; an error is one of the runner, not of the case.
pub fn run(case: &Case, stage: &Stage) -> Result<Record> {
    setup::commands(&case.before)?;
    let server_log = Log::new(stage, case, "server");
    let client_log = Log::new(stage, case, "client");
    let ends = run_programs(case, stage, &server_log, &client_log)?;
    let printed = Printed {
        server: server_log.text(),
        client: client_log.text(),
        hung: client_log.description() + &server_log.description(),
    };
    let programs = if ends.server.is_some() { 2 } else { 1 };
    let least = match case.users {
        0 => 0,
        users => users.max(programs),
    };
    let library = stage.witness.verdict(least)?;
    let record = judge(case, &ends, &printed, library);
    if matches!(
        record.verdict,
        Verdict::Fail | Verdict::Hung | Verdict::WrongLibrary
    ) {
        print_output(case, &printed);
    }
    Ok(record)
}

/// Where a program's outputs go. Apart, because a buffered table can follow the error that came
/// after it.
struct Log {
    out: PathBuf,
    err: PathBuf,
    /// Where its threads were when it was given up.
    hung: PathBuf,
}

impl Log {
    fn new(stage: &Stage, case: &Case, side: &str) -> Self {
        let file = |ending| stage.logs.join(format!("{}.{side}.{ending}", case.name));
        let log = Self {
            out: file("out"),
            err: file("err"),
            hung: file("hung"),
        };
        // There is one of an earlier attempt at most.
        let _ = fs::remove_file(&log.hung);
        log
    }

    fn description(&self) -> String {
        fs::read_to_string(&self.hung).unwrap_or_default()
    }

    /// The output, followed by the error messages.
    fn text(&self) -> String {
        let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        read(&self.out) + "\n" + &read(&self.err)
    }
}

fn run_programs(case: &Case, stage: &Stage, server_log: &Log, client_log: &Log) -> Result<Ends> {
    let bound = stage.bound();
    let Some(server) = &case.server else {
        let mut client = start(case, stage, &case.client, client_log)?;
        let client = end_of(&mut client, client_log, bound)?;
        return Ok(Ends {
            server: None,
            client,
        });
    };
    let mut serving = start(case, stage, &server.words, server_log)?;
    if !wait_until_ready(&server.ready, &mut serving)? {
        // A server that ended has nothing left to look at.
        let _ = serving.describe(&server_log.hung);
    }
    let mut client = start(case, stage, &case.client, client_log)?;
    let left = wait_for_failure_or_end(&mut client, &mut serving, bound)?;
    let client_end = end_of(&mut client, client_log, left)?;
    let server_end = if server.stays {
        serving.stop()?;
        End::Exit(0)
    } else if client_end.well() {
        end_of(&mut serving, server_log, bound)?
    } else {
        // Its client failed, so it may wait for ever; its own complaint is of interest.
        let end = serving.wait(COMPLAINING)?;
        serving.stop()?;
        end
    };
    Ok(Ends {
        server: Some(server_end),
        client: client_end,
    })
}

/// Waits until the client ends. Where its server fails, it may wait for ever, and is ended. Returns
/// how long the client may still take.
fn wait_for_failure_or_end(
    client: &mut Process,
    server: &mut Process,
    bound: Duration,
) -> Result<Duration> {
    let begin = Instant::now();
    while begin.elapsed() < bound && client.ended()?.is_none() {
        if server.ended()?.is_some_and(|end| !end.well()) {
            if client.wait(FINDING_OUT)? == End::Hung {
                client.stop()?;
            }
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(bound.saturating_sub(begin.elapsed()))
}

fn start(case: &Case, stage: &Stage, words: &[String], log: &Log) -> Result<Process> {
    let (program, arguments) = words.split_first().map_or(("", words), |(p, a)| (p, a));
    let mut command = Command::new(program);
    command.args(arguments).envs(case.env.iter().cloned());
    command.envs(stage.env.iter().copied());
    command.envs(stage.paths.iter().cloned());
    stage.witness.attend(&mut command);
    Process::start_apart(&mut command, &log.out, &log.err)
}

fn end_of(process: &mut Process, log: &Log, patience: Duration) -> Result<End> {
    let end = process.wait(patience)?;
    if end == End::Hung {
        // Worth having, and not worth failing for.
        let _ = process.describe(&log.hung);
        process.stop()?;
    }
    Ok(end)
}

/// Waits until the server is ready. False if it ended, or was not ready in a minute; then the
/// client fails.
pub fn wait_until_ready(ready: &Ready, server: &mut Process) -> Result<bool> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if server.ended()?.is_some() {
            return Ok(false);
        }
        if is_ready(ready, server.id()) {
            settle(ready);
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(false)
}

/// The kernel calls an id listening a moment before its connection manager knows the service, and
/// a client that comes between is rejected.
fn settle(ready: &Ready) {
    if matches!(ready, Ready::RdmaCm) {
        thread::sleep(Duration::from_millis(500));
    }
}

fn is_ready(ready: &Ready, server: u32) -> bool {
    match ready {
        // From the server's view: it may be in a separate network namespace.
        Ready::Tcp(port) => ["tcp", "tcp6"].iter().any(|table| {
            let table = fs::read_to_string(format!("/proc/{server}/net/{table}"));
            listens(&table.unwrap_or_default(), *port, TCP_LISTEN)
        }),
        Ready::Udp(port) => ["udp", "udp6"].iter().any(|table| {
            let table = fs::read_to_string(format!("/proc/{server}/net/{table}"));
            listens(&table.unwrap_or_default(), *port, UDP_UNCONNECTED)
        }),
        Ready::RdmaCm => cm_listens(&cm_ids(), &threads(server)) || has_uroce_port(server),
        Ready::Multicast(group) => {
            let joined = fs::read_to_string(format!("/proc/{server}/net/igmp"));
            joined.unwrap_or_default().contains(group)
        }
    }
}

/// States of sockets in /proc/net/tcp and /proc/net/udp.
const TCP_LISTEN: &str = "0A";
const UDP_UNCONNECTED: &str = "07";

/// A line of /proc/net/tcp and /proc/net/udp: number, local address:port in hex, remote, state.
fn listens(table: &str, port: u16, state: &str) -> bool {
    let end = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().is_some_and(|local| local.ends_with(&end));
        local && fields.nth(1) == Some(state)
    })
}

/// Whether a process has a port at the connection manager of uroce: an abstract socket with such a
/// name.
fn has_uroce_port(server: u32) -> bool {
    let table = fs::read_to_string(format!("/proc/{server}/net/unix")).unwrap_or_default();
    let sockets: Vec<_> = table.lines().filter_map(uroce_port).collect();
    let open = fs::read_dir(format!("/proc/{server}/fd"));
    let open = open.into_iter().flatten().flatten();
    let links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    links
        .map(|link| link.to_string_lossy().into_owned())
        .any(|link| sockets.contains(&link))
}

/// The socket of a port in a line of /proc/net/unix (number, count, protocol, flags, type, state,
/// inode, name), in the form of a link in /proc/PID/fd.
fn uroce_port(line: &str) -> Option<String> {
    let words: Vec<_> = line.split_whitespace().collect();
    let [.., inode, name] = words[..] else {
        return None;
    };
    let is_port = name.starts_with("@uroce/") && name.contains("/cm/");
    is_port.then(|| format!("socket:[{inode}]"))
}

fn cm_ids() -> String {
    let output = Command::new("rdma")
        .args(["resource", "show", "cm_id"])
        .env_remove("LD_LIBRARY_PATH")
        .output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

/// The numbers of a process's threads: an id is shown with that of the thread that made it.
fn threads(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    tasks
        .map(|task| task.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Whether one of these threads has a listening id; a datagram id that listens shows no other
/// state.
fn cm_listens(table: &str, threads: &[String]) -> bool {
    table.lines().any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let has = |key: &str, value: &str| words.windows(2).any(|pair| pair == [key, value]);
        has("state", "LISTEN") && threads.iter().any(|thread| has("pid", thread))
    })
}

fn judge(case: &Case, ends: &Ends, printed: &Printed, library: Option<String>) -> Record {
    let record = |verdict, reason: &str| Record::new(&case.name, verdict, reason);
    if ends.client == End::Hung || (ends.client.well() && ends.server == Some(End::Hung)) {
        return record(
            Verdict::Hung,
            &format!("killed after minutes{}", found(printed)),
        );
    }
    let well = ends.client.well() && ends.server.is_none_or(End::well);
    if let Some(mut library) = library {
        if !well {
            // It may come of this.
            library += &format!("; {}", how_it_ended(ends, printed));
        }
        return record(Verdict::WrongLibrary, &library);
    }
    if !well {
        return not_well(case, ends, printed);
    }
    let wrong = case.checks.iter().find_map(|check| {
        let complaint = check.complaint(&printed.client);
        complaint.or_else(|| {
            check
                .applies_to_server()
                .then(|| check.complaint(&printed.server))?
        })
    });
    match wrong {
        Some(wrong) => record(Verdict::Fail, &wrong),
        None => record(Verdict::Ok, ""),
    }
}

/// The lines of a description of a hanging program that show the cause.
fn found(printed: &Printed) -> String {
    let unread = printed.hung.lines().find(|line| line.starts_with(UNREAD));
    unread.map_or_else(String::new, |unread| format!("; {unread}"))
}

fn not_well(case: &Case, ends: &Ends, printed: &Printed) -> Record {
    if case.may_refuse && matches!(ends.client, End::Exit(_)) {
        let last = last_line(&printed.client).trim();
        return Record::new(
            &case.name,
            Verdict::Refused,
            format!("{}: {last}", ends.client),
        );
    }
    Record::new(&case.name, Verdict::Fail, how_it_ended(ends, printed))
}

fn how_it_ended(ends: &Ends, printed: &Printed) -> String {
    let mut reason = format!("client {}: {}", ends.client, last_words(&printed.client));
    if let Some(server) = ends.server {
        reason += &format!("; server {server}: {}", last_words(&printed.server));
    }
    reason
}

/// The last meaningful line of a program's output.
fn last_line(text: &str) -> &str {
    // perftest's later lines, about its counters or errno, contain less.
    const TELLING: [&str; 2] = ["Failed status", "Event: RDMA_CM_EVENT_"];
    let mut lines = text.lines().rev();
    let reports = |line: &&str| TELLING.iter().any(|begin| line.trim().starts_with(begin));
    if let Some(telling) = lines.clone().find(reports) {
        return telling.trim();
    }
    // Rulers under tables contain no information.
    let speaks = |line: &&str| line.contains(char::is_alphanumeric);
    lines.find(speaks).unwrap_or_default()
}

/// The same, with the continued line if it is indented.
fn last_words(text: &str) -> String {
    let last = last_line(text);
    let mut before = text.lines().rev().skip_while(|line| *line != last).skip(1);
    let goes_on = last.starts_with(char::is_whitespace);
    let begin = before.next().filter(|_| goes_on).unwrap_or_default();
    let reported = [begin.trim(), last.trim()];
    reported.join(" ").trim_start().to_string()
}

/// The end of each program's output, and the place of a crash, to find the cause of a failure.
fn print_output(case: &Case, printed: &Printed) {
    let Printed {
        server,
        client,
        hung,
    } = printed;
    for (side, text) in [("client", client), ("server", server), ("threads", hung)] {
        for line in lines_to_show(text) {
            println!("{} {side}| {line}", case.name);
        }
    }
}

fn lines_to_show(text: &str) -> Vec<&str> {
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let end = lines.len().saturating_sub(LAST_LINES);
    let crashes = |line: &&str| CRASHES.iter().any(|crash| line.contains(crash));
    let crash = lines.iter().position(crashes).unwrap_or(end).min(end);
    let behind = (crash + CRASH_LINES).min(end);
    [&lines[crash..behind], &lines[end..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::Check;

    #[test]
    fn the_end_is_reported_and_where_it_crashed() {
        let numbers = |range: std::ops::Range<u32>| range.map(|number| format!("{number}\n"));
        let short: String = numbers(0..5).collect();
        assert_eq!(lines_to_show(&short), ["0", "1", "2", "3", "4"]);
        let long: String = numbers(0..100).collect();
        let reported = lines_to_show(&long);
        assert_eq!((reported.len(), reported[0]), (LAST_LINES, "88"));
        let crashed = long.replace("\n20\n", "\n[host3] Caught signal 11\n");
        let reported = lines_to_show(&crashed);
        assert_eq!(reported.len(), CRASH_LINES + LAST_LINES);
        assert_eq!(reported[0], "[host3] Caught signal 11");
        assert_eq!((reported[39], reported[40]), ("59", "88"));
        let late = long.replace("\n80\n", "\nCaught signal 11\n");
        assert_eq!(lines_to_show(&late).len(), 20);
    }

    #[test]
    fn only_a_listening_socket_is_ready() {
        let table = "  sl  local_address rem_address   st\n   \
            0: 00000000:4853 00000000:0000 0A 00000000:00000000\n   \
            1: 0100007F:4854 0100007F:9999 01 00000000:00000000\n";
        assert!(listens(table, 18515, TCP_LISTEN));
        assert!(!listens(table, 18516, TCP_LISTEN));
        assert!(!listens(table, 0x9999, TCP_LISTEN));
    }

    #[test]
    fn only_the_servers_own_id_is_ready() {
        let table = "link rxe0/- cm-idn 0 state LISTEN ps TCP pid 42 comm rping src-addr 0.0.0.0\n\
            link rxe0/1 lqpn 17 qp-type RC state CONNECT ps TCP pid 43 comm rping\n";
        let ids = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(cm_listens(table, &ids(&["41", "42"])));
        assert!(!cm_listens(table, &ids(&["43"])));
        assert!(!cm_listens(table, &ids(&["4"])));
    }

    fn verdict(case: &Case, client: End, server: End, text: &str) -> Verdict {
        let ends = Ends {
            server: Some(server),
            client,
        };
        let printed = Printed {
            client: text.into(),
            ..Printed::default()
        };
        judge(case, &ends, &printed, None).verdict
    }

    #[test]
    fn both_must_succeed_and_print_the_expected_text() {
        let case = Case::single("c", "true").check(Check::Says("bytes"));
        let well = End::Exit(0);
        assert_eq!(verdict(&case, well, well, "9 bytes"), Verdict::Ok);
        assert_eq!(verdict(&case, well, well, "nothing"), Verdict::Fail);
        assert_eq!(verdict(&case, well, End::Exit(1), "9 bytes"), Verdict::Fail);
        assert_eq!(
            verdict(&case, End::Signal(11), well, "9 bytes"),
            Verdict::Fail
        );
        assert_eq!(verdict(&case, End::Hung, well, "9 bytes"), Verdict::Hung);
        assert_eq!(verdict(&case, well, End::Hung, "9 bytes"), Verdict::Hung);
    }

    #[test]
    fn a_hang_is_reported_with_the_unread_bytes() {
        let case = Case::single("c", "true");
        let ends = Ends {
            server: None,
            client: End::Hung,
        };
        let mut printed = Printed {
            hung: "rping\n202 0x7f00\n".into(),
            ..Printed::default()
        };
        let reason = judge(&case, &ends, &printed, None).reason;
        assert_eq!(reason, "killed after minutes");
        printed.hung += &format!("{UNREAD}128 bytes, A B\n");
        let reason = judge(&case, &ends, &printed, None).reason;
        assert_eq!(
            reason,
            format!("killed after minutes; {UNREAD}128 bytes, A B")
        );
    }

    #[test]
    fn the_cause_is_reported_before_its_effects() {
        let text = "RDMA CM event error:\nEvent: RDMA_CM_EVENT_REJECTED; error: 8.\n\nERRNO: Operation not supported.\n";
        assert_eq!(last_line(text), "Event: RDMA_CM_EVENT_REJECTED; error: 8.");
        assert_eq!(last_line("one\ntwo\n-----\n"), "two");
        assert_eq!(last_words("none\none:\n  two\n"), "one: two");
        assert_eq!(last_words("none\none\n"), "one");
        assert_eq!(last_words(" one\n"), "one");
        assert_eq!(last_words(text), last_line(text));
    }

    #[test]
    fn the_end_of_a_long_complaint_is_reported() {
        let text: String = (0..40).map(|number| format!("{number}\n\n")).collect();
        let reported = lines_to_show(&text);
        assert_eq!(
            (reported.len(), reported.first()),
            (LAST_LINES, Some(&"28"))
        );
        assert_eq!(lines_to_show("\none\n"), ["one"]);
    }

    #[test]
    fn a_failure_is_reported_beside_the_libraries_that_it_left_unloaded() {
        let judged = |case: &Case, client| {
            let ends = Ends {
                server: None,
                client,
            };
            let printed = Printed {
                client: "no".into(),
                ..Printed::default()
            };
            let record = judge(case, &ends, &printed, Some("1 of 2".into()));
            // Also where a failure or a refusal is expected.
            assert_eq!(record.verdict, Verdict::WrongLibrary);
            record.reason
        };
        let case = Case::single("c", "false");
        let failed = judged(&case, End::Exit(1));
        assert!(
            failed.starts_with("1 of 2; client ") && failed.ends_with(": no"),
            "{failed}"
        );
        assert_eq!(judged(&case, End::Exit(0)), "1 of 2");
        assert_eq!(judged(&case.may_refuse(), End::Exit(1)), failed);
    }

    #[test]
    fn a_refusal_is_an_exit_and_never_a_crash() {
        let case = Case::single("c", "false").may_refuse();
        let well = End::Exit(0);
        assert_eq!(verdict(&case, End::Exit(1), well, "no"), Verdict::Refused);
        assert_eq!(verdict(&case, End::Signal(6), well, "no"), Verdict::Fail);
    }
}
