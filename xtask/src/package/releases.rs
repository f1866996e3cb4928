//! The stages `package:trixie` and `package:sid`: the packages are made on other releases of
//! Debian, installed there over the release's packages, and removed.
//!
//! All of it happens in a throw-away root above a chroot of the release (`root`). The release's own
//! debhelper, dpkg-shlibdeps and lintian make and check the packages, and `debian/rules` finds the
//! version of the release's libibverbs1 without help. The libraries and programs in the packages
//! are those that the stage `package` compiled on this machine: the toolchain of Rust is not in the
//! chroot, and files compiled over an older C library run over a newer one. Then the same
//! transitions are made as on this machine (`transitions`), by the release's apt and dpkg, with the
//! release's programs.
#![forbid(unsafe_code)]

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};

use super::{
    Compiled, STOCK,
    files::{PACKAGES, file_with, name_here, package_in},
    installed, installed_version,
    notes::Notes,
    outside_cargo,
};
use crate::{
    chroot::{Chroot, KEPT, SID, TRIXIE},
    dirs::Dirs,
    host::must,
    report::Tally,
};

/// Debian's packages that ours replace, by their names since Debian 13.
const STOCK_PACKAGES: [&str; PACKAGES.len()] = [
    "libibverbs1",
    "libibverbs-dev",
    "ibverbs-utils",
    "librdmacm1t64",
    "librdmacm-dev",
];

/// A stage.
pub struct Release {
    pub stage: &'static str,
    chroot: Chroot,
}

pub const RELEASES: [Release; 2] = [
    Release {
        stage: "package:trixie",
        chroot: TRIXIE.of_users(&STOCK_PACKAGES),
    },
    Release {
        stage: "package:sid",
        chroot: SID.of_users(&STOCK_PACKAGES),
    },
];

impl Release {
    /// Makes the packages and installs them, there and back; a release that cannot be downloaded is
    /// skipped.
    pub fn run(&self, dirs: &Dirs, compiled: &Compiled) -> Tally {
        Tally::of(self.stage, |tally| self.all(dirs, compiled, tally))
    }

    fn all(&self, dirs: &Dirs, compiled: &Compiled, tally: &mut Tally) -> Result<()> {
        if let Some(refusal) = &compiled.refusal {
            tally.skip(&format!("no throw-away root to install in: {refusal}"));
            return Ok(());
        }
        let provided = self.chroot.provide(dirs);
        provided.with_context(|| format!("no Debian {}", self.chroot.debian))?;
        let version = self.chroot.version(dirs)?;
        if let Some(reason) = unknown(&compiled.source, &version)? {
            tally.skip(&reason);
            return Ok(());
        }
        // It has the program that installs the build, which the packages here are made with.
        compiled.installer(dirs)?;
        let job = compiled.job.join(self.chroot.debian);
        let root = self.chroot.here(dirs);
        let stock = job.join(STOCK);
        fs::create_dir_all(&stock).with_context(|| stock.display().to_string())?;
        for name in STOCK_PACKAGES {
            copy_into(&package_in(&root.join(KEPT), name)?, &stock)?;
        }
        installed(dirs, self.stage, (&job, Some(&root)), tally)
    }
}

/// The reason why packages cannot provide this version of rdma-core, if there is one.
fn unknown(source: &Path, version: &str) -> Result<Option<String>> {
    let mut asked = Command::new(source.join("debian/rdma-core-version"));
    let output = asked.env("RDMA_CORE_VERSION", version).output()?;
    let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok((!output.status.success()).then_some(reason))
}

/// In the throw-away root: makes the packages from the sources, which hold the build, puts them
/// into the directory of the job, and checks them.
pub(super) fn packages(source: &Path, job: &Path, notes: &mut Notes) -> Result<()> {
    let xtask = source.join("debian/cargo-target/debug/xtask");
    let mut build = outside_cargo("dpkg-buildpackage");
    // The linker of the build dependencies is not needed any more.
    build
        .args(["-us", "-uc", "-d", "-b", "-nc"])
        .env("XTASK", xtask)
        .env("DEB_BUILD_OPTIONS", "nocheck")
        .env_remove("RDMA_CORE_VERSION")
        .current_dir(source);
    must(&mut build)?;
    let made = source.parent().context("the sources have no parent")?;
    for (ours, _) in PACKAGES {
        copy_into(&package_in(made, ours)?, job)?;
    }
    notes.add("the packages are made", Ok(()))?;
    notes.add("the versions that they provide", provided(job))?;
    notes.add("lintian", lintian(made))
}

fn copy_into(file: &Path, dir: &Path) -> Result<()> {
    let name = file.file_name().context("a file has a name")?;
    fs::copy(file, dir.join(name)).with_context(|| format!("copy {}", file.display()))?;
    Ok(())
}

/// Whether each package provides the package of the release that it replaces, in its version.
fn provided(job: &Path) -> Result<()> {
    for (ours, stock) in PACKAGES {
        let mut field = Command::new("dpkg-deb");
        field.arg("--field").arg(package_in(job, ours)?);
        let text = must(field.arg("Provides"))?;
        let name = name_here(stock)?;
        let wanted = format!("{name} (= {})", installed_version(name)?);
        if !text.trim().split(", ").any(|provided| provided == wanted) {
            bail!("{ours} provides {}, not {wanted}", text.trim());
        }
    }
    Ok(())
}

/// What the release's lintian says.
fn lintian(made: &Path) -> Result<()> {
    let mut command = super::lintian_of(&file_with(made, "ferroverbs_", ".changes")?);
    must(&mut command).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::STAGE;

    #[test]
    fn each_package_of_debian_is_kept_by_its_newer_name() {
        for ((_, older), kept) in PACKAGES.iter().zip(STOCK_PACKAGES) {
            assert!(kept == *older || kept == format!("{older}t64"), "{kept}");
        }
    }

    #[test]
    fn the_stages_belong_to_the_group_of_packages() {
        for Release { stage, chroot } in &RELEASES {
            assert_eq!(*stage, format!("{STAGE}:{}", chroot.debian));
        }
    }

    #[test]
    fn a_version_that_packages_cannot_have_is_skipped_with_the_reason() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert_eq!(unknown(&sources, "65.0-1.1").unwrap(), None);
        let reason = unknown(&sources, "66.0-1").unwrap().unwrap();
        assert!(reason.contains("66.0-1"), "{reason}");
    }
}
