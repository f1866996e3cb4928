//! The kernel's connection manager, and the librdmacm that programs load.

use std::{env, fs, path::PathBuf};

use memchr::memmem;

use super::{
    Probe, devices,
    root::{names, read},
};
use crate::facts::Cm;

const LIBRARY: &str = "librdmacm.so.1";
/// The function by which a librdmacm reaches devices in user space.
const UROCE_FUNCTION: &[u8] = b"ferroverbs_connection_manager";

pub(super) fn all(probe: &Probe) -> Cm {
    let there = |path: &str| probe.sys(path).exists();
    let library = library(probe);
    Cm {
        module: there("module/rdma_ucm") || there("class/misc/rdma_cm"),
        access: devices::access(&probe.file("dev/infiniband/rdma_cm")),
        reaches_uroce: library.as_ref().is_some_and(|path| {
            let bytes = fs::read(path).unwrap_or_default();
            memmem::find(&bytes, UROCE_FUNCTION).is_some()
        }),
        library: library.map(|path| path.to_string_lossy().into_owned()),
    }
}

/// The first that the dynamic linker finds (ld.so(8)).
fn library(probe: &Probe) -> Option<PathBuf> {
    folders(probe)
        .into_iter()
        .map(|folder| folder.join(LIBRARY))
        .find(|path| path.exists())
}

fn folders(probe: &Probe) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if probe.is_this_machine()
        && let Some(list) = env::var_os("LD_LIBRARY_PATH")
    {
        folders.extend(env::split_paths(&list).filter(|folder| !folder.as_os_str().is_empty()));
    }
    let more = probe.file("etc/ld.so.conf.d");
    let lists = names(&more).into_iter().map(|name| more.join(name));
    for list in lists.chain([probe.file("etc/ld.so.conf")]) {
        let text = read(&list);
        let absolute = text.lines().filter_map(|line| line.strip_prefix('/'));
        folders.extend(absolute.map(|folder| probe.file(folder.trim())));
    }
    for folder in ["lib", "usr/lib", "lib64", "usr/lib64"] {
        folders.push(probe.file(folder));
    }
    folders
}
