//! A process of the same user that violates the rules: its writes to the memory that it shares with
//! a neighbour end only its connections. The neighbour survives, serves others meanwhile, and never
//! waits without a limit.
//!
//! `UROCE_SCRIBBLES` makes the last test longer.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as expected"
)]
#![allow(clippy::cast_possible_truncation, reason = "of patterns")]

mod alone;
mod ends;

use alone::{Dice, Player, commands, reply, role as my_role};
use ends::{End, connect_with};
use kit::abi::*;
use kit::errno::Errno;
use kit::provider::Provider;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Errors are found by the retries of half a second.
const RELIABILITY: [u8; 3] = [14, 7, 2];

/// Where the claims of a ring begin in its head, their number, and the bytes of each.
const CLAIMS: u64 = 1024;
const CLAIM: u64 = 64;
const MANY: u64 = 16;
/// Where the second ring begins.
const SECOND: u64 = 4096 + (128 << 10);

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

/// A mapping of this process that is shared with others.
struct Mapping {
    start: u64,
}

/// The mappings with this name.
fn mappings(name: &str) -> Vec<Mapping> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let lines = maps.lines().filter(|line| line.contains(name));
    let mapping = |line: &str| {
        let (start, _) = line.split_once('-').expect("a range");
        let start = u64::from_str_radix(start, 16).expect("an address");
        Mapping { start }
    };
    lines.map(mapping).collect()
}

/// The memory of this process, to be written wherever it may be.
fn memory() -> File {
    let opened = File::options()
        .read(true)
        .write(true)
        .open("/proc/self/mem");
    opened.expect("opened")
}

/// The links of this process: those that it has given up are there as long as its queue pairs.
fn links() -> Vec<Mapping> {
    let links = mappings("memfd:uroce-link");
    assert!(!links.is_empty(), "shared memory");
    links
}

/// Says in all places of the link that a thread uses a key of the neighbour.
fn claim(key: u64, thread: u64) {
    let memory = memory();
    for (link, ring) in links().iter().flat_map(|link| [(link, 0), (link, SECOND)]) {
        for place in 0..MANY {
            let words = [1 << 63, 1 << 63 | key, thread, 4096, 64];
            let bytes: Vec<u8> = words
                .iter()
                .flat_map(|word: &u64| word.to_ne_bytes())
                .collect();
            let at = link.start + ring + CLAIMS + place * CLAIM;
            memory.write_all_at(&bytes, at).expect("written");
        }
    }
}

/// The number of a thread that runs from now on.
fn spinning() -> u64 {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        sender.send(own).expect("heard");
        loop {
            std::hint::spin_loop();
        }
    });
    u64::try_from(receiver.recv().expect("sent")).expect("positive")
}

/// Writes that many words anywhere in the link: any, small ones, and such as mean something.
fn scribble(seed: u64, count: u64) {
    let (memory, links) = (memory(), links());
    let mut dice = Dice(seed);
    for _ in 0..count {
        let value = match dice.below(5) {
            0 => dice.next(),
            1 => dice.below(200_000),
            2 => 1 << 63 | dice.below(3) << 32 | dice.below(40_000),
            3 => 0,
            _ => u64::MAX >> dice.below(64),
        };
        let word = match dice.below(4) {
            // In the head of one of the rings, or at the beginning of a line.
            0 => dice.below(2) * SECOND / 8 + dice.below(512),
            1 => dice.below(2) * SECOND / 8 + 512 + 8 * dice.below(2048),
            _ => dice.below(2 * SECOND / 8),
        };
        let link = &links[dice.below(links.len() as u64) as usize];
        let at = link.start + 8 * word;
        memory
            .write_all_at(&value.to_ne_bytes(), at)
            .expect("written");
    }
}

