//! The suites, as data: those that run in the virtual machine, and those of uroce.
#![forbid(unsafe_code)]

mod applications;
mod ceph;
mod check;
mod dapl;
mod gloo;
mod inference;
mod libfabric;
mod memcheck;
mod mpi;
mod mpich;
mod perftest;
mod pingpong;
pub mod programs;
mod rdmacm;
mod siw;
mod ucx;
pub mod uroce;
mod uroce_hosts;
mod uroce_rxe;

use std::path::{Path, PathBuf};

use crate::{guest::setup, pip::Package};

pub use check::Check;
pub use uroce_rxe::NAME as UROCE_RXE;

/// The device that the programs of a suite are pointed at.
#[derive(Clone, Debug)]
pub struct Target {
    pub device: &'static str,
    /// Where the other side is: the address of the device's interface.
    pub address: &'static str,
    /// The index of that address in the GID table, and of another one.
    pub gid: u8,
    pub other_gid: u8,
    /// The largest datagram.
    pub mtu: u32,
    /// Whether the kernel's connection manager knows the device.
    pub connection_manager: bool,
    /// Whether packets are lost on purpose, so that only reliable transports can be expected to
    /// end.
    pub faults: bool,
    /// Helper files of this checkout.
    pub helpers: PathBuf,
}

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

/// One test: a program, or two that talk to each other.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub server: Option<Server>,
    pub client: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Commands that are run first.
    pub before: Vec<String>,
    /// What the output must look like, beside both ending with status 0.
    pub checks: Vec<Check>,
    /// The device lacks this; ending with an error message is an answer, compared as such.
    pub may_refuse: bool,
    /// How many processes load libibverbs at least, if it is more than the programs named.
    pub users: usize,
}

#[derive(Clone, Debug)]
pub struct Server {
    pub words: Vec<String>,
    pub ready: Ready,
    /// It serves for ever and is stopped after its client.
    pub stays: bool,
}

