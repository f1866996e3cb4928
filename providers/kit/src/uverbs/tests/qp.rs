//! Queue pairs.

use super::commands::{handle, method, number, reported, written};
use crate::abi::handle::{QpAnswer, QpChange};
use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::*;
use crate::abi::*;
use crate::errno::Errno;
use crate::sys::command::EXTENDED;
use crate::uverbs::qp::{self, CreatedQp, NewQp, Queues};
use crate::uverbs::{Driver, Ioctl};
use bytemuck::Zeroable;
use proptest::prelude::*;

const CAP: ib_uverbs_qp_cap = ib_uverbs_qp_cap {
    max_send_wr: 1,
    max_recv_wr: 2,
    max_send_sge: 3,
    max_recv_sge: 4,
    max_inline_data: 5,
};
const QUEUES: Queues = Queues::Domain {
    pd: 3,
    send_cq: Some(7),
    recv_cq: Some(8),
    ind_table: None,
};
const RC: NewQp = NewQp {
    user_handle: 0x1234_5678_9abc,
    qp_type: IBV_QPT_RC,
    queues: QUEUES,
    srq: None,
    cap: CAP,
    signal_all: false,
    flags: None,
    source_qpn: 0,
    async_fd: 5,
};
const SPREAD: NewQp = NewQp {
    qp_type: IBV_QPT_RAW_PACKET,
    queues: Queues::Domain {
        pd: 3,
        send_cq: None,
        recv_cq: None,
        ind_table: Some(12),
    },
    cap: ib_uverbs_qp_cap {
        max_recv_wr: 0,
        max_recv_sge: 0,
        ..CAP
    },
    ..RC
};

fn has(call: &Ioctl<'_>, id: u16) -> bool {
    call.attrs().iter().any(|a| a.id == id)
}

fn answer(call: &mut Ioctl<'_>) {
    call.answer(UVERBS_ATTR_CREATE_QP_HANDLE, &[77]);
    call.answer(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &99_u32.to_ne_bytes());
    let cap = ib_uverbs_qp_cap {
        max_send_wr: 64,
        ..CAP
    };
    call.answer(UVERBS_ATTR_CREATE_QP_RESP_CAP, bytemuck::bytes_of(&cap));
}

fn check(made: CreatedQp) {
    assert_eq!((made.handle, made.qp_num), (77, 99));
    assert_eq!((made.cap.max_send_wr, made.cap.max_recv_sge), (64, 4));
}

#[test]
fn creates_by_the_method() {
    let new = NewQp {
        srq: Some(9),
        signal_all: true,
        flags: Some(IBV_QP_CREATE_SOURCE_QPN | IBV_QP_CREATE_SCATTER_FCS),
        source_qpn: 1,
        ..RC
    };
    let kernel = method(|call| {
        assert_eq!(call.target(), (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE));
        assert_eq!(handle(call, UVERBS_ATTR_CREATE_QP_PD_HANDLE), 3);
        assert_eq!(handle(call, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE), 7);
        assert_eq!(handle(call, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE), 8);
        assert_eq!(handle(call, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE), 9);
        assert_eq!(handle(call, UVERBS_ATTR_CREATE_QP_EVENT_FD), 5);
        assert_eq!(number(call, UVERBS_ATTR_CREATE_QP_TYPE), 2);
        assert_eq!(number(call, UVERBS_ATTR_CREATE_QP_FLAGS), 0x1100);
        assert_eq!(number(call, UVERBS_ATTR_CREATE_QP_SOURCE_QPN), 1);
        let cap = call.input(UVERBS_ATTR_CREATE_QP_CAP).unwrap();
        assert_eq!(cap, bytemuck::bytes_of(&CAP));
        assert!(!has(call, UVERBS_ATTR_CREATE_QP_XRCD_HANDLE));
        assert!(!has(call, UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE));
        answer(call);
    });
    check(qp::create_qp(&kernel, &new, &mut Driver::none()).unwrap());
}

