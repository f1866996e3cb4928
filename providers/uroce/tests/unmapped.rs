//! Memory that is unmapped while it is registered: a card continues to use the pages, which no
//! process sees. uroce cannot: writes to such memory are lost, reads are an error, and neither
//! causes a signal. UCX does so: it unmaps the receive buffers of a datagram queue pair, destroys
//! the queue pair, and deregisters them later.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as expected"
)]

mod alone;
mod ends;

use alone::{Player, receive_line, reply, role as my_role};
use ends::{End, connect, peer_is_at};
use kit::abi::*;
use kit::sys::barrier;
use kit::sys::scratch::Scratch;
use std::time::{Duration, Instant};

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

/// Pages of registered memory.
const PAGES: usize = 32;
/// Bytes of a long message: too many for the eager path.
const LONG: u32 = 65_536;
/// Bytes of a short one, and from one receive request's place to the next one's.
const SHORT: u32 = 128;
/// After so long the progress thread backs off for longest.
const TIRING: Duration = Duration::from_millis(100);

/// Suffix of the role of a process with a thread that polls another queue all the time, and so
/// receives the packets for this one.
const BESIDE: &str = "-beside";

fn kind_of(role: &str) -> ibv_qp_type {
    match role.strip_suffix(BESIDE).unwrap_or(role) {
        "ud" => IBV_QPT_UD,
        _ => IBV_QPT_RC,
    }
}

fn poll_beside() {
    std::thread::spawn(|| {
        let end = End::new(IBV_QPT_RC);
        loop {
            assert!(end.poll().is_empty());
        }
    });
}

/// A process that unmaps registered memory. It polls only when the test asks: until then its
/// progress thread does all the work.
#[test]
#[ignore = "the tests of `inside` start it"]
fn role() {
    let Some(role) = my_role() else {
        return;
    };
    barrier::prepare();
    let end = End::waiting(kind_of(&role));
    if role.ends_with(BESIDE) {
        poll_beside();
    }
    let pages = Scratch::new(PAGES).expect("memory");
    let (region, key) = end.register_pages(&pages);
    let address = u64::try_from(pages.memory().address()).expect("64 bits");
    let place = |at: u32, length: u32| ibv_sge {
        addr: address + u64::from(at * SHORT),
        length,
        lkey: key,
    };
    while let Some(line) = receive_line() {
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let number = || rest.parse::<u32>().expect("a number");
        match word {
            "who" => reply(&format!("{} {address} {key}", end.number())),
            "connect" => {
                connect(&end, number());
                reply("connected");
            }
            "post" => {
                for at in 0..number() {
                    end.receive(u64::from(at), &[place(at, SHORT)]);
                }
                end.arm();
                reply("posted");
            }
            "event" => {
                end.event();
                reply("notified");
            }
            "send" => {
                end.send_from(7, &[place(0, number())]);
                reply("sent");
            }
            "tire" => {
                let began = Instant::now();
                while began.elapsed() < TIRING {
                    assert!(end.poll().is_empty());
                }
                reply("tired");
            }
            "unmap" => {
                pages.unmap().expect("unmapped");
                reply("unmapped");
            }
            "fails" => {
                while end.state() != IBV_QPS_ERR {
                    std::thread::yield_now();
                }
                reply("failed");
            }
            "error" => {
                let mut attr: ibv_qp_attr = bytemuck::Zeroable::zeroed();
                attr.qp_state = IBV_QPS_ERR;
                end.modify(&attr, IBV_QP_STATE);
                reply("failed");
            }
            "completion" => reply(&end.completion().status.to_string()),
            _ => panic!("{line}"),
        }
    }
    end.deregister(&region);
}

mod inside {
    use super::*;

    /// This process, and one that unmaps its memory.
    struct Two {
        end: End,
        other: Player,
        /// The other's QP number.
        number: u32,
        /// Address and key of the memory.
        address: u64,
        key: u32,
    }

