//! The packages that the commands here need, and their installation.
//!
//! As root on Debian, missing packages are installed; otherwise they are named, and the command
//! fails.
#![forbid(unsafe_code)]

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{dirs::Dirs, host, pip::Package};

/// Debian packages, each line with the command that needs it.
const PACKAGES: &[&str] = &[
    // To compile and link: the library, its C tests with both compilers, bindgen's libclang.
    "gcc",
    "g++",
    "libc6-dev",
    "linux-libc-dev",
    "lld",
    "clang",
    "libclang-dev",
    "binutils",
    "sccache",
    // Checks the manual pages.
    "mandoc",
    // Stock headers, libraries and providers to be compared with and to run over ours.
    "libibverbs-dev",
    "librdmacm-dev",
    "ibverbs-providers",
    // The virtual machine; virtme-ng asks file(1) how busybox is linked.
    "file",
    "qemu-system-x86",
    "linux-image-amd64",
    "kmod",
    "iproute2",
    "busybox-static",
    "python3-venv",
    // The unit tests run under it; the bench counts instructions with it.
    "valgrind",
    // A crate of a suite compiles C.
    "cmake",
    // The suites.
    "rdma-core",
    "ibverbs-utils",
    "python3-pyverbs",
    "perftest",
    "rdmacm-utils",
    "ucx-utils",
    "libfabric-bin",
    "libdapl2",
    "dapl2-utils",
    "libgloo-dev",
    "ceph-mon",
    "ceph-osd",
    "openmpi-bin",
    "libopenmpi-dev",
    "python3-mpi4py",
    "hpcc",
    "mpich",
    "libmpich-dev",
    "fio",
    // Programs of sockets; the server's program is among the tools.
    "iperf3",
    "redis-tools",
    "curl",
    "tgt",
    "libiscsi-bin",
    "libjemalloc2",
    "qemu-block-extra",
    "qemu-utils",
    // A suite, and a reference for uroce's speed.
    "qperf",
];

/// Further packages for building and checking Debian packages.
const PACKAGING: &[&str] = &["dpkg-dev", "debhelper", "lintian", "pkgconf"];

/// Further packages for building and checking RPM packages; elfutils takes debug information out.
const RPM: &[&str] = &["rpm", "rpmlint", "elfutils"];

/// Packages of the demonstration without a virtual machine.
const DEMO: &[&str] = &[
    "gcc",
    "libc6-dev",
    "lld",
    "ibverbs-utils",
    "perftest",
    "rdmacm-utils",
];

/// Documentation that minimal images of Debian leave out, and that holds tests.
const KEPT_DOCS: &[&str] = &[
    "--path-include=/usr/share/doc/rdma-core/*",
    "--path-include=/usr/share/man/man3/ibv_*",
];

/// rdma-core's own tests, as Debian ships them.
pub const RDMA_CORE_TESTS: &str = "/usr/share/doc/rdma-core/tests";
const EVENT_MAN_PAGE: &str = "/usr/share/man/man3/ibv_get_cq_event.3.gz";

const VIRTME_NG: Package = Package {
    names: &["virtme-ng==1.42"],
    variant: "-that-caches",
    with_others: true,
    sources: &[],
};
/// Options with which the machine's initial file system mounts this machine's, which may change
/// meanwhile. So it asks for every name and byte each time, and in emulation that is most of the
/// cost of starting a program. Files that programs in the machine read do not change while it runs.
const MOUNTED: &str = "trans=virtio,access=any,msize=524288 /dev/root";
/// The same, with a cache.
const MOUNTED_CACHED: &str = "trans=virtio,access=any,msize=524288,cache=loose /dev/root";

/// The parts needed to boot the virtual machine.
pub struct Machine {
    pub vng: PathBuf,
    pub kernel: PathBuf,
    /// Of a machine that does not see this machine's file system.
    pub foreign: Option<Foreign>,
}

