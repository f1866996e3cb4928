//! The stage `package`: the Debian packages are built without a network, and installed over
//! Debian's own packages in a throw-away copy of this machine.
//!
//! The sources are copied, the crates are put beside them, and the packages are built with an empty
//! cargo home, in two steps; between them, other stages may take the compiled library, so that the
//! tested library is the installed one. `debian/rules` calls `cargo build` and `cargo xtask
//! install`, with `FERROVERBS_PROVIDER_DIR` set to the directory of Debian's providers. lintian
//! checks the packages, and `hardening` checks how their files are compiled and linked.
//!
//! Then this program is started again as the first process of new namespaces. It mounts a file
//! system in memory over `/` and enters it (`root`). It moves from Debian's packages to these and
//! back, by apt and by dpkg (`transitions`). At every stop it checks all dependencies, and programs
//! have to print the same as at the start, over the library of the package that dpkg names
//! (`observe`). Debian's programs also run over the device in user space, as a user without rights
//! (`over_uroce`). The packages of this machine are not touched.
//!
//! The stages `package:trixie` and `package:sid` do the same with other releases (`releases`).
#![forbid(unsafe_code)]

mod elsewhere;
pub mod files;
pub mod hardening;
mod notes;
mod observe;
mod over_uroce;
#[cfg(test)]
mod rdma_core;
pub mod releases;
pub mod reproducible;
mod root;
pub mod rpm;
pub mod source;
mod symbols;
mod transitions;

use files::{PACKAGES, file_with, name_here, package_in};
use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{
    debian_deps,
    dirs::{Dirs, LIBRARY},
    excused, host,
    record::{Record, Verdict, parse_list},
    report::Tally,
    sccache,
};

pub use root::run as in_root;

pub const STAGE: &str = "package";

/// The file of a job directory in which results are left, and its last line.
const RESULTS: &str = "results.tsv";
const COMPLETE: &str = "# complete";
/// The folder of a job directory that holds Debian's packages.
const STOCK: &str = "stock";
/// Shows the device to a program that reads sysfs. A copy of it is in the job's directory.
const IN_SYSFS: &str = "uroce-sysfs";
/// The exchange of MPI's ranks, in the directory of the job.
const EXCHANGE: &str = "exchange.py";
/// The folder of the job directory that holds the sources.
const SOURCES: &str = "ferroverbs";

/// New namespaces: mounts and the network affect no other process, and nothing is left running.
const APART: [&str; 6] = [
    "--mount",
    "--net",
    "--pid",
    "--ipc",
    "--fork",
    "--kill-child",
];

/// The compiled contents of the packages.
pub struct Compiled {
    /// Where the packages will be.
    job: PathBuf,
    /// The sources.
    source: PathBuf,
    /// The reason why packages cannot be installed in a temporary root, if there is one.
    refusal: Option<String>,
}

impl Compiled {
    /// Compiles it: the first half of building the packages.
    ///
    /// # Errors
    /// The output of the step that failed.
    pub fn new(dirs: &Dirs) -> Result<Self> {
        let job = dirs.fresh(STAGE)?;
        Self::copy(dirs, &job)?;
        Self::below(dirs, job)
    }

    /// Copies the sources to a directory, for [`Self::below`].
    fn copy(dirs: &Dirs, job: &Path) -> Result<()> {
        source::copy(&dirs.root, &job.join(SOURCES), &dirs.target)
    }

    /// Compiles the sources in a directory.
    fn below(dirs: &Dirs, job: PathBuf) -> Result<Self> {
        debian_deps::packaging(dirs)?;
        let source = job.join(SOURCES);
        let refusal = no_namespaces();
        vendor(dirs, &source)?;
        let compiled = Self {
            job,
            source,
            refusal,
        };
        compiled.build(dirs, "compile", &["--target=clean,build"])?;
        Ok(compiled)
    }

    /// The library, with its symbols.
    pub fn library(&self) -> PathBuf {
        self.release().join(LIBRARY)
    }

    /// Where cargo has put it.
    fn release(&self) -> PathBuf {
        self.source.join("debian/cargo-target/release")
    }

    /// Builds the packages: the second half.
    fn packages(&self, dirs: &Dirs) -> Result<()> {
        self.build(dirs, "build", &["-b", "-nc"])
    }

    /// The target directory of cargo, with a program that installs from it.
    fn installer(&self, dirs: &Dirs) -> Result<PathBuf> {
        let target = self.source.join("debian/cargo-target");
        // The second half compiles it.
        if !target.join("debug/xtask").exists() {
            self.packages(dirs)?;
        }
        Ok(target)
    }

