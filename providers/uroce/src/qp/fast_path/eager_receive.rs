//! Messages that come by the fast path, and the credits that are granted for them.
//!
//! [`EagerReceiver`] owns the epoch that the peer's next message must have, the cache of the memory
//! that receive requests name, and the credit grant.
//!
//! *Invariants.* A message is put into the next receive request, or the state is unchanged and the
//! message is refused; later messages in the ring are refused too, because the epoch has changed.
//!
//! *Locks.* Under the queue pair's lock: the lock of its receive queue if that is shared, a key of
//! the memory, and the ring of its completion queue. A key that is not held yet is waited for only
//! after the completion queue has been given back, so that pollers never wait for a change of a
//! key.
//!
//! *Tests.* Here: the credit of a receiver by itself; which messages it accepts, and the messages
//! after a refusal. `super::super::tests`: messages and refusals between two queue pairs.

use super::super::connection::Connection;
use super::super::resources::Resources;
use super::credit::{self, CreditGrant};
use crate::carrier::qpn;
use crate::carrier::shm::{Directory, Header};
use crate::cq::{Filling, success};
use crate::memory::{AccessMode, InvalidationListener, MrCache, Scattering};
use crate::node::Messages;
use crate::receive::SrqTaking;
use kit::abi::*;
use kit::errno::Result;
use kit::provider::ReceiveRequest;
use std::sync::Weak;
use uroce_engine::work::{CompletionOpcode, Receive, Sge};

/// The receiving side of the fast path.
pub(super) struct EagerReceiver {
    /// The peer may use it.
    open: bool,
    /// The epoch of the peer's next message.
    expected: u32,
    /// The region of the latest receive requests' local key: of those that were posted, or of those
    /// that were taken out of a shared queue.
    cache: MrCache,
    grant: CreditGrant,
}

impl EagerReceiver {
    pub fn new(qp: &Resources, listener: Weak<dyn InvalidationListener>) -> Self {
        Self {
            open: false,
            expected: 0,
            cache: MrCache::new(qp.pd(), listener),
            grant: CreditGrant::default(),
        }
    }

    /// The queue pair has a peer. Its messages begin with the PSN that its packets begin with, so
    /// that no message of an earlier connection is taken for one of this.
    pub fn begin(&mut self, open: bool, psn: u32) {
        self.open = open;
        self.expected = psn << 8;
        self.grant.begin();
    }

    /// The peer may use it, or may not any more.
    pub fn open(&mut self, open: bool) {
        self.open = open;
    }

    /// Nothing is received any more, as in RESET.
    pub fn reset(&mut self) {
        self.open = false;
        self.expected = 0;
        self.grant.remain(0);
    }

    /// The credit grant.
    pub fn grant(&self) -> &CreditGrant {
        &self.grant
    }

    /// That many receive requests are left: the protocol has used others.
    #[inline]
    pub fn remain(&mut self, count: usize) {
        self.grant.remain(count);
    }

    /// The region of a key is invalidated. Returns whether receive requests name it.
    pub fn forget(&mut self, key: u32) -> bool {
        let receives = self.cache.forget(key);
        if receives {
            self.grant.invalidate();
        }
        receives
    }

