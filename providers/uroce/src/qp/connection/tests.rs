use crate::namespace;

/// Runs the tests of [`inside`] in a network namespace.
#[test]
fn in_a_namespace() {
    namespace::run("qp::connection::tests::inside::", &[], &[]);
}

/// Runs the tests of [`only_by_links`], where nothing but links leads to processes of this host.
#[test]
fn in_a_namespace_by_shm() {
    let environment = [("UROCE_CARRIER", "shm")];
    namespace::run_with(
        "qp::connection::tests::only_by_links::",
        &[],
        &[],
        &environment,
    );
}

mod only_by_links {
    use super::super::*;
    use crate::carrier::registry::Registry;
    use crate::clock;
    use crate::namespace::there;
    use crate::qp::tests::end::End;
    use uroce_engine::work::Request;

    #[test]
    #[ignore = "run by in_a_namespace_by_shm"]
    fn a_request_of_an_unreliable_connection_waits_for_the_link() {
        if !there() {
            return;
        }
        let silent = Registry::claim(true).expect("a slot");
        let links = shm::Links::AtOnce;
        let _directory = shm::Directory::open(&silent, links).expect("a directory");
        for (service, holds) in [(Service::Uc, true), (Service::Rc, false)] {
            let end = End::new(service);
            end.connect(qpn::number(silent.slot(), 1));
            let qp = end.state.resources();
            let connection = &mut end.state.locked.lock().connection;
            let now = clock::now();
            connection.hold_if_worthwhile(qp, &WorkRequest::new(1, Request::Send), now);
            let until = connection.hold;
            assert_eq!(until.is_some(), holds, "{service:?}");
            if let Some(until) = until {
                connection.end_hold_on_time(until);
                assert!(connection.hold.is_none(), "the peer had its time");
            }
        }
    }
}

mod inside {
    use super::super::*;
    use crate::carrier::registry::Registry;
    use crate::clock;
    use crate::namespace::there;
    use crate::qp::link_wait::LONG;
    use crate::qp::tests::end::{End, av, pair};
    use uroce_engine::work::{Data, Request, Sge};

    #[test]
    #[ignore = "run by in_a_namespace"]
    fn only_a_local_connection_without_link_lacks_one() {
        if !there() {
            return;
        }
        let [end, _other] = pair();
        let qp = end.state.resources();
        let connection = &mut end.state.locked.lock().connection;
        let peer = connection.live_peer().map(Arc::clone).expect("a link");
        assert!(!connection.lacks_link(&peer), "it has one");
        connection.peer = None;
        assert!(connection.lacks_link(&peer));
        let found = connection.find_link(qp).expect("a link");
        assert!(found.is(&peer));
        let path = connection.path;
        connection.path = path.map(|path| Path {
            local: false,
            ..path
        });
        assert!(!connection.lacks_link(&peer), "its peer is on another host");
        connection.path = None;
        assert!(!connection.lacks_link(&peer), "it has no peer");
        connection.path = path;
        connection.use_link(&peer);
        assert!(connection.peer().is_some_and(|peer| peer.is(&found)));
    }

    #[test]
    #[ignore = "run by in_a_namespace"]
    fn reset_forgets_the_peer() {
        if !there() {
            return;
        }
        let [end, _other] = pair();
        let qp = end.state.resources();
        let connection = &mut end.state.locked.lock().connection;
        let mut attr = ibv_qp_attr::zeroed();
        connection.query(qp, false, &mut attr);
        assert_eq!(attr.ah_attr.is_global, 1);
        connection.reset();
        connection.query(qp, false, &mut attr);
        assert_eq!(attr.ah_attr.is_global, 0);
        assert!(connection.peer().is_none() && connection.find_link(qp).is_none());
    }

    #[test]
    #[ignore = "run by in_a_namespace"]
    fn a_path_to_another_host_leaves_the_link_and_ends_a_pause() {
        if !there() {
            return;
        }
        let [end, _other] = pair();
        let connection = &mut end.state.locked.lock().connection;
        let path = connection.path.expect("a path");
        connection.change_path(path, av());
        assert!(connection.live_peer().is_some());
        connection.retry.drains = true;
        let elsewhere = Path {
            local: false,
            ..path
        };
        connection.change_path(elsewhere, av());
        assert!(connection.peer().is_none() && !connection.retry.drains);
        assert!(!connection.route.requests_by_link());
    }

