//! Other releases of Debian, each in a separate directory in the cache directory, for the releases
//! of rdma-core that they have.
//!
//! They are made by mmdebstrap(1) from the package archive that this machine's apt uses, with apt's
//! own settings for downloads.
#![forbid(unsafe_code)]

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Error, Result, bail};

use crate::{debian_deps, dirs::Dirs, excused::Excused, host, pip::SHOWN};

/// Packages that suites need beside the essential ones: rdma-core's tests, with their dependencies
/// and uroce-sysfs's, and the pingpong programs.
const TESTS: &[&str] = &[
    "python3-pyverbs",
    "rdma-core",
    "ibverbs-providers",
    "ibverbs-utils",
    "iproute2",
    "mount",
];

/// Further packages of the stages that package the library: more programs that use it, and programs
/// that compile, package and check.
const USERS: &[&str] = &[
    "perftest",
    "rdmacm-utils",
    "libibverbs-dev",
    "librdmacm-dev",
    "ucx-utils",
    "openmpi-bin",
    "python3-mpi4py",
    "apt",
    "gcc",
    "libc6-dev",
    "dpkg-dev",
    "debhelper",
    "pkgconf",
    "lintian",
];

/// Packages of the stage `arm64`: what compiles for arm64, what runs there, and its emulation; C
/// compilers for the other architectures.
const CROSS: &[&str] = &[
    "rustc",
    "cargo",
    "libstd-rust-dev:arm64",
    "gcc",
    "libc6-dev",
    "gcc-aarch64-linux-gnu",
    "libc6-dev-arm64-cross",
    "gcc-riscv64-linux-gnu",
    "libc6-dev-riscv64-cross",
    "gcc-powerpc64le-linux-gnu",
    "libc6-dev-ppc64el-cross",
    "lld",
    "qemu-user",
    "iproute2",
    "mount",
    "ibverbs-utils:arm64",
    "ibverbs-providers:arm64",
    "libibverbs-dev:arm64",
    "librdmacm-dev:arm64",
    "perftest:arm64",
    "dpkg-dev",
    "debhelper",
];

/// Further packages of a root that a virtual machine boots, beside its kernel.
const BOOTED: &[&str] = &[
    "base-files",
    "base-passwd",
    "bash",
    "busybox-static",
    "coreutils",
    "dash",
    "grep",
    "gzip",
    "hostname",
    "kmod",
    "procps",
    "sed",
    "udev",
    "util-linux",
];

/// Before packages are unpacked into the root `$1`: the directories of later releases.
const MERGED: &str = r#"
for dir in bin sbin lib; do
    mkdir -p "$1/usr/$dir"
    ln -s "usr/$dir" "$1/$dir"
done"#;

/// After that, what the scripts of packages would do: users and groups, directories, a
/// program that turns the machine off, and the dependencies of the kernel's modules.
const UNPACKED: &str = r#"
set -eu
for file in passwd group; do
    cp "$1/usr/share/base-passwd/$file.master" "$1/etc/$file"
done
mkdir -p "$1/home" "$1/mnt" "$1/opt" "$1/root" "$1/srv"
ln -sf ../bin/busybox "$1/usr/sbin/poweroff"
for modules in "$1"/usr/lib/modules/*; do
    depmod -b "$1" "${modules##*/}"
done"#;

/// Options of dpkg(1): the tests are documentation, and an interrupted run begins anew.
const DPKG: &[&str] = &[
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
    "path-include=/usr/share/doc/rdma-core/*",
    "force-unsafe-io",
];

