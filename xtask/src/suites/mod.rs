//! The suites, as data: those that run in the virtual machine, and those of uroce.
#![forbid(unsafe_code)]

mod applications;
mod case;
mod ceph;
mod check;
pub mod clients;
pub mod crates;
mod dapl;
mod gloo;
pub mod inference;
pub mod intel_mpi;
mod libfabric;
mod memcheck;
pub mod mpi;
pub mod mpi4py;
mod mpich;
mod openshmem;
mod perftest;
mod pingpong;
pub mod programs;
pub mod providers;
mod rdmacm;
mod siw;
mod ucx;
pub mod uroce;
mod uroce_hosts;
pub mod uroce_rdmacm;
mod uroce_rxe;
mod uroce_rxe_rdmacm;
pub mod uroce_ways;

pub use case::{Case, PREFER_PLUGIN, Ready, Target};
use std::path::Path;

use crate::{
    chroot::{Chroot, SID},
    guest::setup,
};

pub use check::Check;

/// rdma-core's tests of these releases.
pub const PYVERBS_56: &str = "pyverbs-56";
pub const PYVERBS_65: &str = "pyverbs-65";

/// Soft RoCE in the virtual machine.
pub fn rxe(helpers: &Path) -> Target {
    Target {
        device: setup::DEVICE,
        address: setup::ADDRESS,
        gid: 1,
        other_gid: 0,
        mtu: 1024,
        connection_manager: true,
        faults: false,
        helpers: helpers.to_owned(),
    }
}

/// Soft iWARP there.
fn soft_iwarp(helpers: &Path) -> Target {
    Target {
        device: setup::SIW,
        address: setup::SIW_ADDRESS,
        gid: 0,
        other_gid: 0,
        mtu: 1024,
        connection_manager: true,
        faults: false,
        helpers: helpers.to_owned(),
    }
}

/// The kind of a suite.
pub enum Kind {
    /// A table of cases, made for the device.
    Cases(fn(&Target) -> Vec<Case>),
    /// The same, with a second host on the other end of the Ethernet pair, where uroce runs. The
    /// system's own library has no uroce to run over.
    TwoHosts(fn(&Target) -> Vec<Case>),
    /// rdma-core's own tests.
    Pyverbs(Pyverbs),
    /// The programs of `c-tests/`, compared with their outputs over the stock library.
    CTests,
}

/// Which of rdma-core's tests.
#[derive(Clone, Copy, PartialEq)]
pub enum Pyverbs {
    /// Of this machine's release, those that any device can run.
    AnyDevice,
    /// Of this machine's release, those of the connection manager.
    ConnectionManager,
    /// All those of another release, in a chroot that has it.
    Of(Chroot),
}

/// The device in the virtual machine that a suite runs on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum On {
    Rxe,
    /// Made for the suite alone, by a module that Debian's kernel lacks.
    Siw,
}

impl On {
    pub fn target(self, helpers: &Path) -> Target {
        match self {
            Self::Rxe => rxe(helpers),
            Self::Siw => soft_iwarp(helpers),
        }
    }
}

/// The part of a suite that is run once more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Again {
    Nothing,
    All,
    /// All, and there is no first run without this project's librdmacm.
    Alone,
    /// These cases. The others make the same calls of the provider, and minutes of the emulated
    /// machine would show no more.
    Only(&'static [&'static str]),
}

impl Again {
    pub fn has(self, case: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::All | Self::Alone => true,
            Self::Only(names) => names.contains(&case),
        }
    }
}

pub struct Suite {
    pub name: &'static str,
    pub on: On,
    pub kind: Kind,
    /// Run a second time over the write() command interface.
    pub both_paths: bool,
    /// The part that is run a second time over the built-in provider of the device.
    pub built_in: Again,
    /// The part that is run once more over this project's librdmacm.
    pub cm: Again,
    /// Suites of one boot share a number. A boot takes 20 seconds, and there may be room for two
    /// side by side, so none should be much longer than the others.
    pub boot: u8,
}

