//! In the throw-away root: from Debian's packages to ours and back, by apt and by dpkg, with
//! programs run at every stop.
#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::{
    STOCK,
    files::{PACKAGES, name_here, package_in},
    installed_version,
    notes::Notes,
    observe::{Observed, PROGRAMS, observe, packages, resolves},
    over_uroce,
};
use crate::{chroot::RDMA_CORE, host::must};

const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
const OURS: [&str; 2] = [PACKAGES[0].0, PACKAGES[1].0];
const DEBIANS: [&str; 2] = [PACKAGES[0].1, PACKAGES[1].1];
/// The programs: ours, and Debian's.
const UTILS: (&str, &str) = PACKAGES[2];
/// The packages of librdmacm, with its headers.
const RDMACM: [(&str, &str); 2] = [PACKAGES[3], PACKAGES[4]];

/// The version of rdma-core whose programs have the same usage texts as ours.
const WITH_OUR_USAGE: &str = "44.0";

/// Where a program is compiled, in the throw-away root.
const SCRATCH: &str = "/run/ferroverbs-scratch";
/// A user's program.
const SOURCE: &str = r#"
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>

int main(void)
{
	int number = -1;
	struct ibv_device **list = ibv_get_device_list(&number);

	printf("%s, %d devices, errno %d\n", ibv_port_state_str(IBV_PORT_ACTIVE), number,
	       list ? 0 : errno);
	if (list)
		ibv_free_device_list(list);
	return 0;
}
"#;

/// One that connects.
const CONNECTING: &str = r#"
#include <rdma/rdma_cma.h>
#include <stdio.h>

int main(void)
{
	return puts(rdma_event_str(RDMA_CM_EVENT_ESTABLISHED)) < 0;
}
"#;
/// Connects over a device in user space, by Debian's programs.
const CONNECT: &str = "
ip link set lo up || exit 1
rdma_server & server=$!
until grep -aq '/cm/.*/7471/' /proc/net/unix; do kill -0 $server && sleep 0.1 || exit 1; done
rdma_client -s 127.0.0.1 && wait $server";

/// Makes all transitions, after another step; returns whether everything was as it should be.
pub(super) fn run(job: &Path, before: impl FnOnce(&mut Notes) -> Result<()>) -> Result<bool> {
    let mut notes = Notes::new(job)?;
    match before(&mut notes).and_then(|()| there_and_back(job, &mut notes)) {
        Ok(()) => notes.complete()?,
        // After a failed transition the results of later ones mean nothing.
        Err(error) => notes.add("a transition", Err(error))?,
    }
    Ok(notes.fine)
}

fn there_and_back(job: &Path, notes: &mut Notes) -> Result<()> {
    let stock = Start::look(notes)?;
    let ours = [package_in(job, OURS[0])?, package_in(job, OURS[1])?];
    let debians = job.join(STOCK);
    fs::create_dir_all(Path::new(SCRATCH).join("debian"))?;

    apt_install_files(&ours)?;
    notes.add(
        "apt: ours for Debian's, nothing else",
        stock.exchanged(&[0, 1]),
    )?;
    stock.at_ours("apt", notes)?;
    over_uroce::run(job, notes)?;
    notes.add("a program is compiled and runs", compiled_runs(OURS[0]))?;
    notes.add("what that program depends on", dependencies())?;
    notes.add("providers and libraries resolve", resolves(&users()?))?;

    supply(&debians)?;
    apt_install(&[DEBIANS[1]])?;
    notes.add("apt: Debian's headers, our library", stock.exchanged(&[0]))?;
    notes.add("compiled with Debian's headers", compiled_runs(OURS[0]))?;

    supply(&debians)?;
    apt_install(&DEBIANS)?;
    stock.at_debians("apt", notes)?;
    notes.add("compiled over Debian's library", compiled_runs(DEBIANS[0]))?;

    apt_install_files(ours.get(..1).unwrap_or_default())?;
    notes.add("apt: our library alone", stock.exchanged(&[0]))?;
    notes.add("our library alone: sound", sound())?;
    supply(&debians)?;
    apt_install(&DEBIANS)?;
    notes.add("apt: back from our library alone", stock.exchanged(&[]))?;

    must(Command::new("dpkg").arg("--install").args(&ours))?;
    notes.add(
        "dpkg: ours for Debian's, nothing else",
        stock.exchanged(&[0, 1]),
    )?;
    stock.at_ours("dpkg", notes)?;
    must(
        Command::new("dpkg")
            .args(["--force-depends", "--remove"])
            .args(OURS),
    )?;
    let mut files = Vec::new();
    for debian in DEBIANS {
        files.push(package_in(&debians, debian)?);
    }
    must(Command::new("dpkg").arg("--install").args(files))?;
    stock.at_debians("dpkg", notes)?;
    programs(job, &stock, &ours, notes)?;
    connecting(job, &stock, &ours, notes)
}

