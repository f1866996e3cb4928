//! Why programs that connect by `rdma_cm` do not.

use super::finding::{Finding, usable};
use crate::facts::{Access, Facts};

pub(super) fn all(facts: &Facts, findings: &mut Vec<Finding>) {
    kernel(facts, findings);
    library(facts, findings);
}

/// Devices of the kernel have the kernel's connection manager alone.
fn kernel(facts: &Facts, findings: &mut Vec<Finding>) {
    // Devices without nodes are reported already, and the cause is the same.
    let is_hidden = facts.devices.iter().any(|it| it.access == Access::Missing);
    if facts.devices.is_empty() || is_hidden {
        return;
    }
    let cm = &facts.cm;
    match cm.access {
        Access::Granted => {}
        Access::Denied => findings.push(
            Finding::warning("cm-permission", "This user may not open /dev/infiniband/rdma_cm")
                .why("Programs that connect by librdmacm (rdma_connect, rping, perftest -R) fail with EACCES.")
                .type_("ls -l /dev/infiniband/rdma_cm")
                .type_(r#"echo 'KERNEL=="rdma_cm", MODE="0666"' >/etc/udev/rules.d/99-rdma-cm.rules && udevadm trigger -s misc"#),
        ),
        Access::Missing if cm.module => findings.push(
            Finding::warning("cm-node-missing", "There is no /dev/infiniband/rdma_cm")
                .why("The module rdma_ucm is loaded, and programs that connect by librdmacm open this node: udev did not create it, or a container was started with the nodes of devices alone.")
                .type_("udevadm trigger -s misc && udevadm settle")
                .type_("docker run --device /dev/infiniband/rdma_cm ..."),
        ),
        Access::Missing => findings.push(
            Finding::warning("cm-not-loaded", "The kernel's module rdma_ucm is not loaded")
                .why("Programs that connect by librdmacm (rdma_connect, rping, perftest -R) talk to it; without it rdma_create_event_channel fails.")
                .type_("modprobe rdma_ucm")
                .type_("echo rdma_ucm >>/etc/modules-load.d/rdma.conf   # for the next start"),
        ),
    }
}

/// Devices of uroce have that of libibverbs, which rdma-core's librdmacm does not know.
fn library(facts: &Facts, findings: &mut Vec<Finding>) {
    let own = facts.verbs.iter().flat_map(|verbs| &verbs.devices);
    let mut own = own
        .filter(|device| !device.kernel)
        .map(|device| &device.name);
    let is_usable = |name: &&String| usable(facts).any(|usable| usable == name.as_str());
    let Some(name) = own.find(is_usable) else {
        return;
    };
    let cm = &facts.cm;
    match &cm.library {
        Some(path) if !cm.reaches_uroce => findings.push(
            Finding::note(
                "cm-library",
                format!("{path} does not reach devices of uroce"),
            )
            .why("It is rdma-core's librdmacm, which knows the kernel's connection manager alone: programs that use rdma_cm do not connect over uroce.")
            .type_("apt-get install ./libferroverbs-rdmacm1_*.deb")
            .type_("LD_LIBRARY_PATH=DIRECTORY rping ...   # that of this project's librdmacm.so.1"),
        ),
        Some(_) if cm.access == Access::Granted => findings.push(
            Finding::note(
                "cm-of-kernel",
                format!("Programs that use rdma_cm connect by the kernel, and not over {name}"),
            )
            .why("Where /dev/infiniband/rdma_cm can be opened, ids are the kernel's.")
            .type_("ibv_doctor --netdev ADDRESS   # the device that an address belongs to"),
        ),
        _ => {}
    }
}