    /// ibv_post_recv(3) of a queue pair with a receive queue.
    ///
    /// # Errors
    /// EINVAL for too many pieces; ENOMEM if the queue is full.
    pub fn post<'a>(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        let Some(receives) = connection.receives_mut() else {
            return Ok(());
        };
        let (grant, cache, keys) = (&mut self.grant, &mut self.cache, qp.keys());
        receives.post_alone(requests, |sges| credit::posted(grant, keys, cache, sges))
    }

    /// Shows the peer the credit, if that has changed.
    pub fn show_credit(&mut self, qp: &Resources, directory: &Directory) {
        let credit = self.grant.credit(self.expected);
        if !self.grant.shows(&credit) {
            self.grant.show(credit);
            directory
                .segment()
                .show_credit(qpn::index_of(qp.number), credit);
        }
    }

    /// Receives messages that came together.
    pub fn take(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        messages: &mut Messages<'_>,
        mode: AccessMode,
    ) {
        let mut intake = Intake::new(self.open, connection, qp, messages, mode);
        loop {
            let received = self.receive(connection, qp, &mut intake, messages);
            let more = match received {
                Some(()) => messages.accept(),
                None => {
                    if messages.header().epoch == self.expected {
                        self.expected = self.expected.wrapping_add(1);
                    }
                    messages.refuse(self.expected)
                }
            };
            if !more {
                break;
            }
        }
        // Without the locks that it holds.
        let unknown = intake.unknown.take();
        drop(intake);
        if let Some(piece) = unknown {
            qp.keys().is_to_receive(piece, &mut self.cache);
        }
    }

    /// Whether these messages are the first use of the connection by the peer, which is to be
    /// reported.
    pub fn is_first_use(&self, connection: &Connection, messages: &Messages<'_>) -> bool {
        let (engine, header) = (connection.engine(), messages.header());
        engine.awaits_use()
            && self.open
            && connection.is_linked_to(messages.peer())
            && header.source == engine.attributes().dest_qp_num
            && header.epoch == self.expected
    }

    /// Puts a message into the next receive request. `None` if anything is not as it should be;
    /// then nothing has happened.
    #[inline(always)]
    fn receive(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        intake: &mut Intake<'_>,
        messages: &mut Messages<'_>,
    ) -> Option<()> {
        let header = messages.header();
        if !intake.expects(self.expected, &header) {
            return None;
        }
        let length = u32::try_from(messages.length()).ok()?;
        let Intake {
            memory,
            queue,
            shared,
            mode,
            unknown,
            ..
        } = intake;
        let cache = (*mode == AccessMode::Direct).then_some(&self.cache);
        let notices = cache.is_some() && shared.is_some();
        let scatter = |receive: &Receive| {
            let sges = &receive.sges;
            let known = cache.and_then(|cache| cache.place(sges, length));
            if known.is_none()
                && notices
                && let [one] = &sges[..]
            {
                *unknown = Some(*one);
            }
            if !messages.is_short() {
                // It is copied once.
                let place = known.or_else(|| match memory.holds(sges) {
                    true => memory.place(sges, length),
                    false => None,
                });
                if let Some(place) = place {
                    return messages.write_to(&place).is_some();
                }
            }
            let Some(data) = messages.data() else {
                return false;
            };
            if let Some(place) = known {
                return place.write(0, data).is_ok();
            }
            if !memory.holds(sges)
                && let Some(queue) = queue
            {
                // A thread that changes that key may be waited for here, but not by pollers.
                queue.give_back();
            }
            memory.write(sges, data).is_ok()
        };
        let id = match (connection.receives_mut(), shared) {
            (Some(own), _) => own
                .take_alone_with(scatter)
                .inspect(|_| self.grant.used_one()),
            (None, Some(shared)) => shared.take_with(scatter),
            (None, None) => None,
        }?;
        connection.engine_mut().received_on_fast_path(length);
        connection
            .counting()
            .succeeded(CompletionOpcode::Receive, length);
        let mut wc = success(id, IBV_WC_RECV, length, qp.number);
        wc.src_qp = header.source;
        if let Some(immediate) = header.immediate {
            wc.imm.imm_data = be32::new(immediate);
            wc.wc_flags = IBV_WC_WITH_IMM;
        }
        if let Some(queue) = &mut intake.queue
            && !queue.push_success(wc, header.solicited)
        {
            qp.overrun();
        }
        if intake.mode == AccessMode::Faultable {
            intake.give_back();
        }
        Some(())
    }
}

/// The receive requests for messages that arrived together.
struct Intake<'a> {
    /// The fast path may be used.
    is_open: bool,
    /// QP number of the connected peer.
    source: u32,
    memory: Scattering<'a>,
    mode: AccessMode,
    /// A piece of a request of the shared queue, of memory that is not cached. Requests of the
    /// queue pair's own are known since they were posted.
    unknown: Option<Sge>,
    /// Its shared receive queue. It is locked before the completion queue is, and stays so.
    shared: Option<SrqTaking<'a>>,
    queue: Option<Filling<'a>>,
}

impl<'a> Intake<'a> {
    // These values do not change while the queue pair is locked and only messages of the fast path
    // arrive.
    fn new(
        open: bool,
        connection: &Connection,
        qp: &'a Resources,
        messages: &Messages<'_>,
        mode: AccessMode,
    ) -> Self {
        let is_open = open
            && connection.is_linked_to(messages.peer())
            && connection.engine().may_receive_on_fast_path();
        Self {
            is_open,
            source: connection.engine().attributes().dest_qp_num,
            memory: Scattering::new(qp.keys(), qp.pd(), mode),
            mode,
            unknown: None,
            shared: qp.srq().map(|srq| srq.taking()),
            queue: qp.recv_cq().map(|cq| cq.filling()),
        }
    }

