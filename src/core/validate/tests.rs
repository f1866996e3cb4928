use super::*;
use bytemuck::Zeroable;
use kit::abi::*;

const CTX: usize = 0x10;
const PD: usize = 0x20;
const CQ: usize = 0x30;
const QP: usize = 0x40;
const MR: usize = 0x50;

fn world() -> World {
    let mut world = World::default();
    world.keys_are_seen(CTX);
    world.made_cq(CQ, CTX, 4, true);
    world.made_qp(&NewQueuePair {
        object: QP,
        number: 17,
        context: CTX,
        pd: PD,
        cap: ibv_qp_cap {
            max_send_wr: 3,
            max_recv_wr: 8,
            max_inline_data: 4,
            ..ibv_qp_cap::zeroed()
        },
        sig_all: false,
        send_cq: CQ,
        recv_cq: CQ,
        has_srq: false,
        kind: IBV_QPT_RC,
    });
    world.modified(QP, Some(IBV_QPS_RTS), Some(17));
    world.registered(&NewRegion {
        object: MR,
        context: CTX,
        pd: PD,
        lkey: 5,
        iova: 0x1000,
        length: 0x100,
        access: 0,
        memory: Some((0x1000, 0x100)),
    });
    world
}

fn send(id: u64, flags: u32) -> Send {
    Send {
        id,
        opcode: IBV_WR_SEND,
        flags,
        ..Send::default()
    }
}

fn with_piece(addr: u64, length: u64, lkey: u32) -> Send {
    Send {
        pieces: vec![Piece { addr, length, lkey }],
        ..send(1, IBV_SEND_SIGNALED)
    }
}

fn done(id: u64, opcode: ibv_wc_opcode) -> Completion {
    Completion {
        id,
        number: 17,
        status: IBV_WC_SUCCESS,
        opcode,
    }
}

/// The checks that found something since the last call.
fn found(world: &mut World) -> Vec<&'static str> {
    world
        .findings
        .drain(..)
        .map(|finding| finding.check())
        .collect()
}

#[test]
fn right_requests_are_right() {
    let mut world = world();
    for round in 0..20 {
        world.posting(QP, &[send(round, 0), with_piece(0x1000, 0x100, 5)]);
        world.completed(CQ, CTX, done(1, IBV_WC_SEND));
    }
    assert_eq!(found(&mut world), Vec::<&str>::new());
}

#[test]
fn keys_ranges_domains_and_access() {
    let mut world = world();
    world.posting(QP, &[with_piece(0x1000, 0x101, 5)]);
    assert_eq!(found(&mut world), ["range"]);
    world.posting(QP, &[with_piece(0x0, 1, 6)]);
    assert_eq!(found(&mut world), ["key"]);
    let read = Send {
        opcode: IBV_WR_RDMA_READ,
        ..with_piece(0x1000, 8, 5)
    };
    world.posting(QP, &[read]);
    assert_eq!(found(&mut world), ["access"]);
    let other = NewRegion {
        object: 0x60,
        context: CTX,
        pd: 0x99,
        lkey: 7,
        iova: 0,
        length: 10,
        access: 1,
        memory: None,
    };
    world.registered(&other);
    world.modified(QP, Some(IBV_QPS_RESET), None);
    world.modified(QP, Some(IBV_QPS_RTS), None);
    world.posting(QP, &[with_piece(0, 1, 7)]);
    assert_eq!(found(&mut world), ["domain"]);
    let generation = world.generation(0x60);
    world.destroyed(0x60, generation);
    world.forgive(QP);
    world.posting(QP, &[with_piece(0, 1, 7)]);
    assert_eq!(found(&mut world), ["key"]);
}

#[test]
fn a_parent_domain_is_its_base() {
    let mut world = world();
    world.parent_domain(0x21, PD);
    let shared = SharedQueue {
        object: 0x70,
        context: CTX,
        pd: 0x21,
        max_sge: 1,
    };
    world.made_srq(&shared);
    let pieces = vec![Piece {
        addr: 0x1000,
        length: 1,
        lkey: 5,
    }];
    world.posting_shared(0x70, &[Receive { id: 0, pieces }]);
    assert_eq!(found(&mut world), ["access"]);
}

