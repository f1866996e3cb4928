//! Chains of work requests: the requests that providers see, and the answer that C gets.

use super::fake::{BAD_OPCODE, Queue, ROOM, Received, Sent};
use super::*;
use crate::abi::handle::{Pd, Srq};
use crate::provider::shim::object::{Object, Side};
use crate::provider::shim::qp::Pair;
use crate::provider::shim::srq::Shared;

/// A domain, a queue and a queue pair.
pub struct Set {
    pub bench: Bench,
    pub pd: *mut ibv_pd,
    pub cq: *mut ibv_cq,
    pub qp: *mut ibv_qp,
}

impl Set {
    pub fn new(qp_type: ibv_qp_type) -> Self {
        let bench = Bench::new();
        let (pd, cq) = (bench.pd(), bench.cq());
        let qp = bench.qp(pd, cq, qp_type);
        Self { bench, pd, cq, qp }
    }

    /// With ibv_wr_* functions.
    pub fn extended(qp_type: ibv_qp_type, ops: u32) -> Self {
        let bench = Bench::new();
        let (pd, cq) = (bench.pd(), bench.cq());
        let qp = made(bench.qp_ex(&mut qp_attr_ex(cq, qp_type, pd, ops)));
        Self { bench, pd, cq, qp }
    }

    pub fn sent(&self) -> Vec<Sent> {
        // SAFETY: the queue pair is live.
        let side = unsafe { side::<Pair<Fake>>(self.qp.cast()) };
        std::mem::take(&mut side.qp.value.sent.lock().unwrap())
    }

    pub fn post_send(&self, first: *mut ibv_send_wr) -> (c_int, *mut ibv_send_wr) {
        let mut bad = untouched();
        // SAFETY: the queue pair is live, the chain good.
        let code = unsafe { (self.bench.table().post_send())(self.qp, first, &raw mut bad) };
        (code, bad)
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        assert_eq!(self.bench.destroy_qp(self.qp), 0);
        assert_eq!(self.bench.destroy_cq(self.cq), 0);
        assert_eq!(self.bench.dealloc_pd(self.pd), 0);
    }
}

/// # Safety
/// `raw` is a live object of that kind.
pub unsafe fn side<'a, R: Side>(raw: *mut R::C) -> &'a R {
    // SAFETY: vouched for by the caller.
    unsafe { &(*raw.cast::<Object<R>>()).side }
}

/// The value of the bad request's pointer if the call did not write it.
pub fn untouched<T>() -> *mut T {
    core::ptr::without_provenance_mut(1)
}

pub fn wr(id: u64, opcode: ibv_wr_opcode) -> ibv_send_wr {
    // SAFETY: a request is numbers and pointers.
    let mut wr: ibv_send_wr = unsafe { zeroed() };
    wr.wr_id = id;
    wr.opcode = opcode;
    wr
}

/// Joins requests to a chain.
fn chain(requests: &mut [ibv_send_wr]) -> *mut ibv_send_wr {
    let first = requests.as_mut_ptr();
    for at in 1..requests.len() {
        requests[at - 1].next = first.wrapping_add(at);
    }
    first
}