/// Our librdmacm for Debian's, over Debian's libibverbs and over ours, and back.
fn connecting(job: &Path, stock: &Start, ours: &[PathBuf], notes: &mut Notes) -> Result<()> {
    let debians = job.join(STOCK);
    let rdmacm = [package_in(job, RDMACM[0].0)?, package_in(job, RDMACM[1].0)?];
    let theirs = name_here(RDMACM[0].1)?;
    let back = [DEBIANS[0], DEBIANS[1], theirs, RDMACM[1].1];

    apt_install_files(rdmacm.get(..1).unwrap_or_default())?;
    notes.add(
        "apt: our librdmacm, Debian's libibverbs and headers",
        stock.exchanged(&[3]),
    )?;
    notes.add("our librdmacm: sound", sound())?;
    notes.add("our librdmacm: loaded", connecting_is_of(RDMACM[0].0))?;
    notes.add("our librdmacm: resolves", resolves(&users()?))?;
    stock.programs("our librdmacm, Debian's libibverbs", DEBIANS[0], notes)?;
    notes.add("compiled with Debian's rdma_cma.h", connecting_compiled())?;

    apt_install_files(&rdmacm)?;
    notes.add("apt: our rdma_cma.h", stock.exchanged(&[3, 4]))?;
    for (package, _) in RDMACM {
        notes.add(&format!("{package} as packaged"), verify(package))?;
    }
    notes.add("compiled with our rdma_cma.h", connecting_compiled())?;
    apt_install_files(ours)?;
    notes.add("apt: both of our libraries", stock.exchanged(&[0, 1, 3, 4]))?;
    stock.programs("both of our libraries", OURS[0], notes)?;
    notes.add("compiled with our headers alone", connecting_compiled())?;
    notes.add("both of our libraries: connect over uroce_lo", connect())?;
    supply(&debians)?;
    apt_install(&back)?;
    notes.add("apt: back from our librdmacm", stock.exchanged(&[]))?;
    notes.add("Debian's librdmacm: loaded", connecting_is_of(theirs))
}

/// Whether the librdmacm that programs get is this package's.
fn connecting_is_of(package: &str) -> Result<()> {
    let file = fs::canonicalize(Path::new(LIBRARIES).join("librdmacm.so.1"))?;
    let owner = must(Command::new("dpkg").arg("--search").arg(file))?;
    if owner.split(':').next() != Some(package) {
        bail!("{owner}");
    }
    Ok(())
}

/// A program that connects is compiled, and would run over Debian's library as well.
fn connecting_compiled() -> Result<()> {
    compile(CONNECTING, "librdmacm")?;
    let printed = must(&mut Command::new(format!("{SCRATCH}/program")))?;
    if printed != "RDMA_CM_EVENT_ESTABLISHED\n" {
        bail!("said {printed:?}");
    }
    let text = shlibdeps()?;
    if !text.contains("librdmacm1 (>= 1.0.15)") || text.contains(RDMACM[0].0) {
        bail!("{text}");
    }
    Ok(())
}

