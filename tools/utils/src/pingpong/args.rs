//! The options of the command line.

use std::ffi::OsString;

use verbs::tools::abi::ibv_mtu;

use super::kinds::{Kind, Transport};
use crate::numbers::{int, number, unsigned};

/// How many addresses the programs with a shared receive queue exchange, needed or not.
pub(super) const MOST: u32 = 256;

/// The options of the command line.
pub(super) struct Args {
    pub(super) transport: Transport,
    pub(super) server: Option<OsString>,
    pub(super) device: Option<OsString>,
    pub(super) port: u32,
    pub(super) ib_port: i32,
    pub(super) size: usize,
    pub(super) mtu: ibv_mtu,
    pub(super) queue_pairs: u32,
    pub(super) rx_depth: u32,
    pub(super) iters: u32,
    pub(super) sl: i32,
    pub(super) gid: i32,
    pub(super) events: bool,
    pub(super) on_demand: bool,
    pub(super) implicit: bool,
    pub(super) prefetch: bool,
    pub(super) timestamps: bool,
    pub(super) check: bool,
    pub(super) device_memory: bool,
    pub(super) by_calls: bool,
    pub(super) json: bool,
}

impl Args {
    pub(super) fn new(kind: &Kind) -> Self {
        Self {
            transport: kind.transport,
            server: None,
            device: None,
            port: 18515,
            ib_port: 1,
            size: kind.size,
            mtu: 3,
            queue_pairs: if kind.transport == Transport::Srq {
                16
            } else {
                1
            },
            rx_depth: 500,
            iters: 1000,
            sl: 0,
            gid: -1,
            events: false,
            on_demand: false,
            implicit: false,
            prefetch: false,
            timestamps: false,
            check: false,
            device_memory: false,
            by_calls: false,
            json: false,
        }
    }

    /// Takes one option; `None` if its value is out of question.
    pub(super) fn option(&mut self, name: char, value: OsString) -> Option<()> {
        let given = number(&value);
        match name {
            'p' => {
                self.port = unsigned(given);
                return (self.port <= 65535).then_some(());
            }
            'd' => self.device = Some(value),
            'i' => {
                self.ib_port = int(given);
                return (self.ib_port >= 1).then_some(());
            }
            's' => {
                self.size = usize::try_from(unsigned(given)).ok()?;
                return (self.size > 0 || self.transport != Transport::Srq).then_some(());
            }
            'm' => self.mtu = mtu(int(given))?,
            'q' => self.queue_pairs = unsigned(given),
            'r' => self.rx_depth = unsigned(given),
            'n' => self.iters = unsigned(given),
            'l' => self.sl = int(given),
            'g' => self.gid = int(given),
            'e' => self.events = true,
            'o' => self.on_demand = true,
            'O' => (self.on_demand, self.implicit) = (true, true),
            'P' => self.prefetch = true,
            't' => self.timestamps = true,
            'c' => self.check = true,
            'j' => self.device_memory = true,
            'N' => self.by_calls = true,
            'J' => self.json = true,
            _ => return None,
        }
        Some(())
    }

    /// Options that contradict each other.
    pub(super) fn contradiction(&self) -> Option<String> {
        if self.on_demand && self.device_memory {
            return Some("DM memory region can't be on demand".into());
        }
        if self.prefetch && !self.on_demand {
            return Some("prefetch is valid only with on-demand memory region".into());
        }
        let (pairs, depth) = (self.queue_pairs, self.rx_depth);
        if self.transport != Transport::Srq {
            return None;
        }
        if pairs > depth {
            return Some(format!(
                "rx_depth {} is too small for {} QPs -- must have at least one receive per QP.",
                depth.cast_signed(),
                pairs.cast_signed()
            ));
        }
        (pairs >= MOST).then(|| {
            let pairs = pairs.cast_signed();
            format!("num_qp {pairs} must be less than {}", MOST - 1)
        })
    }
}

/// `enum ibv_mtu` of a number of bytes.
pub(super) fn mtu(bytes: i32) -> Option<ibv_mtu> {
    match bytes {
        256 => Some(1),
        512 => Some(2),
        1024 => Some(3),
        2048 => Some(4),
        4096 => Some(5),
        _ => None,
    }
}
