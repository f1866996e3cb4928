//! Completion queues: making, polling in both ways, events.

use super::*;
use crate::abi::handle::{CompChannel, UNACKED};
use crate::provider::{Edges, Polled, ReportedEvents};
use std::os::fd::{AsFd, AsRawFd};
use std::thread;

/// A completion whose members all differ.
fn polled(id: u64) -> Polled {
    Polled {
        wc: ibv_wc {
            wr_id: id,
            status: IBV_WC_REM_OP_ERR,
            opcode: IBV_WC_RECV,
            vendor_err: 3,
            byte_len: 4,
            imm: ibv_wc_imm {
                imm_data: be32::new(5),
            },
            qp_num: 6,
            src_qp: 7,
            wc_flags: IBV_WC_WITH_IMM,
            pkey_index: 8,
            slid: 9,
            sl: 10,
            dlid_path_bits: 11,
        },
        timestamp: 12,
        wallclock: 13,
    }
}

fn fill(bench: &Bench, ids: &[u64]) {
    let mut ready = bench.state.ready.lock().unwrap();
    ready.extend(ids.iter().map(|id| polled(*id)));
}

#[test]
fn queues_are_made_with_good_arguments_only() {
    let bench = Bench::new();
    let create = bench.table().create_cq();
    // SAFETY: the context is open.
    let make = |entries, vector| unsafe { create(bench.context, entries, null_mut(), vector) };
    for (entries, vector) in [(0, 0), (-1, 0), (1, -1), (1, 2)] {
        assert_eq!(refused(|| make(entries, vector)), Errno::INVAL);
    }
    assert!(bench.state.asked().is_empty(), "not asked");
    bench.state.refuse(Errno::NOMEM);
    assert_eq!(refused(|| make(10, 1)), Errno::NOMEM);
    let cq = bench.cq();
    // SAFETY: the queue is live.
    unsafe {
        assert_eq!((*cq).cqe, 16, "as many as there are");
        assert_eq!((bench.table().resize_cq())(cq, 20), 0);
        assert_eq!((*cq).cqe, 21);
        assert_eq!((bench.table().resize_cq())(cq, 0), INVAL);
        assert_eq!((bench.table().resize_cq())(cq, -5), INVAL);
        bench.state.refuse(Errno::INVAL);
        assert_eq!((bench.table().resize_cq())(cq, 3), INVAL);
        assert_eq!((*cq).cqe, 21);
        let mut attr = ibv_modify_cq_attr {
            attr_mask: 1,
            moderate: ibv_moderate_cq {
                cq_count: 2,
                cq_period: 3,
            },
        };
        let modify = bench.table().modify_cq();
        bench.state.asked();
        assert_eq!(modify(cq, &raw mut attr), 0);
        assert_eq!(bench.state.asked(), ["moderate_cq 2 3"]);
        attr.attr_mask = 3;
        assert_eq!(modify(cq, &raw mut attr), libc::EOPNOTSUPP);
        attr.attr_mask = 0;
        assert_eq!(modify(cq, &raw mut attr), INVAL);
        assert_eq!(modify(cq, null_mut()), INVAL);
        let notify = bench.table().req_notify_cq();
        assert_eq!((notify(cq, 0), notify(cq, 5)), (0, 0));
        let asked = ["req_notify_cq false", "req_notify_cq true"];
        assert_eq!(bench.state.asked(), asked);
    }
    assert_eq!(bench.destroy_cq(cq), 0);
    assert_eq!(bench.destroy_cq(null_mut()), INVAL);
}

