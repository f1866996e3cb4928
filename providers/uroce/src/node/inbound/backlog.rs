//! Packets that came here and are for another process of this host, which has no room for them yet.
//!
//! Its socket holds few runs (`net.unix.max_dgram_qlen`), and it may wait for a processor.
//! Datagrams are not sent twice, and the one that is lost may be the last acknowledgement of a peer
//! that is about to end: so they are kept until there is room, in order, and are lost only if that
//! takes as long as to a process that is stopped, or if there are too many.

use crate::carrier::udp::Slot;
use crate::carrier::udp::slot::Packed;
use kit::errno::Errno;
use kit::sys::datagram::Received;
use std::collections::VecDeque;
use uroce_engine::timer::Time;

/// How long a process is waited for.
const PATIENCE: u64 = 1_000_000_000;
/// Bytes that are kept: some times as much as a socket of UDP holds by Linux's own limits.
const MOST: usize = 4 << 20;
/// How often it is tried again, where nothing else happens.
pub const AGAIN: u64 = 500_000;
/// How often by pollers, which look more often: each try is a system call for each process.
const SOON: u64 = 20_000;

struct Waiting {
    to: u16,
    since: u64,
    run: Packed,
}

impl Waiting {
    /// Its cost: more than its bytes, because the number of very short packets has to be limited,
    /// too.
    fn bytes(&self) -> usize {
        self.run.length() + size_of::<Self>()
    }
}

/// The waiting packets.
#[derive(Default)]
pub(super) struct Backlog {
    runs: VecDeque<Waiting>,
    bytes: usize,
    /// When it was tried last.
    tried: u64,
}

impl Backlog {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Hands packets on, behind those that wait for the same process. Returns whether there is such
    /// a process.
    pub fn hand_on(&mut self, slot: &Slot, to: u16, run: &Received<'_>, now: Time) -> bool {
        if !self.runs.iter().any(|waiting| waiting.to == to) {
            match slot.hand_on(to, run) {
                Err(Errno::AGAIN) => {}
                handed => return handed != Err(Errno(libc::ECONNREFUSED)),
            }
        }
        self.keep(to, run, now);
        true
    }

    fn keep(&mut self, to: u16, run: &Received<'_>, now: Time) {
        let Some(run) = Packed::new(run) else {
            return;
        };
        let since = now.nanos();
        let waiting = Waiting { to, since, run };
        let bytes = self.bytes + waiting.bytes();
        if bytes <= MOST {
            self.bytes = bytes;
            self.runs.push_back(waiting);
        }
    }

    /// Forwards the packets for which there is room now, unless it was tried just before.
    pub fn flush(&mut self, slot: &Slot, now: Time) {
        if now.nanos() < self.tried.saturating_add(SOON) {
            return;
        }
        self.tried = now.nanos();
        let oldest = now.nanos().saturating_sub(PATIENCE);
        let mut full = Vec::new();
        let stays = |waiting: &Waiting| {
            if waiting.since < oldest {
                return false;
            }
            if full.contains(&waiting.to) {
                return true;
            }
            let has_room = slot.hand_on_packed(waiting.to, &waiting.run) != Err(Errno::AGAIN);
            if !has_room {
                full.push(waiting.to);
            }
            !has_room
        };
        self.runs.retain(stays);
        self.bytes = self.runs.iter().map(Waiting::bytes).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use std::net::{IpAddr, Ipv4Addr};

    fn run(data: &[u8]) -> Received<'_> {
        Received {
            data,
            segment: data.len(),
            source: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0xc001,
            destination: IpAddr::V4(Ipv4Addr::LOCALHOST),
            interface: 1,
            hop_limit: 64,
            traffic_class: 0,
        }
    }

    fn slots() -> [Slot; 2] {
        [(); 2].map(|()| Slot::claim(false).expect("a slot"))
    }

    /// The received packets, each the bytes of a number.
    fn later(now: Time, nanos: u64) -> Time {
        Time::from_nanos(now.nanos() + nanos)
    }

    fn taken(slot: &Slot) -> Vec<u32> {
        let mut buffer = [0; 200];
        let mut numbers = Vec::new();
        while let Ok(run) = slot.take(&mut buffer) {
            let data = run.expect("packets").data;
            numbers.push(u32::from_be_bytes(data.try_into().expect("four")));
        }
        numbers
    }

    #[test]
    fn all_come_in_order_when_there_is_room() {
        let [ours, theirs] = slots();
        let mut backlog = Backlog::default();
        let mut now = clock::now();
        let count = 2000;
        for number in 0..count {
            let data = u32::to_be_bytes(number);
            assert!(backlog.hand_on(&ours, theirs.number(), &run(&data), now));
        }
        assert!(!backlog.is_empty(), "a socket holds so many");
        let mut all = Vec::new();
        while all.len() < 2000 {
            let some = taken(&theirs);
            assert!(!some.is_empty(), "{} came", all.len());
            all.extend(some);
            now = later(now, SOON);
            backlog.flush(&ours, now);
        }
        assert_eq!(all, (0..count).collect::<Vec<_>>());
        assert!(backlog.is_empty());
        assert_eq!(backlog.bytes, 0);
    }

    #[test]
    fn a_full_peer_does_not_delay_others() {
        let [ours, full] = slots();
        let [_, other] = slots();
        let mut backlog = Backlog::default();
        let now = clock::now();
        while backlog.is_empty() {
            assert!(backlog.hand_on(&ours, full.number(), &run(&[0; 4]), now));
        }
        assert!(backlog.hand_on(&ours, other.number(), &run(&[0, 0, 0, 7]), now));
        assert_eq!(taken(&other), [7]);
    }

    #[test]
    fn a_peer_that_takes_nothing_is_given_up() {
        let [ours, theirs] = slots();
        let mut backlog = Backlog::default();
        let now = clock::now();
        let to = theirs.number();
        let fill = |backlog: &mut Backlog, bytes: &[u8]| {
            while backlog.is_empty() {
                assert!(backlog.hand_on(&ours, to, &run(bytes), now));
            }
        };
        fill(&mut backlog, &[0; 4]);
        backlog.flush(&ours, later(now, PATIENCE));
        assert!(!backlog.is_empty());
        backlog.flush(&ours, later(now, PATIENCE + 1));
        assert!(!backlog.is_empty(), "it was tried just before");
        backlog.flush(&ours, later(now, PATIENCE + SOON));
        assert!(backlog.is_empty());
        // Packets beyond the limit are lost.
        let now = later(now, 2 * PATIENCE);
        let long = [0; 60_000];
        for _ in 0..200 {
            assert!(backlog.hand_on(&ours, to, &run(&long), now));
        }
        assert!(backlog.bytes <= MOST && backlog.bytes > MOST - 2 * long.len());
        backlog.flush(&ours, later(now, 2 * PATIENCE));
        assert_eq!(backlog.bytes, 0);
    }
}
