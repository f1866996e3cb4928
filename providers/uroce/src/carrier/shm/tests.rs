use super::rendezvous::{LinkState, Message};
use super::rendezvous_socket::Datagram;
use super::traffic::WORTH;
use super::wire::Wait;
use super::*;
use crate::carrier::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use uroce_engine::host::Fault;

/// A slot and its directory. Two of them in one process meet as two processes do.
type Process = (Arc<Registry>, Directory);

fn opened() -> Process {
    opened_for(Links::AtOnce)
}

fn opened_for(links: Links) -> Process {
    let slot = Registry::claim(true).expect("a slot");
    let directory = Directory::open(&slot, links).expect("a directory");
    (slot, directory)
}

/// Two directories, the one of the lower slot first.
fn two() -> [Process; 2] {
    let (first, second) = (opened(), opened());
    if first.0.slot() < second.0.slot() {
        [first, second]
    } else {
        [second, first]
    }
}

/// Has two directories, either of which may have begun, meet.
fn meet(ends: &[Process; 2]) -> [Arc<Peer>; 2] {
    let slots = [ends[0].0.slot(), ends[1].0.slot()];
    loop {
        ends.iter().for_each(|end| end.1.attend());
        ends.iter().for_each(|end| end.1.on_time());
        if let [Some(left), Some(right)] = [0, 1].map(|at| ends[at].1.peer(slots[1 - at])) {
            return [left, right];
        }
    }
}

/// Whether two share a link.
fn linked(left: &Peer, right: &Peer) -> bool {
    let word = |peer: &Peer| peer.link().memory().words()[100].load(SeqCst);
    let there = word(right);
    left.link().memory().words()[100].store(there + 1, SeqCst);
    word(right) == there + 1
}

#[test]
fn either_process_connects_and_both_have_the_link() {
    for asker in 0..2 {
        let ends = two();
        let of_asker = &ends[asker].1;
        let theirs = ends[1 - asker].0.slot();
        assert!(of_asker.connect(theirs, 7).is_none(), "it does not wait");
        let [left, right] = meet(&ends);
        assert!(linked(&left, &right));
        let met = [&left, &right][asker];
        assert_eq!((met.slot(), met.pid()), (theirs, rustix::process::getpid()));
        ends[1 - asker].1.segment().tables()[5].store(7, SeqCst);
        assert_eq!(met.segment().tables()[5].load(SeqCst), 7);
        assert!(!met.is_gone() && !met.has_left());
        let again = of_asker.connect(theirs, 8).expect("there is a link");
        assert!(Arc::ptr_eq(met, &again));
        let linked = of_asker.take_linked();
        let [(peer, indices)] = &linked[..] else {
            panic!("{linked:?}");
        };
        assert!(Arc::ptr_eq(peer, met));
        assert_eq!(indices, &[7]);
        assert_eq!(of_asker.deadline(), u64::MAX, "nothing is under way");
    }
}

#[test]
fn attempts_that_cross_make_one_link() {
    for _ in 0..20 {
        let ends = two();
        let slots = [ends[0].0.slot(), ends[1].0.slot()];
        let _ = ends[0].1.connect(slots[1], 1);
        let _ = ends[1].1.connect(slots[0], 1);
        let [left, right] = meet(&ends);
        assert!(linked(&left, &right));
    }
}

#[test]
fn many_threads_of_two_processes_make_one_link() {
    for _ in 0..100 {
        let ends = two();
        let slots = [ends[0].0.slot(), ends[1].0.slot()];
        thread::scope(|scope| {
            for at in [0, 1, 0, 1, 0, 1] {
                let (directory, other) = (&ends[at].1, slots[1 - at]);
                scope.spawn(move || {
                    let _ = directory.connect(other, 1);
                    for _ in 0..20 {
                        directory.attend();
                        thread::yield_now();
                    }
                });
            }
        });
        let [left, right] = meet(&ends);
        assert!(linked(&left, &right));
    }
}

/// Fills the rendezvous socket of a slot, by a process that is to be kept.
fn fill(slot: u16) -> Process {
    let filling = opened();
    while filling
        .1
        .peers
        .rendezvous_socket
        .send(slot, Datagram::Bell, &[])
        .is_ok()
    {}
    filling
}

