#![forbid(unsafe_code)]
//! Evidence of a provider's release around its file.

use super::imports;
use super::names::{name_in, release_in};
use crate::load::debian;
use kit::generation::LAYOUTS;
use kit::sync::Mutex;
use kit::sys::first::First;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Something that speaks of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The release.
    pub release: u16,
    /// The source of the statement.
    pub from: String,
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Files of the provider's own name.
    pub named: Vec<Statement>,
    /// Its package.
    pub packaged: Option<Statement>,
    /// Other libraries of rdma-core that were installed beside it.
    pub neighbours: Vec<Statement>,
    /// The release that introduced its imports, and the import.
    pub at_least: Option<(u16, String)>,
}

/// Libraries that carry the release of rdma-core in their names. The library itself is not among
/// them: it may have been exchanged.
const NEIGHBOURS: [&str; 8] = [
    "mlx5", "mlx4", "efa", "mana", "hns", "ionic", "rdmacm", "ibumad",
];

impl Evidence {
    /// Collects evidence about a provider of that node, no more than needed. Unreadable files are
    /// no evidence.
    pub fn gather(node: u16, file: &Path) -> Self {
        Self::look(node, file, Folder::last)
    }

    fn look(node: u16, file: &Path, around: fn(&Path) -> Arc<Folder>) -> Self {
        let folder = around(file.parent().unwrap_or(Path::new(".")));
        let real = match fs::read_link(file) {
            Ok(_) => fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()),
            Err(_) => folder.real.join(file.file_name().unwrap_or_default()),
        };
        let mut evidence = Self {
            at_least: imports::least(node, &real),
            ..Self::default()
        };
        if let Some(statement) = library(&real) {
            evidence.named.push(statement);
            return evidence;
        }
        let folder = match real.parent() {
            Some(parent) if parent != folder.real => around(parent),
            _ => folder,
        };
        let name = name_in(file);
        evidence.named = name.map_or_else(Vec::new, |name| folder.linked(name));
        if !evidence.named.is_empty() {
            return evidence;
        }
        evidence.packaged = PACKAGES.of(&real);
        if evidence.packaged.is_none() {
            let libraries = folder.libraries();
            evidence.named = of_names(libraries, name.as_slice());
            evidence.neighbours = of_names(libraries, &NEIGHBOURS);
        }
        evidence
    }
}

/// A folder of providers.
struct Folder {
    /// As it was asked for.
    asked: PathBuf,
    /// With no link on the way.
    real: PathBuf,
    /// [`Folder::libraries`], once they were wanted: there may be thousands.
    libraries: First<Vec<PathBuf>>,
}

impl Folder {
    /// As [`Folder::at`], remembered for the one that was asked for last: most providers lie in
    /// one.
    fn last(folder: &Path) -> Arc<Self> {
        static LAST: Mutex<Option<Arc<Folder>>> = Mutex::new(None);

        // Not waited for: its owner may be a thread that a forked child does not have.
        let mut last = LAST.try_lock();
        let known = last.as_deref().and_then(Option::as_ref);
        if let Some(known) = known.filter(|known| known.asked == folder || known.real == folder) {
            return Arc::clone(known);
        }
        let found = Self::at(folder);
        if let Some(last) = &mut last {
            **last = Some(Arc::clone(&found));
        }
        found
    }

    fn at(folder: &Path) -> Arc<Self> {
        Arc::new(Self {
            asked: folder.to_owned(),
            real: fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()),
            libraries: First::new(),
        })
    }

    /// The folder, and the one above where the folder is `libibverbs`.
    fn places(&self) -> impl Iterator<Item = &Path> {
        let above = self.real.parent();
        let above = above.filter(|_| self.real.ends_with("libibverbs"));
        [Some(&*self.real), above].into_iter().flatten()
    }

    /// The library that programs linked with that name get.
    fn linked(&self, name: &str) -> Vec<Statement> {
        let link = format!("lib{name}.so.1");
        self.places()
            .filter_map(|place| Some(place.join(fs::read_link(place.join(&link)).ok()?)))
            .filter_map(|file| library(&file))
            .collect()
    }

    /// The libraries there with a release in their names.
    fn libraries(&self) -> &[PathBuf] {
        self.libraries.get_or_make(|| {
            let mut found: Vec<_> = self
                .places()
                .filter_map(|place| fs::read_dir(place).ok())
                .flat_map(|entries| entries.map_while(Result::ok))
                .filter(|entry| release_in(&entry.file_name()).is_some())
                .map(|entry| entry.path())
                .collect();
            found.sort_unstable();
            found
        })
    }
}

