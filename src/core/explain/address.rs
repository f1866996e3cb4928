#![forbid(unsafe_code)]
//! Errors in an address vector (ibv_create_ah(3), ibv_modify_qp(3)).

use super::{Reasons, member};

/// The attributes of the port that an address vector names.
#[derive(Clone, Debug, Default)]
pub struct Port {
    /// Ports of the device.
    pub ports: u8,
    /// Whether the port is RoCE (its link layer is Ethernet).
    pub ethernet: bool,
    /// Whether the port is up (IBV_PORT_ACTIVE).
    pub active: bool,
    /// `active_mtu`, a number of `enum ibv_mtu`.
    pub mtu: u32,
    /// Places of the GID table.
    pub gids: u32,
    /// The GID at the vector's `sgid_index`; `None` for an empty place.
    pub sgid: Option<[u8; 16]>,
    /// A place that has a GID of the destination's family.
    pub fitting: Option<u32>,
}

/// An address vector.
#[derive(Clone, Copy, Debug)]
pub struct Vector {
    /// `port_num`.
    pub port: u8,
    /// `is_global`.
    pub global: bool,
    /// `grh.sgid_index`.
    pub sgid_index: u8,
    /// `grh.dgid`.
    pub dgid: [u8; 16],
    /// `grh.hop_limit`.
    pub hop_limit: u8,
    /// `dlid`.
    pub dlid: u16,
}

const EMPTY: [u8; 16] = [0; 16];

/// A GID as an address: IPv4 where it is one in IPv6's clothes.
pub fn gid(raw: &[u8; 16]) -> String {
    let address = std::net::Ipv6Addr::from(*raw);
    address
        .to_ipv4_mapped()
        .map_or_else(|| address.to_string(), |v4| v4.to_string())
}

/// Whether it is an IPv4 address.
pub fn is_ipv4(raw: &[u8; 16]) -> bool {
    std::net::Ipv6Addr::from(*raw).to_ipv4_mapped().is_some()
}

fn family(raw: &[u8; 16]) -> &'static str {
    if is_ipv4(raw) { "IPv4" } else { "IPv6" }
}

/// A GID index. Programs have -1 for one that was not chosen.
fn index(index: u8) -> String {
    match index {
        u8::MAX => "255 (-1 in 8 bits: no index was chosen)".to_owned(),
        _ => index.to_string(),
    }
}

/// The arguments.
pub fn arguments(v: &Vector) -> String {
    if v.global {
        format!(
            "port_num {}, sgid_index {}, dgid {}",
            v.port,
            index(v.sgid_index),
            gid(&v.dgid)
        )
    } else {
        format!("port_num {}, is_global 0, dlid {}", v.port, v.dlid)
    }
}

/// Adds the errors of a vector; `name` is the member's name.
pub fn reasons(name: &str, v: &Vector, port: &Port, why: &mut Reasons) {
    if v.port == 0 || (port.ports != 0 && v.port > port.ports) {
        let (number, ports) = (member(v.port), port.ports);
        why.add(format!(
            "{name}.port_num is {number}; the device has the ports 1 to {ports}."
        ));
        return;
    }
    if !port.ethernet {
        why.add_if(!v.global && v.dlid == 0, || {
            format!("{name} names no destination: dlid is 0 and is_global is 0.")
        });
    } else if !v.global {
        why.add(format!(
            "Port {} is RoCE (Ethernet), where every path goes by GIDs: {name}.is_global has to be \
             1, with grh.dgid the peer's GID and grh.sgid_index the place of the own GID of the \
             same address family (ibv_devinfo -v lists them).",
            v.port
        ));
        return;
    }
    if v.global {
        global(name, v, port, why);
    }
    why.add_if(!port.active, || {
        format!("Port {} is not ACTIVE (ibv_devinfo).", v.port)
    });
}

