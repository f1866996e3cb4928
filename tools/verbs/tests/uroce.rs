//! The crate over uroce on the loopback interface, in one process. With the feature `system` the
//! library may be one without uroce, and nothing is tested.

#![cfg(not(feature = "system"))]
#![allow(clippy::unwrap_used)] // a test that cannot continue ends

use std::{
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use verbs::{
    Access, Buffer, Completion, CompletionQueue, Context, Datagram, Device, Operation, PostError,
    ProtectionDomain, QueuePair, ReceiveRequest, Reliable, Segment, SendRequest, abi,
};

fn open() -> Context {
    verbs::use_uroce("lo");
    Device::find("uroce_lo").unwrap().open().unwrap()
}

/// Two connected queue pairs, each with a completion queue.
struct Pair {
    pd: ProtectionDomain,
    queues: [CompletionQueue; 2],
    ends: [QueuePair<Reliable>; 2],
}

fn pair(access: Access) -> Pair {
    let context = open();
    let pd = context.protection_domain().unwrap();
    let queues = [(); 2].map(|()| context.completion_queue(64).unwrap());
    let build = |cq| {
        let builder = pd.reliable(cq).access(access).segments(2).inline(32);
        builder.build().unwrap()
    };
    let [a, b] = [build(&queues[0]), build(&queues[1])];
    let (at_a, at_b) = (a.endpoint(), b.endpoint());
    let ends = [a.connect(&at_b).unwrap(), b.connect(&at_a).unwrap()];
    Pair { pd, queues, ends }
}

fn filled(pd: &ProtectionDomain, bytes: &[u8]) -> Buffer {
    let mut buffer = pd.buffer(bytes.len()).unwrap();
    buffer.copy_from_slice(bytes);
    buffer
}

/// The next completions, that many.
fn take(cq: &CompletionQueue, count: usize) -> Vec<Completion> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(cq.wait().unwrap());
    }
    assert_eq!(all.len(), count);
    all
}

fn one(cq: &CompletionQueue) -> Completion {
    take(cq, 1).remove(0)
}

#[test]
fn a_message_arrives_and_both_buffers_come_back() {
    let Pair { pd, queues, ends } = pair(Access::LOCAL);
    let empty = pd.buffer(64).unwrap();
    let (sent, room) = (filled(&pd, b"a message"), empty.as_ptr());
    let place = sent.as_ptr();
    ends[1]
        .post_receive(ReceiveRequest::new(empty).id(7))
        .unwrap();
    ends[0]
        .post(SendRequest::send(sent).id(3).immediate(0x0102_0304))
        .unwrap();

    let done = one(&queues[0]);
    assert_eq!((done.id, done.operation), (3, Operation::Send));
    assert_eq!((done.result, done.queue_pair), (Ok(()), ends[0].number()));
    assert_eq!(done.into_buffer().unwrap().as_ptr(), place);

    let done = one(&queues[1]).success().unwrap();
    assert_eq!((done.id, done.operation), (7, Operation::Receive));
    assert_eq!((done.bytes, done.immediate), (9, Some(0x0102_0304)));
    let buffer = done.into_buffer().unwrap();
    assert_eq!(buffer.as_ptr(), room);
    assert_eq!(&buffer[..10], b"a message\0");
}

#[test]
fn a_peer_writes_and_reads_a_region() {
    let Pair { pd, queues, ends } = pair(Access::REMOTE_WRITE | Access::REMOTE_READ);
    let access = Access::REMOTE_WRITE | Access::REMOTE_READ;
    let region = pd.memory_region(4096, access).unwrap();
    let remote = region.remote();
    let at = |range| remote.slice(range).unwrap();

    ends[0]
        .post(SendRequest::write(filled(&pd, b"written"), at(100..200)))
        .unwrap();
    ends[0]
        .post(SendRequest::write_inline(*b"inline", at(200..300)))
        .unwrap();
    assert_eq!(
        take(&queues[0], 2)
            .iter()
            .filter(|one| one.result.is_ok())
            .count(),
        2
    );
    let mut bytes = [0; 108];
    region.read(99, &mut bytes).unwrap();
    assert_eq!(&bytes[..9], b"\0written\0");
    assert_eq!(&bytes[100..], b"\0inline\0");

    region.write(3000, b"to be read").unwrap();
    let into = pd.buffer(10).unwrap();
    ends[0]
        .post(SendRequest::read(into, at(3000..3010)))
        .unwrap();
    let done = one(&queues[0]).success().unwrap();
    assert_eq!(done.operation, Operation::Read);
    assert_eq!(&*done.into_buffer().unwrap(), b"to be read");

    ends[1].post_receive(ReceiveRequest::empty().id(5)).unwrap();
    let gathered = SendRequest::write(filled(&pd, b"two "), at(0..8));
    let gathered = gathered.and(filled(&pd, b"part")).immediate(9).id(1);
    ends[0].post(gathered).unwrap();
    let done = one(&queues[1]).success().unwrap();
    assert_eq!((done.id, done.operation), (5, Operation::ReceiveWrite));
    assert_eq!((done.bytes, done.immediate), (8, Some(9)));
    region.read(0, &mut bytes[..8]).unwrap();
    assert_eq!(&bytes[..8], b"two part");
    assert_eq!(one(&queues[0]).into_segments().len(), 2);
}

