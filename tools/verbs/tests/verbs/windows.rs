use super::{Pair, one, pair};
use verbs::{
    Access, Completion, MemoryWindow, Operation, QueuePair, ReceiveRequest, Reliable, RemoteMemory,
    SendRequest, abi,
};

fn windows() -> Pair {
    pair(Access::REMOTE_READ | Access::REMOTE_WRITE, |one| {
        one.batches()
    })
}

/// Reads the peer's memory: the bytes, or the status.
fn read(pair: &Pair, from: RemoteMemory) -> Result<Vec<u8>, u32> {
    let into = pair
        .pd
        .buffer(usize::try_from(from.length).unwrap())
        .unwrap();
    pair.ends[1].post(SendRequest::read(into, from)).unwrap();
    let done = one(&pair.queues[1]);
    match done.result {
        Ok(()) => Ok(done.into_buffer().unwrap().to_vec()),
        Err(error) => Err(error.status),
    }
}

fn bound(pair: &Pair, window: &MemoryWindow, request: SendRequest) -> RemoteMemory {
    pair.ends[0].post(request.id(9)).unwrap();
    let done: Completion = one(&pair.queues[0]).success().unwrap();
    assert_eq!((done.id, done.operation), (9, Operation::Bind));
    window.remote().unwrap()
}

#[test]
fn a_window_of_type_1_is_bound_again_and_unbound() {
    let pair = windows();
    let region = pair.pd.memory_region(64, Access::WINDOW).unwrap();
    region.write(0, b"0123456789").unwrap();
    let window = pair.pd.memory_window().unwrap();
    assert_eq!(window.remote(), None);
    let bind =
        |range| SendRequest::bind(&window, region.slice(range).unwrap(), Access::REMOTE_READ);
    let first = bound(&pair, &window, bind(2..6));
    assert_eq!(first.length, 4);
    assert_eq!(first.address, region.remote().address + 2);
    assert_eq!(read(&pair, first).unwrap(), b"2345");
    let second = bound(&pair, &window, bind(0..2));
    assert_ne!(second.rkey, first.rkey);
    assert_eq!(read(&pair, second).unwrap(), b"01");
    pair.ends[0].post(SendRequest::unbind(&window)).unwrap();
    one(&pair.queues[0]).success().unwrap();
    assert_eq!(window.remote(), None);
    assert_eq!(read(&pair, second), Err(abi::IBV_WC_REM_ACCESS_ERR));
}

#[test]
fn a_window_of_type_2_has_its_own_rights_until_it_is_invalidated() {
    let pair = windows();
    let region = pair.pd.memory_region(64, Access::WINDOW).unwrap();
    let window = pair.pd.memory_window_2().unwrap();
    let slice = region.slice(0..8).unwrap();
    let bind = SendRequest::bind(&window, slice, Access::REMOTE_WRITE);
    let remote = bound(&pair, &window, bind);
    let write = SendRequest::write(super::filled(&pair.pd, b"by key"), remote);
    pair.ends[1].post(write).unwrap();
    one(&pair.queues[1]).success().unwrap();
    let mut bytes = [0; 6];
    region.read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"by key");
    pair.ends[0]
        .post(SendRequest::invalidate(remote.rkey).id(3))
        .unwrap();
    let done = one(&pair.queues[0]).success().unwrap();
    assert_eq!((done.id, done.operation), (3, Operation::Invalidate));
    assert_eq!(read(&pair, remote), Err(abi::IBV_WC_REM_ACCESS_ERR));
}

#[test]
fn a_message_invalidates_a_key_of_the_peer() {
    let pair = windows();
    let region = pair.pd.memory_region(64, Access::WINDOW).unwrap();
    let window = pair.pd.memory_window_2().unwrap();
    let slice = || region.slice(0..8).unwrap();
    let bind = || SendRequest::bind(&window, slice(), Access::REMOTE_READ);
    let remote = bound(&pair, &window, bind());
    let receive = ReceiveRequest::new(pair.pd.buffer(8).unwrap());
    pair.ends[0].post_receive(receive).unwrap();
    let message = SendRequest::send_inline(*b"done").invalidating(remote.rkey);
    pair.ends[1].post(message).unwrap();
    let done = one(&pair.queues[0]).success().unwrap();
    assert_eq!(
        (done.invalidated, done.immediate),
        (Some(remote.rkey), None)
    );
    one(&pair.queues[1]).success().unwrap();
    // It can be bound once more, with the next key.
    let next = bound(&pair, &window, bind());
    assert_ne!(next.rkey, remote.rkey);
    assert_eq!(read(&pair, next).unwrap(), [0; 8]);
}

#[test]
fn a_bound_window_keeps_its_region() {
    let pair = windows();
    let region = pair.pd.memory_region(16, Access::WINDOW).unwrap();
    region.write(0, b"still registered").unwrap();
    let window = pair.pd.memory_window().unwrap();
    let slice = region.slice(0..16).unwrap();
    drop(region);
    let bind = SendRequest::bind(&window, slice, Access::REMOTE_READ);
    let remote = bound(&pair, &window, bind);
    assert_eq!(read(&pair, remote).unwrap(), b"still registered");
    // Dropped while it is in use: the request keeps it.
    pair.ends[0].post(SendRequest::unbind(&window)).unwrap();
    drop(window);
    one(&pair.queues[0]).success().unwrap();
    assert_eq!(read(&pair, remote), Err(abi::IBV_WC_REM_ACCESS_ERR));
}

#[test]
fn requests_for_windows_that_cannot_be_are_refused() {
    let pair = windows();
    let other = pair.pd.context().protection_domain().unwrap();
    let region = pair.pd.memory_region(16, Access::WINDOW).unwrap();
    let slice = || region.slice(0..8).unwrap();
    let foreign = other.memory_region(16, Access::WINDOW).unwrap();
    let (one, two) = (
        pair.pd.memory_window().unwrap(),
        pair.pd.memory_window_2().unwrap(),
    );
    let access = Access::REMOTE_READ;
    let qp: &QueuePair<Reliable> = &pair.ends[0];
    for request in [
        SendRequest::bind(&other.memory_window().unwrap(), slice(), access),
        SendRequest::bind(&one, foreign.slice(0..8).unwrap(), access),
        SendRequest::unbind(&two),
        SendRequest::bind(&one, slice(), access).and(pair.pd.buffer(8).unwrap()),
        SendRequest::invalidate(1).immediate(2),
        SendRequest::send_inline(*b"both")
            .invalidating(1)
            .immediate(2),
    ] {
        let refused = qp.post(request).unwrap_err();
        assert_eq!(refused.error.errno(), libc::EINVAL);
        assert!(refused.error.reason().is_some());
    }
    assert_eq!((one.remote(), two.remote()), (None, None));
    let cq = pair.pd.context().completion_queue(64).unwrap();
    let datagram = pair.pd.datagram(&cq).build(1).unwrap();
    let to = datagram.address_handle(&datagram.endpoint()).unwrap();
    let refused = datagram.post_to(SendRequest::invalidate(1), &to, 1, 1);
    assert_eq!(refused.unwrap_err().error.errno(), libc::EINVAL);
}
