//! RDMA writes and reads between two processes of one host: the target need not do anything, errors
//! are those of the network, and memory that was deregistered is left alone.
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

use alone::{Dice, Player, commands, reply, role as my_role};
use ends::{End, connect, peer_is_at};
use kit::abi::*;
use kit::errno::Errno;
use kit::sys::scratch::Scratch;
use kit::sys::shared::Shared;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::SeqCst;

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

/// Where the region of the last test is, and its bytes.
const REGION: u32 = 65_536;
const BYTES: u32 = 32_768;
/// Pages that are written whole: as many as one operation moves.
const PAGES: usize = 1024;

/// A process that executes commands, line by line.
#[test]
#[ignore = "the tests of `inside` start it"]
fn role() {
    if my_role().is_none() {
        return;
    }
    let mut end = End::new(IBV_QPT_RC);
    let mut region = None;
    let mut shared = None;
    let mut device = None;
    let mut sealed: Option<(Shared, OwnedFd)> = None;
    let mut file: Option<OwnedFd> = None;
    let mut pages: Option<Scratch> = None;
    for (word, numbers) in commands::<u64>() {
        match (word.as_str(), &numbers[..]) {
            ("who", []) => reply(&format!(
                "{} {} {}",
                end.number(),
                end.address(0),
                end.rkey()
            )),
            ("connect", [number, address]) => {
                peer_is_at(*address);
                connect(&end, *number as u32);
                reply("connected");
            }
            ("again", []) => {
                end = end.another();
                reply("again");
            }
            ("fill", [seed]) => {
                end.fill(*seed as u8);
                reply("filled");
            }
            ("sum", [offset, length]) => {
                reply(&format!("{}", sum(&end, *offset as u32, *length as u32)))
            }
            (operation, [offset, length, remote, rkey]) => {
                let opcode = match operation {
                    "write" => IBV_WR_RDMA_WRITE,
                    "read" => IBV_WR_RDMA_READ,
                    _ => panic!("{word} {numbers:?}"),
                };
                let (offset, length) = (*offset as u32, *length as u32);
                end.post_send(9, opcode, offset, length, *remote as u32, *rkey as u32);
                let wc = end.completion();
                assert_eq!((wc.wr_id, wc.qp_num), (9, end.number()));
                reply(&format!("status {}", wc.status));
            }
            ("state", []) => reply(&format!("state {}", end.state())),
            ("link", [remote, rkey]) => {
                end.write_until_linked(*remote as u32, *rkey as u32);
                reply("linked");
            }
            ("share", []) => {
                let (memory, fd) = Shared::create(c"uroce-test", 1 << 16).expect("memory");
                let (mr, rkey) = end.register_shared(&memory);
                let address = memory.words().as_ptr().addr();
                reply(&format!("{rkey} {address}"));
                region = Some(mr);
                shared = Some((memory, fd));
            }
            ("device", []) => {
                let (made, rkey) = end.register_device(1 << 16);
                reply(&format!("{rkey}"));
                device = Some(made);
            }
            ("device-word", [index]) => {
                let word = end.device_word(device.as_ref().expect("a device"), *index);
                reply(&format!("{word}"));
            }
            ("free-device", []) => {
                end.deregister(&device.take().expect("a device").mr);
                reply("freed");
            }
            ("sealed", []) => {
                let (memory, _) = sealed.get_or_insert_with(|| {
                    let length = PAGES * rustix::param::page_size();
                    Shared::create(c"uroce-test", length).expect("memory")
                });
                let (mr, rkey) = end.register_shared(memory);
                reply(&format!("{rkey} {}", memory.words().as_ptr().addr()));
                region = Some(mr);
            }
            ("clear-sealed", []) => {
                let busy = end.try_to_deregister(region.as_ref().expect("registered"));
                if busy == Err(Errno(libc::EBUSY)) {
                    reply("busy");
                    continue;
                }
                assert_eq!(busy, Ok(()));
                region = None;
                // From here on these bytes are ours alone.
                let (memory, _) = sealed.as_ref().expect("sealed");
                memory
                    .write(0, &vec![0xee; memory.length()])
                    .expect("there");
                reply("cleared");
            }
            ("look-sealed", []) => {
                let (memory, _) = sealed.as_ref().expect("sealed");
                let mut bytes = vec![0; memory.length()];
                memory.read(0, &mut bytes).expect("there");
                let same = bytes.iter().all(|byte| *byte == 0xee);
                reply(if same { "left alone" } else { "CHANGED" });
            }
            ("word", [index]) => {
                let (memory, _) = shared.as_ref().expect("shared");
                let words = memory.words();
                reply(&format!("{}", words[*index as usize].load(SeqCst)));
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
                reply("counted");
            }
            ("once", [address, rkey]) => {
                end.post_to(IBV_WR_RDMA_WRITE, (64, 8), *address, *rkey as u32);
                reply(&format!("status {}", end.completion().status));
            }
            ("mapped", []) => {
                let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
                let count = maps.matches("/memfd:uroce-test").count();
                reply(&format!("mapped {count}"));
            }
            ("file", []) => {
                let fd = memfd_create("uroce-test", MemfdFlags::CLOEXEC).expect("a file");
                ftruncate(&fd, 1 << 16).expect("sized");
                let (mr, rkey, address) = end.register_file(&fd, 1 << 16);
                reply(&format!("{rkey} {address}"));
                region = Some(mr);
                file = Some(fd);
            }
            ("shorten", []) => {
                ftruncate(file.as_ref().expect("a file"), 0).expect("shortened");
                reply("shortened");
            }
            ("pages", []) => {
                let pages = *pages.get_or_insert_with(|| Scratch::new(PAGES).expect("memory"));
                let (mr, rkey) = end.register_pages(&pages);
                reply(&format!("{rkey} {}", pages.memory().address()));
                region = Some(mr);
            }
            ("clear", []) => {
                end.deregister(&region.take().expect("registered"));
                // From here on these bytes are ours alone.
                let memory = pages.as_ref().expect("pages").memory();
                memory
                    .write(0, &vec![0xee; memory.length()])
                    .expect("there");
                reply("cleared");
            }
            ("look", []) => {
                let memory = pages.as_ref().expect("pages").memory();
                let mut bytes = vec![0; memory.length()];
                memory.read(0, &mut bytes).expect("there");
                let same = bytes.iter().all(|byte| *byte == 0xee);
                reply(if same { "left alone" } else { "CHANGED" });
            }
            ("stream", [address, rkey]) => {
                let pages = *pages.get_or_insert_with(|| Scratch::new(PAGES).expect("memory"));
                let (mr, lkey) = end.register_pages(&pages);
                let piece = ibv_sge {
                    addr: pages.memory().address() as u64,
                    length: pages.memory().length() as u32,
                    lkey,
                };
                let mut written = 0u64;
                let status = loop {
                    end.request_of(9, IBV_WR_RDMA_WRITE, piece, *address, *rkey as u32);
                    let wc = end.completion();
                    if wc.status != IBV_WC_SUCCESS {
                        break wc.status;
                    }
                    written += 1;
                };
                end.deregister(&mr);
                reply(&format!("{status} {written}"));
            }
            ("unregister", []) => {
                end.deregister(&region.take().expect("registered"));
                reply("gone");
            }
            ("register", []) => {
                let (mr, rkey) = end.register(REGION, BYTES);
                region = Some(mr);
                reply(&format!("{rkey}"));
            }
            ("deregister", [micros]) => {
                std::thread::sleep(std::time::Duration::from_micros(*micros));
                end.deregister(&region.take().expect("registered"));
                // From here on these bytes are ours alone.
                end.put(REGION, &[0xee; BYTES as usize]);
                std::thread::sleep(std::time::Duration::from_millis(2));
                let same = end.bytes(REGION, BYTES).iter().all(|byte| *byte == 0xee);
                reply(if same { "left alone" } else { "CHANGED" });
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
                reply(&format!("{status} {written}"));
            }
            _ => panic!("{word} {numbers:?}"),
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
        // Transfers by packets may follow.
        assert_eq!(two.operate("write", 100, 100_000, rkey), "status 0");
        two.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn shared_memory_is_used_as_it_is() {
        if !alone::there() {
            return;
        }
        let mut two = Two::start("shm");
        let line = format!("link 0 {}", two.rkey);
        assert_eq!(two.initiator.ask(&line), "linked");
        let shared = two.target.ask("share");
        let (rkey, address) = shared.split_once(' ').expect("two numbers");
        let address: u64 = address.parse().expect("an address");
        let middle = address + 8 * 1000;
        let stopped = two.stop();
        // The file cannot be shortened, so the initiator maps it. A search for the file of another
        // region, just before, makes this one wait.
        let is_mapped = (0..1000).any(|_| {
            let counted = two.initiator.ask(&format!("count {middle} {rkey}"));
            assert_eq!(counted, "counted");
            two.initiator.ask("mapped") == "mapped 1"
        });
        assert!(is_mapped);
        drop(stopped);
        assert_eq!(two.target.ask("word 1000"), "100");
        assert_eq!(two.target.ask("word 1001"), "0");
        // The bytes are still there, and still mapped; the key is not.
        assert_eq!(two.target.ask("unregister"), "gone");
        two.initiator.ask("fill 7");
        let answer = two.initiator.ask(&format!("once {middle} {rkey}"));
        assert_eq!(answer, format!("status {IBV_WC_REM_ACCESS_ERR}"));
        assert_eq!(two.target.ask("word 1000"), "100");
        // A mapping would keep memory that the target has given back.
        while two.initiator.ask("mapped") != "mapped 0" {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        two.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn device_memory_is_used_as_it_is() {
        if !alone::there() {
            return;
        }
        let mut two = Two::start("shm");
        let line = format!("link 0 {}", two.rkey);
        assert_eq!(two.initiator.ask(&line), "linked");
        let rkey = two.target.ask("device");
        let stopped = two.stop();
        let counted = two.initiator.ask(&format!("count 800 {rkey}"));
        assert_eq!(counted, "counted");
        drop(stopped);
        assert_eq!(two.target.ask("device-word 100"), "100");
        assert_eq!(two.target.ask("device-word 101"), "0");
        assert_eq!(two.target.ask("free-device"), "freed");
        let answer = two.initiator.ask(&format!("once 800 {rkey}"));
        assert_eq!(answer, format!("status {IBV_WC_REM_ACCESS_ERR}"));
        two.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn wrong_requests_end_as_over_a_network() {
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
            two.initiator.send_line(&format!("hammer {rkey}"));
            let micros = dice.below(3000);
            let answer = two.target.ask(&format!("deregister {micros}"));
            assert_eq!(answer, "left alone", "{round}");
            let hammered = two.initiator.receive_line();
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

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_process_that_shortens_its_file_harms_no_other() {
        if !alone::there() {
            return;
        }
        let mut two = Two::start("auto");
        let file = two.target.ask("file");
        let (rkey, address) = file.split_once(' ').expect("two numbers");
        let counted = two.initiator.ask(&format!("count {address} {rkey}"));
        assert_eq!(counted, "counted");
        assert_eq!(two.initiator.ask("mapped"), "mapped 0");
        assert_eq!(two.target.ask("shorten"), "shortened");
        // Writes to unmapped memory are lost, as with a card that holds the pages.
        let answer = two.initiator.ask(&format!("once {address} {rkey}"));
        assert_eq!(answer, format!("status {IBV_WC_SUCCESS}"));
        assert_eq!(two.operate("write", 100, 0, two.rkey), "status 0");
        two.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn an_initiator_that_is_stopped_while_it_writes_writes_no_more() {
        if !alone::there() {
            return;
        }
        let mut dice = Dice(0x57a1);
        let mut two = Two::start("auto");
        let mut all = 0;
        for round in 0..alone::rounds("UROCE_DEREG_ROUNDS", 12) {
            let pages = two.target.ask("pages");
            let (rkey, address) = pages.split_once(' ').expect("two numbers");
            two.initiator.send_line(&format!("stream {address} {rkey}"));
            std::thread::sleep(std::time::Duration::from_micros(dice.below(20_000)));
            let stopped = two.initiator.stop();
            assert_eq!(two.target.ask("clear"), "cleared", "{round}");
            drop(stopped);
            let answer = two.initiator.receive_line();
            let (status, written) = answer.split_once(' ').expect("two numbers");
            assert_eq!(status, format!("{IBV_WC_REM_ACCESS_ERR}"), "{round}");
            all += written.parse::<u64>().expect("a number");
            assert_eq!(two.target.ask("look"), "left alone", "{round}");
            for player in [&mut two.initiator, &mut two.target] {
                assert_eq!(player.ask("again"), "again");
            }
            two.join();
        }
        assert!(all > 0);
        two.end();
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_region_stays_while_an_initiator_is_stopped_that_copies_into_it() {
        if !alone::there() {
            return;
        }
        let mut dice = Dice(0x5ea1);
        let mut two = Two::start("auto");
        let (mut all, mut busy) = (0, 0);
        for round in 0..alone::rounds("UROCE_DEREG_ROUNDS", 12) {
            let sealed = two.target.ask("sealed");
            let (rkey, address) = sealed.split_once(' ').expect("two numbers");
            two.initiator.send_line(&format!("stream {address} {rkey}"));
            std::thread::sleep(std::time::Duration::from_micros(dice.below(200_000)));
            let stopped = two.initiator.stop();
            let first = two.target.ask("clear-sealed");
            drop(stopped);
            if first == "busy" {
                busy += 1;
                while two.target.ask("clear-sealed") == "busy" {}
            }
            let answer = two.initiator.receive_line();
            let (status, written) = answer.split_once(' ').expect("two numbers");
            assert_eq!(status, format!("{IBV_WC_REM_ACCESS_ERR}"), "{round}");
            all += written.parse::<u64>().expect("a number");
            assert_eq!(two.target.ask("look-sealed"), "left alone", "{round}");
            for player in [&mut two.initiator, &mut two.target] {
                assert_eq!(player.ask("again"), "again");
            }
            two.join();
        }
        eprintln!("{all} writes, {busy} refusals");
        assert!(all > 0);
        two.end();
    }
}
