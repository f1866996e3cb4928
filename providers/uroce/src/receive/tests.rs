use super::*;
use crate::channel::{Kind, Records};
use crate::memory::{Pd, PdId};
use kit::abi::*;
use kit::errno::Errno;
use kit::provider::{ReceiveRequest, Token};
use kit::sync::Mutex;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

const PIECE: ibv_sge = ibv_sge {
    addr: 0x1000,
    length: 64,
    lkey: 7,
};

fn request(id: u64, sges: &[ibv_sge]) -> ReceiveRequest<'_> {
    ReceiveRequest { id, sges }
}

fn post(queue: &ReceiveQueue, ids: std::ops::Range<u64>) -> kit::errno::Result<()> {
    queue.post(&mut ids.map(|id| request(id, &[])))
}

#[test]
fn requests_come_out_in_order_as_they_were_posted() {
    let queue = ReceiveQueue::new(4, 2);
    let requests = [request(1, &[PIECE, PIECE]), request(2, &[])];
    assert_eq!(queue.post(&mut requests.into_iter()), Ok(()));
    assert_eq!(queue.len(), 2);
    let first = queue.take().expect("the first");
    assert_eq!((first.id, first.room(), first.sges.len()), (1, 128, 2));
    assert_eq!(first.sges[1].address, 0x1000);
    assert_eq!(first.sges[1].lkey, 7);
    assert_eq!(queue.take().map(|receive| receive.id), Some(2));
    assert_eq!(queue.take(), None);
}

#[test]
fn the_request_that_is_refused_is_the_last_that_was_taken() {
    let queue = ReceiveQueue::new(2, 1);
    let requests = [
        request(1, &[]),
        request(2, &[PIECE, PIECE]),
        request(3, &[]),
    ];
    let mut iterator = requests.into_iter();
    assert_eq!(queue.post(&mut iterator), Err(Errno::INVAL));
    assert_eq!(iterator.next().map(|request| request.id), Some(3));
    assert_eq!(queue.len(), 1);
    let mut iterator = (10..15).map(|id| request(id, &[]));
    assert_eq!(queue.post(&mut iterator), Err(Errno::NOMEM));
    assert_eq!(iterator.next().map(|request| request.id), Some(12));
    assert_eq!(queue.take().map(|receive| receive.id), Some(1));
    assert_eq!(queue.take().map(|receive| receive.id), Some(10));
    assert!(queue.is_empty());
}

#[test]
fn a_queue_that_is_cleared_is_empty() {
    let queue = ReceiveQueue::new(3, 1);
    assert_eq!(post(&queue, 0..3), Ok(()));
    queue.clear();
    assert!(queue.is_empty() && queue.take().is_none());
    assert_eq!(post(&queue, 0..3), Ok(()));
    assert_eq!(post(&queue, 0..1), Err(Errno::NOMEM));
}

const TOKEN: Token = Token(5);

fn shared(max_wr: u32) -> (Arc<Srq>, OwnedFd) {
    let (events, fd) = Records::new(Kind::Asynchronous).expect("made");
    rustix::io::ioctl_fionbio(&fd, true).expect("set");
    let attr = ibv_srq_attr {
        max_wr,
        max_sge: 1,
        srq_limit: 3,
    };
    let srq = Srq::new(TOKEN, Pd::new().id(), &attr, Arc::new(events), None, None);
    (Arc::new(srq.expect("made")), fd)
}

fn limit_events(fd: &OwnedFd) -> usize {
    let mut record = [0; 16];
    let mut count = 0;
    while rustix::io::read(fd, &mut record) == Ok(16) {
        assert_eq!(record[..8], TOKEN.0.to_ne_bytes());
        assert_eq!(record[8..12], IBV_EVENT_SRQ_LIMIT_REACHED.to_ne_bytes());
        count += 1;
    }
    count
}

fn modify(srq: &Srq, max_wr: u32, srq_limit: u32, mask: u32) -> kit::errno::Result<()> {
    let attr = ibv_srq_attr {
        max_wr,
        max_sge: 100,
        srq_limit,
    };
    srq.modify(&attr, mask)
}