/// The file system of a machine of another release or architecture.
pub struct Foreign {
    /// The name of the architecture.
    pub architecture: &'static str,
    /// The processor that QEMU emulates.
    pub processor: &'static str,
    /// Its root, here.
    pub root: PathBuf,
    /// The program that does the job, in the directory of the job.
    pub program: &'static str,
    /// Directories that it sees besides: their paths there, and here.
    pub seen: Vec<(&'static str, PathBuf)>,
}

/// The parts needed to boot a machine by the emulator of this package.
///
/// # Errors
/// Of the installation of the emulator.
pub fn foreign(dirs: &Dirs, emulator: &str, kernel: PathBuf, foreign: Foreign) -> Result<Machine> {
    install_missing(dirs, &[emulator])?;
    Ok(Machine {
        vng: virtme_ng(dirs)?,
        kernel,
        foreign: Some(foreign),
    })
}

/// Sees to it that everything is there.
pub fn provide(dirs: &Dirs) -> Result<Machine> {
    provide_here(dirs)?;
    machine(dirs)
}

/// Makes sure that everything except those parts is installed.
pub fn provide_here(dirs: &Dirs) -> Result<()> {
    packages(dirs)?;
    components(dirs)
}

/// The parts needed to boot; the packages are installed.
pub fn machine(dirs: &Dirs) -> Result<Machine> {
    Ok(Machine {
        vng: virtme_ng(dirs)?,
        kernel: newest_kernel(Path::new("/"))?,
        foreign: None,
    })
}

/// Sees to it that the library can be built, and run on this machine by a few programs.
pub fn for_the_demo(dirs: &Dirs) -> Result<()> {
    install_missing(dirs, DEMO)
}

/// Sees to it that Debian packages can be made.
pub fn packaging(dirs: &Dirs) -> Result<()> {
    install_missing(dirs, PACKAGING)
}

/// Sees to it that RPM packages can be made.
pub fn rpm(dirs: &Dirs) -> Result<()> {
    install_missing(dirs, RPM)
}

/// Gigabytes that a whole run leaves in the target directory (`du -s target` after one).
const WHOLE_RUN: u64 = 4;

/// Warns if the target directory's disk is too full for a whole run, because failures for want of
/// space may not show their cause.
pub fn space(dirs: &Dirs) -> Result<()> {
    let disk = rustix::fs::statvfs(&dirs.target)
        .with_context(|| format!("ask about the disk of {}", dirs.target.display()))?;
    if let Some(gigabytes) = tight(disk.f_bavail.saturating_mul(disk.f_frsize)) {
        eprintln!(
            "xtask: {} has {gigabytes} GB left on its disk; a whole run takes about {WHOLE_RUN}",
            dirs.target.display()
        );
    }
    Ok(())
}

/// The gigabytes that `free` bytes are, where a whole run needs more.
fn tight(free: u64) -> Option<u64> {
    let gigabytes = free / 1_000_000_000;
    (gigabytes < WHOLE_RUN).then_some(gigabytes)
}

fn packages(dirs: &Dirs) -> Result<()> {
    install_missing(dirs, PACKAGES)?;
    let bare = without_docs(|path| Path::new(path).exists());
    if bare.is_empty() {
        return Ok(());
    }
    // Installed earlier, without their documentation.
    install(dirs, "reinstall", &bare)
}

/// The packages whose files that hold tests were left out when they were installed.
fn without_docs(there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let holders = [
        (RDMA_CORE_TESTS, "rdma-core"),
        (EVENT_MAN_PAGE, "libibverbs-dev"),
    ];
    let bare = holders.into_iter().filter(|(path, _)| !there(path));
    bare.map(|(_, package)| package).collect()
}

/// Installs those packages that are not there.
pub fn install_missing(dirs: &Dirs, wanted: &[&str]) -> Result<()> {
    let missing = missing_packages(wanted)?;
    if missing.is_empty() {
        return Ok(());
    }
    install(dirs, "install", &missing)
}

fn missing_packages<'a>(wanted: &[&'a str]) -> Result<Vec<&'a str>> {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f", "${Package} ${db:Status-Status}\n"])
        .args(wanted)
        .output()
        .context("dpkg-query; these commands are made for Debian")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(lacking(&text, wanted))
}

fn lacking<'a>(dpkg: &str, wanted: &[&'a str]) -> Vec<&'a str> {
    let installed: HashSet<_> = dpkg
        .lines()
        .filter_map(|line| line.strip_suffix(" installed"))
        .collect();
    let lacks = |package: &&&str| !installed.contains(**package);
    wanted.iter().filter(lacks).copied().collect()
}

fn install(dirs: &Dirs, how: &str, packages: &[&str]) -> Result<()> {
    let words = apt_words(how, packages, rustix::process::geteuid().is_root())?;
    println!("-- apt-get {how} {}", packages.join(" "));
    apt(dirs, &["update".into()])?;
    apt(dirs, &words)
}

/// The packages for apt-get; a user without the right to install gets their list.
fn apt_words(how: &str, packages: &[&str], root: bool) -> Result<Vec<String>> {
    if !root {
        bail!(
            "missing Debian packages (root may run: apt-get {how} --no-install-recommends {})",
            packages.join(" ")
        );
    }
    let mut words = [how, "-y", "--no-install-recommends"]
        .map(str::to_owned)
        .to_vec();
    for option in KEPT_DOCS {
        words.extend(["-o".to_owned(), format!("Dpkg::Options::={option}")]);
    }
    words.extend(packages.iter().copied().map(str::to_owned));
    Ok(words)
}

/// Runs apt-get(8).
pub fn apt(dirs: &Dirs, words: &[String]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command
        .args(words)
        .env("DEBIAN_FRONTEND", "noninteractive")
        // The kernel is booted by virtme-ng, which makes its own initial file system.
        .env("INITRD", "No");
    host::must_run(&mut command, &dirs.work.join("apt.log"))
}

