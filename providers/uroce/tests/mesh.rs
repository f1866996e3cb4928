//! Processes that connect to each other, all to all or each to its neighbours in a ring, and move
//! data over every connection.
//!
//! `UROCE_MESH` is the number of processes (2 to 1000), `UROCE_MESH_NEIGHBOURS` the number of
//! neighbours on either side that each connects to.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as expected"
)]
#![allow(clippy::cast_possible_truncation, reason = "of indices")]

mod alone;
mod ends;

use alone::{Player, receive_line, reply, role as my_role};
use ends::{End, connect_for, peer_is_at};
use kit::abi::*;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Bytes that a process keeps for the writes and messages of each other one.
const PLACE: u32 = 64;
/// Where the places for sends begin; those for writes begin at 0.
const SENDS: u32 = 65_536;
/// Where the bytes are that a process sends to all others.
const OWN: u32 = SENDS + 1000 * PLACE;
/// Connections that a process uses at the same time.
const BATCH: usize = 64;
/// Set in the identifiers of receive requests.
const RECEIVE: u64 = 1 << 63;

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

/// The processes that one of `count` connects to: those up to `neighbours` away in a ring.
fn peers_of(own: u32, count: u32, neighbours: u32) -> Vec<u32> {
    let distance = |other: u32| {
        let ahead = (other + count - own) % count;
        ahead.min(count - ahead)
    };
    (0..count)
        .filter(|other| (1..=neighbours).contains(&distance(*other)))
        .collect()
}

fn numbers(line: &str) -> Vec<u64> {
    let words = line.split(' ');
    words.map(|word| word.parse().expect("a number")).collect()
}

/// Eight bytes that identify the sender and the operation.
fn pattern(sender: u32, by: ibv_wr_opcode) -> [u8; 8] {
    (u64::from(sender) << 32 | u64::from(by) | 1 << 16).to_le_bytes()
}

/// A connection of a process.
struct Connection {
    end: End,
    /// The process at the other end: which, and where its memory is.
    peer: u32,
    address: u64,
    rkey: u32,
}

/// A process of the test below: `count neighbours own`.
#[test]
#[ignore = "the test of `inside` starts it"]
fn role() {
    let Some(role) = my_role() else {
        return;
    };
    let [count, neighbours, own] = numbers(&role)[..] else {
        panic!("{role}");
    };
    let own = own as u32;
    let peers = peers_of(own, count as u32, neighbours as u32);
    // Half of the processes poll, the others wait.
    let end = match own % 2 {
        0 => End::new(IBV_QPT_RC),
        _ => End::waiting(IBV_QPT_RC),
    };
    let ends: Vec<End> = peers.iter().map(|_| end.another()).collect();
    let mut introduction = format!("{} {}", end.address(0), end.rkey());
    for end in &ends {
        introduction += &format!(" {}", end.number());
    }
    reply(&introduction);
    let reported = numbers(&receive_line().expect("the peers"));
    let whose = peers.into_iter().zip(reported.chunks(3));
    let connections: Vec<Connection> = ends
        .into_iter()
        .zip(whose)
        .map(|(end, (peer, reported))| {
            let [address, rkey, number] = reported[..] else {
                panic!("{reported:?}");
            };
            let (number, rkey) = (number as u32, rkey as u32);
            // So long may a process have no turn where there are many.
            connect_for(&end, number, [18, 7]);
            end.post_recv(RECEIVE | u64::from(peer), SENDS + peer * PLACE, PLACE);
            Connection {
                end,
                peer,
                address,
                rkey,
            }
        })
        .collect();
    reply("connected");
    receive_line().expect("go");
    exchange(&end, own, &connections);
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let used = Duration::try_from(used).expect("a time").as_micros();
    reply(&format!("moved {used}"));
    receive_line().expect("all have");
    for Connection { peer, .. } in &connections {
        for (from, by) in [(0, IBV_WR_RDMA_WRITE), (SENDS, IBV_WR_SEND)] {
            let found = end.bytes(from + peer * PLACE, 8);
            assert_eq!(found, pattern(*peer, by), "{own} from {peer}");
        }
    }
    reply("found");
    receive_line();
}