    impl Two {
        fn start(carrier: &str, role: &str) -> Self {
            let end = End::new(kind_of(role));
            let mut other = Player::start_with(role, &[("UROCE_CARRIER", carrier)]);
            let who = other.ask("who");
            let mut words = who.split(' ');
            let mut number = || -> u64 {
                let word = words.next().expect("a word");
                word.parse().expect("a number")
            };
            let number_there = u32::try_from(number()).expect("small");
            let address = number();
            let key = u32::try_from(number()).expect("small");
            let connected = other.ask(&format!("connect {}", end.number()));
            assert_eq!(connected, "connected");
            connect(&end, number_there);
            peer_is_at(address);
            Self {
                end,
                other,
                number: number_there,
                address,
                key,
            }
        }

        fn unmap(&mut self) {
            assert_eq!(self.other.ask("unmap"), "unmapped");
        }

        /// Waits until the other one has completed something without polling.
        fn other_is_reported(&mut self) {
            assert_eq!(self.other.ask("event"), "notified");
        }

        fn other_fails(&mut self) {
            assert_eq!(self.other.ask("fails"), "failed");
        }

        /// The other one's next completion.
        fn has_completed(&mut self, status: ibv_wc_status) {
            assert_eq!(self.other.ask("completion"), status.to_string());
        }

        /// The status of an operation on the memory.
        fn status(&self, opcode: ibv_wr_opcode) -> ibv_wc_status {
            self.end.post_to(opcode, (0, 64), self.address, self.key);
            self.end.completion().status
        }
    }

    /// By each carrier, with only the progress thread in the other process, and with a thread that
    /// polls.
    fn each(role: &str, test: impl Fn(Two)) {
        if !alone::there() {
            return;
        }
        for carrier in alone::carriers() {
            for role in [role, &format!("{role}{BESIDE}")] {
                println!("{role} by {carrier}");
                test(Two::start(carrier, role));
            }
        }
    }

    /// A message sent then counts as received.
    fn is_received(role: &str, send: impl Fn(&Two)) {
        each(role, |mut two| {
            assert_eq!(two.other.ask("post 4"), "posted");
            two.unmap();
            send(&two);
            assert_eq!(two.end.completion().status, IBV_WC_SUCCESS);
            two.other_is_reported();
            two.has_completed(IBV_WC_SUCCESS);
            two.other.end();
        });
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_datagram_finds_no_memory() {
        is_received("ud", |two| two.end.datagram_to(1, 64, two.number));
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_message_finds_no_memory() {
        is_received("rc", |two| two.end.post_send(1, IBV_WR_SEND, 0, 64, 0, 0));
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn messages_are_taken_in_at_the_end() {
        each("rc", |mut two| {
            assert_eq!(two.other.ask("post 4"), "posted");
            assert_eq!(two.other.ask("tire"), "tired");
            two.unmap();
            for id in 0..3 {
                two.end.post_send(id, IBV_WR_SEND, 0, 64, 0, 0);
            }
            // Before that one may still be on its way, which the other's end cuts off.
            for _ in 0..3 {
                assert_eq!(two.end.completion().status, IBV_WC_SUCCESS);
            }
            assert_eq!(two.other.ask("error"), "failed");
            for _ in 0..3 {
                two.has_completed(IBV_WC_SUCCESS);
            }
            two.has_completed(IBV_WC_WR_FLUSH_ERR);
            two.other.end();
        });
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn peers_operations_find_no_memory() {
        each("rc", |mut two| {
            for opcode in [IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ] {
                assert_eq!(two.status(opcode), IBV_WC_SUCCESS, "{opcode}");
            }
            two.unmap();
            assert_eq!(two.status(IBV_WR_RDMA_WRITE), IBV_WC_SUCCESS);
            assert_eq!(two.status(IBV_WR_RDMA_READ), IBV_WC_REM_ACCESS_ERR);
            two.other.end();
        });
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn atomic_operations_find_no_memory() {
        each("rc", |mut two| {
            two.unmap();
            let add = IBV_WR_ATOMIC_FETCH_AND_ADD;
            two.end.atomic(1, add, 0, 0, two.key, 1, 0);
            assert_eq!(two.end.completion().status, IBV_WC_REM_ACCESS_ERR);
            two.other.end();
        });
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_retransmission_from_unmapped_memory_is_an_error() {
        each("rc", |mut two| {
            // It is not received, so it is sent again and again.
            assert_eq!(two.other.ask(&format!("send {LONG}")), "sent");
            two.unmap();
            two.other_fails();
            two.has_completed(IBV_WC_LOC_PROT_ERR);
            two.other.end();
        });
    }
}
