//! The kernel, the process, its environment, the network interfaces.

use std::{collections::BTreeMap, path::Path};

use rustix::process::{Resource, getrlimit};

use super::{
    Probe,
    root::{names, read, read_number},
};
use crate::facts::{Interface, Kernel, Memlock, Nodes};

pub(super) fn kernel(probe: &Probe) -> Kernel {
    let release = read(&probe.file("proc/sys/kernel/osrelease"));
    let there = |path: &str| probe.sys(path).exists();
    Kernel {
        core: there("module/ib_core") || there("class/infiniband"),
        uverbs: there("module/ib_uverbs") || there("class/infiniband_verbs"),
        modules: modules(&probe.file("lib/modules").join(&release)),
        foreign: foreign(probe),
        release,
    }
}

/// Whether the module of verbs is among those that are installed for the kernel, or in it.
fn modules(folder: &Path) -> Option<bool> {
    let lists: Vec<String> = ["modules.dep", "modules.builtin"]
        .iter()
        .map(|name| read(&folder.join(name)))
        .collect();
    if lists.iter().all(String::is_empty) {
        return None;
    }
    Some(lists.iter().any(|list| list.contains("/ib_uverbs.ko")))
}

/// Modules that the kernel marks with `O`: they were built outside of its tree.
fn foreign(probe: &Probe) -> Vec<String> {
    [
        "ib_core",
        "ib_uverbs",
        "mlx5_core",
        "mlx5_ib",
        "mlx4_ib",
        "irdma",
        "bnxt_re",
    ]
    .iter()
    .filter(|name| read(&probe.sys("module").join(name).join("taint")).contains('O'))
    .map(|name| (*name).to_owned())
    .collect()
}

pub(super) fn nodes(probe: &Probe) -> Nodes {
    let dev = probe.file("dev");
    // PrivateDevices leaves these, and no node of a piece of hardware, not even of memory.
    let has = |name: &str| dev.join(name).exists();
    let private = has("null") && has("urandom") && !has("mem") && !has("kmsg") && !has("rtc0");
    let container = container(probe);
    Nodes {
        folder: has("infiniband"),
        private: private && container.is_none() && in_service(probe),
        container,
    }
}

/// The signs that container engines leave.
fn container(probe: &Probe) -> Option<String> {
    let there = |path: &str| probe.file(path).exists();
    if there("run/.containerenv") {
        return Some("podman".into());
    }
    if there(".dockerenv") {
        return Some("docker".into());
    }
    if there("var/run/secrets/kubernetes.io") {
        return Some("kubernetes".into());
    }
    let named = read(&probe.file("run/systemd/container"));
    (!named.is_empty()).then_some(named)
}

/// Whether this process belongs to a service of systemd.
fn in_service(probe: &Probe) -> bool {
    let groups = read(&probe.file("proc/self/cgroup"));
    groups.lines().any(|line| line.contains(".service"))
}

pub(super) fn memlock() -> Memlock {
    let set = rustix::thread::capabilities(None);
    Memlock {
        limit: getrlimit(Resource::Memlock).current,
        exempt: set.is_ok_and(|sets| {
            let lock = rustix::thread::CapabilitySet::IPC_LOCK;
            sets.effective.contains(lock)
        }),
    }
}

pub(super) fn interfaces(probe: &Probe) -> BTreeMap<String, Interface> {
    let class = probe.sys("class/net");
    let found = names(&class).into_iter().filter_map(|name| {
        let at = class.join(&name);
        let index = read_number(&at.join("ifindex"))?;
        let up = read_number(&at.join("flags")).is_some_and(|flags| flags & 1 != 0);
        // An interface whose lower layer reports the state has "down"; `lo` has "unknown".
        let state = read(&at.join("operstate"));
        let interface = Interface {
            index,
            up,
            carrier: up && state != "down" && state != "lowerlayerdown",
            mtu: read_number(&at.join("mtu")).unwrap_or(0),
        };
        Some((name, interface))
    });
    found.collect()
}
