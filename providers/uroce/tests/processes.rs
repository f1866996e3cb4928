//! Processes that die while they are connected, and many processes at once.
//!
//! `UROCE_KILL_ROUNDS` makes the first test longer.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as expected"
)]
#![allow(clippy::cast_possible_truncation, reason = "of patterns")]

mod alone;
mod ends;

use alone::{Dice, Player, descriptors, receive_line, reply, role as my_role, threads};
use ends::{End, connect, connect_for, peer_is_at};
use kit::abi::*;

/// Requests of either side under way.
const DEPTH: u64 = 4;
const OPERATIONS: [ibv_wr_opcode; 4] = [
    IBV_WR_SEND,
    IBV_WR_RDMA_WRITE,
    IBV_WR_RDMA_READ,
    IBV_WR_SEND_WITH_IMM,
];
/// Bytes of the messages of each operation: from one packet to twenty.
const LENGTHS: [u32; 4] = [8, 20_000, 10_000, 3000];
/// Rounds that do not end by themselves.
const FOR_EVER: u64 = 1 << 60;
/// Set in the identifiers of receive requests.
const RECEIVE: u64 = 1 << 63;

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

/// A process of the tests below: makes an end, receives its peer's address, and moves data in both
/// directions until the test stops it, or a request fails; over and over.
#[test]
#[ignore = "the tests of `inside` start it"]
fn role() {
    let Some(role) = my_role() else {
        return;
    };
    let (way, rounds) = role.split_once(' ').expect("way and rounds");
    let rounds = rounds.parse().expect("rounds");
    if way == "talk" {
        return talk(rounds);
    }
    if way == "burst" {
        return burst(rounds);
    }
    let before = [descriptors(), threads()];
    loop {
        let end = if way == "wait" {
            End::waiting(IBV_QPT_RC)
        } else {
            End::new(IBV_QPT_RC)
        };
        let Some((number, rkey)) = introduced(&end) else {
            return;
        };
        // Short, if the test waits for the end of the peer; otherwise more than the seconds for
        // which one of many processes may not be scheduled on a busy machine.
        let patience = if rounds == FOR_EVER { [12, 4] } else { [18, 7] };
        connect_for(&end, number, patience);
        for id in 0..16 {
            end.post_recv(RECEIVE | id, 65_536, 8192);
        }
        reply("connected");
        receive_line().expect("go");
        let status = exchange(&end, rkey, rounds);
        reply(&format!("status {status}"));
        if status == IBV_WC_SUCCESS {
            // The peer may still need our answers.
            receive_line();
        }
        drop(end);
        // A thread that was joined is in /proc for a moment longer.
        for _ in 0..10_000 {
            if threads() == before[1] {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let after = [descriptors(), threads()];
        reply(&format!("left {:?} {:?}", before, after));
    }
}

/// Sends this end's number and key, and receives the peer's.
fn introduced(end: &End) -> Option<(u32, u32)> {
    let (number, address, rkey) = (end.number(), end.address(0), end.rkey());
    reply(&format!("{number} {address} {rkey}"));
    let peer = receive_line()?;
    let numbers: Vec<u64> = peer
        .split(' ')
        .map(|number| number.parse().expect("a number"))
        .collect();
    let [number, address, rkey] = numbers[..] else {
        panic!("{peer}");
    };
    peer_is_at(address);
    Some((number as u32, rkey as u32))
}

/// Takes turns with the peer, one message each. The end that receives the last message exits with
/// all its objects; the other prints the outcome of that message.
fn talk(rounds: u64) {
    let end = End::new(IBV_QPT_RC);
    let (number, _) = introduced(&end).expect("a peer");
    connect_for(&end, number, [18, 7]);
    for id in 0..rounds {
        end.post_recv(RECEIVE | id, 65_536, 64);
    }
    reply("connected");
    receive_line().expect("go");
    let begins = end.number() < number;
    for id in 0..rounds {
        if begins {
            end.post_send(id, IBV_WR_SEND, 0, 8, 0, 0);
        }
        let mut heard = false;
        while !heard {
            for wc in end.wait() {
                assert_eq!(wc.status, IBV_WC_SUCCESS, "{id}");
                heard |= wc.wr_id & RECEIVE != 0;
            }
        }
        if !begins {
            end.post_send(id, IBV_WR_SEND, 0, 8, 0, 0);
        }
    }
    if begins {
        // Nothing is destroyed, as when main returns.
        std::process::exit(0);
    }
    let last = |wc: &ibv_wc| (wc.wr_id == rounds - 1).then_some(wc.status);
    let status = loop {
        if let Some(status) = end.wait().iter().find_map(last) {
            break status;
        }
    };
    reply(&format!("status {status}"));
    receive_line();
}

/// One end of an unreliable connection posts so many messages at once, as soon as it is connected;
/// the other prints how many it receives.
fn burst(count: u64) {
    let end = End::new(IBV_QPT_UC);
    let (number, _) = introduced(&end).expect("a peer");
    connect(&end, number);
    for id in 0..count {
        end.post_recv(RECEIVE | id, 0, 65_536);
    }
    reply("connected");
    receive_line().expect("go");
    if end.number() < number {
        for id in 0..count {
            end.post_send(id, IBV_WR_SEND, 0, 65_536, 0, 0);
        }
        for _ in 0..count {
            assert_eq!(end.completion().status, IBV_WC_SUCCESS);
        }
    } else {
        for _ in 0..count {
            let wc = end.completion();
            assert_eq!((wc.status, wc.byte_len), (IBV_WC_SUCCESS, 65_536));
        }
        reply("received");
    }
    receive_line();
}

/// Moves data until that many requests are finished, or one fails, and returns how that one ended.
fn exchange(end: &End, rkey: u32, rounds: u64) -> ibv_wc_status {
    let (mut posted, mut finished) = (0u64, 0u64);
    let (mut sends, mut received) = (0u64, 0u64);
    // Two of four are sends.
    assert!(rounds.is_multiple_of(4));
    let expected = rounds / 2;
    loop {
        let mut failed = None;
        while failed.is_none() && posted < rounds && posted < finished + DEPTH {
            let kind = (posted % 4) as usize;
            end.post_send(posted, OPERATIONS[kind], 0, LENGTHS[kind], 0, rkey);
            sends += u64::from(is_send(posted));
            posted += 1;
        }
        for wc in end.wait() {
            if wc.status != IBV_WC_SUCCESS {
                // The failed request comes first; the others are flushed.
                failed.get_or_insert(wc.status);
                continue;
            }
            assert_eq!(failed, None, "success after failure");
            if wc.wr_id & RECEIVE == 0 {
                assert_eq!(wc.wr_id, finished, "in order");
                finished += 1;
            } else {
                end.post_recv(wc.wr_id, 65_536, 8192);
                received += 1;
            }
        }
        if let Some(status) = failed {
            assert_eq!(end.state(), IBV_QPS_ERR);
            return status;
        }
        if finished == rounds && received == expected {
            assert_eq!(sends, expected);
            return IBV_WC_SUCCESS;
        }
    }
}

fn is_send(id: u64) -> bool {
    matches!(id % 4, 0 | 3)
}

mod inside {
    use super::*;
    use std::time::{Duration, Instant};

    fn start(dice: &mut Dice, rounds: u64) -> (Player, String) {
        let way = ["poll", "wait"][dice.below(2) as usize];
        let mut player = Player::start(&format!("{way} {rounds}"));
        let address = player.receive_line();
        (player, address)
    }

    /// Has two connect and begin.
    fn introduce(players: &mut [(Player, String); 2]) {
        let [(left, of_left), (right, of_right)] = players;
        left.send_line(of_right);
        right.send_line(of_left);
        assert_eq!(left.receive_line(), "connected");
        assert_eq!(right.receive_line(), "connected");
        left.send_line("go");
        right.send_line("go");
    }

    /// Two processes that begin, the one with the lower queue pair number first.
    fn introduced_by_number(role: &str, carrier: &str) -> [(Player, String); 2] {
        let mut players = [(); 2].map(|()| {
            let mut player = Player::start_with(role, &[("UROCE_CARRIER", carrier)]);
            let address = player.receive_line();
            (player, address)
        });
        players.sort_by_key(|(_, of)| -> u32 {
            let number = of.split(' ').next().expect("a number");
            number.parse().expect("a number")
        });
        introduce(&mut players);
        players
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_killed_process_is_found_out_and_leaves_nothing() {
        if !alone::there() {
            return;
        }
        let rounds = alone::rounds("UROCE_KILL_ROUNDS", 24);
        let mut dice = Dice(0x0dd5_eed5);
        let mut longest = Duration::ZERO;
        let mut players = [start(&mut dice, FOR_EVER), start(&mut dice, FOR_EVER)];
        for round in 0..rounds {
            introduce(&mut players);
            std::thread::sleep(Duration::from_micros(dice.below(30_000)));
            let [left, right] = players;
            let (victim, mut survivor) = if dice.below(2) == 0 {
                (left, right)
            } else {
                (right, left)
            };
            let killed = Instant::now();
            victim.0.kill();
            let status = survivor.0.receive_line();
            longest = longest.max(killed.elapsed());
            assert_eq!(status, format!("status {IBV_WC_RETRY_EXC_ERR}"), "{round}");
            let left = survivor.0.receive_line();
            let (before, after) = left
                .strip_prefix("left ")
                .and_then(|left| left.split_once("] ["))
                .expect("what is left");
            assert_eq!(format!("{before}]"), format!("[{after}"), "{round}");
            survivor.1 = survivor.0.receive_line();
            // Of every few survivors one has lived through several deaths.
            if dice.below(3) == 0 {
                survivor.0.end();
                survivor = start(&mut dice, FOR_EVER);
            }
            players = [survivor, start(&mut dice, FOR_EVER)];
        }
        eprintln!("{rounds} kills, found out within {longest:?}");
        for (player, _) in players {
            player.end();
        }
        no_process_is_left();
    }

    /// No slot is taken any more: other processes of this namespace are gone.
    fn no_process_is_left() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let sockets = std::fs::read_to_string("/proc/net/unix").expect("sockets");
        assert!(!sockets.contains("@uroce/"), "{sockets}");
        let sockets = std::fs::read_to_string("/proc/net/udp").expect("sockets");
        assert!(!sockets.contains(":12B7"), "{sockets}");
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_process_that_exits_owes_no_acknowledgement() {
        if !alone::there() {
            return;
        }
        for carrier in ["udp", "shm"] {
            for round in 0..5 {
                let players = introduced_by_number("talk 20", carrier);
                let [(begins, _), (mut answers, _)] = players;
                let good = format!("status {IBV_WC_SUCCESS}");
                assert_eq!(answers.receive_line(), good, "{carrier} {round}");
                begins.end();
                answers.end();
            }
        }
        no_process_is_left();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn messages_of_an_unreliable_connection_wait_for_the_link() {
        if !alone::there() {
            return;
        }
        for _ in 0..5 {
            // More than are kept for a link that is not there yet.
            let players = introduced_by_number("burst 32", "shm");
            let [(sends, _), (mut receives, _)] = players;
            assert_eq!(receives.receive_line(), "received");
            sends.end();
            receives.end();
        }
        no_process_is_left();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn sixty_four_processes_move_data_at_once() {
        if !alone::there() {
            return;
        }
        let count = alone::rounds("UROCE_PROCESSES", 64);
        let mut pairs: Vec<[(Player, String); 2]> = (0..count / 2)
            .map(|_| {
                [(); 2].map(|()| {
                    let mut player = Player::start("wait 200");
                    let address = player.receive_line();
                    (player, address)
                })
            })
            .collect();
        let began = Instant::now();
        for pair in &mut pairs {
            introduce(pair);
        }
        let good = format!("status {IBV_WC_SUCCESS}");
        for pair in &mut pairs {
            // Both, since the failure of one makes the other fail.
            let statuses = pair.each_mut().map(|(player, _)| player.receive_line());
            assert_eq!(statuses.each_ref(), [&good; 2]);
        }
        eprintln!(
            "{count} processes, 200 requests each: {:?}",
            began.elapsed()
        );
        for (player, _) in pairs.iter_mut().flatten() {
            player.send_line("stop");
        }
        for (mut player, _) in pairs.into_iter().flatten() {
            assert!(player.receive_line().starts_with("left"));
            player.receive_line();
            player.end();
        }
        no_process_is_left();
    }
}
