//! Threads that fall asleep while another thread or process writes.

use super::{Outcomes, TURN, header, met, neighbours};
use crate::carrier::shm::{GateSeen, SLEEPS};
use crate::namespace::there;
use crate::node::{Endpoint, Node};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

#[test]
#[ignore = "in_a_namespace runs it"]
fn a_sleeping_thread_finds_what_became_visible_late() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let [left, right] = neighbours();
    let attach = |node: &Node| node.attach(|_| Ok(Arc::new(Outcomes::default())));
    let [source, destination] = [&left, &right].map(|node| attach(node).expect("a number"));
    let peer = met(&left, destination);
    let attention = right
        .directory()
        .expect("a directory")
        .segment()
        .attention();
    let mut found = 0;
    for _ in 0..100 {
        right.inner.transport().alarm.kick();
        while attention.load(SeqCst) & SLEEPS == 0 {
            std::thread::yield_now();
        }
        // The progress thread's first look is over by then, but on a machine with much to do.
        std::thread::sleep(Duration::from_micros(100));
        // As a peer that could not see yet that it sleeps.
        let position = peer
            .long(
                &header(source, destination),
                8,
                &mut |_| Ok(()),
                GateSeen::default(),
            )
            .expect("room")
            .position;
        std::thread::sleep(Duration::from_millis(5));
        if peer.has_taken(position) {
            found += 1;
        }
    }
    // One that is put there after the second look is found when the progress thread is woken the
    // next time.
    assert!(found > 0);
    left.detach(source);
    right.detach(destination);
}

/// Whether the outcome of a message becomes known that the sleeping progress thread could not see
/// when it fell asleep, and that was not announced either.
fn learns_of_late(nodes: &[Arc<Node>; 2], numbers: [u32; 2], outcomes: &Outcomes) -> bool {
    let [left, right] = nodes;
    let directory = left.directory().expect("a directory");
    let peer = met(left, numbers[1]);
    left.inner.transport().alarm.kick();
    while directory.segment().attention().load(SeqCst) & SLEEPS == 0 {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_micros(100));
    let before = outcomes.0.lock().len();
    // The peer takes it later than at the second look.
    let receiving = right.receive_alone();
    let header = header(numbers[0], numbers[1]);
    peer.long(&header, 8, &mut |_| Ok(()), GateSeen::default())
        .expect("room");
    std::thread::sleep(Duration::from_millis(3));
    drop(receiving);
    directory.ring(right.slot());
    std::thread::sleep(Duration::from_millis(5));
    outcomes.0.lock().len() > before
}

#[test]
#[ignore = "in_a_namespace runs it"]
fn a_sleeping_thread_waits_for_the_outcome_of_what_became_visible_late() {
    let _turn = TURN.lock();
    if !there() {
        return;
    }
    let nodes = neighbours();
    let outcomes = Arc::new(Outcomes::default());
    let shared = Arc::clone(&outcomes);
    let source = nodes[0].attach(|_| Ok(shared)).expect("a number");
    let idle = |_| -> kit::errno::Result<Arc<dyn Endpoint>> { Ok(Arc::new(Outcomes::default())) };
    let destination = nodes[1].attach(idle).expect("a number");
    // A message that comes after the second look is known at the next one.
    let mut tries = 0..1000;
    assert!(tries.any(|_| learns_of_late(&nodes, [source, destination], &outcomes)));
    nodes[0].detach(source);
    nodes[1].detach(destination);
}
