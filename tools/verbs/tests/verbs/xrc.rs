use super::{filled, one, open, take};
use verbs::{
    Access, CompletionQueue, Operation, ProtectionDomain, QueuePair, ReceiveRequest, SendRequest,
    XrcDomain, XrcInitiator, XrcReceiveQueue, XrcTarget,
};

struct Ends {
    pd: ProtectionDomain,
    sent: CompletionQueue,
    received: [CompletionQueue; 2],
    initiator: QueuePair<XrcInitiator>,
    queues: [XrcReceiveQueue; 2],
    target: XrcTarget,
    domain: XrcDomain,
}

fn ends() -> Ends {
    let context = open();
    let pd = context.protection_domain().unwrap();
    let sent = context.completion_queue(64).unwrap();
    let received = [(); 2].map(|()| context.completion_queue(64).unwrap());
    let domain = context.xrc_domain().unwrap();
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let target = domain.target(access).unwrap();
    let queues = [0, 1].map(|at| domain.receive_queue(&pd, &received[at], 16, 1).unwrap());
    let builder = pd.xrc_initiator(&sent).inline(16).retries(3).batches();
    let initiator = builder.build().unwrap();
    target.connect(&initiator.endpoint()).unwrap();
    let initiator = initiator.connect(&target.endpoint()).unwrap();
    Ends {
        pd,
        sent,
        received,
        initiator,
        queues,
        target,
        domain,
    }
}

#[test]
fn a_message_comes_to_the_receive_queue_that_it_names() {
    let ends = ends();
    for (id, queue) in (1..).zip(&ends.queues) {
        let receive = ReceiveRequest::new(ends.pd.buffer(16).unwrap());
        queue.post_receive(receive.id(id)).unwrap();
    }
    for (queue, text) in ends.queues.iter().zip([b"first.", b"second"]) {
        let message = SendRequest::send(filled(&ends.pd, text));
        ends.initiator
            .post(message.receive_queue(queue.number()))
            .unwrap();
    }
    take(&ends.sent, 2);
    for (id, (cq, text)) in (1..).zip(ends.received.iter().zip([b"first.", b"second"])) {
        let done = one(cq).success().unwrap();
        assert_eq!((done.id, done.bytes), (id, 6));
        assert_eq!(&done.into_buffer().unwrap()[..6], text);
    }
}

#[test]
fn rdma_and_batches_of_xrc() {
    let ends = ends();
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let region = ends.pd.memory_region(64, access).unwrap();
    let remote = region.remote();
    ends.queues[1]
        .post_receive(ReceiveRequest::empty().id(4))
        .unwrap();
    let buffer = || ends.pd.buffer(8).unwrap();
    let at = |range| remote.slice(range).unwrap();
    let mut batch = ends.initiator.batch();
    let number = ends.queues[1].number();
    for request in [
        SendRequest::write(filled(&ends.pd, b"written"), at(0..7)),
        SendRequest::write_inline(*b"!", at(7..8)).immediate(3),
        SendRequest::read(buffer(), at(0..8)),
        SendRequest::fetch_add(buffer(), at(8..16), 2),
    ] {
        batch.push(request.receive_queue(number)).unwrap();
    }
    batch.post().unwrap();
    let done = take(&ends.sent, 4);
    assert!(done.iter().all(|one| one.result.is_ok()), "{done:?}");
    let read = done.into_iter().nth(2).unwrap().into_buffer().unwrap();
    assert_eq!(&*read, b"written!");
    assert_eq!(region.read_u64(8).unwrap(), 2);
    let done = one(&ends.received[1]).success().unwrap();
    assert_eq!((done.id, done.operation), (4, Operation::ReceiveWrite));
    assert_eq!((done.bytes, done.immediate), (1, Some(3)));
}

