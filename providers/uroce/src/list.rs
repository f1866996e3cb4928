//! The devices that there are now.

use crate::config::{self, Wanted};
use crate::context::Context;
use crate::device::ports;
use crate::files::Tree;
use crate::netdev::Interface;
use kit::abi::IBV_NODE_CA;
use kit::abi::handle::HeldDevice;
use kit::errno::{Errno, Result};
use kit::log::{self, Level};
use kit::provider::{self, DeviceSpec, Opened};
use kit::sys::denied;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

/// A device: the same one as long as name and interface are the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// Its name, `uroce_` and that of its interface.
    pub name: String,
    /// Index of the interface.
    pub interface: u32,
    /// Node GUID, in the host's byte order.
    pub guid: u64,
}

/// The devices, and why others are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// In the order of the interfaces' indices.
    pub devices: Vec<Device>,
    /// One line for each problem, with advice.
    pub complaints: Vec<String>,
}

/// Which devices the program or the configuration asks for and are there. `variable` is the value
/// of [`config::VARIABLE`], none in a process that must not trust its environment.
#[must_use]
pub fn devices(variable: Option<&OsStr>) -> Listing {
    let (wanted, mut complaints) = match config::asked() {
        Some(wanted) => (wanted.clone(), Vec::new()),
        None => config::read(variable, Path::new(config::FILE)),
    };
    if wanted.is_none() {
        return Listing {
            devices: Vec::new(),
            complaints,
        };
    }
    let found = match ports().and_then(|ports| ports.look_for(|i| wanted.wants(&i.name))) {
        Ok(interfaces) => choose(&wanted, &interfaces),
        Err(e) => Listing {
            devices: Vec::new(),
            complaints: vec![not_listed(e, denied::calls())],
        },
    };
    complaints.extend(found.complaints);
    Listing {
        devices: found.devices,
        complaints,
    }
}

fn not_listed(e: Errno, denied: Option<String>) -> String {
    let what = denied.map_or_else(
        || "open netlink sockets (AF_NETLINK, NETLINK_ROUTE)".to_owned(),
        |calls| format!("call {calls}"),
    );
    format!(
        "no devices: the network interfaces cannot be listed (errno {}): let this process {what}",
        e.raw()
    )
}

fn choose(wanted: &Wanted, interfaces: &[Interface]) -> Listing {
    let mut chosen: Vec<_> = interfaces
        .iter()
        .filter(|i| wanted.wants(&i.name))
        .collect();
    chosen.sort_by_key(|interface| interface.index);
    let missing = wanted
        .names
        .iter()
        .filter(|name| !interfaces.iter().any(|i| i.name == **name));
    Listing {
        devices: chosen.into_iter().map(device).collect(),
        complaints: missing.map(|name| complaint(name)).collect(),
    }
}

fn complaint(name: &str) -> String {
    format!(
        "no device uroce_{name}: there is no network interface '{name}': \
         name one that 'ip link' shows in {} or {}",
        config::VARIABLE,
        config::FILE
    )
}

fn device(interface: &Interface) -> Device {
    Device {
        name: format!("uroce_{}", interface.name),
        interface: interface.index,
        guid: crate::device::guid(interface),
    }
}

/// Makes a device for C. Opening it finds the port of the process that opens, which may be a forked
/// child of the one that listed.
///
/// # Errors
/// ENAMETOOLONG, EINVAL for a name that C cannot hold.
pub fn make(device: &Device) -> Result<HeldDevice> {
    let interface = device.interface;
    // As long as there is the device.
    let files = show(device);
    let path = files.as_ref().map_or("", |files| files.path());
    let spec = DeviceSpec {
        ibdev_path: path.to_owned(),
        name: device.name.clone(),
        node_type: IBV_NODE_CA,
        guid: device.guid,
        identity: interface.into(),
    };
    let name = device.name.clone();
    provider::Device::new(spec, move || {
        let _ = &files;
        open(interface).inspect_err(|e| {
            let why = why_not_opened(*e, denied::calls());
            log::line(
                Level::Error,
                &format!("uroce: {name} cannot be opened: {why}"),
            );
        })
    })
}

/// The files of a device. Without them all else works.
fn show(device: &Device) -> Option<Arc<Tree>> {
    let port = ports().and_then(|ports| ports.of(device.interface));
    let files = port.and_then(|port| port.show(&device.name));
    let why = |e: &Errno| {
        let name = &device.name;
        let errno = e.raw();
        log::line(
            Level::Warning,
            &format!(
                "uroce: {name} has no files (errno {errno}): ibdev_path is empty. Let \
                 XDG_RUNTIME_DIR be a directory that is this user's alone"
            ),
        );
    };
    files.inspect_err(why).ok()
}

