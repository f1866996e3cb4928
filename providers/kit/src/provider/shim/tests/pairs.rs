//! Queue pairs and shared receive queues: making, asking, destroying.

use super::*;
use crate::abi::handle::{Pd, Qp, Srq, UNACKED};
use crate::provider::ReportedEvents;

#[test]
fn a_queue_pair_shows_its_creation_attributes() {
    let bench = Bench::new();
    let (pd, send, recv) = (bench.pd(), bench.cq(), bench.cq());
    let mut attr = qp_attr(send, IBV_QPT_RC);
    attr.recv_cq = recv;
    attr.qp_context = core::ptr::without_provenance_mut(77);
    bench.state.asked();
    // SAFETY: the objects of the attributes are live.
    unsafe {
        let qp = made((bench.table().create_qp())(pd, &raw mut attr));
        assert_eq!(
            bench.state.asked(),
            ["create_qp 2 pd=true cqs=11 srq=false xrcd=false all=true flags=0 ops=0"]
        );
        assert_eq!(attr.cap.max_send_wr, fake::SEND_WRS, "what there is");
        let c = &*qp;
        assert_eq!((c.context, c.pd), (bench.context, pd));
        assert_eq!((c.send_cq, c.recv_cq), (send, recv));
        assert_eq!((c.srq, c.qp_context.addr()), (null_mut(), 77));
        assert_eq!((c.qp_type, c.state), (IBV_QPT_RC, IBV_QPS_RESET));
        assert!(c.qp_num >= 100);
        assert!(Qp::from_raw(qp).unwrap().extended().is_null());
        assert_eq!(bench.destroy_cq(recv), BUSY);
        assert_eq!(bench.dealloc_pd(pd), BUSY);
        bench.state.refuse(Errno::BUSY);
        assert_eq!(bench.destroy_qp(qp), BUSY, "attached");
        assert_eq!(bench.destroy_qp(qp), 0);
    }
    assert_eq!(bench.destroy_qp(null_mut()), INVAL);
    assert_eq!(bench.destroy_cq(send), 0);
    assert_eq!(bench.destroy_cq(recv), 0);
    assert_eq!(bench.dealloc_pd(pd), 0);
}

#[test]
fn states_and_attributes_go_both_ways() {
    let bench = Bench::new();
    let (pd, cq) = (bench.pd(), bench.cq());
    let qp = bench.qp(pd, cq, IBV_QPT_RC);
    let (modify, query) = (bench.table().modify_qp(), bench.table().query_qp());
    // SAFETY: the queue pair is live; attributes are numbers.
    unsafe {
        let mut attr: ibv_qp_attr = zeroed();
        let mut init: ibv_qp_init_attr = zeroed();
        attr.qp_state = IBV_QPS_INIT;
        attr.rate_limit = 5;
        bench.state.refuse(Errno::INVAL);
        assert_eq!(modify(qp, &raw mut attr, 1), INVAL);
        assert_eq!((*qp).state, IBV_QPS_RESET);
        bench.state.asked();
        assert_eq!(modify(qp, &raw mut attr, 1), 0);
        assert_eq!((*qp).state, IBV_QPS_INIT);
        let with_limit = 1 | IBV_QP_RATE_LIMIT;
        assert_eq!(modify(qp, &raw mut attr, with_limit.cast_signed()), 0);
        assert_eq!(
            bench.state.asked(),
            [
                "modify_qp 1 0".to_owned(),
                format!("modify_qp {with_limit} 5")
            ]
        );
        assert_eq!(query(qp, &raw mut attr, 1, &raw mut init), 0);
        assert_eq!((attr.cap.max_send_wr, attr.rate_limit), (33, 5));
        assert_eq!((init.cap.max_send_wr, init.sq_sig_all), (33, 1));
        assert_eq!((init.send_cq, init.qp_type), (cq, IBV_QPT_RC));
        assert_eq!((*qp).state, IBV_QPS_SQE);
        let limit = IBV_QP_RATE_LIMIT.cast_signed();
        assert_eq!(query(qp, &raw mut attr, limit, &raw mut init), 0);
        assert_eq!(attr.rate_limit, 44);
        assert_eq!(query(qp, null_mut(), 1, &raw mut init), INVAL);
        assert_eq!(query(qp, &raw mut attr, 1, null_mut()), INVAL);
        assert_eq!(modify(qp, null_mut(), 1), INVAL);
    }
    assert_eq!(bench.destroy_qp(qp), 0);
    assert_eq!(bench.destroy_cq(cq), 0);
    assert_eq!(bench.dealloc_pd(pd), 0);
}

