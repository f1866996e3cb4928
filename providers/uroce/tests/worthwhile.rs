//! When two processes begin to share memory: not for a few messages, soon for many, at once for a
//! long one and for unreliable connections. Connections that have begun by UDP continue by the
//! link, and no message is lost, repeated or overtaken meanwhile.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as expected"
)]
#![allow(clippy::cast_possible_truncation, reason = "of numbers in lines")]

mod alone;
mod ends;

use alone::{Player, commands, reply, role as my_role};
use ends::{End, connect_for, peer_is_at};
use kit::abi::*;
use kit::sys::scratch::Scratch;

/// Messages that are under way at the same time.
const DEPTH: u64 = 16;
/// Bytes of a message.
const MESSAGE: u32 = 8;
/// Where the messages are that a process sends, and those that it receives.
const SENT: u32 = 4096;
const RECEIVED: u32 = 8192;
/// Where the counter is for atomic operations.
const COUNTER: u32 = 0;
/// Timeout and retries: so long may a process have no turn.
const PATIENT: [u8; 2] = [18, 7];
/// Bytes of the long message.
const LONG: usize = 8 << 20;
/// Bytes of a block: more packets than are acknowledged at once.
const BLOCK: u32 = 64 << 10;
/// So many blocks are written before a queue pair counts as slow for good.
const BLOCKS: u64 = 200_000;

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

/// A process of the tests below: executes commands, line by line.
#[test]
#[ignore = "the tests of `inside` start it"]
fn role() {
    let Some(kind) = my_role() else {
        return;
    };
    let end = End::new(if kind == "uc" { IBV_QPT_UC } else { IBV_QPT_RC });
    let pages = Scratch::new(LONG / Scratch::page()).expect("memory");
    let (region, key) = end.register_pages(&pages);
    let long = u64::try_from(pages.memory().address()).expect("64 bits");
    let (mut sent, mut received, mut counted) = (0, 0, 0);
    for (word, numbers) in commands::<u64>() {
        match (word.as_str(), &numbers[..]) {
            ("who", []) => {
                let (number, address, rkey) = (end.number(), end.address(0), end.rkey());
                reply(&format!("{number} {address} {rkey} {long} {key}"));
            }
            ("connect", [number, address]) => {
                connect_for(&end, *number as u32, PATIENT);
                peer_is_at(*address);
                for id in 0..DEPTH {
                    post_receive(&end, id);
                }
                reply("connected");
            }
            ("send", [count]) => {
                send(&end, &mut sent, *count);
                reply("sent");
            }
            ("receive", [count]) => {
                receive(&end, &mut received, *count);
                reply("received");
            }
            ("add", [count, rkey]) => {
                add(&end, &mut counted, *count, *rkey as u32);
                reply("added");
            }
            ("stream", [address, rkey]) => {
                let mut blocks = Blocks::new(&end, &pages, key, (*address, *rkey as u32));
                let leaves = blocks.write_until_alone();
                blocks.check();
                reply(if leaves { "alone" } else { "by packets" });
            }
            ("write", [address, rkey]) => {
                let piece = ibv_sge {
                    addr: long,
                    length: LONG as u32,
                    lkey: key,
                };
                end.request_of(1, IBV_WR_RDMA_WRITE, piece, *address, *rkey as u32);
                reply(&end.completion().status.to_string());
            }
            _ => panic!("{word} {numbers:?}"),
        }
    }
    end.deregister(&region);
}

/// Numbered blocks in the memory of the peer.
struct Blocks<'a> {
    end: &'a End,
    pages: &'a Scratch,
    lkey: u32,
    /// Address and key of the peer's memory.
    remote: (u64, u32),
    posted: u64,
    completed: u64,
}

impl<'a> Blocks<'a> {
    fn new(end: &'a End, pages: &'a Scratch, lkey: u32, remote: (u64, u32)) -> Self {
        Self {
            end,
            pages,
            lkey,
            remote,
            posted: 0,
            completed: 0,
        }
    }

    fn offset(number: u64) -> u64 {
        number % DEPTH * u64::from(BLOCK)
    }

    fn piece(&self, offset: u64) -> ibv_sge {
        let address = u64::try_from(self.pages.memory().address()).expect("64 bits");
        ibv_sge {
            addr: address + offset,
            length: BLOCK,
            lkey: self.lkey,
        }
    }

