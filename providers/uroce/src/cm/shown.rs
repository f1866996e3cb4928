//! Ids as `uroce-stat` shows them: one line each.

use super::id::{Id, Stage};
use super::state::Cm;
use kit::abi::*;
use std::fmt::Write;
use uroce_cm::ip::PortSpace;

/// The maximum number of ids that are shown.
const MOST: usize = 16_384;

impl Cm {
    /// Appends a line for each id with an address, by number: its subject, then pairs of a name and
    /// a value.
    pub fn show(&self, text: &mut String) {
        let state = self.lock();
        let ids = state.ids.iter();
        let mut ids: Vec<_> = ids.filter(|(_, id)| id.source.is_some()).collect();
        ids.sort_by_key(|(number, _)| **number);
        for (number, id) in ids.into_iter().take(MOST) {
            // Writing to a string does not fail.
            let _ = writeln!(text, "cm {number} {}", line(id));
        }
    }
}

fn line(id: &Id) -> String {
    let device = match &id.port {
        Some(port) => format!("uroce_{}", port.name()),
        None => "any".to_owned(),
    };
    let mut line = format!(
        "device {device} space {} type {} state {}",
        space(id.space),
        qp_type(id.qp_type),
        stage(id.stage)
    );
    for (name, address) in [("address", id.source), ("peer", id.destination)] {
        let _ = match address {
            Some(address) => write!(line, " {name} {address}"),
            None => write!(line, " {name} -"),
        };
    }
    line
}

fn space(space: PortSpace) -> &'static str {
    match space {
        PortSpace::IpOib => "IPOIB",
        PortSpace::Tcp => "TCP",
        PortSpace::Udp => "UDP",
        PortSpace::Ib => "IB",
    }
}

fn qp_type(kind: ibv_qp_type) -> &'static str {
    match kind {
        IBV_QPT_RC => "RC",
        IBV_QPT_UC => "UC",
        IBV_QPT_UD => "UD",
        IBV_QPT_XRC_SEND => "XRC_SEND",
        IBV_QPT_XRC_RECV => "XRC_RECV",
        _ => "other",
    }
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Idle => "IDLE",
        Stage::Bound => "BOUND",
        Stage::Resolving => "ADDR_QUERY",
        Stage::AddressResolved => "ADDR_RESOLVED",
        Stage::RouteResolved => "ROUTE_RESOLVED",
        Stage::Listening => "LISTEN",
        Stage::Connecting => "CONNECT",
        Stage::Disconnected => "DISCONNECTED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_pairs_of_words() {
        let mut id = Id::new(1, 1, (PortSpace::Tcp, IBV_QPT_RC));
        id.stage = Stage::Listening;
        id.source = "[::]:7471".parse().ok();
        let text = line(&id);
        assert_eq!(
            text,
            "device any space TCP type RC state LISTEN address [::]:7471 peer -"
        );
        id.destination = "127.0.0.1:9".parse().ok();
        assert!(line(&id).ends_with(" peer 127.0.0.1:9"));
    }
}
