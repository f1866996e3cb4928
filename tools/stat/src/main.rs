//! `uroce-stat [--user NUMBER] [PROCESS...]`: counters of the devices and queue pairs of uroce, in
//! the processes of a user and this network namespace that have one open.
//!
//! A line consists of words: its subject, then pairs of a name and a value. The lines of a process
//! follow each other, first its own, then its queue pairs; at the end there is a line for each
//! device, with the sums of its existing queue pairs.
//!
//! Any user can have sockets of such names. The kernel reports the owner of a socket and the
//! process that listens there; replies from other users are not read.
#![forbid(unsafe_code)]

mod ask;
mod report;

use ask::{Answer, Silence, ask};
use report::{Devices, lines, process_of};
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;
use uroce::carrier::registry::{Name, listening};
use uroce::carrier::udp::port_user;

const USAGE: &str = "usage: uroce-stat [--user NUMBER] [PROCESS...]\n\
    \n\
    Prints what the queue pairs of uroce have counted, in the processes that have\n\
    a device of it open, or in those named. They are those of the user who runs\n\
    this; for root, those of the user who has UDP port 4791.\n";

/// Processes that are asked at once.
const AT_ONCE: usize = 16;
/// Processes that are asked at most: there are 1022 slots, and of a slot that changes hands two for
/// a moment.
const MOST: usize = 2048;

#[derive(Debug, Default, PartialEq, Eq)]
struct Arguments {
    user: Option<u32>,
    /// All if none is named.
    processes: Vec<u32>,
}

/// `None` asks for the usage.
fn arguments(mut words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut arguments = Arguments::default();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--user" | "-u" => {
                let user = words.next().ok_or("--user needs the number of a user")?;
                let number = user.parse();
                arguments.user = Some(number.map_err(|_| format!("{user} is no user number"))?);
            }
            _ => {
                let process = word.parse();
                let process = process.map_err(|_| format!("{word} is no process number"))?;
                arguments.processes.push(process);
            }
        }
    }
    Ok(Some(arguments))
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
    match report(&arguments, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("uroce-stat: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The user whose processes are queried by default: for root the user of the UDP port, without
/// which no device can be open.
fn default_user() -> u32 {
    let own = kit::sys::identity::effective_user();
    let other = (own == 0).then(port_user).flatten();
    other.unwrap_or(own)
}

fn report(arguments: &Arguments, output: &mut impl Write) -> io::Result<()> {
    let user = arguments.user.unwrap_or_else(default_user);
    let mut devices = Devices::default();
    for some in names(user)?.chunks(AT_ONCE) {
        for answer in ask_all(some, user) {
            match answer {
                Ok(answer) => show(&answer, arguments, &mut devices, output)?,
                Err(Silence::Gone) => {}
                Err(Silence::Refused(Some(process), why)) => {
                    eprintln!("uroce-stat: process {process} {why}");
                }
                Err(Silence::Refused(None, why)) => eprintln!("uroce-stat: a process {why}"),
            }
        }
    }
    for line in devices.lines() {
        writeln!(output, "{line}")?;
    }
    output.flush()
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

fn show(
    answer: &Answer,
    arguments: &Arguments,
    devices: &mut Devices,
    output: &mut impl Write,
) -> io::Result<()> {
    let process = process_of(answer);
    let is_wanted = |process| arguments.processes.contains(&process);
    if !arguments.processes.is_empty() && !process.is_some_and(is_wanted) {
        return Ok(());
    }
    let (lines, is_whole) = lines(answer);
    for line in &lines {
        writeln!(output, "{line}")?;
    }
    if !is_whole {
        eprintln!("uroce-stat: process {process:?} sends more than is printed");
    }
    devices.add(&lines);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line() {
        let of = |words: &[&str]| arguments(words.iter().map(|word| (*word).to_owned()));
        let some = |user, processes: &[u32]| {
            let processes = processes.to_vec();
            Ok(Some(Arguments { user, processes }))
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
}
