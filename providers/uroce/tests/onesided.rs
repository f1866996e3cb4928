//! RDMA writes and reads between two processes of one host: the target need not do anything, errors are
//! those of the network, and memory that was deregistered is left alone.
//!
//! `UROCE_DEREG_ROUNDS` makes the last test longer.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as expected"
)]
#![allow(clippy::cast_possible_truncation, reason = "of patterns")]

mod alone;
mod ends;

use alone::{Dice, Player, hear, role as my_role, say};
use ends::{End, connect, peer_is_at};
use kit::abi::*;
use kit::sys::shared::Shared;
use std::sync::atomic::Ordering::SeqCst;

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

/// Where the region of the last test is, and its bytes.
const REGION: u32 = 65_536;
const BYTES: u32 = 32_768;

/// A process that does what it is told, line by line.
#[test]
#[ignore = "the tests of `inside` start it"]
fn role() {
    if my_role().is_none() {
        return;
    }
    let mut end = End::new(IBV_QPT_RC);
    let mut region = None;
    let mut shared = None;
    while let Some(line) = hear() {
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let numbers: Vec<u64> = rest
            .split_whitespace()
            .map(|number| number.parse().expect("a number"))
            .collect();
        match (word, &numbers[..]) {
            ("who", []) => say(&format!(
                "{} {} {}",
                end.number(),
                end.address(0),
                end.rkey()
            )),
            ("connect", [number, address]) => {
                peer_is_at(*address);
                connect(&end, *number as u32);
                say("connected");
            }
            ("again", []) => {
                end = end.another();
                say("again");
            }
            ("fill", [seed]) => {
                end.fill(*seed as u8);
                say("filled");
            }
            ("sum", [offset, length]) => {
                say(&format!("{}", sum(&end, *offset as u32, *length as u32)))
            }
            (operation, [offset, length, remote, rkey]) => {
                let opcode = match operation {
                    "write" => IBV_WR_RDMA_WRITE,
                    "read" => IBV_WR_RDMA_READ,
                    _ => panic!("{line}"),
                };
                let (offset, length) = (*offset as u32, *length as u32);
                end.post_send(9, opcode, offset, length, *remote as u32, *rkey as u32);
                let wc = end.completion();
                assert_eq!((wc.wr_id, wc.qp_num), (9, end.number()));
                say(&format!("status {}", wc.status));
            }
            ("state", []) => say(&format!("state {}", end.state())),
            ("share", []) => {
                let (memory, fd) = Shared::create(c"uroce-test", 1 << 16).expect("memory");
                let (mr, rkey) = end.register_shared(&memory);
                let address = memory.words().as_ptr().addr();
                say(&format!("{rkey} {address}"));
                region = Some(mr);
                shared = Some((memory, fd));
            }
            ("word", [index]) => {
                let (memory, _) = shared.as_ref().expect("shared");
                let words = memory.words();
                say(&format!("{}", words[*index as usize].load(SeqCst)));
            }
            ("count", [address, rkey]) => {
                // Each number is written, read into another place and compared.
                for number in 1..=100u64 {
                    end.put(64, &number.to_ne_bytes());
                    for (opcode, place) in [(IBV_WR_RDMA_WRITE, 64), (IBV_WR_RDMA_READ, 128)] {
                        end.post_to(opcode, (place, 8), *address, *rkey as u32);
                        assert_eq!(end.completion().status, IBV_WC_SUCCESS);
                    }
                    assert_eq!(end.bytes(128, 8), number.to_ne_bytes());
                }
                say("counted");
            }
            ("once", [address, rkey]) => {
                end.post_to(IBV_WR_RDMA_WRITE, (64, 8), *address, *rkey as u32);
                say(&format!("status {}", end.completion().status));
            }
            ("unregister", []) => {
                end.deregister(&region.take().expect("registered"));
                say("gone");
            }
            ("register", []) => {
                let (mr, rkey) = end.register(REGION, BYTES);
                region = Some(mr);
                say(&format!("{rkey}"));
            }
            ("deregister", [micros]) => {
                std::thread::sleep(std::time::Duration::from_micros(*micros));
                end.deregister(&region.take().expect("registered"));
                // From here on these bytes are ours alone.
                end.put(REGION, &[0xee; BYTES as usize]);
                std::thread::sleep(std::time::Duration::from_millis(2));
                let same = end.bytes(REGION, BYTES).iter().all(|byte| *byte == 0xee);
                say(if same { "left alone" } else { "CHANGED" });
            }
            ("hammer", [rkey]) => {
                let mut written = 0u64;
                let status = loop {
                    let length = 1 + (written * 4099 % u64::from(BYTES)) as u32;
                    end.post_send(9, IBV_WR_RDMA_WRITE, 0, length, REGION, *rkey as u32);
                    let wc = end.completion();
                    if wc.status != IBV_WC_SUCCESS {
                        break wc.status;
                    }
                    written += 1;
                };
                say(&format!("{status} {written}"));
            }
            _ => panic!("{line}"),
        }
    }
}

fn sum(end: &End, offset: u32, length: u32) -> u64 {
    let add = |sum: u64, byte: &u8| sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
    end.bytes(offset, length).iter().fold(0, add)
}

mod inside {
    use super::*;

    /// Two connected processes; the second's key.
    struct Two {
        initiator: Player,
        target: Player,
        rkey: u64,
    }

