//! The ports of the devices, and their interfaces.

use super::finding::Finding;
use crate::facts::{ETHERNET, Facts, Interface, PORT_ACTIVE, VerbsDevice, VerbsPort};

const DOWN: u32 = 1;
const INIT: u32 = 2;
const ARMED: u32 = 3;

pub(super) fn all(facts: &Facts, findings: &mut Vec<Finding>) {
    let devices = facts.verbs.iter().flat_map(|verbs| &verbs.devices);
    for device in devices.filter(|device| device.error.is_none()) {
        for port in &device.ports {
            let about = format!("{} port {}", device.name, port.number);
            let interface = interface(facts, device, port);
            findings.extend(state(port, interface).map(|finding| finding.about(&about)));
            if port.state == PORT_ACTIVE && port.link_layer == ETHERNET {
                findings.extend(gids(port, interface).map(|finding| finding.about(&about)));
                findings.extend(mtu(port, interface).map(|finding| finding.about(&about)));
            }
        }
    }
    // Without the library, sysfs shows as much.
    if facts.verbs.is_none() {
        for device in &facts.devices {
            for port in &device.ports {
                findings.extend(in_sysfs(facts, &device.name, port));
            }
        }
    }
}

/// The network interface of a port: of its GIDs, or as sysfs or the device's name has it.
fn interface<'f>(
    facts: &'f Facts,
    device: &VerbsDevice,
    port: &VerbsPort,
) -> Option<(&'f str, &'f Interface)> {
    let index = port
        .gids
        .iter()
        .map(|gid| gid.interface)
        .find(|index| *index != 0);
    let by_index = facts
        .interfaces
        .iter()
        .find(|(_, interface)| Some(interface.index) == index);
    let known = facts.devices.iter().find(|known| known.name == device.name);
    let in_sysfs = known.and_then(|known| {
        let port = known
            .ports
            .iter()
            .find(|of| of.number == u32::from(port.number));
        port.and_then(|port| port.interface.as_deref())
    });
    let named = in_sysfs.or_else(|| device.name.strip_prefix("uroce_"));
    let by_name = named.and_then(|name| facts.interfaces.get_key_value(name));
    let (name, interface) = by_index.or(by_name)?;
    Some((name.as_str(), interface))
}

fn state(port: &VerbsPort, interface: Option<(&str, &Interface)>) -> Option<Finding> {
    match port.state {
        PORT_ACTIVE => None,
        DOWN => Some(down(port.link_layer == ETHERNET, interface)),
        INIT | ARMED => Some(without_manager()),
        _ => Some(
            Finding::problem(
                "port-not-active",
                format!("The port is in the state {}", port.state),
            )
            .type_("rdma link; dmesg | tail"),
        ),
    }
}

fn down(ethernet: bool, interface: Option<(&str, &Interface)>) -> Finding {
    match interface {
        Some((name, interface)) if !interface.up => Finding::problem(
            "netdev-down",
            format!("The network interface {name} is switched off"),
        )
        .why("A port of RoCE or iWARP follows its network interface.")
        .type_(format!("ip link set {name} up")),
        Some((name, _)) if ethernet => Finding::problem(
            "port-down",
            format!("The port is down, {name} has no carrier"),
        )
        .why(
            "The interface is switched on; the cable, the module in it or the switch is not there.",
        )
        .type_(format!("ethtool {name}; ip -s link show {name}"))
        .type_(format!("ethtool -m {name}          # the optical module")),
        _ => Finding::problem("port-down", "The port is down")
            .why("No cable, or nothing that answers at its other end.")
            .type_("rdma link; ibstat")
            .type_("ip link                    # RoCE: is the interface up?"),
    }
}

/// On InfiniBand the link is there, and no subnet manager has given it an address.
fn without_manager() -> Finding {
    Finding::problem(
        "port-not-active",
        "The link is up, but no subnet manager has set it up",
    )
    .why("An InfiniBand network needs one subnet manager, on a switch or on a host.")
    .type_("sminfo")
    .type_("systemctl start opensm     # on one host, if no switch runs one")
}

fn gids(port: &VerbsPort, interface: Option<(&str, &Interface)>) -> Option<Finding> {
    let name = interface.map_or("eth0", |(name, _)| name);
    if port.gids.is_empty() {
        return Some(
            Finding::problem("no-gid", "The port has no GID, so it cannot be addressed")
                .why("GIDs are made from the addresses of the network interface, which has none.")
                .type_(format!("ip address add 192.168.1.1/24 dev {name}")),
        );
    }
    if !port.gids.iter().any(|gid| gid.roce_v2) {
        return Some(
            Finding::warning("no-roce-v2", "The port has GIDs of RoCE v1 alone")
                .why("RoCE v1 is not routed, and peers that have chosen RoCE v2 do not hear it.")
                .type_("cma_roce_mode -d DEVICE -p 1 -m 2"),
        );
    }
    let link_local = |raw: &[u8; 16]| raw.starts_with(&[0xfe, 0x80]);
    port.gids.iter().all(|gid| link_local(&gid.raw)).then(|| {
        Finding::warning("no-address", "The port has link-local GIDs alone")
            .why("Peers of other networks cannot be reached, and programs that are given an IP address find no GID for it.")
            .type_(format!("ip address add 192.168.1.1/24 dev {name}"))
    })
}

/// Packets have up to 96 bytes of headers.
fn mtu(port: &VerbsPort, interface: Option<(&str, &Interface)>) -> Option<Finding> {
    const HEADERS: u32 = 96;
    let (name, interface) = interface?;
    let (active, largest) = (port.active_mtu, port.max_mtu);
    if active == 0 || active >= largest {
        return None;
    }
    let wanted = largest + HEADERS;
    let finding = Finding::note(
        "mtu",
        format!(
            "The path MTU is {active} of {largest} bytes: {name} takes frames of {}",
            interface.mtu
        ),
    );
    Some(
        finding
            .why("Larger packets cost less. All interfaces and switches of the network have to take them.")
            .type_(format!("ip link set {name} mtu {}", wanted.max(4200))),
    )
}

/// Findings from the kernel's files of a port.
fn in_sysfs(facts: &Facts, device: &str, port: &crate::facts::Port) -> Option<Finding> {
    let about = format!("{device} port {}", port.number);
    let ethernet = port.link_layer == "Ethernet";
    let interface = port
        .interface
        .as_ref()
        .and_then(|name| facts.interfaces.get_key_value(name.as_str()))
        .map(|(name, interface)| (name.as_str(), interface));
    let finding = match port.state.as_str() {
        "ACTIVE" if ethernet && port.gids.is_empty() => gids(&VerbsPort::default(), interface)?,
        "ACTIVE" => return None,
        "INIT" | "ARMED" => without_manager(),
        _ => down(ethernet, interface),
    };
    Some(finding.about(&about))
}
