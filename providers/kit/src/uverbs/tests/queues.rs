//! Completion queues, shared receive queues, work queues and their tables.

use super::commands::{handle, method, number, reported, written};
use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::*;
use crate::abi::{IBV_WQ_ATTR_FLAGS, IBV_WQ_ATTR_RESERVED, IBV_WQ_ATTR_STATE};
use crate::abi::{IBV_WQ_FLAGS_DELAY_DROP, IBV_WQ_FLAGS_RESERVED};
use crate::errno::Errno;
use crate::sys::command::EXTENDED;
use crate::sys::write::Request;
use crate::uverbs::cq::{self, CreatedCq, NewCq};
use crate::uverbs::fake::{Call, Fake, with_disassociate};
use crate::uverbs::srq::{self, CreatedSrq, NewSrq, SrqKind};
use crate::uverbs::wq::{self, CreatedWq, NewWq};
use crate::uverbs::{Driver, Ioctl, Kernel as _};
use core::sync::atomic::Ordering;
use proptest::prelude::*;

const CQ: NewCq = NewCq {
    user_handle: 0x1234_5678_9abc,
    cqe: 100,
    channel: None,
    comp_vector: 2,
    flags: 0,
    stamps_anyway: false,
    async_fd: 5,
};

fn ids(call: &Ioctl<'_>) -> Vec<u16> {
    let mut ids: Vec<_> = call.attrs().iter().map(|a| a.id).collect();
    ids.sort_unstable();
    ids
}

fn old() -> Fake<'static> {
    Fake::new(|_| Err(Errno::PROTONOSUPPORT), |_| panic!("written"))
}