/// The release in the name of a library.
fn library(file: &Path) -> Option<Statement> {
    Some(Statement {
        release: file.file_name().and_then(release_in)?,
        from: file.display().to_string(),
    })
}

fn of_names(libraries: &[PathBuf], names: &[&str]) -> Vec<Statement> {
    libraries
        .iter()
        .filter(|file| name_in(file).is_some_and(|name| names.contains(&name)))
        .filter_map(|file| library(file))
        .collect()
}

/// Where dpkg keeps which files are of which package.
static PACKAGES: Packages = Packages::at(Cow::Borrowed("/var/lib/dpkg"));

/// The package that Debian's providers are of.
const PROVIDERS: &str = "ibverbs-providers";

/// dpkg's database. It is large, and providers mostly are of one package: so that is looked at
/// first, and remembered, and of the others only those are looked at that may have any.
struct Packages {
    database: Cow<'static, str>,
    last: Mutex<Option<Package>>,
}

/// A package with a version of rdma-core's.
#[derive(Clone)]
struct Package {
    /// Its list of files.
    files: Vec<u8>,
    statement: Statement,
}

impl Packages {
    const fn at(database: Cow<'static, str>) -> Self {
        Self {
            database,
            last: Mutex::new(None),
        }
    }

    /// The version of the package that has the file, where dpkg knows it and it is one of
    /// rdma-core's.
    fn of(&self, file: &Path) -> Option<Statement> {
        // Not waited for: its owner may be a thread that a forked child does not have.
        let mut last = self.last.try_lock();
        let known = last.as_deref().and_then(Option::as_ref);
        if let Some(package) = known.filter(|package| has(&package.files, file)) {
            return Some(package.statement.clone());
        }
        let (list, files) = self.list_with(file)?;
        let statement = released(&list, &files).or_else(|| self.version(&list))?;
        if let Some(last) = &mut last {
            **last = Some(Package {
                files,
                statement: statement.clone(),
            });
        }
        Some(statement)
    }

    /// The package list that contains the file, and its contents.
    fn list_with(&self, file: &Path) -> Option<(PathBuf, Vec<u8>)> {
        let info = Path::new(&*self.database).join("info");
        let arch = debian::architecture(std::env::consts::ARCH);
        let likely = [
            info.join(format!("{PROVIDERS}:{arch}.list")),
            info.join(format!("{PROVIDERS}.list")),
        ];
        // Of a thousand on a desktop.
        let others = std::iter::once_with(|| fs::read_dir(&info).into_iter().flatten())
            .flatten()
            .map_while(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| path.extension() == Some(OsStr::new("list")) && may_have_provider(path));
        likely.into_iter().chain(others).find_map(|list| {
            let files = fs::read(&list).ok()?;
            has(&files, file).then_some((list, files))
        })
    }

    fn version(&self, list: &Path) -> Option<Statement> {
        let package = list.file_stem()?.to_str()?;
        let status = fs::read_to_string(Path::new(&*self.database).join("status")).ok()?;
        let (name, _) = package.split_once(':').unwrap_or((package, ""));
        let begin = format!("Package: {name}");
        let fields = status
            .split("\n\n")
            .find(|fields| fields.lines().next() == Some(&begin))?;
        let version = fields
            .lines()
            .find_map(|line| line.strip_prefix("Version: "))?;
        let release = version.split(['.', '-']).next()?.parse().ok()?;
        has_layout(release).then(|| Statement {
            release,
            from: format!("package {name} {version}"),
        })
    }
}

/// The release in the name of a library of the same package: reading a list is less work than
/// reading of all packages, for every program that starts.
fn released(list: &Path, files: &[u8]) -> Option<Statement> {
    let package = list.file_stem()?.to_str()?;
    files.split(|byte| *byte == b'\n').find_map(|line| {
        let file = Path::new(OsStr::from_bytes(line));
        let release = file.file_name().and_then(release_in)?;
        name_in(file).filter(|name| NEIGHBOURS.contains(name))?;
        let from = format!("package {package}, which has {}", file.display());
        has_layout(release).then_some(Statement { release, from })
    })
}

/// Whether there was such a release of rdma-core.
fn has_layout(release: u16) -> bool {
    LAYOUTS.iter().any(|layout| layout.has(release))
}

