#![forbid(unsafe_code)]
//! What lies around a provider and speaks of its release.

use super::{imports, name_in, release_in};
use kit::generation::LAYOUTS;
use parking_lot::Mutex;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Something that speaks of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The release.
    pub release: u16,
    /// What speaks of it.
    pub from: String,
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Files of the provider's own name.
    pub named: Vec<Said>,
    /// Its package.
    pub packaged: Option<Said>,
    /// Other libraries of rdma-core that were installed beside it.
    pub neighbours: Vec<Said>,
    /// The release that brought what it imports, and the import.
    pub at_least: Option<(u16, String)>,
}

/// Libraries that carry the release of rdma-core in their names. The library itself is not among
/// them: it may have been exchanged.
const NEIGHBOURS: [&str; 8] = [
    "mlx5", "mlx4", "efa", "mana", "hns", "ionic", "rdmacm", "ibumad",
];

impl Evidence {
    /// Looks around a provider of that node. What cannot be read says nothing.
    pub fn gather(node: u16, file: &Path) -> Self {
        Self::look(node, file, near_last)
    }

    fn look(node: u16, file: &Path, near: fn(&Path) -> Vec<PathBuf>) -> Self {
        let real = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let mut evidence = Self {
            at_least: imports::least(node, &real),
            ..Self::default()
        };
        if let Some(release) = real.file_name().and_then(release_in) {
            evidence.named.push(Said {
                release,
                from: real.display().to_string(),
            });
            return evidence;
        }
        let near = near(&real);
        if let Some(name) = name_in(file) {
            evidence.named = of_name(&near, name);
        }
        if !evidence.named.is_empty() {
            return evidence;
        }
        evidence.packaged = PACKAGES.of(&real);
        evidence.neighbours = NEIGHBOURS
            .into_iter()
            .flat_map(|name| of_name(&near, name))
            .collect();
        evidence
    }
}

/// As [`near`], remembered for the folder looked at last: most providers lie in one, beside
/// thousands of other files.
fn near_last(file: &Path) -> Vec<PathBuf> {
    static LAST: Mutex<Option<(PathBuf, Vec<PathBuf>)>> = Mutex::new(None);

    // Not waited for: its owner may be a thread that a forked child does not have.
    let mut last = LAST.try_lock();
    let known = last.as_deref().and_then(Option::as_ref);
    if let Some((_, files)) = known.filter(|(folder, _)| file.parent() == Some(folder)) {
        return files.clone();
    }
    let found = near(file);
    if let (Some(last), Some(folder)) = (&mut last, file.parent()) {
        **last = Some((folder.to_owned(), found.clone()));
    }
    found
}

/// Libraries in the provider's folder and in the one above, where `libibverbs` lies in it.
fn near(file: &Path) -> Vec<PathBuf> {
    let Some(folder) = file.parent() else {
        return Vec::new();
    };
    let above = folder.parent().filter(|_| folder.ends_with("libibverbs"));
    let has_release = |entry: &fs::DirEntry| release_in(&entry.file_name()).is_some();
    let mut found: Vec<PathBuf> = [Some(folder), above]
        .into_iter()
        .flatten()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flat_map(|entries| entries.map_while(Result::ok).filter(has_release))
        .map(|entry| entry.path())
        .collect();
    found.sort_unstable();
    found
}

fn of_name(files: &[PathBuf], name: &str) -> Vec<Said> {
    let file_name = |file: &Path| file.file_name().map(OsStr::to_owned);
    files
        .iter()
        .filter(|file| name_in(file) == Some(name))
        .filter_map(|file| {
            Some(Said {
                release: release_in(&file_name(file)?)?,
                from: file.display().to_string(),
            })
        })
        .collect()
}

/// Where dpkg keeps which files are of which package.
static PACKAGES: LazyLock<Packages> = LazyLock::new(|| Packages::at("/var/lib/dpkg"));

/// The package that Debian's providers are of.
const PROVIDERS: &str = "ibverbs-providers";

/// dpkg's database. It is large, and providers mostly are of one package: so that is looked at
/// first, and remembered.
struct Packages {
    database: PathBuf,
    last: Mutex<Option<Package>>,
}

/// A package with a version of rdma-core's.
#[derive(Clone)]
struct Package {
    /// Its list of files.
    files: Vec<u8>,
    said: Said,
}

