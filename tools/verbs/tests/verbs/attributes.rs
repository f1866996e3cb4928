use std::time::Duration;

use super::{Pair, filled, one, open, pair, take};
use verbs::{
    Access, AsyncEvent, Changes, Datagram, Ece, QueuePair, RateLimit, ReceiveRequest, SendRequest,
    State, abi,
};

const QKEY: u32 = 0x1234_5678;

#[test]
fn a_queue_pair_reports_its_attributes() {
    let Pair { ends, .. } = pair(Access::REMOTE_READ, |one| {
        one.timeout(17).retries(5).rnr_retries(4).rnr_timer(9)
    });
    let attributes = ends[0].attributes().unwrap();
    assert_eq!(attributes.state, State::ReadyToSend);
    assert_eq!(attributes.access, Access::REMOTE_READ);
    assert_eq!(attributes.peer, ends[1].number());
    assert_eq!(attributes.send_psn, ends[0].endpoint().psn);
    assert_eq!(attributes.receive_psn, ends[1].endpoint().psn);
    assert_eq!(attributes.peer_gid, ends[1].endpoint().gid);
    assert_eq!(
        (
            attributes.timeout,
            attributes.retries,
            attributes.rnr_retries,
            attributes.rnr_timer
        ),
        (17, 5, 4, 9)
    );
    assert!(attributes.sends >= 16 && attributes.receives >= 16);
    assert!(attributes.send_segments >= 2 && attributes.inline >= 32);
    assert_eq!((attributes.port, attributes.rate_limit), (1, 0));
    assert!(!attributes.is_draining);
}

#[test]
fn attributes_change_in_the_states_that_allow_it() {
    let Pair { ends, .. } = pair(Access::LOCAL, |one| one);
    let qp = &ends[0];
    let errno = |changes: Changes| qp.modify(&changes).unwrap_err().errno();
    qp.modify(&Changes::new().rnr_timer(3).access(Access::REMOTE_WRITE))
        .unwrap();
    let sent = Changes::new().timeout(19).retries(2).rnr_retries(1);
    assert_eq!(errno(sent), libc::EINVAL);
    assert_eq!(errno(Changes::new().qkey(1)), libc::EINVAL);
    assert_eq!(errno(Changes::new().rnr_timer(32)), libc::EINVAL);
    qp.drain().unwrap();
    qp.modify(&sent.reads(2).peer_reads(3)).unwrap();
    qp.resume().unwrap();
    let now = qp.attributes().unwrap();
    assert_eq!(now.state, State::ReadyToSend);
    assert_eq!((now.rnr_timer, now.access), (3, Access::REMOTE_WRITE));
    assert_eq!((now.timeout, now.retries, now.rnr_retries), (19, 2, 1));
    assert_eq!((now.reads, now.peer_reads), (2, 3));
    let refused = qp.limit_rate(RateLimit {
        rate: 1000,
        ..RateLimit::default()
    });
    assert_eq!(refused.unwrap_err().errno(), libc::EOPNOTSUPP);
    qp.shut_down().unwrap();
    assert_eq!(qp.attributes().unwrap().state, State::Error);
    assert_eq!(qp.drain().unwrap_err().errno(), libc::EINVAL);
    assert_eq!(qp.resume().unwrap_err().errno(), libc::EINVAL);
}

#[test]
fn requests_wait_while_a_queue_pair_is_drained() {
    let Pair { pd, queues, ends } = pair(Access::LOCAL, |one| one);
    let context = pd.context();
    ends[1]
        .post_receive(ReceiveRequest::new(pd.buffer(8).unwrap()))
        .unwrap();
    ends[0].drain().unwrap();
    let event = loop {
        let event = context.async_event().unwrap();
        if event.kind() != abi::IBV_EVENT_COMM_EST {
            break event;
        }
    };
    assert_eq!(AsyncEvent::kind(&event), abi::IBV_EVENT_SQ_DRAINED);
    assert!(!ends[0].attributes().unwrap().is_draining);
    ends[0]
        .post(SendRequest::send(filled(&pd, b"message")).id(5))
        .unwrap();
    for _ in 0..100 {
        assert!(queues[0].poll().unwrap().is_empty() && queues[1].poll().unwrap().is_empty());
    }
    ends[0].resume().unwrap();
    assert_eq!(one(&queues[0]).success().unwrap().id, 5);
    assert_eq!(one(&queues[1]).success().unwrap().bytes, 7);
}

