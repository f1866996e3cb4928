//! Booting the virtual machine: Debian's kernel in QEMU's emulation, over this file system.
//!
//! The machine sees this file system read-only, except for one directory. Its job is written there,
//! and this same program, started inside, reads it.
#![forbid(unsafe_code)]

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::{
    debian_deps,
    debian_deps::Machine,
    dirs::{Dirs, RDMACM_BESIDE},
    host, options, pip,
};

/// A machine that does nothing for this long is stuck: a boot with all suites takes a third.
const BOUND: Duration = Duration::from_secs(60 * 60);
/// One that has not begun with its job by then does not begin any more: most take half a minute.
const BEGINNING: Duration = Duration::from_secs(5 * 60);
/// A file in the directory of the job, there once the machine has begun with it.
pub const BEGUN: &str = "begun";

/// Which libibverbs.so.1 and librdmacm.so.1 the programs get.
#[derive(Clone, Debug, PartialEq)]
pub enum Library {
    Stock,
    /// The one in this directory.
    Ours(PathBuf),
    /// The one in this directory, and the librdmacm.so.1 beside it.
    WithRdmacm(PathBuf),
}

/// The job of the virtual machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Job {
    /// Run these suites, by label; `ours` is the directory of the library under test.
    Suites {
        ours: Option<PathBuf>,
        labels: Vec<String>,
    },
    /// Run one command, over this library.
    Command {
        library: Library,
        write: bool,
        words: Vec<OsString>,
    },
    /// Show the library at work.
    Demo { ours: PathBuf },
    /// Measure by the files in the directory of the job.
    Bench,
    /// Measure uroce and its peers there.
    BenchUroce { ours: PathBuf, rounds: usize },
    /// Measure the provider for soft-RoCE by the files in the directory of the job.
    BenchRxe,
    /// Measure connections by the files in the directory of the job.
    BenchRdmacm,
}

/// Drivers of emulated devices that no suite uses. Loading and starting them takes a quarter of the
/// boot.
const UNNEEDED: [&str; 14] = [
    "kvm_amd",
    "kvm",
    "ahci",
    "libahci",
    "sr_mod",
    "sg",
    "iTCO_wdt",
    "i6300esb",
    "i2c_i801",
    "lpc_ich",
    "pcspkr",
    "psmouse",
    "aesni_intel",
    "powernow_k8",
];

const FILE: &str = "job";

impl Job {
    pub fn save(&self, dir: &Path) -> Result<()> {
        let mut text = Vec::new();
        for word in self.words() {
            text.extend_from_slice(word.as_bytes());
            text.push(0);
        }
        let path = dir.join(FILE);
        fs::write(&path, text).with_context(|| path.display().to_string())
    }

    pub fn load(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE);
        let text = fs::read(&path).with_context(|| path.display().to_string())?;
        let words = text
            .strip_suffix(&[0])
            .unwrap_or(&text)
            .split(|&byte| byte == 0);
        Self::from_words(words.map(|word| OsString::from_vec(word.to_vec())))
            .with_context(|| format!("{} is not a job", path.display()))
    }

    fn words(&self) -> Vec<OsString> {
        let path = |dir: &Path| dir.as_os_str().to_owned();
        match self {
            Self::Suites { ours, labels } => {
                let ours = ours.as_deref().map_or_else(OsString::new, path);
                let mut words = vec!["suites".into(), ours];
                words.extend(labels.iter().map(Into::into));
                words
            }
            Self::Command {
                library,
                write,
                words,
            } => {
                let (ours, rdmacm) = match library {
                    Library::Stock => (OsString::new(), ""),
                    Library::Ours(dir) => (path(dir), ""),
                    Library::WithRdmacm(dir) => (path(dir), "rdmacm"),
                };
                let write = if *write { "write" } else { "" };
                let mut all = vec!["command".into(), ours, rdmacm.into(), write.into()];
                all.extend(words.iter().cloned());
                all
            }
            Self::Demo { ours } => vec!["demo".into(), path(ours)],
            Self::Bench => vec!["bench".into(), OsString::new()],
            Self::BenchRxe => vec!["bench-rxe".into(), OsString::new()],
            Self::BenchRdmacm => vec!["bench-rdmacm".into(), OsString::new()],
            Self::BenchUroce { ours, rounds } => {
                vec!["bench-uroce".into(), path(ours), rounds.to_string().into()]
            }
        }
    }

    fn from_words(mut words: impl Iterator<Item = OsString>) -> Option<Self> {
        let kind = words.next()?;
        let ours = Some(PathBuf::from(words.next()?)).filter(|dir| !dir.as_os_str().is_empty());
        match kind.to_str()? {
            "suites" => {
                let labels = words
                    .map(|word| word.into_string().ok())
                    .collect::<Option<_>>()?;
                Some(Self::Suites { ours, labels })
            }
            "command" => {
                let library = match words.next()?.to_str()? {
                    "rdmacm" => Library::WithRdmacm(ours?),
                    _ => ours.map_or(Library::Stock, Library::Ours),
                };
                let write = words.next()? == "write";
                let words = words.collect();
                Some(Self::Command {
                    library,
                    write,
                    words,
                })
            }
            "demo" => Some(Self::Demo { ours: ours? }),
            "bench" => Some(Self::Bench),
            "bench-rxe" => Some(Self::BenchRxe),
            "bench-rdmacm" => Some(Self::BenchRdmacm),
            "bench-uroce" => Some(Self::BenchUroce {
                ours: ours?,
                rounds: words.next()?.to_str()?.parse().ok()?,
            }),
            _ => None,
        }
    }
}

