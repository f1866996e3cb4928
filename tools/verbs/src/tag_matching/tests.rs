//! Tags of a device that has them.

use kit::abi::*;

use super::*;
use crate::{
    memory::Segment,
    sys::fake::{self, Reported},
};

const SIZE: Size = Size {
    requests: 4,
    segments: 1,
    tags: 8,
    operations: 3,
};

struct Bench {
    pd: ProtectionDomain,
    cq: CompletionQueue,
    queue: TagQueue,
}

fn bench() -> Bench {
    let pd = fake::open().protection_domain().unwrap();
    let cq = pd.context().completion_queue_builder(64).tags();
    let cq = cq.build().unwrap();
    let queue = pd.tag_queue(&cq, SIZE).unwrap();
    Bench { pd, cq, queue }
}

const BOTH: u32 = IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID;

impl Bench {
    fn request(&self, id: u64) -> ReceiveRequest {
        ReceiveRequest::new(self.pd.buffer(64).unwrap()).id(id)
    }

    fn add(&self, id: u64) -> AddedTag {
        let added = self.queue.add(self.request(id), Tag::exactly(id), None);
        added.unwrap()
    }

    /// What the device says next.
    fn completion(&self, reported: Reported) -> Vec<Completion> {
        fake::with(|state| state.completions.push_back(reported));
        self.cq.poll().unwrap()
    }

