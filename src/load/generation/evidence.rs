#![forbid(unsafe_code)]
//! What lies around a provider and speaks of its release.

use super::{imports, name_in, release_in};
use kit::generation::LAYOUTS;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

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
        evidence.packaged = packaged(&real, Path::new(PACKAGES));
        evidence.neighbours = NEIGHBOURS
            .into_iter()
            .flat_map(|name| of_name(&near, name))
            .collect();
        evidence
    }
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
const PACKAGES: &str = "/var/lib/dpkg";

/// The version of the package that has the file, where dpkg knows it and it is one of
/// rdma-core's.
fn packaged(file: &Path, database: &Path) -> Option<Said> {
    let package = owner(file, &database.join("info"))?;
    let status = fs::read_to_string(database.join("status")).ok()?;
    let (name, _) = package.split_once(':').unwrap_or((&package, ""));
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

/// The package whose list of files has this one.
fn owner(file: &Path, lists: &Path) -> Option<String> {
    let line = [b"\n", file.as_os_str().as_encoded_bytes(), b"\n"].concat();
    let has = |list: &PathBuf| {
        fs::read(list).is_ok_and(|text| {
            text.windows(line.len())
                .any(|window| window == line.as_slice())
        })
    };
    let is_list = |path: &PathBuf| path.extension() == Some(OsStr::new("list"));
    let mut all: Vec<_> = fs::read_dir(lists)
        .ok()?
        .map_while(Result::ok)
        .map(|entry| entry.path())
        .filter(is_list)
        .collect();
    // There are a thousand on a desktop, and a provider is mostly of the first.
    all.sort_by_key(|path| !is_likely(path));
    let found = all.into_iter().find(has)?;
    found.file_stem().map(OsString::from)?.into_string().ok()
}

/// Whether the package is one of those that providers come in: `ibverbs-providers`, `rdma-core`.
fn is_likely(list: &Path) -> bool {
    let name = list.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("ibverbs-") || name.contains("rdma")
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
        let evidence = Evidence::gather(34, &plugin);
        assert_eq!(releases(&evidence.neighbours), [44]);
        assert!(evidence.named.is_empty());
        assert_eq!((evidence.packaged, evidence.at_least), (None, None));

        touch(&folder.path().join("libx.so.1.0.50.0"));
        let evidence = Evidence::gather(34, &plugin);
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
        let evidence = Evidence::gather(34, &plugin);
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
        let said = |file: &str| packaged(Path::new(file), folder.path());
        let of_b = said("/usr/lib/libx-rdmav34.so").unwrap();
        assert_eq!((of_b.release, of_b.from.as_str()), (50, "package b 50.0-2"));
        assert_eq!(said("/usr/lib/libx.so"), None);
        assert_eq!(said("/usr/lib/liby.so"), None);
    }
}