    /// Takes a step of building, with crates from nowhere but debian/vendor: cargo's own store is
    /// an empty directory, and without a network where that is possible.
    fn build(&self, dirs: &Dirs, name: &str, words: &[&str]) -> Result<()> {
        println!("-- {STAGE}: dpkg-buildpackage -us -uc {}", words.join(" "));
        let mut command = if self.refusal.is_none() {
            let mut command = outside_cargo("unshare");
            command.args(["--net", "dpkg-buildpackage"]);
            command
        } else {
            outside_cargo("dpkg-buildpackage")
        };
        command
            .args(["-us", "-uc"])
            .args(words)
            .env("CARGO_HOME", self.job.join("empty-cargo-home"))
            // The stage `unit` runs these tests.
            .env("DEB_BUILD_OPTIONS", "nocheck")
            .current_dir(&self.source);
        must(dirs, name, &mut command)
    }
}

/// Builds the packages, checks them, and installs them; an error on the way fails the stage.
pub fn run(dirs: &Dirs, compiled: &Compiled) -> Tally {
    Tally::of(STAGE, |tally| all(dirs, compiled, tally))
}

fn all(dirs: &Dirs, compiled: &Compiled, tally: &mut Tally) -> Result<()> {
    compiled.packages(dirs)?;
    let Compiled {
        job,
        source,
        refusal,
    } = compiled;
    tally.passed += 1;
    one(tally, STAGE, "lintian", lintian(dirs, job));
    one(tally, STAGE, "symbols", symbols::compare(job));
    one(
        tally,
        STAGE,
        "hardening",
        hardening::check(job, &compiled.release(), source),
    );
    if let Some(refusal) = refusal {
        tally.skip(&format!("no throw-away root to install in: {refusal}"));
        return Ok(());
    }
    one(tally, STAGE, "elsewhere", elsewhere::check(job, source));
    stock_packages(dirs, &job.join(STOCK))?;
    installed(dirs, STAGE, (job, None), tally)
}

fn one(tally: &mut Tally, stage: &str, name: &str, result: Result<()>) {
    match result {
        Ok(()) => tally.passed += 1,
        Err(error) => tally.fail(format!("{stage}: {name}: {error:#}")),
    }
}

/// The reason why this process cannot have new namespaces, if there is one.
fn no_namespaces() -> Option<String> {
    let probe = Command::new("unshare").args(APART).arg("true").output();
    match probe {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    }
}

/// The log of a command.
fn log(dirs: &Dirs, name: &str) -> PathBuf {
    dirs.work.join(format!("{STAGE}-{name}.log"))
}

/// Runs a command that has to succeed, with a separate log.
fn must(dirs: &Dirs, name: &str, command: &mut Command) -> Result<()> {
    let log = log(dirs, name);
    let outcome = host::run(command, &log, None)?;
    if !outcome.status.success() {
        bail!(
            "{name} failed ({}), see {}: {}",
            outcome.status,
            log.display(),
            outcome.last_lines()
        );
    }
    Ok(())
}

/// A command without cargo's variables of this program's environment, and without settings that
/// would change the build. Cargo's source of crates is kept.
fn outside_cargo(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if changes_the_build(&name.to_string_lossy()) {
            command.env_remove(&name);
        }
    }
    command
}

fn changes_the_build(variable: &str) -> bool {
    let of_this_program = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"];
    let settings = ["CARGO_PROFILE_", "CARGO_BUILD_", "CARGO_TARGET_", "DEB_"];
    let mut starts = of_this_program.iter().chain(&settings);
    let flags = [
        "CARGO",
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        // Asks a server by the network, which is not there.
        sccache::WRAPPER,
    ];
    flags.contains(&variable) || starts.any(|start| variable.starts_with(start))
}

fn vendor(dirs: &Dirs, source: &Path) -> Result<()> {
    println!("-- {STAGE}: debian/rules vendor");
    let mut command = outside_cargo("debian/rules");
    let vendored = must(dirs, "vendor", command.arg("vendor").current_dir(source));
    vendored.map_err(|error| {
        let printed = fs::read_to_string(log(dirs, "vendor")).unwrap_or_default();
        excused::of_crates(error, &printed)
    })
}

fn lintian(dirs: &Dirs, job: &Path) -> Result<()> {
    let changes = file_with(job, "ferroverbs_", ".changes")?;
    must(dirs, "lintian", &mut lintian_of(&changes))
}

/// lintian for the packages of a changes file; each report is an error.
pub fn lintian_of(changes: &Path) -> Command {
    let mut command = Command::new("lintian");
    command
        .args(["--display-info", "--fail-on", "error,warning,info"])
        // Takes machine code for text now and then ("wtH" for "with").
        .args(["--suppress-tags", "spelling-error-in-binary"])
        .arg(changes);
    if rustix::process::geteuid().is_root() {
        command.arg("--allow-root");
    }
    command
}

