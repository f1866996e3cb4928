//! A process number that another process, or another program, has by the time of a one-sided
//! operation: it is neither written to nor read.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as expected"
)]
#![allow(clippy::cast_possible_truncation, reason = "of numbers and keys")]

mod alone;
mod ends;

use alone::{Player, change_role, commands, reply, role as my_role};
use ends::{End, connect_for, peer_is_at};
use kit::abi::*;
use kit::sys::scratch::Scratch;
use rustix::io::ioctl_fionread;

/// Says that a process runs in a separate PID namespace.
const NUMBERS: &str = "UROCE_TEST_NUMBERS";
/// The number that the namespace assigned last.
const LAST: &str = "/proc/sys/kernel/ns_last_pid";
/// Timeout and retry count, a quarter of a second in all: the target's thread may get no processor
/// for a while before the first operation.
const PATIENCE: [u8; 2] = [14, 3];
/// Bytes of the process that has the number now.
const OWN: u8 = 0x5a;

#[test]
fn in_a_namespace() {
    alone::in_a_namespace_by_shm();
}

#[test]
#[ignore = "the tests of `inside` start it"]
fn role() {
    match my_role().as_deref() {
        Some("stranger") => stranger(),
        Some(_) => end(),
        None => {}
    }
}

/// A process that has the memory of an end at the same address.
fn stranger() {
    let pages = Scratch::new(1).expect("memory").memory();
    pages.write(0, &[OWN; 4096]).expect("there");
    reply(&format!("{}", pages.address()));
    for _ in commands::<u64>() {
        let mut bytes = [0; 4096];
        pages.read(0, &mut bytes).expect("there");
        let same = bytes.iter().all(|byte| *byte == OWN);
        reply(if same { "left alone" } else { "CHANGED" });
    }
}

fn end() {
    let end = End::new(IBV_QPT_RC);
    let pages = Scratch::new(1).expect("memory");
    let (_mr, rkey) = end.register_pages(&pages);
    for (word, numbers) in commands::<u64>() {
        match (word.as_str(), &numbers[..]) {
            ("who", []) => {
                let address = pages.memory().address();
                reply(&format!(
                    "{} {} {address} {rkey}",
                    end.number(),
                    end.address(0)
                ));
            }
            ("connect", [number, address]) => {
                peer_is_at(*address);
                connect_for(&end, *number as u32, PATIENCE);
                reply("connected");
            }
            ("operate", [opcode, address, rkey]) => {
                end.post_to(*opcode as ibv_wr_opcode, (64, 8), *address, *rkey as u32);
                reply(&format!("{}", end.completion().status));
            }
            ("operate_with_next", [opcode, address, rkey]) => {
                reply("awaits it");
                // Awake, it is faster than the thread that finds the end of the peer.
                while ioctl_fionread(std::io::stdin()) == Ok(0) {}
                end.post_to(*opcode as ibv_wr_opcode, (64, 8), *address, *rkey as u32);
                reply(&format!("{}", end.completion().status));
            }
            ("next", []) => {}
            ("execute", []) => change_role("stranger"),
            _ => panic!("{word} {numbers:?}"),
        }
    }
}

/// Runs in a PID namespace, as its first process.
#[test]
#[ignore = "a test of `inside` starts it"]
fn numbers() {
    if std::env::var_os(NUMBERS).is_none() {
        return;
    }
    for opcode in [IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ] {
        for round in 0..8 {
            reuse(opcode, round);
        }
    }
}

/// An initiator that has done an operation in the memory of a target, and awaits a line to do it
/// again; and where that memory is.
fn prepare(opcode: ibv_wr_opcode) -> (Player, Player, u64) {
    let [mut initiator, mut target] = [(); 2].map(|()| Player::start("end"));
    let who = [&mut initiator, &mut target].map(|player| {
        let who = player.ask("who");
        let numbers = who.split(' ').map(|word| word.parse().expect("a number"));
        numbers.collect::<Vec<u64>>()
    });
    let [of_initiator, of_target] = &who;
    let line = |of: &[u64]| format!("connect {} {}", of[0], of[1]);
    assert_eq!(initiator.ask(&line(of_target)), "connected");
    assert_eq!(target.ask(&line(of_initiator)), "connected");
    let operands = format!("{opcode} {} {}", of_target[2], of_target[3]);
    let status = initiator.ask(&format!("operate {operands}"));
    assert_eq!(status, format!("{IBV_WC_SUCCESS}"));
    let awaits = initiator.ask(&format!("operate_with_next {operands}"));
    assert_eq!(awaits, "awaits it");
    (initiator, target, of_target[2])
}

/// The operation fails, and has changed nothing.
fn is_harmless(initiator: &mut Player, stranger: &mut Player) -> bool {
    let status = initiator.receive_line();
    let left = stranger.ask("look");
    eprintln!("status {status}, {left}");
    status == format!("{IBV_WC_RETRY_EXC_ERR}") && left == "left alone"
}

fn reuse(opcode: ibv_wr_opcode, round: u32) {
    let (mut initiator, target, address) = prepare(opcode);
    let stopped = initiator.stop();
    let number = target.id();
    target.kill();
    std::fs::write(LAST, format!("{}", number - 1)).expect("the next number");
    let mut stranger = Player::start("stranger");
    assert_eq!(stranger.id(), number);
    assert_eq!(stranger.receive_line(), format!("{address}"));
    initiator.send_line("next");
    drop(stopped);
    assert!(
        is_harmless(&mut initiator, &mut stranger),
        "{opcode} {round}"
    );
    stranger.end();
    initiator.end();
}

mod inside {
    use super::*;
    use std::process::Command;
    use watchdog::Watched;

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_program_that_a_process_executes_is_left_alone() {
        if !alone::there() {
            return;
        }
        for opcode in [IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ] {
            let (mut initiator, mut target, address) = prepare(opcode);
            assert_eq!(target.ask("execute"), format!("{address}"));
            initiator.send_line("next");
            assert!(is_harmless(&mut initiator, &mut target), "{opcode}");
            target.end();
            initiator.end();
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_process_with_the_number_of_an_ended_one_is_left_alone() {
        if !alone::there() {
            return;
        }
        if !rustix::process::geteuid().is_root() || !std::fs::exists(LAST).unwrap_or(false) {
            eprintln!("skipped: numbers are given by root, and a kernel that has {LAST}");
            return;
        }
        let output = Command::new("unshare")
            .args(["--pid", "--fork", "--mount-proc"])
            .arg(std::env::current_exe().expect("a test program"))
            .args(["--ignored", "--exact", "--nocapture", "numbers"])
            .env(NUMBERS, "1")
            .watched_output()
            .expect("a process");
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{complained}");
    }
}