#[test]
#[cfg_attr(miri, ignore = "Miri knows no sockets that keep messages apart")]
fn a_queue_gets_the_descriptor_of_its_channel() {
    let (bench, other) = (Bench::new(), Bench::new());
    let edges: &dyn Edges = bench.ctx().private().edges().unwrap();
    let fd = edges.create_comp_channel().unwrap();
    let channel = |context| ibv_comp_channel {
        context,
        fd: fd.as_raw_fd(),
        refcnt: 0,
    };
    let mut own = channel(bench.context);
    let mut foreign = channel(other.context);
    bench.state.asked();
    // SAFETY: context and channels are live.
    unsafe {
        let create = bench.table().create_cq();
        let far = || create(bench.context, 1, &raw mut foreign, 0);
        assert_eq!(refused(far), Errno::INVAL);
        own.fd = -1;
        let closed = || create(bench.context, 1, &raw mut own, 0);
        assert_eq!(refused(closed), Errno(libc::EBADF));
        own.fd = fd.as_raw_fd();
        let cq = made(create(bench.context, 1, &raw mut own, 1));
        assert_eq!(bench.state.asked(), ["create_cq 1 true 1 false"]);
        let handle = CompChannel::from_raw(&raw mut own).unwrap();
        Cq::init(cq, bench.ctx(), Some(handle), null_mut());
        assert_eq!(bench.destroy_cq(cq), 0);
    }
    edges.destroy_comp_channel(fd.as_fd());
}

#[test]
fn polling_fills_the_callers_room() {
    let bench = Bench::new();
    let cq = bench.cq();
    fill(&bench, &[1, 2, 3]);
    let poll = bench.table().poll_cq();
    // SAFETY: the queue is live, with room for that many completions.
    unsafe {
        let mut room: [ibv_wc; 2] = zeroed();
        let at = room.as_mut_ptr();
        assert_eq!(poll(cq, 2, at), 2);
        assert_eq!((room[0].wr_id, room[1].wr_id), (1, 2));
        assert_eq!(poll(cq, 0, null_mut()), 0);
        assert_eq!(poll(cq, 1, null_mut()), -INVAL);
        assert_eq!(poll(cq, -1, at), -INVAL);
        bench.state.refuse(Errno::IO);
        assert_eq!(poll(cq, 1, at), -libc::EIO);
        assert_eq!(poll(cq, 2, at), 1);
        assert_eq!(poll(cq, 2, at), 0);
    }
    assert_eq!(bench.destroy_cq(cq), 0);
}

#[test]
fn an_extended_queue_has_the_readers_that_were_asked_for() {
    let bench = Bench::new();
    let all: u64 = 0x87f | 0x80;
    let cq = bench.cq_ex(all);
    let none = bench.cq_ex(0);
    fill(&bench, &[1]);
    // SAFETY: both queues are live.
    unsafe {
        // A copy: the readers write to the queue itself.
        let q = cq.read();
        assert_eq!((q.start_poll.unwrap())(cq, null_mut()), 0);
        assert_eq!(((*cq).wr_id, (*cq).status), (1, IBV_WC_REM_OP_ERR));
        assert_eq!((q.read_opcode.unwrap())(cq), IBV_WC_RECV);
        assert_eq!((q.read_vendor_err.unwrap())(cq), 3);
        assert_eq!((q.read_byte_len.unwrap())(cq), 4);
        assert_eq!((q.read_imm_data.unwrap())(cq), be32::new(5));
        assert_eq!((q.read_qp_num.unwrap())(cq), 6);
        assert_eq!((q.read_src_qp.unwrap())(cq), 7);
        assert_eq!((q.read_wc_flags.unwrap())(cq), IBV_WC_WITH_IMM);
        assert_eq!((q.read_slid.unwrap())(cq), 9);
        assert_eq!((q.read_sl.unwrap())(cq), 10);
        assert_eq!((q.read_dlid_path_bits.unwrap())(cq), 11);
        assert_eq!((q.read_completion_ts.unwrap())(cq), 12);
        assert_eq!((q.read_completion_wallclock_ns.unwrap())(cq), 13);
        (q.end_poll.unwrap())(cq);
        assert_eq!((q.read_opcode.unwrap())(cq), 0, "outside of a batch");
        let q = &*none;
        assert!(q.read_byte_len.is_none() && q.read_imm_data.is_none());
        assert!(q.read_qp_num.is_none() && q.read_src_qp.is_none());
        assert!(q.read_slid.is_none() && q.read_sl.is_none());
        assert!(q.read_dlid_path_bits.is_none() && q.read_completion_ts.is_none());
        assert!(q.read_completion_wallclock_ns.is_none() && q.read_cvlan.is_none());
        assert!(q.read_opcode.is_some() && q.read_flow_tag.is_none());
    }
    assert_eq!(bench.destroy_cq(cq.cast()), 0);
    assert_eq!(bench.destroy_cq(none.cast()), 0);
}