#[test]
fn a_link_is_asked_for_when_it_is_worthwhile() {
    let ends = [(); 2].map(|()| opened_for(Links::WhenWorthwhile));
    let theirs = ends[1].0.slot();
    let of_asker = &ends[0].1;
    assert!(of_asker.connect(theirs, 7).is_none());
    for _ in 1..WORTH {
        assert!(matches!(of_asker.route(theirs), Route::Pending));
        of_asker.sent_by_udp(theirs);
    }
    ends[1].1.attend();
    assert_eq!(of_asker.deadline(), u64::MAX, "nothing is under way");
    assert_eq!(ends[1].1.deadline(), u64::MAX, "nor at the peer");
    of_asker.sent_by_udp(theirs);
    let [left, right] = meet(&ends);
    assert!(linked(&left, &right));
    let met = of_asker.take_linked();
    let [(_, indices)] = &met[..] else {
        panic!("{met:?}");
    };
    assert_eq!(indices, &[7]);
}

#[test]
fn a_bell_that_finds_no_room_is_rung_again() {
    let ends = two();
    let slots = [ends[0].0.slot(), ends[1].0.slot()];
    let _ = ends[0].1.connect(slots[1], 1);
    let [of_low, _] = meet(&ends);
    let [low, high] = [&ends[0].1, &ends[1].1];
    high.sleeps();
    assert!(of_low.sleeps());
    let _filling = fill(slots[1]);
    low.ring(slots[1]);
    assert_ne!(low.deadline(), u64::MAX, "it is not forgotten");
    high.attend();
    let others = high.take_rung();
    assert!(!others.is_empty() && !others.contains(&slots[0]));
    let mut rung = Vec::new();
    while rung.is_empty() {
        low.attend();
        low.on_time();
        high.attend();
        rung = high.take_rung();
    }
    assert_eq!(rung, [slots[0]]);
    assert_eq!(low.deadline(), u64::MAX);
}

#[test]
fn messages_that_find_the_socket_full_are_sent_again() {
    for asker in 0..2 {
        let ends = two();
        let slots = [ends[0].0.slot(), ends[1].0.slot()];
        let _filling = slots.map(fill);
        let _ = ends[asker].1.connect(slots[1 - asker], 1);
        assert_ne!(ends[asker].1.deadline(), u64::MAX);
        let [left, right] = meet(&ends);
        assert!(linked(&left, &right));
    }
}

#[test]
fn a_process_without_room_for_descriptors_rejects() {
    let [low, high] = two();
    let [low_slot, high_slot] = [&low, &high].map(|end| end.0.slot());
    let _ = high.1.connect(low_slot, 1);
    let send = |end: &Process, to, message| {
        let generation = end.1.generation();
        let datagram = Datagram::Rendezvous {
            generation,
            message,
        };
        end.1
            .peers
            .rendezvous_socket
            .send(to, datagram, &[])
            .expect("sent");
    };
    // As it comes to a peer without room.
    let Ok(Some(_)) = low.1.peers.rendezvous_socket.receive() else {
        panic!("no request");
    };
    send(&high, low_slot, Message::Request);
    low.1.attend();
    high.1.attend();
    assert_eq!(high.1.deadline(), u64::MAX, "the attempt is over");
    assert!(matches!(high.1.route(low_slot), Route::Unreachable));
    let to = high.1.generation();
    send(&low, high_slot, Message::Offer { to });
    high.1.attend();
    for end in [&low, &high] {
        assert!(end.1.peers().is_empty());
    }
}

#[test]
fn an_offer_that_is_withdrawn_is_not_joined() {
    let [low, high] = two();
    let [low_slot, high_slot] = [&low, &high].map(|end| end.0.slot());
    let _ = high.1.connect(low_slot, 1);
    low.1.attend();
    // The offerer gives up: it learns that the other side cannot.
    let datagram = Datagram::Rendezvous {
        generation: high.1.generation(),
        message: Message::Reject,
    };
    high.1
        .peers
        .rendezvous_socket
        .send(low_slot, datagram, &[])
        .expect("sent");
    low.1.attend();
    assert_eq!(low.1.deadline(), u64::MAX);
    high.1.attend();
    assert!(high.1.peer(low_slot).is_none() && low.1.peer(high_slot).is_none());
    // It was asked for another one.
    let [left, right] = meet(&[low, high]);
    assert!(linked(&left, &right));
    assert_eq!(left.link().state(), LinkState::Joined);
}