fn connect() -> Result<()> {
    let mut shell = Command::new("sh");
    shell.args(["-c", CONNECT]).env("UROCE_DEVICES", "lo");
    let text = must(&mut shell)?;
    if !text.contains("rdma_client: end 0") || !text.contains("rdma_server: end 0") {
        bail!("{text}");
    }
    Ok(())
}

/// Our programs for Debian's, over Debian's library and over ours, and back.
fn programs(job: &Path, stock: &Start, ours: &[PathBuf], notes: &mut Notes) -> Result<()> {
    apt_install_files(&[package_in(job, UTILS.0)?])?;
    notes.add("apt: our programs, nothing else", stock.exchanged(&[2]))?;
    notes.add("our programs: sound", sound())?;
    notes.add("our programs as packaged", verify(UTILS.0))?;
    stock.our_programs("our programs, Debian's library", DEBIANS[0], notes)?;
    notes.add("our programs: the doctor", doctor())?;
    notes.add("our programs: the trace reader", trace_reader())?;
    notes.add("our programs: counters", counters())?;
    apt_install_files(ours.get(..1).unwrap_or_default())?;
    notes.add("apt: all of ours", stock.exchanged(&[0, 2]))?;
    stock.our_programs("our programs, our library", OURS[0], notes)?;
    supply(&job.join(STOCK))?;
    apt_install(&[DEBIANS[0], DEBIANS[1], UTILS.1])?;
    notes.add("apt: back from our programs", stock.exchanged(&[]))
}

/// Whether the doctor looks at this machine, whatever it finds, and knows its words.
fn doctor() -> Result<()> {
    let output = Command::new("ibv_doctor").arg("--json").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !matches!(output.status.code(), Some(0 | 1)) || !text.contains("\"findings\"") {
        bail!("ibv_doctor --json: {}, {text}", output.status);
    }
    Ok(())
}

/// Whether a file that is no trace is reported.
fn trace_reader() -> Result<()> {
    let output = Command::new("ibv_trace").arg("/etc/passwd").output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() != Some(1) || !text.contains("/etc/passwd: ") {
        bail!("ibv_trace /etc/passwd: {}, {text}", output.status);
    }
    Ok(())
}

/// In this network no process has a device of uroce, so there is nothing to print.
fn counters() -> Result<()> {
    let text = must(Command::new("uroce-stat").arg("--lines"))?;
    if !text.is_empty() {
        bail!("uroce-stat: {text}");
    }
    Ok(())
}

/// The state of the machine: its packages, and the output of its programs.
struct Start {
    packages: BTreeSet<String>,
    /// The names of Debian's packages, in the order of [`PACKAGES`].
    names: Vec<&'static str>,
    printed: Vec<Observed>,
}

impl Start {
    fn look(notes: &mut Notes) -> Result<Self> {
        notes.add("Debian's: sound", sound())?;
        let (mut printed, mut owners) = (Vec::new(), Owners::default());
        for words in PROGRAMS {
            let observed = observe(words)?;
            let name = format!("Debian's: {}", words.join(" "));
            notes.add(&name, owners.over(&observed, DEBIANS[0]))?;
            printed.push(observed);
        }
        let names = PACKAGES.iter().map(|row| name_here(row.1));
        Ok(Self {
            packages: packages()?,
            names: names.collect::<Result<_>>()?,
            printed,
        })
    }

    /// Whether these of our packages, by index, are there for Debian's, and nothing else changed.
    fn exchanged(&self, indices: &[usize]) -> Result<()> {
        let names = |set: &BTreeSet<String>, other: &BTreeSet<String>| -> Vec<String> {
            let only = set.difference(other);
            only.filter_map(|line| line.split(' ').next().map(str::to_owned))
                .collect()
        };
        let now = packages()?;
        let (mut come, mut gone) = (names(&now, &self.packages), names(&self.packages, &now));
        let ours: Vec<_> = PACKAGES.iter().map(|row| row.0).collect();
        let pick = |names: &[&str]| -> Vec<String> {
            let picked = indices.iter().filter_map(|&i| names.get(i));
            let mut picked: Vec<_> = picked.map(|&name| name.to_owned()).collect();
            picked.sort();
            picked
        };
        come.sort();
        gone.sort();
        if come != pick(&ours) || gone != pick(&self.names) {
            bail!("came: {}; went: {}", come.join(" "), gone.join(" "));
        }
        Ok(())
    }

