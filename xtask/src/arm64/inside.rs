//! Commands in the chroot, each in separate namespaces.
#![forbid(unsafe_code)]

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};

use super::sources;
use crate::{chroot::ARM64, dirs::Dirs, report::Tally};

/// New namespaces: mounts and the network affect no other process, and nothing is left running.
const APART: [&str; 5] = ["--mount", "--net", "--pid", "--fork", "--kill-child"];

pub const EMULATOR: &str = "qemu-aarch64";
/// The standard libraries of Rust in the chroot, by target.
const RUST: &str = "usr/lib/rustlib";
/// The directory of cargo's results in the chroot.
const RESULTS: &str = "/mnt/target";

/// Enters the root `$0`: it has the sources `$1`, the directory `$2` for results, and the crates
/// `$3` below /mnt. Nothing else in it is written.
const ENTER: &str = r#"
set -eu
root=$0
mount --make-rprivate /
for dir in dev sys; do
    mount --rbind "/$dir" "$root/$dir"
done
mount -t proc proc "$root/proc"
for dir in mnt tmp run; do
    mount -t tmpfs "$dir" "$root/$dir"
done
for dir in source target crates; do
    mkdir "$root/mnt/$dir"
    mount --bind "$1" "$root/mnt/$dir"
    shift
done
ip link set lo up
exec chroot "$root" env -C /mnt/source "$@""#;

/// An architecture that the chroot's compilers are for.
#[derive(Clone, Copy)]
pub struct Machine {
    /// Its name in Debian.
    pub name: &'static str,
    /// Its name in Rust.
    pub target: &'static str,
    /// The C compiler.
    pub compiler: &'static str,
}

pub const ARM: Machine = Machine {
    name: "arm64",
    target: "aarch64-unknown-linux-gnu",
    compiler: "aarch64-linux-gnu-gcc",
};

/// The chroot, for this process alone.
pub struct Inside {
    root: PathBuf,
    source: PathBuf,
    target: PathBuf,
    crates: PathBuf,
    /// Held as long as the directories are used.
    _lock: File,
}

/// The reason why this process cannot enter one, if there is one.
fn refusal() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("that needs root".to_owned());
    }
    let probe = Command::new("unshare").args(APART).arg("true").output();
    match probe {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    }
}

impl Inside {
    /// Prepares the chroot for a stage; `None` where there can be none: `tally` has the reason.
    ///
    /// # Errors
    /// As of [`Inside::new`].
    pub fn for_stage(dirs: &Dirs, tally: &mut Tally) -> Result<Option<Self>> {
        if env::consts::ARCH != "x86_64" {
            tally.skip("the chroot's compilers are for x86-64");
            return Ok(None);
        }
        if let Some(refusal) = refusal() {
            tally.skip(&format!("no chroot can be entered: {refusal}"));
            return Ok(None);
        }
        Self::new(dirs).map(Some)
    }

    /// Prepares the chroot, the sources and the crates. Waits for another checkout's stage, which
    /// may run in the same chroot.
    ///
    /// # Errors
    /// Of the chroot, of the file system, of `cargo vendor`.
    fn new(dirs: &Dirs) -> Result<Self> {
        let home = dirs.cache.join("arm64");
        let [source, target, crates] = ["source", "target", "crates"].map(|name| home.join(name));
        for dir in [&source, &target, &crates] {
            std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        }
        let lock = File::create(home.join("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let provided = ARM64.provide(dirs);
        provided.context("no Debian sid with arm64")?;
        sources::update(dirs, &source)?;
        sources::crates(dirs, &crates)?;
        Ok(Self {
            root: ARM64.here(dirs),
            source,
            target,
            crates,
            _lock: lock,
        })
    }

    /// The root directory, outside.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of what cargo has built, inside.
    pub fn built(&self) -> PathBuf {
        Path::new(RESULTS).join(ARM.target).join("debug")
    }

    /// The sources that are compiled, outside.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// Whether Rust's standard library for an architecture is there.
    pub fn has_rust_for(&self, machine: &Machine) -> bool {
        self.root.join(RUST).join(machine.target).is_dir()
    }

    /// The directory of cargo's results, outside and inside.
    pub fn results(&self) -> (&Path, &Path) {
        (&self.target, Path::new(RESULTS))
    }

    /// A command that runs a program in the directory of the sources, with no other variables.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(APART).args(["--", "sh", "-c", ENTER]);
        command.arg(&self.root);
        command.args([&self.source, &self.target, &self.crates]);
        command.arg(program);
        command.env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("HOME", "/tmp");
        command
    }

    /// A command of cargo for some architectures. qemu-user runs the programs of arm64.
    pub fn cargo(&self, words: &[&str], machines: &[Machine]) -> Command {
        let mut command = self.command("cargo");
        command
            .env(of_cargo(&ARM, "RUNNER"), EMULATOR)
            .env("CARGO_TARGET_DIR", RESULTS)
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_TEST_DEBUG", "0")
            .env("CARGO_TERM_COLOR", "never")
            .args(["--config", r#"source.crates-io.replace-with="vendored""#])
            .args(["--config", r#"source.vendored.directory="/mnt/crates""#])
            .args(words)
            .args(["--locked", "--offline"]);
        for machine in machines {
            command
                .env(of_cargo(machine, "LINKER"), machine.compiler)
                .env(format!("CC_{}", machine.target), machine.compiler)
                .args(["--target", machine.target]);
        }
        command
    }

    /// A command that compiles C.
    pub fn gcc(&self, machine: &Machine) -> Command {
        self.command(machine.compiler)
    }

    /// A command that runs a script of `xtask/arm64`.
    pub fn script(&self, name: &str) -> Command {
        self.command(&format!("xtask/arm64/{name}"))
    }

    /// A command that runs a program of arm64 over the libraries of a directory, with further
    /// variables.
    pub fn arm64(
        &self,
        library: &Path,
        variables: &[(&str, &str)],
        program: impl AsRef<OsStr>,
    ) -> Command {
        let mut command = self.command(EMULATOR);
        let variable = |name: &str, value: &OsStr| {
            let mut set = OsString::from(name);
            set.push("=");
            set.push(value);
            [OsString::from("-E"), set]
        };
        command.args(variable("LD_LIBRARY_PATH", library.as_os_str()));
        for (name, value) in variables {
            command.args(variable(name, OsStr::new(value)));
        }
        command.arg(program);
        command
    }
}

/// A variable of cargo for an architecture.
fn of_cargo(machine: &Machine, name: &str) -> String {
    let target = machine.target.to_uppercase().replace('-', "_");
    format!("CARGO_TARGET_{target}_{name}")
}