#[test]
fn the_limit_event_comes_once_a_request_for_it() {
    let (srq, fd) = shared(10);
    assert_eq!(srq.query().srq_limit, 0, "none at first");
    srq.post(&mut (0..6).map(|id| request(id, &[])))
        .expect("posted");
    assert_eq!(modify(&srq, 0, 4, IBV_SRQ_LIMIT), Ok(()));
    assert_eq!(srq.query().srq_limit, 4);
    srq.take();
    srq.take();
    assert_eq!((srq.len(), limit_events(&fd)), (4, 0));
    srq.take();
    assert_eq!((srq.len(), limit_events(&fd)), (3, 1));
    assert_eq!(srq.query().srq_limit, 0);
    srq.take();
    assert_eq!(limit_events(&fd), 0);
    assert_eq!(modify(&srq, 0, 3, IBV_SRQ_LIMIT), Ok(()));
    assert_eq!(limit_events(&fd), 1, "it is below already");
    assert_eq!(modify(&srq, 0, 2, IBV_SRQ_LIMIT), Ok(()));
    assert_eq!(modify(&srq, 0, 0, IBV_SRQ_LIMIT), Ok(()));
    while srq.take().is_some() {}
    assert_eq!(limit_events(&fd), 0, "it was taken away");
    assert_eq!(srq.leave(), 2);
}

#[test]
fn a_change_that_is_refused_changes_nothing() {
    let (srq, fd) = shared(10);
    srq.post(&mut (0..6).map(|id| request(id, &[])))
        .expect("posted");
    let both = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT;
    for (max_wr, limit, mask) in [
        (5, 0, IBV_SRQ_MAX_WR),
        (0, 0, IBV_SRQ_MAX_WR),
        (8, 9, both),
        (5, 1, both),
        (0, 11, IBV_SRQ_LIMIT),
        (9, 1, 4 | both),
    ] {
        assert_eq!(modify(&srq, max_wr, limit, mask), Err(Errno::INVAL));
        let now = srq.query();
        assert_eq!((now.max_wr, now.max_sge, now.srq_limit), (10, 1, 0));
    }
    assert_eq!(modify(&srq, 7, 6, both), Ok(()));
    let now = srq.query();
    assert_eq!((now.max_wr, now.srq_limit), (7, 6));
    assert_eq!(limit_events(&fd), 0);
    let more = srq.post(&mut (0..2).map(|id| request(id, &[])));
    assert_eq!((more, srq.len()), (Err(Errno::NOMEM), 7));
}

#[derive(Default)]
struct Directory(Mutex<HashMap<u32, Weak<Srq>>>);

impl Domain for Directory {
    fn add_srq(&self, number: u32, srq: &Arc<Srq>) {
        self.0.lock().insert(number, Arc::downgrade(srq));
    }

    fn remove_srq(&self, number: u32) {
        self.0.lock().remove(&number);
    }
}

#[test]
fn queues_have_separate_numbers_and_are_found_by_them() {
    let directory = Arc::new(Directory::default());
    let (one, _fd) = shared(1);
    let (other, _fd) = shared(1);
    assert_ne!(one.number(), other.number());
    assert!(one.number() > 0 && one.number() < 1 << 24);
    assert_ne!(one.pd(), PdId::NONE);
    assert!(one.cq().is_none());
    one.enter(&directory);
    other.enter(&directory);
    let found = directory
        .0
        .lock()
        .get(&one.number())
        .and_then(Weak::upgrade);
    assert!(found.is_some_and(|found| Arc::ptr_eq(&found, &one)));
    assert_eq!(one.leave(), 0);
    assert!(!directory.0.lock().contains_key(&one.number()));
    assert!(directory.0.lock().contains_key(&other.number()));
}

#[test]
fn requests_are_taken_once_each_by_any_number_of_threads() {
    let (srq, _fd) = shared(64);
    const ALL: u64 = 20_000;
    let taken = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut mine = Vec::new();
                while mine.last() < Some(&ALL) {
                    match srq.take() {
                        Some(receive) => mine.push(receive.id),
                        None => std::thread::yield_now(),
                    }
                }
                assert!(mine.is_sorted());
                taken.lock().extend(mine);
            });
        }
        for id in (0..ALL).chain([ALL, ALL]) {
            while srq.post(&mut [request(id, &[PIECE])].into_iter()).is_err() {
                std::thread::yield_now();
            }
        }
    });
    let mut taken = taken.into_inner();
    taken.sort_unstable();
    assert_eq!(taken, (0..ALL).chain([ALL, ALL]).collect::<Vec<_>>());
}
