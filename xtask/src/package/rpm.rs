//! The stage `rpm`: the RPM packages are made from a source archive and installed.
//!
//! `rpmbuild` packages the build of the Debian packages, which takes seconds. rpmlint reports no
//! error but those that `rpm/rpmlint.toml` lists with reasons. Then `rpm` installs the packages
//! into an empty root that has nothing but the C library, where they have to satisfy all
//! dependencies on libibverbs and librdmacm; a program runs there over the device in user space,
//! and after the removal nothing is left.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::{
    APART, Compiled,
    files::{below, file_with},
    must, one, source,
};
use crate::{debian_deps, dirs::Dirs, host, report::Tally};

pub const STAGE: &str = "rpm";

const SPEC: &str = "rpm/ferroverbs.spec";
/// The version of all packages.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The packages, without the one of debug information.
const PACKAGES: [&str; 4] = [
    "libferroverbs",
    "libferroverbs-rdmacm",
    "libferroverbs-devel",
    "ferroverbs-utils",
];
const DEBUG: &str = "ferroverbs-debuginfo";
/// Where the system of the packages has libraries.
const LIBRARIES: &str = "/usr/lib64";
/// Macros with which Fedora and SUSE make debug packages of all specifications.
const MACROS: [&str; 2] = [
    "_enable_debug_packages 1",
    "install %{debug_package}%%install\n",
];
/// Where packages are recorded. Debian's rpm has another place.
const RECORD: [&str; 2] = ["--dbpath", "/var/lib/rpm"];
/// Requirements that other packages of a system satisfy.
const OF_THE_SYSTEM: [&str; 7] = [
    "/sbin/ldconfig ",
    "/usr/bin/pkg-config ",
    "glibc-devel ",
    "ld-linux-x86-64.so.2(",
    "libc.so.6(",
    "libgcc_s.so.1(",
    "rtld(GNU_HASH) ",
];
/// The files of the C library, by the beginnings of their names.
const C_LIBRARY: [&str; 3] = ["ld-linux-", "libc.so.", "libgcc_s.so."];
/// Gives the root `$0` the file systems of the kernel and a network, and runs the rest.
const ENTER: &str = r#"
root=$0
mount --make-rprivate / || exit 1
for dir in dev proc sys; do
    mkdir -p "$root/$dir" && mount --rbind "/$dir" "$root/$dir" || exit 1
done
ip link set lo up || exit 1
exec "$@""#;

/// Builds the packages, checks them, and installs them.
pub fn run(dirs: &Dirs, compiled: &Compiled) -> Tally {
    Tally::of(STAGE, |tally| {
        debian_deps::rpm(dirs)?;
        let packages = Packages::build(dirs, compiled)?;
        tally.passed += 1;
        one(tally, STAGE, "rpmlint", packages.lint(dirs));
        one(
            tally,
            STAGE,
            "what the packages provide",
            packages.provide(dirs),
        );
        one(tally, STAGE, "arm64", for_arm64(dirs));
        one(tally, STAGE, "modes of files", packages.modes());
        one(
            tally,
            STAGE,
            "debug information",
            packages.debug_information(),
        );
        match &compiled.refusal {
            Some(refusal) => tally.skip(&format!("no root to install in: {refusal}")),
            None => one(
                tally,
                STAGE,
                "installed",
                packages.installed(&compiled.source),
            ),
        }
        Ok(())
    })
}

struct Packages {
    job: PathBuf,
    /// The directory with their files.
    made: PathBuf,
}

impl Packages {
    fn build(dirs: &Dirs, compiled: &Compiled) -> Result<Self> {
        let job = dirs.fresh(STAGE)?;
        let name = format!("ferroverbs-{VERSION}");
        source::copy(&dirs.root, &job.join(&name), &dirs.target)?;
        let mut archive = Command::new("tar");
        archive.arg("--create").arg("--gzip").arg("--file");
        archive.arg(job.join(format!("{name}.tar.gz")));
        host::must(archive.arg("--directory").arg(&job).arg(&name))?;
        println!("-- {STAGE}: rpmbuild -bb {SPEC}");
        let mut build = Command::new("rpmbuild");
        // The packages that a build needs were installed by apt, which rpm does not ask.
        build.args(["-bb", "--nodeps"]);
        let places = [
            format!("_topdir {}", job.join("build").display()),
            format!("_sourcedir {}", job.display()),
            format!("_libdir {LIBRARIES}"),
            format!("cargo_target {}", compiled.installer(dirs)?.display()),
        ];
        for macro_ in MACROS.into_iter().chain(places.iter().map(String::as_str)) {
            build.args(["--define", macro_]);
        }
        must(dirs, STAGE, build.arg(job.join(&name).join(SPEC)))?;
        let made = job.join("build/RPMS/x86_64");
        Ok(Self { job, made })
    }

