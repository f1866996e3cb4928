//! Verbs over the loopback interface: two open devices in one process, as a provider is used.
//!
//! They share UDP port 4791 with other processes of the same user; their packets are found by the
//! slot in the numbers of their queue pairs.
#![allow(
    clippy::expect_used,
    reason = "a test ends where something is not as expected"
)]
#![allow(clippy::cast_possible_truncation, reason = "of patterns")]

mod ends;

use bytemuck::Zeroable;
use ends::{End, connect, connect_for, pair};
use kit::abi::*;
use kit::provider::Provider;
use std::time::{Duration, Instant};

fn each_kind(test: impl Fn(ibv_qp_type)) {
    for kind in [IBV_QPT_RC, IBV_QPT_UC] {
        test(kind);
    }
}

#[test]
fn messages_of_many_sizes_arrive_as_they_were() {
    each_kind(|kind| {
        let [a, b] = pair(kind);
        for length in [0u32, 1, 3, 4, 255, 1024, 4095, 4096, 4097, 20_000, 60_000] {
            a.fill(length as u8);
            b.fill(0xee);
            b.post_recv(7, 0, 65_536);
            a.post_send(9, IBV_WR_SEND_WITH_IMM, 0, length, 0, 0);
            let sent = a.completion();
            assert_eq!((sent.wr_id, sent.status, sent.opcode), (9, 0, IBV_WC_SEND));
            let got = b.completion();
            assert_eq!((got.wr_id, got.status, got.byte_len), (7, 0, length));
            assert_eq!(got.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
            assert_eq!(b.bytes(0, length), a.bytes(0, length), "{kind} {length}");
            assert!(b.bytes(length, 8).iter().all(|byte| *byte == 0xee));
        }
    });
}

#[test]
fn small_messages_need_a_registered_key() {
    let [a, b] = pair(IBV_QPT_RC);
    a.fill(1);
    let (region, key) = a.register(0, 64);
    for id in 0..4 {
        b.fill(0xee);
        b.post_recv(7, 0, 64);
        a.send_by(id, key, 8, 8);
        let (sent, got) = (a.completion(), b.completion());
        assert_eq!((sent.wr_id, sent.status), (id, IBV_WC_SUCCESS));
        assert_eq!((got.status, got.byte_len), (IBV_WC_SUCCESS, 8));
        assert_eq!(b.bytes(0, 8), a.bytes(8, 8));
    }
    b.fill(0xee);
    b.post_recv(7, 0, 64);
    a.deregister(&region);
    a.send_by(9, key, 8, 8);
    let sent = a.completion();
    assert_eq!((sent.wr_id, sent.status), (9, IBV_WC_LOC_PROT_ERR));
    assert!(b.bytes(0, 64).iter().all(|byte| *byte == 0xee));
}

#[test]
fn few_bytes_by_a_wrong_key_are_not_sent() {
    for remembered in [false, true] {
        let [a, b] = pair(IBV_QPT_RC);
        b.fill(0xee);
        for id in 0..4 {
            b.post_recv(7, 0, 64);
            // Nothing is looked up for no bytes.
            let (key, length) = if remembered { (a.rkey(), 8) } else { (0, 0) };
            a.send_by(id, key, 8, length);
            assert_eq!(a.completion().status, IBV_WC_SUCCESS);
            assert_eq!(b.completion().byte_len, length);
        }
        b.fill(0xee);
        b.post_recv(7, 0, 64);
        a.send_by(9, a.rkey() ^ 1, 8, 8);
        let sent = a.completion();
        assert_eq!((sent.wr_id, sent.status), (9, IBV_WC_LOC_PROT_ERR));
        assert!(b.bytes(0, 64).iter().all(|byte| *byte == 0xee));
    }
}

#[test]
fn few_bytes_wait_for_a_receive_request() {
    let [a, b] = pair(IBV_QPT_RC);
    a.fill(5);
    for length in [1, 8, 20, 32, 33] {
        b.fill(0xee);
        a.post_send(9, IBV_WR_SEND_WITH_IMM, 16, length, 0, 0);
        assert!(a.poll().is_empty() && b.poll().is_empty());
        b.post_recv(7, 0, 64);
        let (got, sent) = (b.completion(), a.completion());
        assert_eq!((sent.wr_id, sent.status), (9, IBV_WC_SUCCESS));
        assert_eq!((got.wr_id, got.byte_len), (7, length));
        assert_eq!(b.bytes(0, length), a.bytes(16, length));
    }
}

#[test]
fn messages_that_come_together_reach_the_memory_of_each_request() {
    each_kind(|kind| {
        let [a, b] = pair(kind);
        let (one, other) = (b.register(0, 64), b.register(64, 64));
        let piece = |key: u32, offset, length| ibv_sge {
            lkey: key,
            ..b.sge(offset, length)
        };
        for _ in 0..3 {
            a.fill(3);
            b.fill(0xee);
            b.receive(0, &[piece(one.1, 0, 8)]);
            b.receive(1, &[piece(one.1, 8, 16)]);
            b.receive(2, &[piece(other.1, 64, 4), piece(one.1, 16, 4)]);
            b.receive(3, &[piece(other.1, 68, 8)]);
            b.receive(4, &[b.sge(24, 8)]);
            for id in 0..5 {
                a.post_send(id, IBV_WR_SEND, id as u32 * 8, 8, 0, 0);
            }
            for id in 0..5 {
                let got = b.completion();
                assert_eq!((got.wr_id, got.status, got.byte_len), (id, 0, 8));
            }
            for id in 0..5 {
                assert_eq!(a.completion().wr_id, id);
            }
            let sent = a.bytes(0, 40);
            assert_eq!(b.bytes(0, 16), sent[..16]);
            assert_eq!(b.bytes(64, 4), sent[16..20]);
            assert_eq!(b.bytes(16, 4), sent[20..24]);
            assert_eq!(b.bytes(68, 8), sent[24..32]);
            assert_eq!(b.bytes(24, 8), sent[32..40]);
            assert!(b.bytes(32, 32).iter().all(|byte| *byte == 0xee));
        }
    });
}

#[test]
fn memory_is_written_read_and_changed() {
    let [a, b] = pair(IBV_QPT_RC);
    a.fill(1);
    b.fill(2);
    a.post_send(1, IBV_WR_RDMA_WRITE, 100, 10_000, 300, b.rkey());
    assert_eq!(a.completion().status, IBV_WC_SUCCESS);
    assert_eq!(b.bytes(300, 10_000), a.bytes(100, 10_000));
    b.fill(3);
    a.post_send(2, IBV_WR_RDMA_READ, 8, 50_000, 16, b.rkey());
    let read = a.completion();
    assert_eq!(
        (read.status, read.opcode),
        (IBV_WC_SUCCESS, IBV_WC_RDMA_READ)
    );
    assert_eq!(a.bytes(8, 50_000), b.bytes(16, 50_000));
    b.put(64, &5u64.to_ne_bytes());
    a.atomic(3, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 64, b.rkey(), 10, 0);
    assert_eq!(a.completion().status, IBV_WC_SUCCESS);
    assert_eq!(a.bytes(0, 8), 5u64.to_ne_bytes());
    a.atomic(4, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 64, b.rkey(), 15, 99);
    assert_eq!(a.completion().status, IBV_WC_SUCCESS);
    assert_eq!(a.bytes(0, 8), 15u64.to_ne_bytes());
    assert_eq!(b.bytes(64, 8), 99u64.to_ne_bytes());
}

/// Programs name a whole buffer for the result.
#[test]
fn an_atomic_changes_eight_bytes_of_longer_pieces() {
    let [a, b] = pair(IBV_QPT_RC);
    b.put(64, &5u64.to_ne_bytes());
    let pieces = [
        vec![a.sge(0, 4096)],
        vec![a.sge(0, 3), a.sge(3, 100)],
        vec![a.sge(0, 8), a.sge(8, 8)],
    ];
    for (added, sges) in (0u64..).zip(pieces) {
        a.fill(0xee);
        a.atomic_into(
            1,
            IBV_WR_ATOMIC_FETCH_AND_ADD,
            &sges,
            (64, b.rkey()),
            [1, 0],
        );
        let done = a.completion();
        assert_eq!((done.status, done.byte_len), (IBV_WC_SUCCESS, 8));
        assert_eq!(a.bytes(0, 8), (5 + added).to_ne_bytes());
        assert_eq!(a.bytes(8, 100), [0xee; 100]);
    }
}

#[test]
fn a_wrong_key_ends_both_ends() {
    let [a, b] = pair(IBV_QPT_RC);
    b.post_recv(5, 0, 16);
    a.post_send(1, IBV_WR_RDMA_WRITE, 0, 8, 0, b.rkey() ^ 0x100);
    assert_eq!(a.completion().status, IBV_WC_REM_ACCESS_ERR);
    assert_eq!(a.state(), IBV_QPS_ERR);
    let flushed = b.completion();
    assert_eq!((flushed.wr_id, flushed.status), (5, IBV_WC_WR_FLUSH_ERR));
    assert_eq!(b.state(), IBV_QPS_ERR);
}

#[test]
fn a_peer_that_is_gone_is_found_out() {
    let [a, b] = pair(IBV_QPT_RC);
    drop(b);
    a.post_send(1, IBV_WR_SEND, 0, 8, 0, 0);
    assert_eq!(a.completion().status, IBV_WC_RETRY_EXC_ERR);
}

/// A peer answers when one of its threads gets a processor.
#[test]
fn a_short_timeout_leaves_a_peer_time() {
    let [a, silent] = [End::new(IBV_QPT_RC), End::new(IBV_QPT_RC)];
    connect_for(&a, silent.number(), [1, 7]);
    let mut attr = ibv_qp_attr::zeroed();
    let queried = a.context().query_qp(a.qp(), &mut attr);
    assert_eq!((queried, attr.timeout), (Ok(()), 1));
    let began = Instant::now();
    a.post_send(1, IBV_WR_SEND, 0, 8, 0, 0);
    assert_eq!(a.completion().status, IBV_WC_RETRY_EXC_ERR);
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(100), "{waited:?}");
}

