//! uroce and the kernel's soft-RoCE with each other: `rxe0` on this host, `uroce_v1` on a second
//! one at the other end of the Ethernet pair. Soft-RoCE listens in the first network namespace
//! alone, so the second host is uroce's.
#![forbid(unsafe_code)]

use super::{Case, Check, Ready, Target};
use crate::guest::setup::{ADDRESS, DEVICE, SECOND_ADDRESS, SECOND_HOST};

pub const NAME: &str = "uroce-rxe";

/// The direction: the name of the client's side, and whether that is uroce.
const DIRECTIONS: &[(&str, bool)] = &[("to-rxe", true), ("to-uroce", false)];

/// Of an address family: its name, and the index of its GID at rxe and at uroce.
const FAMILIES: &[(&str, u8, u8)] = &[("ipv4", 1, 0), ("ipv6", 2, 1)];

/// Each service's sends, the bytes compared: name, program, options.
const SENDS: &[(&str, &str, &str)] = &[
    ("send-rc", "ibv_rc_pingpong", "-n 40 -s 65535"),
    ("send-uc", "ibv_uc_pingpong", "-n 40 -s 20001"),
    ("send-ud", "ibv_ud_pingpong", "-n 100 -s 1022"),
];

/// The other operations of each service that has them: name, program, options, size of the row in
/// the table.
const OTHERS: &[(&str, &str, &str, u64)] = &[
    ("write-rc", "ib_write_bw", "-c RC", 65536),
    ("write-uc", "ib_write_bw", "-c UC", 65536),
    ("read-rc", "ib_read_bw", "", 65536),
    ("atomic-rc", "ib_atomic_bw", "-A CMP_AND_SWAP", 8),
];

/// Over IPv4 alone: other sizes and ways to wait.
const VARIANTS: &[(&str, &str, &str, u64)] = &[
    // Without receive requests ready, the sender gets RNR NAKs.
    ("send-rc-few-receives", "ib_send_bw", "-s 4096 -r 2", 4096),
    ("write-rc-odd", "ib_write_lat", "-s 4099", 4099),
    ("read-rc-odd", "ib_read_lat", "-s 4099", 4099),
    // Of many requests each, where uroce reads, and of one where soft-RoCE does.
    ("read-rc-long", "ib_read_bw", "-s 4194304 -n 5", 4_194_304),
    (
        "fetch-add-rc-events",
        "ib_atomic_lat",
        "-A FETCH_AND_ADD -e",
        8,
    ),
];

/// uroce loses, doubles and swaps packets, acknowledgements too, but not the last ones: a side that
/// has received everything ends, and if soft-RoCE then lacks the last acknowledgement, it
/// retransmits for ever, because it takes the pingpong's seven retries as unlimited.
const FAULTS: &str = "loss=2%,dup=1%,reorder=1%,seed=7,first=550";

/// Packet sizes; frames of Ethernet's usual size hold the first ones, and the cases above use 1024.
const SMALL_MTUS: &[u32] = &[256, 512];
const LARGE_MTUS: &[u32] = &[2048, 4096];

struct Maker {
    ports: std::ops::RangeFrom<u16>,
    cases: Vec<Case>,
}

/// How the two sides of a case are joined.
#[derive(Clone, Copy)]
struct Pairing {
    direction: &'static str,
    /// The client is uroce.
    to_rxe: bool,
    family: &'static str,
    rxe_gid: u8,
    uroce_gid: u8,
}

pub fn cases(_: &Target) -> Vec<Case> {
    let mut maker = Maker {
        ports: 23000..,
        cases: Vec::new(),
    };
    for pairing in pairings() {
        maker.matrix(pairing);
    }
    let over_ipv4: Vec<_> = pairings()
        .filter(|pairing| pairing.family == "ipv4")
        .collect();
    for pairing in &over_ipv4 {
        for (name, program, options, size) in VARIANTS {
            maker.measured(*pairing, name, program, options, *size);
        }
        maker.faults(*pairing);
        maker.mtus(*pairing, SMALL_MTUS);
    }
    let first = maker.cases.len();
    for pairing in &over_ipv4 {
        maker.mtus(*pairing, LARGE_MTUS);
    }
    if let Some(case) = maker.cases.get_mut(first) {
        let grown = case.clone().before("ip link set v0 mtu 9000");
        *case = grown.before(&format!("ip -n {SECOND_HOST} link set v1 mtu 9000"));
    }
    maker.cases
}

fn pairings() -> impl Iterator<Item = Pairing> {
    DIRECTIONS.iter().flat_map(|(direction, to_rxe)| {
        FAMILIES
            .iter()
            .map(move |(family, rxe_gid, uroce_gid)| Pairing {
                direction,
                to_rxe: *to_rxe,
                family,
                rxe_gid: *rxe_gid,
                uroce_gid: *uroce_gid,
            })
    })
}

impl Maker {
    /// Every operation of every service.
    fn matrix(&mut self, pairing: Pairing) {
        for (name, program, options) in SENDS {
            self.compared(pairing, name, program, options);
        }
        for (name, program, options, size) in OTHERS {
            self.measured(pairing, name, program, options, *size);
        }
    }

    fn faults(&mut self, pairing: Pairing) {
        // At least 600 packets from each side.
        self.compared(pairing, "faults", "ibv_rc_pingpong", "-n 20 -s 30001");
        let case = self.cases.pop();
        let bad = case.map(|case| case.env("UROCE_FAULTS", FAULTS));
        self.cases.extend(bad);
    }

    fn mtus(&mut self, pairing: Pairing, mtus: &[u32]) {
        for mtu in mtus {
            let options = format!("-n 20 -s 30001 -m {mtu}");
            self.compared(pairing, &format!("mtu-{mtu}"), "ibv_rc_pingpong", &options);
        }
    }

    /// A pingpong that compares the received data with the sent data.
    fn compared(&mut self, pairing: Pairing, name: &str, program: &str, options: &str) {
        let options = format!("-c {options}");
        let case = self
            .pair(pairing, name, program, "-g", &options)
            .check(Check::Says("iters in"))
            .check(Check::NeverSays("invalid data"));
        self.cases.push(case);
    }

    /// A program of perftest.
    fn measured(&mut self, pairing: Pairing, name: &str, program: &str, options: &str, size: u64) {
        let options = format!("-F -n 96 {options}");
        let case = self
            .pair(pairing, name, program, "-x", &options)
            .check(Check::PerftestRows(vec![size]));
        self.cases.push(case);
    }

    /// `gid` is the program's option for the index of the GID. The programs find each other over
    /// IPv4.
    fn pair(
        &mut self,
        pairing: Pairing,
        name: &str,
        program: &str,
        gid: &str,
        options: &str,
    ) -> Case {
        let port = self.ports.next().unwrap_or_default();
        let line = format!("{options} -p {port}");
        let rxe = format!("{program} -d {DEVICE} {gid} {} {line}", pairing.rxe_gid);
        let uroce = format!(
            "ip netns exec {SECOND_HOST} env UROCE_DEVICES=v1 \
             {program} -d uroce_v1 {gid} {} {line}",
            pairing.uroce_gid
        );
        let (server, client) = if pairing.to_rxe {
            (rxe, format!("{uroce} {ADDRESS}"))
        } else {
            (uroce, format!("{rxe} {SECOND_ADDRESS}"))
        };
        let name = format!("{}-{}-{name}", pairing.direction, pairing.family);
        Case::pair(name, &server, Ready::Tcp(port), &client)
    }
}