#[test]
fn creates_a_cq_by_the_method() {
    let kernel = method(|call| {
        assert_eq!(call.target(), (UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE));
        assert_eq!(ids(call), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(number(call, UVERBS_ATTR_CREATE_CQ_CQE), 100);
        assert_eq!(
            number(call, UVERBS_ATTR_CREATE_CQ_USER_HANDLE),
            CQ.user_handle
        );
        assert_eq!(handle(call, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL), 9);
        assert_eq!(number(call, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR), 2);
        assert_eq!(number(call, UVERBS_ATTR_CREATE_CQ_FLAGS), 3);
        assert_eq!(handle(call, UVERBS_ATTR_CREATE_CQ_EVENT_FD), 5);
        call.answer(UVERBS_ATTR_CREATE_CQ_HANDLE, &[77]);
        call.answer(UVERBS_ATTR_CREATE_CQ_RESP_CQE, &127_u32.to_ne_bytes());
    });
    let new = NewCq {
        channel: Some(9),
        flags: 3,
        ..CQ
    };
    let made = cq::create_cq(&kernel, &new, &mut Driver::none());
    assert_eq!(
        made,
        Ok(CreatedCq {
            handle: 77,
            cqe: 127
        })
    );
}

#[test]
fn a_plain_cq_has_neither_channel_nor_flags() {
    let kernel = method(|call| {
        assert_eq!(ids(call), [0, 1, 2, 4, 6, 7]);
        let events = call.attrs().iter().find(|a| a.id == 7).unwrap();
        assert!(!events.mandatory());
    });
    cq::create_cq(&kernel, &CQ, &mut Driver::none()).unwrap();
}

#[test]
fn an_imported_context_needs_its_own_events() {
    let kernel = method(|call| {
        let events = call.attrs().iter().find(|a| a.id == 7).unwrap();
        assert!(events.mandatory());
    });
    kernel.private().imported.store(true, Ordering::Relaxed);
    cq::create_cq(&kernel, &CQ, &mut Driver::none()).unwrap();

    let kernel = old();
    kernel.private().imported.store(true, Ordering::Relaxed);
    let none = &mut Driver::none();
    assert_eq!(cq::create_cq(&kernel, &CQ, none), Err(Errno::OPNOTSUPP));
    let refused = srq::create_srq(&kernel, &SRQ, none);
    assert_eq!(refused, Err(Errno::OPNOTSUPP));
    assert_eq!(wq::create_wq(&kernel, &WQ, none), Err(Errno::OPNOTSUPP));
}

#[test]
fn writes_the_plain_create_cq_where_it_is_sufficient() {
    let answer = ib_uverbs_create_cq_resp {
        cq_handle: 77,
        cqe: 127,
    };
    for (flags, stamps_anyway) in [(0, false), (0, true), (1, true)] {
        let kernel = written(&answer);
        let new = NewCq {
            flags,
            stamps_anyway,
            ..CQ
        };
        let made = cq::create_cq(&kernel, &new, &mut Driver::none());
        assert_eq!(
            made,
            Ok(CreatedCq {
                handle: 77,
                cqe: 127
            })
        );
        let (number, c) = reported::<ib_uverbs_create_cq>(&kernel);
        assert_eq!(number, IB_USER_VERBS_CMD_CREATE_CQ);
        assert_eq!(
            (c.user_handle, c.cqe, c.comp_vector),
            (CQ.user_handle, 100, 2)
        );
        assert_eq!((c.comp_channel, c.reserved), (-1, 0));
    }
}

#[test]
fn writes_the_extended_create_cq_for_flags() {
    let answer = ib_uverbs_ex_create_cq_resp {
        base: ib_uverbs_create_cq_resp {
            cq_handle: 77,
            cqe: 127,
        },
        comp_mask: 0,
        response_length: 16,
    };
    for (flags, stamps_anyway) in [(1, false), (2, true), (3, true)] {
        let kernel = written(&answer);
        let new = NewCq {
            flags,
            stamps_anyway,
            channel: Some(9),
            ..CQ
        };
        let made = cq::create_cq(&kernel, &new, &mut Driver::none());
        assert_eq!(
            made,
            Ok(CreatedCq {
                handle: 77,
                cqe: 127
            })
        );
        let (number, c) = reported::<ib_uverbs_ex_create_cq>(&kernel);
        assert_eq!(number, IB_USER_VERBS_EX_CMD_CREATE_CQ | EXTENDED);
        assert_eq!((c.flags, c.comp_channel, c.comp_mask), (flags, 9, 0));
    }
}

#[test]
fn reports_the_events_of_a_destroyed_cq() {
    let answer = ib_uverbs_destroy_cq_resp {
        comp_events_reported: 3,
        async_events_reported: 4,
    };
    let kernel = method(|call| {
        assert_eq!(handle(call, UVERBS_ATTR_DESTROY_CQ_HANDLE), 77);
        call.answer(UVERBS_ATTR_DESTROY_CQ_RESP, bytemuck::bytes_of(&answer));
    });
    assert_eq!(cq::destroy_cq(&kernel, 77), Ok(Some((3, 4))));
    let kernel = written(&answer);
    assert_eq!(cq::destroy_cq(&kernel, 77), Ok(Some((3, 4))));
    let (number, c) = reported::<ib_uverbs_destroy_cq>(&kernel);
    assert_eq!((number, c.cq_handle), (IB_USER_VERBS_CMD_DESTROY_CQ, 77));
}

#[test]
fn reports_the_events_of_destroyed_srqs_and_wqs() {
    let events = 6_u32.to_ne_bytes();
    let kernel = method(|call| call.answer(UVERBS_ATTR_DESTROY_SRQ_RESP, &events));
    assert_eq!(srq::destroy_srq(&kernel, 7), Ok(Some(6)));
    let kernel = method(|call| call.answer(UVERBS_ATTR_DESTROY_WQ_RESP, &events));
    assert_eq!(wq::destroy_wq(&kernel, 7), Ok(Some(6)));
    let kernel = written(&ib_uverbs_destroy_srq_resp { events_reported: 6 });
    assert_eq!(srq::destroy_srq(&kernel, 7), Ok(Some(6)));
    let kernel = written(&ib_uverbs_ex_destroy_wq_resp {
        events_reported: 6,
        ..Default::default()
    });
    assert_eq!(wq::destroy_wq(&kernel, 7), Ok(Some(6)));
}

#[test]
fn nothing_is_reported_of_a_lost_device() {
    let lost = || Fake::new(|_| Err(Errno::IO), |_| panic!("written"));
    with_disassociate(true, || {
        assert_eq!(cq::destroy_cq(&lost(), 7), Ok(None));
        assert_eq!(srq::destroy_srq(&lost(), 7), Ok(None));
        assert_eq!(wq::destroy_wq(&lost(), 7), Ok(None));
    });
    with_disassociate(false, || {
        assert_eq!(cq::destroy_cq(&lost(), 7), Err(Errno::IO));
        assert_eq!(srq::destroy_srq(&lost(), 7), Err(Errno::IO));
        assert_eq!(wq::destroy_wq(&lost(), 7), Err(Errno::IO));
    });
}

#[test]
fn changes_a_cq() {
    let kernel = written(&ib_uverbs_resize_cq_resp {
        cqe: 255,
        reserved: 0,
    });
    assert_eq!(cq::resize_cq(&kernel, 7, 200, &mut Driver::none()), Ok(255));
    let (number, c) = reported::<ib_uverbs_resize_cq>(&kernel);
    assert_eq!(
        (number, c.cq_handle, c.cqe),
        (IB_USER_VERBS_CMD_RESIZE_CQ, 7, 200)
    );

    let moderation = ib_uverbs_cq_moderation {
        cq_count: 8,
        cq_period: 16,
    };
    let kernel = written(&());
    cq::modify_cq(&kernel, 7, 1, moderation, &mut Driver::none()).unwrap();
    let (number, c) = reported::<ib_uverbs_ex_modify_cq>(&kernel);
    assert_eq!(number, IB_USER_VERBS_EX_CMD_MODIFY_CQ | EXTENDED);
    assert_eq!(
        (c.cq_handle, c.attr_mask, c.attr.cq_count, c.attr.cq_period),
        (7, 1, 8, 16)
    );
    let refused = cq::modify_cq(&written(&()), 7, 2, moderation, &mut Driver::none());
    assert_eq!(refused, Err(Errno::INVAL));

    let kernel = written(&());
    cq::req_notify_cq(&kernel, 7, true).unwrap();
    let (number, c) = reported::<ib_uverbs_req_notify_cq>(&kernel);
    assert_eq!(
        (number, c.solicited_only),
        (IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, 1)
    );
}

/// Answers a poll with up to `left` completions, numbered from `next`.
fn serve(request: &mut Request<'_>, next: &mut u64, left: &mut u64) {
    let parts = request.parts();
    let command: ib_uverbs_poll_cq = bytemuck::pod_read_unaligned(parts.core_in);
    let (count, wcs) = parts.core_out.split_at_mut(8);
    let found = (*left).min(command.ne.into());
    count[..4].copy_from_slice(&u32::try_from(found).unwrap().to_ne_bytes());
    for place in wcs
        .chunks_exact_mut(48)
        .take(usize::try_from(found).unwrap())
    {
        let wc = ib_uverbs_wc {
            wr_id: *next,
            ..Default::default()
        };
        place.copy_from_slice(bytemuck::bytes_of(&wc));
        *next += 1;
    }
    *left -= found;
}

proptest! {
    #[test]
    fn polls_all_in_order(waiting in 0_u64..5000, most in 0_usize..5000) {
        let (mut next, mut left) = (0, waiting);
        let kernel = Fake::new(|_| panic!("method"), |request| {
            serve(request, &mut next, &mut left);
            Ok(())
        });
        let mut seen = Vec::new();
        let found = cq::poll_cq(&kernel, 7, most, |i, wc| {
            assert_eq!(i, seen.len());
            seen.push(wc.wr_id);
        }).unwrap();
        prop_assert_eq!(found, seen.len());
        prop_assert_eq!(found as u64, waiting.min(most as u64));
        prop_assert!(seen.iter().copied().eq(0..found as u64));
    }
}

#[test]
fn a_late_error_loses_no_completion() {
    let (mut next, mut left, mut calls) = (0, 5000, 0);
    let kernel = Fake::new(
        |_| panic!("method"),
        |request| {
            calls += 1;
            if calls == 2 {
                return Err(Errno::IO);
            }
            serve(request, &mut next, &mut left);
            Ok(())
        },
    );
    let mut seen = 0;
    let found = cq::poll_cq(&kernel, 7, 3000, |_, _| seen += 1);
    assert_eq!((found, seen), (Ok(1024), 1024));
    let broken = Fake::new(|_| panic!("method"), |_| Err(Errno::IO));
    assert_eq!(cq::poll_cq(&broken, 7, 1, |_, _| ()), Err(Errno::IO));
}

#[test]
fn a_count_of_the_kernel_that_is_too_large_is_refused() {
    let kernel = Fake::new(
        |_| panic!("method"),
        |request| {
            request.parts().core_out[..4].copy_from_slice(&9_u32.to_ne_bytes());
            Ok(())
        },
    );
    let mut seen = 0;
    assert_eq!(cq::poll_cq(&kernel, 7, 2, |_, _| seen += 1), Ok(2));
    assert_eq!(seen, 2);
}

const SRQ: NewSrq = NewSrq {
    user_handle: 0xabcd,
    pd: 3,
    max_wr: 10,
    max_sge: 2,
    srq_limit: 1,
    kind: SrqKind::Basic,
    async_fd: 5,
};
const XRC: NewSrq = NewSrq {
    kind: SrqKind::Xrc { xrcd: 11, cq: 12 },
    ..SRQ
};
const TM: NewSrq = NewSrq {
    kind: SrqKind::TagMatching {
        cq: 12,
        max_num_tags: 64,
    },
    ..SRQ
};

#[test]
fn creates_each_kind_of_srq_by_the_method() {
    for (new, kind, own) in [
        (SRQ, IB_UVERBS_SRQT_BASIC, vec![]),
        (XRC, IB_UVERBS_SRQT_XRC, vec![2, 3, 13]),
        (TM, IB_UVERBS_SRQT_TM, vec![3, 8]),
    ] {
        let kernel = method(|call| {
            let mut all = vec![0, 1, 4, 5, 6, 7, 9, 10, 11, 12];
            all.extend(&own);
            all.sort_unstable();
            assert_eq!(ids(call), all);
            assert_eq!(number(call, UVERBS_ATTR_CREATE_SRQ_TYPE), u64::from(kind));
            assert_eq!(handle(call, UVERBS_ATTR_CREATE_SRQ_PD_HANDLE), 3);
            assert_eq!(number(call, UVERBS_ATTR_CREATE_SRQ_MAX_WR), 10);
            assert_eq!(number(call, UVERBS_ATTR_CREATE_SRQ_LIMIT), 1);
            if kind == IB_UVERBS_SRQT_XRC {
                assert_eq!(handle(call, UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE), 11);
                call.answer(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, &99_u32.to_ne_bytes());
            }
            if kind == IB_UVERBS_SRQT_TM {
                assert_eq!(number(call, UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS), 64);
            }
            call.answer(UVERBS_ATTR_CREATE_SRQ_HANDLE, &[77]);
            call.answer(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &15_u32.to_ne_bytes());
            call.answer(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &4_u32.to_ne_bytes());
        });
        let made = srq::create_srq(&kernel, &new, &mut Driver::none()).unwrap();
        let srq_num = if kind == IB_UVERBS_SRQT_XRC { 99 } else { 0 };
        let expected = CreatedSrq {
            handle: 77,
            max_wr: 15,
            max_sge: 4,
            srq_num,
        };
        assert_eq!(made, expected);
    }
}

#[test]
fn writes_each_kind_of_srq() {
    let answer = ib_uverbs_create_srq_resp {
        srq_handle: 77,
        max_wr: 15,
        max_sge: 4,
        srqn: 99,
    };
    let kernel = written(&answer);
    srq::create_srq(&kernel, &SRQ, &mut Driver::none()).unwrap();
    let (number, c) = reported::<ib_uverbs_create_srq>(&kernel);
    assert_eq!(number, IB_USER_VERBS_CMD_CREATE_SRQ);
    assert_eq!(
        (c.pd_handle, c.max_wr, c.max_sge, c.srq_limit),
        (3, 10, 2, 1)
    );

    let kernel = written(&answer);
    let made = srq::create_srq(&kernel, &XRC, &mut Driver::none()).unwrap();
    assert_eq!(made.srq_num, 99);
    let (number, c) = reported::<ib_uverbs_create_xsrq>(&kernel);
    assert_eq!(number, IB_USER_VERBS_CMD_CREATE_XSRQ);
    assert_eq!(
        (c.srq_type, c.xrcd_handle, c.cq_handle, c.max_num_tags),
        (1, 11, 12, 0)
    );

    let kernel = written(&answer);
    srq::create_srq(&kernel, &TM, &mut Driver::none()).unwrap();
    let (_, c) = reported::<ib_uverbs_create_xsrq>(&kernel);
    assert_eq!(
        (c.srq_type, c.xrcd_handle, c.cq_handle, c.max_num_tags),
        (2, 0, 12, 64)
    );
}

#[test]
fn asks_for_and_changes_an_srq() {
    let kernel = written(&ib_uverbs_query_srq_resp {
        max_wr: 15,
        max_sge: 4,
        srq_limit: 2,
        reserved: 0,
    });
    let reported_of = srq::query_srq(&kernel, 77, &mut Driver::none()).unwrap();
    assert_eq!(
        (
            reported_of.max_wr,
            reported_of.max_sge,
            reported_of.srq_limit
        ),
        (15, 4, 2)
    );
    let (number, c) = reported::<ib_uverbs_query_srq>(&kernel);
    assert_eq!((number, c.srq_handle), (IB_USER_VERBS_CMD_QUERY_SRQ, 77));

    let kernel = written(&());
    let command = ib_uverbs_modify_srq {
        srq_handle: 77,
        attr_mask: 2,
        max_wr: 0,
        srq_limit: 5,
    };
    srq::modify_srq(&kernel, &command, &mut Driver::none()).unwrap();
    let (number, c) = reported::<ib_uverbs_modify_srq>(&kernel);
    assert_eq!((number, c.srq_limit), (IB_USER_VERBS_CMD_MODIFY_SRQ, 5));
}

const WQ: NewWq = NewWq {
    user_handle: 0xabcd,
    pd: 3,
    cq: 4,
    wq_type: 0,
    max_wr: 10,
    max_sge: 2,
    flags: IBV_WQ_FLAGS_DELAY_DROP,
    async_fd: 5,
};

#[test]
fn creates_a_wq() {
    let expected = CreatedWq {
        handle: 77,
        max_wr: 15,
        max_sge: 4,
        wq_num: 99,
    };
    let kernel = method(|call| {
        assert_eq!(ids(call), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(number(call, UVERBS_ATTR_CREATE_WQ_FLAGS), 4);
        call.answer(UVERBS_ATTR_CREATE_WQ_HANDLE, &[77]);
        call.answer(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, &15_u32.to_ne_bytes());
        call.answer(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, &4_u32.to_ne_bytes());
        call.answer(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, &99_u32.to_ne_bytes());
    });
    assert_eq!(
        wq::create_wq(&kernel, &WQ, &mut Driver::none()),
        Ok(expected)
    );

    let kernel = written(&ib_uverbs_ex_create_wq_resp {
        comp_mask: 0,
        response_length: 24,
        wq_handle: 77,
        max_wr: 15,
        max_sge: 4,
        wqn: 99,
    });
    assert_eq!(
        wq::create_wq(&kernel, &WQ, &mut Driver::none()),
        Ok(expected)
    );
    let (number, c) = reported::<ib_uverbs_ex_create_wq>(&kernel);
    assert_eq!(number, IB_USER_VERBS_EX_CMD_CREATE_WQ | EXTENDED);
    assert_eq!((c.pd_handle, c.cq_handle, c.create_flags), (3, 4, 4));

    let unknown = NewWq {
        flags: IBV_WQ_FLAGS_RESERVED,
        ..WQ
    };
    let refused = wq::create_wq(&written(&()), &unknown, &mut Driver::none());
    assert_eq!(refused, Err(Errno::OPNOTSUPP));
}

#[test]
fn changes_a_wq() {
    let command = ib_uverbs_ex_modify_wq {
        attr_mask: IBV_WQ_ATTR_STATE,
        wq_handle: 77,
        wq_state: 1,
        curr_wq_state: 0,
        flags: 4,
        flags_mask: IBV_WQ_FLAGS_RESERVED,
    };
    let kernel = written(&());
    wq::modify_wq(&kernel, &command, &mut Driver::none()).unwrap();
    let (number, c) = reported::<ib_uverbs_ex_modify_wq>(&kernel);
    assert_eq!(number, IB_USER_VERBS_EX_CMD_MODIFY_WQ | EXTENDED);
    assert_eq!((c.wq_state, c.flags, c.flags_mask), (1, 0, 0));

    for (attr_mask, errno) in [
        (IBV_WQ_ATTR_RESERVED, Errno::INVAL),
        (IBV_WQ_ATTR_FLAGS, Errno::OPNOTSUPP),
    ] {
        let command = ib_uverbs_ex_modify_wq {
            attr_mask,
            ..command
        };
        let refused = wq::modify_wq(&written(&()), &command, &mut Driver::none());
        assert_eq!(refused, Err(errno));
    }
}

fn table_answer(response_length: u32) -> ib_uverbs_ex_create_rwq_ind_table_resp {
    ib_uverbs_ex_create_rwq_ind_table_resp {
        comp_mask: 0,
        response_length,
        ind_tbl_handle: 77,
        ind_tbl_num: 99,
    }
}

#[test]
fn creates_tables_of_a_power_of_two() {
    for log in 0..=wq::MAX_LOG_TABLE {
        let queues: Vec<u32> = (0..1 << log).collect();
        let kernel = written(&table_answer(16));
        let made = wq::create_rwq_ind_table(&kernel, &queues, &mut Driver::none());
        assert_eq!(made, Ok((77, 99)));
        let asked = kernel.asked.borrow();
        let [Call::Write(number, core, driver, 16, 0)] = asked.as_slice() else {
            panic!("{asked:?}");
        };
        assert_eq!(*number, IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL | EXTENDED);
        assert!(driver.is_empty() && core.len().is_multiple_of(8));
        let (head, numbers) = core.split_at(8);
        assert_eq!(head[4..], log.to_ne_bytes());
        let reported: Vec<u32> = numbers
            .chunks_exact(4)
            .map(|b| u32::from_ne_bytes(b.try_into().unwrap()))
            .collect();
        assert_eq!(reported[..queues.len()], queues);
    }
    for len in [0, 3, 6, 1 << 14] {
        let queues = vec![1; len];
        let refused = wq::create_rwq_ind_table(&old(), &queues, &mut Driver::none());
        assert_eq!(refused, Err(Errno::INVAL));
    }
    assert_eq!(wq::table_len(31), Err(Errno::INVAL));
    assert_eq!(wq::table_len(13), Ok(8192));
}

#[test]
fn ends_a_table_that_was_not_reported_whole() {
    let kernel = written(&table_answer(12));
    let refused = wq::create_rwq_ind_table(&kernel, &[1, 2], &mut Driver::none());
    assert_eq!(refused, Err(Errno::INVAL));
    let asked = kernel.asked.borrow();
    let [_, Call::Write(number, core, ..)] = asked.as_slice() else {
        panic!("{asked:?}");
    };
    assert_eq!(*number, IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL | EXTENDED);
    assert_eq!(core[4..], 77_u32.to_ne_bytes());
}