#[test]
fn packets_wait_for_the_link_where_nothing_else_leads_there() {
    for asker in 0..2 {
        let ends = two();
        let (of_asker, theirs) = (&ends[asker].1, ends[1 - asker].0.slot());
        assert!(matches!(of_asker.route(theirs), Route::Pending));
        for content in 0..3 {
            assert!(of_asker.hold(theirs, &[content; 64]).is_none());
        }
        // So much is not kept.
        for _ in 0..40 {
            assert!(of_asker.hold(theirs, &[9; 60_000]).is_none());
        }
        let met = meet(&ends);
        let (sender, receiver) = (&met[asker], &met[1 - asker]);
        let memory = receiver.link().memory();
        let mut consumer = receiver.consumer();
        for content in 0..3 {
            let record = consumer.next(memory).expect("sound").expect("a packet");
            let mut bytes = [0; 64];
            consumer
                .read(memory, &record, PREFIX, &mut bytes)
                .expect("sound");
            assert_eq!(bytes, [content; 64]);
            consumer.advance(memory, &record).expect("sound");
        }
        let there = of_asker.hold(theirs, &[4; 64]).expect("there is a link");
        assert!(Arc::ptr_eq(&there, sender));
    }
}

#[test]
fn a_slot_without_a_process_is_found_out_at_once() {
    let (ours, silent) = (opened(), opened());
    let free = Registry::claim(true).expect("a slot").slot();
    assert!(matches!(ours.1.route(free), Route::Unreachable));
    assert_eq!(ours.1.deadline(), u64::MAX);
    let slot = silent.0.slot();
    for _ in 0..1000 {
        assert!(ours.1.connect(slot, 1).is_none());
        assert!(matches!(ours.1.route(slot), Route::Pending));
    }
    let received = std::iter::from_fn(|| silent.1.peers.rendezvous_socket.receive().ok());
    assert_eq!(received.count(), 1, "it is asked once");
    drop(silent);
    // Only the next message shows that it has ended.
    while matches!(ours.1.route(slot), Route::Pending) {
        ours.1.on_time();
    }
    assert_eq!(ours.1.deadline(), u64::MAX);
}

#[test]
fn one_process_may_meet_itself() {
    let (slot, directory) = opened();
    let myself = directory.connect(slot.slot(), 1).expect("met");
    assert_eq!(myself.slot(), slot.slot());
    assert_eq!(directory.peers().len(), 1);
}

#[test]
fn a_farewell_is_received_and_a_successor_is_another() {
    let ends = two();
    let _ = ends[1].1.connect(ends[0].0.slot(), 1);
    let [_, met] = meet(&ends);
    let [low, high] = ends;
    let changes = high.1.changes();
    let (slot, directory) = low;
    drop(directory);
    assert!(met.is_gone());
    assert!(high.1.peer(slot.slot()).is_none());
    high.1.attend();
    assert!(high.1.peers().is_empty());
    assert_ne!(high.1.changes(), changes);
    let successor = Directory::open(&slot, Links::AtOnce).expect("a directory");
    let _ = high.1.connect(slot.slot(), 1);
    let [back, after] = meet(&[(slot, successor), high]);
    assert_ne!(after.generation(), met.generation());
    assert!(linked(&back, &after));
}

#[test]
fn a_farewell_that_finds_no_room_is_made_up_for() {
    let [(low, _), (high, _)] = acquainted();
    let _filling = fill(low.0.slot());
    drop(high);
    assert_eq!(low.1.peers().len(), 1);
    low.1.attend();
    assert!(low.1.peers().is_empty());
    assert_eq!(low.1.census().left.len(), 1);
}

