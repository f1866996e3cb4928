//! Incompatible facts of the two ends.

use super::talk::Hello;
use crate::diagnose::{Finding, Weight};

fn finding(id: &'static str, weight: Weight, what: String, why: &str, command: &str) -> Finding {
    Finding {
        id,
        weight,
        about: String::new(),
        what,
        why: why.into(),
        commands: vec![command.into()],
    }
}

/// Compares this end with the other one.
#[must_use]
pub fn compare(own: &Hello, peer: &Hello) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (whose, end) in [("This", own), ("The other", peer)] {
        if end.state != crate::facts::PORT_ACTIVE {
            findings.push(finding(
                "port-not-active",
                Weight::Problem,
                format!(
                    "{whose} end's port is not active: {} port {}",
                    end.device, end.port
                ),
                "Nothing can be sent before it is.",
                "ibv_doctor               # at that end",
            ));
        }
    }
    if own.ethernet != peer.ethernet {
        findings.push(finding(
            "link-layers",
            Weight::Problem,
            "One end is on Ethernet, the other one on InfiniBand".into(),
            "These are two networks.",
            "ibv_devinfo | grep link_layer",
        ));
        return findings;
    }
    if own.ethernet {
        gids(own, peer, &mut findings);
    }
    if own.mtu != peer.mtu {
        findings.push(finding(
            "mtu-mismatch",
            Weight::Warning,
            format!("The MTUs differ: {} here, {} there", own.mtu, peer.mtu),
            "Queue pairs must be set to the same one; a program that takes its own port's fails, or \
             loses all large messages.",
            "ip link set eth0 mtu 4200     # the same at both ends and in between",
        ));
    }
    if own.vendor == peer.vendor && own.firmware != peer.firmware {
        findings.push(finding(
            "firmware-differs",
            Weight::Warning,
            format!(
                "The firmware differs: {:?} here, {:?} there",
                own.firmware, peer.firmware
            ),
            "The same card with another firmware may have other limits and other mistakes.",
            "ibv_devinfo | grep fw_ver",
        ));
    }
    findings
}

fn gids(own: &Hello, peer: &Hello, findings: &mut Vec<Finding>) {
    let (Some(here), Some(there)) = (own.gid, peer.gid) else {
        findings.push(finding(
            "no-gid",
            Weight::Problem,
            "An end has no GID".into(),
            "On Ethernet, GIDs are the addresses.",
            "ibv_devinfo -v | grep GID",
        ));
        return;
    };
    if own.roce_v2 != peer.roce_v2 {
        let version = |end: &Hello| if end.roce_v2 { "v2" } else { "v1" };
        findings.push(finding(
            "gid-types",
            Weight::Problem,
            format!("RoCE {} here, RoCE {} there", version(own), version(peer)),
            "Their packets differ, so neither hears the other one.",
            "ibv_doctor --netdev eth0      # the index of the RoCE v2 GID; then -g INDEX",
        ));
    }
    let mapped = |gid: [u8; 16]| std::net::Ipv6Addr::from(gid).to_ipv4_mapped().is_some();
    if mapped(here) != mapped(there) {
        findings.push(finding(
            "gid-families",
            Weight::Problem,
            "One end has chosen an IPv4 address, the other one an IPv6 address".into(),
            "There is no way from one to the other.",
            "ibv_devinfo -v | grep GID     # then -g INDEX at both ends",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end() -> Hello {
        Hello {
            device: "mlx5_0".into(),
            port: 1,
            vendor: (1, 2),
            firmware: "16".into(),
            ethernet: true,
            state: 4,
            mtu: 1024,
            gid: Some(std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets()),
            roce_v2: true,
            ..Hello::default()
        }
    }

    fn ids(change: impl FnOnce(&mut Hello)) -> Vec<&'static str> {
        let mut peer = end();
        change(&mut peer);
        let found = compare(&end(), &peer);
        found.iter().map(|finding| finding.id).collect()
    }

    #[test]
    fn equal_ends_go_together() {
        assert!(ids(|_| {}).is_empty());
        assert!(ids(|peer| peer.device = "other".into()).is_empty());
    }

    #[test]
    fn each_difference_has_its_name() {
        assert_eq!(ids(|peer| peer.mtu = 4096), ["mtu-mismatch"]);
        assert_eq!(
            ids(|peer| peer.firmware = "20".into()),
            ["firmware-differs"]
        );
        assert_eq!(ids(|peer| peer.roce_v2 = false), ["gid-types"]);
        assert_eq!(ids(|peer| peer.gid = Some([0xfe; 16])), ["gid-families"]);
        assert_eq!(ids(|peer| peer.gid = None), ["no-gid"]);
        assert_eq!(ids(|peer| peer.state = 1), ["port-not-active"]);
        assert_eq!(ids(|peer| peer.ethernet = false), ["link-layers"]);
    }

    #[test]
    fn firmware_of_different_cards_is_not_compared() {
        let other = |peer: &mut Hello| {
            peer.vendor = (3, 4);
            peer.firmware = "1".into();
        };
        assert!(ids(other).is_empty());
    }
}