#[test]
fn a_plain_one_has_no_flags() {
    let kernel = method(|call| {
        assert!(!has(call, UVERBS_ATTR_CREATE_QP_FLAGS));
        assert!(!has(call, UVERBS_ATTR_CREATE_QP_SOURCE_QPN));
        assert!(!has(call, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE));
        answer(call);
    });
    check(qp::create_qp(&kernel, &RC, &mut Driver::none()).unwrap());
}

#[test]
fn the_ends_of_xrc() {
    let kernel = method(|call| {
        assert_eq!(handle(call, UVERBS_ATTR_CREATE_QP_XRCD_HANDLE), 11);
        assert!(!has(call, UVERBS_ATTR_CREATE_QP_PD_HANDLE));
        assert!(!has(call, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE));
        answer(call);
    });
    let receiver = NewQp {
        qp_type: IBV_QPT_XRC_RECV,
        queues: Queues::Xrc(11),
        ..RC
    };
    check(qp::create_qp(&kernel, &receiver, &mut Driver::none()).unwrap());

    let kernel = method(|call| {
        let cap = call.input(UVERBS_ATTR_CREATE_QP_CAP).unwrap();
        let cap: ib_uverbs_qp_cap = bytemuck::pod_read_unaligned(&cap);
        assert_eq!(
            (cap.max_recv_wr, cap.max_recv_sge, cap.max_send_wr),
            (0, 0, 1)
        );
        answer(call);
    });
    let sender = NewQp {
        qp_type: IBV_QPT_XRC_SEND,
        ..RC
    };
    check(qp::create_qp(&kernel, &sender, &mut Driver::none()).unwrap());
}

fn created() -> ib_uverbs_create_qp_resp {
    ib_uverbs_create_qp_resp {
        qp_handle: 77,
        qpn: 99,
        max_send_wr: 64,
        max_recv_wr: 2,
        max_send_sge: 3,
        max_recv_sge: 4,
        max_inline_data: 5,
        reserved: 0,
    }
}

#[test]
fn writes_the_plain_command() {
    let kernel = written(&created());
    let new = NewQp {
        srq: Some(0),
        signal_all: true,
        ..RC
    };
    check(qp::create_qp(&kernel, &new, &mut Driver::none()).unwrap());
    let (number, c) = reported::<ib_uverbs_create_qp>(&kernel);
    assert_eq!(number, IB_USER_VERBS_CMD_CREATE_QP);
    assert_eq!((c.pd_handle, c.send_cq_handle, c.recv_cq_handle), (3, 7, 8));
    assert_eq!(
        (c.is_srq, c.srq_handle, c.sq_sig_all, c.qp_type),
        (1, 0, 1, 2)
    );
    assert_eq!((c.max_send_wr, c.max_recv_wr, c.max_inline_data), (1, 2, 5));

    let kernel = written(&created());
    let receiver = NewQp {
        qp_type: IBV_QPT_XRC_RECV,
        queues: Queues::Xrc(11),
        ..RC
    };
    check(qp::create_qp(&kernel, &receiver, &mut Driver::none()).unwrap());
    let (_, c) = reported::<ib_uverbs_create_qp>(&kernel);
    assert_eq!(
        (c.pd_handle, c.send_cq_handle, c.recv_cq_handle),
        (11, 0, 0)
    );
}

#[test]
fn writes_the_extended_command_for_flags_and_tables() {
    let answer = ib_uverbs_ex_create_qp_resp {
        base: created(),
        comp_mask: 0,
        response_length: 40,
    };
    let kernel = written(&answer);
    check(qp::create_qp(&kernel, &SPREAD, &mut Driver::none()).unwrap());
    let (number, c) = reported::<ib_uverbs_ex_create_qp>(&kernel);
    assert_eq!(number, IB_USER_VERBS_EX_CMD_CREATE_QP | EXTENDED);
    assert_eq!(
        (c.comp_mask, c.rwq_ind_tbl_handle, c.create_flags),
        (1, 12, 0)
    );

    let kernel = written(&answer);
    let new = NewQp {
        flags: Some(IBV_QP_CREATE_SOURCE_QPN),
        source_qpn: 1,
        ..RC
    };
    check(qp::create_qp(&kernel, &new, &mut Driver::none()).unwrap());
    let (_, c) = reported::<ib_uverbs_ex_create_qp>(&kernel);
    assert_eq!((c.comp_mask, c.create_flags, c.source_qpn), (0, 0x400, 1));
}

