//! Work queues, their tables, flow rules, counters.

use super::*;

fn wq_attr(pd: *mut ibv_pd, cq: *mut ibv_cq) -> ibv_wq_init_attr {
    ibv_wq_init_attr {
        wq_context: null_mut(),
        wq_type: IBV_WQT_RQ,
        max_wr: 4,
        max_sge: 2,
        pd,
        cq,
        comp_mask: 0,
        create_flags: 99,
    }
}

fn wq(bench: &Bench, attr: &mut ibv_wq_init_attr) -> *mut ibv_wq {
    // SAFETY: the objects of the attributes are live, or NULL.
    unsafe { (bench.table().create_wq())(bench.context, attr) }
}

fn destroy_wq(bench: &Bench, wq: *mut ibv_wq) -> c_int {
    // SAFETY: the queue is live or NULL.
    unsafe { (bench.table().destroy_wq())(wq) }
}

#[test]
fn work_queues_are_made_changed_and_given_back() {
    let bench = Bench::new();
    let (pd, cq) = (bench.pd(), bench.cq());
    bench.state.asked();
    let mut attr = wq_attr(pd, cq);
    let queue = made(wq(&bench, &mut attr));
    assert_eq!(attr.max_wr, 5);
    let modify = bench.table().modify_wq();
    let mut change = ibv_wq_attr {
        attr_mask: IBV_WQ_ATTR_STATE,
        wq_state: IBV_WQS_RDY,
        curr_wq_state: 77,
        flags: 1,
        flags_mask: 2,
    };
    // SAFETY: the queue is live.
    unsafe {
        assert_eq!(((*queue).pd, (*queue).cq), (pd, cq));
        assert_eq!((*queue).state, IBV_WQS_RESET);
        assert_eq!(modify(queue, &raw mut change), 0);
        assert_eq!((*queue).state, IBV_WQS_RDY);
        change.wq_state = IBV_WQS_UNKNOWN;
        assert_eq!(modify(queue, &raw mut change), INVAL);
        change.attr_mask = IBV_WQ_ATTR_FLAGS;
        assert_eq!(modify(queue, &raw mut change), 0);
        change.attr_mask = 8;
        assert_eq!(modify(queue, &raw mut change), INVAL);
        assert_eq!(modify(queue, null_mut()), INVAL);
        assert_eq!(modify(null_mut(), &raw mut change), INVAL);
    }
    assert_eq!(
        bench.state.asked(),
        [
            "create_wq 4 2 0",
            "modify_wq Some(1) None None",
            "modify_wq None None Some((1, 2))",
        ]
    );
    assert_eq!(bench.destroy_cq(cq), BUSY);
    bench.state.refuse(Errno::IO);
    assert_eq!(destroy_wq(&bench, queue), libc::EIO);
    assert_eq!(destroy_wq(&bench, queue), 0);
    assert_eq!(destroy_wq(&bench, null_mut()), INVAL);
    attr.wq_type = 9;
    assert_eq!(refused(|| wq(&bench, &mut attr)), Errno::INVAL);
    let mut attr = wq_attr(pd, null_mut());
    assert_eq!(refused(|| wq(&bench, &mut attr)), Errno::INVAL);
    attr.comp_mask = 2;
    assert_eq!(refused(|| wq(&bench, &mut attr)), Errno::OPNOTSUPP);
    assert_eq!(bench.destroy_cq(cq), 0);
    assert_eq!(bench.dealloc_pd(pd), 0);
    assert!(bench.is_empty());
}

#[test]
fn work_queues_take_requests() {
    let bench = Bench::new();
    let (pd, cq) = (bench.pd(), bench.cq());
    let queue = made(wq(&bench, &mut wq_attr(pd, cq)));
    let mut requests: Vec<ibv_recv_wr> = (0..5)
        .map(|wr_id| ibv_recv_wr {
            wr_id,
            next: null_mut(),
            sg_list: null_mut(),
            num_sge: 0,
        })
        .collect();
    for at in 0..4 {
        requests[at].next = &raw mut requests[at + 1];
    }
    let mut bad = null_mut();
    // SAFETY: the queue is live, the chain good.
    let answer = unsafe {
        let post = (*queue).post_recv.expect("given");
        post(queue, requests.as_mut_ptr(), &raw mut bad)
    };
    assert_eq!(answer, libc::ENOMEM);
    // SAFETY: one of the requests.
    assert_eq!(unsafe { (*bad).wr_id }, 4);
    assert_eq!(destroy_wq(&bench, queue), 0);
    assert_eq!(bench.destroy_cq(cq), 0);
    assert_eq!(bench.dealloc_pd(pd), 0);
}