#[test]
fn requests_that_xrc_does_not_have_are_refused() {
    let ends = ends();
    let message = || SendRequest::send(filled(&ends.pd, b"message"));
    let refused = ends.initiator.post(message()).unwrap_err();
    assert_eq!(refused.error.errno(), libc::EINVAL);
    assert!(refused.into_request().is_some());
    let receive = ReceiveRequest::new(ends.pd.buffer(8).unwrap());
    assert!(ends.initiator.post_receive(receive).is_err());
    let context = ends.pd.context();
    let cq = context.completion_queue(64).unwrap();
    let srq = ends.pd.shared_receive_queue(16, 1).unwrap();
    let builder = ends.pd.xrc_initiator(&cq).shared_receives(&srq);
    assert_eq!(builder.build().unwrap_err().errno(), libc::EINVAL);
    let (a, b) = (
        ends.pd.reliable(&cq).build().unwrap(),
        ends.pd.reliable(&cq).build().unwrap(),
    );
    let a = a.connect(&b.endpoint()).unwrap();
    let refused = a.post(message().receive_queue(1)).unwrap_err();
    assert_eq!(refused.error.errno(), libc::EINVAL);

    let domain = context.xrc_domain().unwrap();
    let [foreign, own] = [open(), context.clone()].map(|one| one.completion_queue(8).unwrap());
    let refused = domain.receive_queue(&ends.pd, &foreign, 4, 1).unwrap_err();
    assert_eq!(refused.errno(), libc::EINVAL);
    let refused = domain.receive_queue(&ends.pd, &own, 4000, 1).unwrap_err();
    assert_eq!(refused.errno(), libc::ENOSPC);
}

#[test]
fn the_domain_of_a_file_is_one_for_all_who_open_it() {
    use std::os::fd::AsFd;
    let context = open();
    let path = std::env::temp_dir().join(format!("verbs-xrc-{}", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    let [one, other] = [(); 2].map(|()| context.xrc_domain_of(file.as_fd()).unwrap());
    std::fs::remove_file(path).unwrap();
    let pd = context.protection_domain().unwrap();
    let (sent, received) = (
        context.completion_queue(64).unwrap(),
        context.completion_queue(64).unwrap(),
    );
    // The queue pair belongs to one, the receive queue to the other.
    let target = one.target(Access::LOCAL).unwrap();
    let queue = other.receive_queue(&pd, &received, 4, 1).unwrap();
    drop((one, other));
    queue
        .post_receive(ReceiveRequest::new(pd.buffer(8).unwrap()))
        .unwrap();
    let initiator = pd.xrc_initiator(&sent).build().unwrap();
    target.connect(&initiator.endpoint()).unwrap();
    let initiator = initiator.connect(&target.endpoint()).unwrap();
    let message = SendRequest::send(filled(&pd, b"shared"));
    initiator
        .post(message.receive_queue(queue.number()))
        .unwrap();
    assert_eq!(super::one(&received).success().unwrap().bytes, 6);
    super::one(&sent).success().unwrap();
}

#[test]
fn a_target_receives_as_long_as_it_is_open() {
    let ends = ends();
    let number = ends.target.endpoint().number;
    let opened = ends.domain.open_target(number).unwrap();
    assert_eq!(opened.number(), number);
    let [queue, _] = &ends.queues;
    let send = || {
        let receive = ReceiveRequest::new(ends.pd.buffer(16).unwrap());
        queue.post_receive(receive).unwrap();
        let message = SendRequest::send(filled(&ends.pd, b"message"));
        let message = message.receive_queue(queue.number());
        ends.initiator.post(message).unwrap();
        one(&ends.sent).result
    };
    drop(ends.target);
    send().unwrap();
    assert_eq!(one(&ends.received[0]).success().unwrap().bytes, 7);
    drop(opened);
    assert!(send().is_err());
    let none = ends.domain.open_target(number).unwrap_err();
    assert_eq!(none.function(), "ibv_open_qp");
    assert_eq!(none.errno(), libc::EINVAL);
}