#[test]
fn each_opcode_shows_its_members() {
    let set = Set::new(IBV_QPT_RC);
    let mut list = [
        ibv_sge {
            addr: 1,
            length: 2,
            lkey: 3,
        },
        ibv_sge {
            addr: 4,
            length: 5,
            lkey: 6,
        },
    ];
    let mut requests = [
        wr(1, IBV_WR_RDMA_WRITE_WITH_IMM),
        wr(2, IBV_WR_ATOMIC_CMP_AND_SWP),
        wr(3, IBV_WR_SEND_WITH_INV),
        wr(4, IBV_WR_LOCAL_INV),
    ];
    requests[0].sg_list = list.as_mut_ptr();
    requests[0].num_sge = 2;
    requests[0].send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
    requests[0].imm.imm_data = be32::new(0x0102_0304);
    requests[0].wr.rdma = ibv_send_wr_wr_rdma {
        remote_addr: 7,
        rkey: 8,
    };
    requests[1].wr.atomic = ibv_send_wr_wr_atomic {
        remote_addr: 9,
        compare_add: 10,
        swap: 11,
        rkey: 12,
    };
    requests[2].imm.invalidate_rkey = 13;
    requests[3].imm.invalidate_rkey = 14;
    // The value in the place of its list has no meaning.
    requests[3].num_sge = -3;
    assert_eq!(set.post_send(chain(&mut requests)), (0, untouched()));
    let blank = Sent::default;
    assert_eq!(
        set.sent(),
        [
            Sent {
                id: 1,
                opcode: IBV_WR_RDMA_WRITE_WITH_IMM,
                flags: 6,
                sges: vec![(1, 2, 3), (4, 5, 6)],
                imm: [1, 2, 3, 4],
                to: (7, 8),
                ..blank()
            },
            Sent {
                id: 2,
                opcode: IBV_WR_ATOMIC_CMP_AND_SWP,
                to: (9, 12),
                atomic: (10, 11),
                ..blank()
            },
            Sent {
                id: 3,
                opcode: IBV_WR_SEND_WITH_INV,
                invalidate: 13,
                ..blank()
            },
            Sent {
                id: 4,
                opcode: IBV_WR_LOCAL_INV,
                invalidate: 14,
                ..blank()
            },
        ]
    );
}

#[test]
fn inline_data_is_seen_in_pieces() {
    let set = Set::new(IBV_QPT_RC);
    let (first, second) = (*b"abc", *b"de");
    let sge = |bytes: &[u8]| ibv_sge {
        addr: bytes.as_ptr().expose_provenance() as u64,
        length: u32::try_from(bytes.len()).unwrap(),
        lkey: 0xbad,
    };
    let nothing = ibv_sge {
        addr: 0,
        length: 9,
        lkey: 0,
    };
    let mut list = [sge(&first), sge(&[]), nothing, sge(&second)];
    let mut request = wr(1, IBV_WR_SEND);
    request.send_flags = IBV_SEND_INLINE;
    request.sg_list = list.as_mut_ptr();
    request.num_sge = 4;
    assert_eq!(set.post_send(&raw mut request).0, 0);
    let sent = set.sent();
    assert_eq!(sent[0].inline.as_deref(), Some(&b"abcde"[..]));
    assert_eq!(sent[0].flags, IBV_SEND_INLINE);
}

#[test]
fn datagrams_name_a_handle_of_the_same_context() {
    let (set, other) = (Set::new(IBV_QPT_UD), Set::new(IBV_QPT_UD));
    let (near, far) = (set.bench.ah(set.pd, 5), other.bench.ah(other.pd, 6));
    let ud = |ah| {
        let mut request = wr(1, IBV_WR_SEND);
        request.wr.ud = ibv_send_wr_wr_ud {
            ah,
            remote_qpn: 7,
            remote_qkey: 8,
        };
        request
    };
    let mut requests = [ud(near), ud(far), ud(near)];
    let first = chain(&mut requests);
    assert_eq!(set.post_send(first), (INVAL, first.wrapping_add(1)));
    let sent = set.sent();
    assert_eq!(sent.len(), 1, "the requests before the bad one are posted");
    assert_eq!(sent[0].datagram, Some((5, 7, 8)));
    let mut none = ud(null_mut());
    let at = &raw mut none;
    assert_eq!(set.post_send(at), (INVAL, at));
    assert_eq!(set.bench.destroy_ah(near), 0);
    assert_eq!(other.bench.destroy_ah(far), 0);
}

#[test]
fn lists_that_are_none_are_refused_where_they_stand() {
    let set = Set::new(IBV_QPT_RC);
    for count in [-1, 1, i32::MAX, i32::MIN] {
        let mut requests = [wr(1, IBV_WR_SEND), wr(2, IBV_WR_SEND), wr(3, IBV_WR_SEND)];
        requests[1].num_sge = count;
        let first = chain(&mut requests);
        assert_eq!(set.post_send(first), (INVAL, first.wrapping_add(1)));
        assert_eq!(set.sent().len(), 1);
    }
}

