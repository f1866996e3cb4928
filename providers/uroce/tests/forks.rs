//! Programs that fork with open devices, and that exit without closing them.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as expected"
)]
#![allow(clippy::cast_possible_truncation, reason = "of patterns")]

mod alone;
mod ends;

use alone::{Player, receive_line, reply, role as my_role};
use ends::{End, connect, pair, peer_is_at};
use kit::abi::*;

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

/// Runs `child` in a forked process, and returns its exit status once it has ended.
fn forked(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child only uses this program's own locks where no other thread of the parent can
    // have held them, and leaves by _exit.
    match unsafe { libc::fork() } {
        -1 => panic!("no process"),
        0 => {
            let code = child();
            // SAFETY: ends the process.
            unsafe { libc::_exit(code) }
        }
        process => ended(process),
    }
}

/// The exit status of a child, or the signal that ended it and 1000.
fn ended(process: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: a child of this process, and a status to write.
    let waited = unsafe { libc::waitpid(process, &raw mut status, 0) };
    assert_eq!(waited, process);
    if libc::WIFSIGNALED(status) {
        return 1000 + libc::WTERMSIG(status);
    }
    libc::WEXITSTATUS(status)
}

/// A process that forks, prints the number of its child, and ends in the way of its role. The child
/// remains.
#[test]
#[ignore = "the tests of `inside` start it"]
fn role() {
    let Some(role) = my_role() else {
        return;
    };
    let end = End::new(IBV_QPT_RC);
    reply(&format!(
        "{} {} {}",
        end.number(),
        end.address(0),
        end.rkey()
    ));
    let peer = receive_line().expect("a peer");
    let numbers: Vec<u64> = peer
        .split(' ')
        .map(|number| number.parse().expect("a number"))
        .collect();
    peer_is_at(numbers[1]);
    connect(&end, numbers[0] as u32);
    end.post_send(1, IBV_WR_RDMA_WRITE, 0, 8, 0, numbers[2] as u32);
    assert_eq!(end.completion().status, IBV_WC_SUCCESS);
    if role == "leave a child" {
        // SAFETY: the child only waits for a signal.
        let child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: no arguments.
                unsafe { libc::pause() };
            }
        }
        reply(&format!("{child}"));
    } else {
        reply("done");
    }
    receive_line();
    // Nothing is closed: the end is still open.
    end.post_send(2, IBV_WR_RDMA_WRITE, 0, 50_000, 0, numbers[2] as u32);
    std::process::exit(0);
}

mod inside {
    use super::*;

    fn works([a, b]: &[End; 2]) {
        b.post_recv(1, 65_536, 100);
        a.post_send(2, IBV_WR_SEND, 0, 100, 0, 0);
        assert_eq!(a.completion().status, IBV_WC_SUCCESS);
        assert_eq!(b.completion().status, IBV_WC_SUCCESS);
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_child_can_use_nothing_and_disturbs_no_process() {
        if !alone::there() {
            return;
        }
        let ends = pair(IBV_QPT_RC);
        works(&ends);
        let before = alone::threads();
        for _ in 0..20 {
            // Traffic under way, so that the child's copies are in the middle of something.
            let [a, b] = &ends;
            for id in 0..8 {
                a.post_send(id, IBV_WR_RDMA_WRITE, 0, 30_000, 0, b.rkey());
            }
            let code = forked(|| {
                let [a, b] = &ends;
                for end in [a, b] {
                    if !end.poll().iter().all(|wc| wc.status == IBV_WC_SUCCESS) {
                        return 1;
                    }
                    if end.poll().len() > 8 {
                        return 2;
                    }
                }
                0
            });
            assert_eq!(code, 0);
            for id in 0..8 {
                let wc = a.completion();
                assert_eq!((wc.wr_id, wc.status), (id, IBV_WC_SUCCESS));
            }
        }
        assert_eq!(alone::threads(), before);
        works(&ends);
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_child_that_closes_inherited_objects_ends() {
        if !alone::there() {
            return;
        }
        let mut ends = Some(pair(IBV_QPT_RC));
        let code = forked(|| {
            drop(ends.take());
            0
        });
        assert_eq!(code, 0);
        works(ends.as_ref().expect("the parent's"));
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_child_may_open_the_device_anew() {
        if !alone::there() {
            return;
        }
        let ends = pair(IBV_QPT_RC);
        for _ in 0..3 {
            let code = forked(|| {
                let ends = pair(IBV_QPT_RC);
                works(&ends);
                0
            });
            assert_eq!(code, 0);
        }
        works(&ends);
    }

    fn introduce(player: &mut Player, end: &End) -> Vec<u64> {
        let address = player.receive_line();
        let numbers: Vec<u64> = address
            .split(' ')
            .map(|number| number.parse().expect("a number"))
            .collect();
        peer_is_at(numbers[1]);
        connect(end, numbers[0] as u32);
        player.send_line(&format!(
            "{} {} {}",
            end.number(),
            end.address(0),
            end.rkey()
        ));
        numbers
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn an_exit_without_closing_is_found_out() {
        if !alone::there() {
            return;
        }
        for _ in 0..2 {
            let end = End::new(IBV_QPT_RC);
            let mut player = Player::start("exit");
            introduce(&mut player, &end);
            assert_eq!(player.receive_line(), "done");
            player.end();
            end.post_send(3, IBV_WR_SEND, 0, 8, 0, 0);
            assert_eq!(end.completion().status, IBV_WC_RETRY_EXC_ERR);
        }
    }

    /// The child of a process that is gone has copies of its sockets. They must neither keep the
    /// slot nor take packets that the kernel shares out between the sockets of the port.
    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_child_left_behind_takes_no_packets() {
        if !alone::there() {
            return;
        }
        for _ in 0..2 {
            let end = End::new(IBV_QPT_RC);
            let mut player = Player::start("leave a child");
            let numbers = introduce(&mut player, &end);
            let child: libc::pid_t = player.receive_line().parse().expect("a process");
            player.end();
            end.post_send(3, IBV_WR_SEND, 0, 8, 0, 0);
            assert_eq!(end.completion().status, IBV_WC_RETRY_EXC_ERR);
            let sockets = std::fs::read_to_string("/proc/net/unix").expect("sockets");
            let slot = format!("@uroce/{}\n", numbers[0] >> 14);
            let kept = sockets.contains(&slot);
            // Peers whose packets may all be assigned to one socket or the other.
            let mut reached = 0;
            for _ in 0..12 {
                let mut player = Player::start("exit");
                let end = End::new(IBV_QPT_RC);
                let numbers = introduce(&mut player, &end);
                end.post_send(3, IBV_WR_RDMA_WRITE, 0, 8, 1000, numbers[2] as u32);
                reached += u32::from(end.completion().status == IBV_WC_SUCCESS);
                if reached > 0 {
                    // Otherwise it waits for its own packets' answers.
                    player.receive_line();
                }
                player.kill();
            }
            // SAFETY: kills the process that the player has left.
            unsafe { libc::kill(child, libc::SIGKILL) };
            assert!(!kept, "the slot {slot} is kept");
            assert_eq!(reached, 12);
        }
    }
}
