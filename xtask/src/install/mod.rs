//! `cargo xtask install`: installs the built libraries, their headers and pkg-config files, the
//! programs and the manual pages. Nothing is built or fetched here. `--target` installs the build
//! for another target of rustc.
//!
//! `layout` decides names and places, `tree` writes. A library's file is
//! `libibverbs.so.1.N.RELEASE`: N is the highest node IBVERBS_1.N of `libibverbs.map`, RELEASE the
//! version of this project. pkg-config reports `1.N.44.0` instead, or the release of
//! `--rdma-core`, in the form of rdma-core's version, because programs compare it with the version
//! that they need. The private headers (`driver.h` and its includes) are not installed, as in
//! rdma-core.
//!
//! All sources are read before the first file is written. Each file is written beside its place and
//! renamed into it, the library first: a running program keeps the library that it has mapped, and
//! no file is ever half written. `tree` follows links below the destination only if they stay below
//! it.
#![forbid(unsafe_code)]

mod layout;
mod strip;
mod tarball;
mod tree;
#[cfg(test)]
mod variables;
mod wheel;

use std::{
    env::consts::ARCH,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};

use crate::{
    dirs::{Dirs, PRELOAD},
    options::Dist,
};
pub use layout::Options;
use layout::{Layout, Library, Names, RDMACM, VERBS};
use strip::{DEBUG_INFORMATION, Strip, UNNEEDED};
pub use tarball::{make as make_tarball, name as tarball_name};
use tree::Tree;
pub use wheel::make as make_wheel;

/// Headers that are not installed, as in rdma-core: those for building providers.
const PRIVATE_HEADERS: &[&str] = &[
    "infiniband/driver",
    "infiniband/driver.h",
    "infiniband/kern-abi.h",
    "infiniband/cmd_ioctl.h",
    "infiniband/cmd_write.h",
    "infiniband/marshall.h",
];

const README: &str = "README.md";
const LICENCES: &[&str] = &["LICENSE-APACHE", "LICENSE-MIT"];

/// The programs of `tools/`; each has a manual page.
pub const PROGRAMS: &[&str] = &[
    "ibv_asyncwatch",
    "ibv_devices",
    "ibv_devinfo",
    "ibv_doctor",
    "ibv_rc_pingpong",
    "ibv_srq_pingpong",
    "ibv_trace",
    "ibv_uc_pingpong",
    "ibv_ud_pingpong",
    "ibv_xsrq_pingpong",
    "uroce-stat",
];

/// A library with the files for compiling programs.
struct Source {
    library: Library,
    /// The version script.
    map: &'static str,
    /// The folder of its headers.
    headers: &'static str,
}

const LIBRARIES: &[Source] = &[
    Source {
        library: VERBS,
        map: "src/libibverbs.map",
        headers: "include",
    },
    Source {
        library: RDMACM,
        map: "rdmacm/src/librdmacm.map",
        headers: "rdmacm/include",
    },
];

impl Source {
    fn items(&self, dirs: &Dirs, layout: &Layout) -> Result<Vec<Item>> {
        let library = &self.library;
        let names = Names::new(library, &read_text(&dirs.root.join(self.map))?)?;
        let mut items = vec![Item::Library {
            path: layout.libdir.join(names.file()),
            built: dirs.library_built(library.linked)?,
        }];
        let links = [
            (library.soname, names.file()),
            (library.linked, library.soname.to_owned()),
        ];
        for (link, target) in links {
            let path = layout.libdir.join(link);
            items.push(Item::Link { path, target });
        }
        let template = format!("pkgconfig/{}.in", library.pkg_config);
        let template = read_text(&dirs.root.join(template))?;
        items.push(Item::File {
            path: layout.libdir.join("pkgconfig").join(library.pkg_config),
            bytes: layout.pkg_config(&template, &names)?.into_bytes(),
        });
        let include = dirs.root.join(self.headers);
        for header in public_headers(&include)? {
            items.push(Item::File {
                bytes: read(&include.join(&header))?,
                path: layout.includedir.join(header),
            });
        }
        Ok(items)
    }
}

