//! OpenMPI with a rank on each of four hosts (`guest/four-hosts`), over uroce and over TCP.
#![forbid(unsafe_code)]

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, bail};

use super::row::{Carrier, MpiTest, MpiTransport, SYSFS, UCX_OVER_UROCE};
use crate::guest::process::Process;

/// Scripts in `xtask/guest`: the hosts, a command on one of them, and the program of the ranks.
pub const SCRIPTS: [&str; 3] = ["four-hosts", "on-host", "mpi-speed.py"];

const HOSTS: &str = "10.9.4.1,10.9.4.2,10.9.4.3,10.9.4.4";
/// The interface of each host.
const INTERFACE: &str = "eth0";
/// Ranks outnumber the processors, so a rank that waits gives its processor away.
const OPTIONS: &str = "--allow-run-as-root --bind-to none --mca mpi_yield_when_idle 1";
/// Nothing here takes longer than seconds.
const BOUND: Duration = Duration::from_secs(300);
/// Precedes the figure in the output of the program.
const PREFIX: &str = "figure ";

/// The figure of a test.
pub fn measure(dir: &Path, ours: &Path, test: MpiTest, over: MpiTransport) -> Result<f64> {
    let MpiTest { test, size, count } = test;
    let shown = dir.display();
    let (options, entering) = match over {
        MpiTransport::Tcp => (
            format!("--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include {INTERFACE}"),
            String::new(),
        ),
        MpiTransport::Uroce => (
            "--mca pml ucx --mca btl ^vader,tcp,openib".to_owned(),
            format!("{shown}/{}", SYSFS),
        ),
    };
    let line = format!(
        "{shown}/four-hosts {shown}/on-host 1 mpirun {OPTIONS} {options} --host {HOSTS} -n 4 \
         --mca plm_rsh_agent {shown}/on-host --mca oob_tcp_if_include {INTERFACE} {entering} \
         /usr/bin/python3 -B {shown}/mpi-speed.py {test} {size} {count}"
    );
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    if over == MpiTransport::Uroce {
        command
            .env("LD_LIBRARY_PATH", ours)
            .env("UROCE_CARRIER", Carrier::Udp.word())
            .env("UROCE_DEVICES", INTERFACE)
            .env("UCX_TLS", UCX_OVER_UROCE)
            .env("UCX_NET_DEVICES", format!("uroce_{INTERFACE}:1"))
            .env("UCX_IB_GID_INDEX", "0");
    }
    let [out, err] = ["out", "err"].map(|end| dir.join(format!("ranks.{end}")));
    let mut ranks = Process::start_apart(&mut command, &out, &err)?;
    let end = ranks.wait(BOUND)?;
    ranks.stop()?;
    if !end.well() {
        bail!("{line}: {end}; see {}", err.display());
    }
    let text = fs::read_to_string(&out).with_context(|| out.display().to_string())?;
    figure(&text).with_context(|| format!("no figure in {text:?}"))
}

fn figure(text: &str) -> Option<f64> {
    let value = text.lines().find_map(|line| line.strip_prefix(PREFIX))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_is_found_between_other_lines() {
        assert_eq!(figure("a warning\nfigure 12.5\n"), Some(12.5));
        assert_eq!(figure("12.5\n"), None);
        assert_eq!(figure("figure many\n"), None);
    }
}