fn open(interface: u32) -> Result<Opened<Context>> {
    let port = ports()?.of(interface)?;
    let (provider, async_fd) = Context::open(&port)?;
    warn_of_packets();
    Ok(Opened { provider, async_fd })
}

/// Says, once in a process, why nothing will arrive: a packet that may not be sent is as one that
/// is lost.
fn warn_of_packets() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        if let Some(calls) = denied::of_packets() {
            log::line(
                Level::Warning,
                &format!(
                    "uroce: this process may not call {calls}: requests may end with \
                     IBV_WC_RETRY_EXC_ERR; its sandbox has to let it"
                ),
            );
        }
    });
}

/// The problem, with advice.
fn why_not_opened(e: Errno, denied: Option<String>) -> String {
    if let Some(calls) = denied.filter(|_| e.is_denial()) {
        return format!(
            "this process may not call {calls}: its sandbox has to let it (errno {})",
            e.raw()
        );
    }
    let known = match e.raw() {
        libc::EADDRINUSE => {
            "UDP port 4791 belongs to another user's program or to the kernel's soft-RoCE: \
             'ss -uanp sport = 4791' shows which; end it, or 'modprobe -r rdma_rxe', or run this \
             program in another network namespace"
        }
        libc::ENOSYS => {
            "UROCE_CARRIER=shm, and the kernel, or what this program runs in, has no pidfd_open(2) or \
             memfd_create(2): leave the variable out"
        }
        libc::EFBIG => {
            "UROCE_CARRIER=shm, and files, and memory with them, may not be so long: raise 'ulimit -f' or \
             leave the variable out"
        }
        libc::EADDRNOTAVAIL => {
            "1022 processes have devices open in this network namespace: end some, or run this \
             one in another namespace"
        }
        libc::ENODEV => "its network interface is gone: list the devices again",
        libc::EMFILE => "this process may open no more files: raise 'ulimit -n'",
        libc::EAGAIN => "this user may have no more threads: raise 'ulimit -u'",
        libc::EPERM | libc::EACCES => {
            "this process may not open UDP or netlink sockets: its sandbox has to let it"
        }
        _ => "",
    };
    match known {
        "" => format!("errno {}", e.raw()),
        known => format!("{known} (errno {})", e.raw()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, index: u32) -> Interface {
        Interface {
            name: name.to_owned(),
            index,
            ..Interface::default()
        }
    }

    fn wanted(all: bool, names: &[&str]) -> Wanted {
        Wanted {
            all,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn those_that_are_wanted_and_there() {
        let interfaces = [interface("eth0", 2), interface("lo", 1)];
        let names = |wanted| {
            let listing = choose(&wanted, &interfaces);
            let names: Vec<_> = listing.devices.into_iter().map(|d| d.name).collect();
            (names.join(" "), listing.complaints)
        };
        assert_eq!(names(wanted(true, &[])).0, "uroce_lo uroce_eth0");
        assert_eq!(names(wanted(false, &["eth0"])).0, "uroce_eth0");
        let (found, complaints) = names(wanted(false, &["eth1", "lo"]));
        assert_eq!((found.as_str(), complaints.len()), ("uroce_lo", 1));
        assert!(complaints[0].contains("'eth1'"), "{complaints:?}");
    }

    #[test]
    fn every_reason_has_a_remedy() {
        for (errno, word) in [
            (libc::EADDRINUSE, "rdma_rxe"),
            (libc::EMFILE, "ulimit"),
            (libc::ENOSYS, "UROCE_CARRIER"),
            (libc::EFBIG, "ulimit -f"),
            (libc::EIO, "errno 5"),
        ] {
            let why = why_not_opened(Errno(errno), None);
            assert!(why.contains(word), "{why}");
            assert!(why.contains(&format!("errno {errno}")), "{why}");
        }
    }

    #[test]
    fn none_are_wanted_by_default() {
        assert_eq!(devices(Some(OsStr::new(""))), Listing::default());
        assert_eq!(devices(Some(OsStr::new("lo"))).devices.len(), 1);
        let none = devices(Some(OsStr::new("no such")));
        assert_eq!((none.devices.len(), none.complaints.len()), (0, 2));
    }
}
