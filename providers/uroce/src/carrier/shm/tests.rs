use super::door::Word;
use super::*;
use crate::carrier::udp::Slot;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

/// A slot and its directory. Two of them in one process meet as two processes do.
fn opened() -> (Slot, Directory) {
    let slot = Slot::claim().expect("a slot");
    let directory = Directory::open(slot.number()).expect("a directory");
    (slot, directory)
}

/// Two directories, the one of the lower slot first.
fn two() -> [(Slot, Directory); 2] {
    let (first, second) = (opened(), opened());
    if first.0.number() < second.0.number() {
        [first, second]
    } else {
        [second, first]
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
fn whoever_asks_both_know_each_other() {
    for asker in 0..2 {
        let ends = two();
        let (of_asker, other) = (&ends[asker], &ends[1 - asker]);
        let slots = [of_asker.0.number(), other.0.number()];
        let stop = AtomicBool::new(false);
        let met = thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    other.1.attend();
                }
            });
            let met = of_asker.1.meet(slots[1]);
            stop.store(true, SeqCst);
            met.expect("met")
        });
        let back = other.1.peer(slots[0]).expect("met");
        assert!(linked(&met, &back));
        assert_eq!(met.slot(), slots[1]);
        assert_eq!(met.pid(), rustix::process::getpid());
        other.1.segment().tables()[5].store(7, SeqCst);
        assert_eq!(met.segment().tables()[5].load(SeqCst), 7);
        assert!(!met.is_gone() && !met.has_ended());
        let again = of_asker.1.meet(slots[1]).expect("met");
        assert!(Arc::ptr_eq(&met, &again));
    }
}

#[test]
fn questions_that_cross_make_one_link() {
    for _ in 0..20 {
        let ends = two();
        let slots = [ends[0].0.number(), ends[1].0.number()];
        ends[0].1.ask(slots[1]).expect("asked");
        ends[1].1.ask(slots[0]).expect("asked");
        for _ in 0..3 {
            ends[0].1.attend();
            ends[1].1.attend();
        }
        let left = ends[0].1.peer(slots[1]).expect("met");
        let right = ends[1].1.peer(slots[0]).expect("met");
        assert!(linked(&left, &right));
    }
}

#[test]
fn many_threads_of_two_processes_make_one_link() {
    for _ in 0..100 {
        let ends = two();
        let slots = [ends[0].0.number(), ends[1].0.number()];
        thread::scope(|scope| {
            for at in [0, 1, 0, 1, 0, 1] {
                let (directory, other) = (&ends[at].1, slots[1 - at]);
                scope.spawn(move || {
                    let _ = directory.ask(other);
                    for _ in 0..20 {
                        directory.attend();
                        thread::yield_now();
                    }
                });
            }
        });
        let met = [0, 1].map(|at| {
            ends[at].1.attend();
            ends[at].1.meet(slots[1 - at])
        });
        let [Some(left), Some(right)] = met else {
            panic!("not met");
        };
        assert!(linked(&left, &right));
    }
}

#[test]
fn a_lost_answer_is_given_again() {
    let [low, high] = two();
    high.1.ask(low.0.number()).expect("asked");
    low.1.attend();
    assert!(low.1.peer(high.0.number()).is_some());
    // The answer is lost: heard by nobody who keeps it.
    high.1.hear();
    let before = high.1.peer(low.0.number()).expect("met");
    high.1.ask(low.0.number()).expect("asked");
    low.1.attend();
    high.1.attend();
    let after = high.1.peer(low.0.number()).expect("met");
    assert!(Arc::ptr_eq(&before, &after));
    let back = low.1.peer(high.0.number()).expect("met");
    assert!(linked(&back, &after));
}

#[test]
fn who_cannot_take_somebody_in_says_so() {
    let [low, high] = two();
    let [low_slot, high_slot] = [&low, &high].map(|end| end.0.number());
    low.1.ask(high_slot).expect("asked");
    high.1.attend();
    assert!(high.1.peer(low_slot).is_some());
    let Ok(Some(_lost)) = low.1.door.hear() else {
        panic!("no answer");
    };
    // As it comes to somebody who has no room for descriptors.
    let word = Word::Greeting {
        generation: high.1.generation(),
        asks: false,
    };
    high.1.door.say(low_slot, word, &[]).expect("said");
    low.1.attend();
    assert!(low.1.peer(high_slot).is_none());
    // What goes to him takes another way from now on.
    high.1.attend();
    assert!(high.1.peer(low_slot).is_none());
}