    /// The file of a package.
    fn file(&self, package: &str) -> Result<PathBuf> {
        file_with(&self.made, &format!("{package}-{VERSION}-"), ".rpm")
    }

    fn files(&self) -> Result<Vec<PathBuf>> {
        let files = PACKAGES.iter().map(|package| self.file(package));
        files.collect()
    }

    /// What rpm says about a package that is not installed.
    fn query(&self, package: &str, words: &[&str]) -> Result<String> {
        let mut query = Command::new("rpm");
        query.args(["--query", "--package"]).args(words);
        host::must(query.arg(self.file(package)?))
    }

    fn lint(&self, dirs: &Dirs) -> Result<()> {
        let mut lint = Command::new("rpmlint");
        lint.arg("--config").arg(dirs.root.join("rpm/rpmlint.toml"));
        lint.args(self.files()?).arg(self.file(DEBUG)?);
        must(dirs, "rpmlint", lint.arg(dirs.root.join(SPEC)))
    }

    /// Programs depend on symbol versions, and providers on those of private nodes.
    fn provide(&self, dirs: &Dirs) -> Result<()> {
        let libraries = [
            (PACKAGES[0], "libibverbs", "src/libibverbs.map"),
            (PACKAGES[1], "librdmacm", "rdmacm/src/librdmacm.map"),
        ];
        for (package, library, map) in libraries {
            let provided = self.query(package, &["--provides"])?;
            let provided: BTreeSet<_> = provided.lines().map(str::trim).collect();
            let map = fs::read_to_string(dirs.root.join(map)).context(map)?;
            for node in nodes(&map) {
                let wanted = format!("{library}.so.1({node})(64bit)");
                if !provided.contains(wanted.as_str()) {
                    bail!("{package} does not provide {wanted}");
                }
            }
            let replaced = format!("{library} = ");
            if !provided.iter().any(|line| line.starts_with(&replaced)) {
                bail!("{package} does not provide {library}");
            }
        }
        Ok(())
    }

    /// The policy of these systems: libraries can be executed.
    fn modes(&self) -> Result<()> {
        let mut libraries = 0;
        for package in PACKAGES {
            let format = "[%{FILEMODES:perms} %{FILENAMES}\\n]";
            let files = self.query(package, &["--queryformat", format])?;
            for line in files.lines().filter(|line| is_library(line)) {
                libraries += 1;
                if !line.starts_with("-rwxr-xr-x ") {
                    bail!("{package}: {line}");
                }
            }
        }
        if libraries != 3 {
            bail!("{libraries} libraries, not three");
        }
        Ok(())
    }

    fn debug_information(&self) -> Result<()> {
        let files = self.query(DEBUG, &["--list"])?;
        for library in ["libibverbs.so.1.", "librdmacm.so.1.", "librspreload.so"] {
            let has = |line: &str| line.contains(library) && line.ends_with(".debug");
            if !files.lines().any(has) {
                bail!("{DEBUG} has nothing for {library}");
            }
        }
        Ok(())
    }

    /// Installs them into an empty root, uses them there, and removes them.
    fn installed(&self, source: &Path) -> Result<()> {
        let root = self.job.join("root");
        c_library(&root, source)?;
        let before = below(&root)?;
        let files = self.files()?;
        let mut test = rpm(&root, &["--install", "--test"]);
        let output = test.args(&files).output().context("start rpm")?;
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        let missing = missing(&printed);
        if !missing.is_empty() {
            bail!(
                "dependencies that are not satisfied: {}",
                missing.join(", ")
            );
        }
        // Those that are left are the C library's, which is not a package here.
        host::must(rpm(&root, &["--install", "--nodeps"]).args(&files))?;
        host::must(&mut rpm(&root, &["--verify", "--all", "--nodeps"]))?;
        runs(&root)?;
        host::must(rpm(&root, &["--erase"]).args(PACKAGES))?;
        let left = below(&root)?;
        let new = left.iter().filter(|file| !before.contains(*file));
        let mut ours = new.filter(|file| {
            let place = file.strip_prefix(&root).unwrap_or(file);
            !place.starts_with("var/lib/rpm") && place != Path::new("etc/ld.so.cache")
        });
        match ours.next() {
            Some(file) => bail!("{} is left", file.display()),
            None => Ok(()),
        }
    }
}

/// The spec is for arm64, too, as far as rpm can say without a compiler for it.
fn for_arm64(dirs: &Dirs) -> Result<()> {
    let mut query = Command::new("rpmspec");
    query.args(["--query", "--rpms", "--target", "aarch64-linux"]);
    query.args(["--queryformat", "%{NAME} %{ARCH}\\n"]);
    let printed = host::must(query.arg(dirs.root.join(SPEC)))?;
    for package in PACKAGES {
        let wanted = format!("{package} aarch64");
        if !printed.lines().any(|line| line == wanted) {
            bail!("{wanted} is not among {printed}");
        }
    }
    Ok(())
}