#[test]
fn refuses_contradictory_attributes() {
    let own_queue = Queues::Domain {
        pd: 3,
        send_cq: None,
        recv_cq: Some(8),
        ind_table: Some(12),
    };
    for bad in [
        NewQp { qp_type: 1, ..RC },
        NewQp {
            qp_type: 256 + IBV_QPT_RC,
            ..RC
        },
        NewQp {
            qp_type: IBV_QPT_XRC_RECV,
            ..RC
        },
        NewQp {
            queues: Queues::Xrc(11),
            ..RC
        },
        NewQp {
            flags: Some(1),
            ..RC
        },
        NewQp {
            queues: own_queue,
            ..SPREAD
        },
        NewQp {
            srq: Some(1),
            ..SPREAD
        },
        NewQp { cap: CAP, ..SPREAD },
    ] {
        let kernel = method(|_| panic!("asked"));
        let refused = qp::create_qp(&kernel, &bad, &mut Driver::none());
        assert_eq!(refused.err(), Some(Errno::INVAL), "{bad:?}");
    }
}

#[test]
fn opens_and_ends() {
    let kernel = written(&created());
    let opened = qp::open_qp(&kernel, (11, 99), IBV_QPT_XRC_RECV, 5, &mut Driver::none());
    assert_eq!(opened, Ok(77));
    let (number, c) = reported::<ib_uverbs_open_qp>(&kernel);
    assert_eq!(number, IB_USER_VERBS_CMD_OPEN_QP);
    assert_eq!(
        (c.pd_handle, c.qpn, c.qp_type, c.user_handle),
        (11, 99, 10, 5)
    );
    let refused = qp::open_qp(&written(&()), (11, 99), 256, 5, &mut Driver::none());
    assert_eq!(refused, Err(Errno::INVAL));

    let kernel = method(|call| {
        assert_eq!(handle(call, UVERBS_ATTR_DESTROY_QP_HANDLE), 77);
        call.answer(UVERBS_ATTR_DESTROY_QP_RESP, &6_u32.to_ne_bytes());
    });
    assert_eq!(qp::destroy_qp(&kernel, 77), Ok(Some(6)));
    let kernel = written(&ib_uverbs_destroy_qp_resp { events_reported: 6 });
    assert_eq!(qp::destroy_qp(&kernel, 77), Ok(Some(6)));
}

fn attributes(fill: u8) -> ibv_qp_attr {
    let reported = ib_uverbs_query_qp_resp {
        dest: dest(fill),
        alt_dest: dest(fill.wrapping_add(1)),
        qkey: fill.into(),
        ..full_response(fill)
    };
    let mut attr = blank();
    qp::read_attr(&mut QpAnswer::new(&mut attr), &reported);
    attr.en_sqd_async_notify = fill;
    attr
}

fn blank() -> ibv_qp_attr {
    let ah = ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: [0; 16] },
            flow_label: 0,
            sgid_index: 0,
            hop_limit: 0,
            traffic_class: 0,
        },
        dlid: 0,
        sl: 0,
        src_path_bits: 0,
        static_rate: 0,
        is_global: 0,
        port_num: 0,
    };
    ibv_qp_attr {
        qp_state: 0,
        cur_qp_state: 0,
        path_mtu: 0,
        path_mig_state: 0,
        qkey: 0,
        rq_psn: 0,
        sq_psn: 0,
        dest_qp_num: 0,
        qp_access_flags: 0,
        cap: ib_uverbs_qp_cap::default().into(),
        ah_attr: ah,
        alt_ah_attr: ah,
        pkey_index: 0,
        alt_pkey_index: 0,
        en_sqd_async_notify: 0,
        sq_draining: 0,
        max_rd_atomic: 0,
        max_dest_rd_atomic: 0,
        min_rnr_timer: 0,
        port_num: 0,
        timeout: 0,
        retry_cnt: 0,
        rnr_retry: 0,
        alt_port_num: 0,
        alt_timeout: 0,
        rate_limit: 0,
    }
}