/// Writes and sends a value to each peer, and receives the value of each.
fn exchange(end: &End, own: u32, connections: &[Connection]) {
    let mut received = 0;
    for batch in connections.chunks(BATCH) {
        let mut due = 0;
        for Connection {
            end,
            peer,
            address,
            rkey,
        } in batch
        {
            peer_is_at(*address);
            for (by, place) in [(IBV_WR_RDMA_WRITE, 0), (IBV_WR_SEND, 8)] {
                end.put(OWN + place, &pattern(own, by));
                let id = u64::from(*peer);
                end.post_send(id, by, OWN + place, 8, own * PLACE, *rkey);
                due += 1;
            }
        }
        let is_last = received + batch.len() >= connections.len();
        while due > 0 || is_last && received < connections.len() {
            for wc in end.wait() {
                let peer = wc.wr_id & !RECEIVE;
                assert_eq!(wc.status, IBV_WC_SUCCESS, "{own} with {peer}");
                match wc.wr_id & RECEIVE {
                    0 => due -= 1,
                    _ => received += 1,
                }
            }
        }
    }
}

mod inside {
    use super::*;
    use std::collections::HashMap;
    use std::time::Instant;

    /// A process as it has described itself.
    struct Introduction {
        address: u64,
        rkey: u64,
        /// Numbers of its queue pairs, by peer.
        numbers: HashMap<u32, u64>,
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn every_connection_of_many_processes_moves_data() {
        if !alone::there() {
            return;
        }
        let count = alone::rounds("UROCE_MESH", 40);
        let neighbours = alone::rounds("UROCE_MESH_NEIGHBOURS", count);
        assert!((2..=1000).contains(&count) && neighbours > 0);
        let began = Instant::now();
        let peers = |own| peers_of(own, count as u32, neighbours as u32);
        let mut players: Vec<Player> = (0..count)
            .map(|own| Player::start(&format!("{count} {neighbours} {own}")))
            .collect();
        let introductions: Vec<Introduction> = (0u32..)
            .zip(&mut players)
            .map(|(own, player)| {
                let [address, rkey, ref all @ ..] = numbers(&player.receive_line())[..] else {
                    panic!("an introduction");
                };
                let numbers: HashMap<_, _> = peers(own).into_iter().zip(all.to_vec()).collect();
                Introduction {
                    address,
                    rkey,
                    numbers,
                }
            })
            .collect();
        let started = began.elapsed();
        for (own, player) in (0u32..).zip(&mut players) {
            let of = |peer: u32| {
                let theirs = &introductions[peer as usize];
                let number = theirs.numbers[&own];
                format!("{} {} {number}", theirs.address, theirs.rkey)
            };
            let line: Vec<String> = peers(own).into_iter().map(of).collect();
            player.send_line(&line.join(" "));
        }
        for player in &mut players {
            assert_eq!(player.receive_line(), "connected");
        }
        let connected = began.elapsed();
        for player in &mut players {
            player.send_line("go");
        }
        let mut used = Duration::ZERO;
        for player in &mut players {
            let line = player.receive_line();
            let micros = line.strip_prefix("moved ").expect("a time");
            used += Duration::from_micros(micros.parse().expect("a number"));
        }
        eprintln!(
            "{count} processes, {} connections each: started in {started:?}, connected after \
             {connected:?}, all moved data after {:?}; processor time {used:?}",
            peers(0).len(),
            began.elapsed()
        );
        for player in &mut players {
            player.send_line("look");
        }
        for player in &mut players {
            assert_eq!(player.receive_line(), "found");
        }
        for player in players {
            player.end();
        }
    }
}