/// A process that executes commands, line by line.
#[test]
#[ignore = "the tests of `inside` start it"]
fn role() {
    if my_role().is_none() {
        return;
    }
    let first = End::new(IBV_QPT_RC);
    let mut ends = [first.another(), first.another()];
    let mut region: Option<Arc<<uroce::context::Context as Provider>::Mr>> = None;
    for (word, numbers) in commands::<u64>() {
        match (word.as_str(), &numbers[..]) {
            ("who", []) => reply(&format!(
                "{} {} {} {}",
                ends[0].number(),
                ends[1].number(),
                first.address(0),
                first.rkey()
            )),
            ("connect", [at, number]) => {
                connect_with(&ends[*at as usize], *number as u32, RELIABILITY);
                reply("connected");
            }
            ("again", [at]) => {
                ends[*at as usize] = first.another();
                reply(&ends[*at as usize].number().to_string());
            }
            // Operations that the peer's process has to carry out, and some that it has not.
            ("work", [at, count, address, rkey]) => {
                let end = &ends[*at as usize];
                for number in 0..*count {
                    end.put(0, &number.to_ne_bytes());
                    for opcode in [
                        IBV_WR_ATOMIC_FETCH_AND_ADD,
                        IBV_WR_RDMA_WRITE,
                        IBV_WR_RDMA_READ,
                        IBV_WR_ATOMIC_WRITE,
                    ] {
                        let (address, rkey) = (*address + 4096, *rkey as u32);
                        end.request_of(number, opcode, end.sge(64, 8), address, rkey);
                        assert_eq!(end.completion().status, IBV_WC_SUCCESS, "{number}");
                    }
                }
                reply("worked");
            }
            // Messages and more to a peer of which nothing is known: each ends.
            ("talk", [at, count, address, rkey]) => {
                let end = &ends[*at as usize];
                let mut ended = 0;
                'all: for number in 0..*count {
                    for opcode in [IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE] {
                        let length = 1 + (number * 811 % 8192) as u32;
                        let piece = end.sge(0, length);
                        end.request_of(number, opcode, piece, *address, *rkey as u32);
                        ended += 1;
                        if end.completion().status != IBV_WC_SUCCESS {
                            break 'all;
                        }
                    }
                }
                reply(&format!("talked {ended}"));
            }
            ("register", []) => {
                let (mr, rkey) = first.register(65_536, 4096);
                region = Some(mr);
                reply(&rkey.to_string());
            }
            ("deregister", []) => {
                let done = first.try_to_deregister(region.as_ref().expect("registered"));
                reply(match done {
                    Ok(()) => "done",
                    Err(Errno::BUSY) => "busy",
                    Err(_) => "failed",
                });
            }
            ("claim", [key, thread]) => {
                claim(*key, *thread);
                reply("claimed");
            }
            ("spin", []) => reply(&spinning().to_string()),
            ("scribble", [seed, count]) => {
                scribble(*seed, *count);
                reply("scribbled");
            }
            ("overwrite", []) => {
                let segments = mappings("memfd:uroce-segment");
                let memory = memory();
                let mut written = 0;
                for segment in &segments {
                    // The word with the activity of its process: it has closed its last device.
                    let closed = 4u64.to_ne_bytes();
                    written += u32::from(memory.write_all_at(&closed, segment.start + 128).is_ok());
                }
                reply(&format!("{} {written}", segments.len()));
            }
            _ => panic!("{word} {numbers:?}"),
        }
    }
}

mod inside {
    use super::*;

    /// A victim that is connected to a process which does not keep to the rules, and to one that
    /// does.
    struct Three {
        victim: Player,
        hostile: Player,
        honest: Player,
        /// Where the memory of the victim and of the hostile one is, and its key.
        memory: [String; 2],
    }

    fn numbers(player: &mut Player) -> Vec<u64> {
        let who = player.ask("who");
        let numbers = who.split(' ').map(|word| word.parse().expect("a number"));
        numbers.collect()
    }