fn dest(fill: u8) -> ib_uverbs_qp_dest {
    let mut dest: ib_uverbs_qp_dest = bytemuck::pod_read_unaligned(&[fill; 32]);
    dest.reserved = 0;
    dest
}

fn full_response(fill: u8) -> ib_uverbs_query_qp_resp {
    bytemuck::pod_read_unaligned(&[fill; 128])
}

/// The mask bits, each with the bytes of the command that it fills.
fn fields() -> Vec<(u32, Vec<core::ops::Range<usize>>)> {
    use core::mem::offset_of;
    type C = ib_uverbs_modify_qp;
    let at = |from: usize, len: usize| std::iter::once(from..from + len).collect::<Vec<_>>();
    vec![
        (IBV_QP_STATE, at(offset_of!(C, qp_state), 1)),
        (IBV_QP_CUR_STATE, at(offset_of!(C, cur_qp_state), 1)),
        (
            IBV_QP_EN_SQD_ASYNC_NOTIFY,
            at(offset_of!(C, en_sqd_async_notify), 1),
        ),
        (IBV_QP_ACCESS_FLAGS, at(offset_of!(C, qp_access_flags), 4)),
        (IBV_QP_PKEY_INDEX, at(offset_of!(C, pkey_index), 2)),
        (IBV_QP_PORT, at(offset_of!(C, port_num), 1)),
        (IBV_QP_QKEY, at(offset_of!(C, qkey), 4)),
        // Without the reserved part of the destination.
        (IBV_QP_AV, vec![0..22, 24..32]),
        (IBV_QP_PATH_MTU, at(offset_of!(C, path_mtu), 1)),
        (IBV_QP_TIMEOUT, at(offset_of!(C, timeout), 1)),
        (IBV_QP_RETRY_CNT, at(offset_of!(C, retry_cnt), 1)),
        (IBV_QP_RNR_RETRY, at(offset_of!(C, rnr_retry), 1)),
        (IBV_QP_RQ_PSN, at(offset_of!(C, rq_psn), 4)),
        (IBV_QP_MAX_QP_RD_ATOMIC, at(offset_of!(C, max_rd_atomic), 1)),
        (
            IBV_QP_ALT_PATH,
            vec![
                32..54,
                56..64,
                offset_of!(C, alt_pkey_index)..offset_of!(C, alt_pkey_index) + 2,
                offset_of!(C, alt_port_num)..offset_of!(C, alt_port_num) + 1,
                offset_of!(C, alt_timeout)..offset_of!(C, alt_timeout) + 1,
            ],
        ),
        (IBV_QP_MIN_RNR_TIMER, at(offset_of!(C, min_rnr_timer), 1)),
        (IBV_QP_SQ_PSN, at(offset_of!(C, sq_psn), 4)),
        (
            IBV_QP_MAX_DEST_RD_ATOMIC,
            at(offset_of!(C, max_dest_rd_atomic), 1),
        ),
        (IBV_QP_PATH_MIG_STATE, at(offset_of!(C, path_mig_state), 1)),
        (IBV_QP_DEST_QPN, at(offset_of!(C, dest_qp_num), 4)),
    ]
}

