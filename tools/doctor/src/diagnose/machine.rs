//! The kernel, the cards, the nodes.

use super::finding::{Finding, Weight, usable};
use crate::facts::{Access, Device, Facts};

/// Of having nothing in the kernel: where software was chosen and works, it is no problem.
fn weight(facts: &Facts) -> Weight {
    match usable(facts).next() {
        Some(_) => Weight::Note,
        None => Weight::Problem,
    }
}

pub(super) fn kernel(facts: &Facts, findings: &mut Vec<Finding>) {
    let kernel = &facts.kernel;
    if !kernel.foreign.is_empty() {
        let names = kernel.foreign.join(", ");
        let finding = Finding::warning(
            "foreign-stack",
            format!("The RDMA modules are not the kernel's own: {names}"),
        );
        findings.push(
            finding
                .why(
                    "They come from a vendor's stack (MLNX_OFED, DOCA). Such a stack has its providers, \
                     which must be of its release.",
                )
                .type_("modinfo -F filename ib_core")
                .type_("# to go back to the kernel's: remove the vendor's stack, then reboot"),
        );
    }
    if kernel.uverbs {
        return;
    }
    // The kind of modules is unknown where /lib/modules is hidden, as in a container.
    if !kernel.core && kernel.modules == Some(false) {
        let release = &kernel.release;
        let finding = Finding::new(
            "kernel-without-rdma",
            weight(facts),
            format!("The kernel {release} has no RDMA, and no modules for it are installed"),
        );
        findings.push(
            finding
                .why("It was built without CONFIG_INFINIBAND, or its modules come in a package.")
                .type_("apt-get install linux-image-amd64                 # Debian; not the cloud image")
                .type_(format!("apt-get install linux-modules-extra-{release}   # Ubuntu"))
                .type_("dnf install kernel-modules-extra rdma-core        # Fedora, RHEL"),
        );
        return;
    }
    let finding = Finding::new(
        "uverbs-not-loaded",
        weight(facts),
        "The kernel's module ib_uverbs is not loaded, which programs talk to",
    );
    let why = match facts.nodes.container {
        Some(_) => "Modules are the host's: a container cannot load them.",
        None => "Packages of rdma-core load it when a device appears; it may have been left out.",
    };
    findings.push(
        finding
            .why(why)
            .type_("modprobe ib_uverbs")
            .type_("echo ib_uverbs >/etc/modules-load.d/rdma.conf   # for the next start"),
    );
}

pub(super) fn cards(facts: &Facts, findings: &mut Vec<Finding>) {
    for card in &facts.cards {
        let about = format!("{} ({})", card.address, card.id);
        let (module, rdma) = card.modules;
        match card.driver.as_deref() {
            None => findings.push(
                Finding::problem(
                    "card-without-driver",
                    "A card that can do RDMA has no driver",
                )
                .about(&about)
                .why("Nothing in the kernel has taken it.")
                .type_(format!("modprobe -a {}", module.replace(" or ", " ")))
                .type_(format!("dmesg | grep {}", card.address)),
            ),
            Some("vfio-pci" | "pci-stub" | "uio_pci_generic" | "igb_uio") => findings.push(
                Finding::warning(
                    "card-given-away",
                    "A card that can do RDMA is given away, to a virtual machine or to DPDK",
                )
                .about(&about)
                .why("Its driver is a placeholder, so the kernel has no device of it.")
                .type_(format!("driverctl unset-override {}", card.address)),
            ),
            // Some card of the machine has a device; which one is unknown from outside.
            Some(_) if facts.devices.is_empty() => findings.push(
                Finding::problem(
                    "card-without-device",
                    "A card has a driver, but no RDMA device",
                )
                .about(&about)
                .why("Its RDMA driver is a separate module, or RDMA is switched off in the card.")
                .type_(format!("modprobe {rdma}"))
                .type_(format!("dmesg | grep -e {rdma} -e {}", card.address))
                .type_("rdma link"),
            ),
            Some(_) => {}
        }
    }
    if !facts.devices.is_empty() || !facts.cards.is_empty() {
        return;
    }
    let finding = Finding::new(
        "no-card",
        weight(facts),
        "No card that can do RDMA is in this machine",
    );
    findings.push(
        finding
            .why("None is on the PCI bus, and the kernel has no device. Software can stand in.")
            .type_("lspci -nn | grep -i -e ethernet -e infiniband")
            .type_("rdma link add rxe0 type rxe netdev eth0         # in the kernel (soft RoCE)"),
    );
}

/// The devices whose nodes are in a state.
fn with(facts: &Facts, access: Access) -> Vec<&Device> {
    let found = facts.devices.iter();
    found
        .filter(|device| device.node.is_some() && device.access == access)
        .collect()
}

fn list(devices: &[&Device]) -> String {
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    names.join(", ")
}

pub(super) fn nodes(facts: &Facts, findings: &mut Vec<Finding>) {
    let missing = with(facts, Access::Missing);
    if !missing.is_empty() {
        findings.push(hidden(facts, &missing));
    }
    let denied = with(facts, Access::Denied);
    let Some(first) = denied.first() else {
        return;
    };
    let node = first.node.as_deref().unwrap_or_default();
    findings.push(
        Finding::problem(
            "permission",
            format!("This user may not open /dev/infiniband/{node}"),
        )
        .about(&list(&denied))
        .why("Programs open it for reading and writing; rdma-core's rules make it 0666, some distributions give it to the group rdma.")
        .type_(format!("ls -l /dev/infiniband/{node}"))
        .type_("usermod -a -G rdma $USER          # if the group is rdma; then log in again")
        .type_(r#"echo 'KERNEL=="uverbs*", MODE="0666"' >/etc/udev/rules.d/99-rdma.rules && udevadm trigger -s infiniband_verbs"#),
    );
}

fn hidden(facts: &Facts, missing: &[&Device]) -> Finding {
    let names = list(missing);
    let node = missing.first().and_then(|device| device.node.as_deref());
    let node = node.unwrap_or_default();
    let nodes = &facts.nodes;
    if let Some(engine) = &nodes.container {
        return Finding::problem(
            "hidden-by-container",
            format!("This container ({engine}) was started without the devices"),
        )
        .about(&names)
        .why("The kernel shows them, but their nodes are not in the container's /dev.")
        .type_("docker run --device /dev/infiniband --ulimit memlock=-1 ...")
        .type_(
            "# Kubernetes: a device plugin for RDMA, and its resource in the limits of the pod",
        );
    }
    if nodes.private {
        return Finding::problem(
            "hidden-by-systemd",
            "This service was started with a private /dev",
        )
        .about(&names)
        .why("PrivateDevices=yes hides the nodes of hardware.")
        .type_("systemctl edit SERVICE")
        .type_("# [Service]")
        .type_("# PrivateDevices=no")
        .type_("# DeviceAllow=char-infiniband_verbs rw");
    }
    let what = match nodes.folder {
        true => format!("There is no /dev/infiniband/{node}"),
        false => "There is no /dev/infiniband".to_owned(),
    };
    Finding::problem("node-missing", what)
        .about(&names)
        .why("The kernel shows the device; udev should have made its node.")
        .type_("udevadm trigger --action=add --subsystem-match=infiniband_verbs && udevadm settle")
}