    impl Two {
        fn start(carrier: &str) -> Self {
            let start = || Player::start_with("end", &[("UROCE_CARRIER", carrier)]);
            let mut two = Self {
                initiator: start(),
                target: start(),
                rkey: 0,
            };
            two.join();
            two
        }

        fn join(&mut self) {
            let who = [&mut self.initiator, &mut self.target].map(|player| {
                let who = player.ask("who");
                let numbers = who.split(' ').map(|word| word.parse().expect("a number"));
                numbers.collect::<Vec<u64>>()
            });
            let [initiator, target] = &who;
            let line = |of: &[u64]| format!("connect {} {}", of[0], of[1]);
            assert_eq!(self.initiator.ask(&line(target)), "connected");
            assert_eq!(self.target.ask(&line(initiator)), "connected");
            self.rkey = target[2];
        }

        /// Stops the target, until the answer is dropped.
        fn stop(&self) -> alone::Stopped {
            self.target.stop()
        }

        fn operate(&mut self, operation: &str, length: u32, remote: u32, rkey: u64) -> String {
            self.initiator
                .ask(&format!("{operation} 0 {length} {remote} {rkey}"))
        }

        fn end(self) {
            self.initiator.end();
            self.target.end();
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_target_that_is_stopped_is_written_and_read() {
        if !alone::there() {
            return;
        }
        let mut two = Two::start("shm");
        let rkey = two.rkey;
        two.initiator.ask("fill 3");
        two.target.ask("fill 200");
        let theirs = two.target.ask("sum 70000 50001");
        let ours = two.initiator.ask("sum 0 60001");
        let stopped = two.stop();
        assert_eq!(two.operate("write", 60_001, 5, rkey), "status 0");
        assert_eq!(two.operate("read", 50_001, 70_000, rkey), "status 0");
        assert_eq!(two.initiator.ask("sum 0 50001"), theirs);
        drop(stopped);
        assert_eq!(two.target.ask("sum 5 60001"), ours);
        // What goes by packets may follow.
        assert_eq!(two.operate("write", 100, 100_000, rkey), "status 0");
        two.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn shared_memory_is_used_as_it_is() {
        if !alone::there() {
            return;
        }
        let mut two = Two::start("auto");
        let shared = two.target.ask("share");
        let (rkey, address) = shared.split_once(' ').expect("two numbers");
        let address: u64 = address.parse().expect("an address");
        let middle = address + 8 * 1000;
        let stopped = two.stop();
        let counted = two.initiator.ask(&format!("count {middle} {rkey}"));
        assert_eq!(counted, "counted");
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", two.initiator.id()));
        assert!(maps.expect("maps").contains("memfd:uroce-test"));
        drop(stopped);
        assert_eq!(two.target.ask("word 1000"), "100");
        assert_eq!(two.target.ask("word 1001"), "0");
        // The bytes are still there, and still mapped; the key is not.
        assert_eq!(two.target.ask("unregister"), "gone");
        two.initiator.ask("fill 7");
        let said = two.initiator.ask(&format!("once {middle} {rkey}"));
        assert_eq!(said, format!("status {IBV_WC_REM_ACCESS_ERR}"));
        assert_eq!(two.target.ask("word 1000"), "100");
        two.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn what_is_wrong_ends_as_over_a_network() {
        if !alone::there() {
            return;
        }
        let error = |carrier: &str, operation: &str, length, remote, wrong: u64| {
            let mut two = Two::start(carrier);
            let rkey = two.rkey;
            assert_eq!(two.operate("write", 8, 0, rkey), "status 0");
            let before = two.target.ask("sum 0 131072");
            let status = two.operate(operation, length, remote, rkey ^ wrong);
            let state = two.initiator.ask("state");
            let theirs = two.target.ask("state");
            assert_eq!(two.target.ask("sum 0 131072"), before);
            two.end();
            [status, state, theirs]
        };
        let wrongs = [
            ("write", 8, 0, 1),
            ("read", 8, 0, 1 << 20),
            ("write", 16, 131_064, 0),
            ("read", 4000, 131_000, 0),
        ];
        for (operation, length, remote, wrong) in wrongs {
            let by = |carrier| error(carrier, operation, length, remote, wrong);
            let packets = by("udp");
            assert_eq!(packets[0], format!("status {IBV_WC_REM_ACCESS_ERR}"));
            assert_eq!(packets[1], format!("state {IBV_QPS_ERR}"));
            assert_eq!(by("auto"), packets);
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn memory_that_was_deregistered_is_left_alone() {
        if !alone::there() {
            return;
        }
        let mut dice = Dice(0x5eed);
        let mut two = Two::start("auto");
        let mut all = 0;
        for round in 0..alone::rounds("UROCE_DEREG_ROUNDS", 40) {
            let rkey = two.target.ask("register");
            two.initiator.tell(&format!("hammer {rkey}"));
            let micros = dice.below(3000);
            let said = two.target.ask(&format!("deregister {micros}"));
            assert_eq!(said, "left alone", "{round}");
            let hammered = two.initiator.hear();
            let (status, written) = hammered.split_once(' ').expect("two numbers");
            assert_eq!(status, format!("{IBV_WC_REM_ACCESS_ERR}"), "{round}");
            all += written.parse::<u64>().expect("a number");
            for player in [&mut two.initiator, &mut two.target] {
                assert_eq!(player.ask("again"), "again");
            }
            two.join();
        }
        eprintln!("{all} writes");
        assert!(all > 0);
        two.end();
    }
}
