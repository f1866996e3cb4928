//! As many connected queue pairs as a process of some size has.
//!
//! `UROCE_SCALE` is their number (2 to 16384).
#![allow(
    clippy::expect_used,
    reason = "a test ends where something is not as expected"
)]
#![allow(clippy::cast_possible_truncation, reason = "of patterns")]

mod alone;
mod ends;

use kit::abi::*;

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

mod inside {
    use super::*;
    use ends::{End, connect, peer_is_at};
    use std::{
        thread,
        time::{Duration, Instant},
    };

    /// Bytes of memory that an idle connected queue pair may take.
    const MOST: u64 = 16 << 10;
    /// After the last message: its acknowledgements and their timers end in it.
    const SETTLED: Duration = Duration::from_secs(2);
    const IDLE: Duration = Duration::from_secs(3);
    /// Connections that move data at the same time.
    const BATCH: usize = 64;

    fn per_pair(end: &End, before: u64, count: u64, what: &str) -> u64 {
        let bytes = alone::resident("self").saturating_sub(before) / count;
        eprintln!("{count} queue pairs, {what}: {bytes} bytes each");
        assert!(end.number() > 0);
        bytes
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn many_queue_pairs_are_small_and_all_move_data() {
        if !alone::there() {
            return;
        }
        let count = alone::rounds("UROCE_SCALE", 2000);
        let end = End::new(IBV_QPT_RC);
        peer_is_at(end.address(0));
        end.fill(1);
        let before = alone::resident("self");
        let mut made = Instant::now();
        let mut more: Vec<_> = (0..count).map(|_| end.another()).collect();
        assert!(per_pair(&end, before, count, "just made") <= MOST);
        eprintln!("made in {:?}", made.elapsed());
        made = Instant::now();
        for pair in more.chunks(2) {
            let [left, right] = pair else { continue };
            connect(left, right.number());
            connect(right, left.number());
        }
        eprintln!("connected in {:?}", made.elapsed());
        assert!(per_pair(&end, before, count, "connected") <= MOST);
        let began = Instant::now();
        for batch in more.chunks(BATCH) {
            for (at, pair) in batch.chunks(2).enumerate() {
                let [left, right] = pair else { continue };
                for (from, to) in [(left, right), (right, left)] {
                    to.post_recv(1 << 32 | at as u64, 65_536, 4096);
                    from.post_send(at as u64, IBV_WR_SEND, 0, 3000, 0, 0);
                    let id = 2 << 32 | at as u64;
                    from.post_send(id, IBV_WR_RDMA_WRITE, 8, 2000, 70_000, end.rkey());
                }
            }
            let mut due = batch.len() / 2 * 6;
            while due > 0 {
                for wc in end.wait() {
                    assert_eq!(wc.status, IBV_WC_SUCCESS);
                    due -= 1;
                }
            }
        }
        eprintln!("all moved data in {:?}", began.elapsed());
        // Idle again, with the memory that they have kept.
        assert!(per_pair(&end, before, count, "used") <= MOST);
        thread::sleep(SETTLED);
        let sleeping = alone::wake_ups_of_others();
        thread::sleep(IDLE);
        let wake_ups = alone::wake_ups_of_others() - sleeping;
        eprintln!("{count} queue pairs, idle: {wake_ups} wake-ups in {IDLE:?}");
        assert_eq!(wake_ups, 0);
        made = Instant::now();
        more.clear();
        eprintln!("destroyed in {:?}", made.elapsed());
        let last = [end.another(), end.another()];
        connect(&end, end.number());
        end.post_recv(1, 65_536, 8);
        end.post_send(1, IBV_WR_SEND, 0, 8, 0, 0);
        assert_eq!(end.completion().status, IBV_WC_SUCCESS);
        assert_ne!(last[0].number(), last[1].number());
    }
}