/// Whether a package of that list is called as packages with providers are: all the others stay
/// unread, for every program that starts reads these.
fn may_have_provider(list: &Path) -> bool {
    const WORDS: [&str; 7] = ["verbs", "rdma", "infiniband", "ofed", "mlx", "mlnx", "doca"];
    let name = list.file_stem().map(OsStr::to_string_lossy);
    name.is_some_and(|name| WORDS.iter().any(|word| name.contains(word)))
}

/// Whether a list of files, a line each, has this one.
fn has(files: &[u8], file: &Path) -> bool {
    let file = file.as_os_str().as_encoded_bytes();
    files.split(|byte| *byte == b'\n').any(|line| line == file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(file: &Path) {
        fs::write(file, "").unwrap();
    }

    #[test]
    fn files_of_the_same_name_come_first() {
        let folder = tempfile::tempdir().unwrap();
        let plugins = folder.path().join("libibverbs");
        fs::create_dir(&plugins).unwrap();
        let plugin = plugins.join("libx-rdmav34.so");
        touch(&plugin);
        touch(&folder.path().join("libmlx5.so.1.24.44.0"));
        touch(&folder.path().join("libmlx5.so.1"));
        touch(&folder.path().join("libother.so.1.2.50.0"));
        touch(&folder.path().join("libc.so.6"));
        let releases = |all: &[Statement]| {
            all.iter()
                .map(|statement| statement.release)
                .collect::<Vec<_>>()
        };
        let evidence = Evidence::look(34, &plugin, Folder::at);
        assert_eq!(releases(&evidence.neighbours), [44]);
        assert!(evidence.named.is_empty());
        assert_eq!((evidence.packaged, evidence.at_least), (None, None));

        // With the link that programs go by, and without.
        touch(&folder.path().join("libx.so.1.0.50.0"));
        let unlinked = Evidence::look(34, &plugin, Folder::at);
        assert_eq!(releases(&unlinked.named), [50]);
        let link = folder.path().join("libx.so.1");
        std::os::unix::fs::symlink("libx.so.1.0.50.0", link).unwrap();
        let evidence = Evidence::look(34, &plugin, Folder::at);
        assert_eq!(releases(&evidence.named), [50]);
        assert!(evidence.neighbours.is_empty());
    }

    #[test]
    fn a_link_leads_to_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("libx.so.1.24.45.0");
        touch(&real);
        let plugin = folder.path().join("libx-rdmav34.so");
        std::os::unix::fs::symlink(&real, &plugin).unwrap();
        let evidence = Evidence::look(34, &plugin, Folder::at);
        assert_eq!(evidence.named.len(), 1);
        assert_eq!(evidence.named[0].release, 45);
    }

    #[test]
    fn a_package_has_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let info = folder.path().join("info");
        fs::create_dir(&info).unwrap();
        fs::write(info.join("rdma-a.list"), "/.\n/usr/lib/libx.so\n").unwrap();
        fs::write(
            info.join("libb-verbs:amd64.list"),
            "/.\n/usr/lib/libx-rdmav34.so\n",
        )
        .unwrap();
        let status =
            "Package: rdma-a\nVersion: 1\n\nPackage: libb-verbs\nStatus: ok\nVersion: 50.0-2\n";
        fs::write(folder.path().join("status"), status).unwrap();
        let packages = Packages::at(Cow::Owned(folder.path().display().to_string()));
        let statement = |file: &str| packages.of(Path::new(file));
        let of_b = statement("/usr/lib/libx-rdmav34.so").unwrap();
        assert_eq!(
            (of_b.release, of_b.from.as_str()),
            (50, "package libb-verbs 50.0-2")
        );
        assert_eq!(statement("/usr/lib/libx.so"), None);
        let files =
            "/.\n/usr/lib/libc.so.6\n/usr/lib/libmlx5.so.1.24.53.0\n/usr/lib/libz-rdmav34.so\n";
        fs::write(info.join("mlnx-c.list"), files).unwrap();
        let of_c = statement("/usr/lib/libz-rdmav34.so").unwrap();
        assert_eq!(of_c.release, 53);
        assert_eq!(
            of_c.from,
            "package mlnx-c, which has /usr/lib/libmlx5.so.1.24.53.0"
        );
        assert_eq!(statement("/usr/lib/liby.so"), None);
        fs::write(
            info.join("game.list"),
            "/usr/lib/liby.so\n/usr/lib/libefa.so.1.2.50.0\n",
        )
        .unwrap();
        assert_eq!(statement("/usr/lib/liby.so"), None);
    }
}