/// Unpacks Rust's standard library for an architecture into the root `$1`, in the version of the
/// root's rustc, which reads no other. Nothing is unpacked where the archive has another version:
/// Debian's machines for that architecture are slower. The packages that it depends on, LLVM and
/// rustc itself, are for programs of that architecture, and there are none.
const UNPACK: &str = r#"
set -eu
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
rustc=$(dpkg-query --admindir="$1/var/lib/dpkg" --show --showformat='${Version}' rustc)
package="libstd-rust-dev:$ARCHITECTURE=$rustc"
if [ -n "$(apt-cache show "$package")" ]; then
    mkdir "$1/rust"
    cd "$1/rust"
    apt-get -o APT::Sandbox::User=root download "$package"
    dpkg-deb --fsys-tarfile ./*.deb | tar -x -C "$1" ./usr/lib/rustlib
    rm -r "$1/rust"
fi"#;

/// The package whose version is rdma-core's.
pub const RDMA_CORE: &str = "ibverbs-providers";

/// The program that makes it.
const NEEDED: &[&str] = &["mmdebstrap"];

/// A file in a finished one, beside its root directory: its description. Written last.
const COMPLETE: &str = "complete";
/// Its root directory.
const ROOT: &str = "root";

/// The directory of package files of the archive, in a root directory.
pub const KEPT: &str = "srv/kept";

/// A release of Debian.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chroot {
    pub debian: &'static str,
    /// The end of its name, after that of the release.
    variant: &'static str,
    packages: &'static [&'static [&'static str]],
    /// Architectures of packages, this machine's first; empty for this machine's alone.
    architectures: &'static [&'static str],
    /// Whether packages are only unpacked: their architecture's scripts cannot run here.
    unpacked: bool,
    /// Architectures whose standard library of Rust is unpacked, if the archive has that of rustc.
    rust_for: &'static [&'static str],
    /// Package files in [`KEPT`]. Where there are any, apt's lists stay too, so that apt can
    /// exchange packages without a network.
    kept: &'static [&'static str],
    /// The release of rdma-core that it has, or had when the expected lists were made.
    pub rdma_core: u32,
    /// Whether its packages change, so that it may have another release of rdma-core by now, or
    /// cannot be installed on some days.
    pub changes: bool,
}

pub const TRIXIE: Chroot = Chroot {
    debian: "trixie",
    variant: "",
    packages: &[TESTS],
    architectures: &[],
    unpacked: false,
    rust_for: &[],
    kept: &[],
    rdma_core: 56,
    changes: false,
};

pub const SID: Chroot = Chroot {
    debian: "sid",
    variant: "",
    packages: &[TESTS],
    architectures: &[],
    unpacked: false,
    rust_for: &[],
    kept: &[],
    rdma_core: 65,
    changes: true,
};

/// Sid's compilers for arm64, with programs of arm64; those for riscv64 and ppc64el.
pub const ARM64: Chroot = Chroot {
    variant: "-arm64",
    packages: &[CROSS],
    architectures: &["amd64", "arm64", "riscv64", "ppc64el"],
    rust_for: &["riscv64", "ppc64el"],
    ..SID
};

/// Debian 12 for arm64, with its kernel, to be booted.
pub const BOOKWORM_ARM64: Chroot = Chroot {
    debian: "bookworm",
    variant: "-arm64",
    packages: &[TESTS, BOOTED, &["linux-image-arm64"]],
    architectures: &["arm64"],
    unpacked: true,
    rust_for: &[],
    kept: &[],
    rdma_core: 44,
    changes: false,
};

/// Debian 13 for arm64, with its kernel for pages of 16 KiB.
pub const TRIXIE_ARM64_16K: Chroot = Chroot {
    debian: "trixie",
    variant: "-arm64-16k",
    packages: &[TESTS, BOOTED, &["linux-image-arm64-16k"]],
    rdma_core: 56,
    ..BOOKWORM_ARM64
};

impl Chroot {
    /// The release with programs that use the library, and with these packages kept.
    pub const fn of_users(self, kept: &'static [&'static str]) -> Self {
        Self {
            variant: "-users",
            packages: &[TESTS, USERS],
            kept,
            ..self
        }
    }

    /// The release with its kernel, to be booted.
    pub const fn booted(self) -> Self {
        Self {
            variant: "-booted",
            packages: &[TESTS, BOOTED, &["linux-image-amd64", "rdmacm-utils"]],
            unpacked: true,
            ..self
        }
    }

    /// Sees to it that it is there.
    ///
    /// # Errors
    /// Of mmdebstrap(1) and of the file system; there is no archive in apt's settings. It is
    /// [`Excused`] if the archive cannot be reached, or the release changes and its packages do not
    /// fit together today.
    pub fn provide(&self, dirs: &Dirs) -> Result<()> {
        // Stages that run side by side may want the same.
        static MAKING: Mutex<()> = Mutex::new(());
        let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let home = dirs.cache.join(self.directory());
        let wanted = self.made_of();
        if fs::read_to_string(home.join(COMPLETE)).is_ok_and(|made| made == wanted) {
            return Ok(());
        }
        remove_left_over(dirs, &self.directory())?;
        // Other checkouts may make it at the same time. It gets its name when it is complete.
        let own = dirs
            .cache
            .join(format!("{}.{}", self.directory(), process::id()));
        println!("-- Debian {} into {}", self.debian, home.display());
        let made = self.make(dirs, &own);
        if made.is_err() {
            // The next run that makes it removes the rest.
            let _ = fs::remove_dir_all(&own);
        }
        made.map_err(|error| self.cause(dirs, error))?;
        fs::write(own.join(COMPLETE), &wanted)?;
        take_place(&own, &home)
    }

    /// The failure of making it, excused if it is no fault of the list of packages.
    fn cause(&self, dirs: &Dirs, error: Error) -> Error {
        let printed = fs::read_to_string(log(dirs)).unwrap_or_default();
        if self.changes && does_not_fit(&printed) {
            return Excused::of(&error);
        }
        unless_reached(dirs, self.debian, error)
    }

    fn make(&self, dirs: &Dirs, home: &Path) -> Result<()> {
        // Its failure is judged by its own output.
        match fs::remove_file(log(dirs)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => debian_deps::install_missing(dirs, NEEDED)?,
        }
        fs::create_dir_all(home).with_context(|| home.display().to_string())?;
        let settings = home.join("apt.conf");
        fs::write(
            &settings,
            printed(Command::new("apt-config").args(["dump", "Acquire"]))?,
        )?;
        let mut command = Command::new("mmdebstrap");
        command
            .args(self.way())
            .arg(format!("--include={}", self.packages.concat().join(",")))
            .arg(format!("--aptopt={}", settings.display()))
            .args(DPKG.iter().map(|option| format!("--dpkgopt={option}")))
            .args(self.all_architectures())
            .args(self.unpacking())
            .args(self.keeping())
            .arg(self.debian)
            .arg(home.join(ROOT))
            .arg(archive(dirs)?);
        host::must_run(&mut command, &log(dirs))
    }

    /// Options that install packages, or only unpack them.
    fn way(&self) -> Vec<String> {
        if self.unpacked {
            let before = format!("--setup-hook={MERGED}");
            let after = format!("--extract-hook={UNPACKED}");
            return vec!["--variant=extract".to_owned(), before, after];
        }
        vec!["--variant=essential".to_owned()]
    }

    fn all_architectures(&self) -> Option<String> {
        let all = self.architectures.join(",");
        (!all.is_empty()).then(|| format!("--architectures={all}"))
    }

    /// Options that unpack standard libraries of Rust.
    fn unpacking(&self) -> impl Iterator<Item = String> {
        let unpacked = self.rust_for.iter();
        unpacked.map(|name| format!("--customize-hook=ARCHITECTURE={name}{UNPACK}"))
    }

    /// Options that keep packages and lists.
    fn keeping(&self) -> Vec<String> {
        if self.kept.is_empty() {
            return Vec::new();
        }
        // apt's own user may not write to the directory.
        let download = format!(
            "--customize-hook=mkdir -p \"$1\"/{KEPT} && chroot \"$1\" sh -c 'cd /{KEPT} && apt-get -o \
             APT::Sandbox::User=root download {}'",
            self.kept.join(" ")
        );
        vec!["--skip=cleanup/apt/lists".to_owned(), download]
    }

    /// All that it depends on.
    fn made_of(&self) -> String {
        let scripts: &[&str] = if self.unpacked {
            &[MERGED, UNPACKED]
        } else {
            &[]
        };
        let lines = [
            scripts,
            &[self.debian],
            &self.packages.concat()[..],
            DPKG,
            self.kept,
            self.architectures,
            self.rust_for,
        ];
        lines.concat().join("\n")
    }

    /// Its name in the cache directory.
    pub fn directory(&self) -> String {
        format!("debian-{}{}", self.debian, self.variant)
    }

    /// Its root directory on this machine.
    pub fn here(&self, dirs: &Dirs) -> PathBuf {
        Self::root(&dirs.cache.join(self.directory()))
    }

    /// Where it is for a job, which knows its own directory wherever it runs
    /// ([`crate::pip::show_in`]).
    pub fn shown_in(&self, dir: &Path) -> PathBuf {
        dir.join(SHOWN).join(self.directory())
    }

    /// Its root directory, within the directory of [`Self::shown_in`].
    pub fn root(home: &Path) -> PathBuf {
        home.join(ROOT)
    }

    /// The newest kernel that it has, to be booted.
    ///
    /// # Errors
    /// It has none.
    pub fn kernel(&self, dirs: &Dirs) -> Result<PathBuf> {
        let root = self.here(dirs);
        let kernel = debian_deps::newest_kernel(&root);
        kernel.with_context(|| root.display().to_string())
    }

    /// The release of rdma-core that it has.
    ///
    /// # Errors
    /// It is not there, or has none.
    pub fn found(&self, dirs: &Dirs) -> Result<u32> {
        let version = self.version(dirs)?;
        release_in(&version).with_context(|| format!("rdma-core {version} is no release"))
    }

    /// The version of its packages of rdma-core.
    ///
    /// # Errors
    /// It is not there, or has none.
    pub fn version(&self, dirs: &Dirs) -> Result<String> {
        let root = self.here(dirs);
        let path = root.join("var/lib/dpkg/status");
        let status = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        version_in(&status).with_context(|| format!("{} has no {RDMA_CORE}", root.display()))
    }
}

/// The release of a version.
fn release_in(version: &str) -> Option<u32> {
    version.split_once('.')?.0.parse().ok()
}

/// The version of rdma-core that dpkg(1) has noted as installed.
fn version_in(status: &str) -> Option<String> {
    let name = format!("Package: {RDMA_CORE}");
    let mut packages = status.split("\n\n");
    let package = packages.find(|package| package.lines().any(|line| line == name))?;
    let version = package
        .lines()
        .find_map(|line| line.strip_prefix("Version: "))?;
    Some(version.to_owned())
}

/// The log of mmdebstrap(1).
pub fn log(dirs: &Dirs) -> PathBuf {
    dirs.work.join("mmdebstrap.log")
}

/// Whether the packages of the release do not fit together today, by the output of apt. A name that
/// the release does not have is a mistake of the list.
fn does_not_fit(printed: &str) -> bool {
    let reasons = [
        "unmet dependencies",
        "Mirror sync in progress?",
        "dpkg: error processing package",
    ];
    let has = |words: &str| printed.contains(words);
    reasons.into_iter().any(has) && !has("Unable to locate package ")
}

/// The error, excused if the archive cannot be reached for the description of the release.
pub fn unless_reached(dirs: &Dirs, release: &str, error: Error) -> Error {
    let reached = archive(dirs).and_then(|archive| {
        let archive = archive.trim_end_matches('/');
        let mut get = Command::new("/usr/lib/apt/apt-helper");
        get.args(["-o", "APT::Sandbox::User=root", "download-file"])
            .arg(format!("{archive}/dists/{release}/InRelease"))
            .arg(dirs.work.join("InRelease"));
        host::must(&mut get)
    });
    // An archive that does not have the release was reached.
    let unreached = |probe: Error| !probe.to_string().contains("404  Not Found");
    if reached.is_err_and(unreached) {
        Excused::of(&error)
    } else {
        error
    }
}

/// The archive of Debian's packages in apt's settings.
pub fn archive(dirs: &Dirs) -> Result<String> {
    // The lists name their archive; a new machine may have none yet.
    if let Some(found) = listed()? {
        return Ok(found);
    }
    debian_deps::apt(dirs, &["update".into()])?;
    listed()?.context("apt's settings name no archive of Debian's packages")
}

fn listed() -> Result<Option<String>> {
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "--format", "$(REPO_URI)"]);
    command.args(["Identifier: Packages", "Origin: Debian", "Label: Debian"]);
    let text = printed(&mut command)?;
    Ok(text.lines().next().map(str::to_owned))
}

fn printed(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        bail!("{}: {}", command.get_program().display(), output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Gives a finished one its name, in the place of an older one.
fn take_place(own: &Path, home: &Path) -> Result<()> {
    let old = own.with_extension("old");
    match fs::rename(home, &old) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => fs::rename(own, home).with_context(|| home.display().to_string())?,
    }
    if old.exists() {
        fs::remove_dir_all(&old)?;
    }
    Ok(())
}

/// Removes leftovers of interrupted processes.
fn remove_left_over(dirs: &Dirs, name: &str) -> Result<()> {
    fs::create_dir_all(&dirs.cache).with_context(|| dirs.cache.display().to_string())?;
    for entry in fs::read_dir(&dirs.cache)? {
        let entry = entry?;
        let file_name = entry.file_name();
        let file_name = file_name.to_string_lossy();
        if maker(&file_name, name).is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// The process that made a directory of this name, if it is not finished.
fn maker<'a>(directory: &'a str, name: &str) -> Option<&'a str> {
    let rest = directory.strip_prefix(name)?.strip_prefix('.')?;
    (rest == "old" || rest.bytes().all(|byte| byte.is_ascii_digit())).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_that_of_the_installed_package() {
        let status = "Package: libc6\nVersion: 2.41-12\n\n\
            Package: ibverbs-providers\nStatus: install ok installed\nVersion: 65.0-1.1\n\n\
            Package: zlib1g\nVersion: 1:1.3\n";
        assert_eq!(version_in(status).as_deref(), Some("65.0-1.1"));
        assert_eq!(version_in("Package: libc6\nVersion: 2.41-12\n"), None);
        assert_eq!(release_in("65.0-1.1"), Some(65));
        assert_eq!(release_in("2410mlnx54-1.2"), None);
    }

    #[test]
    fn each_variant_has_a_separate_place_and_other_contents() {
        let users = SID.of_users(&["libibverbs1"]);
        assert_eq!(SID.directory(), "debian-sid");
        assert_eq!(users.directory(), "debian-sid-users");
        assert_ne!(SID.made_of(), users.made_of());
        assert!(SID.keeping().is_empty());
        assert!(users.keeping().concat().contains("download libibverbs1'"));
        assert_eq!(ARM64.directory(), "debian-sid-arm64");
        assert_eq!(SID.all_architectures(), None);
        let all = ARM64.all_architectures();
        let option = "--architectures=amd64,arm64,riscv64,ppc64el";
        assert_eq!(all.as_deref(), Some(option));
        assert_eq!(ARM64.unpacking().count(), 2);
        assert_eq!(ARM64.way(), ["--variant=essential"]);
        assert_eq!(BOOKWORM_ARM64.directory(), "debian-bookworm-arm64");
        assert_eq!(BOOKWORM_ARM64.way()[0], "--variant=extract");
        assert_eq!(SID.unpacking().count(), 0);
    }

    #[test]
    fn an_unknown_package_is_no_excuse() {
        let unmet = "The following packages have unmet dependencies:\n a : Depends: b (>= 2)\n";
        assert!(does_not_fit(unmet));
        let unknown = "E: Unable to locate package nonesuch\n";
        assert!(!does_not_fit(unknown));
        assert!(!does_not_fit(&(unmet.to_owned() + unknown)));
    }

    #[test]
    fn leftovers_of_an_interrupted_process_are_known_by_their_names() {
        assert_eq!(maker("debian-sid.123", "debian-sid"), Some("123"));
        assert_eq!(maker("debian-sid.old", "debian-sid"), Some("old"));
        assert_eq!(maker("debian-sid", "debian-sid"), None);
        assert_eq!(maker("debian-sidex.1", "debian-sid"), None);
        assert_eq!(maker("debian-sid.txt", "debian-sid"), None);
    }

    #[test]
    fn a_finished_one_takes_the_place_of_an_older_one() -> Result<()> {
        let room = std::env::temp_dir().join(format!("xtask-chroot-{}", process::id()));
        let (own, home) = (room.join("sid.7"), room.join("sid"));
        for content in ["older", "newer"] {
            fs::create_dir_all(&own)?;
            fs::write(own.join("content"), content)?;
            take_place(&own, &home)?;
            assert_eq!(fs::read_to_string(home.join("content"))?, content);
        }
        let left: Vec<_> = fs::read_dir(&room)?.collect();
        assert_eq!(left.len(), 1);
        fs::remove_dir_all(&room)?;
        Ok(())
    }
}