/// The directory of the job in a machine that does not see this machine's file system, and the
/// directory that it and others are made in.
pub const JOB_SEEN: &str = "/mnt/job";
const SEEN: &str = "/mnt";

/// The command that boots the machine with `dir` writable and runs the job there.
fn command(dirs: &Dirs, machine: &Machine, dir: &Path, job: &Job) -> Result<Command> {
    job.save(dir)?;
    let (program, dir_inside) = match &machine.foreign {
        Some(foreign) => (
            Path::new(JOB_SEEN).join(foreign.program),
            Path::new(JOB_SEEN),
        ),
        None => (dirs.program.clone(), dir),
    };
    let inside = format!("{} in-guest {}", quote(&program)?, quote(dir_inside)?);
    let mut command = Command::new(&machine.vng);
    command
        .arg("--run")
        .arg(&machine.kernel)
        // Nested machines that offer KVM often cannot run this kernel with it.
        .args([
            "--disable-kvm",
            // Without a wait for virtiofsd, which is not there or needs more rights.
            "--force-9p",
            "--user",
            "root",
            "--cpus",
            "2",
            "--memory",
            "4G",
        ])
        .arg("--rwdir");
    if let Some(foreign) = &machine.foreign {
        command.arg(seen_as(dir_inside, dir)?);
        command.args(["--arch", foreign.architecture, "--root"]);
        command.arg(quote(&foreign.root)?);
        command.args(["--overlay-rwdir", SEEN]);
        command.arg(format!("--qemu-opts=-cpu {}", foreign.processor));
        for (there, here) in &foreign.seen {
            command.arg("--rodir").arg(seen_as(Path::new(there), here)?);
        }
    } else {
        command.arg(dir);
    }
    if matches!(job, Job::Suites { .. }) {
        // The emulator translates a program's code once, and again in each process that has it at
        // other addresses. Whatever is measured, or looked at by hand, has them as they are chosen.
        command.args(["--append", "norandmaps"]);
        let unneeded = UNNEEDED.join(",");
        command.args(["--append", &format!("module_blacklist={unneeded}")]);
    }
    // It starts programs that lie beside it.
    let beside = machine.vng.parent().context("vng is in no directory")?;
    command
        .args(["--exec", &inside])
        .env("PATH", pip::first_in_path([beside.to_owned()])?)
        .current_dir(&dirs.root)
        .stdin(Stdio::null());
    Ok(command)
}

/// The option of virtme-ng for a directory of this machine at another place in the virtual one.
fn seen_as(there: &Path, here: &Path) -> Result<String> {
    let (there, here) = (quote(there)?, quote(here)?);
    Ok(format!("{there}={here}"))
}

/// The words go through a shell, and through virtme-ng's own splitting at `=` and blanks.
fn quote(path: &Path) -> Result<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let text = path.to_str().filter(|text| text.chars().all(plain));
    text.with_context(|| {
        format!(
            "{}: the virtual machine needs paths of plain letters, digits and /._-+",
            path.display()
        )
    })
}