/// The nodes of a version script.
fn nodes(map: &str) -> impl Iterator<Item = &str> {
    let lines = map.lines().filter_map(|line| line.strip_suffix(" {"));
    lines.filter(|node| {
        node.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte))
    })
}

/// Whether a line is of a library's file, and not of a link to it.
fn is_library(line: &str) -> bool {
    line.starts_with('-') && (line.contains(".so.1.") || line.ends_with(".so"))
}

/// The requirements that rpm misses and that are not of other packages of a system.
fn missing(printed: &str) -> Vec<&str> {
    let lines = printed.lines().map(str::trim);
    let missed = lines.filter(|line| line.contains(" is needed by ") || line.contains("conflicts"));
    missed
        .filter(|line| !OF_THE_SYSTEM.iter().any(|name| line.starts_with(name)))
        .collect()
}

/// A command in new namespaces, with the root's file systems of the kernel.
fn inside(root: &Path, program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(APART).args(["sh", "-c", ENTER]);
    command.arg(root).arg(program);
    command
}

fn rpm(root: &Path, words: &[&str]) -> Command {
    let mut command = inside(root, "rpm");
    command.arg("--root").arg(root).args(RECORD).args(words);
    command
}

/// Gives a new root this machine's C library, and its program for the dynamic linker's cache.
fn c_library(root: &Path, source: &Path) -> Result<()> {
    let release = source.join("debian/cargo-target/release");
    let mut asked = Command::new("ldd");
    let printed = host::must(asked.arg(release.join("ibv_devinfo")))?;
    let mut files: Vec<&str> = printed
        .split_whitespace()
        .filter(|word| is_of_c(word))
        .collect();
    files.push("/sbin/ldconfig");
    for file in files {
        let place = root.join(file.trim_start_matches('/'));
        fs::create_dir_all(place.parent().context("a file is in a folder")?)?;
        fs::copy(file, place).with_context(|| file.to_owned())?;
    }
    fs::create_dir_all(root.join("etc"))?;
    // The dynamic linker of these systems knows this place.
    fs::write(root.join("etc/ld.so.conf"), format!("{LIBRARIES}\n"))?;
    Ok(())
}

fn is_of_c(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    path.starts_with('/') && C_LIBRARY.iter().any(|begin| name.starts_with(begin))
}

/// Whether a program runs on the installed libraries, over the device in user space.
fn runs(root: &Path) -> Result<()> {
    let mut run = inside(root, "sh");
    run.args(["-c", "exec chroot \"$0\" /usr/bin/ibv_devinfo 2>&1"]);
    run.arg(root)
        .env("LD_DEBUG", "files")
        .env("UROCE_DEVICES", "lo");
    run.env("LD_PRELOAD", format!("{LIBRARIES}/rsocket/librspreload.so"));
    let printed = host::must(&mut run)?;
    let loaded = |name: &str| format!("calling init: {LIBRARIES}/{name}");
    let libraries = [
        "libibverbs.so.1",
        "librdmacm.so.1",
        "rsocket/librspreload.so",
    ];
    let wanted = libraries.map(loaded);
    let wanted = wanted
        .iter()
        .map(String::as_str)
        .chain(["uroce_lo", "PORT_ACTIVE"]);
    for wanted in wanted {
        if !printed.contains(wanted) {
            bail!("ibv_devinfo did not print {wanted:?}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specification() -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        fs::read_to_string(root.join(SPEC)).unwrap()
    }

    #[test]
    fn the_specification_has_the_version_of_the_crates() {
        let text = specification();
        let version = text.lines().find_map(|line| line.strip_prefix("Version:"));
        assert_eq!(version.map(str::trim), Some(VERSION));
    }

    #[test]
    fn all_nodes_of_a_version_script_are_looked_for() {
        let map = "/* x {\n */\nA_1.0 {\n\tglobal:\n} ;\nA_PRIVATE_34 {\n} A_1.0;\n";
        assert_eq!(nodes(map).collect::<Vec<_>>(), ["A_1.0", "A_PRIVATE_34"]);
    }

    #[test]
    fn requirements_of_other_packages_are_distinguished() {
        let printed = "error: Failed dependencies:\n\
            \tlibc.so.6(GLIBC_2.34)(64bit) is needed by a-1\n\
            \tlibibverbs.so.1(IBVERBS_1.9)(64bit) is needed by a-1\n\
            \tlibibverbs conflicts with a-1\n";
        let found = missing(printed);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|line| line.starts_with("libibverbs")));
        assert!(missing("").is_empty());
    }

    #[test]
    fn links_are_no_libraries() {
        assert!(is_library("-rwxr-xr-x /usr/lib64/libibverbs.so.1.18.0.1.0"));
        assert!(is_library("-rw-r--r-- /usr/lib64/rsocket/librspreload.so"));
        assert!(!is_library("lrwxrwxrwx /usr/lib64/libibverbs.so"));
    }
}