#[test]
fn atomic_operations_return_the_former_value() {
    let Pair { pd, queues, ends } = pair(Access::REMOTE_ATOMIC);
    let region = pd.memory_region(16, Access::REMOTE_ATOMIC).unwrap();
    region.write(8, &40_u64.to_ne_bytes()).unwrap();
    let remote = region.remote().slice(8..16).unwrap();
    let value = |done: Completion| {
        let bytes = done.success().unwrap().into_buffer().unwrap();
        u64::from_ne_bytes((&*bytes).try_into().unwrap())
    };
    let buffer = || pd.buffer(8).unwrap();
    ends[0]
        .post(SendRequest::fetch_add(buffer(), remote, 2))
        .unwrap();
    assert_eq!(value(one(&queues[0])), 40);
    ends[0]
        .post(SendRequest::compare_swap(buffer(), remote, 1, 2))
        .unwrap();
    assert_eq!(value(one(&queues[0])), 42);
    ends[0]
        .post(SendRequest::compare_swap(buffer(), remote, 42, 7))
        .unwrap();
    assert_eq!(value(one(&queues[0])), 42);
    assert_eq!(region.read_u64(8).unwrap(), 7);
    assert_eq!(region.read_u64(0).unwrap(), 0);
}

#[test]
fn unsignaled_requests_complete_with_the_next_signaled_one() {
    let Pair { pd, queues, ends } = pair(Access::LOCAL);
    for id in 0..3 {
        ends[1]
            .post_receive(ReceiveRequest::new(pd.buffer(8).unwrap()).id(id))
            .unwrap();
    }
    for id in 0..3 {
        let request = SendRequest::send(filled(&pd, &[1; 8])).id(id);
        let request = if id < 2 {
            request.unsignaled()
        } else {
            request
        };
        ends[0].post(request).unwrap();
    }
    let done = take(&queues[0], 3);
    assert_eq!(done.iter().map(|one| one.id).collect::<Vec<_>>(), [0, 1, 2]);
    for completion in done {
        assert_eq!(completion.into_buffer().unwrap().len(), 8);
    }
    assert_eq!(take(&queues[1], 3).len(), 3);
}

#[test]
fn a_shut_down_queue_pair_returns_what_waits() {
    let Pair { pd, queues, ends } = pair(Access::LOCAL);
    ends[0]
        .post_receive(ReceiveRequest::new(pd.buffer(16).unwrap()).id(4))
        .unwrap();
    ends[0].shut_down().unwrap();
    let done = one(&queues[0]);
    assert_eq!(done.id, 4);
    assert!(done.result.unwrap_err().is_flushed());
    assert_eq!(done.into_buffer().unwrap().len(), 16);
}

#[test]
fn a_request_after_the_shutdown_returns_unsignaled_ones() {
    let Pair { pd, queues, ends } = pair(Access::LOCAL);
    ends[1]
        .post_receive(ReceiveRequest::new(pd.buffer(8).unwrap()))
        .unwrap();
    let message = SendRequest::send(filled(&pd, b"unsigned"));
    ends[0].post(message.unsignaled().id(1)).unwrap();
    one(&queues[1]).success().unwrap();
    ends[0].shut_down().unwrap();
    ends[0]
        .post(SendRequest::send_inline(*b"last").id(2))
        .unwrap();
    let done = take(&queues[0], 2);
    assert_eq!(done.iter().map(|one| one.id).collect::<Vec<_>>(), [1, 2]);
    assert!(done[1].result.unwrap_err().is_flushed());
}

