//! `--netdev`: the parameters that scripts need to use RDMA over a network interface.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
};

use serde_json::{Value, json};

use crate::facts::{Interface, PORT_ACTIVE, Verbs, VerbsGid};

/// A port that an interface or an address belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The device.
    pub device: String,
    /// Its port.
    pub port: u8,
    /// The place of the GID in the port's table.
    pub gid_index: u32,
    /// The GID.
    pub gid: Ipv6Addr,
    /// The port's, in bytes.
    pub mtu: u32,
    /// Whether the port is active.
    pub active: bool,
}

impl Found {
    /// Lines that a shell can read.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "device={}\nport={}\ngid_index={}\ngid={}\nmtu={}\nstate={}\n",
            self.device,
            self.port,
            self.gid_index,
            self.gid,
            self.mtu,
            self.state()
        )
    }

    /// The same as a document.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "device": self.device,
            "port": self.port,
            "gid_index": self.gid_index,
            "gid": self.gid.to_string(),
            "mtu": self.mtu,
            "state": self.state(),
        })
    }

    fn state(&self) -> &'static str {
        if self.active { "active" } else { "down" }
    }
}

/// The RoCE v2 GID for an interface or one of its addresses: of the kernel's devices first, active
/// ports first, IPv4 first, addresses that reach further first.
///
/// # Errors
/// The missing fact, in words.
pub fn find(
    wanted: &str,
    interfaces: &BTreeMap<String, Interface>,
    verbs: &Verbs,
) -> Result<Found, String> {
    let address: Option<IpAddr> = wanted.parse().ok();
    let interface = interfaces.get(wanted);
    if address.is_none() && interface.is_none() {
        return Err(format!("there is no network interface {wanted}"));
    }
    let of_interface = |gid: &VerbsGid| interface.is_some_and(|is| is.index == gid.interface);
    let of_address = |gid: &VerbsGid| address.is_some_and(|is| as_gid(is) == gid.raw);
    let mut candidates = Vec::new();
    for device in &verbs.devices {
        for port in &device.ports {
            for gid in port.gids.iter().filter(|gid| gid.roce_v2) {
                if !of_interface(gid) && !of_address(gid) {
                    continue;
                }
                let active = port.state == PORT_ACTIVE;
                let order = (!device.kernel, !active, rank(&gid.raw), gid.index);
                candidates.push((
                    order,
                    Found {
                        device: device.name.clone(),
                        port: port.number,
                        gid_index: gid.index,
                        gid: Ipv6Addr::from(gid.raw),
                        mtu: port.active_mtu,
                        active,
                    },
                ));
            }
        }
    }
    candidates.sort_by_key(|(order, _)| *order);
    match candidates.into_iter().next() {
        Some((_, found)) => Ok(found),
        None => Err(missing(wanted, interface, verbs)),
    }
}

/// Without a device for an interface, uroce can be one.
fn missing(wanted: &str, interface: Option<&Interface>, verbs: &Verbs) -> String {
    let missing = format!("no RDMA device has a RoCE v2 GID of {wanted}");
    match interface {
        Some(_) if verbs.has_uroce => {
            format!("{missing}; UROCE_DEVICES={wanted} makes one, without hardware")
        }
        _ => missing,
    }
}

/// IPv4, then global IPv6, then link-local.
fn rank(gid: &[u8; 16]) -> u8 {
    let address = Ipv6Addr::from(*gid);
    match address.to_ipv4_mapped() {
        Some(_) => 0,
        None if gid.starts_with(&[0xfe, 0x80]) => 2,
        None => 1,
    }
}

/// The GID that RoCE v2 makes of an address.
#[must_use]
pub fn as_gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{VerbsDevice, VerbsPort};

    fn gid(index: u32, address: &str, roce_v2: bool, interface: u32) -> VerbsGid {
        VerbsGid {
            index,
            raw: as_gid(address.parse().unwrap()),
            roce_v2,
            interface,
        }
    }

    fn verbs() -> Verbs {
        let port = |state, gids| VerbsPort {
            number: 1,
            state,
            active_mtu: 1024,
            gids,
            ..VerbsPort::default()
        };
        let device = |name: &str, kernel, ports| VerbsDevice {
            name: name.into(),
            kernel,
            ports,
            ..VerbsDevice::default()
        };
        Verbs {
            error: None,
            has_uroce: false,
            devices: vec![
                device(
                    "uroce_eth0",
                    false,
                    vec![port(4, vec![gid(0, "10.0.0.1", true, 2)])],
                ),
                device(
                    "mlx5_0",
                    true,
                    vec![port(
                        4,
                        vec![
                            gid(0, "fe80::1", false, 2),
                            gid(1, "fe80::1", true, 2),
                            gid(2, "10.0.0.1", false, 2),
                            gid(3, "2001:db8::1", true, 2),
                            gid(4, "10.0.0.1", true, 2),
                            gid(5, "10.0.1.1", true, 3),
                        ],
                    )],
                ),
            ],
        }
    }

    fn interfaces() -> BTreeMap<String, Interface> {
        let interface = |index| Interface {
            index,
            ..Interface::default()
        };
        [("eth0", 2), ("eth0.7", 3), ("eth1", 4)]
            .map(|(name, index)| (name.to_owned(), interface(index)))
            .into()
    }

    #[test]
    fn the_kernels_device_and_ipv4_come_first() {
        let found = find("eth0", &interfaces(), &verbs()).unwrap();
        assert_eq!((found.device.as_str(), found.gid_index), ("mlx5_0", 4));
        assert_eq!(
            found.text(),
            "device=mlx5_0\nport=1\ngid_index=4\ngid=::ffff:10.0.0.1\nmtu=1024\nstate=active\n"
        );
        assert_eq!(found.json()["gid_index"], 4);
    }

    #[test]
    fn addresses_and_other_interfaces_are_found() {
        let index = |wanted| find(wanted, &interfaces(), &verbs()).map(|found| found.gid_index);
        assert_eq!(index("eth0.7"), Ok(5));
        assert_eq!(index("2001:db8::1"), Ok(3));
        assert_eq!(index("fe80::1"), Ok(1));
        assert_eq!(index("10.0.1.1"), Ok(5));
    }

    #[test]
    fn an_active_port_comes_before_one_that_is_down() {
        let mut verbs = verbs();
        verbs.devices[0].kernel = true;
        verbs.devices[1].ports[0].state = 1;
        let found = find("eth0", &interfaces(), &verbs).unwrap();
        assert_eq!(found.device, "uroce_eth0");
        assert!(found.active);
    }

    #[test]
    fn missing_properties_are_reported() {
        let error = |wanted| find(wanted, &interfaces(), &verbs()).unwrap_err();
        assert_eq!(error("eth9"), "there is no network interface eth9");
        assert_eq!(error("eth1"), "no RDMA device has a RoCE v2 GID of eth1");
        assert_eq!(
            error("10.9.9.9"),
            "no RDMA device has a RoCE v2 GID of 10.9.9.9"
        );
        let ours = Verbs {
            has_uroce: true,
            ..verbs()
        };
        assert_eq!(
            find("eth1", &interfaces(), &ours).unwrap_err(),
            "no RDMA device has a RoCE v2 GID of eth1; UROCE_DEVICES=eth1 makes one, without \
             hardware"
        );
    }
}
