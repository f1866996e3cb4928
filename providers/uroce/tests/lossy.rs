//! Long messages on a bad network: they arrive, and not much more than they are goes over the wire.
#![allow(
    clippy::expect_used,
    reason = "a test ends where something is not as expected"
)]
#![allow(clippy::cast_possible_truncation, reason = "of patterns")]

mod alone;
mod ends;

use alone::{receive_line, reply, role as my_role};
use ends::{End, connect};
use kit::abi::*;
use kit::provider::{Data, Keys, Provider, SendRequest};
use kit::sys::application::ApplicationMemory;
use std::cell::UnsafeCell;
use std::sync::Arc;
use uroce::context::Context;

const ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

/// Registered memory of any size.
struct Region<'a> {
    end: &'a End,
    mr: Arc<<Context as Provider>::Mr>,
    keys: Keys,
    memory: Box<[UnsafeCell<u64>]>,
}

impl<'a> Region<'a> {
    fn new(end: &'a End, words: usize, seed: u64) -> Self {
        let pattern = |at: usize| UnsafeCell::new(seed ^ (at as u64).wrapping_mul(0x9e37_79b9));
        let memory: Box<[UnsafeCell<u64>]> = (0..words).map(pattern).collect();
        let address = memory.as_ptr().expose_provenance();
        // SAFETY: the memory lives as long as the region, and is used through pointers only.
        let range = unsafe { ApplicationMemory::new(address, 8 * words) }.expect("in range");
        let (mr, keys) = end
            .context()
            .reg_mr(end.domain(), range, address as u64, ACCESS)
            .expect("region");
        Self {
            end,
            mr: Arc::new(mr),
            keys,
            memory,
        }
    }

    fn address(&self) -> u64 {
        self.memory.as_ptr().expose_provenance() as u64
    }

    fn sge(&self) -> ibv_sge {
        ibv_sge {
            addr: self.address(),
            length: 8 * self.memory.len() as u32,
            lkey: self.keys.lkey,
        }
    }

    /// Where the first word is that another region has different.
    fn differs(&self, other: &Self) -> Option<usize> {
        let pairs = self.memory.iter().zip(&other.memory);
        let mut words = pairs.map(|(one, two)| {
            // SAFETY: both are memory of this process, and everything that writes there has
            // completed.
            unsafe { one.get().read_volatile() == two.get().read_volatile() }
        });
        words.position(|same| !same)
    }
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        self.end.context().dereg_mr(&self.mr).expect("destroyed");
    }
}

/// Bytes that the loopback interface of this namespace has received.
fn on_the_wire() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").expect("counters");
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("lo:"));
    let bytes = line.and_then(|counters| counters.split_whitespace().next());
    bytes.expect("a line").parse().expect("a number")
}

/// Moves that many bytes between two ends by one request. Returns the bytes on the wire, in
/// thousandths.
fn transfer([from, to]: &[End; 2], opcode: ibv_wr_opcode, bytes: usize) -> u64 {
    let (here, there) = (
        Region::new(from, bytes / 8, 1),
        Region::new(to, bytes / 8, 2),
    );
    let before = on_the_wire();
    let sges = [here.sge()];
    let mut request: SendRequest<'_, uroce::context::Context> = SendRequest {
        data: Data::Sges(&sges),
        ..SendRequest::new(1, opcode, 0)
    };
    request.remote_address = there.address();
    request.rkey = there.keys.rkey;
    let mut due = 1;
    if opcode == IBV_WR_SEND {
        to.receive(2, &[there.sge()]);
        due += 1;
    }
    let mut requests = Some(request).into_iter();
    from.qp().post_send(&mut requests).expect("posted");
    while due > 0 {
        for wc in from.poll().into_iter().chain(to.poll()) {
            assert_eq!(wc.status, IBV_WC_SUCCESS, "request {}", wc.wr_id);
            due -= 1;
        }
        std::thread::yield_now();
    }
    assert_eq!(here.differs(&there), None);
    (on_the_wire() - before) * 1000 / bytes as u64
}

#[test]
#[ignore = "the tests of `inside` start it"]
fn role() {
    if my_role().is_none() {
        return;
    }
    let ends = [End::new(IBV_QPT_RC), End::new(IBV_QPT_RC)];
    connect(&ends[0], ends[1].number());
    connect(&ends[1], ends[0].number());
    while let Some(order) = receive_line() {
        let (what, bytes) = order.split_once(' ').expect("two words");
        let opcode = match what {
            "read" => IBV_WR_RDMA_READ,
            "write" => IBV_WR_RDMA_WRITE,
            _ => IBV_WR_SEND,
        };
        let ratio = transfer(&ends, opcode, bytes.parse().expect("a number"));
        reply(&ratio.to_string());
    }
}

mod inside {
    use super::alone;

    const MIB: usize = 1 << 20;
    /// Number of transfers of which one has to keep within the bound. A process that waits for a
    /// processor lets the other's timeouts pass, and each repeats packets that were not lost.
    const ATTEMPTS: u32 = 3;

    fn measure(faults: &str, cases: &[(&str, usize, u64)]) {
        if !alone::there() {
            return;
        }
        let environment = [("UROCE_CARRIER", "udp"), ("UROCE_FAULTS", faults)];
        let mut player = alone::Player::start_with("transfers", &environment);
        // The host's own network has other traffic.
        let alone = rustix::process::geteuid().is_root();
        for (what, bytes, most) in cases {
            let mut attempts = 0..ATTEMPTS;
            let within = attempts.any(|_| {
                let ratio = player.ask(&format!("{what} {bytes}"));
                let ratio: u64 = ratio.parse().expect("a number");
                eprintln!("{faults}, {what} of {bytes} bytes: {ratio}/1000 on the wire");
                ratio <= *most || !alone
            });
            assert!(within, "{what} of {bytes} bytes: more than {most}/1000");
        }
        player.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn losses_cost_little() {
        let cases = [
            ("read", MIB, 1500),
            ("read", 32 * MIB, 1500),
            ("write", 8 * MIB, 1500),
            ("send", 8 * MIB, 1500),
        ];
        measure("loss=1%,seed=3", &cases);
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn reordering_does_not_multiply() {
        let cases = [
            ("read", 4 * MIB, 1700),
            ("write", 4 * MIB, 3000),
            ("send", 4 * MIB, 3000),
        ];
        measure("reorder=20%,seed=4", &cases);
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn nothing_is_sent_twice_where_nothing_is_lost() {
        let cases = [("read", 8 * MIB, 1100), ("write", 8 * MIB, 1100)];
        measure("loss=0%", &cases);
    }
}