#[test]
fn datagrams_name_their_source() {
    let [a, b] = [End::new(IBV_QPT_UD), End::new(IBV_QPT_UD)];
    for end in [&a, &b] {
        connect(end, 0);
    }
    b.post_recv(3, 0, 4096);
    a.fill(7);
    a.datagram(1, 1000, &b);
    assert_eq!(a.completion().status, IBV_WC_SUCCESS);
    let got = b.completion();
    assert_eq!((got.byte_len, got.src_qp), (1040, a.number()));
    assert_eq!((got.wc_flags & IBV_WC_GRH, got.sl), (IBV_WC_GRH, 0b1010));
    assert_eq!(b.bytes(40, 1000), a.bytes(0, 1000));
}

#[test]
fn datagrams_leave_after_their_address_handle_was_destroyed() {
    let [a, b] = [End::new(IBV_QPT_UD), End::new(IBV_QPT_UD)];
    for end in [&a, &b] {
        connect(end, 0);
    }
    let change = |state| {
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = state;
        a.modify(&attr, IBV_QP_STATE);
    };
    for id in 0..3 {
        b.post_recv(id, 0, 4096);
    }
    // They stay in the queue, and `datagram` destroys the handle that it made.
    change(IBV_QPS_SQD);
    for id in 0..3 {
        a.datagram(id, 8, &b);
    }
    change(IBV_QPS_RTS);
    for id in 0..3 {
        let sent = a.completion();
        assert_eq!((sent.wr_id, sent.status), (id, IBV_WC_SUCCESS));
        let got = b.completion();
        assert_eq!((got.wr_id, got.status), (id, IBV_WC_SUCCESS));
    }
}

#[test]
fn every_request_completes_once_and_in_order() {
    let [a, b] = pair(IBV_QPT_RC);
    let rounds = 2000u64;
    let mut posted = 0;
    let (mut sent, mut got) = (0, 0);
    for id in 0..64 {
        b.post_recv(id, 0, 4096);
    }
    while got < rounds {
        while posted < rounds && posted < sent + 32 {
            a.post_send(posted, IBV_WR_SEND, 0, 64, 0, 0);
            posted += 1;
        }
        for wc in a.poll() {
            assert_eq!((wc.wr_id, wc.status), (sent, IBV_WC_SUCCESS));
            sent += 1;
        }
        for wc in b.poll() {
            assert_eq!((wc.wr_id, wc.status), (got, IBV_WC_SUCCESS));
            b.post_recv(got + 64, 0, 4096);
            got += 1;
        }
    }
    assert_eq!(posted, rounds);
}

#[test]
fn objects_left_when_a_device_is_closed_receive_nothing() {
    let [a, b] = pair(IBV_QPT_RC);
    b.close();
    a.post_send(1, IBV_WR_SEND, 0, 8, 0, 0);
    assert_eq!(a.completion().status, IBV_WC_RETRY_EXC_ERR);
}
