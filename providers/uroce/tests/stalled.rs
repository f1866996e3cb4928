//! Every request ends in the time that its timeout and retries give it, whatever its peer does, and
//! however its own program waits: each operation, in three sizes, by either carrier, to a peer that
//! is stopped, was killed, has a full ring, never polls, or has no receive request; of a program
//! that polls, sleeps on a completion channel, or computes and polls at the end.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as expected"
)]
#![allow(clippy::cast_possible_truncation, reason = "of patterns")]

mod alone;
mod ends;

use alone::{Player, commands, reply, role as my_role};
use ends::{End, connect_with};
use kit::abi::*;
use kit::sys::scratch::Scratch;
use std::time::{Duration, Instant};

/// Bytes of the memory of each side.
const MEMORY: usize = 9 << 20;
/// A size for the fast path in one line of a ring, one for many lines, and one for packets, because
/// it exceeds a one-sided operation.
const SIZES: [u32; 3] = [16, 8192, 8 << 20];

const OPERATIONS: [(&str, ibv_wr_opcode); 10] = [
    ("send", IBV_WR_SEND),
    ("send_imm", IBV_WR_SEND_WITH_IMM),
    ("send_inv", IBV_WR_SEND_WITH_INV),
    ("write", IBV_WR_RDMA_WRITE),
    ("write_imm", IBV_WR_RDMA_WRITE_WITH_IMM),
    ("read", IBV_WR_RDMA_READ),
    ("flush", IBV_WR_FLUSH),
    ("compare_swap", IBV_WR_ATOMIC_CMP_AND_SWP),
    ("fetch_add", IBV_WR_ATOMIC_FETCH_AND_ADD),
    ("atomic_write", IBV_WR_ATOMIC_WRITE),
];

/// An operation and its size.
#[derive(Clone, Copy, Debug)]
struct Case {
    operation: &'static str,
    opcode: ibv_wr_opcode,
    size: u32,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (operation, opcode) in OPERATIONS {
        let atomic = matches!(operation, "compare_swap" | "fetch_add" | "atomic_write");
        let sizes: &[u32] = if atomic { &[8] } else { &SIZES };
        cases.extend(sizes.iter().map(|size| Case {
            operation,
            opcode,
            size: *size,
        }));
    }
    cases
}

impl Case {
    fn takes_receive(&self) -> bool {
        matches!(
            self.operation,
            "send" | "send_imm" | "send_inv" | "write_imm"
        )
    }

    /// The status where the peer executes it. The key to be invalidated is a region's, and only
    /// those of windows can be.
    fn executed(&self) -> ibv_wc_status {
        match self.operation {
            "send_inv" => IBV_WC_REM_ACCESS_ERR,
            _ => IBV_WC_SUCCESS,
        }
    }

    /// Whether this side carries it out in the peer's memory, where there is shared memory.
    fn is_one_sided(&self) -> bool {
        matches!(self.operation, "write" | "read")
    }
}

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

/// The queue pairs of a process, one for each case and two more, and its memory.
struct Side {
    ends: Vec<End>,
    pages: Scratch,
    rkey: u32,
}

impl Side {
    fn new(waits: bool) -> Self {
        let first = if waits {
            End::waiting(IBV_QPT_RC)
        } else {
            End::new(IBV_QPT_RC)
        };
        let mut ends: Vec<End> = cases().iter().map(|_| first.another()).collect();
        ends.extend([first.another(), first]);
        let pages = Scratch::new(MEMORY / Scratch::page()).expect("memory");
        let (mr, rkey) = ends[0].register_pages(&pages);
        // Registered until the process ends.
        std::mem::forget(mr);
        Self { ends, pages, rkey }
    }

    fn address(&self) -> u64 {
        u64::try_from(self.pages.memory().address()).expect("64 bits")
    }

    fn piece(&self, length: u32) -> ibv_sge {
        ibv_sge {
            addr: self.address(),
            length,
            lkey: self.rkey,
        }
    }

    /// Its numbers, its memory and the key of that.
    fn print_peer(&self) {
        let numbers = self.ends.iter().map(|end| end.number().to_string());
        let who: Vec<String> = [self.address().to_string(), self.rkey.to_string()]
            .into_iter()
            .chain(numbers)
            .collect();
        reply(&who.join(" "));
    }

    fn connect(&self, reliability: [u8; 3], numbers: &[u64]) {
        for (end, number) in self.ends.iter().zip(numbers) {
            connect_with(end, *number as u32, reliability);
        }
        reply("connected");
    }

    /// Connects the last queue pair.
    fn meet(&self, number: u32) {
        connect_with(self.last(), number, [20, 7, 7]);
        reply("ready");
    }

