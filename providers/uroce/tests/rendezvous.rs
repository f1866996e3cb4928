//! The rendezvous of two processes, disturbed at each of its turns: the process whose turn it is
//! stays stopped for a while, is killed, or has a full rendezvous socket. Afterwards data moves
//! over shared memory, the only allowed carrier.
//!
//! In a *turn*, one process works while the other is stopped, until its threads sleep.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as expected"
)]
#![allow(clippy::cast_possible_truncation, reason = "of numbers in lines")]

mod alone;
mod ends;

use alone::{Player, Stopped, commands, reply, role as my_role};
use ends::{End, connect_for, peer_is_at};
use kit::abi::*;
use std::time::Duration;

/// Turns of a rendezvous, and one after it.
const TURNS: usize = 5;
/// So long a process stays stopped.
const PAUSE: Duration = Duration::from_millis(300);
/// Timeout and retries towards a process that lives, and one that was killed.
const PATIENT: &str = "18 7";
const SHORT: &str = "14 2";

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

/// A process of the tests below: executes commands, line by line.
#[test]
#[ignore = "the tests of `inside` start it"]
fn role() {
    if my_role().is_none() {
        return;
    }
    let device = End::new(IBV_QPT_RC);
    let mut end = device.another();
    for (word, numbers) in commands::<u64>() {
        match (word.as_str(), &numbers[..]) {
            ("new", []) => {
                end = device.another();
                let (number, address, rkey) = (end.number(), end.address(0), end.rkey());
                reply(&format!("{number} {address} {rkey}"));
            }
            ("connect", [number, timeout, retries]) => {
                connect_for(&end, *number as u32, [*timeout as u8, *retries as u8]);
                reply("connected");
            }
            ("write", [address, rkey]) => {
                peer_is_at(*address);
                end.post_send(1, IBV_WR_RDMA_WRITE, 0, 8, 64, *rkey as u32);
                reply(&end.completion().status.to_string());
            }
            _ => panic!("{word} {numbers:?}"),
        }
    }
}

mod inside {
    use super::*;
    use rustix::net::{self, AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

    /// A process and its queue pair.
    struct Side {
        player: Player,
        number: u64,
        address: u64,
        rkey: u64,
    }

    impl Side {
        fn start() -> Self {
            let mut side = Self {
                player: Player::start_with("side", &[("UROCE_CARRIER", "shm")]),
                number: 0,
                address: 0,
                rkey: 0,
            };
            side.renew();
            side
        }

        /// Takes another queue pair.
        fn renew(&mut self) {
            let line = self.player.ask("new");
            let numbers = line.split(' ').map(|word| word.parse().expect("a number"));
            let [number, address, rkey] = numbers.collect::<Vec<u64>>()[..] else {
                panic!("{line}");
            };
            (self.number, self.address, self.rkey) = (number, address, rkey);
        }

        fn connect(&mut self, peer: u64, patience: &str) {
            let line = format!("connect {peer} {patience}");
            assert_eq!(self.player.ask(&line), "connected");
        }

        /// The status of a write to the peer's memory.
        fn write(&mut self, address: u64, rkey: u64) -> ibv_wc_status {
            let status = self.player.ask(&format!("write {address} {rkey}"));
            status.parse().expect("a status")
        }

        /// Fills its rendezvous socket.
        fn fill(&self) {
            let slot = self.number >> 14;
            let mark = format!("@uroce/{slot}/shm/");
            let sockets = std::fs::read_to_string("/proc/net/unix").expect("sockets");
            let names = sockets.split_whitespace();
            let name = names.into_iter().find(|word| word.starts_with(&mark));
            let name = name.expect("a rendezvous socket").trim_start_matches('@');
            let to = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name");
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let kind = SocketType::DGRAM;
            let from = net::socket_with(AddressFamily::UNIX, kind, flags, None);
            let from = from.expect("a socket");
            while net::sendto(&from, b"nothing", SendFlags::empty(), &to).is_ok() {}
        }
    }

    /// Two processes, the one of the lower slot first.
    fn two() -> [Side; 2] {
        let mut sides = [Side::start(), Side::start()];
        sides.sort_by_key(|side| side.number);
        sides
    }

    /// Lets a process run until its threads sleep.
    fn turn(side: &Side, stopped: Stopped) -> Stopped {
        drop(stopped);
        let mut asleep = 0;
        // It may be between two steps: the threads have to be found asleep more than once.
        while asleep < 5 {
            std::thread::sleep(Duration::from_millis(2));
            let sleeps = side.player.states().iter().all(|state| *state == 'S');
            asleep = if sleeps { asleep + 1 } else { 0 };
        }
        side.player.stop()
    }

    /// The disturbance of the process whose turn it is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Event {
        Stop,
        Kill,
        Full,
    }