#[test]
fn full_queues() {
    let mut unsignalled = world();
    unsignalled.posting(QP, &[send(1, 0), send(2, 0)]);
    assert!(found(&mut unsignalled).is_empty());
    unsignalled.posting(QP, &[send(3, 0)]);
    assert_eq!(found(&mut unsignalled), ["unsignalled"]);

    let mut over = world();
    over.posting(QP, &[send(1, IBV_SEND_SIGNALED), send(2, 0), send(3, 0)]);
    assert!(found(&mut over).is_empty());
    over.posting(QP, &[send(4, 0)]);
    assert_eq!(found(&mut over), ["overflow"]);
    over.not_posted(QP, 1);
    over.completed(CQ, CTX, done(1, IBV_WC_SEND));
    assert_eq!(over.queues.pair(QP).map(|pair| pair.sends.len()), Some(2));
}

#[test]
fn completion_queues_that_are_too_small() {
    let mut world = world();
    let receive = |id| Receive {
        id,
        pieces: Vec::new(),
    };
    world.posting_receives(QP, &[receive(1), receive(2), receive(3), receive(4)]);
    assert!(found(&mut world).is_empty());
    world.completed(CQ, CTX, done(1, IBV_WC_RECV));
    world.posting_receives(QP, &[receive(5)]);
    assert!(found(&mut world).is_empty());
    world.posting(QP, &[send(1, IBV_SEND_SIGNALED)]);
    assert_eq!(found(&mut world), ["overrun"]);
}

#[test]
fn states_and_inline_data() {
    let mut world = world();
    world.modified(QP, Some(IBV_QPS_RESET), None);
    world.posting(
        QP,
        &[Send {
            inline: 5,
            ..send(1, IBV_SEND_INLINE)
        }],
    );
    assert_eq!(found(&mut world), ["state", "inline"]);
    world.posting_receives(QP, &[Receive::default()]);
    assert!(found(&mut world).is_empty(), "once a queue pair");
}

#[test]
fn completions_out_of_order_end_the_accusations() {
    let mut world = world();
    world.posting(
        QP,
        &[send(1, IBV_SEND_SIGNALED), send(2, IBV_SEND_SIGNALED)],
    );
    world.completed(CQ, CTX, done(2, IBV_WC_SEND));
    world.posting(QP, &[send(3, 0), send(4, 0), send(5, 0), send(6, 0)]);
    assert!(found(&mut world).is_empty());
}

#[test]
fn objects_that_are_gone() {
    let mut world = world();
    assert!(!world.is_destroyed(QP, false));
    world.destroyed(QP, world.generation(QP));
    assert!(world.is_destroyed(QP, false));
    assert!(world.is_destroyed(QP, false));
    assert_eq!(found(&mut world), ["destroyed"]);
    assert!(!world.is_destroyed(QP, true));
    assert!(!world.is_destroyed(QP, false));
}

#[test]
fn an_address_that_was_answered_again_is_no_destroyed_object() {
    let mut world = world();
    world.destroyed(QP, world.generation(QP));
    world.answered(QP);
    assert!(!world.is_destroyed(QP, false));
    assert!(found(&mut world).is_empty());
}

#[test]
fn events_and_leaks() {
    let mut world = world();
    world.completion_event(CQ);
    world.event(QP);
    world.before_destroy(QP, 1, 0);
    assert!(found(&mut world).is_empty());
    world.before_destroy(CQ, 0, 0);
    assert_eq!(found(&mut world), ["events"]);
    world.closed(CTX, "d");
    assert_eq!(found(&mut world), ["leak", "leak", "leak"]);
    world.closed(CTX, "d");
    assert!(found(&mut world).is_empty());
}

#[test]
fn an_empty_receive_queue_is_reported_when_it_hurt() {
    let mut world = world();
    world.posting(QP, &[send(1, IBV_SEND_SIGNALED)]);
    let failed = Completion {
        status: IBV_WC_RNR_RETRY_EXC_ERR,
        ..done(1, 0)
    };
    world.completed(CQ, CTX, failed);
    assert_eq!(found(&mut world), ["receives"]);
}

#[test]
fn an_address_may_be_assigned_again_before_its_end_is_noted() {
    let mut world = world();
    let old = world.generation(MR);
    let again = NewRegion {
        object: MR,
        context: CTX,
        pd: PD,
        lkey: 5,
        iova: 0x9000,
        length: 1,
        access: 1,
        memory: None,
    };
    world.registered(&again);
    world.destroyed(MR, old);
    world.posting(QP, &[with_piece(0x9000, 1, 5)]);
    assert!(found(&mut world).is_empty());
    // Another object with the key of one that is on its way out.
    let other = NewRegion {
        object: 0x58,
        ..again
    };
    let old = world.generation(MR);
    world.registered(&other);
    world.destroyed(MR, old);
    world.posting(QP, &[with_piece(0x9000, 1, 5)]);
    assert!(found(&mut world).is_empty());
}