pub const SUITES: &[Suite] = &[
    Suite {
        name: "pyverbs",
        on: On::Rxe,
        kind: Kind::Pyverbs(Pyverbs::AnyDevice),
        both_paths: true,
        built_in: Again::All,
        cm: Again::Nothing,
        boot: 1,
    },
    Suite {
        name: "pyverbs-cm",
        on: On::Rxe,
        kind: Kind::Pyverbs(Pyverbs::ConnectionManager),
        both_paths: true,
        built_in: Again::All,
        cm: Again::All,
        boot: 1,
    },
    Suite {
        name: "pingpong",
        on: On::Rxe,
        kind: Kind::Cases(pingpong::cases),
        both_paths: true,
        built_in: Again::All,
        cm: Again::Nothing,
        boot: 1,
    },
    Suite {
        name: "perftest",
        on: On::Rxe,
        kind: Kind::Cases(perftest::cases),
        both_paths: false,
        built_in: Again::Only(perftest::AGAIN),
        cm: Again::Only(perftest::BY_CM),
        boot: 1,
    },
    Suite {
        name: applications::NAME,
        on: On::Rxe,
        kind: Kind::Cases(applications::cases),
        both_paths: false,
        built_in: Again::Only(applications::AGAIN),
        cm: Again::All,
        boot: 1,
    },
    Suite {
        name: "rdmacm",
        on: On::Rxe,
        kind: Kind::Cases(rdmacm::cases),
        both_paths: false,
        built_in: Again::Only(rdmacm::AGAIN),
        cm: Again::All,
        boot: 2,
    },
    Suite {
        name: "ucx",
        on: On::Rxe,
        kind: Kind::Cases(ucx::cases),
        both_paths: false,
        built_in: Again::Only(ucx::AGAIN),
        cm: Again::Only(ucx::BY_CM),
        boot: 2,
    },
    Suite {
        name: "libfabric",
        on: On::Rxe,
        kind: Kind::Cases(libfabric::cases),
        both_paths: false,
        built_in: Again::Only(libfabric::AGAIN),
        cm: Again::Only(libfabric::BY_CM),
        boot: 2,
    },
    Suite {
        name: "mpi",
        on: On::Rxe,
        kind: Kind::Cases(mpi::cases),
        both_paths: false,
        built_in: Again::Only(mpi::AGAIN),
        cm: Again::Nothing,
        boot: 2,
    },
    Suite {
        name: inference::MOONCAKE,
        on: On::Rxe,
        kind: Kind::Cases(inference::mooncake),
        both_paths: false,
        built_in: Again::All,
        cm: Again::Nothing,
        boot: 2,
    },
    Suite {
        name: siw::NAME,
        on: On::Siw,
        kind: Kind::Cases(siw::cases),
        both_paths: false,
        built_in: Again::All,
        cm: Again::Only(siw::BY_CM),
        boot: 2,
    },
    Suite {
        name: programs::NAME,
        on: On::Rxe,
        kind: Kind::Cases(programs::cases),
        both_paths: false,
        built_in: Again::Nothing,
        cm: Again::Nothing,
        boot: 2,
    },
    Suite {
        name: "c-tests",
        on: On::Rxe,
        kind: Kind::CTests,
        both_paths: true,
        built_in: Again::All,
        cm: Again::All,
        boot: 2,
    },
    // These are the last of their boot: they take the Ethernet pair apart for a while.
    Suite {
        name: uroce_rxe::NAME,
        on: On::Rxe,
        kind: Kind::TwoHosts(uroce_rxe::cases),
        both_paths: false,
        built_in: Again::Nothing,
        cm: Again::Nothing,
        boot: 2,
    },
    Suite {
        name: uroce_rxe_rdmacm::NAME,
        on: On::Rxe,
        kind: Kind::TwoHosts(uroce_rxe_rdmacm::cases),
        both_paths: false,
        built_in: Again::Nothing,
        cm: Again::Alone,
        boot: 2,
    },
    Suite {
        name: PYVERBS_65,
        on: On::Rxe,
        kind: Kind::Pyverbs(Pyverbs::Of(SID)),
        both_paths: false,
        built_in: Again::All,
        cm: Again::Nothing,
        boot: 3,
    },
    Suite {
        name: providers::NAME,
        on: On::Rxe,
        kind: Kind::Cases(providers::cases),
        both_paths: false,
        built_in: Again::Nothing,
        cm: Again::Nothing,
        boot: 3,
    },
];

