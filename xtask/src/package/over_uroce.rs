//! In the throw-away root: the release's own programs over the device in user space, as a user
//! without rights.
#![forbid(unsafe_code)]

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};

use super::{EXCHANGE, IN_SYSFS, notes::Notes};
use crate::{host::must, suites::mpi};

/// The user that Debian has for what may do nothing.
const USER: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

/// Starts `$1` and, when its port (`$0`, in hexadecimal) listens, `$2`.
const PAIR: &str = r#"
$1 & server=$!
until grep -qE ":$0 [0-9A-F]+:0000 0A" /proc/net/tcp /proc/net/tcp6; do
    kill -0 $server && sleep 0.1 || exit 1
done
$2 && wait $server"#;

/// Two programs that talk to each other.
struct Pair {
    port: &'static str,
    server: &'static str,
    client: &'static str,
    says: &'static str,
}

const PAIRS: [Pair; 4] = [
    Pair {
        port: "4853",
        server: "ibv_rc_pingpong -d uroce_lo -g 0 -n 100",
        client: "ibv_rc_pingpong -d uroce_lo -g 0 -n 100 127.0.0.1",
        says: "100 iters in",
    },
    Pair {
        port: "4853",
        server: "ib_write_bw -d uroce_lo -F -n 100 -s 4096",
        client: "ib_write_bw -d uroce_lo -F -n 100 -s 4096 127.0.0.1",
        says: "BW average",
    },
    Pair {
        port: "4853",
        server: "ib_send_lat -d uroce_lo -F -n 100 -s 64",
        client: "ib_send_lat -d uroce_lo -F -n 100 -s 64 127.0.0.1",
        says: "t_typical",
    },
    Pair {
        port: "3419",
        server: "ucx_perftest -p 13337",
        client: "ucx_perftest -p 13337 127.0.0.1 -t ucp_put_lat -s 64 -n 100 -w 10",
        says: "Final:",
    },
];

const UCX: &str = "ucx_perftest";

/// A UCX that is built with MPI takes each process for one of a job without this option; others
/// refuse it.
const WITHOUT_MPI: &str = "-P 0";

/// A command of a pair, with the option if the program has it.
fn with_option(command: &str, help: &str) -> String {
    match command.strip_prefix(UCX) {
        Some(rest) if help.contains("-P <0|1>") => format!("{UCX} {WITHOUT_MPI}{rest}"),
        _ => command.to_owned(),
    }
}

/// The device for all, and for UCX. UCX gives up on a peer late, because this machine may be busy.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("UROCE_DEVICES", "lo"),
    ("UCX_NET_DEVICES", "uroce_lo:1"),
    ("UCX_IB_GID_INDEX", "0"),
    ("UCX_TLS", "rc_verbs,ud_verbs:aux"),
    ("UCX_UD_VERBS_TIMEOUT", "3600s"),
    ("UCX_RC_VERBS_TIMEOUT", "10s"),
];

/// What UCX reaches verbs by. The UCX of Debian sid was built without it at times.
const UCX_VERBS: &str = "/usr/lib/x86_64-linux-gnu/ucx/libuct_ib.so.0";

/// Runs them and notes each result.
pub(super) fn run(job: &Path, notes: &mut Notes) -> Result<()> {
    must(Command::new("ip").args(["link", "set", "lo", "up"]))?;
    notes.add("over uroce: ibv_devinfo", device())?;
    for pair in &PAIRS {
        let name = pair.server.split(' ').next().unwrap_or_default();
        let label = format!("over uroce: {name}");
        if name == UCX && !Path::new(UCX_VERBS).exists() {
            notes.skip(&label, "this release's UCX is built without verbs")?;
            continue;
        }
        notes.add(&label, talk(job, pair))?;
    }
    for exchange in mpi::EXCHANGES {
        let label = format!("over uroce: OpenMPI, {exchange}");
        if !Path::new(UCX_VERBS).exists() {
            notes.skip(&label, "this release's UCX is built without verbs")?;
            continue;
        }
        notes.add(&label, ranks(job, exchange))?;
    }
    Ok(())
}

/// An exchange between two ranks of OpenMPI by UCX.
fn ranks(job: &Path, exchange: &str) -> Result<()> {
    let script = job.join(EXCHANGE);
    let script = script.to_str().context("the job's directory has no name")?;
    let line = format!(
        "mpirun {} -n 2 --oversubscribe /usr/bin/python3 -B {script} {exchange}",
        mpi::OPTIONS
    );
    let words: Vec<_> = line.split(' ').collect();
    let mut program = Command::new("sh");
    program.arg(job.join(IN_SYSFS)).args(command(&words));
    program.envs(ENVIRONMENT).env("HOME", "/tmp");
    let text = must(&mut program)?;
    if !text.contains("2 ranks agree") {
        bail!("{text}");
    }
    Ok(())
}

/// A command of that user, with the device.
fn command(words: &[&str]) -> Vec<String> {
    let mut command = vec!["setpriv".to_owned()];
    command.extend(USER.iter().chain(words).map(|&word| word.to_owned()));
    command
}

fn device() -> Result<()> {
    let words = command(&["ibv_devinfo", "-d", "uroce_lo"]);
    let mut program = Command::new("env");
    let text = must(program.args(words).env("UROCE_DEVICES", "lo"))?;
    if !text.contains("PORT_ACTIVE") {
        bail!("{text}");
    }
    Ok(())
}

fn talk(job: &Path, pair: &Pair) -> Result<()> {
    let help = match pair.server.starts_with(UCX) {
        true => must(Command::new(UCX).arg("-h"))?,
        false => String::new(),
    };
    let [server, client] = [pair.server, pair.client].map(|words| with_option(words, &help));
    let words = ["sh", "-c", PAIR, pair.port, &server, &client];
    let mut program = Command::new("sh");
    let text = must(
        program
            .arg(job.join(IN_SYSFS))
            .args(command(&words))
            .envs(ENVIRONMENT),
    )?;
    if !text.contains(pair.says) {
        bail!("{text}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_ucx_with_mpi_gets_the_option_against_it() {
        let command = "ucx_perftest -p 1";
        assert_eq!(
            with_option(command, "-P <0|1>  MPI"),
            "ucx_perftest -P 0 -p 1"
        );
        assert_eq!(with_option(command, "-p <port>"), command);
        assert_eq!(
            with_option("ib_send_lat -n 1", "-P <0|1>"),
            "ib_send_lat -n 1"
        );
    }
}
