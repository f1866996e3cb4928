//! One look at all that may have come: by a thread that polls, by the progress thread, or at the
//! end of a queue pair.
//!
//! *Locks.* The inbox's lock comes first: its owner calls queue pairs, which take locks of their
//! own. So no thread takes it that has a queue pair's lock, or is inside a call of one. A poller
//! that finds it taken leaves the work to the thread that has it.

use super::deadlines::Task;
use super::failing::Failing;
use super::lazy_pass::LazyPass;
use super::pass::Pass;
use super::yield_policy::YieldPolicy;
use crate::clock;
use crate::node::caller::Caller;
use crate::node::inbound::backlog;
use crate::node::inbound::inbox::Inbox;
use crate::node::inbound::sort::Sorter;
use crate::node::inbound::sources::Look;
use crate::node::registry::{Entry, NEVER};
use crate::node::transport::Transport;
use kit::sys::lock::Lock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The receiving side, and the transport.
pub(in crate::node) struct Progress {
    pub transport: Transport,
    pub sorter: Sorter,
    pub inbox: Lock<Inbox>,
    failing: Failing,
    yield_policy: YieldPolicy,
    /// A peer may have a short timeout.
    hasty: AtomicBool,
}

impl Progress {
    pub fn new(transport: Transport, sorter: Sorter) -> Self {
        Self {
            transport,
            sorter,
            inbox: Lock::new(Inbox::new()),
            failing: Failing::default(),
            yield_policy: YieldPolicy::default(),
            hasty: AtomicBool::new(false),
        }
    }

    /// A queue pair, and so perhaps its peer, waits so short a time for acknowledgements that the
    /// progress thread is to look often.
    pub fn make_haste(&self) {
        self.hasty.store(true, Relaxed);
    }

    pub fn is_hasty(&self) -> bool {
        self.hasty.load(Relaxed)
    }

    /// Sends the requests that wait for others, of queue pairs that the caller attends. Not to be
    /// called with a queue pair locked.
    #[inline]
    pub fn send_batches(&self, caller: Caller) {
        self.with_batches(caller, Pass::send_batches);
    }

    /// Sends some of the requests that wait for others, if any do.
    #[inline]
    fn with_batches<'a>(&'a self, caller: Caller, send: impl FnOnce(&mut Pass<'a>)) {
        if self.transport.batches.any() {
            let mut pass = Pass::new(&self.transport, caller);
            send(&mut pass);
            pass.finish();
        }
    }

    /// The same of all queue pairs, whose time has come.
    pub fn send_expired_batches(&self) {
        self.transport.batches.expired();
        self.send_batches(Caller::Node);
    }

    /// Sends the pending packets of a queue pair, and waits for a thread that is sending for it.
    pub fn send_out(&self, index: u32) {
        let transport = &self.transport;
        Pass::new(transport, Caller::Node).send_for(index);
        while transport.table.get(index).is_some_and(Entry::is_sending) {
            std::thread::yield_now();
        }
    }

    /// A queue pair has failed: the next thread that polls, or the progress thread, calls it.
    pub fn failed(&self, index: u32) {
        self.failing.add(index);
        self.transport.alarm.kick();
    }

    /// Calls queue pairs that have failed. Not to be called from inside the call of a queue pair,
    /// or with the inbox locked.
    #[inline]
    pub fn serve_failed(&self) {
        self.failing.serve(&self.transport.table);
    }

    /// See [`LazyPass::serve_used`]: the thread that received the notice may not look again.
    pub fn serve_used(&self) {
        let mut turn = LazyPass::new(&self.transport, Caller::Node);
        turn.serve_used();
        turn.finish();
    }

    /// Waits until no thread is inside a queue pair that had failed before.
    pub fn await_failed(&self) {
        self.failing.await_calls();
    }

    /// A look of a thread that polls. It also sends what waits for others to leave together.
    pub fn progress(&self, caller: Caller) {
        self.send_batches(caller);
        // A thread that polls between other work continues with that.
        let spins = || self.transport.alarm.was_looked_at();
        self.look(caller, self.yield_policy.is_shared() && spins());
    }