#[test]
fn a_successor_may_ask_before_its_predecessor_is_known_to_be_gone() {
    for leaves in 0..2 {
        let mut ends = two();
        let slots = [ends[0].0.slot(), ends[1].0.slot()];
        let _ = ends[1].1.connect(slots[0], 1);
        let before = meet(&ends);
        // Its farewell finds no room.
        let stays = 1 - leaves;
        let (_slot, other) = opened();
        while other
            .peers
            .rendezvous_socket
            .send(slots[stays], Datagram::Bell, &[])
            .is_ok()
        {}
        let [low, high] = ends;
        let mut both = [Some(low), Some(high)];
        let (slot, directory) = both[leaves].take().expect("there");
        drop(directory);
        let successor = Directory::open(&slot, Links::AtOnce).expect("a directory");
        both[leaves] = Some((slot, successor));
        ends = both.map(|end| end.expect("there"));
        let _ = ends[leaves].1.connect(slots[stays], 1);
        let after = meet(&ends);
        assert!(linked(&after[0], &after[1]));
        assert!(!linked(&before[stays], &after[leaves]));
    }
}

/// The header of a message of queue pair 5.
fn header() -> Header {
    Header {
        source: 5,
        destination: 6,
        epoch: 0,
        immediate: None,
        solicited: false,
        completed: false,
    }
}

fn send(to: &Peer) -> Option<Put> {
    let header = header();
    let sent = to.long(&header, 8, &mut |_| Ok(()), GateSeen::default());
    sent.ok()
}

/// Takes the first record that a process has sent, and reports that.
fn take_one(from: &Peer) {
    let memory = from.link().memory();
    let mut consumer = from.consumer();
    let first = consumer.next(memory).expect("sound").expect("a record");
    consumer.advance(memory, &first).expect("sound");
    assert_eq!(consumer.report(memory), Ok(true));
}

#[test]
fn an_outcome_is_awaited_until_it_is_collected() {
    let [(_low, receiver), (high, sender)] = acquainted();
    let sent = send(&sender).expect("room").position;
    take_one(&receiver);
    // A queue pair looks how far the receiver has come, before any thread collects.
    assert!(sender.progress() > sent);
    assert!(sender.awaits() && sender.has_updates());
    high.1.sleeps();
    let flags = high.1.segment().attention().load(SeqCst) & (SLEEPS | AWAITS);
    assert_eq!(flags, SLEEPS | AWAITS);
    high.1.wakes();
    let mut updates = SendUpdates::default();
    high.1.collect(&sender, &mut updates);
    assert_eq!(updates.outcomes, [(5, Outcome::Taken(sent))]);
    assert!(!sender.awaits() && !sender.has_updates());
}

/// Neither the thread that sends nor the one that goes to sleep has seen what the other wrote.
#[test]
fn an_outcome_is_awaited_by_a_thread_that_has_not_seen_the_message_yet() {
    let [(low, receiver), (high, sender)] = acquainted();
    let flags = || high.1.segment().attention().load(SeqCst) & (SLEEPS | AWAITS);
    high.1.sleeps();
    assert!(!high.1.sleeps_on());
    assert_eq!(flags(), SLEEPS);
    assert!(send(&sender).is_some());
    assert!(high.1.sleeps_on());
    assert_eq!(flags(), SLEEPS | AWAITS);
    assert!(!high.1.sleeps_on(), "peers know of it");
    let _ = (high.1.take_linked(), high.1.take_bell(), high.1.take_rung());
    take_one(&receiver);
    low.1.reported(&receiver);
    high.1.attend();
    assert_eq!(high.1.take_rung(), [low.0.slot()]);
    high.1.wakes();
}

#[test]
fn packets_that_waited_for_room_wake_the_peer() {
    let [(low, receiver), (high, sender)] = acquainted();
    let content = [0; 4096];
    while sender.packet(&content, false) {}
    assert!(sender.waits(5));
    take_one(&receiver);
    // The receiver has found nothing else, and sleeps.
    low.1.sleeps();
    low.1.attend();
    let _ = low.1.take_rung();
    let mut updates = SendUpdates::default();
    high.1.collect(&sender, &mut updates);
    assert_eq!(updates.ready, [5]);
    low.1.attend();
    assert_eq!(low.1.take_rung(), [high.0.slot()]);
    low.1.wakes();
}