    fn at_ours(&self, how: &str, notes: &mut Notes) -> Result<()> {
        notes.add(&format!("{how}, ours: sound"), sound())?;
        for package in OURS {
            notes.add(&format!("{how}: {package} as packaged"), verify(package))?;
        }
        self.programs(&format!("{how}, ours"), OURS[0], notes)
    }

    fn at_debians(&self, how: &str, notes: &mut Notes) -> Result<()> {
        let back = format!("{how}, back");
        notes.add(&format!("{back}: packages as before"), self.exchanged(&[]))?;
        notes.add(&format!("{back}: sound"), sound())?;
        for package in DEBIANS {
            notes.add(&format!("{back}: {package} as packaged"), verify(package))?;
        }
        self.programs(&back, DEBIANS[0], notes)
    }

    /// Whether each program prints the same as at the start, over the library of a package.
    fn programs(&self, label: &str, package: &str, notes: &mut Notes) -> Result<()> {
        self.each_program(|_| true, label, package, notes)
    }

    /// The same with our programs. Usage texts differ between releases of rdma-core, and ours has
    /// the one of [`WITH_OUR_USAGE`].
    fn our_programs(&self, label: &str, package: &str, notes: &mut Notes) -> Result<()> {
        let all = upstream()? == WITH_OUR_USAGE;
        self.each_program(
            |words| all || !words.contains(&"--help"),
            label,
            package,
            notes,
        )
    }

    fn each_program(
        &self,
        wanted: impl Fn(&[&str]) -> bool,
        label: &str,
        package: &str,
        notes: &mut Notes,
    ) -> Result<()> {
        let mut owners = Owners::default();
        let rows = PROGRAMS.iter().zip(&self.printed);
        for (words, stock) in rows.filter(|(words, _)| wanted(words)) {
            let name = format!("{label}: {}", words.join(" "));
            notes.add(&name, same(words, stock, package, &mut owners))?;
        }
        Ok(())
    }
}

fn same(words: &[&str], stock: &Observed, package: &str, owners: &mut Owners) -> Result<()> {
    let observed = observe(words)?;
    owners.over(&observed, package)?;
    if observed.printed != stock.printed {
        bail!(
            "printed {:?}, at the start {:?}",
            observed.printed,
            stock.printed
        );
    }
    Ok(())
}

/// The owners of files according to dpkg, each queried once: valid for one stop, where packages do
/// not change.
#[derive(Default)]
struct Owners(BTreeMap<PathBuf, String>);

impl Owners {
    /// Whether a program got the library of this package and no other.
    fn over(&mut self, observed: &Observed, package: &str) -> Result<()> {
        if observed.libraries.is_empty() {
            bail!("no libibverbs.so.1 was loaded");
        }
        for library in &observed.libraries {
            let owner = self.of(library)?;
            if owner.split(':').next() != Some(package) {
                bail!("loaded {}: {owner}", library.display());
            }
        }
        Ok(())
    }

    fn of(&mut self, file: &Path) -> Result<&str> {
        Ok(match self.0.entry(file.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(must(Command::new("dpkg").arg("--search").arg(file))?),
        })
    }
}

/// Whether all dependencies are satisfied and no package is half installed.
fn sound() -> Result<()> {
    must(Command::new("apt-get").arg("check"))?;
    let audit = must(Command::new("dpkg").arg("--audit"))?;
    if !audit.is_empty() {
        bail!("dpkg --audit: {audit}");
    }
    Ok(())
}

