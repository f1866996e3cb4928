//! The names and places of installed files.
#![forbid(unsafe_code)]

use std::path::{self, Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The release of rdma-core that pkg-config reports, unless `--rdma-core` names another: programs
/// compare it with the release that they need.
const RDMA_CORE: &str = "44.0";

/// The arguments of the command line; directories that were not named get their usual place.
#[derive(Debug, PartialEq)]
pub struct Options {
    pub destdir: Option<PathBuf>,
    pub prefix: Option<PathBuf>,
    pub bindir: Option<PathBuf>,
    pub libdir: Option<PathBuf>,
    pub includedir: Option<PathBuf>,
    pub docdir: Option<PathBuf>,
    pub mandir: Option<PathBuf>,
    /// The release of rdma-core that pkg-config names.
    pub rdma_core: Option<String>,
    /// The target of rustc that was built for, if cargo was given one.
    pub target: Option<String>,
    pub strip: bool,
    /// The static library, too.
    pub with_static: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            destdir: None,
            prefix: None,
            bindir: None,
            libdir: None,
            includedir: None,
            docdir: None,
            mandir: None,
            rdma_core: None,
            target: None,
            strip: true,
            with_static: false,
        }
    }
}

/// Where things go. All but `destdir` are paths in the installed system.
#[derive(Debug)]
pub struct Layout {
    pub destdir: PathBuf,
    prefix: PathBuf,
    pub bindir: PathBuf,
    pub libdir: PathBuf,
    pub includedir: PathBuf,
    pub docdir: PathBuf,
    pub mandir: PathBuf,
    rdma_core: String,
}

impl Layout {
    pub fn new(options: &Options) -> Result<Self> {
        let destdir = options.destdir.as_deref().unwrap_or(Path::new("/"));
        if destdir.as_os_str().is_empty() {
            bail!("--destdir is empty");
        }
        let destdir = path::absolute(destdir).context("--destdir")?;
        let prefix = installed("--prefix", options.prefix.as_deref(), || {
            "/usr/local".into()
        })?;
        let bindir = installed("--bindir", options.bindir.as_deref(), || prefix.join("bin"))?;
        let mandir = installed("--mandir", options.mandir.as_deref(), || {
            prefix.join("share/man")
        })?;
        let libdir = installed("--libdir", options.libdir.as_deref(), || prefix.join("lib"))?;
        let includedir = installed("--includedir", options.includedir.as_deref(), || {
            prefix.join("include")
        })?;
        let docdir = installed("--docdir", options.docdir.as_deref(), || {
            prefix.join("share/doc/ferroverbs")
        })?;
        let rdma_core = options.rdma_core.as_deref().unwrap_or(RDMA_CORE);
        if !is_release(rdma_core) {
            bail!("--rdma-core {rdma_core}: not a release such as {RDMA_CORE}");
        }
        Ok(Self {
            destdir,
            prefix,
            bindir,
            libdir,
            includedir,
            docdir,
            mandir,
            rdma_core: rdma_core.to_owned(),
        })
    }

    /// Fills the template of the pkg-config file.
    pub fn pkg_config(&self, template: &str, names: &Names) -> Result<String> {
        let text = template
            .replace("@prefix@", text(&self.prefix)?)
            .replace("@libdir@", &self.below_prefix(&self.libdir)?)
            .replace("@includedir@", &self.below_prefix(&self.includedir)?)
            .replace("@release@", Names::RELEASE)
            .replace("@version@", &names.version(&self.rdma_core));
        if text.contains('@') {
            bail!("the template of the pkg-config file names something unknown");
        }
        Ok(text)
    }

    /// A path as pkg-config's variables give it, so that the prefix can be moved.
    fn below_prefix(&self, path: &Path) -> Result<String> {
        match path.strip_prefix(&self.prefix) {
            Ok(rest) if self.prefix != Path::new("/") => Ok(format!("${{prefix}}/{}", text(rest)?)),
            _ => Ok(text(path)?.to_owned()),
        }
    }
}