impl Packages {
    fn at(database: impl Into<PathBuf>) -> Self {
        Self {
            database: database.into(),
            last: Mutex::new(None),
        }
    }

    /// The version of the package that has the file, where dpkg knows it and it is one of
    /// rdma-core's.
    fn of(&self, file: &Path) -> Option<Said> {
        // Not waited for: its owner may be a thread that a forked child does not have.
        let mut last = self.last.try_lock();
        let known = last.as_deref().and_then(Option::as_ref);
        if let Some(package) = known.filter(|package| has(&package.files, file)) {
            return Some(package.said.clone());
        }
        let (list, files) = self.list_with(file)?;
        let said = self.version(&list)?;
        if let Some(last) = &mut last {
            **last = Some(Package {
                files,
                said: said.clone(),
            });
        }
        Some(said)
    }

    /// The list that has the file, and what is in it.
    fn list_with(&self, file: &Path) -> Option<(PathBuf, Vec<u8>)> {
        let info = self.database.join("info");
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let likely = [
            info.join(format!("{PROVIDERS}:{arch}.list")),
            info.join(format!("{PROVIDERS}.list")),
        ];
        // There are a thousand on a desktop.
        let all = std::iter::once_with(|| fs::read_dir(&info).into_iter().flatten())
            .flatten()
            .map_while(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| path.extension() == Some(OsStr::new("list")));
        likely.into_iter().chain(all).find_map(|list| {
            let files = fs::read(&list).ok()?;
            has(&files, file).then_some((list, files))
        })
    }

    fn version(&self, list: &Path) -> Option<Said> {
        let package = list.file_stem()?.to_str()?;
        let status = fs::read_to_string(self.database.join("status")).ok()?;
        let (name, _) = package.split_once(':').unwrap_or((package, ""));
        let begin = format!("Package: {name}");
        let fields = status
            .split("\n\n")
            .find(|fields| fields.lines().next() == Some(&begin))?;
        let version = fields
            .lines()
            .find_map(|line| line.strip_prefix("Version: "))?;
        let release = version.split(['.', '-']).next()?.parse().ok()?;
        LAYOUTS
            .iter()
            .any(|layout| layout.has(release))
            .then(|| Said {
                release,
                from: format!("package {name} {version}"),
            })
    }
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
    fn files_of_its_own_name_come_first() {
        let folder = tempfile::tempdir().unwrap();
        let plugins = folder.path().join("libibverbs");
        fs::create_dir(&plugins).unwrap();
        let plugin = plugins.join("libx-rdmav34.so");
        touch(&plugin);
        touch(&folder.path().join("libmlx5.so.1.24.44.0"));
        touch(&folder.path().join("libmlx5.so.1"));
        touch(&folder.path().join("libother.so.1.2.50.0"));
        touch(&folder.path().join("libc.so.6"));
        let releases = |all: &[Said]| all.iter().map(|said| said.release).collect::<Vec<_>>();
        let evidence = Evidence::look(34, &plugin, near);
        assert_eq!(releases(&evidence.neighbours), [44]);
        assert!(evidence.named.is_empty());
        assert_eq!((evidence.packaged, evidence.at_least), (None, None));

        touch(&folder.path().join("libx.so.1.0.50.0"));
        let evidence = Evidence::look(34, &plugin, near);
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
        let evidence = Evidence::look(34, &plugin, near);
        assert_eq!(evidence.named.len(), 1);
        assert_eq!(evidence.named[0].release, 45);
    }

    #[test]
    fn a_package_tells_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let info = folder.path().join("info");
        fs::create_dir(&info).unwrap();
        fs::write(info.join("a.list"), "/.\n/usr/lib/libx.so\n").unwrap();
        fs::write(info.join("b:amd64.list"), "/.\n/usr/lib/libx-rdmav34.so\n").unwrap();
        let status = "Package: a\nVersion: 1\n\nPackage: b\nStatus: ok\nVersion: 50.0-2\n";
        fs::write(folder.path().join("status"), status).unwrap();
        let packages = Packages::at(folder.path());
        let said = |file: &str| packages.of(Path::new(file));
        let of_b = said("/usr/lib/libx-rdmav34.so").unwrap();
        assert_eq!((of_b.release, of_b.from.as_str()), (50, "package b 50.0-2"));
        assert_eq!(said("/usr/lib/libx.so"), None);
        assert_eq!(said("/usr/lib/liby.so"), None);
    }
}