#[test]
fn tables_hold_their_queues_and_queue_pairs_their_table() {
    let bench = Bench::new();
    let (pd, cq) = (bench.pd(), bench.cq());
    let queue = made(wq(&bench, &mut wq_attr(pd, cq)));
    let mut list = [queue; 4];
    let mut attr = ibv_rwq_ind_table_init_attr {
        log_ind_tbl_size: 2,
        ind_tbl: list.as_mut_ptr(),
        comp_mask: 0,
    };
    let (create, destroy) = (
        bench.table().create_rwq_ind_table(),
        bench.table().destroy_rwq_ind_table(),
    );
    // SAFETY: the context is open, the list as long as stated.
    let table = made(unsafe { create(bench.context, &raw mut attr) });
    assert_eq!(destroy_wq(&bench, queue), BUSY);
    let mut key = [1u8; 40];
    let mut init = qp_attr_ex(null_mut(), IBV_QPT_RAW_PACKET, pd, 0);
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    init.rwq_ind_tbl = table;
    init.rx_hash_conf = ibv_rx_hash_conf {
        rx_hash_function: 1,
        rx_hash_key_len: 40,
        rx_hash_key: key.as_mut_ptr(),
        rx_hash_fields_mask: 3,
    };
    bench.state.asked();
    let qp = made(bench.qp_ex(&mut init));
    let asked = bench.state.asked();
    assert!(asked[0].contains("cqs=00"), "{asked:?}");
    assert_eq!(asked[1], "rss 4 1 40 3");
    // SAFETY: the table is live.
    assert_eq!(unsafe { destroy(table) }, BUSY);
    assert_eq!(bench.destroy_qp(qp), 0);
    init.rx_hash_conf.rx_hash_key = null_mut();
    assert_eq!(refused(|| bench.qp_ex(&mut init)), Errno::INVAL);
    init.rx_hash_conf.rx_hash_key = key.as_mut_ptr();
    init.qp_type = IBV_QPT_UD;
    assert_eq!(refused(|| bench.qp_ex(&mut init)), Errno::INVAL);
    init.qp_type = IBV_QPT_RAW_PACKET;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE;
    assert_eq!(refused(|| bench.qp_ex(&mut init)), Errno::INVAL);
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH;
    assert_eq!(refused(|| bench.qp_ex(&mut init)), Errno::INVAL);
    // SAFETY: as above.
    unsafe {
        assert_eq!(destroy(table), 0);
        assert_eq!(destroy(null_mut()), INVAL);
        attr.log_ind_tbl_size = 40;
        let again = || create(bench.context, &raw mut attr);
        assert_eq!(refused(again), Errno::INVAL);
        attr.log_ind_tbl_size = 2;
        list[3] = null_mut();
        attr.ind_tbl = list.as_mut_ptr();
        let again = || create(bench.context, &raw mut attr);
        assert_eq!(refused(again), Errno::INVAL);
    }
    assert_eq!(destroy_wq(&bench, queue), 0);
    assert_eq!(bench.destroy_cq(cq), 0);
    assert_eq!(bench.dealloc_pd(pd), 0);
}

/// A rule as a program lays it out.
#[repr(C)]
struct Program {
    attr: ibv_flow_attr,
    eth: ibv_flow_spec_eth,
    tag: ibv_flow_spec_action_tag,
    count: [u8; 16],
}

const SIZES: [usize; 3] = [
    size_of::<ibv_flow_spec_eth>(),
    size_of::<ibv_flow_spec_action_tag>(),
    size_of::<ibv_flow_spec_counter_action>(),
];

fn program(counters: *mut ibv_counters) -> Program {
    // SAFETY: numbers, for which zeros are values.
    let mut program: Program = unsafe { zeroed() };
    program.attr.num_of_specs = 3;
    program.attr.priority = 6;
    program.attr.port = 1;
    program.eth.type_ = IBV_FLOW_SPEC_ETH;
    program.eth.size = u16::try_from(SIZES[0]).unwrap();
    program.eth.mask.dst_mac = [0xf0; 6];
    program.tag.type_ = IBV_FLOW_SPEC_ACTION_TAG;
    program.tag.size = u16::try_from(SIZES[1]).unwrap();
    program.tag.tag_id = 9;
    program.count[..4].copy_from_slice(&IBV_FLOW_SPEC_ACTION_COUNT.to_ne_bytes());
    program.count[4..6].copy_from_slice(&u16::try_from(SIZES[2]).unwrap().to_ne_bytes());
    let address = counters.expose_provenance();
    program.count[8..].copy_from_slice(&address.to_ne_bytes());
    program
}

// One specification stands right behind the other.
const _: () = assert!(size_of::<Program>() == size_of::<ibv_flow_attr>() + 40 + 12 + 16);

