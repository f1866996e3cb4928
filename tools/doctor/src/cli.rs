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
    ::verbs::process::end_on_closed_pipe();
    let asked = match read(std::env::args_os().skip(1)) {
        Ok(asked) => asked,
        Err(error) => {
            eprintln!("ibv_doctor: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&asked) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ibv_doctor: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read(args: impl Iterator<Item = OsString>) -> Result<Args, lexopt::Error> {
    let mut asked = Args {
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
    let mut words = lexopt::Parser::from_args(args);
    while let Some(word) = words.next()? {
        match word {
            Long("netdev") => asked.task = Task::Netdev(words.value()?.string()?),
            Long("pair") => {
                pairing = true;
                host = words
                    .optional_value()
                    .map(|host| host.string())
                    .transpose()?;
            }
            Long("json") => asked.json = true,
            Long("root") => asked.root = Some(words.value()?.into()),
            Short('h') | Long("help") => asked.task = Task::Help,
            Short('d') | Long("ib-dev") => {
                asked.choice.device = Some(words.value()?.string()?);
                chosen = true;
            }
            Short('i') | Long("ib-port") => {
                asked.choice.port = words.value()?.parse()?;
                chosen = true;
            }
            Short('g') | Long("gid-idx") => {
                asked.choice.gid = Some(words.value()?.parse()?);
                chosen = true;
            }
            Short('p') | Long("port") => {
                asked.choice.tcp = words.value()?.parse()?;
                chosen = true;
            }
            Value(word) if pairing && host.is_none() => host = Some(word.string()?),
            other => return Err(other.unexpected()),
        }
    }
    let busy = !matches!(asked.task, Task::Look);
    if chosen && !pairing {
        return Err("-d, -i, -g and -p go with --pair".into());
    }
    if pairing && matches!(asked.task, Task::Netdev(_)) {
        return Err("--netdev and --pair do not go together".into());
    }
    if pairing && !busy {
        asked.task = Task::Pair(host);
    }
    Ok(asked)
}

/// Executes the request; returns whether it succeeded.
fn run(asked: &Args) -> io::Result<bool> {
    let mut out = io::stdout();
    match &asked.task {
        Task::Help => out.write_all(USAGE.as_bytes()).map(|()| true),
        Task::Look => look(asked, &mut out),
        Task::Netdev(wanted) => {
            let interfaces = Probe::new(asked.root.as_deref()).machine().interfaces;
            match netdev::find(wanted, &interfaces, &verbs::all()) {
                Ok(found) if asked.json => writeln!(out, "{}", found.json())?,
                Ok(found) => out.write_all(found.text().as_bytes())?,
                Err(missing) => {
                    eprintln!("ibv_doctor: {missing}");
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Task::Pair(host) => {
            let outcome = pair::run(&asked.choice, host.as_deref());
            if asked.json {
                writeln!(out, "{}", outcome.json())?;
            } else {
                out.write_all(outcome.text().as_bytes())?;
            }
            Ok(outcome.passed())
        }
    }
}

fn look(asked: &Args, out: &mut io::Stdout) -> io::Result<bool> {
    let mut facts = Probe::new(asked.root.as_deref()).machine();
    if asked.root.is_none() {
        facts.verbs = Some(verbs::all());
    }
    let findings = diagnose(&facts);
    if asked.json {
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
            let asked = words(line).unwrap();
            assert!(
                matches!(&asked.task, Task::Pair(Some(host)) if host == "host"),
                "{line}"
            );
            assert_eq!(asked.choice.tcp, 7);
            assert_eq!(asked.choice.device.as_deref(), Some("mlx5_0"));
        }
        assert!(matches!(words("--pair -h").unwrap().task, Task::Help));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
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
