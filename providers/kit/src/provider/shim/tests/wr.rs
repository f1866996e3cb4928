//! ibv_wr_*: requests put together by calls, and posted at once.

use super::fake::{ROOM, Sent};
use super::requests::Set;
use super::*;
use crate::abi::handle::Qp;
use core::ffi::c_void;
use std::thread;

const RC: u32 = 0x1bff;

fn extended(set: &Set) -> *mut ibv_qp_ex {
    // SAFETY: the queue pair is live.
    made(unsafe { Qp::from_raw(set.qp) }.unwrap().extended())
}

/// Runs `build` between ibv_wr_start and ibv_wr_complete.
fn post(set: &Set, build: impl FnOnce(*mut ibv_qp_ex, &ibv_qp_ex)) -> c_int {
    let qp = extended(set);
    // SAFETY: the queue pair is live; functions do not change while it is.
    unsafe {
        ((*qp).wr_start.unwrap())(qp);
        build(qp, &*qp);
        ((*qp).wr_complete.unwrap())(qp)
    }
}

/// Sets the members of the queue pair that the next request takes.
unsafe fn tag(qp: *mut ibv_qp_ex, id: u64, flags: u32) {
    // SAFETY: the caller's queue pair is live.
    unsafe {
        (*qp).wr_id = id;
        (*qp).wr_flags = flags;
    }
}

type Step = fn(*mut ibv_qp_ex, &ibv_qp_ex);

/// Functions that do something to a queue pair in a batch.
macro_rules! steps {
    ($(|$qp:ident, $f:ident| $body:expr;)*) => {
        [$( {
            fn step($qp: *mut ibv_qp_ex, $f: &ibv_qp_ex) {
                // SAFETY: the queue pair is live and started; the arguments of the call are valid,
                // or never read.
                unsafe { $body }
            }
            step as Step
        } ),*]
    };
}

static WORD: u64 = 0x0807_0605_0403_0201;

#[test]
fn every_operation_is_built() {
    let set = Set::extended(IBV_QPT_RC, RC);
    let mut all = Vec::new();
    let build = steps! {
        |qp, f| (f.wr_send.unwrap())(qp);
        |qp, f| (f.wr_send_imm.unwrap())(qp, be32::new(0x0102_0304));
        |qp, f| (f.wr_send_inv.unwrap())(qp, 5);
        |qp, f| (f.wr_local_inv.unwrap())(qp, 6);
        |qp, f| (f.wr_rdma_read.unwrap())(qp, 7, 8);
        |qp, f| (f.wr_rdma_write.unwrap())(qp, 9, 10);
        |qp, f| (f.wr_rdma_write_imm.unwrap())(qp, 11, 12, be32::new(13));
        |qp, f| (f.wr_atomic_cmp_swp.unwrap())(qp, 14, 15, 16, 17);
        |qp, f| (f.wr_atomic_fetch_add.unwrap())(qp, 18, 19, 20);
        |qp, f| (f.wr_atomic_write.unwrap())(qp, 21, 22, (&raw const WORD).cast());
        |qp, f| {
            (f.wr_rdma_read.unwrap())(qp, 1, 2);
            (f.wr_set_sge.unwrap())(qp, 3, 4, 5);
        };
        |qp, f| (f.wr_flush.unwrap())(qp, 23, 24, 25, 1, 0);
    };
    for (at, build) in build.iter().enumerate() {
        let code = post(&set, |qp, f| {
            // SAFETY: the queue pair is live.
            unsafe { tag(qp, at as u64, IBV_SEND_SIGNALED) };
            build(qp, f);
        });
        assert_eq!(code, 0);
        all.extend(set.sent());
    }
    let of = |id: u64, opcode, rest: Sent| Sent {
        id,
        opcode,
        flags: IBV_SEND_SIGNALED,
        ..rest
    };
    let blank = Sent::default;
    let to = |address, rkey| Sent {
        to: (address, rkey),
        ..blank()
    };
    let expected = [
        of(0, IBV_WR_SEND, blank()),
        of(
            1,
            IBV_WR_SEND_WITH_IMM,
            Sent {
                imm: [1, 2, 3, 4],
                ..blank()
            },
        ),
        of(
            2,
            IBV_WR_SEND_WITH_INV,
            Sent {
                invalidate: 5,
                ..blank()
            },
        ),
        of(
            3,
            IBV_WR_LOCAL_INV,
            Sent {
                invalidate: 6,
                ..blank()
            },
        ),
        of(4, IBV_WR_RDMA_READ, to(8, 7)),
        of(5, IBV_WR_RDMA_WRITE, to(10, 9)),
        of(
            6,
            IBV_WR_RDMA_WRITE_WITH_IMM,
            Sent {
                imm: [0, 0, 0, 13],
                ..to(12, 11)
            },
        ),
        of(
            7,
            IBV_WR_ATOMIC_CMP_AND_SWP,
            Sent {
                atomic: (16, 17),
                ..to(15, 14)
            },
        ),
        of(
            8,
            IBV_WR_ATOMIC_FETCH_AND_ADD,
            Sent {
                atomic: (20, 0),
                ..to(19, 18)
            },
        ),
        of(
            9,
            IBV_WR_ATOMIC_WRITE,
            Sent {
                atomic_write: Some([1, 2, 3, 4, 5, 6, 7, 8]),
                ..to(22, 21)
            },
        ),
        of(
            10,
            IBV_WR_RDMA_READ,
            Sent {
                sges: vec![(4, 5, 3)],
                ..to(2, 1)
            },
        ),
        of(
            11,
            IBV_WR_FLUSH,
            Sent {
                flush: Some((25, 1, 0)),
                ..to(24, 23)
            },
        ),
    ];
    assert_eq!(all, expected);
}