#[test]
fn a_connection_is_made_again_after_a_reset() {
    let Pair { pd, queues, ends } = pair(Access::REMOTE_WRITE, |one| one.rnr_retries(2));
    for id in 0..16 {
        ends[0]
            .post_receive(ReceiveRequest::new(pd.buffer(8).unwrap()).id(id))
            .unwrap();
    }
    // No completion comes of these.
    ends[0].drain().unwrap();
    ends[0]
        .post(SendRequest::send(filled(&pd, b"lost")))
        .unwrap();
    let old = ends[0].endpoint();
    let [a, b] = ends.map(|end| end.reset().unwrap());
    let (at_a, at_b) = (a.endpoint(), b.endpoint());
    assert_eq!(at_a.number, old.number);
    // All its places are free.
    for id in 20..36 {
        a.post_receive(ReceiveRequest::new(pd.buffer(8).unwrap()).id(id))
            .unwrap();
    }
    let (a, b) = (a.connect(&at_b).unwrap(), b.connect(&at_a).unwrap());
    let attributes = a.attributes().unwrap();
    assert_eq!(
        (attributes.rnr_retries, attributes.access),
        (2, Access::REMOTE_WRITE)
    );
    b.post(SendRequest::send(filled(&pd, b"again"))).unwrap();
    one(&queues[1]).success().unwrap();
    let done = one(&queues[0]).success().unwrap();
    assert_eq!((done.id, done.bytes), (20, 5));
    assert_eq!(&done.into_buffer().unwrap()[..5], b"again");
}

#[test]
fn datagrams_begin_again_after_an_error() {
    let context = open();
    let pd = context.protection_domain().unwrap();
    let cq = context.completion_queue(128).unwrap();
    let build = || pd.datagram(&cq).build(QKEY).unwrap();
    let (a, b): (QueuePair<Datagram>, _) = (build(), build());
    a.shut_down().unwrap();
    let a = a.reset().unwrap();
    assert_eq!(a.attributes().unwrap().state, State::ReadyToSend);
    assert_eq!(a.attributes().unwrap().qkey, QKEY);
    b.post_receive(ReceiveRequest::new(pd.buffer(64).unwrap()))
        .unwrap();
    b.modify(&Changes::new().qkey(7)).unwrap();
    let to = a.address_handle(&b.endpoint()).unwrap();
    let message = SendRequest::send(filled(&pd, b"datagram"));
    a.post_to(message, &to, b.number(), 7).unwrap();
    let done = take(&cq, 2);
    assert!(done.iter().all(|one| one.result.is_ok()));
}

#[test]
fn a_completion_queue_grows_and_does_not_shrink_below_its_queue_pairs() {
    let context = open();
    let pd = context.protection_domain().unwrap();
    let cq = context.completion_queue(4).unwrap();
    let builder = || pd.reliable(&cq).sends(400).receives(400);
    assert_eq!(builder().build().unwrap_err().errno(), libc::ENOSPC);
    cq.resize(800).unwrap();
    assert!(cq.capacity() >= 800);
    let qp = builder().build().unwrap();
    let refused = cq.resize(799).unwrap_err();
    assert_eq!(
        (refused.function(), refused.errno()),
        ("ibv_resize_cq", libc::ENOSPC)
    );
    drop(qp);
    cq.resize(10).unwrap();
    assert_eq!(cq.resize(u32::MAX).unwrap_err().errno(), libc::EINVAL);
}

#[test]
fn the_clock_is_that_of_completions() {
    let context = open();
    let pd = context.protection_domain().unwrap();
    let cq = context.completion_queue_builder(64).timestamps();
    let cq = cq.build().unwrap();
    let build = || pd.datagram(&cq).build(QKEY).unwrap();
    let (a, b) = (build(), build());
    let to = a.address_handle(&b.endpoint()).unwrap();
    let before = context.clock().unwrap();
    let message = SendRequest::send(filled(&pd, b"now"));
    a.post_to(message, &to, b.number(), QKEY).unwrap();
    let time = one(&cq).timestamp().unwrap();
    assert!(before <= time && time <= context.clock().unwrap());
}