    fn write(&mut self) {
        let offset = Self::offset(self.posted);
        let at = usize::try_from(offset).expect("64 bits");
        let number = self.posted.to_le_bytes();
        self.pages.memory().write(at, &number).expect("inside");
        let (address, rkey) = self.remote;
        let (piece, to) = (self.piece(offset), address + offset);
        self.end
            .request_of(self.posted, IBV_WR_RDMA_WRITE, piece, to, rkey);
        self.posted += 1;
    }

    fn take(&mut self, found: Vec<ibv_wc>) {
        for wc in found {
            assert_eq!((wc.wr_id, wc.status), (self.completed, IBV_WC_SUCCESS));
            self.completed += 1;
        }
    }

    /// Writes, always with others under way, until each write is complete when its call returns:
    /// this process then writes the peer's memory by itself.
    fn write_until_alone(&mut self) -> bool {
        const IN_A_ROW: u32 = 100;
        let mut in_a_row = 0;
        while self.posted < BLOCKS && in_a_row < IN_A_ROW {
            self.write();
            self.take(self.end.poll());
            in_a_row = match self.posted - self.completed {
                0 => in_a_row + 1,
                _ => 0,
            };
            if self.posted - self.completed == DEPTH {
                self.take(self.end.wait());
            }
        }
        while self.completed < self.posted {
            self.take(self.end.wait());
        }
        in_a_row == IN_A_ROW
    }

    /// The peer has the last block of each place.
    fn check(&self) {
        let (address, rkey) = self.remote;
        let behind = Self::offset(DEPTH - 1) + u64::from(BLOCK);
        for number in self.posted - DEPTH..self.posted {
            let piece = self.piece(behind);
            let from = address + Self::offset(number);
            self.end
                .request_of(number, IBV_WR_RDMA_READ, piece, from, rkey);
            assert_eq!(self.end.completion().status, IBV_WC_SUCCESS);
            let mut found = [0; 8];
            let at = usize::try_from(behind).expect("64 bits");
            self.pages.memory().read(at, &mut found).expect("inside");
            assert_eq!(u64::from_le_bytes(found), number);
        }
    }
}

fn place(base: u32, number: u64) -> u32 {
    base + (number % DEPTH) as u32 * MESSAGE
}

fn post_receive(end: &End, number: u64) {
    end.post_recv(number, place(RECEIVED, number), MESSAGE);
}

/// Sends messages that say how many there were before.
fn send(end: &End, sent: &mut u64, count: u64) {
    let last = *sent + count;
    let mut completed = *sent;
    while completed < last {
        while *sent < last && *sent < completed + DEPTH {
            end.put(place(SENT, *sent), &sent.to_le_bytes());
            end.post_send(*sent, IBV_WR_SEND, place(SENT, *sent), MESSAGE, 0, 0);
            *sent += 1;
        }
        for wc in end.wait() {
            assert_eq!((wc.wr_id, wc.status), (completed, IBV_WC_SUCCESS));
            completed += 1;
        }
    }
}

/// Receives them in order.
fn receive(end: &End, received: &mut u64, count: u64) {
    let last = *received + count;
    while *received < last {
        for wc in end.wait() {
            let number = *received;
            assert_eq!((wc.wr_id, wc.status), (number, IBV_WC_SUCCESS));
            let bytes = end.bytes(place(RECEIVED, number), MESSAGE);
            assert_eq!(bytes, number.to_le_bytes());
            post_receive(end, number + DEPTH);
            *received += 1;
        }
    }
}

/// Adds 1 to the peer's counter that many times; each addition finds what the one before has left.
fn add(end: &End, counted: &mut u64, count: u64, rkey: u32) {
    let last = *counted + count;
    let mut posted = *counted;
    while *counted < last {
        while posted < last && posted < *counted + DEPTH {
            let add = IBV_WR_ATOMIC_FETCH_AND_ADD;
            end.atomic(posted, add, place(SENT, posted), COUNTER, rkey, 1, 0);
            posted += 1;
        }
        for wc in end.wait() {
            assert_eq!((wc.wr_id, wc.status), (*counted, IBV_WC_SUCCESS));
            let found = end.bytes(place(SENT, *counted), MESSAGE);
            assert_eq!(found, counted.to_le_bytes());
            *counted += 1;
        }
    }
}

