//! The cases of a suite: a program, or two that talk to each other, and the device they use.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use super::Check;

/// Names built-in providers instead of which the C plugin is to be taken.
pub const PREFER_PLUGIN: &str = "IBVERBS_PREFER_PLUGIN";

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

/// One test: a program, or two that talk to each other.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub server: Option<Server>,
    pub client: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Commands that are run first.
    pub before: Vec<String>,
    /// Conditions on the output, beside both ending with status 0.
    pub checks: Vec<Check>,
    /// The device lacks this; ending with an error message is an answer, compared as such.
    pub may_refuse: bool,
    /// How many processes load libibverbs at least, if it is more than the programs named; 0 if the
    /// library is a part of them.
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
    /// A UDP port is bound.
    Udp(u16),
    /// A connection manager id listens.
    RdmaCm,
    /// A multicast group, as /proc/net/igmp spells it, was joined.
    Multicast(&'static str),
}

pub(super) fn words(line: &str) -> Vec<String> {
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

    /// Starts both programs by this one.
    pub fn client_and_server_by(mut self, program: &str) -> Self {
        self.client.insert(0, program.into());
        if let Some(server) = &mut self.server {
            server.words.insert(0, program.into());
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