#[test]
fn objects_of_another_open_device_are_refused() {
    let [one, other] = [open(), open()];
    let pd = one.protection_domain().unwrap();
    let [own, foreign] = [&one, &other].map(|one| one.completion_queue(64).unwrap());
    let shared = [&one, &other].map(|context| {
        let domain = context.protection_domain().unwrap();
        domain.shared_receive_queue(16, 1).unwrap()
    });
    for (builder, reason) in [
        (pd.reliable(&foreign), "another open device"),
        (
            pd.reliable(&own).receive_completions(&foreign),
            "another open device",
        ),
        (
            pd.reliable(&own).shared_receives(&shared[0]),
            "another protection domain",
        ),
        (
            pd.reliable(&own).shared_receives(&shared[1]),
            "another protection domain",
        ),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!(error.errno(), libc::EINVAL);
        assert!(error.to_string().ends_with(reason), "{error}");
    }
    let datagram = pd.datagram(&foreign).build(QKEY).unwrap_err();
    assert_eq!(datagram.errno(), libc::EINVAL);
    assert!(pd.reliable(&own).build().is_ok());
}

#[test]
fn a_completion_queue_has_room_for_its_queue_pairs() {
    let context = open();
    let pd = context.protection_domain().unwrap();
    let [cq, other] = [20, 1000].map(|size| context.completion_queue(size).unwrap());
    let refused = pd.reliable(&cq).sends(1000).build().unwrap_err();
    assert_eq!(
        (refused.function(), refused.errno()),
        ("ibv_create_qp", libc::ENOSPC)
    );
    assert!(refused.to_string().contains("fewer entries"), "{refused}");
    let refused = pd.reliable(&other).receive_completions(&cq).receives(1000);
    assert_eq!(refused.build().unwrap_err().errno(), libc::ENOSPC);

    // Queue pairs until it is full; one that is dropped makes room.
    let small = || pd.reliable(&cq).sends(8).receives(8).build();
    let mut pairs = Vec::new();
    let refused = loop {
        match small() {
            Ok(pair) => pairs.push(pair),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.errno(), libc::ENOSPC);
    assert!(!pairs.is_empty());
    pairs.pop();
    pairs.push(small().unwrap());

    // A shared receive queue counts once.
    let cq = context.completion_queue(120).unwrap();
    let builder = || pd.reliable(&cq).sends(8);
    let srq = pd.shared_receive_queue(100, 1).unwrap();
    let two = [(); 2].map(|()| builder().shared_receives(&srq).build().unwrap());
    let more = pd.shared_receive_queue(1000, 1).unwrap();
    let refused = builder().shared_receives(&more).build().unwrap_err();
    assert_eq!(refused.errno(), libc::ENOSPC);
    drop(two);
}

#[test]
fn inline_bytes_are_in_front_of_further_memory() {
    let Pair { pd, queues, ends } = pair(Access::LOCAL);
    ends[1]
        .post_receive(ReceiveRequest::new(pd.buffer(64).unwrap()))
        .unwrap();
    let request = SendRequest::send_inline(*b"head ").and(filled(&pd, b"body"));
    ends[0].post(request).unwrap();
    let done = one(&queues[1]).success().unwrap();
    assert_eq!(done.bytes, 9);
    assert_eq!(&done.into_buffer().unwrap()[..9], b"head body");
}

#[test]
fn operations_that_a_queue_pair_does_not_have_are_refused() {
    let context = open();
    let pd = context.protection_domain().unwrap();
    let cq = context.completion_queue(128).unwrap();
    let access = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    let remote = pd.memory_region(64, access).unwrap().remote();
    let buffer = |length| pd.buffer(length).unwrap();
    let at = |range| remote.slice(range).unwrap();
    let invalid = |refused: PostError<SendRequest>| {
        assert_eq!(refused.error.errno(), libc::EINVAL);
        assert!(refused.error.reason().is_some());
        assert_eq!(refused.into_request().unwrap().into_segments().len(), 1);
    };

    let (a, b) = (
        pd.unreliable(&cq).build().unwrap(),
        pd.unreliable(&cq).build().unwrap(),
    );
    let (at_a, at_b) = (a.endpoint(), b.endpoint());
    let (a, _b) = (a.connect(&at_b).unwrap(), b.connect(&at_a).unwrap());
    invalid(a.post(SendRequest::read(buffer(8), remote)).unwrap_err());
    let add = SendRequest::fetch_add(buffer(8), at(0..8), 1);
    invalid(a.post(add).unwrap_err());

    let (_, _, sender) = datagrams(&context);
    let to = sender.endpoint();
    let address = sender.address_handle(&to).unwrap();
    for request in [
        SendRequest::write(buffer(8), remote),
        SendRequest::read(buffer(8), remote),
        SendRequest::compare_swap(buffer(8), at(0..8), 0, 1),
    ] {
        let refused = sender.post_to(request, &address, to.number, to.qkey);
        invalid(refused.unwrap_err());
    }

    let Pair { pd, ends, .. } = pair(access);
    let buffer = |length| pd.buffer(length).unwrap();
    for request in [
        SendRequest::fetch_add(buffer(4), at(0..8), 1),
        SendRequest::fetch_add(buffer(8), at(4..12), 1),
        SendRequest::compare_swap(buffer(16), at(0..16), 0, 1),
        SendRequest::read(buffer(8), remote).immediate(1),
    ] {
        invalid(ends[0].post(request).unwrap_err());
    }
}

#[test]
fn a_failed_unsignaled_request_is_not_reported_as_done() {
    const ROUNDS: usize = 100;
    for _ in 0..ROUNDS {
        let Pair { pd, queues, ends } = pair(Access::LOCAL);
        let remote = pd.memory_region(8, Access::REMOTE_READ).unwrap().remote();
        // The peer refuses the first write; the others are flushed.
        let mut requests = Vec::new();
        for id in 0..8 {
            let request = SendRequest::write(filled(&pd, &[1; 8]), remote).id(id);
            let last = id == 7;
            requests.push(if last { request } else { request.unsignaled() });
        }
        let left = AtomicUsize::new(requests.len());
        let poll = || {
            let mut done = Vec::new();
            while left.load(Ordering::Relaxed) > 0 {
                for completion in queues[0].poll().unwrap() {
                    left.fetch_sub(1, Ordering::Relaxed);
                    done.push((completion.id, completion.result));
                }
                thread::yield_now();
            }
            done
        };
        let done = thread::scope(|scope| {
            let pollers = [(); 2].map(|()| scope.spawn(poll));
            for request in requests {
                ends[0].post(request).unwrap();
            }
            pollers.map(|poller| poller.join().unwrap()).concat()
        });
        assert!(done.iter().all(|(_, result)| result.is_err()), "{done:?}");
    }
}

#[cfg(feature = "tokio")]
#[test]
fn an_asynchronous_queue_needs_a_runtime() {
    let context = open();
    let error = verbs::AsyncCompletionQueue::new(&context, 16).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Other);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    let _within = runtime.enter();
    verbs::AsyncCompletionQueue::new(&context, 16).unwrap();
}