/// Whether a package's files are unchanged. Documents may have been left out: minimal images of
/// Debian configure dpkg so.
fn verify(package: &str) -> Result<()> {
    let text = must(Command::new("dpkg").args(["--verify", package]))?;
    let wrong = text.lines().find(|line| !line.contains(" /usr/share/"));
    wrong.map_or(Ok(()), |line| bail!("dpkg --verify: {line}"))
}

/// Installs by name, from apt's cache of downloaded packages.
fn apt_install(packages: &[&str]) -> Result<()> {
    apt(&["--no-download"], packages)
}

/// Installs package files. `--no-download` would stop apt from taking them.
fn apt_install_files(files: &[PathBuf]) -> Result<()> {
    apt(&[], files)
}

fn apt(options: &[&str], packages: &[impl AsRef<OsStr>]) -> Result<()> {
    let mut apt = Command::new("apt-get");
    apt.args(["install", "-y", "--no-install-recommends"])
        // Without a terminal between apt and dpkg there are no progress bars.
        .args(["-o", "Dpkg::Use-Pty=0"])
        .args(options)
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive");
    println!("{}", must(&mut apt)?);
    Ok(())
}

/// Puts Debian's packages into apt's cache of downloaded packages. Images of containers have apt
/// clear that cache after each installation.
fn supply(debians: &Path) -> Result<()> {
    let archives = Path::new("/var/cache/apt/archives");
    fs::create_dir_all(archives)?;
    for entry in fs::read_dir(debians).with_context(|| debians.display().to_string())? {
        let entry = entry?;
        fs::copy(entry.path(), archives.join(entry.file_name()))?;
    }
    Ok(())
}

/// rdma-core's version here, without the revision of the distribution.
fn upstream() -> Result<String> {
    let version = installed_version(RDMA_CORE)?;
    let (upstream, _) = version.rsplit_once('-').context("a version of Debian")?;
    Ok(upstream.to_owned())
}

/// Compiles a program as its makefile would, against a library that pkg-config knows.
fn compile(source: &str, library: &str) -> Result<()> {
    fs::write(Path::new(SCRATCH).join("program.c"), source)?;
    let version = must(Command::new("pkg-config").args(["--modversion", library]))?;
    if !version.trim_end().ends_with(&format!(".{}", upstream()?)) {
        bail!("pkg-config says {version}");
    }
    let flags = must(Command::new("pkg-config").args(["--cflags", "--libs", library]))?;
    must(
        Command::new("cc")
            .args(["-Wall", "-Werror", "-o", "program", "program.c"])
            .args(flags.split_whitespace())
            .current_dir(SCRATCH),
    )?;
    Ok(())
}

/// Compiles the user's program, and runs it over the library of a package.
fn compiled_runs(package: &str) -> Result<()> {
    compile(SOURCE, "libibverbs")?;
    let observed = observe(&[&format!("{SCRATCH}/program")])?;
    Owners::default().over(&observed, package)?;
    if !observed.printed.contains("\nactive, ") {
        bail!("printed {:?}", observed.printed);
    }
    Ok(())
}

/// A package with that program would run over Debian's library as well.
fn dependencies() -> Result<()> {
    let text = shlibdeps()?;
    if !text.contains("libibverbs1 (>= 1.1.6)") || text.contains(OURS[0]) {
        bail!("{text}");
    }
    Ok(())
}

/// The dependencies of a package with the program.
fn shlibdeps() -> Result<String> {
    let control = "Source: program\n\nPackage: program\nArchitecture: any\n";
    fs::write(Path::new(SCRATCH).join("debian/control"), control)?;
    must(
        Command::new("dpkg-shlibdeps")
            .args(["-O", "program"])
            .current_dir(SCRATCH),
    )
}

/// All providers, and the libraries that link with libibverbs.
fn users() -> Result<Vec<PathBuf>> {
    let libraries = Path::new(LIBRARIES);
    let mut files = vec![libraries.join("librdmacm.so.1")];
    for entry in fs::read_dir(libraries.join("libibverbs")).context("the providers")? {
        files.push(entry?.path());
    }
    Ok(files)
}