    /// Others may use the queues until the next message: copies by the kernel take long.
    fn give_back(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.give_back();
        }
        if let Some(shared) = &mut self.shared {
            shared.give_back();
        }
    }

    /// Whether the next message may be this one.
    #[inline(always)]
    fn expects(&self, epoch: u32, header: &Header) -> bool {
        self.is_open && header.epoch == epoch && header.source == self.source
    }
}

#[cfg(test)]
mod tests {
    use crate::namespace;

    /// Runs the tests of [`inside`] in a network namespace.
    #[test]
    fn in_a_namespace() {
        namespace::run("qp::fast_path::eager_receive::tests::inside::", &[], &[]);
    }

    mod inside {
        use super::super::*;
        use crate::carrier::Sender;
        use crate::carrier::shm::{Credit, GateSeen, Outcome, Peer, Room};
        use crate::namespace::there;
        use crate::node::{Caller, Endpoint, Incoming};
        use crate::qp::tests::end::{End, HANG, pair};
        use kit::sync::Mutex;
        use std::sync::Arc;
        use std::time::Instant;
        use uroce_engine::qp::Service;
        use uroce_engine::timer::Time;

        /// A receiver that is not part of its queue pair.
        struct Alone {
            receiver: EagerReceiver,
            connection: Connection,
            end: End,
        }

        impl Alone {
            /// In a connection whose packets begin at a PSN.
            fn begun(psn: u32) -> Self {
                let end = End::new(Service::Rc);
                let listener = Arc::downgrade(&end.state);
                let mut receiver = EagerReceiver::new(end.state.resources(), listener);
                receiver.begin(true, psn);
                Self {
                    receiver,
                    connection: Connection::new(end.state.resources()),
                    end,
                }
            }

            fn post(&mut self, sges: &[ibv_sge]) {
                let mut requests = std::iter::once(ReceiveRequest { id: 1, sges });
                let qp = self.end.state.resources();
                let posted = self.receiver.post(&mut self.connection, qp, &mut requests);
                assert_eq!(posted, Ok(()));
            }

