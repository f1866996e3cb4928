use super::{Pair, filled, one, open, pair, take};
use verbs::{
    Access, Completion, Operation, PostError, QueuePairBuilder, ReceiveRequest, Reliable,
    SendRequest, State,
};

const QKEY: u32 = 0x1111_2222;

fn batches() -> Pair {
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    pair(access, QueuePairBuilder::<Reliable>::batches)
}

fn ids(done: &[Completion]) -> Vec<u64> {
    done.iter().map(|one| one.id).collect()
}

#[test]
fn all_operations_are_executed_in_their_order() {
    let Pair { pd, queues, ends } = batches();
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let region = pd.memory_region(64, access | Access::WINDOW).unwrap();
    region.write(8, &5_u64.to_ne_bytes()).unwrap();
    let remote = region.remote();
    let at = |range| remote.slice(range).unwrap();
    let window = pd.memory_window_2().unwrap();
    for id in 0..4 {
        let receive = ReceiveRequest::new(pd.buffer(64).unwrap());
        ends[1].post_receive(receive.id(100 + id)).unwrap();
    }
    let buffer = || pd.buffer(8).unwrap();
    let mut batch = ends[0].batch();
    let two = SendRequest::send(filled(&pd, b"two ")).and(filled(&pd, b"pieces"));
    for request in [
        two.id(1),
        SendRequest::send_inline(*b"inline ")
            .and(filled(&pd, b"bytes"))
            .immediate(7)
            .id(2),
        SendRequest::write(filled(&pd, b"written"), at(0..7))
            .unsignaled()
            .id(3),
        SendRequest::write(filled(&pd, b"!"), at(7..8))
            .immediate(8)
            .id(4),
        SendRequest::read(buffer(), at(0..8)).id(5),
        SendRequest::fetch_add(buffer(), at(8..16), 2).id(6),
        SendRequest::compare_swap(buffer(), at(8..16), 7, 9).id(7),
        SendRequest::bind(&window, region.slice(0..8).unwrap(), Access::REMOTE_READ).id(8),
        SendRequest::send_inline(*b"last").id(9).fenced(),
    ] {
        batch.push(request).unwrap();
    }
    assert_eq!(batch.len(), 9);
    assert!(queues[0].poll().unwrap().is_empty());
    batch.post().unwrap();
    let done = take(&queues[0], 9);
    assert_eq!(ids(&done), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(done[7].operation, Operation::Bind);
    let bytes: Vec<Vec<u8>> = done
        .into_iter()
        .map(|one| {
            one.success()
                .unwrap()
                .into_buffer()
                .map_or(Vec::new(), |all| all.to_vec())
        })
        .collect();
    assert_eq!(bytes[4], b"written!");
    assert_eq!(
        (&*bytes[5], &*bytes[6]),
        (&5_u64.to_ne_bytes()[..], &7_u64.to_ne_bytes()[..])
    );
    assert_eq!(region.read_u64(8).unwrap(), 9);
    let received = take(&queues[1], 4);
    assert_eq!(ids(&received), [100, 101, 102, 103]);
    assert_eq!(
        received
            .iter()
            .map(|one| (one.bytes, one.immediate))
            .collect::<Vec<_>>(),
        [(10, None), (12, Some(7)), (8 - 7, Some(8)), (4, None)]
    );

    let rkey = window.remote().unwrap().rkey;
    let mut batch = ends[0].batch();
    batch.push(SendRequest::invalidate(rkey)).unwrap();
    batch.post().unwrap();
    assert_eq!(
        one(&queues[0]).success().unwrap().operation,
        Operation::Invalidate
    );
}

#[test]
fn a_batch_that_does_not_fit_comes_back() {
    let Pair { pd, queues, ends } = batches();
    let send = |id| SendRequest::send(filled(&pd, b"message")).id(id);
    let capacity = ends[0].attributes().unwrap().sends;
    let mut batch = ends[0].batch();
    for id in 0..=u64::from(capacity) {
        batch.push(send(id)).unwrap();
    }
    let refused: PostError<Vec<SendRequest>> = batch.post().unwrap_err();
    assert_eq!(refused.error.errno(), libc::ENOMEM);
    let back = refused.into_request().unwrap();
    assert_eq!(back.len(), usize::try_from(capacity).unwrap() + 1);
    let buffers = back.into_iter().map(|one| one.into_segments().len());
    assert!(buffers.into_iter().all(|count| count == 1));
    // What the device refuses comes back, too: one piece more than is allowed.
    let most = ends[0].attributes().unwrap().send_segments;
    let mut batch = ends[0].batch();
    batch.push(send(1)).unwrap();
    let piece = || filled(&pd, b"piece");
    let many = (0..most).fold(SendRequest::send(piece()), |one, _| one.and(piece()));
    batch.push(many).unwrap();
    let refused = batch.post().unwrap_err();
    assert_eq!(refused.error.errno(), libc::EINVAL);
    let back = refused.into_request().unwrap();
    let pieces = back.into_iter().map(|one| one.into_segments().len());
    let most = usize::try_from(most).unwrap();
    assert_eq!(pieces.collect::<Vec<_>>(), [1, most + 1]);
    assert_eq!(ends[0].attributes().unwrap().state, State::ReadyToSend);
    assert!(queues[0].poll().unwrap().is_empty());
}

#[test]
fn a_refused_batch_leaves_a_window_as_it_was() {
    let Pair { pd, queues, ends } = batches();
    let region = pd.memory_region(64, Access::WINDOW).unwrap();
    let window = pd.memory_window_2().unwrap();
    let bind =
        |range| SendRequest::bind(&window, region.slice(range).unwrap(), Access::REMOTE_READ);
    let mut batch = ends[0].batch();
    batch.push(bind(0..4)).unwrap();
    let long = vec![0; 1 << 20];
    batch.push(SendRequest::send_inline(long)).unwrap();
    assert_eq!(batch.post().unwrap_err().error.errno(), libc::EINVAL);
    assert_eq!(window.remote(), None);
    let mut batch = ends[0].batch();
    batch.push(bind(4..10)).unwrap();
    batch.post().unwrap();
    one(&queues[0]).success().unwrap();
    assert_eq!(window.remote().unwrap().length, 6);
}

#[test]
fn a_batch_that_is_dropped_or_aborted_posts_nothing() {
    let Pair { pd, queues, ends } = batches();
    let mut batch = ends[0].batch();
    batch
        .push(SendRequest::send(filled(&pd, b"never")))
        .unwrap();
    drop(batch);
    let mut batch = ends[0].batch();
    batch
        .push(SendRequest::send(filled(&pd, b"nor this")))
        .unwrap();
    assert_eq!(batch.abort().len(), 1);
    ends[0].batch().post().unwrap();
    ends[0].shut_down().unwrap();
    assert!(queues[0].poll().unwrap().is_empty());
}

#[test]
fn queue_pairs_and_windows_without_batches_are_refused() {
    let Pair { pd, ends, .. } = pair(Access::LOCAL, |one| one);
    let mut batch = ends[0].batch();
    batch
        .push(SendRequest::send(filled(&pd, b"message")))
        .unwrap();
    let refused = batch.post().unwrap_err();
    assert_eq!(refused.error.errno(), libc::EINVAL);
    assert!(
        refused.error.to_string().contains("batches"),
        "{}",
        refused.error
    );
    assert_eq!(refused.into_request().unwrap().len(), 1);

    let region = pd.memory_region(64, Access::WINDOW).unwrap();
    let window = pd.memory_window().unwrap();
    let mut batch = ends[0].batch();
    let bind = SendRequest::bind(&window, region.slice(0..8).unwrap(), Access::REMOTE_READ);
    let refused = batch.push(bind).unwrap_err();
    assert_eq!(refused.error.errno(), libc::EINVAL);
    assert!(batch.is_empty());
}

#[test]
fn datagrams_of_a_batch_have_their_receivers() {
    let context = open();
    let pd = context.protection_domain().unwrap();
    let queues = [(); 3].map(|()| context.completion_queue(64).unwrap());
    let ends = [0, 1, 2].map(|at| {
        let builder = pd.datagram(&queues[at]).inline(8).batches();
        builder.build(QKEY).unwrap()
    });
    let mut batch = ends[0].batch();
    for end in &ends[1..] {
        end.post_receive(ReceiveRequest::new(pd.buffer(64).unwrap()))
            .unwrap();
        let to = ends[0].address_handle(&end.endpoint()).unwrap();
        let message = SendRequest::send_inline(*b"datagram");
        batch.push_to(message, &to, end.number(), QKEY).unwrap();
    }
    let to = ends[0].address_handle(&ends[1].endpoint()).unwrap();
    let write = SendRequest::write(pd.buffer(4).unwrap(), verbs::RemoteMemory::default());
    assert!(batch.push_to(write, &to, 1, 1).is_err());
    batch.post().unwrap();
    take(&queues[0], 2);
    for cq in &queues[1..] {
        let done = one(cq).success().unwrap();
        assert_eq!((done.bytes, done.source), (48, ends[0].number()));
    }
}

#[test]
fn words_are_written_at_once_and_flushed() {
    let access = Access::REMOTE_WRITE | Access::FLUSH_GLOBAL;
    let Pair { pd, queues, ends } = pair(access, |one| one.batches());
    let region = pd.memory_region(4096, access).unwrap();
    let remote = region.remote();
    let word = remote.slice(8..16).unwrap();
    let mut batch = ends[0].batch();
    for request in [
        SendRequest::write(filled(&pd, b"written"), remote),
        SendRequest::flush(remote.slice(0..7).unwrap(), false),
        SendRequest::atomic_write(*b"complete", word),
        SendRequest::flush_region(word, false),
    ] {
        batch.push(request).unwrap();
    }
    batch.post().unwrap();
    let done = take(&queues[0], 4);
    assert!(done.iter().all(|one| one.result.is_ok()));
    let operations: Vec<_> = done.iter().map(|one| one.operation).collect();
    assert_eq!(
        operations,
        [
            Operation::Write,
            Operation::Flush,
            Operation::AtomicWrite,
            Operation::Flush
        ]
    );
    let mut bytes = [0; 16];
    region.read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"written\0complete");

    // Neither has a form beside batches.
    let refused = ends[0].post(SendRequest::flush(remote, false)).unwrap_err();
    assert_eq!(refused.error.errno(), libc::EINVAL);
    let mut batch = ends[0].batch();
    for wrong in [
        SendRequest::atomic_write([0; 8], remote.slice(4..12).unwrap()),
        SendRequest::atomic_write([0; 8], remote.slice(0..4).unwrap()),
        SendRequest::atomic_write([0; 8], word).and(pd.buffer(8).unwrap()),
        SendRequest::flush(remote, false).immediate(1),
    ] {
        let refused = batch.push(wrong).unwrap_err();
        assert_eq!(refused.error.errno(), libc::EINVAL);
        assert!(refused.error.reason().is_some());
    }
    // A region that does not allow it.
    let plain = pd.memory_region(4096, Access::REMOTE_WRITE).unwrap();
    let flush = SendRequest::flush(plain.remote(), false);
    batch.push(flush).unwrap();
    batch.post().unwrap();
    assert!(one(&queues[0]).result.is_err());
    let persistent = pd.memory_region(4096, Access::FLUSH_PERSISTENT);
    assert_eq!(persistent.unwrap_err().errno(), libc::EINVAL);
}
