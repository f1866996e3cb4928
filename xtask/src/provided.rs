//! Further requirements of suites besides this machine's packages: environments of Python, crates,
//! and chroots.
//!
//! All are made before the runs: where those run, no network leads to a package index or archive.
#![forbid(unsafe_code)]

use std::{ffi::OsString, path::Path};

use anyhow::Result;

use crate::{
    chroot::{Chroot, SID, TRIXIE},
    crates::Crates,
    dirs::Dirs,
    excused::Excused,
    expect,
    pip::{self, Package, SHOWN},
    report::Tally,
    suites::{
        PYVERBS_56, PYVERBS_65, clients, crates, inference, intel_mpi, mpi4py, providers,
        uroce_rdmacm,
    },
    unpacked::{NGINX, Unpacked},
};

/// The sources of a suite's programs that are not Debian's packages.
fn packages(suite: &str) -> Vec<&'static Package> {
    let single = [inference::package, clients::package, intel_mpi::package];
    let single = single.iter().filter_map(|of| of(suite));
    single.chain(mpi4py::packages(suite)).collect()
}

/// The crates whose tests and examples a suite runs.
fn crates_of(suite: &str) -> Option<&'static Crates> {
    (suite == crates::NAME).then_some(&crates::ALL)
}

/// The package whose programs a suite runs without its installation.
fn unpacked(suite: &str) -> Option<&'static Unpacked> {
    (suite == uroce_rdmacm::NAME).then_some(&NGINX)
}

/// The chroots that programs of a suite run in.
fn chroots(suite: &str) -> &'static [Chroot] {
    match suite {
        PYVERBS_56 => &[TRIXIE],
        PYVERBS_65 => &[SID],
        providers::NAME => &[TRIXIE, SID],
        _ => &[],
    }
}

/// Why a run is not possible here.
pub struct Lack {
    reason: String,
    /// It is not this project's fault, nor the machine's.
    excused: bool,
}

impl Lack {
    pub fn print_output(&self, tally: &mut Tally) {
        if self.excused {
            tally.skip(&self.reason);
        } else {
            tally.fail(format!("not run: {}", self.reason));
        }
    }
}

/// Provides all that runs need; `suite` returns the name of a run's suite. Returns those that can
/// be run; `lacking` is called for the others, with the reason.
pub fn provide_for<R>(
    dirs: &Dirs,
    runs: Vec<R>,
    suite: impl Fn(&R) -> &str,
    mut lacking: impl FnMut(R, &Lack),
) -> Vec<R> {
    let mut there = Vec::new();
    for run in runs {
        match provide(dirs, suite(&run)) {
            Ok(()) => there.push(run),
            Err(lack) => lacking(run, &lack),
        }
    }
    there
}

fn provide(dirs: &Dirs, suite: &str) -> Result<(), Lack> {
    for package in packages(suite) {
        package.provide(dirs).map_err(|error| Lack {
            reason: format!("{error:#}"),
            excused: false,
        })?;
    }
    if let Some(crates) = crates_of(suite) {
        crates.provide(dirs).map_err(|error| Lack {
            reason: format!("{error:#}"),
            excused: false,
        })?;
    }
    if let Some(package) = unpacked(suite) {
        package.provide(dirs).map_err(|error| Lack {
            reason: format!("no {}: {error:#}", package.package),
            excused: false,
        })?;
    }
    for chroot in chroots(suite) {
        chroot.provide(dirs).map_err(|error| Lack {
            reason: format!("no Debian {}: {error:#}", chroot.debian),
            excused: error.is::<Excused>(),
        })?;
    }
    Ok(())
}

/// Variables that contain its location for the programs of a suite. `dir` is the directory of the
/// job, `room` one for temporary files of programs.
///
/// # Errors
/// There is a colon in the name of `dir`.
pub fn variables(suite: &str, dir: &Path, room: &Path) -> Result<Vec<(&'static str, OsString)>> {
    let mut variables = Vec::new();
    let packages = packages(suite);
    if !packages.is_empty() {
        variables.push(("PATH", pip::path(packages, dir)?));
    }
    if let Some(crates) = crates_of(suite) {
        variables.push((
            "PATH",
            pip::first_in_path([crates.programs(&dir.join(SHOWN))])?,
        ));
    }
    if let Some(package) = unpacked(suite) {
        variables.push(("PATH", package.path(dir)?));
    }
    if !chroots(suite).is_empty() {
        let seen = std::env::join_paths([dir, room])?;
        variables.push(("CHROOTS", dir.join(SHOWN).into()));
        variables.push(("CHROOT_ROOM", room.join("chroot").into()));
        variables.push(("CHROOT_SEES", seen));
    }
    Ok(variables)
}

/// The expected list for a suite's results.
pub struct Expected {
    /// The name of its file.
    pub name: String,
    /// Says that it is the list of an older release of rdma-core than the one that ran.
    pub older: Option<String>,
}

impl Expected {
    /// `list` is the name of the suite's list for the release in its name.
    ///
    /// # Errors
    /// The chroot has no rdma-core.
    pub fn of(dirs: &Dirs, suite: &str, list: &str) -> Result<Self> {
        let name = written_as(dirs, suite, list)?;
        if name == list || expect::exists(&dirs.expected(), &name) {
            return Ok(Self { name, older: None });
        }
        let older = format!(
            "there is no list {name} yet, so {list} is taken: what succeeds there may not fail, \
             and what else fails is skipped"
        );
        let name = list.to_owned();
        Ok(Self {
            name,
            older: Some(older),
        })
    }
}

/// The name under which this machine's results would be written: that of the release in the chroot.
///
/// # Errors
/// The chroot has no rdma-core.
pub fn written_as(dirs: &Dirs, suite: &str, list: &str) -> Result<String> {
    let (PYVERBS_56 | PYVERBS_65, [chroot]) = (suite, chroots(suite)) else {
        return Ok(list.to_owned());
    };
    Ok(renamed(list, chroot, chroot.found(dirs)?))
}

fn renamed(list: &str, chroot: &Chroot, found: u32) -> String {
    let number = chroot.rdma_core.to_string();
    let begin = list.strip_suffix(&number).unwrap_or(list);
    format!("{begin}{found}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_named_for_the_release_that_is_there() {
        assert_eq!(renamed("uroce-pyverbs-65", &SID, 65), "uroce-pyverbs-65");
        assert_eq!(renamed("uroce-pyverbs-65", &SID, 66), "uroce-pyverbs-66");
    }

    #[test]
    fn suites_are_named_for_the_release_of_their_chroot() {
        for suite in [PYVERBS_56, PYVERBS_65] {
            let [chroot] = chroots(suite) else {
                panic!("{suite} has one chroot");
            };
            assert!(suite.ends_with(&chroot.rdma_core.to_string()));
        }
    }

    #[test]
    fn programs_in_chroots_see_the_directory_of_the_job() -> Result<()> {
        let variables = variables(PYVERBS_65, Path::new("/job"), Path::new("/run"))?;
        let sees = variables.iter().find(|(name, _)| *name == "CHROOT_SEES");
        assert_eq!(
            sees.map(|(_, value)| value.clone()),
            Some("/job:/run".into())
        );
        assert!(super::variables("pingpong", Path::new("/job"), Path::new("/run"))?.is_empty());
        Ok(())
    }
}
