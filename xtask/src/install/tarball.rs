//! `cargo xtask tarball`: an archive of all that `cargo xtask install` installs, with scripts that
//! install and remove it without anything else.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{
    Built, Item, Options, gather,
    layout::{Layout, Names},
    read,
    tree::Tree,
    write,
};
use crate::host;

/// The scripts, in the sources.
const SCRIPTS: &str = "dist";
const INSTALL: &str = "install.sh";
const UNINSTALL: &str = "uninstall.sh";

/// The folder in the archive for an architecture, which names the archive.
pub fn name(architecture: &str) -> String {
    format!("ferroverbs-{}-linux-{architecture}", Names::RELEASE)
}

/// Makes the archive in a directory; returns its path.
///
/// # Errors
/// Something is not built; of strip(1), tar(1) and the file system.
pub fn make(built: &Built, into: &Path) -> Result<PathBuf> {
    let dirs = &built.dirs;
    let folder = dirs.fresh("tarball-files")?;
    let name = name(&built.architecture);
    let own = folder.join(&name);
    let layout = Layout::new(&Options {
        destdir: Some(own.join("tree")),
        ..Options::default()
    })?;
    // The files lie at the top of the tree, which the script puts below any prefix.
    let prefix = Path::new("/usr/local");
    let mut items = gather(dirs, &layout)?;
    let mut list = String::new();
    for item in &mut items {
        let path = item.path_mut();
        let below = path.strip_prefix(prefix)?.to_owned();
        list += below.to_str().context("a name is not UTF-8")?;
        list.push('\n');
        *path = Path::new("/").join(below);
    }
    write(&Tree::at(&layout.destdir)?, &items, Some(&built.strip))?;
    let top = Tree::at(&own)?;
    top.file(Path::new("/files"), list.as_bytes())?;
    for script in [INSTALL, UNINSTALL] {
        let bytes = read(&dirs.root.join(SCRIPTS).join(script))?;
        let path = Path::new("/").join(script);
        top.program(&path, |new| Ok(fs::write(new, &bytes)?))?;
    }
    fs::create_dir_all(into).with_context(|| format!("create {}", into.display()))?;
    let archive = into.join(format!("{name}.tar.gz"));
    pack(&folder, &name, &archive)?;
    Ok(archive)
}

/// The same files give the same bytes.
fn pack(folder: &Path, name: &str, archive: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=gnu", "--sort=name", "--mtime=@0"])
        .args(["--owner=0", "--group=0", "--numeric-owner"])
        .args(["--use-compress-program", "gzip -9n", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(folder)
        .arg(name);
    host::must(&mut tar).map(drop)
}

impl Item {
    fn path_mut(&mut self) -> &mut PathBuf {
        match self {
            Self::Library { path, .. }
            | Self::Program { path, .. }
            | Self::Archive { path, .. }
            | Self::File { path, .. }
            | Self::Link { path, .. } => path,
        }
    }
}