#[test]
fn a_refused_request_comes_back() {
    let Pair { pd, ends, .. } = pair(Access::REMOTE_WRITE);
    let region = pd.memory_region(8, Access::REMOTE_WRITE).unwrap();
    let buffer = || Segment::from(pd.buffer(9).unwrap());
    let long = SendRequest::write(buffer(), region.remote());
    let refused = ends[0].post(long).unwrap_err();
    assert_eq!(refused.error.function(), "ibv_post_send");
    assert_eq!(refused.error.errno(), libc::EINVAL);
    assert!(refused.error.to_string().contains("memory is shorter"));
    assert_eq!(refused.into_request().unwrap().into_segments().len(), 1);

    // More than the device has room for, whatever was asked for.
    let many = (1..40).fold(SendRequest::send(buffer()), |many, _| many.and(buffer()));
    let refused = ends[0].post(many).unwrap_err();
    assert_eq!(refused.into_request().unwrap().into_segments().len(), 40);

    let other = open().protection_domain().unwrap();
    let foreign = ReceiveRequest::new(other.buffer(8).unwrap());
    let refused = ends[0].post_receive(foreign).unwrap_err();
    assert_eq!(refused.error.errno(), libc::EINVAL);
    let request = refused.into_request().unwrap();
    assert_eq!(request.into_segments()[0].len(), 8);
}

