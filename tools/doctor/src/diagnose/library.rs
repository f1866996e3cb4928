//! The providers, and the reports of libibverbs.

use super::finding::{Finding, usable};
use crate::facts::{Access, Device, Facts, PluginState, VerbsDevice};

/// Providers built into ferroverbs. rdma-core's library loads them as any other.
const BUILT_IN: &[&str] = &["rxe", "siw"];

/// Registrations of programs that are worth their card.
const USUAL_MEMLOCK: u64 = 64 << 20;

fn verbs_devices(facts: &Facts) -> impl Iterator<Item = &VerbsDevice> {
    facts.verbs.iter().flat_map(|verbs| &verbs.devices)
}

pub(super) fn plugins(facts: &Facts, findings: &mut Vec<Finding>) {
    for device in &facts.devices {
        // The library has the device, so it has a provider for it.
        if verbs_devices(facts).any(|known| known.name == device.name) {
            continue;
        }
        let Some(name) = device.provider else {
            continue;
        };
        if BUILT_IN.contains(&name) && !passed_over(facts, device) {
            continue;
        }
        let plugin = facts.plugins.iter().find(|plugin| plugin.name == name);
        let found = plugin.map(|plugin| &plugin.state);
        if let Some(finding) = plugin_finding(name, found) {
            findings.push(finding.about(&device.name));
        }
    }
    for plugin in &facts.plugins {
        let of_a_device = facts
            .devices
            .iter()
            .any(|device| device.provider == Some(plugin.name.as_str()));
        // One that is missing and not needed is a leftover that costs a look into a folder.
        if of_a_device || plugin.state == PluginState::Missing {
            continue;
        }
        if let Some(mut finding) = plugin_finding(&plugin.name, Some(&plugin.state)) {
            finding.weight = super::Weight::Warning;
            findings.push(finding.about(&plugin.name));
        }
    }
}

/// Whether the library was asked for a device that it could open, and has not got it.
fn passed_over(facts: &Facts, device: &Device) -> bool {
    facts.verbs.is_some() && device.access != Access::Missing
}

