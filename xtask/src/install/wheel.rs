//! `cargo xtask wheel`: a wheel for Python's package index with the built libraries and programs.
//!
//! The files lie in the package's own folder, under their SONAMEs: a wheel has no links, and
//! auditwheel's other names would keep plugins and programs from finding them. The platform in the
//! file's name follows from the symbols that the files need of the C library.
#![forbid(unsafe_code)]

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::{
    Built, Item, LIBRARIES, LICENCES, PROGRAMS, layout::Names, read, read_text, tree::Tree, write,
};
use crate::{
    dirs::{Dirs, PRELOAD},
    host,
};

/// The package, and its folder.
const PACKAGE: &str = "ferroverbs";
/// The sources of the package, and the program that packs.
const SOURCES: &str = "python";
const PACK: &str = "python/pack.py";
/// The package's files of Python.
const MODULES: &[&str] = &["__init__.py", "__main__.py"];

/// Makes the wheel in a directory; returns its path.
///
/// # Errors
/// Something is not built; of strip(1), readelf(1), Python and the file system.
pub fn make(built: &Built, into: &Path) -> Result<PathBuf> {
    let dirs = &built.dirs;
    let folder = dirs.fresh("wheel-files")?;
    let tree = Tree::at(&folder)?;
    let files = binaries(dirs)?;
    write(&tree, &files, Some(&built.strip))?;
    let tag = tag(&folder, &files, &built.architecture)?;
    write(&tree, &texts(dirs, &tag)?, None)?;
    fs::create_dir_all(into).with_context(|| format!("create {}", into.display()))?;
    let wheel = into.join(format!("{PACKAGE}-{}-{tag}.whl", Names::RELEASE));
    let mut pack = Command::new("python3");
    pack.arg(dirs.root.join(PACK)).arg(&folder).arg(&wheel);
    host::must(&mut pack)?;
    Ok(wheel)
}

fn binaries(dirs: &Dirs) -> Result<Vec<Item>> {
    let place = |name: &str| Path::new("/").join(PACKAGE).join(name);
    let mut items = Vec::new();
    for source in LIBRARIES {
        items.push(Item::Library {
            path: place("lib").join(source.library.soname),
            built: dirs.library_built(source.library.linked)?,
        });
    }
    items.push(Item::Library {
        path: place("lib/rsocket").join(PRELOAD),
        built: dirs.library_built(PRELOAD)?,
    });
    for program in PROGRAMS {
        items.push(Item::Program {
            path: place("bin").join(program),
            built: dirs.program_built(program)?,
        });
    }
    Ok(items)
}

/// The files that are not compiled, and those that describe the package.
fn texts(dirs: &Dirs, tag: &str) -> Result<Vec<Item>> {
    let sources = dirs.root.join(SOURCES);
    let about = PathBuf::from(format!("/{PACKAGE}-{}.dist-info", Names::RELEASE));
    let metadata = read_text(&sources.join("METADATA.in"))?
        .replace("@version@", Names::RELEASE)
        .replace("@repository@", env!("CARGO_PKG_REPOSITORY"));
    let mut items = Vec::new();
    let mut add = |path: PathBuf, bytes: Vec<u8>| items.push(Item::File { path, bytes });
    for module in MODULES {
        let path = Path::new("/").join(PACKAGE).join(module);
        add(path, read(&sources.join(PACKAGE).join(module))?);
    }
    let readme = read_text(&sources.join("README.md"))?;
    add(about.join("METADATA"), (metadata + &readme).into_bytes());
    add(about.join("WHEEL"), kind(tag).into_bytes());
    add(about.join("entry_points.txt"), commands().into_bytes());
    for licence in LICENCES {
        let path = about.join("licenses").join(licence);
        add(path, read(&dirs.root.join(licence))?);
    }
    Ok(items)
}

fn kind(tag: &str) -> String {
    let generator = format!("xtask {}", Names::RELEASE);
    format!("Wheel-Version: 1.0\nGenerator: {generator}\nRoot-Is-Purelib: false\nTag: {tag}\n")
}

/// The commands that pip makes: the package's own and one for each program.
fn commands() -> String {
    let mut text = format!("[console_scripts]\n{PACKAGE} = {PACKAGE}.__main__:main\n");
    for program in PROGRAMS {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{program} = {PACKAGE}.__main__:program");
    }
    text
}

/// The tag of a wheel with these files: any Python 3, and the C library that they need.
fn tag(folder: &Path, files: &[Item], architecture: &str) -> Result<String> {
    let mut needed = (2, 17);
    for item in files {
        let (Item::Library { path, .. } | Item::Program { path, .. }) = item else {
            continue;
        };
        let file = folder.join(path.strip_prefix("/")?);
        let mut readelf = Command::new("readelf");
        let printed = host::must(readelf.args(["--wide", "--version-info"]).arg(&file))?;
        let highest = highest(&printed);
        let highest = highest.with_context(|| format!("{} needs no C library", file.display()))?;
        needed = needed.max(highest);
    }
    let (major, minor) = needed;
    // Rust's names are those of the tags.
    if !matches!(architecture, "x86_64" | "aarch64") {
        bail!("no wheel is made for {architecture}");
    }
    Ok(format!("py3-none-manylinux_{major}_{minor}_{architecture}"))
}

/// The latest release of the C library that versions of symbols name.
fn highest(versions: &str) -> Option<(u32, u32)> {
    let words = versions.split_whitespace();
    let releases = words.filter_map(|word| {
        let (major, rest) = word.strip_prefix("GLIBC_")?.split_once('.')?;
        let minor = rest.split('.').next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    releases.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_release_is_found_by_number() {
        let printed = "0x10: Name: GLIBC_2.2.5 Flags: none\nName: GLIBC_2.34\nName: GLIBC_2.9\n\
                       Name: GCC_3.0\nName: GLIBC_PRIVATE\n";
        assert_eq!(highest(printed), Some((2, 34)));
        assert_eq!(highest("Name: GCC_4.2.0"), None);
    }

    #[test]
    fn all_programs_are_commands() {
        let text = commands();
        assert!(text.contains("\nferroverbs = ferroverbs.__main__:main\n"));
        assert!(text.contains("\nuroce-stat = ferroverbs.__main__:program\n"));
        assert_eq!(text.lines().count(), PROGRAMS.len() + 2);
    }

    #[test]
    fn the_template_of_the_metadata_is_filled() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let template = read_text(&root.join(SOURCES).join("METADATA.in")).unwrap();
        assert_eq!(template.matches('@').count(), 4);
        for licence in LICENCES {
            assert!(template.contains(&format!("License-File: {licence}\n")));
        }
        assert!(template.ends_with("\n\n"));
    }
}
