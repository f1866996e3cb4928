//! `uroce-stat [OPTIONS] [PROCESS...]`: the queue pairs of uroce in the processes of a user and
//! this network namespace that have a device of it open.
//!
//! A process answers with lines of words ([`mod@lines`]): the subject, then pairs of a name and a
//! value. Lines of a process follow each other, first its own, then its queue pairs. `--lines`
//! prints them as they are. Otherwise they become values ([`sample`]), which [`table`] and [`json`]
//! print; [`advice`] names causes of slow connections.
//!
//! Any user can have sockets of such names. The kernel says whose a socket is and which process
//! listens there; answers of other users than the one in question are not read.
#![forbid(unsafe_code)]

mod advice;
mod ask;
mod json;
mod lines;
mod sample;
mod table;

use ask::{Answer, Silence, ask};
use lines::{Devices, lines, printable_name, process_of};
use sample::{Process, Sample};
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};
use uroce::carrier::registry::{Name, listening};
use uroce::carrier::udp::port_user;

const USAGE: &str = "usage: uroce-stat [--user NUMBER] [PROCESS...]\n\
    \n\
    Prints the queue pairs of uroce in the processes that have a device of it open,\n\
    or in those named. They are those of the user who runs this; for root, those of\n\
    the user who has UDP port 4791.\n\
    \n\
    \x20     --watch [SECONDS]  print again and again, with the rates of that time (1)\n\
    \x20     --count NUMBER     with --watch: end after so many tables\n\
    \x20     --json             print one JSON document of all counters\n\
    \x20     --lines            print the counters as lines of words, for scripts\n\
    \x20 -u, --user NUMBER      ask the processes of this user\n\
    \x20 -h, --help             print this\n";

/// The time over which the rates of a single table are measured.
const MEASURED: Duration = Duration::from_millis(250);
/// Moves the cursor of a terminal to the first line, and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Processes that are asked at once.
const AT_ONCE: usize = 16;
/// Processes that are asked at most: there are 1022 slots, and of a slot that changes hands two for
/// a moment.
const MOST: usize = 2048;

/// In which form the counters are printed.
#[derive(Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Table,
    /// A table after each time, that many times.
    Watch(Duration, Option<u64>),
    Json,
    Lines,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Arguments {
    user: Option<u32>,
    form: Form,
    /// All if none is named.
    processes: Vec<u32>,
}

/// `None` asks for the usage.
fn arguments(words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut words = words.peekable();
    let mut arguments = Arguments::default();
    let mut count = None;
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--user" | "-u" => {
                let user = words.next().ok_or("--user needs the number of a user")?;
                let number = user.parse();
                arguments.user = Some(number.map_err(|_| format!("{user} is no user number"))?);
            }
            "--json" => arguments.form = Form::Json,
            "--lines" => arguments.form = Form::Lines,
            "--watch" => {
                // A whole number could be a process.
                let time = words.peek().and_then(|word| seconds(word));
                if time.is_some() {
                    words.next();
                }
                arguments.form = Form::Watch(time.unwrap_or(Duration::from_secs(1)), None);
            }
            "--count" => {
                let number = words.next().and_then(|word| word.parse().ok());
                count = Some(number.ok_or("--count needs a number")?);
            }
            _ => {
                let process = word.parse();
                let process = process.map_err(|_| format!("{word} is no process number"))?;
                arguments.processes.push(process);
            }
        }
    }
    match (&mut arguments.form, count) {
        (Form::Watch(_, bound), _) => *bound = count,
        (_, Some(_)) => return Err("--count goes with --watch".to_owned()),
        _ => {}
    }
    Ok(Some(arguments))
}