#[test]
fn messages_taken_before_the_end_are_not_lost() {
    let [(_low, receiver), (_high, sender)] = acquainted();
    let sent = [1, 2].map(|_| send(&sender).expect("room").position);
    take_one(&receiver);
    let mut updates = SendUpdates::default();
    sender.lose(&mut updates);
    assert_eq!(
        updates.outcomes,
        [(5, Outcome::Taken(sent[0])), (5, Outcome::Lost)]
    );
    // A sender that does not know of the end yet does not wait.
    assert_eq!(send(&sender), None);
    assert!(sender.packet(&[0; 64], false) && !sender.waits(5) && !sender.awaits());
}

#[test]
fn a_bell_that_another_thread_takes_is_kept() {
    let [low, high] = two();
    low.1.ring(high.0.slot());
    // Heard by a thread that connects.
    assert!(high.1.connect(low.0.slot(), 1).is_none());
    assert!(high.1.take_bell() && !high.1.take_bell());
}

#[test]
fn a_link_that_another_thread_has_got_rings_the_bell() {
    let ends = two();
    let _ = ends[1].1.connect(ends[0].0.slot(), 1);
    meet(&ends);
    assert!(ends[0].1.take_bell() && ends[1].1.take_bell());
}

#[test]
fn other_datagrams_that_another_thread_takes_ring_the_bell() {
    let [(low, _), (high, _)] = acquainted();
    let _ = (low.1.take_linked(), low.1.take_bell());
    high.1.report_used(low.0.slot(), 3).expect("sent");
    low.1.receive_datagrams();
    assert!(low.1.take_bell());
    assert_eq!(low.1.take_used(), [3]);
    // Of a peer that leaves something may be in the ring, or be lost.
    drop(high);
    low.1.receive_datagrams();
    assert!(low.1.take_bell());
    assert_eq!(low.1.census().left.len(), 1);
    low.1.attend();
    assert!(!low.1.take_bell());
}

#[test]
fn reports_are_requested_before_there_is_anything_to_take() {
    let (_slot, directory) = opened();
    let itself = directory.connect(directory.slot(), 1).expect("met");
    let flags = || directory.segment().attention().load(SeqCst) & (SLEEPS | AWAITS);
    // No thread sleeps, so none is to be woken.
    assert_eq!(directory.put(&itself, |_| flags()), 0);
    directory.sleeps();
    assert_eq!(flags(), SLEEPS);
    assert_eq!(directory.put(&itself, |_| flags()), SLEEPS | AWAITS);
    // It woke the sleeping peer: once, whatever comes before the peer wakes.
    directory.attend();
    assert!(directory.take_bell());
    directory.put(&itself, |_| ());
    directory.attend();
    assert!(!directory.take_bell());
    directory.wakes();
    assert_eq!(flags(), 0);
    // A process goes to sleep while a record is put there.
    directory.put(&itself, |_| directory.sleeps());
    assert!(!directory.take_bell());
    directory.attend();
    assert!(directory.take_bell());
}

/// Two directories that know each other: each with its peer.
fn acquainted() -> [(Process, Arc<Peer>); 2] {
    let ends = two();
    let _ = ends[1].1.connect(ends[0].0.slot(), 1);
    let [of_low, of_high] = meet(&ends);
    let [low, high] = ends;
    [(low, of_low), (high, of_high)]
}

fn shortly() -> Patience {
    Patience::new(std::time::Duration::from_millis(50))
}