/// The preloaded library, in a separate folder as in rdma-core, so that no program gets it unasked.
/// Its other names are those of rdma-core's.
fn preload(dirs: &Dirs, layout: &Layout) -> Result<Vec<Item>> {
    let folder = layout.libdir.join("rsocket");
    let mut items = vec![Item::Library {
        path: folder.join(PRELOAD),
        built: dirs.library_built(PRELOAD)?,
    }];
    items.extend([".1", ".1.0.0"].map(|version| Item::Link {
        path: folder.join(format!("{PRELOAD}{version}")),
        target: PRELOAD.to_owned(),
    }));
    Ok(items)
}

/// A file or link to be, by its path in the installed system.
enum Item {
    /// The library that cargo built.
    Library {
        path: PathBuf,
        built: PathBuf,
    },
    /// A program that cargo built.
    Program {
        path: PathBuf,
        built: PathBuf,
    },
    /// The static library that cargo built.
    Archive {
        path: PathBuf,
        built: PathBuf,
    },
    File {
        path: PathBuf,
        bytes: Vec<u8>,
    },
    Link {
        path: PathBuf,
        target: String,
    },
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let layout = Layout::new(options)?;
    let mut dirs = Dirs::find()?;
    let mut strip = Strip::here();
    if let Some(target) = &options.target {
        dirs = dirs.for_target(target)?;
        strip = Strip::of_target(target);
    }
    let mut items = gather(&dirs, &layout)?;
    if options.with_static {
        items.push(Item::Archive {
            path: layout.libdir.join(Names::STATIC),
            built: dirs.archive_built()?,
        });
    }
    let strip = options.strip.then_some(&strip);
    write(&Tree::at(&layout.destdir)?, &items, strip)?;
    println!(
        "installed {} files below {}",
        items.len(),
        layout.destdir.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// What cargo built for one architecture.
pub struct Built {
    pub dirs: Dirs,
    strip: Strip,
    /// Its name in Rust.
    architecture: String,
}

impl Built {
    /// For this machine.
    pub fn here(dirs: &Dirs) -> Self {
        Self {
            dirs: dirs.clone(),
            strip: Strip::here(),
            architecture: ARCH.to_owned(),
        }
    }

    /// For a target of rustc.
    ///
    /// # Errors
    /// As of [`Dirs::for_target`].
    pub fn of_target(dirs: &Dirs, target: &str) -> Result<Self> {
        let architecture = target.split('-').next().unwrap_or_default();
        Ok(Self {
            dirs: dirs.for_target(target)?,
            strip: Strip::of_target(target),
            architecture: architecture.to_owned(),
        })
    }
}

/// Makes a file to be given to others in a directory, by default `dist` in cargo's target
/// directory, and prints its path.
///
/// # Errors
/// Those of `make`; nothing is built for the target.
pub fn dist(options: Dist, make: fn(&Built, &Path) -> Result<PathBuf>) -> Result<ExitCode> {
    let dirs = Dirs::find()?;
    let into = options.into.unwrap_or_else(|| dirs.target.join("dist"));
    let built = match &options.target {
        Some(target) => Built::of_target(&dirs, target)?,
        None => Built::here(&dirs),
    };
    println!("{}", make(&built, &into)?.display());
    Ok(ExitCode::SUCCESS)
}

fn write(tree: &Tree, items: &[Item], strip: Option<&Strip>) -> Result<()> {
    let strip = |parts| strip.map(|strip| (strip, parts));
    for item in items {
        match item {
            Item::Library { path, built } => {
                tree.made(path, |new| copied(built, new, strip(UNNEEDED)))?;
            }
            Item::Program { path, built } => {
                tree.program(path, |new| copied(built, new, strip(UNNEEDED)))?;
            }
            Item::Archive { path, built } => {
                tree.made(path, |new| copied(built, new, strip(DEBUG_INFORMATION)))?;
            }
            Item::File { path, bytes } => tree.file(path, bytes)?,
            Item::Link { path, target } => tree.link(path, target)?,
        };
    }
    Ok(())
}

fn gather(dirs: &Dirs, layout: &Layout) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for library in LIBRARIES {
        items.extend(library.items(dirs, layout)?);
    }
    items.extend(preload(dirs, layout)?);
    for program in PROGRAMS {
        items.push(Item::Program {
            path: layout.bindir.join(program),
            built: dirs.program_built(program)?,
        });
    }
    for page in manual_pages(&dirs.root.join(MANUAL))? {
        let section = page.extension().unwrap_or_default().to_string_lossy();
        items.push(Item::File {
            path: layout.mandir.join(format!("man{section}")).join(&page),
            bytes: read(&dirs.root.join(MANUAL).join(&page))?,
        });
    }
    items.extend(functions(dirs, layout)?);
    for document in LICENCES.iter().chain([&README]) {
        items.push(Item::File {
            path: layout.docdir.join(document),
            bytes: read(&dirs.root.join(document))?,
        });
    }
    Ok(items)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("read {}", path.display()))
}

fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

/// Copies a built file, and strips these parts.
fn copied(built: &Path, new: &Path, strip: Option<(&Strip, &str)>) -> Result<()> {
    fs::copy(built, new).with_context(|| format!("copy {}", built.display()))?;
    strip.map_or(Ok(()), |(strip, parts)| strip.run(parts, new))
}

/// Where the manual pages are.
const MANUAL: &str = "docs/man";

/// Where the manual pages of functions are. A page is named after its first function.
const FUNCTIONS: &str = "docs/man/3";

/// The manual pages of functions, with a link for each further function of a page.
fn functions(dirs: &Dirs, layout: &Layout) -> Result<Vec<Item>> {
    let folder = layout.mandir.join("man3");
    let mut items = Vec::new();
    for page in manual_pages(&dirs.root.join(FUNCTIONS))? {
        let text = read_text(&dirs.root.join(FUNCTIONS).join(&page))?;
        let target = page.display().to_string();
        for function in described(&text) {
            let link = format!("{function}.3");
            if link != target {
                let path = folder.join(link);
                let target = target.clone();
                items.push(Item::Link { path, target });
            }
        }
        items.push(Item::File {
            path: folder.join(&page),
            bytes: text.into_bytes(),
        });
    }
    Ok(items)
}

/// The functions that a manual page names in its section NAME.
fn described(page: &str) -> Vec<&str> {
    let name = page.split(".SH NAME\n").nth(1).unwrap_or_default();
    let names = name.split("\\-").next().unwrap_or_default();
    let names = names.split([',', '\n', ' ']);
    names.filter(|name| !name.is_empty()).collect()
}

/// The files of a folder of manual pages: `NAME.SECTION`.
fn manual_pages(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let mut pages = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            pages.push(PathBuf::from(entry.file_name()));
        }
    }
    pages.sort();
    Ok(pages)
}

/// The headers for applications, by their paths below `include`, in order.
fn public_headers(include: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    headers_below(include, Path::new(""), &mut found)?;
    found.retain(|header| {
        let mut private = PRIVATE_HEADERS.iter();
        !private.any(|name| header.starts_with(name))
    });
    if found.is_empty() {
        bail!("no headers in {}", include.display());
    }
    found.sort();
    Ok(found)
}