/// Puts the packages that are installed here, as the archive has them, into a directory.
fn stock_packages(dirs: &Dirs, into: &Path) -> Result<()> {
    fs::create_dir_all(into)?;
    for (_, stock) in PACKAGES {
        let stock = name_here(stock)?;
        let version = installed_version(stock)?;
        let kept = dirs.cache.join("debian").join(format!("{stock}-{version}"));
        let complete = kept.join("complete");
        if !complete.exists() {
            fs::create_dir_all(&kept)?;
            download(dirs, &format!("{stock}={version}"), &kept)?;
            fs::write(&complete, "")?;
        }
        let package = package_in(&kept, stock)?;
        let name = package.file_name().context("a package has a name")?;
        fs::copy(&package, into.join(name))?;
    }
    Ok(())
}

fn installed_version(package: &str) -> Result<String> {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f", "${Version}", package])
        .output()?;
    let version = String::from_utf8(output.stdout)?;
    if !output.status.success() || version.is_empty() {
        bail!("{package} of Debian is not installed on this machine");
    }
    Ok(version)
}

fn download(dirs: &Dirs, package: &str, into: &Path) -> Result<()> {
    // The directory is root's, which apt's own user may not write to.
    let words = ["-o", "APT::Sandbox::User=root"];
    let mut get = Command::new("apt-get");
    get.args(words)
        .args(["download", package])
        .current_dir(into);
    if must(dirs, "download", &mut get).is_ok() {
        return Ok(());
    }
    // Minimal images lack the lists of available packages.
    must(dirs, "update", Command::new("apt-get").arg("update"))?;
    must(dirs, "download", &mut get)
}

/// Makes the transitions there and back in the temporary root, above this machine's root or the one
/// of another release, and counts the findings.
fn installed(
    dirs: &Dirs,
    stage: &str,
    (job, lower): (&Path, Option<&Path>),
    tally: &mut Tally,
) -> Result<()> {
    println!("-- {stage}: installed over Debian's packages, and back");
    let script = dirs.root.join("tools").join(IN_SYSFS);
    fs::copy(&script, job.join(IN_SYSFS)).context("copy uroce-sysfs")?;
    let script = dirs.root.join("xtask/guest").join(EXCHANGE);
    fs::copy(&script, job.join(EXCHANGE)).context(EXCHANGE)?;
    let mut command = Command::new("unshare");
    command
        .args(APART)
        .arg(&dirs.program)
        .arg("in-root")
        .arg(job)
        .args(lower);
    let ended = must(dirs, &format!("installed-{stage}"), &mut command);
    let text = fs::read_to_string(job.join(RESULTS)).unwrap_or_default();
    let before = tally.failures.len();
    let records = parse_list(&text)?;
    count(stage, &records, tally);
    if text.lines().next_back() != Some(COMPLETE) {
        tally.fail(format!("{stage}: the transitions were not completed"));
    }
    // The failure is reported already, except by a process that got nowhere.
    if tally.failures.len() > before && !records.is_empty() {
        return Ok(());
    }
    ended
}

fn count(stage: &str, records: &[Record], tally: &mut Tally) {
    for record in records {
        match record.verdict {
            Verdict::Ok => tally.passed += 1,
            Verdict::Skip => tally.skip(&format!("{}: {}", record.name, record.reason)),
            _ => tally.fail(format!("{stage}: {}: {}", record.name, record.reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debian(file: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../debian");
        fs::read_to_string(path.join(file)).unwrap()
    }

    #[test]
    fn the_changelog_has_the_version_of_the_crates() {
        let wanted = format!("ferroverbs ({})", env!("CARGO_PKG_VERSION"));
        assert!(debian("changelog").starts_with(&wanted));
    }

    #[test]
    fn the_packages_replace_debians() {
        let control = debian("control");
        for (ours, stock) in PACKAGES {
            assert!(control.contains(&format!("Package: {ours}\n")));
            assert!(control.contains(&format!(" {stock} (= ${{rdma-core:Version}}),\n")));
        }
    }

    #[test]
    fn where_crates_come_from_is_kept() {
        for gone in [
            "CARGO",
            "CARGO_PKG_NAME",
            "CARGO_PROFILE_RELEASE_LTO",
            "RUSTFLAGS",
            "RUSTC_WRAPPER",
        ] {
            assert!(changes_the_build(gone), "{gone}");
        }
        for kept in ["CARGO_HOME", "CARGO_HTTP_PROXY", "PATH", "CARGO_NET_RETRY"] {
            assert!(!changes_the_build(kept), "{kept}");
        }
    }

    #[test]
    fn every_result_counts() {
        let mut tally = Tally::default();
        let records = [
            Record::new("a", Verdict::Ok, ""),
            Record::new("b", Verdict::Fail, "x"),
            Record::new("c", Verdict::Hung, ""),
            Record::new("d", Verdict::Skip, "y"),
        ];
        count(STAGE, &records, &mut tally);
        assert_eq!((tally.passed, tally.failures.len()), (1, 2));
        assert_eq!(tally.skipped(), 1);
    }
}
