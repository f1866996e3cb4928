use std::{os::fd::AsFd, ptr::NonNull, sync::Arc};

use super::{Pair, filled, one, open, pair};
use verbs::{Access, MemoryOwner, MemoryRegion, Prefetch, ReceiveRequest, SendRequest};

/// Memory whose end is observed.
struct Counted(Vec<u8>, #[allow(dead_code)] Arc<()>);

// SAFETY: that of a vector.
unsafe impl MemoryOwner for Counted {
    fn memory(&mut self) -> NonNull<[u8]> {
        self.0.memory()
    }
}

#[test]
fn a_vector_is_sent_and_received_into() {
    let Pair { pd, queues, ends } = pair(Access::LOCAL, |one| one);
    let (message, room) = (b"of a vector".to_vec(), vec![0; 100]);
    let place = room.as_ptr();
    let receive = ReceiveRequest::new(pd.buffer_of(room).unwrap());
    ends[1].post_receive(receive).unwrap();
    let message = pd.buffer_of(message).unwrap();
    ends[0].post(SendRequest::send(message)).unwrap();
    assert_eq!(&*one(&queues[0]).into_buffer().unwrap(), b"of a vector");
    let done = one(&queues[1]).success().unwrap();
    assert_eq!(done.bytes, 11);
    let room = done.into_buffer().unwrap();
    assert_eq!((room.as_ptr(), room.len()), (place, 100));
    assert_eq!(&room[..11], b"of a vector");
}

#[test]
fn a_region_drops_its_owner_when_no_request_has_it() {
    let access = Access::REMOTE_WRITE | Access::REMOTE_READ;
    let Pair { pd, queues, ends } = pair(access, |one| one);
    let count = Arc::new(());
    let region = pd
        .region_of(Counted(vec![7; 40], Arc::clone(&count)), access)
        .unwrap();
    let mut bytes = [0; 2];
    region.read(38, &mut bytes).unwrap();
    assert_eq!(bytes, [7, 7]);
    let write = SendRequest::write(filled(&pd, b"by a peer"), region.remote());
    ends[0].post(write).unwrap();
    one(&queues[0]).success().unwrap();
    let mut bytes = [0; 9];
    region.read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"by a peer");
    let receive = ReceiveRequest::new(region.slice(0..8).unwrap());
    ends[1].post_receive(receive).unwrap();
    drop(region);
    assert_eq!(Arc::strong_count(&count), 2);
    ends[1].shut_down().unwrap();
    drop(one(&queues[1]));
    assert_eq!(Arc::strong_count(&count), 1);
}

#[test]
fn memory_of_a_device_is_used_by_requests_and_copied() {
    let access = Access::REMOTE_WRITE | Access::REMOTE_READ;
    let Pair { pd, queues, ends } = pair(access, |one| one);
    let memory = pd.context().device_memory(4096, 6).unwrap();
    let region = pd
        .device_memory_region(&memory, 1024..2048, access)
        .unwrap();
    let remote = region.remote();
    assert_eq!((remote.address, remote.length), (0, 1024));
    let write = SendRequest::write(filled(&pd, b"written"), remote.slice(10..17).unwrap());
    ends[0].post(write).unwrap();
    one(&queues[0]).success().unwrap();
    let mut bytes = [0; 12];
    memory.read(1032, &mut bytes).unwrap();
    assert_eq!(&bytes, b"\0\0written\0\0\0");

    // It is the memory of a message, too.
    memory.write(1024, b"messages").unwrap();
    ends[1]
        .post_receive(ReceiveRequest::new(pd.buffer(16).unwrap()))
        .unwrap();
    ends[0]
        .post(SendRequest::send(region.slice(0..8).unwrap()))
        .unwrap();
    one(&queues[0]).success().unwrap();
    let done = one(&queues[1]).success().unwrap();
    assert_eq!(&done.into_buffer().unwrap()[..8], b"messages");

    // The device copies inline bytes from this process's memory alone.
    let inline = SendRequest::send_inline(*b"a").and(region.slice(0..4).unwrap());
    let refused = ends[0].post(inline).unwrap_err();
    assert_eq!(refused.error.errno(), libc::EINVAL);
    assert!(refused.error.reason().is_some());

    for refused in [region.read(0, &mut bytes), region.write(0, &bytes)] {
        assert_eq!(refused.unwrap_err().errno(), libc::EOPNOTSUPP);
    }
    for refused in [
        memory.read(4090, &mut bytes),
        memory.write(usize::MAX, &bytes),
    ] {
        assert_eq!(refused.unwrap_err().errno(), libc::EINVAL);
    }
    // The region keeps the memory.
    drop(memory);
    let into = pd.buffer(7).unwrap();
    ends[0]
        .post(SendRequest::read(into, remote.slice(10..17).unwrap()))
        .unwrap();
    assert_eq!(&*one(&queues[0]).into_buffer().unwrap(), b"written");
}