    impl Three {
        /// `None` where that cannot be tried.
        fn start() -> Option<Self> {
            if !alone::there() {
                return None;
            }
            let start = || Player::start_with("end", &[("UROCE_CARRIER", "shm")]);
            let (mut victim, mut hostile, mut honest) = (start(), start(), start());
            let [v, h, z] = [&mut victim, &mut hostile, &mut honest].map(numbers);
            let connect = |player: &mut Player, at: u32, number: u64| {
                assert_eq!(player.ask(&format!("connect {at} {number}")), "connected");
            };
            connect(&mut victim, 0, h[0]);
            connect(&mut hostile, 0, v[0]);
            connect(&mut victim, 1, z[0]);
            connect(&mut honest, 0, v[1]);
            let memory = [&v, &h].map(|who| format!("{} {}", who[2], who[3]));
            // Both have the link, which nothing else can replace here, once the victim has
            // answered.
            let worked = hostile.ask(&format!("work 0 1 {}", memory[0]));
            assert_eq!(worked, "worked");
            Some(Self {
                victim,
                hostile,
                honest,
                memory,
            })
        }

        fn honest_works(&mut self, count: u32) {
            let [memory, _] = &self.memory;
            let answer = self.honest.ask(&format!("work 0 {count} {memory}"));
            assert_eq!(answer, "worked");
        }

        /// The victim talks to the hostile one, by a new connection.
        fn reconnect(&mut self) {
            let ours = self.victim.ask("again 0");
            let theirs = self.hostile.ask("again 0");
            for (player, number) in [(&mut self.victim, theirs), (&mut self.hostile, ours)] {
                assert_eq!(player.ask(&format!("connect 0 {number}")), "connected");
            }
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn the_segment_of_another_process_is_read_only() {
        let Some(mut three) = Three::start() else {
            return;
        };
        // Of the three segments that it has mapped: its own, to write and perhaps to read, and the
        // victim's.
        let answer = three.hostile.ask("overwrite");
        let (segments, written) = answer.split_once(' ').expect("two numbers");
        let segments: u32 = segments.parse().expect("a number");
        assert!(segments >= 2, "{answer}");
        assert_eq!(written, "1", "{answer}");
        three.honest_works(20);
        for player in [three.victim, three.honest] {
            player.end();
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn false_claims_are_waited_for_a_while_and_others_are_served() {
        let Some(mut three) = Three::start() else {
            return;
        };
        let key_of = |rkey: &str| rkey.parse::<u64>().expect("a number") >> 8;
        let rkey = three.victim.ask("register");
        let key = key_of(&rkey);
        // Of no thread: there is no wait.
        assert_eq!(three.hostile.ask(&format!("claim {key} 0")), "claimed");
        assert_eq!(three.victim.ask("deregister"), "done");
        // Of one that runs, and so may be copying.
        let key = key_of(&three.victim.ask("register"));
        let thread = three.hostile.ask("spin");
        let claims = format!("claim {key} {thread}");
        assert_eq!(three.hostile.ask(&claims), "claimed");
        three.victim.send_line("deregister");
        three.honest_works(50);
        assert_eq!(three.victim.receive_line(), "busy");
        // It stays registered until it is known to be unused.
        let stopped = three.hostile.stop();
        assert_eq!(three.victim.ask("deregister"), "done");
        drop(stopped);
        let key = key_of(&three.victim.ask("register"));
        let claims = format!("claim {key} {thread}");
        assert_eq!(three.hostile.ask(&claims), "claimed");
        three.hostile.kill();
        assert_eq!(three.victim.ask("deregister"), "done");
        for player in [three.victim, three.honest] {
            player.end();
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn random_bytes_in_a_link_harm_only_their_writer() {
        let Some(mut three) = Three::start() else {
            return;
        };
        let mut dice = Dice(0xbad);
        for round in 0..alone::rounds("UROCE_SCRIBBLES", 6) {
            let seed = dice.next() >> 8 | 1;
            three.hostile.send_line(&format!("scribble {seed} 20000"));
            let theirs = three.memory[1].clone();
            three.victim.send_line(&format!("talk 0 50 {theirs}"));
            three.honest_works(20);
            assert_eq!(three.hostile.receive_line(), "scribbled");
            let answer = three.victim.receive_line();
            assert!(answer.starts_with("talked "), "{round}: {answer}");
            three.reconnect();
            // Memory comes and goes as if nothing were.
            three.victim.ask("register");
            assert_eq!(three.victim.ask("deregister"), "done", "{round}");
        }
        three.honest_works(20);
        for player in [three.victim, three.honest] {
            player.end();
        }
    }
}