#[test]
fn refused_requests_are_returned() {
    let set = Set::new(IBV_QPT_RC);
    let mut requests = [
        wr(1, IBV_WR_SEND),
        wr(2, BAD_OPCODE),
        wr(3, IBV_WR_SEND),
        wr(4, IBV_WR_SEND),
        wr(5, IBV_WR_SEND),
        wr(6, IBV_WR_SEND),
    ];
    let first = chain(&mut requests);
    assert_eq!(set.post_send(first), (INVAL, first.wrapping_add(1)));
    assert_eq!(set.sent().len(), 1);
    // Before any was looked at: the first.
    set.bench.state.refuse(Errno::IO);
    assert_eq!(set.post_send(first), (libc::EIO, first));
    requests[1].opcode = IBV_WR_SEND;
    let first = chain(&mut requests);
    let full = first.wrapping_add(ROOM);
    assert_eq!(set.post_send(first), (libc::ENOMEM, full));
    assert_eq!(set.sent().len(), ROOM);
    // The caller does not ask which request failed.
    // SAFETY: the queue pair is live, the chain good.
    let code = unsafe { (set.bench.table().post_send())(set.qp, full, null_mut()) };
    assert_eq!(code, 0);
    // An empty chain.
    assert_eq!(set.post_send(null_mut()), (0, untouched()));
}

#[test]
fn nothing_is_posted_without_a_queue_pair() {
    let bench = Bench::new();
    let mut request = wr(1, IBV_WR_SEND);
    let mut receive = recv(1, &mut []);
    let (mut bad, mut bad_receive) = (untouched(), untouched());
    let table = bench.table();
    // SAFETY: NULL is allowed; the requests are good.
    unsafe {
        let code = (table.post_send())(null_mut(), &raw mut request, &raw mut bad);
        assert_eq!((code, bad), (INVAL, &raw mut request));
        let at = &raw mut receive;
        let code = (table.post_recv())(null_mut(), at, &raw mut bad_receive);
        assert_eq!((code, bad_receive), (INVAL, at));
        bad_receive = untouched();
        let code = (table.post_srq_recv())(null_mut(), at, &raw mut bad_receive);
        assert_eq!((code, bad_receive), (INVAL, at));
    }
}

#[test]
fn windows_and_regions_are_seen_through_their_pointers() {
    let (set, other) = (Set::new(IBV_QPT_RC), Set::new(IBV_QPT_RC));
    let mut bytes = [0u8; 16];
    let mr = set.bench.mr(set.pd, &mut bytes);
    let far_mr = other.bench.mr(other.pd, &mut bytes);
    // SAFETY: all objects are live.
    unsafe {
        let alloc = set.bench.table().alloc_mw();
        let mw = made(alloc(set.pd, IBV_MW_TYPE_2));
        let far_mw = made((other.bench.table().alloc_mw())(other.pd, IBV_MW_TYPE_2));
        let bind = |mw, mr| {
            let mut request = wr(1, IBV_WR_BIND_MW);
            request.num_sge = 5;
            request.op.bind_mw = ibv_send_wr_op_bind_mw {
                mw,
                rkey: 6,
                bind_info: ibv_mw_bind_info {
                    mr,
                    addr: 7,
                    length: 8,
                    mw_access_flags: 9,
                },
            };
            request
        };
        assert_eq!(set.post_send(&mut bind(mw, mr)).0, 0);
        assert_eq!(set.post_send(&mut bind(mw, null_mut())).0, 0);
        let (born, lkey) = ((*mw).rkey, (*mr).lkey);
        let seen: Vec<_> = set.sent().into_iter().map(|sent| sent.bind).collect();
        assert_eq!(
            seen,
            [
                Some((born, 6, Some(lkey), 7, 8, 9)),
                Some((born, 6, None, 7, 8, 9))
            ]
        );
        for (mw, mr) in [(far_mw, mr), (mw, far_mr), (null_mut(), mr)] {
            assert_eq!(set.post_send(&mut bind(mw, mr)).0, INVAL);
        }
        assert!(set.sent().is_empty());
        assert_eq!((set.bench.table().dealloc_mw())(mw), 0);
        assert_eq!((other.bench.table().dealloc_mw())(far_mw), 0);
    }
    assert_eq!(set.bench.dereg_mr(mr), 0);
    assert_eq!(other.bench.dereg_mr(far_mr), 0);
}