/// A time between 10 ms and a day.
fn seconds(word: &str) -> Option<Duration> {
    let seconds: f64 = word.parse().ok()?;
    (0.01..=86400.0)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

fn main() -> ExitCode {
    let arguments = match arguments(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprint!("uroce-stat: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match print(&arguments, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("uroce-stat: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(arguments: &Arguments, output: &mut impl Write) -> io::Result<()> {
    match arguments.form {
        Form::Lines => print_lines(arguments, output)?,
        Form::Json => writeln!(output, "{}", json::document(&take(arguments, complain)?))?,
        Form::Table => {
            // The sample that is printed complains.
            let earlier = take(arguments, |_| {})?;
            if !earlier.processes.is_empty() {
                thread::sleep(MEASURED);
            }
            let sample = take(arguments, complain)?;
            output.write_all(table::text(&sample, &earlier, None).as_bytes())?;
        }
        Form::Watch(time, count) => watch(arguments, time, count, output)?,
    }
    output.flush()
}

/// Tables until the count is reached, or a signal ends the program.
fn watch(
    arguments: &Arguments,
    time: Duration,
    count: Option<u64>,
    output: &mut impl Write,
) -> io::Result<()> {
    let clear = match io::stdout().is_terminal() {
        true => CLEAR,
        false => "",
    };
    let mut earlier = take(arguments, |_| {})?;
    let mut printed = 0;
    while count.is_none_or(|count| printed < count) {
        thread::sleep(time);
        let sample = take(arguments, complain)?;
        let text = table::text(&sample, &earlier, Some(&earlier));
        write!(output, "{clear}{text}")?;
        if clear.is_empty() {
            writeln!(output)?;
        }
        output.flush()?;
        earlier = sample;
        printed += 1;
    }
    Ok(())
}

/// The user whose processes are asked by default: for root the user who has the UDP port, without
/// which no device can be open.
fn default_user() -> u32 {
    let own = kit::sys::identity::effective_user();
    let other = (own == 0).then(port_user).flatten();
    other.unwrap_or(own)
}

/// Reports on standard error.
fn complain(complaint: &str) {
    eprintln!("uroce-stat: {complaint}");
}

/// The lines of each process that was asked for, by slot. `complain` gets the processes whose
/// lines are not all there.
fn collect(
    arguments: &Arguments,
    complain: impl Fn(&str),
) -> io::Result<Vec<(Option<u32>, Vec<String>)>> {
    let user = arguments.user.unwrap_or_else(default_user);
    let mut collected = Vec::new();
    for some in names(user)?.chunks(AT_ONCE) {
        for answer in ask_all(some, user) {
            match answer {
                Ok(answer) => collected.extend(read(&answer, arguments, &complain)),
                Err(Silence::Gone) => {}
                Err(Silence::Refused(Some(process), why)) => {
                    complain(&format!("process {process} {why}"));
                }
                Err(Silence::Refused(None, why)) => complain(&format!("a process {why}")),
            }
        }
    }
    Ok(collected)
}

fn print_lines(arguments: &Arguments, output: &mut impl Write) -> io::Result<()> {
    let mut devices = Devices::default();
    for (_, lines) in collect(arguments, complain)? {
        for line in &lines {
            writeln!(output, "{line}")?;
        }
        devices.add(&lines);
    }
    for line in devices.lines() {
        writeln!(output, "{line}")?;
    }
    Ok(())
}

fn take(arguments: &Arguments, complain: impl Fn(&str)) -> io::Result<Sample> {
    let mut devices = Devices::default();
    let mut processes = Vec::new();
    for (process, lines) in collect(arguments, complain)? {
        devices.add(&lines);
        processes.push(Process::read(process, command(process), &lines));
    }
    Ok(Sample {
        at: Instant::now(),
        processes,
        devices,
    })
}

/// The name of a process's program.
fn command(process: Option<u32>) -> String {
    let file = process.map(|process| format!("/proc/{process}/comm"));
    let name = file.and_then(|file| std::fs::read(file).ok());
    printable_name(&name.unwrap_or_default())
}

/// The names of the sockets to ask at, of those that may be this user's.
fn names(user: u32) -> io::Result<Vec<Name>> {
    let sockets = listening().map_err(|error| io::Error::from_raw_os_error(error.raw()))?;
    let sockets = sockets
        .iter()
        .filter(|socket| socket.user.is_none_or(|whose| whose == user));
    let names = sockets.filter_map(|socket| Name::parse(&socket.name));
    let mut names: Vec<_> = names
        .filter(|name| matches!(name, Name::Statistics { .. }))
        .take(MOST)
        .collect();
    names.sort_unstable_by_key(Name::slot);
    Ok(names)
}

/// Asks some at once: one that is stopped takes a while.
fn ask_all(names: &[Name], user: u32) -> Vec<Result<Answer, Silence>> {
    thread::scope(|scope| {
        let start = |name| {
            let asks = thread::Builder::new().spawn_scoped(scope, move || ask(name, user));
            asks.map_err(|_| name)
        };
        let asking: Vec<_> = names.iter().map(start).collect();
        let answers = asking.into_iter().map(|asking| match asking {
            Ok(thread) => thread.join().unwrap_or(Err(Silence::Gone)),
            // Without threads one after the other.
            Err(name) => ask(name, user),
        });
        answers.collect()
    })
}

/// The lines of an answer, if its process was asked for.
fn read(
    answer: &Answer,
    arguments: &Arguments,
    complain: impl Fn(&str),
) -> Option<(Option<u32>, Vec<String>)> {
    let process = process_of(answer);
    let is_wanted = |process| arguments.processes.contains(&process);
    if !arguments.processes.is_empty() && !process.is_some_and(is_wanted) {
        return None;
    }
    let (lines, is_whole) = lines(answer);
    if !is_whole {
        let who = process.map_or_else(|| "of unknown number".to_owned(), |id| id.to_string());
        complain(&format!("process {who} sends more than is printed"));
    }
    Some((process, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line() {
        let of = |words: &[&str]| arguments(words.iter().map(|word| (*word).to_owned()));
        let some = |user, processes: &[u32]| {
            let processes = processes.to_vec();
            let form = Form::Table;
            Ok(Some(Arguments {
                user,
                form,
                processes,
            }))
        };
        assert_eq!(of(&[]), some(None, &[]));
        assert_eq!(of(&["7", "8"]), some(None, &[7, 8]));
        assert_eq!(of(&["--user", "1000", "8"]), some(Some(1000), &[8]));
        assert_eq!(of(&["7", "--help"]), Ok(None));
        for words in [["x"], ["-7"], ["4294967296"], ["--all"], ["--user"]] {
            assert!(of(&words).is_err(), "{words:?}");
        }
        assert!(of(&["--user", "root"]).is_err());
    }

    #[test]
    fn forms() {
        let of = |line: &str| {
            let arguments = arguments(line.split(' ').map(str::to_owned))?;
            Ok::<_, String>(arguments.map(|arguments| (arguments.form, arguments.processes)))
        };
        let watch = |millis, count| Form::Watch(Duration::from_millis(millis), count);
        let some = |form, processes: &[u32]| Ok(Some((form, processes.to_vec())));
        assert_eq!(of("--json 7"), some(Form::Json, &[7]));
        assert_eq!(of("--lines"), some(Form::Lines, &[]));
        assert_eq!(of("--watch"), some(watch(1000, None), &[]));
        assert_eq!(of("7 --watch 0.5"), some(watch(500, None), &[7]));
        assert_eq!(of("--watch 2 7 8"), some(watch(2000, None), &[7, 8]));
        assert_eq!(of("--watch --count 3"), some(watch(1000, Some(3)), &[]));
        for line in [
            "--count",
            "--count x",
            "--count 3",
            "--watch -1",
            "--watch nan",
        ] {
            assert!(of(line).is_err(), "{line}");
        }
    }
}