#[test]
fn a_claim_is_waited_for_while_its_thread_runs_and_taken_away() {
    let [((_low, target), _), ((_high, initiator), peer)] = acquainted();
    let [gate, key, other] = [Use::Gate(3), Use::Key(1), Use::Key(2)];
    assert_eq!(target.await_unused(key, &mut shortly()), Ok(()));
    let (claimed, parks, done) = Default::default();
    let [claimed, parks, done]: [&AtomicBool; 3] = [&claimed, &parks, &done];
    let wait_for = |flag: &AtomicBool| {
        while !flag.load(SeqCst) {
            std::hint::spin_loop();
        }
    };
    thread::scope(|scope| {
        let user = scope.spawn(|| {
            let claim = peer
                .claim(initiator.generation(), (3, 1), (100, false))
                .expect("a place");
            let [at, length] = claim.range(4096);
            assert_eq!((at.load(SeqCst), length.load(SeqCst)), (4096, 100));
            claimed.store(true, SeqCst);
            wait_for(parks);
            // The length that the kernel would read, had the copy not begun.
            assert_eq!(length.load(SeqCst), 0);
            while !done.load(SeqCst) {
                thread::park();
            }
            drop(claim);
        });
        wait_for(claimed);
        let own = rustix::process::getpid().as_raw_nonzero().get();
        assert_eq!(target.await_unused(other, &mut shortly()), Ok(()));
        for used in [key, gate] {
            // A moment without a processor counts as copying.
            assert_eq!(target.await_unused(used, &mut shortly()), Err(own));
        }
        parks.store(true, SeqCst);
        let mut patience = Patience::new(std::time::Duration::MAX);
        assert_eq!(target.await_unused(key, &mut patience), Ok(()));
        assert_eq!(target.await_unused(gate, &mut patience), Ok(()));
        done.store(true, SeqCst);
        user.thread().unpark();
    });
    // Places come back.
    for _ in 0..100 {
        assert!(
            peer.claim(initiator.generation(), (3, 1), (100, false))
                .is_some()
        );
    }
    let all: Vec<_> = (0..20)
        .map(|_| peer.claim(initiator.generation(), (3, 1), (100, false)))
        .collect();
    assert_eq!(all.iter().flatten().count(), 16);
}

#[test]
fn a_copy_in_mapped_memory_is_waited_for_also_while_its_thread_rests() {
    let [((_low, target), _), ((_high, initiator), peer)] = acquainted();
    let (claimed, done) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let user = scope.spawn(|| {
            let claim = peer.claim(initiator.generation(), (3, 1), (100, true));
            claimed.store(true, SeqCst);
            while !done.load(SeqCst) {
                thread::park();
            }
            drop(claim.expect("a place"));
        });
        while !claimed.load(SeqCst) {
            thread::yield_now();
        }
        let own = rustix::process::getpid().as_raw_nonzero().get();
        for used in [Use::Key(1), Use::Gate(3)] {
            assert_eq!(target.await_unused(used, &mut shortly()), Err(own));
        }
        done.store(true, SeqCst);
        user.thread().unpark();
        let mut patience = Patience::new(std::time::Duration::MAX);
        assert_eq!(target.await_unused(Use::Key(1), &mut patience), Ok(()));
    });
}

#[test]
fn a_claim_of_no_thread_is_not_waited_for() {
    let [((_low, target), of_target), ((_high, initiator), peer)] = acquainted();
    let claim = peer
        .claim(initiator.generation(), (3, 1), (100, false))
        .expect("a place");
    let [_, length] = claim.range(0);
    // As a process may write that does not keep to the rules: to anywhere in the link.
    let words = of_target.link().memory().words();
    let thread = words.iter().find(|word| {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        word.load(SeqCst) == u64::try_from(own).unwrap_or(0)
    });
    thread.expect("claimed").store(u64::MAX, SeqCst);
    let mut patience = Patience::new(std::time::Duration::MAX);
    assert_eq!(target.await_unused(Use::Key(1), &mut patience), Ok(()));
    assert_eq!(length.load(SeqCst), 0);
}

#[test]
fn a_message_waits_for_room_while_the_peer_takes_records() {
    let [(_low, receiver), (_high, sender)] = acquainted();
    while send(&sender).is_some() {}
    let awaits = || sender.await_room(8, &mut RoomWait::of_a_call());
    assert!(!awaits(), "the peer takes nothing");
    thread::scope(|scope| {
        scope.spawn(|| take_one(&receiver));
        while !awaits() {
            thread::yield_now();
        }
        assert!(send(&sender).is_some(), "there is room");
    });
    sender.give_up();
    while send(&sender).is_some() {}
    assert!(!awaits(), "the peer is gone");
}

/// Whether a message that finds no room would wait: none has waited in vain before.
fn would_wait(peer: &Peer) -> bool {
    let wait = peer.out.lock().begin_wait(peer.link().memory(), 8);
    wait == Ok(Wait::Begins)
}

