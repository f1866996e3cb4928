//! Requests, attributes and the end of a queue pair, as [`QpState`] routes them to its parts.

use crate::namespace;

/// Runs the tests of [`inside`] in a network namespace.
#[test]
fn in_a_namespace() {
    namespace::run("qp::state::tests::inside::", &[], &[]);
}

mod inside {
    use super::super::*;
    use crate::carrier::qpn;
    use crate::context::Context;
    use crate::namespace::there;
    use crate::qp::tests::end::{End, av, pair};
    use bytemuck::Zeroable;
    use kit::provider::{Bind, Counts, Data};

    /// The capacity of a send queue of [`End`].
    const CAPACITY: u64 = 16;

    fn send<'a>(id: u64, sges: &'a [ibv_sge]) -> SendRequest<'a, Context> {
        SendRequest {
            data: Data::Sges(sges),
            ..SendRequest::new(id, IBV_WR_SEND, 0)
        }
    }

    fn state(end: &End) -> ibv_qp_state {
        let mut attr = ibv_qp_attr::zeroed();
        end.state.query(&mut attr);
        attr.qp_state
    }

    #[test]
    #[ignore = "run by in_a_namespace"]
    fn a_list_of_requests_is_posted_whole_or_not_at_all() {
        if !there() {
            return;
        }
        let [from, to] = pair();
        let sge = [from.sge()];
        let post = |requests: Vec<SendRequest<'_, Context>>| {
            let mut requests = requests.into_iter();
            from.state.post_send_all::<Context>(&mut requests)
        };
        let too_many = (0..=CAPACITY).map(|id| send(id, &sge)).collect();
        assert_eq!(post(too_many), Err(Errno::NOMEM));
        assert_eq!(from.outstanding(), [0, 0]);
        let unknown = SendRequest::new(2, ibv_wr_opcode::MAX, 0);
        assert_eq!(post(vec![send(1, &sge), unknown]), Err(Errno::INVAL));
        assert_eq!(from.outstanding(), [0, 0]);
        to.receive(1);
        to.receive(2);
        assert_eq!(post(vec![send(1, &sge), send(2, &sge)]), Ok(()));
        let ids = |end: &End| end.wait(2).iter().map(|done| done.0).collect::<Vec<_>>();
        assert_eq!(ids(&from), [1, 2]);
        assert_eq!(ids(&to), [1, 2]);
    }

    #[test]
    #[ignore = "run by in_a_namespace"]
    fn one_request_alone_takes_the_fast_path() {
        if !there() {
            return;
        }
        let [from, to] = pair();
        let sge = [from.sge()];
        to.receive(1);
        let mut requests = std::iter::once(send(1, &sge));
        let posted = from.state.post_send_all::<Context>(&mut requests);
        assert_eq!(posted, Ok(()));
        assert_eq!(from.outstanding()[1], 0, "the protocol has no request");
        assert_eq!(from.wait(1)[0].0, 1);
        assert_eq!(to.wait(1)[0].0, 1);
    }

    #[test]
    #[ignore = "run by in_a_namespace"]
    fn requests_on_both_paths_share_the_capacity() {
        if !there() {
            return;
        }
        let [from, _to] = pair();
        // The peer has no receive request, so none of them ends.
        for id in 0..CAPACITY {
            from.post(id, IBV_WR_SEND).expect("posted");
        }
        assert_eq!(from.post(CAPACITY, IBV_WR_SEND), Err(Errno::NOMEM));
        let [fast, protocol] = from.outstanding();
        assert_eq!(fast + protocol, 16);
    }

    #[test]
    #[ignore = "run by in_a_namespace"]
    fn receive_requests_depend_on_state_and_queue() {
        if !there() {
            return;
        }
        let post = |end: &End| {
            let sges = [end.sge()];
            let mut requests = std::iter::once(ReceiveRequest { id: 1, sges: &sges });
            end.state.post_recv(&mut requests)
        };
        let reset = End::new(Service::Rc);
        assert_eq!(post(&reset), Err(Errno::INVAL));
        assert_eq!(reset.state.post_recv(&mut std::iter::empty()), Ok(()));
        reset.connect(77);
        assert_eq!(post(&reset), Ok(()));
        let initiator = End::new(Service::XrcInitiator);
        initiator.connect(77);
        assert_eq!(post(&initiator), Err(Errno::INVAL), "it has no queue");
    }

    #[test]
    #[ignore = "run by in_a_namespace"]
    fn a_refused_change_leaves_state_and_peer() {
        if !there() {
            return;
        }
        let [end, _other] = pair();
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = IBV_QPS_INIT;
        let refused = end.state.modify(&attr, IBV_QP_STATE);
        assert_eq!(refused, Err(Errno::INVAL));
        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = 99;
        let refused = end.state.modify(&attr, IBV_QP_STATE | IBV_QP_TIMEOUT);
        assert_eq!(refused, Err(Errno::INVAL));
        assert_eq!(state(&end), IBV_QPS_RTS);
        assert!(end.state.locked.lock().connection.peer().is_some());
    }

    #[test]
    #[ignore = "run by in_a_namespace"]
    fn counters_are_attached_before_the_connection() {
        if !there() {
            return;
        }
        let end = End::new(Service::Rc);
        let counter = Arc::new(CompCntr::new(Counts::Requests).expect("a counter"));
        let attach = || {
            let operations = IBV_QP_ATTACH_COMP_CNTR_OP_SEND;
            end.state.count_on(Arc::clone(&counter), operations)
        };
        assert_eq!(attach(), Ok(()));
        end.connect(77);
        assert_eq!(attach(), Err(Errno::INVAL));
    }

    #[test]
    #[ignore = "run by in_a_namespace"]
    fn a_queue_pair_ends_with_its_last_name() {
        if !there() {
            return;
        }
        let end = End::new(Service::Rc);
        let other = Token(3);
        end.state.add_token(other);
        assert!(end.state.is_shared());
        end.state.end();
        assert!(!end.state.ended.load(Ordering::SeqCst), "it has two names");
        assert_eq!(end.state.remove_token(other), 0);
        assert!(!end.state.is_shared() && end.state.is_named());
        end.state.end();
        assert!(!end.state.ended.load(Ordering::SeqCst), "it has one name");
        end.state.remove_token(Token(2));
        assert!(!end.state.is_named());
        end.state.end();
        assert!(end.state.ended.load(Ordering::SeqCst));
        end.state.end();
    }

    #[test]
    #[ignore = "run by in_a_namespace"]
    fn only_an_xrc_target_has_owner_and_delegate() {
        if !there() {
            return;
        }
        let end = End::new(Service::Rc);
        assert_eq!(end.state.with_target(|_, _| ()), None);
        assert!(!end.state.has_lost_owner());
        end.state.return_to_owner(true);
        end.state.revoke_delegation();
        assert_eq!(state(&end), IBV_QPS_RESET);
    }

    /// The peer knows nothing of it, and completes messages by credit at once.
    #[test]
    #[ignore = "run by in_a_namespace"]
    fn a_change_of_the_path_alone_loses_no_message() {
        if !there() {
            return;
        }
        barrier::prepare();
        let [from, to] = pair();
        (1..9).for_each(|id| to.receive(id));
        let exchange = |id| {
            from.post(id, IBV_WR_SEND).expect("posted");
            assert_eq!(from.wait(1), [(id, IBV_WC_SUCCESS, IBV_WC_SEND)]);
            assert_eq!(to.wait(1), [(id, IBV_WC_SUCCESS, IBV_WC_RECV)]);
        };
        (1..5).for_each(exchange);
        let shown = || {
            // A thread that has just received the message has shown the credit.
            drop(to.state.locked.lock());
            let index = qpn::index_of(to.state.number());
            from.peer().segment().credit(index)
        };
        let before = shown();
        let granted = before.map(|credit| credit.limit > 0);
        assert_eq!(granted, Some(barrier::takes_part()));
        to.modify(IBV_QPS_SQD);
        let mut attr = ibv_qp_attr::zeroed();
        attr.ah_attr = av();
        // Not in the mask.
        attr.rq_psn = 77;
        to.state.modify(&attr, IBV_QP_AV).expect("modified");
        to.modify(IBV_QPS_RTS);
        assert_eq!(shown(), before);
        (5..9).for_each(exchange);
    }

    #[test]
    #[ignore = "run by in_a_namespace"]
    fn a_refused_request_to_bind_keeps_nothing() {
        if !there() {
            return;
        }
        // One in RESET, and one that cannot bind.
        for service in [Service::Rc, Service::Ud] {
            let end = End::new(service);
            let pd = end.state.resources().pd();
            let keys = end.node.keys();
            let (window, key) = keys.alloc_mw(pd, IBV_MW_TYPE_1).expect("a window");
            let window = Arc::new(window);
            let info = BindInfo::<Context> {
                key,
                mr: None,
                address: 0,
                length: 0,
                access: 0,
            };
            let refused = end.state.bind_mw(&window, 5, 0, &info);
            assert_eq!(refused, Err(Errno::INVAL));
            let mut request = SendRequest::new(5, IBV_WR_BIND_MW, 0);
            request.bind = Some(Bind {
                mw: &window,
                rkey: key + 1,
                info,
            });
            let refused = end.state.post_send_all(&mut [request].into_iter());
            assert_eq!(refused, Err(Errno::INVAL));
            assert_eq!(Arc::strong_count(&window), 1);
        }
    }

    #[test]
    #[ignore = "run by in_a_namespace"]
    fn a_window_is_bound_in_the_order_of_requests() {
        if !there() {
            return;
        }
        let [from, _to] = pair();
        let keys = from.node.keys();
        let pd = from.state.resources().pd();
        let (window, first) = keys.alloc_mw(pd, IBV_MW_TYPE_1).expect("a window");
        let window = Arc::new(window);
        let info = BindInfo::<Context> {
            key: first,
            mr: None,
            address: 0,
            length: 0,
            access: 0,
        };
        let rkey = from.state.bind_mw(&window, 5, 0, &info).expect("posted");
        assert_ne!(rkey, first);
        assert_eq!(from.wait(1)[0], (5, IBV_WC_SUCCESS, IBV_WC_BIND_MW));
        let (window, _) = keys.alloc_mw(pd, IBV_MW_TYPE_2).expect("a window");
        let refused = from.state.bind_mw(&Arc::new(window), 6, 0, &info);
        assert_eq!(refused, Err(Errno::INVAL));
        assert_eq!(from.outstanding(), [0, 0]);
    }
}