/// A directory of the installed system: absolute, and sayable in a pkg-config file.
fn installed(
    option: &str,
    given: Option<&Path>,
    usual: impl FnOnce() -> PathBuf,
) -> Result<PathBuf> {
    let Some(path) = given else {
        return Ok(usual());
    };
    if !path.is_absolute() {
        bail!("{option} {}: not an absolute path", path.display());
    }
    let up = |part: Component<'_>| part == Component::ParentDir;
    if path.components().any(up) {
        bail!("{option} {}: leads upwards", path.display());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+~:".contains(c);
    if !text(path)?.chars().all(plain) {
        bail!(
            "{option} {}: only letters, digits and /._-+~: can stand in a pkg-config file",
            path.display()
        );
    }
    // Without doubled slashes and dots, which would end up in the pkg-config file.
    Ok(path.components().collect())
}

/// Numbers with dots between them.
fn is_release(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split('.').all(digits)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not UTF-8", path.display()))
}

/// A library of the workspace, as it is installed.
#[derive(Debug)]
pub struct Library {
    /// The name for the linker; cargo's file has it, too.
    pub linked: &'static str,
    pub soname: &'static str,
    /// Begins the names of its public nodes.
    nodes: &'static str,
    pub pkg_config: &'static str,
}

pub const VERBS: Library = Library {
    linked: "libibverbs.so",
    soname: "libibverbs.so.1",
    nodes: "IBVERBS_1.",
    pkg_config: "libibverbs.pc",
};

pub const RDMACM: Library = Library {
    linked: "librdmacm.so",
    soname: "librdmacm.so.1",
    nodes: "RDMACM_1.",
    pkg_config: "librdmacm.pc",
};

/// The names of a library's file.
#[derive(Debug)]
pub struct Names {
    soname: &'static str,
    /// N of the highest exported node, such as IBVERBS_1.N.
    node: u32,
}

impl Names {
    /// The name for the linker with -static.
    pub const STATIC: &str = "libibverbs.a";
    pub const RELEASE: &str = env!("CARGO_PKG_VERSION");

    /// Reads the nodes of the version script.
    pub fn new(library: &Library, map: &str) -> Result<Self> {
        let nodes = map.lines().filter_map(|line| {
            let (number, _) = line.strip_prefix(library.nodes)?.split_once(' ')?;
            number.parse().ok()
        });
        let node = nodes.max().context("the version script has no node")?;
        let soname = library.soname;
        Ok(Self { soname, node })
    }

    /// The file itself, named as rdma-core does: SONAME, node, release.
    pub fn file(&self) -> String {
        format!("{}.{}.{}", self.soname, self.node, Self::RELEASE)
    }

    /// The version for pkg-config.
    fn version(&self, rdma_core: &str) -> String {
        format!("1.{}.{rdma_core}", self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str =
        "/* x */\nIBVERBS_1.9 {\n};\nIBVERBS_1.14 {\n} IBVERBS_1.9;\nIBVERBS_PRIVATE_34 {\n};\n";

    fn usr(libdir: &str) -> Options {
        Options {
            prefix: Some("/usr".into()),
            libdir: Some(libdir.into()),
            ..Options::default()
        }
    }

    #[test]
    fn the_file_is_named_by_the_highest_node() {
        let names = Names::new(&VERBS, MAP).unwrap();
        let release = Names::RELEASE;
        assert_eq!(names.file(), format!("libibverbs.so.1.14.{release}"));
        assert_eq!(names.version("44.0"), "1.14.44.0");
        assert!(Names::new(&VERBS, "IBVERBS_PRIVATE_34 {\n};\n").is_err());
        let names = Names::new(&RDMACM, "RDMACM_1.0 {\n};\nRDMACM_1.3 {\n};\n").unwrap();
        assert_eq!(names.file(), format!("librdmacm.so.1.3.{release}"));
    }

    #[test]
    fn directories_follow_the_prefix() {
        let layout = Layout::new(&Options::default()).unwrap();
        assert_eq!(layout.destdir, Path::new("/"));
        assert_eq!(layout.libdir, Path::new("/usr/local/lib"));
        assert_eq!(layout.includedir, Path::new("/usr/local/include"));
        assert_eq!(layout.docdir, Path::new("/usr/local/share/doc/ferroverbs"));
    }

    #[test]
    fn bad_directories_are_refused() {
        for bad in [
            "lib",
            "",
            "/usr/../etc",
            "/usr/my lib",
            "/usr/$x",
            "/a\nb",
            "/ü",
        ] {
            assert!(Layout::new(&usr(bad)).is_err(), "{bad:?}");
        }
        let empty = Options {
            destdir: Some(PathBuf::new()),
            ..Options::default()
        };
        assert!(Layout::new(&empty).is_err());
    }

    #[test]
    fn pkg_config_counts_in_rdma_cores_releases() {
        let layout = Layout::new(&usr("//usr/lib/./x86_64-linux-gnu/")).unwrap();
        let template = include_str!("../../../pkgconfig/libibverbs.pc.in");
        let text = layout
            .pkg_config(template, &Names::new(&VERBS, MAP).unwrap())
            .unwrap();
        let lines: Vec<_> = text.lines().collect();
        for wanted in [
            "prefix=/usr",
            "libdir=${prefix}/lib/x86_64-linux-gnu",
            "includedir=${prefix}/include",
            "Version: 1.14.44.0",
            "Libs: -L${libdir} -libverbs",
        ] {
            assert!(lines.contains(&wanted), "{wanted}");
        }
        assert!(
            layout
                .pkg_config("@prefx@", &Names::new(&VERBS, MAP).unwrap())
                .is_err()
        );
    }

    #[test]
    fn pkg_config_names_the_release_asked_for() {
        let with = |release: &str| Options {
            rdma_core: Some(release.into()),
            ..Options::default()
        };
        let layout = Layout::new(&with("56.1")).unwrap();
        let names = Names::new(&VERBS, MAP).unwrap();
        let text = layout.pkg_config("@version@", &names).unwrap();
        assert_eq!(text, "1.14.56.1");
        for bad in ["", "56.", "56.1-1", ".1", "@x@"] {
            assert!(Layout::new(&with(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_directory_elsewhere_is_named_in_full() {
        let layout = Layout::new(&usr("/opt/lib")).unwrap();
        let text = layout
            .pkg_config("@libdir@", &Names::new(&VERBS, MAP).unwrap())
            .unwrap();
        assert_eq!(text, "/opt/lib");
    }
}
