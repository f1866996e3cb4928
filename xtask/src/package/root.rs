//! The throw-away root: this machine's file system, or a chroot of another release, with a layer of
//! memory over it.
//!
//! It is made in namespaces that the caller made for this process alone, so all of it is gone
//! when the process ends.
#![forbid(unsafe_code)]

use std::{
    env, fs,
    os::unix::fs::chroot,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail};

use super::{SOURCES, releases, transitions};

/// Where the job's directory is in the throw-away root.
const JOB: &str = "run/ferroverbs-package";

/// The package manager's record, which has to be the same inside.
const STATUS: &str = "var/lib/dpkg/status";

/// Enters the root above `lower`, or above this machine's, and makes the transitions. For another
/// release it makes the packages first.
pub fn run(job: &Path, lower: Option<&Path>) -> Result<ExitCode> {
    let job = fs::canonicalize(job).with_context(|| job.display().to_string())?;
    if std::process::id() != 1 {
        bail!("in-root is for a process in separate namespaces; use `cargo xtask test`");
    }
    let root = Root {
        lower: lower.unwrap_or(Path::new("/")),
        // The program that installs the build knows the sources by their path.
        sources: lower.map(|_| job.with_file_name(SOURCES)),
        job: &job,
    };
    let status = fs::read(root.lower.join(STATUS)).context(STATUS)?;
    root.enter()?;
    if fs::read(Path::new("/").join(STATUS)).ok() != Some(status) {
        bail!("{STATUS} is not a part of the root file system; the copy lacks it");
    }
    let job = Path::new("/").join(JOB);
    let fine = transitions::run(&job, |notes| match &root.sources {
        Some(sources) => releases::packages(sources, &job, notes),
        None => Ok(()),
    })?;
    Ok(if fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

struct Root<'a> {
    lower: &'a Path,
    job: &'a Path,
    /// Sources that keep their path.
    sources: Option<PathBuf>,
}

impl Root<'_> {
    fn enter(&self) -> Result<()> {
        let memory = self.job.join("memory");
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
            "lowerdir={},upperdir={},workdir={}",
            self.lower.display(),
            upper.display(),
            work.display()
        );
        mount(&["-t", "overlay", "-o", &layers, "overlay"], &root)?;
        mount(&["-t", "proc", "proc"], &root.join("proc"))?;
        mount(&["-t", "sysfs", "-o", "ro", "sysfs"], &root.join("sys"))?;
        mount(&["--rbind", "/dev"], &root.join("dev"))?;
        bind(self.job, &root.join(JOB))?;
        if let Some(sources) = &self.sources {
            bind(sources, &root.join(sources.strip_prefix("/")?))?;
        }
        chroot(&root).context("chroot")?;
        env::set_current_dir("/").context("enter the root")?;
        Ok(())
    }
}

fn bind(dir: &Path, on: &Path) -> Result<()> {
    fs::create_dir_all(on)?;
    let text = dir.to_str().context("the path of the job is not UTF-8")?;
    mount(&["--bind", text], on)
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