    /// Has the peer answer once by that: over shared memory, there is a link afterwards.
    fn ask_peer(&self, remote: u64, rkey: u32) {
        let piece = self.piece(16);
        self.last()
            .request_of(8, IBV_WR_RDMA_WRITE, piece, remote, rkey);
        assert_eq!(self.last().completion().status, IBV_WC_SUCCESS);
        reply("met");
    }

    fn last(&self) -> &End {
        self.ends.last().expect("some")
    }

    /// Executes a case, and waits for its completion as `wait_mode` says.
    fn run(&self, at: usize, wait_mode: &str, remote: u64, rkey: u32) -> ibv_wc_status {
        let (end, case) = (&self.ends[at], cases()[at]);
        if wait_mode == "sleeps" {
            end.arm();
        }
        let piece = self.piece(case.size);
        end.request_of(7, case.opcode, piece, remote, rkey);
        let wc = match wait_mode {
            "polls" => end.completion(),
            "sleeps" => {
                end.event();
                end.completion()
            }
            _ => loop {
                compute(Duration::from_millis(150));
                if let Some(wc) = end.poll().pop() {
                    break wc;
                }
            },
        };
        assert_eq!((wc.wr_id, wc.qp_num), (7, end.number()));
        wc.status
    }

    /// Fills the ring to the peer, by a queue pair that waits for ever.
    fn fill(&self, number: u32) {
        let end = &self.ends[cases().len()];
        connect_with(end, number, [0, 7, 7]);
        for id in 0..60 {
            end.request_of(id, IBV_WR_SEND, self.piece(8192), 0, 0);
        }
    }
}

fn compute(time: Duration) {
    let began = Instant::now();
    let mut sum = 0u64;
    while began.elapsed() < time {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
    }
}

/// A process that executes commands, line by line.
#[test]
#[ignore = "the tests of `inside` start it"]
fn role() {
    let Some(role) = my_role() else {
        return;
    };
    let side = Side::new(role == "sleeps");
    for (word, numbers) in commands::<u64>() {
        match (word.as_str(), &numbers[..]) {
            ("who", []) => side.print_peer(),
            ("connect", [timeout, retries, rnr, numbers @ ..]) => {
                let reliability = [*timeout as u8, *retries as u8, *rnr as u8];
                side.connect(reliability, numbers);
            }
            ("receive", []) => {
                for end in &side.ends[..cases().len()] {
                    end.receive(3, &[side.piece(8 << 20)]);
                }
                reply("posted");
            }
            ("meet", [number]) => side.meet(*number as u32),
            ("ask", [remote, rkey]) => side.ask_peer(*remote, *rkey as u32),
            ("fill", [number]) => {
                side.fill(*number as u32);
                reply("full");
            }
            ("run", [at, remote, rkey]) => {
                let began = Instant::now();
                let status = side.run(*at as usize, &role, *remote, *rkey as u32);
                reply(&format!("{status} {}", began.elapsed().as_micros()));
            }
            _ => panic!("{word} {numbers:?}"),
        }
    }
}

mod inside {
    use super::*;

    const WAIT_MODES: [&str; 3] = ["polls", "sleeps", "computes"];
    /// A peer that answers has this long; more than a busy machine takes.
    const PATIENT: [u8; 3] = [20, 7, 7];
    /// 16 ms each time, and three retries.
    const SHORT: [u8; 3] = [12, 3, 2];
    const SHORT_ALL: Duration = Duration::from_micros(4 * 16_777);

    struct Pair {
        sender: Player,
        receiver: Option<Player>,
        remote: u64,
        rkey: u64,
        /// The receiver's number of one more queue pair.
        spare: u64,
    }

    impl Pair {
        fn start(carrier: &str, wait_mode: &str, reliability: [u8; 3]) -> Self {
            let start = |role| Player::start_with(role, &[("UROCE_CARRIER", carrier)]);
            let (mut sender, mut receiver) = (start(wait_mode), start("receiver"));
            let numbers = |player: &mut Player| {
                let who = player.ask("who");
                let numbers = who.split(' ').map(|word| word.parse().expect("a number"));
                numbers.collect::<Vec<u64>>()
            };
            let (ours, theirs) = (numbers(&mut sender), numbers(&mut receiver));
            // Tests that need the spare one connect it.
            let line = |of: &[u64]| {
                let cases = cases().len();
                let numbers = of[2..2 + cases].iter().map(u64::to_string);
                let all = reliability.iter().map(u8::to_string).chain(numbers);
                format!("connect {}", all.collect::<Vec<_>>().join(" "))
            };
            // First, so that the others find the link when they are connected: a link that comes
            // later reaches one queue pair after the other.
            let last = |numbers: &[u64]| *numbers.last().expect("numbers");
            for (player, peer) in [(&mut receiver, &ours), (&mut sender, &theirs)] {
                assert_eq!(player.ask(&format!("meet {}", last(peer))), "ready");
            }
            let asked = sender.ask(&format!("ask {} {}", theirs[0], theirs[1]));
            assert_eq!(asked, "met");
            assert_eq!(receiver.ask(&line(&ours)), "connected");
            assert_eq!(sender.ask(&line(&theirs)), "connected");
            Self {
                sender,
                receiver: Some(receiver),
                remote: theirs[0],
                rkey: theirs[1],
                spare: theirs[2 + cases().len()],
            }
        }