/// How to see that a server can take its client.
#[derive(Clone, Debug)]
pub enum Ready {
    /// A TCP port listens.
    Tcp(u16),
    /// A connection manager id listens.
    RdmaCm,
    /// A multicast group, as /proc/net/igmp spells it, was joined.
    Multicast(&'static str),
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

impl Case {
    pub fn single(name: impl Into<String>, line: &str) -> Self {
        Self {
            name: name.into(),
            server: None,
            client: words(line),
            env: Vec::new(),
            before: Vec::new(),
            checks: Vec::new(),
            may_refuse: false,
            users: 1,
        }
    }

    pub fn pair(name: impl Into<String>, server: &str, ready: Ready, client: &str) -> Self {
        let server = Server {
            words: words(server),
            ready,
            stays: false,
        };
        Self {
            server: Some(server),
            ..Self::single(name, client)
        }
    }

    pub fn check(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    pub fn may_refuse(mut self) -> Self {
        self.may_refuse = true;
        self
    }

    pub fn users(mut self, users: usize) -> Self {
        self.users = users;
        self
    }

    pub fn server_stays(mut self) -> Self {
        if let Some(server) = &mut self.server {
            server.stays = true;
        }
        self
    }

    pub fn before(mut self, line: &str) -> Self {
        self.before.push(line.into());
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }
}

/// What a suite is made of.
pub enum Kind {
    /// A table of cases, made for the device.
    Cases(fn(&Target) -> Vec<Case>),
    /// The same, with a second host on the other end of the Ethernet pair, where uroce runs. The
    /// system's own library has no uroce to run over.
    TwoHosts(fn(&Target) -> Vec<Case>),
    /// rdma-core's own tests: those that any device can run, or those of the connection manager.
    Pyverbs { connection_manager: bool },
    /// The programs of `c-tests/`, held against their outputs over the stock library.
    CTests,
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

/// What of a suite is run once more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Again {
    Nothing,
    All,
    /// These cases. In the others the provider is asked the same, and minutes of the emulated machine
    /// would say nothing new.
    Only(&'static [&'static str]),
}

impl Again {
    pub fn has(self, case: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
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
    /// What is run a second time over the library's own provider for the device.
    pub built_in: Again,
    /// Suites of one boot share a number. A boot takes 20 seconds, and there may be room for two side by
    /// side, so none should be much longer than the others.
    pub boot: u8,
}

pub const SUITES: &[Suite] = &[
    Suite {
        name: "pyverbs",
        on: On::Rxe,
        kind: Kind::Pyverbs {
            connection_manager: false,
        },
        both_paths: true,
        built_in: Again::All,
        boot: 1,
    },
    Suite {
        name: "pyverbs-cm",
        on: On::Rxe,
        kind: Kind::Pyverbs {
            connection_manager: true,
        },
        both_paths: true,
        built_in: Again::All,
        boot: 1,
    },
    Suite {
        name: "pingpong",
        on: On::Rxe,
        kind: Kind::Cases(pingpong::cases),
        both_paths: true,
        built_in: Again::All,
        boot: 1,
    },
    Suite {
        name: "perftest",
        on: On::Rxe,
        kind: Kind::Cases(perftest::cases),
        both_paths: false,
        built_in: Again::Only(perftest::AGAIN),
        boot: 1,
    },
    Suite {
        name: applications::NAME,
        on: On::Rxe,
        kind: Kind::Cases(applications::cases),
        both_paths: false,
        built_in: Again::Only(applications::AGAIN),
        boot: 1,
    },
    Suite {
        name: "rdmacm",
        on: On::Rxe,
        kind: Kind::Cases(rdmacm::cases),
        both_paths: false,
        built_in: Again::Only(rdmacm::AGAIN),
        boot: 2,
    },
    Suite {
        name: "ucx",
        on: On::Rxe,
        kind: Kind::Cases(ucx::cases),
        both_paths: false,
        built_in: Again::Only(ucx::AGAIN),
        boot: 2,
    },
    Suite {
        name: "libfabric",
        on: On::Rxe,
        kind: Kind::Cases(libfabric::cases),
        both_paths: false,
        built_in: Again::Only(libfabric::AGAIN),
        boot: 2,
    },
    Suite {
        name: "mpi",
        on: On::Rxe,
        kind: Kind::Cases(mpi::cases),
        both_paths: false,
        built_in: Again::Only(mpi::AGAIN),
        boot: 2,
    },
    Suite {
        name: inference::MOONCAKE,
        on: On::Rxe,
        kind: Kind::Cases(inference::mooncake),
        both_paths: false,
        built_in: Again::All,
        boot: 2,
    },
    Suite {
        name: siw::NAME,
        on: On::Siw,
        kind: Kind::Cases(siw::cases),
        both_paths: false,
        built_in: Again::All,
        boot: 2,
    },
    Suite {
        name: programs::NAME,
        on: On::Rxe,
        kind: Kind::Cases(programs::cases),
        both_paths: false,
        built_in: Again::Nothing,
        boot: 2,
    },
    Suite {
        name: "c-tests",
        on: On::Rxe,
        kind: Kind::CTests,
        both_paths: true,
        built_in: Again::All,
        boot: 2,
    },
    // Last of its boot: it takes the Ethernet pair apart for a while.
    Suite {
        name: UROCE_RXE,
        on: On::Rxe,
        kind: Kind::TwoHosts(uroce_rxe::cases),
        both_paths: false,
        built_in: Again::Nothing,
        boot: 2,
    },
];

/// One run of a suite: which, and over what. Its label names its stage and its files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    pub suite: &'static str,
    pub stock: bool,
    pub write: bool,
    /// Over the library's own provider, not the C plugin.
    pub built_in: bool,
}

/// Names providers of which the C plugin is to be taken, where the library has one of its own.
pub const PREFER_PLUGIN: &str = "IBVERBS_PREFER_PLUGIN";

impl Run {
    /// What programs are run with, beside the library.
    pub fn env(self) -> Vec<(&'static str, &'static str)> {
        let write = self.write.then_some(("IBVERBS_FORCE_WRITE", "1"));
        let plugin = (!self.built_in).then_some((PREFER_PLUGIN, "all"));
        write.into_iter().chain(plugin).collect()
    }

    pub fn label(self) -> String {
        let write = match (self.write, self.built_in) {
            (_, true) => ".rust",
            (true, _) => ".write",
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

    /// What its programs come out of, if not Debian's packages.
    pub fn package(self) -> Option<&'static Package> {
        inference::package(self.suite)
    }

    /// Whether a test of the suite is part of the run.
    pub fn has(self, case: &str) -> bool {
        let suite = SUITES.iter().find(|suite| suite.name == self.suite);
        !self.built_in || suite.is_some_and(|suite| suite.built_in.has(case))
    }

    pub fn from_label(label: &str) -> Option<(Self, &'static Suite)> {
        let (name, rest) = label.split_once('.').unwrap_or((label, ""));
        let suite = SUITES.iter().find(|suite| suite.name == name)?;
        let (stock, write, built_in) = match rest {
            "" => (false, false, false),
            "write" => (false, true, false),
            "stock" => (true, false, false),
            "rust" => (false, false, true),
            _ => return None,
        };
        Some((
            Self {
                suite: suite.name,
                stock,
                write,
                built_in,
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
            let none = [false; 3];
            let ways = [
                none,
                [true, false, false],
                [false, true, false],
                [false, false, true],
            ];
            for [stock, write, built_in] in ways {
                let run = Run {
                    suite: suite.name,
                    stock,
                    write,
                    built_in,
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
            if let Again::Only(names) = suite.built_in {
                let unknown: Vec<_> = names.iter().filter(|name| !seen.contains(**name)).collect();
                assert!(unknown.is_empty(), "{unknown:?}");
            }
            assert!(!seen.is_empty());
        }
    }
}