    fn one(&self, reported: Reported) -> Completion {
        let mut all = self.completion(reported);
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    /// The completion of the operation that was posted at that place.
    fn operated(&self, at: usize, status: u32) -> Completion {
        let wr = posted(at).wr;
        let opcode = match wr.opcode {
            IBV_WR_TAG_ADD => IBV_WC_TM_ADD,
            IBV_WR_TAG_DEL => IBV_WC_TM_DEL,
            _ => IBV_WC_TM_SYNC,
        };
        self.one(Reported {
            wr_id: wr.wr_id,
            status,
            opcode,
            ..Reported::default()
        })
    }

    /// A message that meets the tag that was added at that place.
    fn met(&self, at: usize, status: u32, flags: u32) -> Completion {
        self.one(Reported {
            wr_id: posted(at).wr.tm.add.recv_wr_id,
            status,
            opcode: IBV_WC_TM_RECV,
            flags,
            bytes: 5,
            tag: (42, 7),
            ..Reported::default()
        })
    }
}

fn posted(at: usize) -> fake::Operation {
    fake::with(|state| state.operations[at])
}

fn memory(completion: Completion) -> Vec<usize> {
    let segments = completion.into_segments();
    segments.iter().map(Segment::len).collect()
}

#[test]
fn a_queue_is_made_with_its_sizes() {
    let bench = bench();
    let attr = fake::with(|state| state.srq.unwrap());
    assert_eq!(attr.srq_type, IBV_SRQT_TM);
    assert_eq!(
        attr.comp_mask,
        IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM
    );
    assert_eq!((attr.attr.max_wr, attr.attr.max_sge), (4, 1));
    assert_eq!((attr.tm_cap.max_num_tags, attr.tm_cap.max_ops), (8, 3));
    assert_eq!(attr.cq, bench.cq.object().as_ptr());
    assert_eq!(attr.pd, bench.pd.object().as_ptr());
    let readers = fake::with(|state| state.readers);
    assert_ne!(readers & u64::from(IBV_WC_EX_WITH_TM_INFO), 0);

    // Receive requests, operations, and twice the tags.
    let refused = |cq: &CompletionQueue, size| bench.pd.tag_queue(cq, size).unwrap_err();
    let tags = (bench.cq.capacity() - 4 - 3 - 16 - 4 - 3) / 2;
    let size = |tags| Size { tags, ..SIZE };
    let full = refused(&bench.cq, size(tags + 1));
    assert_eq!(full.errno(), libc::ENOSPC);
    bench.pd.tag_queue(&bench.cq, size(tags)).unwrap();
    let plain = bench.pd.context().completion_queue(64).unwrap();
    let refused = refused(&plain, SIZE);
    assert_eq!(refused.errno(), libc::EINVAL);
    assert_eq!(
        refused.reason(),
        Some("the completion queue reports no tags")
    );
}

#[test]
fn a_message_brings_the_memory_of_its_tag() {
    let bench = bench();
    let tag = Tag {
        value: 42,
        mask: 0xff,
    };
    let request = bench.request(7);
    let added = bench.queue.add(request, tag, Some(3)).unwrap();
    let operation = posted(0);
    let wr = operation.wr;
    assert_eq!((wr.tm.add.tag, wr.tm.add.mask), (42, 0xff));
    assert_eq!(
        (wr.opcode, wr.flags.cast_unsigned(), wr.tm.unexpected_cnt),
        (IBV_WR_TAG_ADD, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC, 3)
    );
    let done = bench.operated(0, IBV_WC_SUCCESS);
    assert_eq!((done.id, done.operation), (7, Operation::AddTag));
    assert!(done.result.is_ok() && !done.needs_sync() && memory(done).is_empty());
    fake::write(operation.sge.unwrap(), b"hello");
    let done = bench.met(0, IBV_WC_SUCCESS, BOTH | IBV_WC_TM_SYNC_REQ);
    assert_eq!((done.id, done.operation), (7, Operation::ReceiveTagged));
    let expected = ReceivedTag {
        value: 42,
        number: 7,
    };
    assert_eq!(done.tag(), Some(expected));
    assert!(done.needs_sync());
    assert_eq!(done.bytes, 5);
    assert_eq!(&done.into_buffer().unwrap()[..5], b"hello");
    // The device may use its name again.
    let gone = bench.queue.remove(&added, 0, None).unwrap_err();
    assert_eq!(gone.errno(), libc::ENOENT);
}

#[test]
fn the_memory_stays_until_all_bytes_are_there() {
    let bench = bench();
    bench.add(1);
    bench.add(2);
    for (at, status) in [(0, IBV_WC_SUCCESS), (1, IBV_WC_TM_RNDV_INCOMPLETE)] {
        let id = at as u64 + 1;
        let done = bench.met(at, status, IBV_WC_TM_MATCH);
        assert_eq!((done.id, done.operation), (id, Operation::MatchTag));
        assert_eq!(done.result.is_ok(), status == IBV_WC_SUCCESS);
        assert_eq!(done.tag().map(|tag| tag.value), Some(42));
        assert!(memory(done).is_empty());
        let done = bench.met(at, status, IBV_WC_TM_DATA_VALID);
        assert_eq!((done.id, done.operation), (id, Operation::ReceiveTagged));
        assert_eq!(memory(done), [64]);
        let late = fake::Reported {
            wr_id: posted(at).wr.tm.add.recv_wr_id,
            opcode: IBV_WC_TM_RECV,
            flags: IBV_WC_TM_MATCH,
            ..Reported::default()
        };
        assert!(bench.completion(late).is_empty());
    }
}

#[test]
fn memory_that_is_too_short_for_a_rendezvous_comes_back() {
    let bench = bench();
    bench.add(1);
    let done = bench.met(0, IBV_WC_TM_RNDV_INCOMPLETE, BOTH);
    assert_eq!(done.operation, Operation::ReceiveTagged);
    assert_eq!(done.result.unwrap_err().status, IBV_WC_TM_RNDV_INCOMPLETE);
    assert_eq!(memory(done), [64]);
}

#[test]
fn a_removed_tag_returns_its_memory() {
    let bench = bench();
    let added = bench.add(1);
    bench.operated(0, IBV_WC_SUCCESS);
    bench.queue.remove(&added, 9, Some(1)).unwrap();
    let wr = posted(1).wr;
    assert_eq!(
        (wr.opcode, wr.tm.handle, wr.tm.unexpected_cnt),
        (IBV_WR_TAG_DEL, 100, 1)
    );
    let done = bench.operated(1, IBV_WC_SUCCESS);
    assert_eq!((done.id, done.operation), (9, Operation::RemoveTag));
    assert_eq!(memory(done), [64]);

    // A message was faster.
    let added = bench.add(2);
    bench.operated(2, IBV_WC_SUCCESS);
    bench.queue.remove(&added, 9, None).unwrap();
    let failed = bench.operated(3, IBV_WC_TM_ERR);
    assert_eq!(failed.operation, Operation::RemoveTag);
    assert_eq!(failed.result.unwrap_err().status, IBV_WC_TM_ERR);
    assert!(memory(failed).is_empty());
    assert_eq!(memory(bench.met(2, IBV_WC_SUCCESS, BOTH)), [64]);

    // Each queue has separate names.
    let other = bench.pd.context().completion_queue_builder(64).tags();
    let other = bench.pd.tag_queue(&other.build().unwrap(), SIZE).unwrap();
    let added = bench.add(3);
    let refused = other.remove(&added, 0, None).unwrap_err();
    assert_eq!(refused.errno(), libc::EINVAL);
}

#[test]
fn refused_operations_bring_their_memory_back() {
    let bench = bench();
    let refuse = |errno| fake::with(|state| state.errno = errno);
    let add = || bench.queue.add(bench.request(1), Tag::exactly(1), None);
    refuse(libc::ENOMEM);
    let refused = add().unwrap_err();
    assert_eq!(refused.error.errno(), libc::ENOMEM);
    assert_eq!(refused.error.function(), "ibv_post_srq_ops");
    let segments = refused.into_request().unwrap().into_segments();
    assert_eq!(segments.len(), 1);
    // The device may have it.
    refuse(libc::EIO);
    assert!(add().unwrap_err().request.is_none());
    refuse(0);
    // The one that the device may have, and two more.
    bench.add(2);
    bench.queue.synchronise(5, 6).unwrap();
    let full = add().unwrap_err();
    assert_eq!(full.error.errno(), libc::ENOMEM);
    assert!(full.request.is_some());
    assert_eq!(posted(1).wr.tm.unexpected_cnt, 5);
    let done = bench.operated(1, IBV_WC_SUCCESS);
    assert_eq!((done.id, done.operation), (6, Operation::SyncTags));
    add().unwrap();
    // Memory of another protection domain.
    let elsewhere = bench.pd.context().protection_domain().unwrap();
    let request = ReceiveRequest::new(elsewhere.buffer(8).unwrap());
    let refused = bench.queue.add(request, Tag::exactly(1), None).unwrap_err();
    assert_eq!(refused.error.errno(), libc::EINVAL);
}

#[test]
fn uroce_has_no_tags() {
    let bench = bench();
    let added = bench.add(1);
    fake::with(|state| state.passes = true);
    let refused = bench.pd.tag_queue(&bench.cq, SIZE).unwrap_err();
    assert_eq!(
        (refused.function(), refused.errno()),
        ("ibv_create_srq_ex", libc::EOPNOTSUPP)
    );
    let unsupported = |refused: Error| {
        assert_eq!(
            (refused.function(), refused.errno()),
            ("ibv_post_srq_ops", libc::EOPNOTSUPP)
        );
    };
    let refused = bench
        .queue
        .add(bench.request(1), Tag::exactly(1), None)
        .unwrap_err();
    assert!(refused.request.is_some());
    unsupported(refused.error);
    unsupported(bench.queue.synchronise(1, 1).unwrap_err());
    unsupported(bench.queue.remove(&added, 1, None).unwrap_err());
}

#[test]
fn an_unexpected_message_goes_to_a_receive_request() {
    let bench = bench();
    let (pd, sends) = (&bench.pd, bench.pd.context().completion_queue(16).unwrap());
    // Receives of the queue pair need no room in its own completion queue.
    let qp = pd.reliable(&sends).tags(&bench.queue).build().unwrap();
    let refused = qp.post_receive(bench.request(1)).unwrap_err();
    assert_eq!(refused.error.errno(), libc::EINVAL);
    bench.queue.post_receive(bench.request(5)).unwrap();
    let number = fake::with(|state| state.receives.remove(0));
    let done = bench.one(Reported {
        wr_id: number,
        opcode: IBV_WC_TM_RECV,
        bytes: 20,
        tag: (42, 7),
        ..Reported::default()
    });
    assert_eq!((done.id, done.operation), (5, Operation::Receive));
    assert_eq!(
        (done.bytes, done.tag().map(|tag| tag.value)),
        (20, Some(42))
    );
    assert_eq!(memory(done), [64]);
}

#[test]
fn headers_are_those_of_tm_types() {
    for kind in [Kind::NoTag, Kind::Rendezvous, Kind::Finished, Kind::Eager] {
        let header = Header {
            kind,
            number: 0x0102_0304,
            tag: 0x1112_1314_1516_1718,
        };
        let bytes = header.to_bytes();
        assert_eq!(bytes[4..8], [1, 2, 3, 4]);
        assert_eq!(bytes[8..], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
        assert_eq!(Header::from_bytes(bytes), Some(header));
    }
    assert_eq!(Header::from_bytes([4; 16]), None);
    let memory = RemoteMemory {
        address: 1,
        length: 0x0203_0405,
        rkey: 6,
    };
    let bytes = rendezvous(&memory).unwrap();
    assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 6, 2, 3, 4, 5]);
    let long = RemoteMemory {
        length: 1 << 32,
        ..memory
    };
    assert!(rendezvous(&long).is_none());
}
