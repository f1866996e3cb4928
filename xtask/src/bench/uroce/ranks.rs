//! OpenMPI with a rank on each of four hosts (`guest/four-hosts`), over uroce, and over TCP by
//! OpenMPI and by UCX.
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
/// Transports of OpenMPI that are not to be used beside UCX.
const NO_OTHERS: &str = "^vader,tcp,openib";
/// Nothing here takes longer than seconds.
const BOUND: Duration = Duration::from_secs(300);
/// Precedes the figure in the output of the program.
const PREFIX: &str = "figure ";

/// The figure of a test.
pub fn measure(dir: &Path, ours: &Path, test: MpiTest, over: MpiTransport) -> Result<f64> {
    let MpiTest { test, size, count } = test;
    let shown = dir.display();
    let options = over.options();
    let entering = match over {
        MpiTransport::Uroce => format!("{shown}/{SYSFS}"),
        MpiTransport::Tcp | MpiTransport::UcxTcp => String::new(),
    };
    let line = format!(
        "{shown}/four-hosts {shown}/on-host 1 mpirun {OPTIONS} {options} --host {HOSTS} -n 4 \
         --mca plm_rsh_agent {shown}/on-host --mca oob_tcp_if_include {INTERFACE} {entering} \
         /usr/bin/python3 -B {shown}/mpi-speed.py {test} {size} {count}"
    );
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).envs(over.environment());
    if over == MpiTransport::Uroce {
        command.env("LD_LIBRARY_PATH", ours);
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

impl MpiTransport {
    /// The options of mpirun that choose it.
    fn options(self) -> String {
        // Without these, OpenMPI uses UCX only over devices that it knows.
        const ANY: &str = "--mca opal_common_ucx_tls any --mca opal_common_ucx_devices any";
        match self {
            Self::Tcp => {
                format!("--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include {INTERFACE}")
            }
            Self::UcxTcp => format!("--mca pml ucx {ANY} --mca btl {NO_OTHERS}"),
            Self::Uroce => format!("--mca pml ucx --mca btl {NO_OTHERS}"),
        }
    }

    /// The variables that choose it.
    fn environment(self) -> Vec<(&'static str, String)> {
        match self {
            Self::Tcp => Vec::new(),
            Self::UcxTcp => vec![
                ("UCX_TLS", "tcp,self".to_owned()),
                ("UCX_NET_DEVICES", INTERFACE.to_owned()),
            ],
            Self::Uroce => vec![
                ("UROCE_CARRIER", Carrier::Udp.word().to_owned()),
                ("UROCE_DEVICES", INTERFACE.to_owned()),
                ("UCX_TLS", UCX_OVER_UROCE.to_owned()),
                ("UCX_NET_DEVICES", format!("uroce_{INTERFACE}:1")),
                ("UCX_IB_GID_INDEX", "0".to_owned()),
            ],
        }
    }
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