            fn credit(&self) -> Credit {
                self.receiver.grant.credit(self.receiver.expected)
            }
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn credit_counts_requests_of_known_memory_and_has_the_epoch_of_the_first_psn() {
            if !there() {
                return;
            }
            let mut alone = Alone::begun(5);
            assert_eq!((alone.credit().limit, alone.credit().epoch), (0, 5 << 8));
            let good = alone.end.sge();
            alone.post(&[good]);
            assert_eq!(
                alone.credit().limit,
                0,
                "memory is known from its second use on"
            );
            alone.receiver.remain(0);
            alone.post(&[good]);
            alone.post(&[good]);
            assert_eq!(
                (alone.credit().limit, alone.credit().room),
                (2, good.length)
            );
            // Requests behind one without memory are not covered.
            alone.post(&[]);
            alone.post(&[good]);
            assert_eq!(alone.credit().limit, 2);
            alone.receiver.remain(0);
            alone.post(&[good]);
            assert_eq!(alone.credit().limit, 1);
            alone.receiver.reset();
            assert_eq!((alone.credit().limit, alone.credit().epoch), (0, 0));
            assert!(!alone.receiver.open);
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_key_that_is_revoked_ends_the_credit_of_the_requests_that_name_it() {
            if !there() {
                return;
            }
            let mut alone = Alone::begun(0);
            let good = alone.end.sge();
            alone.post(&[good]);
            alone.receiver.remain(0);
            alone.post(&[good]);
            assert!(!alone.receiver.forget(good.lkey.wrapping_add(1)));
            assert_eq!(alone.credit().limit, 1);
            assert!(alone.receiver.forget(good.lkey));
            assert_eq!(alone.credit().limit, 0);
            assert!(!alone.receiver.forget(good.lkey), "it is forgotten already");
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn the_peer_reads_the_credit_that_is_shown() {
            if !there() {
                return;
            }
            let linked = pair();
            let peer = linked[0].peer();
            let mut alone = Alone::begun(3);
            alone.post(&[alone.end.sge()]);
            let qp = alone.end.state.resources();
            let directory = alone.end.node.directory().expect("a directory");
            let credit = alone.receiver.grant.credit(alone.receiver.expected);
            assert!(!alone.receiver.grant.shows(&credit));
            alone.receiver.show_credit(qp, directory);
            assert!(alone.receiver.grant.shows(&credit));
            let index = qpn::index_of(qp.number);
            assert_eq!(peer.segment().credit(index), Some(credit));
        }

        /// The sending side: it has no queue pair, and remembers the outcomes.
        #[derive(Default)]
        struct Source(Mutex<Vec<Outcome>>);

        impl Endpoint for Source {
            fn receive(&self, _: Time, _: &Incoming<'_>, _: Caller) -> bool {
                false
            }

            fn transmit(&self, _: Time, _: &mut Sender<'_>, _: Caller) {}
            fn on_time(&self, _: Time) {}

            fn deadline(&self) -> Option<Time> {
                None
            }

            fn on_outcome(&self, _: &Peer, outcome: Outcome, _: Caller) -> bool {
                self.0.lock().push(outcome);
                false
            }
        }

        /// A queue pair that is connected to a [`Source`], which has a second number.
        struct Receiving {
            end: End,
            source: Arc<Source>,
            numbers: [u32; 2],
        }

        impl Receiving {
            fn new() -> Self {
                let end = End::new(Service::Rc);
                let source = Arc::new(Source::default());
                let numbers = [(); 2].map(|()| {
                    let endpoint = Arc::clone(&source);
                    end.node.attach(|_| Ok(endpoint)).expect("a number")
                });
                end.connect(numbers[0]);
                end.await_link();
                Self {
                    end,
                    source,
                    numbers,
                }
            }

            /// Sends a message of some bytes, and waits until it was taken from the ring. Returns
            /// the epoch of the refusal, if it was refused.
            fn send(&self, epoch: u32, length: usize, source: u32) -> Option<u32> {
                let header = Header {
                    source,
                    destination: self.end.state.number(),
                    epoch,
                    immediate: Some(0x11),
                    solicited: false,
                    completed: false,
                };
                let peer = self.end.peer();
                let data = vec![7; length];
                let mut fill = |room: &mut Room<'_>| room.put(&data);
                let put = peer.long(&header, length, &mut fill, GateSeen::default());
                let position = put.expect("room").position;
                let began = Instant::now();
                while !peer.has_taken(position) {
                    assert!(began.elapsed() < HANG, "it is not taken");
                    self.end.node.progress(Caller::Node);
                    std::thread::yield_now();
                }
                if self.end.cq.poll(&mut [bytemuck::Zeroable::zeroed(); 1]) == 1 {
                    return None;
                }
                loop {
                    let refused = self.source.0.lock().iter().find_map(|one| match one {
                        Outcome::Refused(at, epoch) if *at == position => Some(*epoch),
                        _ => None,
                    });
                    if refused.is_some() {
                        return refused;
                    }
                    assert!(began.elapsed() < HANG, "it has no outcome");
                    self.end.node.progress(Caller::Node);
                    std::thread::yield_now();
                }
            }
        }

        impl Drop for Receiving {
            fn drop(&mut self) {
                for number in self.numbers {
                    self.end.node.detach(number);
                }
            }
        }

        #[test]
        #[ignore = "run by in_a_namespace"]
        fn a_refused_message_changes_the_epoch_and_nothing_else() {
            if !there() {
                return;
            }
            let receiving = Receiving::new();
            let [own, other] = receiving.numbers;
            assert_eq!(receiving.send(0, 8, own), Some(1), "no receive request");
            receiving.end.receive(4);
            assert_eq!(receiving.send(0, 8, own), Some(1), "the epoch before");
            assert_eq!(receiving.send(1, 8, other), Some(2), "another sender");
            assert_eq!(receiving.send(2, 9, own), Some(3), "it is too long");
            let mut bytes = [0; 8];
            let memory = receiving.end.memory.memory();
            memory.read(0, &mut bytes).expect("inside");
            assert_eq!(bytes, [0; 8]);
            assert_eq!(receiving.send(3, 8, own), None);
            memory.read(0, &mut bytes).expect("inside");
            assert_eq!(bytes, [7; 8]);
            assert_eq!(receiving.send(3, 8, own), Some(4), "the request is used");
        }
    }
}