/// One run of a suite, and its surroundings. Its label names its stage and its files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    pub suite: &'static str,
    pub stock: bool,
    pub write: bool,
    /// Over the library's own provider, not the C plugin.
    pub built_in: bool,
    /// Over librdmacm as it is built here, too.
    pub cm: bool,
}

impl Run {
    /// The environment of programs, beside the library.
    pub fn env(self) -> Vec<(&'static str, &'static str)> {
        let write = self.write.then_some(("IBVERBS_FORCE_WRITE", "1"));
        let plugin = (!self.built_in).then_some((PREFER_PLUGIN, "all"));
        write.into_iter().chain(plugin).collect()
    }

    pub fn label(self) -> String {
        let write = match (self.write, self.built_in, self.cm) {
            (_, _, true) => ".cm",
            (_, true, _) => ".rust",
            (true, _, _) => ".write",
            _ => "",
        };
        let stock = if self.stock { ".stock" } else { "" };
        format!("{}{write}{stock}", self.suite)
    }

    /// The device that it runs on.
    pub fn on(self) -> On {
        let suite = SUITES.iter().find(|suite| suite.name == self.suite);
        suite.map_or(On::Rxe, |suite| suite.on)
    }

    /// Whether uroce is at one end, which the system's own library does not have.
    pub fn has_uroce(self) -> bool {
        let suite = SUITES.iter().find(|suite| suite.name == self.suite);
        suite.is_some_and(|suite| matches!(suite.kind, Kind::TwoHosts(_)))
    }

    /// Whether a test of the suite is part of the run.
    pub fn has(self, case: &str) -> bool {
        let suite = SUITES.iter().find(|suite| suite.name == self.suite);
        let part = match (self.cm, self.built_in) {
            (true, _) => suite.map(|suite| suite.cm),
            (_, true) => suite.map(|suite| suite.built_in),
            _ => return true,
        };
        part.is_some_and(|part| part.has(case))
    }

    pub fn from_label(label: &str) -> Option<(Self, &'static Suite)> {
        let (name, rest) = label.split_once('.').unwrap_or((label, ""));
        let suite = SUITES.iter().find(|suite| suite.name == name)?;
        let (stock, write, built_in, cm) = match rest {
            "" => (false, false, false, false),
            "write" => (false, true, false, false),
            "stock" => (true, false, false, false),
            "rust" => (false, false, true, false),
            "cm" => (false, false, true, true),
            _ => return None,
        };
        Some((
            Self {
                suite: suite.name,
                stock,
                write,
                built_in,
                cm,
            },
            suite,
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn labels_are_read_as_they_were_written() {
        for suite in SUITES {
            let none = [false; 4];
            let ways = [
                none,
                [true, false, false, false],
                [false, true, false, false],
                [false, false, true, false],
                // The provider that users of both get.
                [false, false, true, true],
            ];
            for [stock, write, built_in, cm] in ways {
                let run = Run {
                    suite: suite.name,
                    stock,
                    write,
                    built_in,
                    cm,
                };
                let read = Run::from_label(&run.label()).map(|(run, _)| run);
                assert_eq!(read, Some(run));
            }
        }
        assert!(Run::from_label("pyverbs.writ").is_none());
        assert!(Run::from_label("nothing").is_none());
    }

    #[test]
    fn names_of_cases_are_unique_and_fit_files() {
        for suite in SUITES {
            let (Kind::Cases(cases) | Kind::TwoHosts(cases)) = suite.kind else {
                continue;
            };
            let mut seen = HashSet::new();
            for case in cases(&suite.on.target(Path::new("/x"))) {
                let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                assert!(case.name.chars().all(plain), "{}", case.name);
                assert!(seen.insert(case.name.clone()), "{} twice", case.name);
                assert!(!case.client.is_empty(), "{} runs nothing", case.name);
            }
            for part in [suite.built_in, suite.cm] {
                if let Again::Only(names) = part {
                    let unknown: Vec<_> =
                        names.iter().filter(|name| !seen.contains(**name)).collect();
                    assert!(unknown.is_empty(), "{unknown:?}");
                }
            }
            assert!(!seen.is_empty());
        }
    }
}