    /// Where a thread `gives_way` soon, one look in vain is enough for that.
    fn look(&self, caller: Caller, gives_way: bool) {
        let transport = &self.transport;
        transport.alarm.polled();
        self.serve_failed();
        let Some(mut inbox) = self.inbox.try_lock() else {
            return;
        };
        let some = inbox.take_in_rings(transport, caller);
        inbox.found(some);
        if inbox.leaves_sockets(some, || transport.alarm.is_looked_at_rarely()) {
            if some && inbox.is_to_look_at_timers() {
                self.expire_due(&mut inbox, caller);
            }
            return;
        }
        transport.alarm.looked();
        // With rings there, one call shows that all the sockets have nothing.
        let quiet = inbox.is_for_rings() && !clock::may_have_come(transport.deadlines.next());
        let some = (!quiet || transport.alarm.has_some())
            && self.advance(&mut inbox, Look::Worthwhile, caller);
        if some {
            transport.alarm.has_looked();
        }
        inbox.found(some);
        if inbox.waits_long(gives_way) {
            drop(inbox);
            self.yield_policy.yield_processor();
            // It polls again at once.
            transport.alarm.looked();
        }
    }

    /// A look of a thread that polls at other times, and has posted requests by some calls, unless
    /// one has looked just now. Requests that wait for others still wait while the thread posts,
    /// but not for long. Otherwise the progress thread would look, which interrupts the posts if
    /// both have one processor, and cannot access the requests' memory directly.
    pub fn progress_while_posting(&self, caller: Caller) {
        if !self.transport.alarm.is_due_while_posting() {
            return;
        }
        self.with_batches(caller, Pass::send_old_batches);
        self.look(caller, false);
    }

    /// Receives packets, passes them on, sends the answers, executes expired deadlines. Returns
    /// whether there was a packet.
    pub fn advance(&self, inbox: &mut Inbox, look: Look<'_>, caller: Caller) -> bool {
        let transport = &self.transport;
        let is_progress_thread = matches!(look, Look::At(..));
        let mut turn = LazyPass::new(transport, caller);
        let due = look.is_past(transport.deadlines.next());
        let some = inbox.take_in(&self.sorter, &mut turn, look);
        if due || turn.may_be_past(transport.deadlines.next()) {
            turn.pass().expire();
        }
        turn.finish();
        self.note_backlog(inbox);
        let rings = match &transport.directory {
            Some(directory) if is_progress_thread => {
                inbox.take_in_found_rings(transport, &directory.take_rung())
            }
            _ => inbox.take_in_rings(transport, caller),
        };
        rings || some
    }

    /// Has the timers know of packets that wait for other processes.
    fn note_backlog(&self, inbox: &Inbox) {
        if inbox.has_backlog() {
            let again = clock::now().nanos() + backlog::AGAIN;
            self.transport.add_task(Task::Backlog, again);
        }
    }

