//! Programs of these stages, in a separate network namespace where they use a device.
#![forbid(unsafe_code)]

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Result, bail};

use crate::{dirs::Dirs, host, network::network, report::Tally};

/// Makes what `cargo xtask install` installs, if the packages have not.
pub fn build(dirs: &Dirs) -> Result<()> {
    if dirs.packaged.is_some() {
        return Ok(());
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release"]).current_dir(&dirs.root);
    host::must_run(&mut cargo, &dirs.work.join("dist-build.log"))
}

/// Counts one test.
pub fn one(tally: &mut Tally, stage: &str, name: &str, result: Result<()>) {
    println!("-- {stage}: {name}");
    match result {
        Ok(()) => tally.passed += 1,
        Err(error) => tally.fail(format!("{stage}: {name}: {error:#}")),
    }
}

/// A shell script, and the words that it gets, in a separate network namespace with `lo`.
pub fn in_network(script: &str, words: &[&str]) -> Command {
    // In a network that is not our own it is up.
    let script = format!("ip link set lo up 2>/dev/null\nset -eu\n{script}");
    let mut command = network(Path::new("sh"));
    command.args(["-c", &script, "sh"]).args(words);
    command
}

/// Runs the words as a server, and with an address behind them as its client, once it listens at
/// the port that is the first word.
pub const PAIR: &str = r#"
port=$1 && shift
"$@" & server=$!
until ss -ltnH "sport = $port" | grep -q .; do
    case $(cat /proc/$server/stat) in *") Z "*) echo "the server has ended"; exit 1 ;; esac
    sleep 0.05
done
"$@" 127.0.0.1
wait $server"#;

/// Runs a command that has to end well and to print some words, on either output.
pub fn prints(command: &mut Command, log: &Path, wanted: &[&str]) -> Result<()> {
    ends(command, log, wanted, true)
}

/// The same for a command that has to fail.
pub fn fails(command: &mut Command, log: &Path, wanted: &[&str]) -> Result<()> {
    ends(command, log, wanted, false)
}

fn ends(command: &mut Command, log: &Path, wanted: &[&str], well: bool) -> Result<()> {
    let outcome = host::run_silently(command.stdin(Stdio::null()), log, None)?;
    if outcome.status.success() != well {
        bail!("{}; see {}", outcome.status, log.display());
    }
    for wanted in wanted {
        if !outcome.text.contains(wanted) {
            bail!("it did not print {wanted:?}; see {}", log.display());
        }
    }
    Ok(())
}