#[test]
fn segmentation_brings_its_header() {
    let set = Set::new(IBV_QPT_RAW_PACKET);
    let mut header = *b"header";
    let mut request = wr(1, IBV_WR_TSO);
    request.op.tso = ibv_send_wr_op_tso {
        hdr: header.as_mut_ptr().cast(),
        hdr_sz: 6,
        mss: 1000,
    };
    assert_eq!(set.post_send(&raw mut request).0, 0);
    assert_eq!(set.sent()[0].tso, Some((b"header".to_vec(), 1000)));
    request.op.tso.hdr = null_mut();
    assert_eq!(set.post_send(&raw mut request).0, INVAL);
}

#[test]
fn xrc_requests_name_a_shared_queue() {
    let set = Set::new(IBV_QPT_XRC_SEND);
    let mut request = wr(1, IBV_WR_SEND);
    request.qp_type.xrc.remote_srqn = 12;
    assert_eq!(set.post_send(&raw mut request).0, 0);
    assert_eq!(set.sent()[0].srqn, 12);
}

fn recv(id: u64, list: &mut [ibv_sge]) -> ibv_recv_wr {
    ibv_recv_wr {
        wr_id: id,
        next: null_mut(),
        sg_list: list.as_mut_ptr(),
        num_sge: c_int::try_from(list.len()).unwrap(),
    }
}

type PostRecv<T> = unsafe extern "C" fn(*mut T, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;

/// Both verbs that post receives behave alike.
fn check_receives<T>(bench: &Bench, object: *mut T, queue: &Queue, verb: PostRecv<T>) {
    let taken = || -> Vec<Received> { std::mem::take(&mut queue.received.lock().unwrap()) };
    let post = |first: *mut ibv_recv_wr| {
        let mut bad = untouched();
        // SAFETY: the object is live, the chain good.
        let code = unsafe { verb(object, first, &raw mut bad) };
        (code, bad)
    };
    let mut list = [ibv_sge {
        addr: 1,
        length: 2,
        lkey: 3,
    }; 2];
    let mut requests: Vec<ibv_recv_wr> = (0..6).map(|id| recv(id, &mut list)).collect();
    requests[1].num_sge = 0;
    requests[1].sg_list = null_mut();
    let first = requests.as_mut_ptr();
    for at in 1..requests.len() {
        requests[at - 1].next = first.wrapping_add(at);
    }
    assert_eq!(post(first), (libc::ENOMEM, first.wrapping_add(ROOM)));
    let sges = vec![(1, 2, 3), (1, 2, 3)];
    assert_eq!(
        taken(),
        [
            (0, sges.clone()),
            (1, Vec::new()),
            (2, sges.clone()),
            (3, sges)
        ]
    );
    for (count, list) in [(-1, list.as_mut_ptr()), (2, null_mut())] {
        requests[2].num_sge = count;
        requests[2].sg_list = list;
        assert_eq!(post(first), (INVAL, first.wrapping_add(2)));
        assert_eq!(taken().len(), 2);
    }
    bench.state.refuse(Errno::IO);
    assert_eq!(post(first), (libc::EIO, first));
    assert_eq!(post(null_mut()), (0, untouched()));
}

#[test]
fn receives_go_to_queue_pairs() {
    let set = Set::new(IBV_QPT_RC);
    // SAFETY: the queue pair is live.
    let side = unsafe { side::<Pair<Fake>>(set.qp.cast()) };
    let verb = set.bench.table().post_recv();
    check_receives(&set.bench, set.qp, &side.qp.value, verb);
}

#[test]
fn receives_go_to_shared_queues() {
    let bench = Bench::new();
    let pd = bench.pd();
    // SAFETY: domain and queue are live; attributes are numbers.
    unsafe {
        let mut attr: ibv_srq_init_attr = zeroed();
        let srq = made((bench.table().create_srq())(pd, &raw mut attr));
        Srq::init(srq, Pd::from_raw(pd).unwrap(), null_mut());
        let side = side::<Shared<Fake>>(srq.cast());
        let verb = bench.table().post_srq_recv();
        check_receives(&bench, srq, &side.srq.value, verb);
        assert_eq!((bench.table().destroy_srq())(srq), 0);
    }
    assert_eq!(bench.dealloc_pd(pd), 0);
}