#[test]
fn a_full_queue_refuses_and_continues() {
    let Pair { pd, queues, ends } = pair(Access::LOCAL);
    let mut buffers = pd.buffer(64 * 8).unwrap().chunks_of(8);
    let mut posted = 0;
    let refused = loop {
        let request = ReceiveRequest::new(buffers.pop().unwrap()).id(posted);
        match ends[1].post_receive(request) {
            Ok(()) => posted += 1,
            Err(refused) => break refused,
        }
    };
    assert!(posted >= 16);
    assert_eq!(refused.error.errno(), libc::ENOMEM);
    for _ in 0..posted {
        ends[0].post(SendRequest::send_inline(*b"next")).unwrap();
        one(&queues[0]).success().unwrap();
        buffers.push(one(&queues[1]).success().unwrap().into_buffer().unwrap());
    }
    ends[1]
        .post_receive(refused.into_request().unwrap())
        .unwrap();
}

#[test]
fn access_that_a_region_does_not_give_is_an_error() {
    let Pair { pd, queues, ends } = pair(Access::REMOTE_WRITE);
    let region = pd.memory_region(8, Access::REMOTE_READ).unwrap();
    ends[0]
        .post(SendRequest::write(filled(&pd, &[1; 8]), region.remote()))
        .unwrap();
    let done = one(&queues[0]);
    let error = done.result.unwrap_err();
    assert_eq!(error.status, abi::IBV_WC_REM_ACCESS_ERR);
    assert_eq!(error.to_string(), "remote access error");
    assert_eq!(region.read_u64(0).unwrap(), 0);
    assert!(done.success().is_err());
}

const QKEY: u32 = 0x1111_1111;

fn datagrams(context: &Context) -> (ProtectionDomain, CompletionQueue, QueuePair<Datagram>) {
    let pd = context.protection_domain().unwrap();
    let cq = context.completion_queue(32).unwrap();
    let qp = pd.datagram(&cq).build(QKEY).unwrap();
    (pd, cq, qp)
}

#[test]
fn a_datagram_arrives_behind_its_header() {
    let context = open();
    let (pd, _, sender) = datagrams(&context);
    let (room, cq, receiver) = datagrams(&context);
    receiver
        .post_receive(ReceiveRequest::new(room.buffer(64).unwrap()))
        .unwrap();
    let to = receiver.endpoint();
    let address = sender.address_handle(&to).unwrap();
    let message = SendRequest::send(filled(&pd, b"datagram"));
    sender
        .post_to(message, &address, to.number, to.qkey)
        .unwrap();
    // The request keeps the handle.
    drop(address);
    let done = one(&cq).success().unwrap();
    assert_eq!((done.bytes, done.source), (48, sender.number()));
    assert!(done.has_grh);
    assert_eq!(&done.into_buffer().unwrap()[40..48], b"datagram");
}

#[test]
fn a_member_of_a_group_can_be_dropped() {
    const GROUP: [u8; 16] = [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3];
    let context = open();
    let (_, _, member) = datagrams(&context);
    member.join(GROUP).unwrap();
    member.join(GROUP).unwrap();
    member.leave(GROUP).unwrap();
    assert!(member.leave(GROUP).is_err());
    member.join(GROUP).unwrap();
}

#[test]
fn queue_pairs_share_receive_requests() {
    let context = open();
    let pd = context.protection_domain().unwrap();
    let cq = context.completion_queue(128).unwrap();
    let srq = pd.shared_receive_queue(16, 1).unwrap();
    let pairs = [(); 2].map(|()| {
        let a = pd.reliable(&cq).inline(8).build().unwrap();
        let b = pd.reliable(&cq).shared_receives(&srq).build().unwrap();
        let (at_a, at_b) = (a.endpoint(), b.endpoint());
        (a.connect(&at_b).unwrap(), b.connect(&at_a).unwrap())
    });
    let own = ReceiveRequest::empty();
    assert_eq!(
        pairs[0].1.post_receive(own).unwrap_err().error.errno(),
        libc::EINVAL
    );
    for id in 10..12 {
        let request = ReceiveRequest::new(pd.buffer(8).unwrap()).id(id);
        srq.post_receive(request).unwrap();
    }
    for (number, (a, _)) in (0_u8..).zip(&pairs) {
        a.post(SendRequest::send_inline([number; 8]).id(1)).unwrap();
    }
    let mut received = Vec::new();
    for completion in take(&cq, 4) {
        let completion = completion.success().unwrap();
        let (id, number) = (completion.id, completion.queue_pair);
        if let Some(buffer) = completion.into_buffer() {
            let from = pairs
                .iter()
                .position(|(_, b)| b.number() == number)
                .unwrap();
            assert_eq!(usize::from(buffer[7]), from);
            received.push(id);
        }
    }
    received.sort_unstable();
    assert_eq!(received, [10, 11]);
}

