//! Mixed traffic on a bad network, with an eye on memory, descriptors and threads.
//!
//! `UROCE_SOAK_ROUNDS` makes it longer.
#![allow(
    clippy::expect_used,
    reason = "a test ends where something is not as expected"
)]

mod alone;
mod ends;

use alone::{descriptors, reply, resident, role as my_role, rounds, threads};
use ends::{End, connect, connect_for};
use kit::abi::*;

/// Bytes by which memory in use may grow, whatever the rounds: fragments, buffers once full.
const GROWTH: u64 = 512 << 10;

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

/// A round: every operation between two old ends and two new ones, and datagrams.
fn round(turn: u64, old: &[End; 2], datagrams: &[End; 2]) {
    work(turn, old);
    let [left, right] = old.each_ref().map(End::another);
    join(&left, &right);
    work(turn, &[left, right]);
    let [from, to] = datagrams;
    from.datagram(turn, 900, to);
    assert_eq!(from.completion().status, IBV_WC_SUCCESS);
    // It may be lost, or come twice: as many receive requests are posted as were used.
    for wc in to.poll() {
        to.post_recv(wc.wr_id, 0, 4096);
    }
}

/// Connects two ends that detect losses soon.
fn join(left: &End, right: &End) {
    connect_for(left, right.number(), [11, 7]);
    connect_for(right, left.number(), [11, 7]);
}

fn work(turn: u64, [a, b]: &[End; 2]) {
    let length = u32::try_from(turn * 7919 % 20_000).expect("small");
    a.fill(u8::try_from(turn % 200).expect("small"));
    for (from, to) in [(a, b), (b, a)] {
        to.post_recv(1, 40_000, 20_000);
        from.post_send(1, IBV_WR_SEND_WITH_IMM, 0, length, 0, 0);
        ends::peer_is_at(to.address(0));
        from.post_send(2, IBV_WR_RDMA_WRITE, 0, length, 70_000, to.rkey());
        from.post_send(3, IBV_WR_RDMA_READ, 100_000, length, 0, to.rkey());
        from.atomic(
            4,
            IBV_WR_ATOMIC_FETCH_AND_ADD,
            95_000,
            95_008,
            to.rkey(),
            1,
            0,
        );
        // Both may share a completion queue.
        let mut due = 5;
        while due > 0 {
            for end in [from, to] {
                for wc in end.poll() {
                    assert_eq!(wc.status, IBV_WC_SUCCESS, "{}", wc.wr_id);
                    due -= 1;
                }
            }
            std::thread::yield_now();
        }
        let equal = |what: &str, (there, at), here: &End| {
            same(
                turn,
                what,
                &End::bytes(there, at, length),
                &here.bytes(0, length),
            );
        };
        equal("sent", (to, 40_000), from);
        equal("written", (to, 70_000), from);
        equal("read", (from, 100_000), to);
    }
}

/// Says where bytes differ: in one place, a packet's worth, or all.
fn same(turn: u64, what: &str, there: &[u8], here: &[u8]) {
    let differ = |at: &usize| there.get(*at) != here.get(*at);
    let places: Vec<usize> = (0..here.len()).filter(differ).collect();
    assert!(
        places.is_empty(),
        "turn {turn}, {what}: {} of {} bytes differ, from {:?} to {:?}",
        places.len(),
        here.len(),
        places.first(),
        places.last()
    );
}

#[test]
#[ignore = "the tests of `inside` start it"]
fn role() {
    if my_role().is_none() {
        return;
    }
    let old = [End::new(IBV_QPT_RC), End::new(IBV_QPT_RC)];
    join(&old[0], &old[1]);
    let datagrams = [End::new(IBV_QPT_UD), End::new(IBV_QPT_UD)];
    for end in &datagrams {
        connect(end, 0);
    }
    for id in 0..32 {
        datagrams[1].post_recv(id, 0, 4096);
    }
    let turns = rounds("UROCE_SOAK_ROUNDS", 300);
    // Numbers of queue pairs come round late, after 8192 rounds; until then their table grows.
    let warm = if turns > 10_000 { 8_200 } else { 50 };
    let mut before = (0, 0, 0);
    for turn in 0..warm + turns {
        if turn == warm {
            before = (resident("self"), descriptors(), threads());
        }
        round(turn, &old, &datagrams);
    }
    let (memory, files, tasks) = before;
    let grown = resident("self").saturating_sub(memory);
    reply(&format!("{turns} rounds, {memory} bytes and {grown} more"));
    assert!(grown <= GROWTH, "{grown} bytes more");
    // A thread that was about to end may have been counted before.
    let (files_now, tasks_now) = (descriptors(), threads());
    assert!(files_now <= files, "{files} descriptors, then {files_now}");
    assert!(tasks_now <= tasks, "{tasks} threads, then {tasks_now}");
}

mod inside {
    use super::alone;

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn nothing_grows_on_a_bad_network() {
        if !alone::there() {
            return;
        }
        let faults = "loss=1%,dup=0.5%,reorder=1%,corrupt=0.1%,seed=11";
        let mut player = alone::Player::start_with("soak", &[("UROCE_FAULTS", faults)]);
        eprintln!("{}", player.receive_line());
        player.end();
    }
}
