//! The throw-away root: this machine's file system with a layer of memory over it.
//!
//! It is made in namespaces that the caller made for this process alone, so all of it is gone
//! when the process ends.
#![forbid(unsafe_code)]

use std::{
    env, fs,
    os::unix::fs::chroot,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail};

use super::transitions;

/// Where the job's directory is in the throw-away root.
const JOB: &str = "/run/ferroverbs-package";

/// The package manager's record, which has to be the same inside.
const STATUS: &str = "/var/lib/dpkg/status";

/// Enters the root and makes the transitions.
pub fn run(job: &Path) -> Result<ExitCode> {
    let job = fs::canonicalize(job).with_context(|| job.display().to_string())?;
    if std::process::id() != 1 {
        bail!("in-root is for a process in separate namespaces; use `cargo xtask test`");
    }
    let status = fs::read(STATUS).context(STATUS)?;
    enter(&job)?;
    if fs::read(STATUS).ok() != Some(status) {
        bail!("{STATUS} is not a part of the root file system; the copy lacks it");
    }
    let fine = transitions::run(Path::new(JOB))?;
    Ok(if fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn enter(job: &Path) -> Result<()> {
    let memory = job.join("memory");
    fs::create_dir_all(&memory)?;
    mount(&["-t", "tmpfs", "tmpfs"], &memory)?;
    let (upper, work, root) = (
        memory.join("upper"),
        memory.join("work"),
        memory.join("root"),
    );
    for dir in [&upper, &work, &root] {
        fs::create_dir(dir)?;
    }
    // Options of mount are separated by commas; a checkout's path is known to have none.
    let layers = format!(
        "lowerdir=/,upperdir={},workdir={}",
        upper.display(),
        work.display()
    );
    mount(&["-t", "overlay", "-o", &layers, "overlay"], &root)?;
    mount(&["-t", "proc", "proc"], &root.join("proc"))?;
    mount(&["-t", "sysfs", "-o", "ro", "sysfs"], &root.join("sys"))?;
    mount(&["--rbind", "/dev"], &root.join("dev"))?;
    let inside = root.join(JOB.trim_start_matches('/'));
    fs::create_dir_all(&inside)?;
    let job_text = job.to_str().context("the path of the job is not UTF-8")?;
    mount(&["--bind", job_text], &inside)?;
    chroot(&root).context("chroot")?;
    env::set_current_dir("/").context("enter the root")?;
    Ok(())
}

fn mount(words: &[&str], on: &Path) -> Result<()> {
    let output = Command::new("mount").args(words).arg(on).output();
    let output = output.context("start mount")?;
    if !output.status.success() {
        bail!(
            "mount {}: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}