#[test]
fn groups_and_enhanced_connections() {
    let bench = Bench::new();
    let (pd, cq) = (bench.pd(), bench.cq());
    let qp = bench.qp(pd, cq, IBV_QPT_UD);
    let table = bench.table();
    let gid = ibv_gid { raw: [0xff; 16] };
    bench.state.asked();
    // SAFETY: the queue pair is live.
    unsafe {
        assert_eq!((table.attach_mcast())(qp, &raw const gid, 9), 0);
        assert_eq!((table.detach_mcast())(qp, &raw const gid, 9), 0);
        assert_eq!((table.attach_mcast())(qp, core::ptr::null(), 9), INVAL);
        assert_eq!((table.detach_mcast())(qp, core::ptr::null(), 9), INVAL);
        let mut ece = ibv_ece {
            vendor_id: 1,
            options: 6,
            comp_mask: 0,
        };
        assert_eq!((table.set_ece())(qp, &raw mut ece), 0);
        assert_eq!((table.query_ece())(qp, &raw mut ece), 0);
        assert_eq!((ece.vendor_id, ece.options), (1, 2));
        ece.comp_mask = 1;
        assert_eq!((table.set_ece())(qp, &raw mut ece), INVAL);
        assert_eq!((table.set_ece())(qp, null_mut()), INVAL);
        assert_eq!((table.query_ece())(qp, null_mut()), INVAL);
    }
    assert_eq!(
        bench.state.asked(),
        [
            "attach_mcast 255 9",
            "detach_mcast 255 9",
            "set_ece 6",
            "query_ece"
        ]
    );
    assert_eq!(bench.destroy_qp(qp), 0);
    assert_eq!(bench.destroy_cq(cq), 0);
    assert_eq!(bench.dealloc_pd(pd), 0);
}

#[test]
fn bad_attributes_make_no_queue_pair() {
    let (bench, other) = (Bench::new(), Bench::new());
    let (pd, cq) = (bench.pd(), bench.cq());
    let (far_pd, far_cq) = (other.pd(), other.cq());
    let create = bench.table().create_qp();
    bench.state.asked();
    let none = null_mut();
    for attr in [
        qp_attr(none, IBV_QPT_RC),
        qp_attr(far_cq, IBV_QPT_RC),
        qp_attr(cq, IBV_QPT_XRC_RECV),
    ] {
        let mut attr = attr;
        // SAFETY: the objects of the attributes are live.
        let make = || unsafe { create(pd, &raw mut attr) };
        assert_eq!(refused(make), Errno::INVAL);
    }
    let ex = |change: &dyn Fn(&mut ibv_qp_init_attr_ex)| {
        let mut attr = qp_attr_ex(cq, IBV_QPT_RC, pd, 0);
        change(&mut attr);
        refused(|| bench.qp_ex(&mut attr))
    };
    assert_eq!(ex(&|attr| attr.comp_mask = 0), Errno::INVAL);
    assert_eq!(ex(&|attr| attr.comp_mask |= 0x80), Errno::OPNOTSUPP);
    assert_eq!(ex(&|attr| attr.comp_mask |= 0x10), Errno::INVAL);
    assert_eq!(ex(&|attr| attr.comp_mask |= 0x20), Errno::INVAL);
    assert_eq!(ex(&|attr| attr.pd = far_pd), Errno::INVAL);
    assert_eq!(ex(&|attr| attr.pd = null_mut()), Errno::INVAL);
    assert_eq!(ex(&|attr| attr.send_ops_flags = 1 << 40), Errno::OPNOTSUPP);
    assert_eq!(
        ex(&|attr| {
            attr.qp_type = IBV_QPT_UD;
            attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ.into();
        }),
        Errno::OPNOTSUPP
    );
    assert_eq!(
        ex(&|attr| attr.qp_type = IBV_QPT_XRC_RECV),
        Errno::INVAL,
        "without its domain"
    );
    // SAFETY: context and domain are live.
    unsafe {
        assert_eq!(refused(|| create(pd, null_mut())), Errno::INVAL);
        let ex = bench.table().create_qp_ex();
        assert_eq!(refused(|| ex(bench.context, null_mut())), Errno::INVAL);
    }
    assert!(bench.state.asked().is_empty(), "the provider was not asked");
    bench.state.refuse(Errno::NOMEM);
    let mut attr = qp_attr(cq, IBV_QPT_RC);
    // SAFETY: as above.
    let make = || unsafe { create(pd, &raw mut attr) };
    assert_eq!(refused(make), Errno::NOMEM);
    assert_eq!(attr.cap.max_send_wr, 1, "as it was");
    assert_eq!(bench.destroy_cq(cq), 0, "nothing holds it");
    assert_eq!(bench.dealloc_pd(pd), 0);
    assert_eq!(other.destroy_cq(far_cq), 0);
    assert_eq!(other.dealloc_pd(far_pd), 0);
}