    #[test]
    #[ignore = "run by in_a_namespace"]
    fn a_long_request_waits_a_moment_for_a_link() {
        if !there() {
            return;
        }
        let silent = Registry::claim(true).expect("a slot");
        let links = shm::Links::WhenWorthwhile;
        let _directory = shm::Directory::open(&silent, links).expect("a directory");
        let end = End::new(Service::Rc);
        end.connect(qpn::number(silent.slot(), 1));
        let qp = end.state.resources();
        let connection = &mut end.state.locked.lock().connection;
        let piece = |length| Sge {
            address: 0,
            length,
            lkey: 0,
        };
        let request = |length| WorkRequest {
            data: Data::Sges(std::iter::once(piece(length)).collect()),
            ..WorkRequest::new(1, Request::Send)
        };
        let now = clock::now();
        connection.hold_if_worthwhile(qp, &request(LONG - 1), now);
        assert!(connection.hold.is_none(), "UDP will do");
        connection.hold_if_worthwhile(qp, &request(LONG), now);
        let until = connection.hold.expect("it waits");
        assert_eq!(connection.deadline(), Some(until));
        connection.end_hold_on_time(now);
        assert!(connection.hold.is_some(), "not yet");
        connection.end_hold_on_time(until);
        assert!(connection.hold.is_none());
        connection.hold_if_worthwhile(qp, &request(LONG), until);
        assert!(connection.hold.is_none(), "the peer had its time");
    }

    #[test]
    #[ignore = "run by in_a_namespace"]
    fn a_ring_that_has_room_again_blocks_nothing() {
        if !there() {
            return;
        }
        let [end, _other] = pair();
        let qp = end.state.resources();
        let connection = &mut end.state.locked.lock().connection;
        let now = clock::now();
        assert!(!connection.is_blocked(qp, now));
        let peer = connection.peer().map(Arc::clone);
        // No ring is full here, so the wait ends with the first look.
        connection.block(qp, now, peer);
        assert!(connection.backpressure.is_some());
        assert!(!connection.waits_for_room(qp));
        assert!(!connection.is_blocked(qp, now));
        assert!(connection.backpressure.is_none());
    }

    /// A thread that may access the program's memory begins a pause, and one that may not finds
    /// its end: later requests are not held up again.
    #[test]
    #[ignore = "run by in_a_namespace"]
    fn a_pause_that_ends_without_an_attempt_is_not_repeated_at_once() {
        if !there() {
            return;
        }
        let [end, _other] = pair();
        let qp = end.state.resources();
        let connection = &mut end.state.locked.lock().connection;
        let now = clock::now();
        assert!(connection.requests_by_link(qp, || now));
        let transmits = |connection: &mut Connection| {
            let (engine, mut host) = connection.split(qp, now);
            engine.transmit(now, &mut host).is_some()
        };
        for id in 0..3 {
            let (engine, mut host) = connection.split(qp, now);
            let wr = WorkRequest::new(id, Request::Send);
            assert_eq!(engine.post_send(wr, &mut host), Ok(()));
        }
        assert!(transmits(connection), "the first is under way");
        assert!(!connection.retries_fast_path(qp, now, |_| true));
        assert!(!transmits(connection), "the others wait for its end");
        assert!(!connection.retries_fast_path(qp, now, |_| false));
        assert!(!connection.retries_fast_path(qp, now, |_| true));
        assert!(transmits(connection), "they have waited in vain");
        let [least, _] = RETRIES;
        assert!(!connection.retries_fast_path(qp, now.plus(least), |_| true));
        assert!(!transmits(connection), "they wait again when it is time to");
    }

    /// Looks at the peer at each deadline, until it counts as stalled. Returns how often.
    fn looks(end: &End, oldest: Option<u64>) -> u32 {
        let qp = end.state.resources();
        let connection = &mut end.state.locked.lock().connection;
        let first = connection.watch_peer(qp, clock::now());
        let mut at = first.expect("a deadline");
        let mut looks = 0;
        loop {
            looks += 1;
            if connection.peer_is_stalled(qp, at, oldest) {
                return looks;
            }
            match connection.stall.deadline() {
                Some(next) => at = next,
                None => return looks,
            }
        }
    }

    #[test]
    #[ignore = "run by in_a_namespace"]
    fn a_peer_that_takes_nothing_stalls_after_all_retries() {
        if !there() {
            return;
        }
        let [end, _other] = pair();
        // retry_cnt is 7.
        assert_eq!(looks(&end, Some(u64::MAX)), 8);
        let locked = end.state.locked.lock();
        assert!(!locked.connection.watches_peer());
        drop(locked);
        assert_eq!(looks(&end, None), 1, "there is nothing to wait for");
    }
}