#[test]
fn objects_are_dropped_in_any_order_with_requests_in_flight() {
    for order in 0..4 {
        let Pair { pd, queues, ends } = pair(Access::LOCAL);
        let [a, b] = ends;
        for id in 0..8 {
            b.post_receive(ReceiveRequest::new(pd.buffer(8).unwrap()).id(id))
                .unwrap();
        }
        for _ in 0..4 {
            a.post(SendRequest::send(pd.buffer(8).unwrap())).unwrap();
        }
        match order {
            0 => drop((pd, queues, a, b)),
            1 => drop((b, a, queues, pd)),
            2 => {
                drop(a);
                // Completions of a destroyed queue pair are nobody's.
                let rest = queues[0].poll().unwrap();
                assert!(rest.is_empty(), "{rest:?}");
                drop((queues, b, pd));
            }
            _ => {
                let done = take(&queues[0], 4);
                drop((pd, queues, a, b));
                // Buffers outlive all else.
                let buffers = done.into_iter().filter_map(Completion::into_buffer);
                assert_eq!(buffers.map(|buffer| buffer.len()).sum::<usize>(), 32);
            }
        }
    }
}

#[test]
fn a_channel_names_the_queue_that_has_completions() {
    let context = open();
    let pd = context.protection_domain().unwrap();
    let channel = context.completion_channel().unwrap();
    let queues = [(); 2].map(|()| channel.completion_queue(32).unwrap());
    let a = pd.reliable(&queues[0]).inline(8).build().unwrap();
    let b = pd.reliable(&queues[1]).build().unwrap();
    let (at_a, at_b) = (a.endpoint(), b.endpoint());
    b.post_receive(ReceiveRequest::new(pd.buffer(8).unwrap()))
        .unwrap();
    let (a, _b) = (a.connect(&at_b).unwrap(), b.connect(&at_a).unwrap());
    queues[1].request_event().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| channel.wait().unwrap());
        a.post(SendRequest::send_inline(*b"an event")).unwrap();
        let queue = waiting.join().unwrap();
        assert!(queue == queues[1]);
        assert_eq!(&*one(&queue).into_buffer().unwrap(), b"an event");
    });
}

