//! A process that may have no more descriptors: a failed call returns the error, and leaves no
//! object.
#![allow(
    clippy::expect_used,
    reason = "a test ends where something is not as expected"
)]

mod alone;
mod ends;

use alone::{receive_line, reply, role as my_role};
use ends::{End, connect_for, pair, peer_is_at};
use kit::abi::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::AsRawFd;

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

/// A process of the tests below.
#[test]
#[ignore = "a test of `inside` starts it"]
fn role() {
    match my_role().as_deref() {
        Some("limited") => limited(),
        Some(_) => side(),
        None => {}
    }
}

/// The lowest number that no descriptor has.
fn next_descriptor() -> u64 {
    let probe = std::fs::File::open("/dev/null").expect("a file");
    u64::try_from(probe.as_raw_fd()).expect("a number")
}

/// A process that connects, writes, and may have no more descriptors meanwhile.
fn side() {
    let end = End::new(IBV_QPT_RC);
    reply(&format!(
        "{} {} {}",
        end.number(),
        end.address(0),
        end.rkey()
    ));
    let descriptors = getrlimit(Resource::Nofile);
    let limit = |current| {
        let limit = Rlimit {
            current,
            ..descriptors
        };
        setrlimit(Resource::Nofile, limit).expect("a limit");
    };
    while let Some(line) = receive_line() {
        let mut words = line.split(' ');
        let word = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words.map(|word| word.parse().expect("a number")).collect();
        let number = |at: usize| u32::try_from(numbers[at]).expect("a number");
        match word {
            // None is free, or none at all may be used.
            "limit" => limit(Some(next_descriptor())),
            "zero" => limit(Some(0)),
            "lift" => limit(descriptors.current),
            "connect" => connect_for(&end, number(0), [18, 7]),
            _ => {
                peer_is_at(numbers[0]);
                end.post_send(1, IBV_WR_RDMA_WRITE, 0, 8, 64, number(1));
                assert_eq!(end.completion().status, IBV_WC_SUCCESS);
            }
        }
        reply(word);
    }
}

/// A process that may not make files longer than a limit.
fn limited() {
    while let Some(line) = receive_line() {
        let limit = Rlimit {
            current: Some(line.parse().expect("a number")),
            ..getrlimit(Resource::Fsize)
        };
        setrlimit(Resource::Fsize, limit).expect("a limit");
        let ends = pair(IBV_QPT_RC);
        ends[1].post_recv(1, 0, 8);
        ends[0].post_send(1, IBV_WR_SEND, 0, 8, 0, 0);
        assert_eq!(ends[0].completion().status, IBV_WC_SUCCESS);
        reply("received");
    }
}

mod inside {
    use super::alone::{Player, descriptors, there, threads};
    use super::ends::{End, connect, loopback, pair};
    use kit::abi::*;
    use kit::provider::Edges;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use std::os::fd::AsFd;
    use std::time::Duration;
    use uroce::context::Context;

    const MFILE: i32 = libc::EMFILE;

    /// Runs something with room for `free` more descriptors. There are no gaps among the numbers
    /// in use: they were filled.
    fn with_room<T>(free: u64, call: impl FnOnce() -> T) -> T {
        let before = getrlimit(Resource::Nofile);
        let limit = Rlimit {
            current: Some(super::next_descriptor() + free),
            ..before
        };
        setrlimit(Resource::Nofile, limit).expect("a limit");
        let result = call();
        setrlimit(Resource::Nofile, before).expect("a limit");
        result
    }