/// rustfmt and clippy, which a minimal Rust toolchain lacks.
fn components(dirs: &Dirs) -> Result<()> {
    let parts = [("fmt", "rustfmt"), ("clippy", "clippy")];
    for (subcommand, component) in parts {
        let there = Command::new("cargo")
            .args([subcommand, "--version"])
            .output()
            .is_ok_and(|output| output.status.success());
        if there {
            continue;
        }
        let mut command = Command::new("rustup");
        command.args(["component", "add", component]);
        host::must_run(&mut command, &dirs.work.join("rustup.log"))
            .with_context(|| format!("cargo {subcommand} is missing"))?;
    }
    Ok(())
}

fn virtme_ng(dirs: &Dirs) -> Result<PathBuf> {
    Ok(VIRTME_NG
        .provide_finished(dirs, have_it_cache)?
        .join("bin/vng"))
}

/// virtme-ng has no option for this.
fn have_it_cache(home: &Path) -> Result<()> {
    let libraries = home.join("lib");
    for python in fs::read_dir(&libraries).with_context(|| libraries.display().to_string())? {
        let script = python?.path().join("site-packages/virtme/mkinitramfs.py");
        let Ok(text) = fs::read_to_string(&script) else {
            continue;
        };
        if text.contains(MOUNTED) {
            return Ok(fs::write(&script, text.replace(MOUNTED, MOUNTED_CACHED))?);
        }
    }
    bail!(
        "{} mounts the file system of this machine in a way unknown here",
        VIRTME_NG.names.join(" ")
    );
}

/// The newest kernel of a root directory that has a soft-RoCE driver.
///
/// # Errors
/// There is none, or it cannot be read.
pub fn newest_kernel(root: &Path) -> Result<PathBuf> {
    let mut found = Vec::new();
    let modules = root.join("lib/modules");
    for entry in fs::read_dir(&modules).with_context(|| modules.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if has_rxe(root, &name) {
            found.extend(image(root, &name).map(|image| (numbers(&name), image)));
        }
    }
    let newest = found.into_iter().max();
    let (_, path) = newest.context("no kernel here has the module rdma_rxe")?;
    fs::File::open(&path).with_context(|| format!("read {}", path.display()))?;
    Ok(path)
}

/// The kernel of a version: since Linux 7 Debian has it beside its modules.
fn image(root: &Path, version: &str) -> Option<PathBuf> {
    let places = [
        root.join("boot").join(format!("vmlinuz-{version}")),
        root.join("lib/modules").join(version).join("vmlinuz"),
    ];
    places.into_iter().find(|image| image.exists())
}

fn has_rxe(root: &Path, version: &str) -> bool {
    let dir = root
        .join("lib/modules")
        .join(version)
        .join("kernel/drivers/infiniband/sw/rxe");
    let names = ["rdma_rxe.ko", "rdma_rxe.ko.xz", "rdma_rxe.ko.zst"];
    names.iter().any(|name| dir.join(name).exists())
}

/// The numbers in a version, so that 6.1.0-9 comes before 6.1.0-10.
fn numbers(version: &str) -> Vec<u64> {
    version
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|part| part.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_ordered_by_number() {
        assert!(numbers("6.1.0-9-amd64") < numbers("6.1.0-10-amd64"));
        assert!(numbers("6.1.0-50-amd64") < numbers("6.12.3-amd64"));
    }

    #[test]
    fn a_disk_too_full_for_a_whole_run_is_reported() {
        assert_eq!(tight(2_700_000_000), Some(2));
        assert_eq!(tight(WHOLE_RUN * 1_000_000_000), None);
    }

    #[test]
    fn on_a_bare_machine_everything_lacks() {
        assert_eq!(lacking("", PACKAGES), PACKAGES);
        let all: String = PACKAGES
            .iter()
            .map(|p| format!("{p} installed\n"))
            .collect();
        assert!(lacking(&all, PACKAGES).is_empty());
    }

    #[test]
    fn root_installs_missing_packages_with_the_documentation_that_has_tests() -> Result<()> {
        let words = apt_words("install", &["lld", "kmod"], true)?.join(" ");
        assert!(words.starts_with("install -y --no-install-recommends "));
        assert!(words.contains("-o Dpkg::Options::=--path-include=/usr/share/doc/rdma-core/*"));
        assert!(words.ends_with(" lld kmod"));
        Ok(())
    }

    #[test]
    fn other_users_get_a_list_of_packages_and_fail() {
        let refused = apt_words("install", &["lld", "kmod"], false);
        let reported = refused.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(reported.contains("apt-get install --no-install-recommends lld kmod"));
    }

    #[test]
    fn packages_installed_without_their_documentation_are_named() {
        assert_eq!(without_docs(|_| false), ["rdma-core", "libibverbs-dev"]);
        assert_eq!(without_docs(|path| path == EVENT_MAN_PAGE), ["rdma-core"]);
        assert!(without_docs(|_| true).is_empty());
    }

    #[test]
    fn removed_packages_lack() {
        let text = "gcc installed\nlld config-files\n";
        assert_eq!(lacking(text, &["gcc", "lld", "kmod"]), ["lld", "kmod"]);
    }
}