#[test]
fn memory_that_a_device_does_not_have_is_refused() {
    let context = open();
    let pd = context.protection_domain().unwrap();
    let memory = context.device_memory(64, 0).unwrap();
    let refused = pd.device_memory_region(&memory, 60..65, Access::LOCAL);
    assert_eq!(refused.unwrap_err().errno(), libc::EINVAL);
    let foreign = open().device_memory(64, 0).unwrap();
    let refused = pd.device_memory_region(&foreign, 0..8, Access::LOCAL);
    assert_eq!(refused.unwrap_err().errno(), libc::EINVAL);
    assert!(context.device_memory(1 << 40, 0).is_err());
    let file = std::fs::File::open("/dev/null").unwrap();
    let refused = pd
        .dmabuf_region(file.as_fd(), 0..4096, 0, Access::LOCAL)
        .unwrap_err();
    assert_eq!(
        (refused.function(), refused.errno()),
        ("ibv_reg_dmabuf_mr", libc::EOPNOTSUPP)
    );
}

/// Programs send them to threads, share them, and catch panics around them; the traits are lost
/// without a word when a private member lacks them.
#[test]
fn memory_and_requests_have_the_traits_of_plain_values() {
    fn check<T: Send + Sync + std::panic::UnwindSafe + std::panic::RefUnwindSafe + Unpin>() {}
    check::<verbs::Buffer>();
    check::<verbs::MemoryRegion>();
    check::<verbs::RegionSlice>();
    check::<verbs::Segment>();
    check::<verbs::SendRequest>();
    check::<verbs::ReceiveRequest>();
    check::<verbs::Completion>();
}

#[test]
fn memory_has_the_addresses_that_were_chosen() {
    let access = Access::REMOTE_WRITE;
    let Pair { pd, queues, ends } = pair(access, |one| one);
    let region = pd.memory_region_at(4096, 1 << 40, access).unwrap();
    assert_eq!(region.remote().address, 1 << 40);
    let part = region.remote().slice(100..107).unwrap();
    ends[0]
        .post(SendRequest::write(filled(&pd, b"written"), part))
        .unwrap();
    one(&queues[0]).success().unwrap();
    let mut bytes = [0; 7];
    region.read(100, &mut bytes).unwrap();
    assert_eq!(&bytes, b"written");
    // It is the memory of a local request, too.
    ends[1]
        .post_receive(ReceiveRequest::new(pd.buffer(16).unwrap()))
        .unwrap();
    ends[0]
        .post(SendRequest::send(region.slice(100..107).unwrap()))
        .unwrap();
    let done = one(&queues[1]).success().unwrap();
    assert_eq!(&done.into_buffer().unwrap()[..7], b"written");
    let past = pd.memory_region_at(4096, u64::MAX - 4095, access);
    assert_eq!(past.unwrap_err().errno(), libc::EINVAL);
}

#[test]
fn a_region_without_memory_swallows_bytes() {
    let Pair { pd, queues, ends } = pair(Access::LOCAL, |one| one);
    let nothing = pd.null_region().unwrap();
    let front = nothing.slice(1 << 30..(1 << 30) + 4).unwrap();
    let receive = ReceiveRequest::new(front).and(pd.buffer(8).unwrap());
    ends[1].post_receive(receive).unwrap();
    ends[0]
        .post(SendRequest::send(filled(&pd, b"lostkept")))
        .unwrap();
    one(&queues[0]).success().unwrap();
    let done = one(&queues[1]).success().unwrap();
    assert_eq!(done.bytes, 8);
    assert_eq!(&done.into_buffer().unwrap()[..4], b"kept");
    // Zeros come out of it.
    ends[1]
        .post_receive(ReceiveRequest::new(filled(&pd, b"########")))
        .unwrap();
    ends[0]
        .post(SendRequest::send(nothing.slice(0..6).unwrap()))
        .unwrap();
    let done = one(&queues[1]).success().unwrap();
    assert_eq!(&*done.into_buffer().unwrap(), b"\0\0\0\0\0\0##");
    let refused = nothing.read(0, &mut [0; 4]).unwrap_err();
    assert_eq!(refused.errno(), libc::EOPNOTSUPP);
}

#[test]
fn pages_are_fetched_before_they_are_used() {
    let pd = open().protection_domain().unwrap();
    let region = pd.memory_region(1 << 16, Access::ON_DEMAND).unwrap();
    for how in [Prefetch::Read, Prefetch::Write, Prefetch::Present] {
        region.prefetch(4096..8192, how).unwrap();
        region.prefetch(0..1 << 16, how).unwrap();
    }
    let refused = |region: &MemoryRegion, range| {
        let refused = region.prefetch(range, Prefetch::Read).unwrap_err();
        assert_eq!(refused.function(), "ibv_advise_mr");
        refused.errno()
    };
    assert_eq!(refused(&region, 0..(1 << 16) + 1), libc::EINVAL);
    let pinned = pd.memory_region(4096, Access::LOCAL).unwrap();
    assert_eq!(refused(&pinned, 0..4096), libc::EINVAL);
}