        /// The status of a case, and the time that it took.
        fn run(&mut self, at: usize) -> (ibv_wc_status, Duration) {
            let answer = self
                .sender
                .ask(&format!("run {at} {} {}", self.remote, self.rkey));
            let (status, micros) = answer.split_once(' ').expect("two numbers");
            let micros = micros.parse().expect("a number");
            let status = status.parse().expect("a number");
            (status, Duration::from_micros(micros))
        }

        fn receiver(&mut self) -> &mut Player {
            self.receiver.as_mut().expect("there")
        }
    }

    /// Whether this is to be tried, by which carriers.
    fn carriers() -> &'static [&'static str] {
        if alone::there() { &["shm", "udp"] } else { &[] }
    }

    /// Requests that the peer has to answer end with their retries, and not before.
    fn ends_with_retries(pair: &mut Pair, what: &str, succeeds: impl Fn(&Case) -> bool) {
        for (at, case) in cases().iter().enumerate() {
            let (status, took) = pair.run(at);
            if succeeds(case) {
                assert_eq!(status, IBV_WC_SUCCESS, "{what}: {case:?}");
                continue;
            }
            assert_eq!(status, IBV_WC_RETRY_EXC_ERR, "{what}: {case:?}");
            assert!(
                took >= SHORT_ALL * 9 / 10,
                "{what}: {case:?} after {took:?}"
            );
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_stopped_peer() {
        for carrier in carriers() {
            for wait_mode in WAIT_MODES {
                let mut pair = Pair::start(carrier, wait_mode, SHORT);
                let stopped = pair.receiver().stop();
                let shared = *carrier == "shm";
                let what = format!("{carrier}, {wait_mode}");
                ends_with_retries(&mut pair, &what, |case| shared && case.is_one_sided());
                drop(stopped);
                pair.sender.end();
            }
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_peer_with_a_full_ring() {
        for wait_mode in carriers().first().map_or(&[][..], |_| &WAIT_MODES) {
            let mut pair = Pair::start("shm", wait_mode, SHORT);
            let stopped = pair.receiver().stop();
            let spare = pair.spare;
            assert_eq!(pair.sender.ask(&format!("fill {spare}")), "full");
            ends_with_retries(&mut pair, wait_mode, Case::is_one_sided);
            drop(stopped);
            pair.sender.end();
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_killed_peer() {
        for carrier in carriers() {
            for wait_mode in WAIT_MODES {
                let mut pair = Pair::start(carrier, wait_mode, SHORT);
                pair.receiver.take().expect("there").kill();
                ends_with_retries(&mut pair, &format!("{carrier}, {wait_mode}"), |_| false);
                pair.sender.end();
            }
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_peer_that_never_polls() {
        for carrier in carriers() {
            for wait_mode in WAIT_MODES {
                let mut pair = Pair::start(carrier, wait_mode, PATIENT);
                assert_eq!(pair.receiver().ask("receive"), "posted");
                for (at, case) in cases().iter().enumerate() {
                    let (status, _) = pair.run(at);
                    let wanted = case.executed();
                    assert_eq!(status, wanted, "{carrier}, {wait_mode}: {case:?}");
                }
                pair.sender.end();
            }
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_peer_without_receive_requests() {
        let [timeout, retries, _] = PATIENT;
        for carrier in carriers() {
            for wait_mode in WAIT_MODES {
                let mut pair = Pair::start(carrier, wait_mode, [timeout, retries, 2]);
                for (at, case) in cases().iter().enumerate() {
                    let (status, _) = pair.run(at);
                    let wanted = match case.takes_receive() {
                        true => IBV_WC_RNR_RETRY_EXC_ERR,
                        false => IBV_WC_SUCCESS,
                    };
                    assert_eq!(status, wanted, "{carrier}, {wait_mode}: {case:?}");
                }
                pair.sender.end();
            }
        }
    }
}