    /// Executes expired deadlines: for pollers that find packets all the time, and would do nothing
    /// else.
    fn expire_due(&self, inbox: &mut Inbox, caller: Caller) {
        let next = self.transport.deadlines.next();
        if next != NEVER && clock::may_have_come(next) {
            inbox.keeps_packets(self.sorter.slot());
            let mut pass = Pass::new(&self.transport, caller);
            pass.expire();
            pass.finish();
            self.note_backlog(inbox);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::namespace;

    /// Runs the tests of [`inside`] in a network namespace.
    #[test]
    fn in_a_namespace() {
        namespace::run("node::progress::poll::tests::inside::", &[], &[]);
    }

    mod inside {
        use super::super::*;
        use crate::carrier::shm::{CLOSED, Peer};
        use crate::carrier::udp::{Slot, Tools};
        use crate::carrier::{Carrier, Sender};
        use crate::cm::Cm;
        use crate::namespace::there;
        use crate::node::inbound::sources::{Sources, V4};
        use crate::node::inner::NodeInner;
        use crate::node::progress::alarm::BUSY;
        use crate::node::progress::thread::is_left;
        use crate::node::{Endpoint, Incoming};
        use kit::sync::Mutex;
        use kit::sys::epoll::wait;
        use std::mem::MaybeUninit;
        use std::sync::Arc;
        use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
        use uroce_engine::timer::Time;

        /// The mark of the thread that polls the queue pair's queue.
        const OWN: usize = 1;

        /// Counts its calls.
        #[derive(Default)]
        struct Counting {
            failed: AtomicU32,
            transmitted: AtomicU32,
            expired: AtomicU32,
            used: AtomicU32,
        }

        impl Endpoint for Counting {
            fn receive(&self, _: Time, _: &Incoming<'_>, _: Caller) -> bool {
                false
            }

            fn transmit(&self, _: Time, _: &mut Sender<'_>, _: Caller) {
                self.transmitted.fetch_add(1, SeqCst);
            }

            fn on_time(&self, _: Time) {
                self.expired.fetch_add(1, SeqCst);
            }

            fn used(&self, _: Time) {
                self.used.fetch_add(1, SeqCst);
            }

            fn is_attended_by(&self, mark: usize) -> bool {
                mark == OWN
            }

            fn deadline(&self) -> Option<Time> {
                None
            }

            fn failed(&self) {
                self.failed.fetch_add(1, SeqCst);
            }
        }

        fn node() -> (Arc<NodeInner>, Arc<Counting>, u32) {
            node_with(Carrier::Udp)
        }

        fn node_with(carrier: Carrier) -> (Arc<NodeInner>, Arc<Counting>, u32) {
            let tools = Tools {
                carrier,
                ..Tools::default()
            };
            let node = NodeInner::open(tools, Cm::new()).expect("a node");
            let index = node.transport().table.reserve().expect("an index");
            let endpoint = Arc::new(Counting::default());
            let shared = Arc::clone(&endpoint);
            node.transport().table.put(index, shared);
            (node, endpoint, index)
        }

        /// A node with a link to itself.
        fn linked() -> (Arc<NodeInner>, Arc<Peer>) {
            let (node, ..) = node_with(Carrier::Shm);
            let directory = node.directory().expect("a directory");
            let itself = directory.connect(directory.slot(), 1).expect("met");
            (node, itself)
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_queue_pair_that_failed_is_called_once_by_the_next_poller() {
            if !there() {
                return;
            }
            let (node, endpoint, index) = node();
            node.progress.failed(index);
            node.progress.failed(index);
            node.progress.progress(Caller::Poller(1));
            node.progress.progress(Caller::Poller(1));
            assert_eq!(endpoint.failed.load(SeqCst), 1);
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_poller_does_not_wait_for_the_inbox() {
            if !there() {
                return;
            }
            let (node, endpoint, index) = node();
            node.transport().schedule(index, Time::from_nanos(1));
            let inbox = node.progress.inbox.lock();
            node.progress.progress(Caller::Poller(1));
            assert_eq!(endpoint.expired.load(SeqCst), 0);
            drop(inbox);
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_used_connection_is_reported_without_the_inbox() {
            if !there() {
                return;
            }
            let (node, endpoint, index) = node_with(Carrier::Shm);
            let directory = node.directory().expect("a directory");
            directory
                .report_used(directory.slot(), index)
                .expect("sent");
            node.transport().look_after_peers(true);
            let inbox = node.progress.inbox.lock();
            node.progress.serve_used();
            node.progress.serve_used();
            assert_eq!(endpoint.used.load(SeqCst), 1);
            drop(inbox);
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_deadline_that_has_passed_is_acted_on_by_a_look() {
            if !there() {
                return;
            }
            let (node, endpoint, index) = node();
            node.transport().schedule(index, Time::from_nanos(1));
            let mut inbox = node.progress.inbox.lock();
            let some = node
                .progress
                .advance(&mut inbox, Look::Everywhere, Caller::Node);
            assert!(!some, "no packet has come");
            assert_eq!(endpoint.expired.load(SeqCst), 1);
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn packets_for_another_process_stay_due_while_there_is_no_room() {
            if !there() {
                return;
            }
            let (node, ..) = node();
            let full = Slot::claim(false).expect("a slot");
            let mut inbox = node.progress.inbox.lock();
            while !inbox.has_backlog() {
                assert!(inbox.hand_on(node.progress.sorter.slot(), full.number()));
            }
            node.transport().add_task(Task::Backlog, 1);
            node.progress.expire_due(&mut inbox, Caller::Poller(OWN));
            assert!(inbox.has_backlog());
            assert_ne!(node.transport().deadlines.next(), NEVER);
        }

        /// Held by tests that send packets, which nodes of others could get.
        static SENDING: Mutex<()> = Mutex::new(());

        /// Nodes of other tests have the same port. The sender's address decides which of them gets
        /// a packet, so each is sent from another one.
        fn send_a_packet(node: &NodeInner) {
            while !node.transport().alarm.has_some() {
                let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
                sender.send_to(&[0; 64], "127.0.0.1:4791").expect("sent");
                std::thread::yield_now();
            }
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_poller_that_always_finds_messages_looks_at_the_sockets() {
            if !there() {
                return;
            }
            let (node, itself) = linked();
            let directory = node.directory().expect("a directory");
            let transport = node.transport();
            let _alone = SENDING.lock();
            for idle in [0, 1000] {
                (0..idle).for_each(|_| node.progress.progress(Caller::Poller(OWN)));
                send_a_packet(&node);
                let mut polls = 0..1000;
                let is_received = polls.any(|_| {
                    assert!(directory.put(&itself, |peer| peer.packet(&[0; 64], false)));
                    node.progress.progress(Caller::Poller(OWN));
                    directory.attend();
                    !transport.alarm.has_some()
                });
                assert!(is_received);
            }
        }

        /// A thread that takes completions from a full queue counts as one that polls, and receives
        /// the packets of other queues meanwhile.
        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_poller_with_a_backlog_of_completions_looks_at_the_sockets() {
            if !there() {
                return;
            }
            let (node, ..) = node();
            let alarm = &node.transport().alarm;
            let _alone = SENDING.lock();
            send_a_packet(&node);
            let before = alarm.polls.load(Relaxed);
            let mut polls = (1..=16).skip_while(|_| {
                if alarm.polled_backlog() {
                    node.progress.progress(Caller::Poller(OWN));
                }
                alarm.has_some()
            });
            let polls = polls.next().expect("it looked");
            assert!(alarm.polls.load(Relaxed) - before >= polls);
        }

        /// It posts many requests between two polls.
        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_thread_that_posts_looks_at_the_sockets_from_time_to_time() {
            if !there() {
                return;
            }
            let (node, ..) = node();
            let alarm = &node.transport().alarm;
            let _alone = SENDING.lock();
            send_a_packet(&node);
            std::thread::sleep(std::time::Duration::from_millis(1));
            node.progress.progress_while_posting(Caller::Poller(OWN));
            assert!(!alarm.has_some());
            // Not at each post: another program may delay this one between two lines.
            let is_left = || {
                alarm.looked();
                let before = alarm.polls.load(Relaxed);
                node.progress.progress_while_posting(Caller::Poller(OWN));
                alarm.polls.load(Relaxed) == before
            };
            assert!((0..1000).any(|_| is_left()));
        }

        /// As on a slow processor.
        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_look_that_takes_long_counts_as_many_polls() {
            if !there() {
                return;
            }
            let (node, ..) = node();
            let alarm = &node.transport().alarm;
            let counted = |look: fn()| {
                let before = alarm.polls.load(Relaxed);
                alarm.looked();
                look();
                alarm.has_looked();
                alarm.polls.load(Relaxed) - before
            };
            // The counter has at least a fifth of the cycles that are expected.
            let long = || std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(counted(long) >= BUSY);
            assert!((0..1000).any(|_| counted(|| ()) == 0));
        }

        /// As on a slow processor.
        #[test]
        #[ignore = "run by in_a_namespace"]
        fn packets_are_not_left_while_a_poller_is_in_a_look() {
            if !there() {
                return;
            }
            let (node, ..) = node();
            let mut sources = Sources::default();
            sources.add(V4 as u64);
            let _alone = SENDING.lock();
            send_a_packet(&node);
            let inbox = node.progress.inbox.lock();
            assert!(!is_left(&node.progress, sources));
            drop(inbox);
            // A wait may end early.
            while !is_left(&node.progress, sources) {}
        }

        /// The program finds a message at each of its few polls.
        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_poller_that_polls_seldom_looks_at_the_sockets_soon() {
            if !there() {
                return;
            }
            let (node, itself) = linked();
            let (transport, directory) = (node.transport(), node.directory());
            let directory = directory.expect("a directory");
            let poll = || {
                assert!(directory.put(&itself, |peer| peer.packet(&[0; 64], false)));
                node.progress.progress(Caller::Poller(OWN));
                directory.attend();
            };
            // Until nothing has come by the sockets for long.
            (0..10_000).for_each(|_| poll());
            let _alone = SENDING.lock();
            send_a_packet(&node);
            let polls = (1..).find(|_| {
                std::thread::sleep(std::time::Duration::from_millis(6));
                poll();
                !transport.alarm.has_some()
            });
            assert!(polls.is_some_and(|polls| polls <= 16), "{polls:?}");
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_peer_that_a_sender_has_given_up_is_looked_at_once() {
            if !there() {
                return;
            }
            let (node, itself) = linked();
            let transport = node.transport();
            let mut inbox = node.progress.inbox.lock();
            assert!(!inbox.rings_have_some(transport));
            itself.give_up();
            assert!(inbox.rings_have_some(transport));
            inbox.take_in_found_rings(transport, &[]);
            assert!(!inbox.rings_have_some(transport));
        }

        /// Its farewell may be lost, and the thread be about to sleep.
        #[test]
        #[ignore = "run by in_a_namespace"]
        fn the_last_records_of_a_peer_that_has_closed_are_found() {
            if !there() {
                return;
            }
            let (node, itself) = linked();
            let transport = node.transport();
            let directory = node.directory().expect("a directory");
            let mut inbox = node.progress.inbox.lock();
            assert!(directory.put(&itself, |peer| peer.packet(&[0; 64], false)));
            directory.segment().attention().fetch_or(CLOSED, SeqCst);
            assert!(itself.is_gone());
            assert!(inbox.rings_have_some(transport));
            assert!(inbox.take_in_found_rings(transport, &[]));
            assert!(!inbox.rings_have_some(transport));
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn requests_that_wait_for_others_leave_with_the_next_poll() {
            if !there() {
                return;
            }
            let (node, endpoint, index) = node();
            for _ in 0..2 {
                assert!(node.transport().batch(index, clock::now()));
            }
            assert_eq!(endpoint.transmitted.load(SeqCst), 0);
            for _ in 0..2 {
                node.progress.progress(Caller::Poller(OWN));
                assert_eq!(endpoint.transmitted.load(SeqCst), 1);
            }
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn requests_that_wait_for_others_are_left_to_the_thread_that_polls_their_queue() {
            if !there() {
                return;
            }
            let (node, endpoint, index) = node();
            assert!(node.transport().batch(index, clock::now()));
            node.progress.progress(Caller::Poller(OWN + 1));
            assert_eq!(endpoint.transmitted.load(SeqCst), 0);
            node.progress.progress(Caller::Poller(OWN));
            assert_eq!(endpoint.transmitted.load(SeqCst), 1);
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn requests_that_wait_for_others_leave_when_it_is_time() {
            if !there() {
                return;
            }
            let (node, endpoint, index) = node();
            assert!(node.transport().batch(index, clock::now()));
            let mut found = [MaybeUninit::uninit()];
            let events = wait(node.watches.set(), None, &mut found).expect("events");
            assert_eq!(events.len(), 1, "the timer has expired");
            node.progress.send_expired_batches();
            assert_eq!(endpoint.transmitted.load(SeqCst), 1);
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn requests_of_a_queue_pair_that_is_gone_are_not_sent() {
            if !there() {
                return;
            }
            let (node, endpoint, index) = node();
            assert!(node.transport().batch(index, clock::now()));
            assert!(node.transport().table.take(index).is_some());
            node.transport().table.release(index);
            node.progress.progress(Caller::Poller(OWN));
            assert_eq!(endpoint.transmitted.load(SeqCst), 0);
            assert!(!node.transport().batches.any());
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn pending_packets_are_sent_before_the_call_returns() {
            if !there() {
                return;
            }
            let (node, endpoint, index) = node();
            node.progress.send_out(index);
            assert_eq!(endpoint.transmitted.load(SeqCst), 1);
            assert!(!node.progress.is_hasty());
            node.progress.make_haste();
            assert!(node.progress.is_hasty());
        }
    }
}