fn plugin_finding(name: &str, state: Option<&PluginState>) -> Option<Finding> {
    let install = "apt-get install --reinstall ibverbs-providers";
    let finding = match state {
        Some(PluginState::Fine) => return None,
        None => Finding::problem(
            "provider-missing",
            format!("The provider {name} is not installed"),
        )
        .why("Each kind of device needs its own; no file in /etc/libibverbs.d names this one.")
        .type_("apt-get install ibverbs-providers")
        .type_("dnf install libibverbs"),
        Some(PluginState::Missing) => Finding::problem(
            "provider-missing",
            format!("The provider {name} is named in /etc/libibverbs.d, but its file is missing"),
        )
        .why("A package was removed in part, or installed elsewhere.")
        .type_(install),
        Some(PluginState::Foreign(theirs, ours)) => Finding::problem(
            "provider-foreign",
            format!("The provider {name} is for another architecture"),
        )
        .why(format!(
            "Its ELF header says machine {theirs}, this machine's programs are of {ours}."
        ))
        .type_("dpkg --print-architecture; dpkg -l ibverbs-providers")
        .type_(install),
        Some(PluginState::Generation(theirs, ours)) => Finding::problem(
            "provider-generation",
            format!("The provider {name} is of the generation {theirs} and cannot be loaded"),
        )
        .why(format!(
            "Providers and library share private structures; this library has those of {}.",
            ours.iter()
                .map(u16::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ))
        .type_("dpkg -l ibverbs-providers libibverbs1 libferroverbs1")
        .type_(install),
        Some(PluginState::Damaged(why)) => Finding::problem(
            "provider-damaged",
            format!("The provider {name} cannot be read"),
        )
        .why(why.clone())
        .type_(install),
    };
    Some(finding)
}

pub(super) fn devices(facts: &Facts, findings: &mut Vec<Finding>) {
    let Some(verbs) = &facts.verbs else {
        return;
    };
    if let Some((number, words)) = &verbs.error {
        // Without RDMA in the kernel that is the right answer, and its cause is reported already.
        if facts.kernel.uverbs {
            findings.push(
                Finding::problem(
                    "no-list",
                    format!("libibverbs has no list of devices: {words}"),
                )
                .why(format!("ibv_get_device_list failed with errno {number}."))
                .type_("VERBS_LOG_LEVEL=5 VERBS_LOG_FILE=/dev/stderr ibv_devices"),
            );
        }
        return;
    }
    for device in &verbs.devices {
        let Some((number, words)) = &device.error else {
            continue;
        };
        let reported =
            |known: &Device| known.name == device.name && known.access != Access::Granted;
        if !facts.devices.iter().any(reported) {
            findings.push(open_failed(device, *number, words));
        }
    }
    for device in &facts.devices {
        let seen = verbs.devices.iter().any(|known| known.name == device.name);
        // Without a node it cannot be there; without a provider that is reported already.
        let reported = findings
            .iter()
            .any(|finding| finding.about.contains(&device.name));
        if !seen && !reported && device.access != Access::Missing {
            findings.push(
                Finding::problem("not-listed", "The kernel has the device, but libibverbs does not list it")
                    .about(&device.name)
                    .why("No provider took it: there is none for it, or the one there is could not be loaded.")
                    .type_("VERBS_LOG_LEVEL=5 VERBS_LOG_FILE=/dev/stderr ibv_devices")
                    .type_("LD_DEBUG=libs ibv_devices 2>&1 | grep rdmav"),
            );
        }
    }
}

fn open_failed(device: &VerbsDevice, number: i32, words: &str) -> Finding {
    const EADDRINUSE: i32 = 98;
    const EINVAL: i32 = 22;
    let finding = Finding::problem(
        "open-failed",
        format!("The device cannot be opened: {words}"),
    )
    .about(&device.name)
    .why(format!("ibv_open_device failed with errno {number}."));
    match (device.kernel, number) {
        (false, EADDRINUSE) => finding
            .why("UDP port 4791 belongs to another user's uroce, or to the kernel's soft RoCE.")
            .type_("ss -ulnp 'sport = 4791'")
            .type_("rdma link                  # soft RoCE: rdma link delete rxe0"),
        (false, EINVAL) => finding
            .why("A setting cannot be understood.")
            .type_("env | grep ^UROCE_; VERBS_LOG_LEVEL=5 VERBS_LOG_FILE=/dev/stderr ibv_devinfo"),
        _ => {
            finding.type_("VERBS_LOG_LEVEL=5 VERBS_LOG_FILE=/dev/stderr ibv_devinfo; dmesg | tail")
        }
    }
}

pub(super) fn memory(facts: &Facts, findings: &mut Vec<Finding>) {
    const ENOMEM: i32 = 12;
    let limit = match facts.memlock.limit {
        Some(limit) if !facts.memlock.exempt => Some(limit),
        _ => None,
    };
    for device in verbs_devices(facts) {
        let Some((number, words, size)) = &device.registration else {
            continue;
        };
        let finding = match limit {
            Some(limit) if *number == ENOMEM && limit < USUAL_MEMLOCK => memlock(
                Finding::problem(
                    "memlock",
                    format!("Registering {size} bytes failed: RLIMIT_MEMLOCK is {limit} bytes"),
                ),
                facts,
            ),
            _ => Finding::problem(
                "registration-failed",
                format!("Registering {size} bytes failed: {words}"),
            )
            .type_("dmesg | tail; VERBS_LOG_LEVEL=5 VERBS_LOG_FILE=/dev/stderr ibv_devinfo"),
        };
        findings.push(finding.about(&device.name));
    }
    let reported = findings.iter().any(|finding| finding.id == "memlock");
    // uroce pins nothing.
    let pins = !facts.devices.is_empty();
    if let Some(limit) = limit
        && limit < USUAL_MEMLOCK
        && pins
        && !reported
    {
        findings.push(memlock(
            Finding::warning("memlock", format!("RLIMIT_MEMLOCK is {limit} bytes")),
            facts,
        ));
    }
}

fn memlock(finding: Finding, facts: &Facts) -> Finding {
    let finding = finding.why(
        "Registered memory is pinned and counts against it; beyond it, ibv_reg_mr and the making \
         of queues fail with ENOMEM.",
    );
    if facts.nodes.container.is_some() {
        return finding.type_("docker run --ulimit memlock=-1 ...");
    }
    finding
        .type_("ulimit -l unlimited                       # as root, for this shell")
        .type_("echo '* - memlock unlimited' >/etc/security/limits.d/rdma.conf   # then log in again")
        .type_("# a service of systemd: LimitMEMLOCK=infinity; Slurm: PropagateResourceLimitsExcept=MEMLOCK")
}

/// Proposes uroce where no device is usable. Without a card or a device of the kernel it is the
/// only advice that works at once, so it comes first.
pub(super) fn uroce(facts: &Facts, findings: &mut Vec<Finding>) {
    let Some(verbs) = &facts.verbs else {
        return;
    };
    // A uroce device that does not work has separate findings.
    let is_configured = verbs.devices.iter().any(|device| !device.kernel);
    if usable(facts).next().is_some() || is_configured {
        return;
    }
    let finding = match verbs.has_uroce {
        true => Finding::note(
            "uroce",
            "uroce works here: RoCE v2 in the library, without hardware, kernel module or root",
        )
        .why(
            "On lo it connects the programs of this machine. On another interface (UROCE_DEVICES=eth0) \
             it connects machines.",
        )
        .type_("UROCE_DEVICES=lo ibv_devinfo"),
        false => Finding::note(
            "uroce",
            "RDMA without hardware, kernel module or root needs the library of ferroverbs",
        )
        .why("The libibverbs in use has no uroce. Either another package is installed, or LD_LIBRARY_PATH names another library.")
        .type_("apt-get install libferroverbs1")
        .type_("UROCE_DEVICES=lo ibv_devinfo"),
    };
    let place = match facts.devices.is_empty() && facts.cards.is_empty() {
        true => 0,
        false => findings.len(),
    };
    findings.insert(place, finding);
}
