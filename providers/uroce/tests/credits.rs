//! Messages by credit between two processes of one host: where there is a receive request, a
//! message is received once it is sent, whatever the other side does meanwhile.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as expected"
)]

mod alone;
mod ends;

use alone::{Player, commands, reply, role as my_role};
use ends::{End, connect, connect_for, peer_is_at};
use kit::abi::*;
use kit::sys::barrier;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uroce::context::Context;

#[test]
fn in_a_namespace() {
    alone::in_a_namespace_by_shm();
}

/// Bytes of each message, and from one receive request's place to the next one's.
const LENGTH: u32 = 8;
const PLACE: u32 = 64;
/// Places: requests go round.
const PLACES: u32 = 64;
/// The identifier of a request that fails.
const UNUSED: u64 = u64::MAX;
/// After so long the progress thread backs off for longest.
const TIRING: Duration = Duration::from_millis(100);

/// The receiving side.
struct Receiver {
    end: End,
    region: Option<(Arc<<Context as kit::provider::Provider>::Mr>, u32)>,
    posted: u32,
}

impl Receiver {
    fn post(&mut self, count: u32) {
        let (_, key) = self.region.as_ref().expect("registered");
        for _ in 0..count {
            let place = ibv_sge {
                addr: self.end.address(self.posted % PLACES * PLACE),
                length: PLACE,
                lkey: *key,
            };
            self.end.receive(u64::from(self.posted), &[place]);
            self.posted += 1;
        }
    }

    /// The value that a message has brought into the place of a request.
    fn value(&self, request: u32) -> u64 {
        let bytes = self.end.bytes(request % PLACES * PLACE, LENGTH);
        u64::from_ne_bytes(bytes.try_into().expect("eight"))
    }

    fn fail(&self) {
        let mut attr: ibv_qp_attr = bytemuck::Zeroable::zeroed();
        attr.qp_state = IBV_QPS_ERR;
        self.end.modify(&attr, IBV_QP_STATE);
    }

    /// Fails by itself: by a request that names no memory.
    fn spoil(&self) {
        self.end.send_by(UNUSED, u32::MAX, 0, LENGTH);
    }

    /// Polls until the progress thread leaves it the rings, for some milliseconds more.
    fn tire(&self) {
        let began = Instant::now();
        while began.elapsed() < TIRING {
            assert!(self.end.poll().is_empty());
        }
    }

    /// How many of the requests that were posted have received something, once all have completed.
    fn received(&self, taken: u32) -> u32 {
        let mut left = self.posted - taken;
        let mut received = taken;
        while left > 0 {
            let done = self.end.completion();
            if done.wr_id == UNUSED {
                assert_eq!(done.status, IBV_WC_LOC_PROT_ERR);
                continue;
            }
            left -= 1;
            received += u32::from(done.status == IBV_WC_SUCCESS);
        }
        received
    }

    /// So often, registers memory, receives that many messages into it, and deregisters it.
    fn renew(&mut self, regions: u32, each: u32) {
        for _ in 0..regions {
            let first = self.posted;
            self.region = Some(self.end.register(0, PLACES * PLACE));
            self.post(each);
            for request in first..first + each {
                let got = self.end.completion();
                assert_eq!(
                    (got.wr_id, got.status),
                    (u64::from(request), IBV_WC_SUCCESS)
                );
                assert_eq!(self.value(request), u64::from(request));
            }
            let (region, _) = self.region.take().expect("registered");
            self.end.deregister(&region);
        }
    }

    /// Receives that many messages, one after the other, and posts a request for each.
    fn take(&mut self, count: u32, first: u32) {
        for request in first..first + count {
            let got = self.end.completion();
            assert_eq!(
                (got.wr_id, got.status),
                (u64::from(request), IBV_WC_SUCCESS)
            );
            assert_eq!(self.value(request), u64::from(request));
            self.post(1);
        }
    }
}

fn list<T: ToString>(values: impl Iterator<Item = T>) -> String {
    values
        .map(|value| value.to_string())
        .collect::<Vec<_>>()
        .join(" ")
}

