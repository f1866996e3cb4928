//! When a link is worth its cost.
//!
//! A link costs both processes system calls and memory; a packet by UDP costs more than one by a
//! link. Which of two processes will talk much is not known when they connect, so a link is asked
//! for once the packets that went by UDP have cost as much as a link would have. Whatever the
//! processes do after that, they spend at most twice the necessary time.
#![forbid(unsafe_code)]

use crate::carrier::qpn;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// When links are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// When a queue pair is connected, and with the first datagram.
    AtOnce,
    /// When as many packets went by UDP as cost as much.
    WhenWorthwhile,
}

/// Packets of one process to another that cost as much as half a link: the other half is the
/// peer's, which counts its own packets. A link costs both 370 µs of processor time, as
/// `UROCE_MESH=300 cargo test --release -p uroce --test mesh -- --nocapture in_a_namespace` shows
/// over shared memory and over UDP. A packet of up to 4096 bytes costs 3 to 5 µs more by UDP than
/// by a link: rows `ib_send_lat` and `ib_write_bw` of `cargo xtask bench uroce`.
pub const WORTH: u32 = 48;

/// What this process has sent to the processes of the host by UDP.
#[derive(Debug)]
pub(super) struct Traffic {
    /// Packets, by slot.
    by_slot: Box<[AtomicU32]>,
}

impl Traffic {
    /// None yet. The process of the slot `own` is this one, to which a link costs nothing.
    pub fn new(own: u16, links: Links) -> Self {
        let begin = |slot| match links {
            Links::WhenWorthwhile if slot != own => 0,
            Links::AtOnce | Links::WhenWorthwhile => WORTH,
        };
        let slots = 0..=qpn::LAST;
        Self {
            by_slot: slots.map(|slot| AtomicU32::new(begin(slot))).collect(),
        }
    }

    /// Whether a link with the process of a slot is worth its cost.
    #[inline]
    pub fn is_worth_link(&self, slot: u16) -> bool {
        let packets = self.by_slot.get(usize::from(slot));
        packets.is_none_or(|packets| packets.load(Relaxed) >= WORTH)
    }

    /// A packet to the process of a slot went by UDP. Returns whether a link is to be asked for:
    /// after each [`WORTH`] packets, since an attempt may have been in vain.
    #[inline]
    pub fn sent(&self, slot: u16) -> bool {
        let Some(packets) = self.by_slot.get(usize::from(slot)) else {
            return false;
        };
        let count = packets.fetch_add(1, Relaxed).wrapping_add(1);
        count.is_multiple_of(WORTH)
    }

    /// A link with the process of a slot is wanted whatever it costs, from now on.
    pub fn want(&self, slot: u16) {
        if let Some(packets) = self.by_slot.get(usize::from(slot)) {
            packets.fetch_max(WORTH, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_asked_for_after_each_so_many_packets() {
        let traffic = Traffic::new(3, Links::WhenWorthwhile);
        for round in 0..3 {
            for packet in 1..WORTH {
                assert_eq!(traffic.is_worth_link(5), round > 0);
                assert!(!traffic.sent(5), "{round} {packet}");
            }
            assert!(traffic.sent(5));
            assert!(traffic.is_worth_link(5));
        }
        assert!(!traffic.is_worth_link(4), "another process");
        traffic.want(4);
        assert!(traffic.is_worth_link(4));
    }

    #[test]
    fn a_link_with_this_process_or_where_it_is_the_only_way_is_worth_it() {
        assert!(Traffic::new(3, Links::WhenWorthwhile).is_worth_link(3));
        let at_once = Traffic::new(3, Links::AtOnce);
        assert!((0..=qpn::LAST + 1).all(|slot| at_once.is_worth_link(slot)));
        assert!(!at_once.sent(qpn::LAST + 1), "there is no such slot");
    }
}
