//! The command line, and the statuses.

use std::{
    ffi::OsString,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use lexopt::prelude::*;

use crate::{
    diagnose::{Weight, diagnose},
    netdev,
    pair::{self, Choice},
    probe::{Probe, verbs},
    report,
};

const USAGE: &str = "\
Usage: ibv_doctor [--json]                    what keeps RDMA from working, and what to type
       ibv_doctor --netdev NAME|ADDRESS       device, port and RoCE v2 GID of an interface
       ibv_doctor --pair [-d DEV] [-g INDEX]  wait for another machine, test and compare
       ibv_doctor --pair HOST                 do that with the machine that waits

Options:
  -d, --ib-dev=DEV    with --pair: this device (default: that of the connection's address)
  -i, --ib-port=PORT  with --pair: this port of it (default 1)
  -g, --gid-idx=INDEX with --pair: this GID (default: that of the connection's address)
  -p, --port=PORT     with --pair: this TCP port (default 18516)
      --json          print JSON instead
  -h, --help          print this

Status: 0 all is well, or found, or passed; 1 a problem, not found, or failed; 2 bad usage.
";

/// The TCP port of `--pair`.
const PORT: u16 = 18516;

enum Task {
    Look,
    Netdev(String),
    Pair(Option<String>),
    Help,
}

struct Args {
    task: Task,
    json: bool,
    choice: Choice,
    /// A folder used instead of the machine, for tests; then the library is not asked.
    root: Option<PathBuf>,
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    ::verbs::tools::process::end_on_closed_pipe();
    let args = match read(std::env::args_os().skip(1)) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("ibv_doctor: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ibv_doctor: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read(given: impl Iterator<Item = OsString>) -> Result<Args, lexopt::Error> {
    let mut args = Args {
        task: Task::Look,
        json: false,
        choice: Choice {
            tcp: PORT,
            port: 1,
            ..Choice::default()
        },
        root: None,
    };
    let (mut pairing, mut chosen, mut host) = (false, false, None);
    let mut words = lexopt::Parser::from_args(given);
    while let Some(word) = words.next()? {
        match word {
            Long("netdev") => args.task = Task::Netdev(words.value()?.string()?),
            Long("pair") => {
                pairing = true;
                host = words
                    .optional_value()
                    .map(|host| host.string())
                    .transpose()?;
            }
            Long("json") => args.json = true,
            Long("root") => args.root = Some(words.value()?.into()),
            Short('h') | Long("help") => args.task = Task::Help,
            Short('d') | Long("ib-dev") => {
                args.choice.device = Some(words.value()?.string()?);
                chosen = true;
            }
            Short('i') | Long("ib-port") => {
                args.choice.port = words.value()?.parse()?;
                chosen = true;
            }
            Short('g') | Long("gid-idx") => {
                args.choice.gid = Some(words.value()?.parse()?);
                chosen = true;
            }
            Short('p') | Long("port") => {
                args.choice.tcp = words.value()?.parse()?;
                chosen = true;
            }
            Value(word) if pairing && host.is_none() => host = Some(word.string()?),
            other => return Err(other.unexpected()),
        }
    }
    let busy = !matches!(args.task, Task::Look);
    if chosen && !pairing {
        return Err("-d, -i, -g and -p go with --pair".into());
    }
    if pairing && matches!(args.task, Task::Netdev(_)) {
        return Err("--netdev and --pair do not go together".into());
    }
    if pairing && !busy {
        args.task = Task::Pair(host);
    }
    Ok(args)
}

/// Executes the request; returns whether it succeeded.
fn run(args: &Args) -> io::Result<bool> {
    let mut out = io::stdout();
    match &args.task {
        Task::Help => out.write_all(USAGE.as_bytes()).map(|()| true),
        Task::Look => look(args, &mut out),
        Task::Netdev(wanted) => {
            let interfaces = Probe::new(args.root.as_deref()).machine().interfaces;
            match netdev::find(wanted, &interfaces, &verbs::all()) {
                Ok(found) if args.json => writeln!(out, "{}", found.json())?,
                Ok(found) => out.write_all(found.text().as_bytes())?,
                Err(missing) => {
                    eprintln!("ibv_doctor: {missing}");
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Task::Pair(host) => {
            let outcome = pair::run(&args.choice, host.as_deref());
            if args.json {
                writeln!(out, "{}", outcome.json())?;
            } else {
                out.write_all(outcome.text().as_bytes())?;
            }
            Ok(outcome.passed())
        }
    }
}

fn look(args: &Args, out: &mut io::Stdout) -> io::Result<bool> {
    let mut facts = Probe::new(args.root.as_deref()).machine();
    if args.root.is_none() {
        facts.verbs = Some(verbs::all());
    }
    let findings = diagnose(&facts);
    if args.json {
        writeln!(out, "{}", report::document(&facts, &findings))?;
    } else {
        // An empty value has no effect (https://no-color.org).
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colored = out.is_terminal() && !unwanted;
        report::text(&facts, &findings, colored, out)?;
    }
    let well = !findings
        .iter()
        .any(|finding| finding.weight == Weight::Problem);
    Ok(well)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Args, lexopt::Error> {
        read(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn lines_are_understood() {
        assert!(matches!(words("").unwrap().task, Task::Look));
        assert!(words("--json").unwrap().json);
        assert!(
            matches!(words("--netdev eth0").unwrap().task, Task::Netdev(name) if name == "eth0")
        );
        assert!(matches!(words("--pair").unwrap().task, Task::Pair(None)));
        for line in [
            "--pair host -p 7 -d mlx5_0",
            "-p 7 --pair=host --ib-dev=mlx5_0",
        ] {
            let args = words(line).unwrap();
            assert!(
                matches!(&args.task, Task::Pair(Some(host)) if host == "host"),
                "{line}"
            );
            assert_eq!(args.choice.tcp, 7);
            assert_eq!(args.choice.device.as_deref(), Some("mlx5_0"));
        }
        assert!(matches!(words("--pair -h").unwrap().task, Task::Help));
    }

    #[test]
    fn wrong_options_are_refused() {
        for line in [
            "host",
            "--netdev",
            "--pair one two",
            "-d mlx5_0",
            "--netdev eth0 -g 1",
            "--netdev eth0 --pair",
            "--pair -g x",
            "--pair -i 256",
            "--pair -p 65536",
            "--what",
        ] {
            assert!(words(line).is_err(), "{line}");
        }
    }
}