/// A process that executes commands, line by line.
#[test]
#[ignore = "the tests of `inside` start it"]
fn role() {
    if my_role().is_none() {
        return;
    }
    barrier::prepare();
    let end = End::new(IBV_QPT_RC);
    let region = Some(end.register(0, PLACES * PLACE));
    let mut receiver = Receiver {
        end,
        region,
        posted: 0,
    };
    for (word, numbers) in commands::<u32>() {
        match (word.as_str(), &numbers[..]) {
            ("who", []) => {
                let end = &receiver.end;
                reply(&format!(
                    "{} {} {}",
                    end.number(),
                    end.rkey(),
                    end.address(0)
                ));
            }
            ("connect", [number]) => {
                connect(&receiver.end, *number);
                reply("connected");
            }
            ("post", [count]) => {
                receiver.post(*count);
                reply("posted");
            }
            ("poll", [count]) => {
                let statuses = (0..*count).map(|_| receiver.end.completion().status);
                reply(&list(statuses));
            }
            ("take", [count, first]) => {
                receiver.take(*count, *first);
                reply("taken");
            }
            ("fail", [after]) => {
                receiver.take(*after, 1);
                receiver.fail();
                reply(&receiver.received(1 + *after).to_string());
            }
            ("tire", []) => {
                receiver.tire();
                reply("tired");
            }
            ("spoil", []) => {
                receiver.spoil();
                reply(&receiver.received(1).to_string());
            }
            ("renew", [regions, each]) => {
                receiver.renew(*regions, *each);
                reply("renewed");
            }
            ("values", [first, count]) => {
                reply(&list((*first..first + count).map(|at| receiver.value(at))));
            }
            ("deregister", [first, count]) => {
                let (region, _) = receiver.region.take().expect("registered");
                receiver.end.deregister(&region);
                reply(&list((*first..first + count).map(|at| receiver.value(at))));
            }
            ("error", []) => {
                receiver.fail();
                reply("failed");
            }
            _ => panic!("{word} {numbers:?}"),
        }
    }
}

mod inside {
    use super::*;

    /// A sender here, and a process that receives.
    struct Two {
        end: End,
        receiver: Player,
        rkey: u32,
        sent: u32,
    }

    impl Two {
        /// Connected, with that many receive requests. The other side knows that their memory is
        /// valid; `None` without credits.
        fn start(requests: u32) -> Option<Self> {
            // Longer than a receiver is stopped.
            Self::start_for(requests, [20, 7])
        }

        fn start_for(requests: u32, patience: [u8; 2]) -> Option<Self> {
            if !alone::there() {
                return None;
            }
            if std::env::var("UROCE_CARRIER").is_ok_and(|carrier| carrier == "udp") {
                println!("skipped: there are no credits by UDP");
                return None;
            }
            if !barrier::takes_part() {
                println!("skipped: no membarrier(2), so no credits");
                return None;
            }
            let end = End::new(IBV_QPT_RC);
            let mut receiver = Player::start("receiver");
            let who = receiver.ask("who");
            let numbers: Vec<u64> = who
                .split(' ')
                .map(|word| word.parse().expect("a number"))
                .collect();
            let number = |at: usize| u32::try_from(numbers[at]).expect("small");
            assert_eq!(
                receiver.ask(&format!("connect {}", end.number())),
                "connected"
            );
            connect_for(&end, number(0), patience);
            peer_is_at(numbers[2]);
            let mut two = Self {
                end,
                receiver,
                rkey: number(1),
                sent: 0,
            };
            // Until there is a link, no credits are granted.
            two.end.write_until_linked((PLACES - 1) * PLACE, two.rkey);
            // Of the first nothing is known, and requests behind it wait for it to be used.
            assert_eq!(
                two.receiver.ask(&format!("post {}", requests + 1)),
                "posted"
            );
            two.send(1);
            assert_eq!(two.end.completion().status, IBV_WC_SUCCESS);
            assert_eq!(two.receiver.ask("poll 1"), "0");
            // The credits for the others are granted by the thread that received it, which may be
            // the progress thread.
            assert_eq!(two.receiver.ask("tire"), "tired");
            Some(two)
        }

        /// Each message has its number in it.
        fn send(&mut self, count: u32) {
            for _ in 0..count {
                let place = self.sent % PLACES * LENGTH;
                self.end.put(place, &u64::from(self.sent).to_ne_bytes());
                self.end
                    .post_send(u64::from(self.sent), IBV_WR_SEND, place, LENGTH, 0, 0);
                self.sent += 1;
            }
        }

        /// Sends one that does not complete for now.
        fn send_in_vain(&mut self) {
            self.send(1);
            for _ in 0..1000 {
                assert!(self.end.poll().is_empty());
            }
        }

        /// Sends that many, no more than `most` of which have not completed; all complete in order.
        fn stream(&mut self, count: u32, most: u32) {
            let mut done = 0;
            while done < count {
                if self.sent - 1 - done < most && self.sent <= count {
                    self.send(1);
                    continue;
                }
                for sent in self.end.poll() {
                    done += 1;
                    assert_eq!((sent.wr_id, sent.status), (u64::from(done), IBV_WC_SUCCESS));
                }
            }
        }