fn global(name: &str, v: &Vector, port: &Port, why: &mut Reasons) {
    let index = index(v.sgid_index);
    why.add_if(v.dgid == EMPTY, || {
        format!("{name}.grh.dgid is empty: the peer's GID has to be exchanged and put there.")
    });
    let elsewhere = port.fitting.map_or_else(String::new, |at| {
        format!(
            " Index {at} has one of the destination's family ({}).",
            family(&v.dgid)
        )
    });
    match port.sgid {
        _ if u32::from(v.sgid_index) >= port.gids && port.gids != 0 => why.add(format!(
            "{name}.grh.sgid_index is {index}; the GID table of port {} has {} places.{elsewhere}",
            v.port, port.gids
        )),
        None => why.add(format!(
            "The GID table of port {} is empty at {name}.grh.sgid_index {index}.{elsewhere}",
            v.port
        )),
        Some(own) if port.ethernet && v.dgid != EMPTY && is_ipv4(&own) != is_ipv4(&v.dgid) => {
            why.add(format!(
                "The own GID at {name}.grh.sgid_index {index} is {} ({}), the destination {} is \
                 {}: both ends must be of one address family.{elsewhere}",
                gid(&own),
                family(&own),
                gid(&v.dgid),
                family(&v.dgid)
            ));
        }
        Some(_) => {}
    }
    why.add_if(port.ethernet && v.hop_limit == 0 && !is_local(&v.dgid), || {
        format!(
            "{name}.grh.hop_limit is 0, with which RoCE v2 packets pass no router; some devices \
             refuse it. Use 64 or 255."
        )
    });
}

/// Link-local addresses, which are behind no router.
fn is_local(raw: &[u8; 16]) -> bool {
    raw.starts_with(&[0xfe, 0x80]) || !is_ipv4(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
    const V6: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

    fn port() -> Port {
        Port {
            ports: 1,
            ethernet: true,
            active: true,
            mtu: 3,
            gids: 4,
            sgid: Some(V4),
            fitting: Some(2),
        }
    }

    fn vector() -> Vector {
        Vector {
            port: 1,
            global: true,
            sgid_index: 0,
            dgid: V4,
            hop_limit: 64,
            dlid: 0,
        }
    }

    fn explanation(v: &Vector, port: &Port) -> String {
        let mut why = Reasons::default();
        reasons("ah_attr", v, port, &mut why);
        why.text()
    }

    #[test]
    fn a_good_one_has_no_reasons() {
        assert_eq!(explanation(&vector(), &port()), "");
    }

    #[test]
    fn roce_without_is_global() {
        let v = Vector {
            global: false,
            ..vector()
        };
        assert!(explanation(&v, &port()).contains("is_global has to be 1"));
        let infiniband = Port {
            ethernet: false,
            ..port()
        };
        assert!(explanation(&v, &infiniband).contains("names no destination"));
    }

    #[test]
    fn families_and_empty_places() {
        let v = Vector {
            dgid: V6,
            ..vector()
        };
        let text = explanation(&v, &port());
        assert!(text.contains("10.0.0.1 (IPv4)") && text.contains("fe80::1 is IPv6"));
        assert!(text.contains("Index 2 has one of the destination's family (IPv6)"));
        let empty = Port {
            sgid: None,
            ..port()
        };
        assert!(explanation(&vector(), &empty).contains("empty at ah_attr.grh.sgid_index 0"));
        let v = Vector {
            sgid_index: 9,
            ..vector()
        };
        assert!(explanation(&v, &port()).contains("has 4 places"));
        let unset = Vector {
            sgid_index: 255,
            ..vector()
        };
        assert!(explanation(&unset, &port()).contains("sgid_index is 255 (-1 in 8 bits"));
        assert!(arguments(&unset).contains("sgid_index 255 (-1 in 8 bits"));
        let v = Vector { port: 2, ..v };
        assert!(explanation(&v, &port()).contains("the ports 1 to 1"));
    }
}
