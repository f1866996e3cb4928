//! Devices and ports in sysfs, and their nodes.

use std::{os::unix::fs::FileTypeExt, path::Path};

use rustix::fs::{AtFlags, CWD};

use super::{
    Probe, cards,
    root::{names, read},
};
use crate::facts::{Access, Device, Gid, Port};

pub(super) fn all(probe: &Probe) -> Vec<Device> {
    let class = probe.sys("class/infiniband");
    let devices = names(&class).into_iter().map(|name| {
        let at = class.join(&name);
        let node = node(probe, &name);
        Device {
            access: node.as_deref().map_or(Access::Missing, |node| {
                access(&probe.file("dev/infiniband").join(node))
            }),
            provider: cards::provider(probe, &name),
            firmware: read(&at.join("fw_ver")),
            ports: ports(&at),
            node,
            name,
        }
    });
    devices.collect()
}

/// The node that `ib_uverbs` made for a device.
fn node(probe: &Probe, device: &str) -> Option<String> {
    let class = probe.sys("class/infiniband_verbs");
    names(&class)
        .into_iter()
        .find(|node| read(&class.join(node).join("ibdev")) == device)
}

/// A node is a character device; in a test folder, a plain file suffices, because making devices
/// takes rights that tests need not have.
pub(super) fn access(path: &Path) -> Access {
    let Ok(found) = path.metadata() else {
        return Access::Missing;
    };
    let real = path.starts_with("/dev");
    if real && !found.file_type().is_char_device() {
        return Access::Missing;
    }
    let wanted = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
    match rustix::fs::accessat(CWD, path, wanted, AtFlags::EACCESS) {
        Ok(()) => Access::Granted,
        Err(_) => Access::Denied,
    }
}

fn ports(device: &Path) -> Vec<Port> {
    let folder = device.join("ports");
    let mut ports: Vec<Port> = names(&folder)
        .into_iter()
        .filter_map(|name| {
            let at = folder.join(&name);
            Some(Port {
                number: name.parse().ok()?,
                // "4: ACTIVE"
                state: behind_colon(&read(&at.join("state"))),
                physical: behind_colon(&read(&at.join("phys_state"))),
                link_layer: read(&at.join("link_layer")),
                interface: interface(device, &at),
                gids: gids(&at),
            })
        })
        .collect();
    ports.sort_by_key(|port| port.number);
    ports
}

fn behind_colon(text: &str) -> String {
    let (_, word) = text.split_once(':').unwrap_or(("", text));
    word.trim().to_owned()
}

/// Of a GID, or of the card: soft devices name their parent.
fn interface(device: &Path, port: &Path) -> Option<String> {
    let of_gids = port.join("gid_attrs/ndevs");
    let of_gid = names(&of_gids)
        .into_iter()
        .map(|name| read(&of_gids.join(name)))
        .find(|name| !name.is_empty());
    let parent = || Some(read(&device.join("parent"))).filter(|name| !name.is_empty());
    let of_card = || names(&device.join("device/net")).into_iter().next();
    of_gid.or_else(parent).or_else(of_card)
}

fn gids(port: &Path) -> Vec<Gid> {
    let folder = port.join("gids");
    let mut gids: Vec<Gid> = names(&folder)
        .into_iter()
        .filter_map(|name| {
            let text = read(&folder.join(&name));
            let set = text.chars().any(|c| c != '0' && c != ':');
            // A place that is empty has a prefix and nothing behind it.
            let (_, low) = text.split_at_checked(20)?;
            let used = set && low.chars().any(|c| c != '0' && c != ':');
            used.then(|| Gid {
                index: name.parse().unwrap_or(u32::MAX),
                kind: read(&port.join("gid_attrs/types").join(&name)),
                text,
            })
        })
        .collect();
    gids.sort_by_key(|gid| gid.index);
    gids
}