fn headers_below(include: &Path, below: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let dir = include.join(below);
    let entries = fs::read_dir(&dir).with_context(|| format!("read {}", dir.display()))?;
    for entry in entries {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            headers_below(include, &path, found)?;
        } else if path.extension().is_some_and(|ending| ending == "h") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn a_manual_page_names_its_functions() {
        let page = ".TH X 3\n.SH NAME\na, b,\nc \\- do things\n.SH SYNOPSIS\n";
        assert_eq!(described(page), ["a", "b", "c"]);
    }

    #[test]
    fn files_that_are_not_installed_exist() {
        for name in PRIVATE_HEADERS {
            assert!(root().join("include").join(name).exists(), "{name}");
        }
    }

    /// An installed header whose include is not installed would break every program.
    #[test]
    fn installed_headers_include_installed_ones_only() {
        let mut headers = Vec::new();
        for source in LIBRARIES {
            let folder = root().join(source.headers);
            let found = public_headers(&folder).unwrap();
            headers.extend(
                found
                    .into_iter()
                    .map(|header| (folder.join(&header), header)),
            );
        }
        let known = |name: &str| headers.iter().any(|(_, header)| header == Path::new(name));
        for wanted in ["verbs.h", "verbs_api.h", "verbs/wr.h", "ib.h", "acm.h"] {
            assert!(known(&format!("infiniband/{wanted}")), "{wanted}");
        }
        for wanted in ["rdma_cma.h", "rdma_cma_abi.h", "rdma_verbs.h", "rsocket.h"] {
            assert!(known(&format!("rdma/{wanted}")), "{wanted}");
        }
        for (path, header) in &headers {
            let text = fs::read_to_string(path).unwrap();
            for line in text.lines() {
                assert!(!line.starts_with("#include \""), "{line}");
                let Some(name) = line.strip_prefix("#include <") else {
                    continue;
                };
                let name = name.split('>').next().unwrap();
                // The others are the system's.
                let is_own = ["infiniband/", "rdma/rdma_", "rdma/rsocket"]
                    .iter()
                    .any(|start| name.starts_with(start));
                assert!(
                    !is_own || known(name),
                    "{} includes {name}",
                    header.display()
                );
            }
        }
    }

    #[test]
    fn every_program_has_a_manual_page() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let pages = manual_pages(&root.join(MANUAL)).unwrap();
        for program in PROGRAMS {
            assert!(
                pages.contains(&PathBuf::from(format!("{program}.1"))),
                "{program}"
            );
        }
        for page in ["ferroverbs.7", "uroce.7"] {
            assert!(pages.contains(&PathBuf::from(page)), "{page}");
        }
    }

    /// groff prints no warning about any of them.
    #[test]
    fn manual_pages_are_well_formed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(MANUAL);
        if Command::new("groff").arg("--version").output().is_err() {
            println!("skipped: there is no groff");
            return;
        }
        for page in manual_pages(&folder).unwrap() {
            let output = Command::new("groff")
                .args(["-man", "-ww", "-z", "-Tutf8"])
                .arg(folder.join(&page))
                .output()
                .unwrap();
            let printed = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && printed.is_empty(),
                "{}: {printed}",
                page.display()
            );
        }
    }

    #[test]
    fn stripping_keeps_the_build_id() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("a.c");
        let (built, stripped) = (dir.path().join("a.so"), dir.path().join("b.so"));
        fs::write(
            &source,
            "static int hidden_name; int f(void) { return hidden_name++; }",
        )
        .unwrap();
        let compiled = Command::new("cc")
            .args(["-g", "-shared", "-fPIC", "-Wl,--build-id", "-o"])
            .args([&built, &source])
            .status()
            .unwrap();
        assert!(compiled.success());
        let strip = Strip::here();
        copied(&built, &stripped, Some((&strip, UNNEEDED))).unwrap();
        assert_eq!(notes(&built), notes(&stripped));
        assert!(notes(&stripped).contains("Build ID: "));
        let has_name = |path: &Path| {
            let bytes = fs::read(path).unwrap();
            bytes.windows(11).any(|part| part == b"hidden_name")
        };
        assert!(has_name(&built) && !has_name(&stripped));
        copied(&built, &stripped, None).unwrap();
        assert!(has_name(&stripped));
        assert!(copied(&source, &stripped, Some((&strip, UNNEEDED))).is_err());
    }

    fn notes(file: &Path) -> String {
        let output = Command::new("readelf").arg("-n").arg(file).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }
}