    /// Two processes in the middle of the rendezvous that one of them has begun: after that many
    /// turns, both stopped. Returns them, and the process of the next turn.
    fn halfway(asker: usize, turns: usize) -> ([Side; 2], [Stopped; 2], usize) {
        let mut sides = two();
        let other = sides[1 - asker].player.stop();
        let peer = sides[1 - asker].number;
        sides[asker].connect(peer, PATIENT);
        let own = sides[asker].player.stop();
        let mut stopped = if asker == 0 {
            [own, other]
        } else {
            [other, own]
        };
        let mut next = 1 - asker;
        for _ in 0..turns {
            let [low, high] = stopped;
            stopped = match next {
                0 => [turn(&sides[0], low), high],
                _ => [low, turn(&sides[1], high)],
            };
            next = 1 - next;
        }
        (sides, stopped, next)
    }

    /// Both write to each other.
    fn both_write(sides: &mut [Side; 2], what: &str) {
        for from in 0..2 {
            let (address, rkey) = (sides[1 - from].address, sides[1 - from].rkey);
            let status = sides[from].write(address, rkey);
            assert_eq!(status, IBV_WC_SUCCESS, "{what}, {from}");
        }
    }

    fn disturb(event: Event) {
        if !alone::there() {
            return;
        }
        for asker in 0..2 {
            for turns in 0..TURNS {
                let what = format!("{event:?}, {asker} asks, {turns} turns");
                let (mut sides, [low, high], next) = halfway(asker, turns);
                match event {
                    Event::Kill => {
                        kill_one(sides, [low, high], next, &what);
                        continue;
                    }
                    Event::Full => {
                        sides[next].fill();
                        drop((low, high));
                    }
                    Event::Stop => {
                        let (stays, goes_on) = if next == 0 { (low, high) } else { (high, low) };
                        drop(goes_on);
                        std::thread::sleep(PAUSE);
                        drop(stays);
                    }
                }
                let peer = sides[asker].number;
                sides[1 - asker].connect(peer, PATIENT);
                both_write(&mut sides, &what);
                for side in sides {
                    side.player.end();
                }
            }
        }
    }

    /// Kills one of the two: requests of the other end, and it meets a third process.
    fn kill_one(sides: [Side; 2], stopped: [Stopped; 2], next: usize, what: &str) {
        let [low, high] = sides;
        let (victim, mut survivor) = if next == 0 { (low, high) } else { (high, low) };
        let (number, address, rkey) = (victim.number, victim.address, victim.rkey);
        victim.player.kill();
        let [low, high] = stopped;
        // That of the victim must not be dropped: its number may be another process's.
        let (of_victim, of_survivor) = if next == 0 { (low, high) } else { (high, low) };
        std::mem::forget(of_victim);
        drop(of_survivor);
        survivor.renew();
        survivor.connect(number, SHORT);
        let status = survivor.write(address, rkey);
        assert_eq!(status, IBV_WC_RETRY_EXC_ERR, "{what}");
        survivor.renew();
        let mut both = [survivor, Side::start()];
        for own in 0..2 {
            let peer = both[1 - own].number;
            both[own].connect(peer, PATIENT);
        }
        both_write(&mut both, what);
        for side in both {
            side.player.end();
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_process_that_is_stopped_gets_the_link_afterwards() {
        disturb(Event::Stop);
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_process_that_is_killed_is_given_up_and_another_gets_a_link() {
        disturb(Event::Kill);
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_full_rendezvous_socket_only_delays_the_link() {
        disturb(Event::Full);
    }
}