#[test]
fn batches_begin_move_on_and_end() {
    let bench = Bench::new();
    let cq = bench.cq_ex(0);
    // SAFETY: the queue is live; batches are started and ended by this thread.
    unsafe {
        let q = &*cq;
        let (start, next, end) = (
            q.start_poll.unwrap(),
            q.next_poll.unwrap(),
            q.end_poll.unwrap(),
        );
        let mut attr = ibv_poll_cq_attr { comp_mask: 0 };
        assert_eq!(start(cq, &raw mut attr), libc::ENOENT);
        assert_eq!(start(cq, &raw mut attr), libc::ENOENT, "not locked");
        assert_eq!(next(cq), INVAL, "no batch");
        end(cq);
        fill(&bench, &[1, 2, 3]);
        attr.comp_mask = 1;
        assert_eq!(start(cq, &raw mut attr), INVAL);
        assert_eq!(start(cq, null_mut()), 0);
        assert_eq!(next(cq), 0);
        assert_eq!((*cq).wr_id, 2);
        // The other way of polling is open all the time.
        let mut room: [ibv_wc; 2] = zeroed();
        let poll = bench.table().poll_cq();
        assert_eq!(poll(cq.cast(), 2, room.as_mut_ptr()), 1);
        assert_eq!(next(cq), libc::ENOENT);
        end(cq);
        assert_eq!(start(cq, null_mut()), libc::ENOENT);
        // Not an extended queue: nothing there.
        let plain = bench.cq();
        let as_ex = plain.cast::<ibv_cq_ex>();
        assert!((*as_ex).start_poll.is_none());
        assert_eq!(start(as_ex, null_mut()), INVAL);
        assert_eq!(bench.destroy_cq(plain), 0);
    }
    assert_eq!(bench.destroy_cq(cq.cast()), 0);
}

#[test]
fn a_continued_batch_ends_with_the_polled_completions() {
    let bench = Bench::new();
    let cq = bench.cq_ex(IBV_WC_EX_WITH_QP_NUM.into());
    fill(&bench, &[1]);
    bench.state.coming.lock().unwrap().push_back(polled(2));
    // SAFETY: the queue is live.
    unsafe {
        let q = &*cq;
        assert_eq!((q.start_poll.unwrap())(cq, null_mut()), 0);
        assert_eq!((q.next_poll.unwrap())(cq), libc::ENOENT);
        (q.end_poll.unwrap())(cq);
        assert_eq!((q.start_poll.unwrap())(cq, null_mut()), 0);
        assert_eq!((*cq).wr_id, 2);
        (q.end_poll.unwrap())(cq);
    }
    assert_eq!(bench.destroy_cq(cq.cast()), 0);
}

#[test]
fn two_threads_take_turns_in_batches() {
    let bench = Bench::new();
    let cq = bench.cq_ex(IBV_WC_EX_WITH_QP_NUM.into());
    const EACH: u64 = if cfg!(miri) { 20 } else { 2000 };
    fill(&bench, &(0..2 * EACH).collect::<Vec<_>>());
    let queue = cq.expose_provenance();
    let drain = move || {
        let cq: *mut ibv_cq_ex = core::ptr::with_exposed_provenance_mut(queue);
        let mut ids = Vec::new();
        // SAFETY: the queue is live; the current completion of a batch belongs to this thread.
        unsafe {
            let q = cq;
            while ((*q).start_poll.unwrap())(q, null_mut()) == 0 {
                let first = (*q).wr_id;
                ids.push(first);
                if ((*q).next_poll.unwrap())(q) == 0 {
                    assert_eq!((*q).wr_id, first + 1, "in a row");
                    ids.push((*q).wr_id);
                }
                ((*q).end_poll.unwrap())(q);
            }
        }
        ids
    };
    let other = thread::spawn(drain);
    let mut ids = drain();
    ids.extend(other.join().unwrap());
    ids.sort_unstable();
    assert_eq!(ids, (0..2 * EACH).collect::<Vec<_>>());
    assert_eq!(bench.destroy_cq(cq.cast()), 0);
}