/// Boots, runs the job, and powers off; the output is logged, and streamed if it is to be shown. A
/// machine that hangs before it begins the job is booted once more: Debian's kernel rarely hangs in
/// emulation while it boots.
pub fn boot(
    dirs: &Dirs,
    machine: &Machine,
    dir: &Path,
    job: &Job,
    log: &Path,
    show: bool,
) -> Result<host::Outcome> {
    let boot = || {
        let mut command = command(dirs, machine, dir, job)?;
        let begun = dir.join(BEGUN);
        let stuck = move |time: Duration| time >= BOUND || (time >= BEGINNING && !begun.exists());
        let run = if show { host::run } else { host::run_silently };
        run(&mut command, log, Some(Box::new(stuck)))
    };
    let outcome = boot()?;
    if !outcome.hung || dir.join(BEGUN).exists() {
        return Ok(outcome);
    }
    println!("-- the virtual machine was stuck before it began; it is booted once more");
    boot()
}

/// `cargo xtask vm -- COMMAND`.
pub fn run_command(options: &options::Vm) -> Result<ExitCode> {
    let dirs = Dirs::find()?;
    let machine = debian_deps::provide(&dirs)?;
    let library = if options.stock {
        Library::Stock
    } else {
        build_library(&dirs)?;
        Library::Ours(dirs.library()?)
    };
    let library = match library {
        Library::Ours(dir) if options.rdmacm => Library::WithRdmacm(dir.join(RDMACM_BESIDE)),
        other => other,
    };
    let job = Job::Command {
        library,
        write: options.write,
        words: options.command.clone(),
    };
    let dir = dirs.fresh("vm")?;
    let status = command(&dirs, &machine, &dir, &job)?.status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Builds the shared library as it is packaged.
pub fn build_library(dirs: &Dirs) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--release", "--package", "ferroverbs"])
        .args(["--package", "ferroverbs-rdmacm"])
        .args(["--package", "ferroverbs-rspreload"])
        .current_dir(&dirs.root);
    let outcome = host::run(&mut cargo, &dirs.work.join("build.log"), None)?;
    if !outcome.status.success() {
        bail!("the libraries do not build");
    }
    Ok(())
}

/// Puts a library under a command.
pub fn put_library(command: &mut Command, library: &Library) {
    match library {
        Library::Stock => command.env_remove("LD_LIBRARY_PATH"),
        Library::Ours(dir) | Library::WithRdmacm(dir) => {
            command.env("LD_LIBRARY_PATH", dir.as_os_str() as &OsStr)
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_read_as_it_was_written() {
        let jobs = [
            Job::Suites {
                ours: None,
                labels: vec!["pyverbs".into(), "ucx".into()],
            },
            Job::Suites {
                ours: Some("/lib dir".into()),
                labels: Vec::new(),
            },
            Job::Command {
                library: Library::Ours("/x".into()),
                write: true,
                words: vec!["sh".into(), "-c".into(), "a\nb c".into(), "".into()],
            },
            Job::Command {
                library: Library::Stock,
                write: false,
                words: vec!["ls".into()],
            },
            Job::Command {
                library: Library::WithRdmacm("/x".into()),
                write: false,
                words: vec!["rping".into()],
            },
            Job::Demo { ours: "/y".into() },
            Job::Bench,
            Job::BenchRxe,
            Job::BenchRdmacm,
            Job::BenchUroce {
                ours: "/z".into(),
                rounds: 3,
            },
        ];
        for job in jobs {
            assert_eq!(Job::from_words(job.words().into_iter()), Some(job));
        }
    }

    #[test]
    fn unknown_jobs_are_refused() {
        let words = ["dance", "/x"].map(OsString::from);
        assert_eq!(Job::from_words(words.into_iter()), None);
        assert_eq!(Job::from_words(std::iter::empty()), None);
    }

    #[test]
    fn paths_a_shell_would_take_apart_are_refused() {
        assert!(quote(Path::new("/home/me/a-b_c.d")).is_ok());
        assert!(quote(Path::new("/home/me/a b")).is_err());
        assert!(quote(Path::new("/home/$HOME")).is_err());
    }
}