        fn succeed(&mut self, count: u32) {
            for number in self.sent..self.sent + count {
                self.send(1);
                let sent = self.end.completion();
                assert_eq!(
                    (sent.wr_id, sent.status),
                    (u64::from(number), IBV_WC_SUCCESS)
                );
            }
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_stopped_process_receives() {
        let Some(mut two) = Two::start(6) else {
            return;
        };
        let stopped = two.receiver.stop();
        two.succeed(4);
        drop(stopped);
        assert_eq!(two.receiver.ask("poll 4"), "0 0 0 0");
        assert_eq!(two.receiver.ask("values 1 4"), "1 2 3 4");
        two.receiver.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn without_a_request_nothing_is_received() {
        let Some(mut two) = Two::start(2) else {
            return;
        };
        let stopped = two.receiver.stop();
        two.succeed(2);
        two.send_in_vain();
        drop(stopped);
        assert_eq!(two.receiver.ask("poll 2"), "0 0");
        assert!(two.end.poll().is_empty());
        assert_eq!(two.receiver.ask("post 1"), "posted");
        assert_eq!(two.end.completion().status, IBV_WC_SUCCESS);
        assert_eq!(two.receiver.ask("poll 1"), "0");
        assert_eq!(two.receiver.ask("values 3 1"), "3");
        // And then there are credits again.
        assert_eq!(two.receiver.ask("post 4"), "posted");
        two.end
            .post_send(0, IBV_WR_RDMA_READ, 0, LENGTH, 0, two.rkey);
        assert_eq!(two.end.completion().status, IBV_WC_SUCCESS);
        two.receiver.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_sender_that_is_far_ahead_waits() {
        let Some(mut two) = Two::start(32) else {
            return;
        };
        let stopped = two.receiver.stop();
        two.succeed(30);
        two.send_in_vain();
        drop(stopped);
        assert_eq!(two.end.completion().status, IBV_WC_SUCCESS);
        two.receiver.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_failed_queue_pair_has_received_before() {
        let Some(mut two) = Two::start(6) else {
            return;
        };
        let stopped = two.receiver.stop();
        two.succeed(4);
        two.receiver.send_line("error");
        drop(stopped);
        assert_eq!(two.receiver.receive_line(), "failed");
        let flushed = IBV_WC_WR_FLUSH_ERR;
        let expected = format!("0 0 0 0 {flushed} {flushed}");
        assert_eq!(two.receiver.ask("poll 6"), expected);
        assert_eq!(two.receiver.ask("values 1 4"), "1 2 3 4");
        two.receiver.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_queue_pair_that_fails_in_a_stream_has_received_the_completed_messages() {
        for round in 0..10 {
            let Some(mut two) = Two::start_for(50, [14, 7]) else {
                return;
            };
            two.receiver.send_line(&format!("fail {}", 1000 + round));
            let mut succeeded = 1;
            let failed = loop {
                two.send(1);
                let sent = two.end.completion();
                if sent.status != IBV_WC_SUCCESS {
                    break sent.status;
                }
                succeeded += 1;
            };
            assert_eq!(failed, IBV_WC_RETRY_EXC_ERR);
            let received: u32 = two.receiver.receive_line().parse().expect("a number");
            assert!(
                succeeded <= received,
                "{succeeded} sent, {received} received"
            );
            two.receiver.end();
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_queue_pair_that_fails_by_itself_has_received_before() {
        for _ in 0..20 {
            let Some(mut two) = Two::start(6) else {
                return;
            };
            assert_eq!(two.receiver.ask("tire"), "tired");
            two.succeed(4);
            assert_eq!(two.receiver.ask("spoil"), "5");
            assert_eq!(two.receiver.ask("values 1 4"), "1 2 3 4");
            two.receiver.end();
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn memory_is_released_after_it_has_the_sent_bytes() {
        let Some(mut two) = Two::start(6) else {
            return;
        };
        let stopped = two.receiver.stop();
        two.succeed(4);
        two.receiver.send_line("deregister 1 4");
        drop(stopped);
        assert_eq!(two.receiver.receive_line(), "1 2 3 4");
        assert_eq!(two.receiver.ask("poll 4"), "0 0 0 0");
        // The requests that are left name no memory any more.
        two.send(1);
        assert_eq!(two.end.completion().status, IBV_WC_REM_OP_ERR);
        assert_eq!(two.receiver.ask("poll 1"), IBV_WC_LOC_PROT_ERR.to_string());
        two.receiver.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_read_finds_the_bytes_sent_before_it() {
        let Some(mut two) = Two::start(6) else {
            return;
        };
        let stopped = two.receiver.stop();
        two.succeed(2);
        two.end.put(4096, &[0xee; 8]);
        let (place, rkey) = (2 * PLACE, two.rkey);
        two.end
            .post_send(9, IBV_WR_RDMA_READ, 4096, LENGTH, place, rkey);
        assert!(two.end.poll().is_empty());
        drop(stopped);
        assert_eq!(two.end.completion().status, IBV_WC_SUCCESS);
        assert_eq!(two.end.bytes(4096, LENGTH), 2u64.to_ne_bytes());
        two.receiver.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn many_messages_come_in_order() {
        const MANY: u32 = 20_000;
        let Some(mut two) = Two::start(40) else {
            return;
        };
        two.receiver.send_line(&format!("take {MANY} 1"));
        // More than there are requests: some wait, and some are refused.
        two.stream(MANY, 50);
        assert_eq!(two.receiver.receive_line(), "taken");
        two.receiver.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn memory_comes_and_goes_under_a_stream() {
        let (regions, each) = (500, 20);
        let Some(mut two) = Two::start(0) else {
            return;
        };
        two.receiver.send_line(&format!("renew {regions} {each}"));
        two.stream(regions * each, 30);
        assert_eq!(two.receiver.receive_line(), "renewed");
        two.receiver.end();
    }
}