#[test]
fn an_event_waits_for_several_completions() {
    let context = open();
    let pd = context.protection_domain().unwrap();
    let channel = context.completion_channel().unwrap();
    let cq = channel.completion_queue(64).unwrap();
    // Far longer than the test takes; the count decides.
    cq.moderate(3, Duration::from_micros(65_535)).unwrap();
    let too_long = Duration::from_micros(65_536);
    assert_eq!(cq.moderate(3, too_long).unwrap_err().errno(), libc::EINVAL);
    let qp = pd.datagram(&cq).build(QKEY).unwrap();
    let to = qp.address_handle(&qp.endpoint()).unwrap();
    cq.request_event().unwrap();
    for _ in 0..3 {
        let message = SendRequest::send(filled(&pd, b"message"));
        qp.post_to(message, &to, qp.number(), QKEY).unwrap();
    }
    assert_eq!(channel.wait().unwrap(), cq);
    take(&cq, 3);
    cq.moderate(1, Duration::ZERO).unwrap();
    cq.request_event().unwrap();
    let message = SendRequest::send(filled(&pd, b"message"));
    qp.post_to(message, &to, qp.number(), QKEY).unwrap();
    assert_eq!(channel.wait().unwrap(), cq);
    take(&cq, 1);
}

#[test]
fn a_device_without_ece_options_refuses_them() {
    let context = open();
    let pd = context.protection_domain().unwrap();
    let cq = context.completion_queue(64).unwrap();
    let ece = Ece {
        vendor_id: 0x15b3,
        options: 1,
    };
    let unsupported = ("ibv_set_ece", libc::EOPNOTSUPP);
    let refused = pd.reliable(&cq).ece(ece).build().unwrap_err();
    assert_eq!((refused.function(), refused.errno()), unsupported);
    let qp = pd.reliable(&cq).build().unwrap();
    for ece in [ece, Ece::default()] {
        let refused = qp.set_ece(ece).unwrap_err();
        assert_eq!((refused.function(), refused.errno()), unsupported);
    }
    let none = qp.ece().unwrap_err();
    assert_eq!(
        (none.function(), none.errno()),
        ("ibv_query_ece", libc::EOPNOTSUPP)
    );
    let at = qp.endpoint();
    let qp = qp.connect(&at).unwrap();
    assert_eq!(qp.ece().unwrap_err().errno(), libc::EOPNOTSUPP);
}

#[test]
fn a_queue_pair_has_the_partition_that_was_chosen() {
    let context = open();
    let key = context.pkey(1, 0).unwrap();
    assert_eq!(key, 0xffff);
    assert_eq!(context.pkey_index(1, key).unwrap(), 0);
    let last = context.port(1).unwrap().pkey_tbl_len;
    let past = context.pkey(1, last).unwrap_err();
    assert_eq!(
        (past.function(), past.errno()),
        ("ibv_query_pkey", libc::EINVAL)
    );
    let none = context.pkey_index(1, 0x1234).unwrap_err();
    assert_eq!(
        (none.function(), none.errno()),
        ("ibv_get_pkey_index", libc::EINVAL)
    );
    let pd = context.protection_domain().unwrap();
    let cq = context.completion_queue(64).unwrap();
    let qp = pd.reliable(&cq).pkey_index(0).build().unwrap();
    let at = qp.endpoint();
    let qp = qp.connect(&at).unwrap();
    assert_eq!(qp.attributes().unwrap().pkey_index, 0);
    let refused = pd.reliable(&cq).pkey_index(last).build().unwrap_err();
    assert_eq!(
        (refused.function(), refused.errno()),
        ("ibv_modify_qp", libc::EINVAL)
    );
}

#[test]
fn a_shared_queue_reports_its_size_and_its_limit() {
    let pd = open().protection_domain().unwrap();
    let queue = pd.shared_receive_queue(20, 2).unwrap();
    let limit = |queue: &verbs::SharedReceiveQueue| queue.attributes().unwrap().srq_limit;
    assert_eq!(limit(&queue), 0);
    let attributes = queue.attributes().unwrap();
    assert!(attributes.max_wr >= 20 && attributes.max_sge >= 2);
    for _ in 0..3 {
        let request = ReceiveRequest::new(pd.buffer(8).unwrap());
        queue.post_receive(request).unwrap();
    }
    queue.arm(2).unwrap();
    assert_eq!(limit(&queue), 2);
}
