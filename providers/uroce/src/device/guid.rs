//! Node GUIDs.
//!
//! A GUID is made of the host, the network namespace and the interface. Connection managers on
//! other hosts distinguish hosts by it, so interfaces without an Ethernet address
//! (`lo` is one) need GUIDs that differ from host to host, and so do interfaces of containers,
//! whose Ethernet addresses are often the same on each host. It is not the EUI-64 of the Ethernet
//! address: kernel RoCE on the same interface has that one, and rdma-core's librdmacm
//! distinguishes devices by their GUIDs.
//!
//! The host is represented by its boot id, which all containers of a host share, unlike
//! /etc/machine-id. So a GUID lasts until the next boot.

use crate::netdev::Interface;
use kit::sys::first::First;
use std::fs::read_to_string;
use std::os::linux::fs::MetadataExt;

/// The bits for "group" and "universal" of an EUI-64: those of an address that was made here.
const GROUP: u64 = 1 << 56;
const UNIVERSAL: u64 = 1 << 57;

/// The surroundings of an interface.
#[derive(Clone, Debug)]
struct Environment {
    host: String,
    /// Device and inode of the network namespace.
    namespace: (u64, u64),
}

/// The GUID of an interface of this network namespace.
pub fn of(interface: &Interface) -> u64 {
    static HOST: First<String> = First::new();
    let place = Environment {
        host: HOST.get_or_make(host).clone(),
        namespace: namespace(),
    };
    made(&place, interface)
}

/// Empty where nothing distinguishes hosts.
fn host() -> String {
    const FILES: [&str; 2] = ["/proc/sys/kernel/random/boot_id", "/etc/machine-id"];
    let mut texts = FILES
        .iter()
        .filter_map(|file| read_to_string(file).ok())
        .filter(|text| !text.trim().is_empty());
    texts.next().unwrap_or_default()
}

fn namespace() -> (u64, u64) {
    // That of the thread: a process may have threads in several.
    let found = std::fs::metadata("/proc/thread-self/ns/net");
    found.map_or((0, 0), |found| (found.st_dev(), found.st_ino()))
}

/// The same for the same place, name, index and Ethernet address.
fn made(place: &Environment, interface: &Interface) -> u64 {
    let (device, inode) = place.namespace;
    let parts: [&[u8]; 6] = [
        &interface.mac.unwrap_or_default(),
        &interface.index.to_be_bytes(),
        &device.to_be_bytes(),
        &inode.to_be_bytes(),
        place.host.as_bytes(),
        interface.name.as_bytes(),
    ];
    let bytes = parts.into_iter().flatten();
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    mixed(hash) & !(GROUP | UNIVERSAL)
}

/// FNV-1a mixes the last bytes little into the high bits.
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lo() -> Interface {
        Interface {
            name: "lo".to_owned(),
            index: 1,
            ..Interface::default()
        }
    }

    #[test]
    fn each_part_counts() {
        let place = Environment {
            host: "a".to_owned(),
            namespace: (1, 2),
        };
        let host = Environment {
            host: "b".to_owned(),
            ..place.clone()
        };
        let namespace = Environment {
            namespace: (1, 3),
            ..place.clone()
        };
        let interfaces = [
            lo(),
            Interface { index: 2, ..lo() },
            Interface {
                name: "l1".to_owned(),
                ..lo()
            },
            Interface {
                mac: Some([2, 0, 0, 0, 0, 0x0a]),
                ..lo()
            },
        ];
        let places = [&place, &host, &namespace];
        let guids = places.map(|place| interfaces.clone().map(|i| made(place, &i)));
        let all: std::collections::BTreeSet<_> = guids.iter().flatten().collect();
        assert_eq!(all.len(), 12);
        assert!(all.iter().all(|guid| **guid & (GROUP | UNIVERSAL) == 0));
        assert_eq!(made(&place, &lo()), guids[0][0]);
    }

    #[test]
    fn an_ethernet_address_does_not_show() {
        let mac = [0x02, 0, 0, 0, 0, 0x0a];
        let ethernet = Interface {
            mac: Some(mac),
            ..lo()
        };
        let [a, b, c, d, e, f] = mac;
        let eui64 = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
        assert_ne!(of(&ethernet), eui64);
        assert_eq!(of(&ethernet), of(&ethernet));
    }

    #[test]
    fn host_and_namespace_are_known() {
        assert_ne!(namespace(), (0, 0));
        assert!(host().trim().len() >= 32, "{:?}", host());
    }
}