#[test]
fn extended_queues_refuse_unsupported_attributes() {
    let bench = Bench::new();
    let pd = bench.pd();
    let create = bench.table().create_cq_ex();
    let check = |attr: &mut ibv_cq_init_attr_ex, e| {
        // SAFETY: the context is open, and the objects of the attributes are live.
        assert_eq!(refused(|| unsafe { create(bench.context, attr) }), e);
    };
    for flag in [
        IBV_WC_EX_WITH_CVLAN,
        IBV_WC_EX_WITH_FLOW_TAG,
        IBV_WC_EX_WITH_TM_INFO,
    ] {
        check(&mut cq_attr(flag.into()), Errno::OPNOTSUPP);
    }
    let mut attr = cq_attr(0);
    attr.comp_mask = 4;
    check(&mut attr, Errno::OPNOTSUPP);
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attr.flags = 4;
    check(&mut attr, Errno::OPNOTSUPP);
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    check(&mut attr, Errno::INVAL);
    attr.parent_domain = pd;
    check(&mut attr, Errno::INVAL);
    attr.comp_mask = 0;
    attr.cqe = 0;
    check(&mut attr, Errno::INVAL);
    attr.cqe = u32::MAX;
    check(&mut attr, Errno::INVAL);
    attr.cqe = 1;
    attr.comp_vector = 2;
    check(&mut attr, Errno::INVAL);
    // SAFETY: as above.
    unsafe {
        assert_eq!(refused(|| create(bench.context, null_mut())), Errno::INVAL);
        attr.comp_vector = 0;
        attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
        attr.flags = 3;
        bench.state.asked();
        let cq = made(create(bench.context, &raw mut attr)).cast();
        assert_eq!(bench.state.asked(), ["create_cq 1 false 0 true"]);
        Cq::init(cq, bench.ctx(), None, null_mut());
        assert_eq!(bench.destroy_cq(cq), 0);
    }
    assert_eq!(bench.dealloc_pd(pd), 0);
}

#[test]
fn a_queue_is_destroyed_once_and_freed_when_its_events_are_acknowledged() {
    let bench = Bench::new();
    let cq = bench.cq();
    *bench.state.reported.lock().unwrap() = ReportedEvents {
        completion: 3,
        asynchronous: 1,
    };
    // SAFETY: the queue stays until the last acknowledgement.
    let handle = unsafe { Cq::from_raw(cq) }.unwrap();
    handle.ack_comp(2);
    assert_eq!(bench.destroy_cq(cq), UNACKED);
    handle.ack_async(1);
    // The provider is not asked again, and would answer otherwise.
    *bench.state.reported.lock().unwrap() = ReportedEvents::default();
    assert_eq!(bench.destroy_cq(cq), UNACKED);
    assert_eq!(handle.acked(), [2, 1]);
    let at = cq.expose_provenance();
    thread::scope(|threads| {
        threads.spawn(|| {
            let cq = core::ptr::with_exposed_provenance_mut(at);
            // SAFETY: as above.
            unsafe { Cq::from_raw(cq) }.unwrap().ack_comp(1);
        });
        handle.wait_acked([2, 1]);
    });
    assert_eq!(bench.destroy_cq(cq), 0);
    assert!(bench.is_empty());
}

#[test]
fn a_queue_stays_while_a_queue_pair_uses_it() {
    let bench = Bench::new();
    let (pd, cq) = (bench.pd(), bench.cq());
    let qp = bench.qp(pd, cq, IBV_QPT_RC);
    assert_eq!(bench.destroy_cq(cq), BUSY);
    assert_eq!(bench.destroy_qp(qp), 0);
    bench.state.refuse(Errno::IO);
    assert_eq!(bench.destroy_cq(cq), libc::EIO);
    assert_eq!(bench.destroy_cq(cq), 0);
    assert_eq!(bench.dealloc_pd(pd), 0);
}

#[test]
fn the_address_of_a_queue_is_its_token() {
    let bench = Bench::new();
    let cq = bench.cq();
    // SAFETY: the queue is live, and its block begins with it.
    let object =
        unsafe { &*cq.cast::<super::super::object::Object<super::super::cq::Completions<Fake>>>() };
    let token = object.side.cq.value;
    assert_eq!(token.0, cq.addr() as u64);
    assert_eq!(bench.destroy_cq(cq), 0);
}