#[test]
fn nobody_there_is_found_out_at_once_and_silence_soon() {
    let (ours, silent) = (opened(), opened());
    let free = Slot::claim().expect("a slot").number();
    assert!(ours.1.meet(free).is_none());
    assert!(ours.1.meet(silent.0.number()).is_none());
    let began = std::time::Instant::now();
    for _ in 0..1000 {
        assert!(ours.1.meet(silent.0.number()).is_none());
    }
    // Not asked again so soon: that would take 100 ms each.
    eprintln!("{:?}", began.elapsed());
}

#[test]
fn one_process_may_meet_itself() {
    let (slot, directory) = opened();
    let myself = directory.meet(slot.number()).expect("met");
    assert_eq!(myself.slot(), slot.number());
    assert_eq!(directory.peers().len(), 1);
}

#[test]
fn a_farewell_is_heard_and_a_successor_is_another() {
    let [low, high] = two();
    high.1.ask(low.0.number()).expect("asked");
    low.1.attend();
    high.1.attend();
    let met = high.1.peer(low.0.number()).expect("met");
    let changes = high.1.changes();
    let (slot, directory) = low;
    drop(directory);
    assert!(met.is_gone());
    assert!(high.1.peer(slot.number()).is_none());
    high.1.attend();
    assert!(high.1.peers().is_empty());
    assert_ne!(high.1.changes(), changes);
    let successor = Directory::open(slot.number()).expect("a directory");
    high.1.ask(slot.number()).expect("asked");
    successor.attend();
    high.1.attend();
    let after = high.1.peer(slot.number()).expect("met");
    assert_ne!(after.generation(), met.generation());
    let back = successor.peer(high.0.number()).expect("met");
    assert!(linked(&back, &after));
}

#[test]
fn what_was_taken_before_the_end_is_not_lost() {
    let [low, high] = two();
    high.1.ask(low.0.number()).expect("asked");
    low.1.attend();
    high.1.attend();
    let sender = high.1.peer(low.0.number()).expect("met");
    let receiver = low.1.peer(high.0.number()).expect("met");
    let header = Header {
        source: 5,
        destination: 6,
        epoch: 0,
        immediate: None,
        solicited: false,
        settled: false,
    };
    let sent = [1, 2].map(|_| {
        sender
            .long(&header, 8, &mut |_| Ok(()), GateSeen::default())
            .expect("room")
            .position
    });
    let memory = receiver.link().memory();
    let mut consumer = receiver.consumer();
    let first = consumer.next(memory).expect("sound").expect("a record");
    consumer.advance(memory, &first).expect("sound");
    let _ = consumer.tell(memory).expect("sound");
    let mut news = News::default();
    sender.lose(&mut news);
    assert_eq!(news.fates, [(5, Fate::Taken(sent[0])), (5, Fate::Lost)]);
    // Who has not heard of the end yet is not kept waiting.
    assert_eq!(
        sender.long(&header, 8, &mut |_| Ok(()), GateSeen::default()),
        None
    );
    assert!(sender.packet(&[0; 64]) && !sender.waits(5) && !sender.awaits());
}

#[test]
fn a_bell_that_somebody_else_hears_is_remembered() {
    let [low, high] = two();
    low.1.ring(high.0.number());
    // Heard by a thread that waits for an answer to something else.
    assert!(high.1.meet(low.0.number()).is_none());
    assert!(high.1.take_bell() && !high.1.take_bell());
}

#[test]
fn who_sleeps_asks_to_be_told_before_there_is_anything_to_take() {
    let (_slot, directory) = opened();
    let itself = directory.meet(directory.slot()).expect("met");
    let flags = || directory.segment().attention().load(SeqCst);
    // Nobody sleeps: nobody is to tell.
    assert_eq!(directory.put(&itself, |_| flags()), 0);
    directory.sleeps();
    assert_eq!(flags(), SLEEPS);
    assert_eq!(directory.put(&itself, |_| flags()), SLEEPS | AWAITS);
    // The peer, who sleeps, was woken by it.
    assert_eq!(flags(), 0);
    // Somebody goes to sleep while a record is put there.
    directory.put(&itself, |_| directory.sleeps());
    assert!(!directory.take_bell());
    directory.attend();
    assert!(directory.take_bell());
}

#[test]
fn a_link_is_for_one_process() {
    let (link, fd) = Link::create().expect("memory");
    use std::os::fd::AsFd;
    let joined = Link::map(fd.as_fd()).expect("mapped");
    assert!(link.is_for(3) && link.is_for(5));
    assert_eq!(joined.join(3), Ok(()));
    assert_eq!(joined.join(3), Ok(()));
    assert!(joined.join(5).is_err());
    assert!(link.is_for(3) && !link.is_for(5));
}