#[test]
fn threads_post_to_one_queue_pair_while_others_poll() {
    const EACH: u64 = 200;
    const ALL: usize = 400;
    let Pair { pd, queues, ends } = pair(Access::LOCAL);
    let start = Barrier::new(3);
    for chunk in pd.buffer(16 * 8).unwrap().chunks_of(8) {
        ends[1].post_receive(ReceiveRequest::new(chunk)).unwrap();
    }
    let mut ids = thread::scope(|scope| {
        for thread in 0..2 {
            let (pd, end, start) = (&pd, &ends[0], &start);
            scope.spawn(move || {
                start.wait();
                for number in 0..EACH {
                    let bytes = (thread * EACH + number).to_ne_bytes();
                    let mut request = SendRequest::send(filled(pd, &bytes)).id(number);
                    while let Err(full) = end.post(request) {
                        assert_eq!(full.error.errno(), libc::ENOMEM);
                        request = full.into_request().unwrap();
                        thread::yield_now();
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut done = 0;
            while done < ALL {
                for completion in queues[0].wait().unwrap() {
                    assert_eq!(
                        completion.success().unwrap().into_buffer().unwrap().len(),
                        8
                    );
                    done += 1;
                }
            }
        });
        start.wait();
        let mut ids = Vec::new();
        while ids.len() < ALL {
            for completion in queues[1].wait().unwrap() {
                let buffer = completion.success().unwrap().into_buffer().unwrap();
                ids.push(u64::from_ne_bytes((&*buffer).try_into().unwrap()));
                ends[1].post_receive(ReceiveRequest::new(buffer)).unwrap();
            }
        }
        ids
    });
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..2 * EACH));
}

#[test]
fn all_types_cross_threads() {
    fn crosses<T: Send + Sync>() {}
    crosses::<Device>();
    crosses::<Context>();
    crosses::<ProtectionDomain>();
    crosses::<Buffer>();
    crosses::<verbs::MemoryRegion>();
    crosses::<CompletionQueue>();
    crosses::<verbs::CompletionChannel>();
    crosses::<Completion>();
    crosses::<QueuePair<Reliable>>();
    crosses::<verbs::UnconnectedQueuePair<Reliable>>();
    crosses::<verbs::SharedReceiveQueue>();
    crosses::<verbs::AddressHandle>();
    crosses::<SendRequest>();
}

#[test]
fn buffers_are_cut_and_joined() {
    let pd = open().protection_domain().unwrap();
    let mut front = filled(&pd, b"0123456789");
    let mut back = front.split_off(4);
    assert_eq!((&*front, &*back), (&b"0123"[..], &b"456789"[..]));
    let end = back.split_off(100);
    assert!(end.is_empty());
    let end = front.append(end).unwrap_err();
    back.append(end).unwrap();
    front.append(back).unwrap();
    assert_eq!(&*front, b"0123456789");
    let lengths: Vec<_> = front.chunks_of(4).iter().map(|chunk| chunk.len()).collect();
    assert_eq!(lengths, [4, 4, 2]);
}

#[test]
fn completions_of_extended_queues_have_times_and_all_else() {
    let context = open();
    let pd = context.protection_domain().unwrap();
    let channel = context.completion_channel().unwrap();
    let plain = context.completion_queue(64).unwrap();
    let builder = context.completion_queue_builder(64).channel(&channel);
    let cq = builder.timestamps().wall_clock().build().unwrap();
    let (a, b) = (
        pd.reliable(&plain).build().unwrap(),
        pd.reliable(&cq).build().unwrap(),
    );
    let (at_a, at_b) = (a.endpoint(), b.endpoint());
    let (a, b) = (a.connect(&at_b).unwrap(), b.connect(&at_a).unwrap());
    let before = std::time::SystemTime::now();
    cq.request_event().unwrap();
    for id in 0..3 {
        b.post_receive(ReceiveRequest::new(pd.buffer(16).unwrap()).id(id))
            .unwrap();
        a.post(SendRequest::send(filled(&pd, b"in time")).immediate(7))
            .unwrap();
    }
    assert!(channel.wait().unwrap() == cq);
    let done = take(&cq, 3);
    for (completion, id) in done.into_iter().zip(0..) {
        assert_eq!(
            (completion.id, completion.operation),
            (id, Operation::Receive)
        );
        assert_eq!((completion.bytes, completion.immediate), (7, Some(7)));
        assert_eq!(completion.queue_pair, b.number());
        assert!(completion.timestamp().is_some());
        assert!(completion.wall_clock().unwrap() >= before);
        assert_eq!(&completion.into_buffer().unwrap()[..7], b"in time");
    }
    for completion in take(&plain, 3) {
        assert!(completion.timestamp().is_none() && completion.wall_clock().is_none());
    }
    b.post_receive(ReceiveRequest::new(pd.buffer(16).unwrap()).id(9))
        .unwrap();
    b.shut_down().unwrap();
    let flushed = one(&cq);
    assert!(flushed.result.unwrap_err().is_flushed());
    assert_eq!((flushed.id, flushed.timestamp()), (9, None));

    let other = open();
    let foreign = other.completion_queue_builder(64).channel(&channel);
    assert_eq!(foreign.build().unwrap_err().errno(), libc::EINVAL);
}

#[test]
fn a_device_has_extended_attributes_and_gids() {
    let context = open();
    let attr = context.extended_attributes().unwrap();
    assert_eq!(attr.orig_attr.max_qp, context.attributes().unwrap().max_qp);
    let index = context.gid_index(1).unwrap();
    let gids = context.gids().unwrap();
    let entry = gids
        .iter()
        .find(|entry| entry.gid_index == u32::from(index))
        .unwrap();
    assert_eq!(
        (entry.port_num, entry.gid_type),
        (1, abi::IBV_GID_TYPE_ROCE_V2)
    );
    assert_eq!(entry.gid.bytes(), context.gid(1, index).unwrap());
}