fn srq(bench: &Bench, pd: *mut ibv_pd) -> *mut ibv_srq {
    let mut attr = ibv_srq_init_attr {
        srq_context: null_mut(),
        attr: ibv_srq_attr {
            max_wr: 8,
            max_sge: 2,
            srq_limit: 0,
        },
    };
    // SAFETY: the domain is live, and the queue new.
    unsafe {
        let srq = made((bench.table().create_srq())(pd, &raw mut attr));
        assert_eq!(attr.attr.max_wr, 9, "what there is");
        Srq::init(srq, Pd::from_raw(pd).unwrap(), null_mut());
        srq
    }
}

#[test]
fn shared_receive_queues() {
    let bench = Bench::new();
    let (pd, cq) = (bench.pd(), bench.cq());
    let srq = srq(&bench, pd);
    let table = bench.table();
    let mut attr = qp_attr(cq, IBV_QPT_RC);
    attr.srq = srq;
    // SAFETY: all objects are live.
    unsafe {
        let qp = made((table.create_qp())(pd, &raw mut attr));
        assert_eq!((*qp).srq, srq);
        assert_eq!((table.destroy_srq())(srq), BUSY);
        assert_eq!(bench.destroy_qp(qp), 0);
        let mut limits: ibv_srq_attr = zeroed();
        assert_eq!((table.query_srq())(srq, &raw mut limits), 0);
        assert_eq!((limits.max_wr, limits.srq_limit), (5, 7));
        bench.state.asked();
        assert_eq!((table.modify_srq())(srq, &raw mut limits, 2), 0);
        assert_eq!(bench.state.asked(), ["modify_srq 7 2"]);
        assert_eq!((table.modify_srq())(srq, &raw mut limits, 4), INVAL);
        assert_eq!((table.modify_srq())(srq, null_mut(), 1), INVAL);
        assert_eq!((table.query_srq())(srq, null_mut()), INVAL);
        let mut number = 0;
        let num = table.get_srq_num();
        assert_eq!(num(srq, &raw mut number), libc::EOPNOTSUPP);
        attr.qp_type = IBV_QPT_XRC_SEND;
        let xrc = || (table.create_qp())(pd, &raw mut attr);
        assert_eq!(refused(xrc), Errno::INVAL);
        assert_eq!((table.destroy_srq())(srq), 0);
        assert_eq!((table.destroy_srq())(null_mut()), INVAL);
    }
    assert_eq!(bench.destroy_cq(cq), 0);
    assert_eq!(bench.dealloc_pd(pd), 0);
}