    fn held() -> [usize; 2] {
        [descriptors(), threads()]
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn opening_fails_whole_or_works() {
        if !there() {
            return;
        }
        // Makes the objects that are made once and remain.
        drop(pair(IBV_QPT_RC));
        let port = loopback();
        let before = held();
        let mut opened = 0;
        for free in 0..40 {
            match with_room(free, || Context::open(&port)) {
                Ok((context, _async)) => {
                    opened += 1;
                    drop(context);
                }
                Err(error) => {
                    assert_eq!(error.raw(), MFILE, "room for {free}");
                    assert_eq!(opened, 0, "less room was enough");
                }
            }
            assert_eq!(held(), before, "room for {free}");
        }
        assert!((1..40).contains(&opened));
        let ends = pair(IBV_QPT_RC);
        ends[1].post_recv(1, 0, 8);
        ends[0].post_send(1, IBV_WR_SEND, 0, 8, 0, 0);
        assert_eq!(ends[0].completion().status, IBV_WC_SUCCESS);
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn channels_fail_whole_or_work() {
        if !there() {
            return;
        }
        let port = loopback();
        let (context, _async) = Context::open(&port).expect("opens");
        let before = held();
        for free in 0..6 {
            match with_room(free, || context.create_comp_channel()) {
                Ok(channel) => {
                    assert!(free >= 3);
                    context.destroy_comp_channel(channel.as_fd());
                }
                Err(error) => assert_eq!(error.raw(), MFILE),
            }
            assert_eq!(held(), before, "room for {free}");
        }
    }

    /// Memory that processes share is a file to the kernel, which ends a process that makes one too
    /// long.
    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_device_opens_where_files_may_not_be_long() {
        if !there() {
            return;
        }
        // In separate processes: there the node is new, and a signal does no harm.
        for bytes in [0u64, 1 << 16, 1 << 20, 1 << 40] {
            let mut player = Player::start("limited");
            assert_eq!(player.ask(&bytes.to_string()), "received", "{bytes} bytes");
            player.end();
        }
    }

    /// The processor time of a process.
    fn used(player: &Player) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", player.id())).expect("a folder");
        let of = |task: std::fs::DirEntry| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        };
        Duration::from_nanos(tasks.flatten().filter_map(of).sum())
    }

    /// The number, the memory and the process of a side.
    fn start() -> (String, String, Player) {
        let mut player = Player::start_with("side", &[("UROCE_CARRIER", "shm")]);
        let line = player.receive_line();
        let (number, memory) = line.split_once(' ').expect("numbers");
        (number.to_owned(), memory.to_owned(), player)
    }

    /// A process connects to another that cannot accept that for want of a descriptor.
    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn operations_without_a_free_descriptor_wait_for_one() {
        if !there() {
            return;
        }
        for (lower, limit) in [
            (true, "limit"),
            (false, "limit"),
            (true, "zero"),
            (false, "zero"),
        ] {
            let mut sides = [start(), start()];
            let number = |text: &str| text.parse::<u32>().expect("a number");
            sides.sort_by_key(|(own, ..)| number(own));
            let [low, high] = sides;
            let (mut short, mut other) = if lower { (low, high) } else { (high, low) };
            assert_eq!(short.2.ask(limit), limit);
            let before = used(&short.2);
            assert_eq!(other.2.ask(&format!("connect {}", short.0)), "connect");
            other.2.send_line(&format!("write {}", short.1));
            let time = Duration::from_millis(600);
            std::thread::sleep(time);
            let used = used(&short.2) - before;
            assert!(used < time / 6, "it used {used:?} of {time:?}");
            // It cannot begin by itself, either.
            assert_eq!(short.2.ask(&format!("connect {}", other.0)), "connect");
            std::thread::sleep(time / 6);
            assert_eq!(short.2.ask("lift"), "lift");
            assert_eq!(other.2.receive_line(), "write");
            assert_eq!(short.2.ask(&format!("write {}", other.1)), "write");
            short.2.end();
            other.2.end();
        }
    }

    /// A process may have no descriptors any more when its peer is killed.
    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn the_end_of_a_peer_is_noticed_once_without_descriptors() {
        if !there() {
            return;
        }
        let [mut stays, mut goes] = [(); 2].map(|()| start());
        assert_eq!(stays.2.ask(&format!("connect {}", goes.0)), "connect");
        assert_eq!(goes.2.ask(&format!("connect {}", stays.0)), "connect");
        assert_eq!(stays.2.ask(&format!("write {}", goes.1)), "write");
        assert_eq!(stays.2.ask("zero"), "zero");
        let before = used(&stays.2);
        goes.2.kill();
        let time = Duration::from_millis(600);
        std::thread::sleep(time);
        let used = used(&stays.2) - before;
        assert!(used < time / 6, "it used {used:?} of {time:?}");
        assert_eq!(stays.2.ask("lift"), "lift");
        stays.2.end();
    }

    /// Connections are made and used without a free descriptor: they use the shared sockets.
    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn an_open_device_works_without_more() {
        if !there() {
            return;
        }
        let [a, b] = [End::new(IBV_QPT_RC), End::new(IBV_QPT_RC)];
        with_room(0, || {
            connect(&a, b.number());
            connect(&b, a.number());
            for id in 0..50 {
                b.post_recv(id, 0, 10_000);
                a.post_send(id, IBV_WR_SEND, 0, 10_000, 0, 0);
                assert_eq!(a.completion().status, IBV_WC_SUCCESS);
                assert_eq!(b.completion().status, IBV_WC_SUCCESS);
            }
        });
    }
}