mod inside {
    use super::*;

    /// A process and its queue pair.
    struct Side {
        player: Player,
        number: u64,
        address: u64,
        rkey: u64,
        /// The long piece of memory.
        long: [u64; 2],
    }

    impl Side {
        fn start(kind: &str) -> Self {
            let mut player = Player::start_with(kind, &[("UROCE_CARRIER", "auto")]);
            let line = player.ask("who");
            let numbers = line.split(' ').map(|word| word.parse().expect("a number"));
            let [number, address, rkey, long, key] = numbers.collect::<Vec<u64>>()[..] else {
                panic!("{line}");
            };
            Self {
                player,
                number,
                address,
                rkey,
                long: [long, key],
            }
        }

        /// Whether it shares a link with another process.
        fn has_link(&self) -> bool {
            let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.player.id()));
            maps.expect("its memory").contains("uroce-link")
        }
    }

    /// Two connected processes.
    fn two(kind: &str) -> [Side; 2] {
        let mut sides = [Side::start(kind), Side::start(kind)];
        for own in 0..2 {
            let (number, address) = (sides[1 - own].number, sides[1 - own].address);
            let line = format!("connect {number} {address}");
            assert_eq!(sides[own].player.ask(&line), "connected");
        }
        sides
    }

    /// Whether both have the link, or neither.
    fn share(sides: &[Side; 2]) -> Option<bool> {
        let [left, right] = [sides[0].has_link(), sides[1].has_link()];
        (left == right).then_some(left)
    }

    /// One process sends, the other receives.
    fn messages([from, to]: [&mut Side; 2], count: u64) {
        to.player.send_line(&format!("receive {count}"));
        from.player.send_line(&format!("send {count}"));
        assert_eq!(from.player.receive_line(), "sent");
        assert_eq!(to.player.receive_line(), "received");
    }

    fn end(sides: [Side; 2]) {
        for side in sides {
            side.player.end();
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_few_messages_do_not_make_a_link() {
        if !alone::there() {
            return;
        }
        let mut sides = two("rc");
        for _ in 0..2 {
            let [left, right] = &mut sides;
            messages([left, right], 2);
            messages([right, left], 2);
        }
        assert_eq!(share(&sides), Some(false));
        end(sides);
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn many_messages_make_a_link_and_continue_in_order() {
        if !alone::there() {
            return;
        }
        // One process sends, or both in turn.
        for both in [false, true] {
            let mut sides = two("rc");
            let mut rounds_with_link = 0;
            while rounds_with_link < 10 {
                let [left, right] = &mut sides;
                messages([left, right], 20);
                if both {
                    messages([right, left], 20);
                }
                rounds_with_link += u32::from(share(&sides) == Some(true));
            }
            end(sides);
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn each_atomic_operation_is_carried_out_once_while_a_link_is_made() {
        if !alone::there() {
            return;
        }
        let mut sides = two("rc");
        let rkey = sides[1].rkey;
        let mut rounds_with_link = 0;
        while rounds_with_link < 10 {
            let line = format!("add 20 {rkey}");
            assert_eq!(sides[0].player.ask(&line), "added");
            rounds_with_link += u32::from(share(&sides) == Some(true));
        }
        end(sides);
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn writes_that_never_pause_leave_the_protocol_path() {
        if !alone::there() {
            return;
        }
        let mut sides = two("rc");
        let [address, key] = sides[1].long;
        let answer = sides[0].player.ask(&format!("stream {address} {key}"));
        assert_eq!(answer, "alone");
        end(sides);
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_long_message_makes_a_link() {
        if !alone::there() {
            return;
        }
        let mut sides = two("rc");
        let [address, key] = sides[1].long;
        let success = IBV_WC_SUCCESS.to_string();
        assert_eq!(
            sides[0].player.ask(&format!("write {address} {key}")),
            success
        );
        while share(&sides) != Some(true) {
            std::thread::yield_now();
        }
        end(sides);
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn an_unreliable_connection_has_a_link_before_it_is_used() {
        if !alone::there() {
            return;
        }
        let sides = two("uc");
        while share(&sides) != Some(true) {
            std::thread::yield_now();
        }
        end(sides);
    }
}