#[test]
fn the_messages_of_a_call_wait_for_room_for_a_bounded_time_together() {
    let [(_low, _receiver), (_high, sender)] = acquainted();
    while send(&sender).is_some() {}
    assert!(!sender.await_room(8, &mut RoomWait::none()));
    assert!(would_wait(&sender), "it has not waited");
    let mut wait = RoomWait::of_a_call();
    let mut calls = 0;
    while !wait.is_over() {
        assert!(!sender.await_room(8, &mut wait), "the peer takes nothing");
        calls += 1;
        // Two whole waits, and the rest of the time; between them messages that do not wait.
        assert!(calls <= 1 + 2 + 3, "{wait:?}");
    }
}

#[test]
fn a_wait_for_room_that_is_cut_short_is_not_in_vain() {
    let [(_low, _receiver), (_high, sender)] = acquainted();
    while send(&sender).is_some() {}
    let mut wait = RoomWait::cycles(1);
    assert!(!sender.await_room(8, &mut wait));
    assert!(wait.is_over() && would_wait(&sender));
}

#[test]
fn a_process_does_not_wait_for_room_that_it_has_to_make_itself() {
    let (slot, directory) = opened();
    let own = directory.connect(slot.slot(), 1);
    let own = own.or_else(|| directory.peer(slot.slot())).expect("itself");
    while send(&own).is_some() {}
    assert!(!own.await_room(8, &mut RoomWait::of_a_call()));
    assert!(would_wait(&own), "it has not waited");
}

#[test]
fn only_a_message_without_room_is_tried_again() {
    let [(_low, receiver), (_high, sender)] = acquainted();
    let mut tries = 0;
    let put = sender.put_when_room(8, &mut RoomWait::of_a_call(), || {
        tries += 1;
        sender.long(&header(), 8, &mut |_| Err(Fault), GateSeen::default())
    });
    let unreadable = Err(NotPut::Unreadable);
    assert_eq!((put, tries), (unreadable, 1), "its bytes cannot be read");
    while send(&sender).is_some() {}
    tries = 0;
    let put = sender.put_when_room(8, &mut RoomWait::of_a_call(), || {
        let put = sender.long(&header(), 8, &mut |_| Ok(()), GateSeen::default());
        if tries == 0 {
            take_one(&receiver);
        }
        tries += 1;
        put
    });
    assert!(put.is_ok() && tries == 2);
}

/// The owner revokes the key and waits; then the memory of the key may not be used.
#[test]
fn nothing_is_used_after_it_was_taken_away() {
    use crate::carrier::shm::Key;
    const RKEY: u32 = 1 << 8 | 7;
    const KEY: Key = Key {
        tag: 7,
        access: 6,
        pd: Some(3),
        qpn: None,
        base: 0x1000,
        length: 0x100,
        address: 0x7000_0000,
    };
    const GATE: Gate = Gate {
        peer: 1,
        generation: 1,
        pd: 3,
        pkey: 0xffff,
        write: true,
        read: true,
        awaits_use: false,
        credits: false,
    };
    let [((_low, target), _), ((_high, initiator), peer)] = acquainted();
    target.segment().show_gate(0, Some(GATE));
    // Odd: the bytes may be used.
    let state = std::sync::atomic::AtomicU64::new(0);
    let used = std::sync::atomic::AtomicU64::new(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    let claim = peer
                        .claim(initiator.generation(), (0, 1), (8, false))
                        .expect("a place");
                    let shown = peer.segment().shown(0, RKEY);
                    let [_, length] = claim.range(4096);
                    if shown.is_some() && length.load(SeqCst) != 0 {
                        assert_eq!(state.load(SeqCst) & 1, 1);
                        used.fetch_add(1, SeqCst);
                        assert_eq!(state.load(SeqCst) & 1, 1);
                    }
                    drop(claim);
                }
            });
        }
        let mut round = 0;
        while round < 2000 || used.load(SeqCst) == 0 {
            state.fetch_add(1, SeqCst);
            target.segment().show_key(1, Some(KEY));
            for _ in 0..round % 50 {
                std::hint::spin_loop();
            }
            target.segment().show_key(1, None);
            let mut patience = Patience::new(std::time::Duration::MAX);
            assert_eq!(target.await_unused(Use::Key(1), &mut patience), Ok(()));
            state.fetch_add(1, SeqCst);
            round += 1;
        }
        done.store(true, SeqCst);
    });
}