#[test]
fn only_requested_operations_have_functions() {
    let set = Set::extended(IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
    // SAFETY: the queue pair is live.
    let f = unsafe { &*extended(&set) };
    assert!(f.wr_send.is_some() && f.wr_start.is_some() && f.wr_abort.is_some());
    assert!(f.wr_set_sge.is_some() && f.wr_set_sge_list.is_some());
    assert!(f.wr_send_imm.is_none() && f.wr_rdma_read.is_none());
    assert!(f.wr_bind_mw.is_none() && f.wr_atomic_write.is_none());
    assert!(f.wr_flush.is_none());
    assert!(f.wr_set_ud_addr.is_none() && f.wr_set_xrc_srqn.is_none());
}

#[test]
fn data_is_copied_when_it_is_given() {
    let set = Set::extended(IBV_QPT_RC, RC);
    let mut text = *b"inline";
    let code = post(&set, |qp, f| {
        // SAFETY: the queue pair is live; the bytes are there.
        unsafe {
            tag(qp, 1, 0);
            (f.wr_send.unwrap())(qp);
            (f.wr_set_inline_data.unwrap())(qp, text.as_mut_ptr().cast(), 6);
            text.fill(b'-');
            (f.wr_rdma_write.unwrap())(qp, 1, 2);
            let mut parts = *b"abcd";
            let at = parts.as_mut_ptr().cast::<c_void>();
            let list = [
                ibv_data_buf {
                    addr: at,
                    length: 3,
                },
                ibv_data_buf {
                    addr: null_mut(),
                    length: 0,
                },
                ibv_data_buf {
                    addr: at.wrapping_byte_add(3),
                    length: 1,
                },
            ];
            (f.wr_set_inline_data_list.unwrap())(qp, 3, list.as_ptr());
            parts.fill(0);
            (f.wr_send.unwrap())(qp);
            let sges = [
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
            (f.wr_set_sge_list.unwrap())(qp, 2, sges.as_ptr());
        }
    });
    assert_eq!(code, 0);
    let sent = set.sent();
    assert_eq!(sent[0].inline.as_deref(), Some(&b"inline"[..]));
    assert_eq!(sent[0].flags, IBV_SEND_INLINE);
    assert_eq!(sent[1].inline.as_deref(), Some(&b"abcd"[..]));
    assert_eq!(sent[2].sges, [(1, 2, 3), (4, 5, 6)]);
    assert_eq!(set.bench.state.asked().last().unwrap(), "post_send_all 3");
}

#[test]
fn mistakes_are_remembered_until_the_end() {
    let set = Set::extended(IBV_QPT_RC, RC);
    let mistakes = steps! {
        // Data twice.
        |qp, f| {
            (f.wr_send.unwrap())(qp);
            (f.wr_set_sge.unwrap())(qp, 1, 2, 3);
            (f.wr_set_sge.unwrap())(qp, 1, 2, 3);
        };
        // Data for an operation without data.
        |qp, f| {
            (f.wr_local_inv.unwrap())(qp, 1);
            (f.wr_set_sge.unwrap())(qp, 1, 2, 3);
        };
        |qp, f| {
            (f.wr_flush.unwrap())(qp, 1, 2, 3, 1, 0);
            (f.wr_set_sge.unwrap())(qp, 1, 2, 3);
        };
        // Inline data for a read.
        |qp, f| {
            (f.wr_rdma_read.unwrap())(qp, 1, 2);
            (f.wr_set_inline_data.unwrap())(qp, null_mut(), 0);
        };
        // Inline data at NULL.
        |qp, f| {
            (f.wr_send.unwrap())(qp);
            (f.wr_set_inline_data.unwrap())(qp, null_mut(), 1);
        };
        |qp, f| {
            (f.wr_send.unwrap())(qp);
            (f.wr_set_inline_data_list.unwrap())(qp, 1, core::ptr::null());
        };
        // More inline data than there is room.
        |qp, f| {
            (f.wr_send.unwrap())(qp);
            (f.wr_set_inline_data.unwrap())(qp, qp.cast(), 17);
        };
        // Elements at NULL.
        |qp, f| {
            (f.wr_send.unwrap())(qp);
            (f.wr_set_sge_list.unwrap())(qp, 1, core::ptr::null());
        };
        // Too many elements.
        |qp, f| {
            (f.wr_send.unwrap())(qp);
            (f.wr_set_sge_list.unwrap())(qp, usize::MAX, qp.cast());
        };
        // No value to write.
        |qp, f| (f.wr_atomic_write.unwrap())(qp, 1, 2, core::ptr::null());
    };
    for (at, mistake) in mistakes.iter().enumerate() {
        let code = post(&set, |qp, f| {
            // SAFETY: the queue pair is live and started.
            unsafe { (f.wr_send.unwrap())(qp) }
            mistake(qp, f);
        });
        assert_eq!(code, INVAL, "mistake {at}");
        assert!(set.sent().is_empty(), "mistake {at}: all or none");
    }
    let alone = post(&set, |qp, f| {
        // SAFETY: as above.
        unsafe { (f.wr_set_sge.unwrap())(qp, 1, 2, 3) }
    });
    assert_eq!(alone, INVAL);
    // The next batch starts with nothing remembered.
    // SAFETY: as above.
    assert_eq!(post(&set, |qp, f| unsafe { (f.wr_send.unwrap())(qp) }), 0);
    assert_eq!(set.sent().len(), 1);
}

#[test]
fn all_is_posted_or_nothing() {
    let set = Set::extended(IBV_QPT_RC, RC);
    let sends = |count: usize| {
        post(&set, |qp, f| {
            for _ in 0..count {
                // SAFETY: the queue pair is live and started.
                unsafe { (f.wr_send.unwrap())(qp) }
            }
        })
    };
    assert_eq!(sends(ROOM + 1), libc::ENOMEM);
    assert!(set.sent().is_empty());
    set.bench.state.asked();
    assert_eq!(sends(ROOM + 2), libc::ENOMEM, "more than it holds at all");
    assert!(set.bench.state.asked().is_empty(), "not asked");
    assert_eq!(sends(0), 0);
    assert!(set.bench.state.asked().is_empty(), "not asked");
    set.bench.state.refuse(Errno::IO);
    assert_eq!(sends(1), libc::EIO);
    assert_eq!(sends(ROOM), 0);
    assert_eq!(set.sent().len(), ROOM);
}

#[test]
fn aborting_forgets_and_unlocks() {
    let set = Set::extended(IBV_QPT_RC, RC);
    let qp = extended(&set);
    // SAFETY: the queue pair is live.
    unsafe {
        let f = &*qp;
        (f.wr_start.unwrap())(qp);
        (f.wr_send.unwrap())(qp);
        (f.wr_set_sge.unwrap())(qp, 1, 2, 3);
        (f.wr_abort.unwrap())(qp);
        // Out of turn: nothing happens.
        (f.wr_send.unwrap())(qp);
        (f.wr_abort.unwrap())(qp);
        assert_eq!((f.wr_complete.unwrap())(qp), INVAL);
    }
    assert_eq!(post(&set, |_, _| ()), 0);
    assert!(set.sent().is_empty());
}

#[test]
fn datagrams_need_their_address() {
    let set = Set::extended(IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO);
    let other = Set::extended(IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
    let (ah, far) = (set.bench.ah(set.pd, 5), other.bench.ah(other.pd, 6));
    let send = |ah: Option<*mut ibv_ah>| {
        post(&set, |qp, f| {
            // SAFETY: the queue pair is live and started; the handle is live.
            unsafe {
                (f.wr_send.unwrap())(qp);
                if let Some(ah) = ah {
                    (f.wr_set_ud_addr.unwrap())(qp, ah, 7, 8);
                }
            }
        })
    };
    assert_eq!(send(None), INVAL);
    assert_eq!(send(Some(far)), INVAL);
    assert_eq!(send(Some(null_mut())), INVAL);
    assert_eq!(send(Some(ah)), 0);
    assert_eq!(set.sent()[0].datagram, Some((5, 7, 8)));
    let mut header = *b"head";
    let tso = |at: *mut c_void| {
        post(&set, |qp, f| {
            // SAFETY: as above.
            unsafe {
                (f.wr_send_tso.unwrap())(qp, at, 4, 99);
                (f.wr_set_ud_addr.unwrap())(qp, ah, 7, 8);
            }
        })
    };
    assert_eq!(tso(header.as_mut_ptr().cast()), 0);
    assert_eq!(set.sent()[0].tso, Some((b"head".to_vec(), 99)));
    assert_eq!(tso(null_mut()), INVAL);
    assert_eq!(set.bench.destroy_ah(ah), 0);
    assert_eq!(other.bench.destroy_ah(far), 0);
}

#[test]
fn xrc_requests_need_the_number_of_a_queue() {
    let ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_LOCAL_INV;
    let set = Set::extended(IBV_QPT_XRC_SEND, ops);
    let without = post(&set, |qp, f| {
        // SAFETY: the queue pair is live and started.
        unsafe { (f.wr_send.unwrap())(qp) }
    });
    assert_eq!(without, INVAL);
    let with = post(&set, |qp, f| {
        // SAFETY: as above.
        unsafe {
            (f.wr_local_inv.unwrap())(qp, 1);
            (f.wr_send.unwrap())(qp);
            (f.wr_set_xrc_srqn.unwrap())(qp, 12);
        }
    });
    assert_eq!(with, 0);
    assert_eq!(set.sent()[1].srqn, 12);
}

#[test]
fn windows_are_bound_in_a_batch() {
    let (set, other) = (Set::extended(IBV_QPT_RC, RC), Set::extended(IBV_QPT_RC, RC));
    let mut bytes = [0u8; 16];
    let mr = set.bench.mr(set.pd, &mut bytes);
    let far = other.bench.mr(other.pd, &mut bytes);
    // SAFETY: all objects are live.
    unsafe {
        let mw = made((set.bench.table().alloc_mw())(set.pd, IBV_MW_TYPE_2));
        let bind = |mw, info: *const ibv_mw_bind_info| {
            post(&set, |qp, f| (f.wr_bind_mw.unwrap())(qp, mw, 6, info))
        };
        let mut info = ibv_mw_bind_info {
            mr,
            addr: 7,
            length: 8,
            mw_access_flags: 9,
        };
        assert_eq!(bind(mw, &raw const info), 0);
        let seen = set.sent()[0].bind;
        assert_eq!(seen, Some(((*mw).rkey, 6, Some((*mr).lkey), 7, 8, 9)));
        assert_eq!(bind(null_mut(), &raw const info), INVAL);
        assert_eq!(bind(mw, core::ptr::null()), INVAL);
        info.mr = far;
        assert_eq!(bind(mw, &raw const info), INVAL);
        assert_eq!((set.bench.table().dealloc_mw())(mw), 0);
    }
    assert_eq!(set.bench.dereg_mr(mr), 0);
    assert_eq!(other.bench.dereg_mr(far), 0);
}

#[test]
fn batches_of_two_threads_do_not_mix() {
    let set = Set::extended(IBV_QPT_RC, RC);
    let qp = extended(&set).expose_provenance();
    let posts = move |id: u64| {
        let qp: *mut ibv_qp_ex = core::ptr::with_exposed_provenance_mut(qp);
        let mut done = 0;
        while done < 100 {
            // SAFETY: the queue pair is live; between start and complete it is this thread's.
            unsafe {
                ((*qp).wr_start.unwrap())(qp);
                for _ in 0..2 {
                    tag(qp, id, 0);
                    ((*qp).wr_send.unwrap())(qp);
                }
                if ((*qp).wr_complete.unwrap())(qp) == 0 {
                    done += 1;
                }
            }
        }
    };
    let mut seen = [0; 2];
    thread::scope(|threads| {
        let mut posters = [0u64, 1].map(|id| Some(threads.spawn(move || posts(id))));
        while posters.iter().any(Option::is_some) {
            for poster in &mut posters {
                if poster.as_ref().is_some_and(|thread| thread.is_finished()) {
                    poster.take().unwrap().join().unwrap();
                }
            }
            for pair in set.sent().chunks(2) {
                assert_eq!(pair[0].id, pair[1].id);
                seen[usize::try_from(pair[0].id).unwrap()] += 1;
            }
        }
    });
    for pair in set.sent().chunks(2) {
        seen[usize::try_from(pair[0].id).unwrap()] += 1;
    }
    assert_eq!(seen, [100, 100]);
}
