//! Suites of uroce in the virtual machine, each in a separate network namespace: in the first one,
//! soft-RoCE has the port.
#![forbid(unsafe_code)]

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};

use crate::{network::network, vm::Job};

/// Begins the label of such a suite, and the names of the stages that run it on this machine.
pub const STAGE: &str = "uroce:";

/// Runs a suite. Its results are in [`directory`].
///
/// # Errors
/// The suite did not come to its end.
pub fn run(dir: &Path, ours: &Path, label: &str) -> Result<()> {
    let own = directory(dir, label);
    fs::create_dir_all(&own)?;
    let job = Job::Suites {
        ours: Some(ours.to_owned()),
        labels: vec![label.to_owned()],
    };
    job.save(&own)?;
    let mut command = network(&env::current_exe()?);
    let status = command.arg("in-network").arg(&own).status()?;
    if !status.success() {
        bail!("{label}: {status}");
    }
    Ok(())
}

/// The directory of a suite's results, below that of the job.
pub fn directory(dir: &Path, label: &str) -> PathBuf {
    dir.join(format!("uroce-{label}"))
}
