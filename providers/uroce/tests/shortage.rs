//! A process that may have no more descriptors: what fails says so, and leaves nothing.
#![allow(
    clippy::expect_used,
    reason = "a test ends where something is not as expected"
)]

mod alone;
mod ends;

use alone::{receive_line, reply, role as my_role};
use ends::pair;
use kit::abi::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

/// A process that may not make files longer than it is told.
#[test]
#[ignore = "a test of `inside` starts it"]
fn role() {
    if my_role().is_none() {
        return;
    }
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
    use uroce::context::Context;

    const MFILE: i32 = libc::EMFILE;

    /// Runs something with room for `free` more descriptors. There are no gaps among the numbers
    /// in use: they were filled.
    fn with_room<T>(free: u64, call: impl FnOnce() -> T) -> T {
        let before = getrlimit(Resource::Nofile);
        let probe = std::fs::File::open("/dev/null").expect("a file");
        let next = std::os::fd::AsRawFd::as_raw_fd(&probe.as_fd());
        drop(probe);
        let limit = Rlimit {
            current: Some(u64::try_from(next).expect("a number") + free),
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
        // What is made once and stays.
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
        // In processes of their own: there the node is new, and a signal does no harm here.
        for bytes in [0u64, 1 << 16, 1 << 20, 1 << 40] {
            let mut player = Player::start("limited");
            assert_eq!(player.ask(&bytes.to_string()), "received", "{bytes} bytes");
            player.end();
        }
    }

    /// Connections are made and used with no descriptor to be had: they take the shared ways.
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