proptest! {
    #[test]
    fn a_mask_names_the_bytes_that_are_filled(mask: u32, qp: u32) {
        // No byte of these attributes is zero, so a filled byte shows.
        let mut attr = attributes(0x5a);
        attr.qkey = 0x5a5a_5a5a;
        let command = qp::modify_command(qp, QpChange::new(&attr, mask));
        prop_assert_eq!((command.qp_handle, command.attr_mask), (qp, mask));
        let mut expected = ib_uverbs_modify_qp::zeroed();
        expected.qp_handle = qp;
        expected.attr_mask = mask;
        let mut filled = bytemuck::bytes_of(&command).to_vec();
        for (bit, ranges) in fields() {
            for range in ranges {
                if mask & bit != 0 {
                    prop_assert!(filled[range.clone()].iter().all(|&b| b != 0));
                    filled[range].fill(0);
                }
            }
        }
        prop_assert_eq!(filled, bytemuck::bytes_of(&expected).to_vec());
    }

    #[test]
    fn attributes_come_back_as_reported(fill: u8) {
        let attr = attributes(fill);
        let byte = u32::from(fill);
        let word = u32::from_ne_bytes([fill; 4]);
        prop_assert_eq!((attr.qp_state, attr.cur_qp_state, attr.path_mtu), (byte, byte, byte));
        prop_assert_eq!((attr.rq_psn, attr.sq_psn, attr.dest_qp_num), (word, word, word));
        prop_assert_eq!(attr.cap.max_inline_data, word);
        prop_assert_eq!(attr.ah_attr.grh.dgid.bytes(), [fill; 16]);
        prop_assert_eq!(attr.alt_ah_attr.grh.dgid.bytes(), [fill.wrapping_add(1); 16]);
        prop_assert_eq!((attr.rate_limit, attr.en_sqd_async_notify), (0, fill));
        let command = qp::modify_command(1, QpChange::new(&attr, IBV_QP_AV | IBV_QP_ALT_PATH));
        let (primary, alternate) = (dest(fill), dest(fill.wrapping_add(1)));
        prop_assert_eq!(bytemuck::bytes_of(&command.dest), bytemuck::bytes_of(&primary));
        prop_assert_eq!(bytemuck::bytes_of(&command.alt_dest), bytemuck::bytes_of(&alternate));
    }
}

#[test]
fn a_state_too_large_is_not_taken_for_another() {
    let mut attr = blank();
    attr.qp_state = 0x103;
    let command = qp::modify_command(1, QpChange::new(&attr, IBV_QP_STATE));
    assert_eq!(command.qp_state, u8::MAX);
}

#[test]
fn the_rate_limit_needs_the_extended_command() {
    let limited = ib_uverbs_modify_qp {
        attr_mask: IBV_QP_RATE_LIMIT,
        ..Default::default()
    };
    let none = &mut Driver::none();
    let refused = qp::modify_qp(&written(&()), &limited, none);
    assert_eq!(refused, Err(Errno::OPNOTSUPP));
    let refused = qp::query_qp(&written(&()), 1, IBV_QP_RATE_LIMIT, none);
    assert_eq!(refused.err(), Some(Errno::OPNOTSUPP));

    for (attr_mask, reported_limit) in [(IBV_QP_RATE_LIMIT, 50), (IBV_QP_STATE, 0)] {
        let kernel = written(&ib_uverbs_ex_modify_qp_resp::default());
        let base = ib_uverbs_modify_qp {
            attr_mask,
            ..Default::default()
        };
        qp::modify_qp_ex(&kernel, base, 50, none).unwrap();
        let (number, c) = reported::<ib_uverbs_ex_modify_qp>(&kernel);
        assert_eq!(number, IB_USER_VERBS_EX_CMD_MODIFY_QP | EXTENDED);
        assert_eq!(
            (c.base.attr_mask, c.rate_limit),
            (attr_mask, reported_limit)
        );
    }
}

#[test]
fn modifies_and_queries() {
    let kernel = written(&());
    let command = qp::modify_command(77, QpChange::new(&attributes(1), IBV_QP_STATE));
    qp::modify_qp(&kernel, &command, &mut Driver::none()).unwrap();
    let (number, c) = reported::<ib_uverbs_modify_qp>(&kernel);
    assert_eq!((number, c.qp_handle), (IB_USER_VERBS_CMD_MODIFY_QP, 77));

    let kernel = written(&full_response(3));
    let reported_of = qp::query_qp(&kernel, 77, IBV_QP_CAP, &mut Driver::none()).unwrap();
    assert_eq!(bytemuck::bytes_of(&reported_of), [3; 128]);
    let (number, c) = reported::<ib_uverbs_query_qp>(&kernel);
    assert_eq!(number, IB_USER_VERBS_CMD_QUERY_QP);
    assert_eq!((c.qp_handle, c.attr_mask), (77, IBV_QP_CAP));
}
