//! The one command to type after a diagnosis.

use super::finding::{Finding, Weight, usable};
use crate::facts::{Facts, PORT_ACTIVE, VerbsDevice};

/// The first command of the first problem, or of the advice to use uroce if that comes first.
/// Without a problem, a test of the first usable device against itself. None if nothing is wrong
/// and there is no such device, or if the problem has no command.
#[must_use]
pub fn next(facts: &Facts, findings: &[Finding]) -> Option<String> {
    let is_first = |finding: &&Finding| finding.weight == Weight::Problem || finding.id == "uroce";
    if let Some(first) = findings.iter().find(is_first) {
        return first.commands.iter().find_map(|line| command(line));
    }
    let first = usable(facts).next()?;
    let mut devices = facts.verbs.iter().flat_map(|verbs| &verbs.devices);
    devices
        .find(|device| device.name == first)
        .and_then(pingpong)
}

/// A line without its comment.
fn command(line: &str) -> Option<String> {
    let end = match line.find(" #") {
        _ if line.starts_with('#') => 0,
        Some(end) => end,
        None => line.len(),
    };
    let command = line.get(..end)?.trim();
    (!command.is_empty()).then(|| command.to_owned())
}

fn pingpong(device: &VerbsDevice) -> Option<String> {
    let port = device.ports.iter().find(|port| port.state == PORT_ACTIVE)?;
    let mut options = format!("-d {} -i {}", device.name, port.number);
    if let Some(gid) = port.gids.iter().find(|gid| gid.roce_v2) {
        options += &format!(" -g {}", gid.index);
    }
    Some(format!(
        "ibv_rc_pingpong {options} & sleep 1; ibv_rc_pingpong {options} 127.0.0.1"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Verbs, VerbsGid, VerbsPort};

    fn facts() -> Facts {
        let gid = |index, roce_v2| VerbsGid {
            index,
            roce_v2,
            ..VerbsGid::default()
        };
        let port = VerbsPort {
            number: 1,
            state: PORT_ACTIVE,
            gids: vec![gid(0, false), gid(3, true)],
            ..VerbsPort::default()
        };
        let device = VerbsDevice {
            name: "mlx5_0".into(),
            kernel: true,
            ports: vec![port],
            ..VerbsDevice::default()
        };
        Facts {
            verbs: Some(Verbs {
                devices: vec![device],
                ..Verbs::default()
            }),
            ..Facts::default()
        }
    }

    #[test]
    fn a_problem_comes_before_a_warning() {
        let findings = [
            Finding::warning("mtu", "small").type_("ip link set eth0 mtu 9000"),
            Finding::problem("memlock", "low")
                .type_("# as root")
                .type_("ulimit -l unlimited       # for this shell"),
        ];
        let next = next(&facts(), &findings);
        assert_eq!(next.as_deref(), Some("ulimit -l unlimited"));
    }

    #[test]
    fn uroce_comes_first_where_nothing_else_is() {
        let findings = [
            Finding::note("uroce", "works").type_("UROCE_DEVICES=lo ibv_devinfo"),
            Finding::problem("no-card", "none").type_("lspci"),
        ];
        let next = next(&Facts::default(), &findings);
        assert_eq!(next.as_deref(), Some("UROCE_DEVICES=lo ibv_devinfo"));
    }

    #[test]
    fn a_sound_machine_is_tried() {
        let next = next(&facts(), &[]).unwrap();
        let one = "ibv_rc_pingpong -d mlx5_0 -i 1 -g 3";
        assert_eq!(next, format!("{one} & sleep 1; {one} 127.0.0.1"));
    }

    #[test]
    fn there_may_be_nothing_to_type() {
        assert_eq!(next(&Facts::default(), &[]), None);
        let silent = [Finding::problem("x", "y")];
        assert_eq!(next(&facts(), &silent), None);
    }
}