#[test]
fn rules_are_read_as_they_were_written() {
    let bench = Bench::new();
    let (pd, cq) = (bench.pd(), bench.cq());
    let qp = bench.qp(pd, cq, IBV_QPT_RAW_PACKET);
    let (create, destroy) = (bench.table().create_flow(), bench.table().destroy_flow());
    let mut init = ibv_counters_init_attr { comp_mask: 0 };
    // SAFETY: all objects are live; the program lies as create_flow wants it.
    unsafe {
        let counters = made((bench.table().create_counters())(
            bench.context,
            &raw mut init,
        ));
        let mut program = program(counters);
        let program = &raw mut program;
        let attr = program.cast::<ibv_flow_attr>();
        bench.state.asked();
        let flow = made(create(qp, attr));
        assert_eq!((*flow).context, bench.context);
        assert_eq!(
            bench.state.asked(),
            ["create_flow 0 6 1 0 0x20:16/Some(240) tag 9 count"]
        );
        assert_eq!(bench.destroy_qp(qp), BUSY);
        assert_eq!((bench.table().destroy_counters())(counters), BUSY);
        bench.state.refuse(Errno::IO);
        assert_eq!(destroy(flow), libc::EIO);
        assert_eq!(destroy(flow), 0);
        assert_eq!(destroy(null_mut()), INVAL);
        bench.state.refuse(Errno::OPNOTSUPP);
        assert_eq!(refused(|| create(qp, attr)), Errno::OPNOTSUPP);
        assert_eq!(refused(|| create(qp, null_mut())), Errno::INVAL);
        assert_eq!(refused(|| create(null_mut(), attr)), Errno::INVAL);
        (*program).tag.size = 8;
        assert_eq!(refused(|| create(qp, attr)), Errno::INVAL, "no tag in it");
        (*program).tag.size = 4;
        assert_eq!(refused(|| create(qp, attr)), Errno::INVAL, "no header");
        (*program).tag.size = 12;
        (*program).eth.size = 30;
        (*program).attr.num_of_specs = 1;
        assert_eq!(refused(|| create(qp, attr)), Errno::INVAL, "no mask in it");
        (*program).eth.type_ = 0x77;
        assert_eq!(refused(|| create(qp, attr)), Errno::INVAL);
        (*program).eth.type_ = IBV_FLOW_SPEC_ACTION_HANDLE;
        assert_eq!(refused(|| create(qp, attr)), Errno::OPNOTSUPP);
        (*program).attr.comp_mask = 1;
        assert_eq!(refused(|| create(qp, attr)), Errno::OPNOTSUPP);
        assert_eq!((bench.table().destroy_counters())(counters), 0);
    }
    assert_eq!(bench.destroy_qp(qp), 0);
    assert_eq!(bench.destroy_cq(cq), 0);
    assert_eq!(bench.dealloc_pd(pd), 0);
    assert!(bench.is_empty());
}

#[test]
fn counters_are_attached_before_they_are_bound() {
    let bench = Bench::new();
    let mut init = ibv_counters_init_attr { comp_mask: 1 };
    let (create, attach, read, destroy) = (
        bench.table().create_counters(),
        bench.table().attach_counters_point_flow(),
        bench.table().read_counters(),
        bench.table().destroy_counters(),
    );
    let mut point = ibv_counter_attach_attr {
        counter_desc: IBV_COUNTER_BYTES,
        index: 3,
        comp_mask: 0,
    };
    let mut values = [1u64; 4];
    // SAFETY: the counters are live, the list as long as stated.
    unsafe {
        let again = || create(bench.context, &raw mut init);
        assert_eq!(refused(again), Errno::OPNOTSUPP);
        assert_eq!(refused(|| create(bench.context, null_mut())), Errno::INVAL);
        init.comp_mask = 0;
        let counters = made(create(bench.context, &raw mut init));
        bench.state.asked();
        assert_eq!(attach(counters, &raw mut point, null_mut()), 0);
        assert_eq!(read(counters, values.as_mut_ptr(), 4, 1), 0);
        assert_eq!(values, [7; 4]);
        assert_eq!(
            bench.state.asked(),
            ["attach_counter 1 3", "read_counters 4"]
        );
        assert_eq!(read(counters, values.as_mut_ptr(), 4, 2), INVAL);
        assert_eq!(read(counters, null_mut(), 4, 0), INVAL);
        point.comp_mask = 1;
        let answer = attach(counters, &raw mut point, null_mut());
        assert_eq!(answer, libc::EOPNOTSUPP);
        assert_eq!(attach(counters, null_mut(), null_mut()), INVAL);
        assert_eq!(destroy(counters), 0);
        assert_eq!(destroy(null_mut()), INVAL);
    }
    assert!(bench.is_empty());
}