#[test]
fn xrc_objects_hold_their_domain() {
    let bench = Bench::new();
    let (pd, cq) = (bench.pd(), bench.cq());
    let table = bench.table();
    // SAFETY: all objects are live; attributes are numbers and pointers.
    unsafe {
        let mut init = ibv_xrcd_init_attr {
            comp_mask: 3,
            fd: -1,
            oflags: 0,
        };
        let xrcd = made((table.open_xrcd())(bench.context, &raw mut init));
        let mut attr: ibv_srq_init_attr_ex = zeroed();
        attr.comp_mask = 0xf;
        attr.srq_type = IBV_SRQT_XRC;
        attr.srq_context = core::ptr::without_provenance_mut(5);
        (attr.pd, attr.xrcd, attr.cq) = (pd, xrcd, cq);
        let create = table.create_srq_ex();
        let srq = made(create(bench.context, &raw mut attr));
        assert_eq!(((*srq).srq_context.addr(), (*srq).pd), (5, pd));
        let mut number = 0;
        assert_eq!((table.get_srq_num())(srq, &raw mut number), 0);
        assert_eq!((*srq.cast::<verbs_srq>()).srq_num, number);
        assert_eq!((table.get_srq_num())(srq, null_mut()), INVAL);
        assert_eq!((table.close_xrcd())(xrcd), BUSY);
        assert_eq!(bench.destroy_cq(cq), BUSY);

        let mut target = qp_attr_ex(null_mut(), IBV_QPT_XRC_RECV, null_mut(), 0);
        target.comp_mask = IBV_QP_INIT_ATTR_XRCD;
        target.xrcd = xrcd;
        bench.state.asked();
        let qp = made(bench.qp_ex(&mut target));
        assert_eq!(
            bench.state.asked(),
            ["create_qp 10 pd=false cqs=00 srq=false xrcd=true all=true flags=0 ops=0"]
        );
        let c = &*qp.cast::<verbs_qp_own>();
        assert_eq!((c.comp_mask, c.xrcd), (VERBS_QP_XRCD, xrcd.cast()));

        let mut open = ibv_qp_open_attr {
            comp_mask: 0xf,
            qp_num: (*qp).qp_num,
            xrcd,
            qp_context: core::ptr::without_provenance_mut(6),
            qp_type: IBV_QPT_XRC_RECV,
        };
        let open_qp = table.open_qp();
        let again = made(open_qp(bench.context, &raw mut open));
        assert_eq!((*again).qp_num, (*qp).qp_num);
        assert_eq!((*again).state, IBV_QPS_UNKNOWN);
        assert_eq!((*again).qp_context.addr(), 6);
        bench.state.refuse(Errno::INVAL);
        let unknown = || open_qp(bench.context, &raw mut open);
        assert_eq!(refused(unknown), Errno::INVAL);
        for (mask, qp_type, e) in [
            (0x1f, IBV_QPT_XRC_RECV, Errno::OPNOTSUPP),
            (3, IBV_QPT_XRC_RECV, Errno::INVAL),
            (0xf, IBV_QPT_RC, Errno::INVAL),
        ] {
            (open.comp_mask, open.qp_type) = (mask, qp_type);
            assert_eq!(refused(|| open_qp(bench.context, &raw mut open)), e);
        }
        assert_eq!(bench.destroy_qp(again), 0);
        assert_eq!((table.destroy_srq())(srq), 0);
        assert_eq!((table.close_xrcd())(xrcd), BUSY, "the target");
        assert_eq!(bench.destroy_qp(qp), 0);

        for (mask, srq_type, e) in [
            (0x3f, IBV_SRQT_XRC, Errno::OPNOTSUPP),
            (0xd, IBV_SRQT_XRC, Errno::INVAL),
            (0xb, IBV_SRQT_XRC, Errno::INVAL),
            (0x7, IBV_SRQT_XRC, Errno::INVAL),
            (0xf, IBV_SRQT_TM, Errno::OPNOTSUPP),
            (0xf, 9, Errno::INVAL),
        ] {
            (attr.comp_mask, attr.srq_type) = (mask, srq_type);
            assert_eq!(refused(|| create(bench.context, &raw mut attr)), e);
        }
        assert_eq!((table.close_xrcd())(xrcd), 0);
    }
    assert_eq!(bench.destroy_cq(cq), 0);
    assert_eq!(bench.dealloc_pd(pd), 0);
}

#[test]
fn queue_pairs_and_shared_queues_stay_until_their_events_are_acknowledged() {
    let bench = Bench::new();
    let (pd, cq) = (bench.pd(), bench.cq());
    let (qp, srq) = (bench.qp(pd, cq, IBV_QPT_RC), srq(&bench, pd));
    *bench.state.reported.lock().unwrap() = ReportedEvents {
        completion: 0,
        asynchronous: 2,
    };
    // SAFETY: both are live until the calls answer 0.
    unsafe {
        let destroy_srq = bench.table().destroy_srq();
        assert_eq!(bench.destroy_qp(qp), UNACKED);
        assert_eq!(destroy_srq(srq), UNACKED);
        let handle = Qp::from_raw(qp).unwrap();
        handle.ack_async(1);
        assert_eq!(bench.destroy_qp(qp), UNACKED);
        handle.ack_async(1);
        Srq::from_raw(srq).unwrap().ack_async(2);
        assert_eq!(bench.destroy_qp(qp), 0);
        assert_eq!(destroy_srq(srq), 0);
    }
    *bench.state.reported.lock().unwrap() = ReportedEvents::default();
    assert_eq!(bench.destroy_cq(cq), 0);
    assert_eq!(bench.dealloc_pd(pd), 0);
}
