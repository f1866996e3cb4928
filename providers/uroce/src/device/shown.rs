//! The contents of a device's files: the kernel's names and formats
//! (Documentation/ABI/stable/sysfs-class-infiniband).

use super::state::{CAPABILITIES, NUMBER, PKEY, State, gid_of};
use crate::files::{Contents, Entry};
use kit::abi::*;
use std::path::Path;

/// A device, as it is now.
pub(super) struct Shown<'a> {
    /// Name of the interface.
    pub interface: &'a str,
    /// Node GUID.
    pub guid: u64,
    /// State of the port.
    pub state: &'a State,
}

impl Shown<'_> {
    /// The files.
    pub(super) fn contents(&self) -> Contents {
        let mut contents = Contents::new();
        let mut put = |path: &str, line: String| {
            contents.insert(path.to_owned(), Entry::Line(line));
        };
        put("node_type", "1: CA".to_owned());
        put("node_desc", "uroce".to_owned());
        put("hca_type", "uroce".to_owned());
        // As fw_ver of ibv_query_device(3).
        put("fw_ver", String::new());
        let guid = in_groups(&self.guid.to_be_bytes());
        put("node_guid", guid.clone());
        put("sys_image_guid", guid);
        for (path, line) in self.port() {
            put(&format!("ports/{NUMBER}/{path}"), line);
        }
        for (index, address) in self.state.gids.in_use() {
            let gid = in_groups(&gid_of(address).bytes());
            put(&format!("ports/{NUMBER}/gids/{index}"), gid);
            let attributes = format!("ports/{NUMBER}/gid_attrs");
            put(&format!("{attributes}/types/{index}"), "RoCE v2".to_owned());
            put(
                &format!("{attributes}/ndevs/{index}"),
                self.interface.to_owned(),
            );
        }
        for (name, line) in self.hardware() {
            put(&format!("device/{name}"), line);
        }
        let interface = format!("/sys/class/net/{}", self.interface);
        let link = format!("device/net/{}", self.interface);
        contents.insert(link, Entry::Link(interface));
        contents
    }

    fn port(&self) -> [(&'static str, String); 10] {
        let link = self.state.link;
        let (state, physical) = link.state();
        let state_name = match state {
            IBV_PORT_ACTIVE => "ACTIVE",
            _ => "DOWN",
        };
        let physical_name = match physical {
            5 => "LinkUp",
            2 => "Polling",
            _ => "Disabled",
        };
        [
            ("state", format!("{state}: {state_name}")),
            ("phys_state", format!("{physical}: {physical_name}")),
            ("rate", link.rate()),
            ("link_layer", "Ethernet".to_owned()),
            ("cap_mask", format!("{CAPABILITIES:#010x}")),
            ("lid", "0x0".to_owned()),
            ("lid_mask_count", "0".to_owned()),
            ("sm_lid", "0x0".to_owned()),
            ("sm_sl", "0".to_owned()),
            ("pkeys/0", format!("{PKEY:#06x}")),
        ]
    }

    /// The location of the card below the interface, if there is one. The kind of card is left out:
    /// programs would take this device for it.
    fn hardware(&self) -> Vec<(&'static str, String)> {
        let card = Path::new("/sys/class/net")
            .join(self.interface)
            .join("device");
        let read = |name: &'static str| {
            let text = std::fs::read_to_string(card.join(name)).ok()?;
            Some((name, text.trim_end().to_owned()))
        };
        let mut found: Vec<_> = ["local_cpus", "local_cpulist"]
            .into_iter()
            .filter_map(read)
            .collect();
        found.push(read("numa_node").unwrap_or(("numa_node", "-1".to_owned())));
        found
    }
}

/// GUIDs and GIDs: groups of four digits.
fn in_groups(bytes: &[u8]) -> String {
    let groups: Vec<_> = bytes
        .chunks(2)
        .map(|pair| {
            pair.iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        })
        .collect();
    groups.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netdev::Interface;

    fn line(contents: &Contents, path: &str) -> String {
        match contents.get(path) {
            Some(Entry::Line(line)) => line.clone(),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn files_are_named_and_filled_as_the_kernels() {
        let mut state = State::default();
        state.follow(Some(&Interface {
            name: "eth0".to_owned(),
            index: 7,
            mtu: 1500,
            up: true,
            running: true,
            speed: Some(100_000),
            addresses: vec![
                "10.1.2.3".parse().expect("ip"),
                "fe80::1".parse().expect("ip"),
            ],
            ..Interface::default()
        }));
        let shown = Shown {
            interface: "eth0",
            guid: 0x0200_00ff_fe00_000a,
            state: &state,
        };
        let contents = shown.contents();
        let line = |path: &str| line(&contents, path);
        assert_eq!(line("node_guid"), "0200:00ff:fe00:000a");
        assert_eq!(line("ports/1/state"), "4: ACTIVE");
        assert_eq!(line("ports/1/phys_state"), "5: LinkUp");
        assert_eq!(line("ports/1/rate"), "100 Gb/sec (4X EDR)");
        assert_eq!(line("ports/1/cap_mask"), "0x04010000");
        assert_eq!(line("ports/1/pkeys/0"), "0xffff");
        assert_eq!(
            line("ports/1/gids/0"),
            "0000:0000:0000:0000:0000:ffff:0a01:0203"
        );
        assert_eq!(
            line("ports/1/gids/1"),
            "fe80:0000:0000:0000:0000:0000:0000:0001"
        );
        assert_eq!(line("ports/1/gid_attrs/types/1"), "RoCE v2");
        assert_eq!(line("ports/1/gid_attrs/ndevs/0"), "eth0");
        let net = contents.get("device/net/eth0");
        assert_eq!(net, Some(&Entry::Link("/sys/class/net/eth0".to_owned())));
        state.follow(Some(&Interface::default()));
        let shown = Shown {
            interface: "eth0",
            guid: 1,
            state: &state,
        };
        let down = shown.contents();
        assert!(!down.contains_key("ports/1/gids/0"));
        assert_eq!(super::tests::line(&down, "ports/1/state"), "1: DOWN");
    }
}
