//! The fast path: the operations of a reliable or unreliable connection without packets, to a
//! process of the same host.
//!
//! | module | type | owns |
//! | --- | --- | --- |
//! | `eager_send` | `EagerSender` | messages in flight, requests behind them, the epoch that the peer expects |
//! | `backoff` | `Backoff` | how many requests take the protocol path after a refusal |
//! | `in_flight` | `Queue`, `InFlight` | the requests in flight |
//! | `eager_receive` | `EagerReceiver` | the epoch of the peer's next message, the cache of receive memory |
//! | `credit` | `CreditGrant`, `CreditWindow` | the messages that the peer may complete at once, and the peer's grant |
//! | `gate` | `ShownGate` | the published gate, with the peer's rights |
//! | `one_sided` | `OneSided` | the known part of the peer's memory, for RDMA writes and reads |
//!
//! [`FastPath`] is the five of them, and routes calls to them. Each method gets the [`Connection`],
//! whose engine decides whether the fast path may be used, and the [`Resources`].
//!
//! Only the case where all is well takes the fast path. Everything else takes the protocol path,
//! and errors come from the engine on both sides.
//!
//! *Invariants.* No request is with the protocol and on the fast path at the same time, so order is
//! kept. After each call of the engine, [`FastPath::after_protocol`] is called: it flushes the
//! requests on the fast path if the engine has failed, and publishes changes for the peer.
//!
//! *Locks.* All of it is under the queue pair's lock; see each module for the locks taken
//! meanwhile.

mod backoff;
mod credit;
mod eager_receive;
mod eager_send;
mod gate;
mod in_flight;
mod one_sided;

pub(super) use gate::await_unused;

use super::connection::Connection;
use super::resources::Resources;
use crate::carrier::shm::{Outcome, Peer, RoomWait};
use crate::clock;
use crate::memory::{AccessMode, InvalidationListener};
use crate::node::Messages;
use crate::objects::Objects;
use eager_receive::EagerReceiver;
use eager_send::EagerSender;
use gate::ShownGate;
use kit::errno::Result;
use kit::provider::{ReceiveRequest, SendView};
use one_sided::{MOST_BYTES, OneSided, may_be_one_sided};
use std::sync::{Arc, Weak};
use uroce_engine::qp::{Service, State};
use uroce_engine::timer::Time;
use uroce_engine::work::WorkRequest;

/// Bytes that are moved at once for requests that have waited for the protocol.
const MOST_AT_ONCE: u64 = 64 << 20;
/// Messages of these at most.
const MOST_MESSAGES: usize = 32;

/// What one call of a verb may still spend on requests by the fast path.
pub(super) struct Budget {
    /// Bytes that it may move.
    bytes: u64,
    /// How long it may wait for room in a ring.
    wait: RoomWait,
}

impl Budget {
    /// That of a call that begins.
    #[inline]
    pub fn of_a_call() -> Self {
        Self {
            bytes: MOST_BYTES,
            wait: RoomWait::of_a_call(),
        }
    }
}

/// The operations of a queue pair without packets.
pub(super) struct FastPath {
    sender: EagerSender,
    receiver: EagerReceiver,
    gate: ShownGate,
    one_sided: OneSided,
}

/// Whether a connection may use the fast path, to a peer on this host or another one.
fn may_be_used(qp: &Resources, is_local: bool) -> bool {
    let connected = matches!(qp.service(), Service::Rc | Service::Uc);
    is_local && connected && qp.node().allows_fast_path()
}

/// The connection's life.
impl FastPath {
    /// One that is not open. `listener` is called before a key that it remembers changes.
    pub fn new<L: InvalidationListener + 'static>(qp: &Resources, listener: &Weak<L>) -> Self {
        Self {
            sender: EagerSender::new(qp, Weak::<L>::clone(listener)),
            receiver: EagerReceiver::new(qp, Weak::<L>::clone(listener)),
            gate: ShownGate::default(),
            one_sided: OneSided::default(),
        }
    }

    /// A connection begins, to a peer whose packets begin with this PSN. There is no link yet.
    pub fn begin(&mut self, qp: &Resources, is_local: bool, rq_psn: u32) {
        let open = may_be_used(qp, is_local);
        self.sender.open(open);
        self.receiver.begin(open, rq_psn);
        self.one_sided = OneSided::default();
    }

    /// A connection continues on another path. Messages are counted as before, and the epoch stays.
    /// On a path to another host the protocol sends the messages in flight.
    pub fn change_path(&mut self, connection: &mut Connection, qp: &Resources, is_local: bool) {
        let open = may_be_used(qp, is_local);
        self.sender.open(open);
        self.receiver.open(open);
        // Messages that wait for room in the ring of a process that is perhaps another one's. The
        // caller sends.
        let _ = self.sender.on_room(connection, qp, AccessMode::Faultable);
        if !is_local {
            self.one_sided = OneSided::default();
            // The caller sends.
            let mode = AccessMode::Faultable;
            let _ = self.sender.on_outcome(connection, qp, Outcome::Lost, mode);
        }
    }

    /// The queue pair may send; its messages begin with this PSN.
    pub fn begin_sending(&mut self, sq_psn: u32) {
        self.sender.begin(sq_psn);
    }

    /// Forgets all requests, as in RESET.
    pub fn reset(&mut self) {
        self.sender.reset();
        self.receiver.reset();
        self.one_sided = OneSided::default();
    }

    /// There is a link with the peer's process.
    pub fn use_link(&mut self, connection: &mut Connection, qp: &Resources, peer: &Arc<Peer>) {
        self.one_sided.use_link(peer);
        connection.use_link(peer);
        self.update_gate(connection, qp);
    }

    /// Applies the consequences of engine calls: a completion queue without room fails the queue
    /// pair, a failed queue pair flushes its requests, and changes are published for the peer.
    pub fn after_protocol(&mut self, connection: &mut Connection, qp: &Resources, now: Time) {
        connection.fail_on_overrun(qp, now);
        if let Some(receives) = connection.receives() {
            self.receiver.remain(receives.len());
        }
        self.update_gate(connection, qp);
        self.update_credit(qp);
        self.sender.flush_if_failed(connection, qp);
        let engine = connection.engine();
        if engine.state() == State::Error && engine.keeps_receives() {
            qp.node().failed(qp.node_number);
        }
    }

    /// The same, where only a completion queue without room may have changed anything.
    #[inline]
    pub fn after_completions(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        now: impl FnOnce() -> Time,
    ) {
        if qp.has_overrun() {
            self.after_protocol(connection, qp, now());
        }
    }

    /// Acts on a peer that has taken nothing for as long as it may.
    pub fn watch_peer(&mut self, connection: &mut Connection, qp: &Resources, now: Time) {
        if connection.peer_is_stalled(qp, now, self.sender.oldest()) {
            self.sender.on_stall(connection, qp, now);
        }
    }

    /// The region of a key is invalidated. Returns whether receive requests name it, so that
    /// credits granted for them have to be revoked.
    pub fn forget(&mut self, key: u32) -> bool {
        self.sender.forget(key);
        self.receiver.forget(key)
    }
}

/// Sending.
impl FastPath {
    /// Carries out a message, if it may take the fast path, within the call's budget.
    #[inline]
    pub fn post_message<'a, P: Objects>(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        given: &impl SendView<'a, P>,
        budget: &mut Budget,
    ) -> bool {
        self.sender.post(connection, qp, given, &mut budget.wait)
    }

    /// Executes an RDMA write or read, if it may take the fast path, within the call's budget.
    #[inline]
    pub fn post_one_sided<'a, P: Objects>(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        given: &impl SendView<'a, P>,
        budget: &mut Budget,
    ) -> bool {
        let (sender, bytes) = (&self.sender, &mut budget.bytes);
        let done = self.one_sided.post(connection, qp, sender, given, bytes);
        done.is_some()
    }

    /// Whether a request that waits for the protocol may take the fast path, as far as is known,
    /// if this thread may access memory so.
    pub fn may_retry(&self, wr: &WorkRequest, mode: AccessMode) -> bool {
        may_be_one_sided(wr) || mode == AccessMode::Direct && self.sender.may_retry(wr)
    }

    /// Carries out the messages, RDMA writes and reads that wait for the protocol, which has
    /// nothing under way, up to the first that may not take the fast path.
    ///
    /// A queue pair that always has requests outstanding would stay on the protocol path for good:
    /// new ones wait behind them.
    pub fn retry_waiting(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        now: Time,
        mode: AccessMode,
    ) {
        let mut budget = MOST_AT_ONCE;
        let mut messages = MOST_MESSAGES;
        let mut waiting = connection.engine_mut().take_waiting();
        let mut succeeded = false;
        while let Some(wr) = waiting.front() {
            let is_message = mode == AccessMode::Direct
                && messages > 0
                && self.sender.retry(connection, qp, wr, mode);
            let sender = &self.sender;
            let mut move_it = || {
                self.one_sided
                    .retry(connection, qp, sender, wr, &mut budget)
            };
            if !is_message && move_it().is_none() {
                break;
            }
            messages -= usize::from(is_message);
            waiting.pop_front();
            succeeded = true;
        }
        connection.fast_path_retried(now, succeeded);
        for wr in waiting {
            self.sender.put_back(connection, qp, wr, now);
        }
    }

    /// The protocol takes a request, at once or when its turn comes.
    pub fn post_to_protocol(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        wr: WorkRequest,
        now: Time,
    ) {
        self.sender.post_to_protocol(connection, qp, wr, now);
    }

    /// Requests posted, not completed and not with the protocol.
    #[inline]
    pub fn outstanding(&self) -> usize {
        self.sender.outstanding()
    }

    /// Whether there are any.
    pub fn is_busy(&self) -> bool {
        self.sender.is_busy()
    }

    /// The outcome of messages is known. Returns whether the protocol has something to send now.
    pub fn on_outcome(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        outcome: Outcome,
        mode: AccessMode,
    ) -> bool {
        let sends = self.sender.on_outcome(connection, qp, outcome, mode);
        if !sends || !matches!(outcome, Outcome::Taken(_)) {
            return sends;
        }
        // RDMA writes and reads that waited for their turn behind messages, no longer than that:
        // the protocol would move them as packets.
        let engine = connection.engine();
        if engine.is_idle() && engine.first_waiting().is_some_and(may_be_one_sided) {
            self.retry_waiting(connection, qp, clock::now(), mode);
        }
        connection.engine().outstanding() > 0
    }

    /// There is room for messages that wait for it, if they do. Returns whether the protocol has
    /// something to send now.
    pub fn on_room(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        mode: AccessMode,
    ) -> bool {
        self.sender.on_room(connection, qp, mode)
    }
}

/// Receiving.
impl FastPath {
    /// Posts receive requests to the queue pair's own queue.
    ///
    /// # Errors
    /// EINVAL for too many pieces; ENOMEM if the queue is full.
    pub fn post_receives<'a>(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        let posted = self.receiver.post(connection, qp, requests);
        if self.receiver.grant().is_due() {
            self.update_credit(qp);
        }
        posted
    }

    /// The peer has used the connection, which is reported the first time.
    pub fn used(&mut self, connection: &mut Connection, qp: &Resources, now: Time) {
        let (engine, mut host) = connection.split(qp, now);
        engine.used(&mut host);
        self.after_protocol(connection, qp, now);
    }

    /// Receives messages that came together.
    pub fn take(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        messages: &mut Messages<'_>,
        mode: AccessMode,
    ) {
        if self.receiver.is_first_use(connection, messages) {
            self.used(connection, qp, clock::now());
        }
        self.receiver.take(connection, qp, messages, mode);
        if self.receiver.grant().runs_low() {
            self.update_credit(qp);
        }
    }
}

/// The published gate.
impl FastPath {
    /// Publishes the peer's current rights, if they have changed.
    pub fn update_gate(&mut self, connection: &mut Connection, qp: &Resources) {
        self.gate.update(connection, qp, &mut self.receiver);
    }

    /// Shows the peer the credit, if that has changed.
    fn update_credit(&mut self, qp: &Resources) {
        if self.gate.grants_credits()
            && let Some(directory) = qp.node().directory()
        {
            self.receiver.show_credit(qp, directory);
        }
    }

    /// No credits are granted from now on. Returns whether messages have to be taken in that were
    /// sent by credit: so until some thread has taken in all, since another one that has closed the
    /// gate may not have yet.
    pub fn begin_revocation(&mut self, connection: &mut Connection, qp: &Resources) -> bool {
        self.gate.begin_revocation();
        self.update_gate(connection, qp);
        connection.engine().keeps_receives()
    }

    /// There may be credits again.
    pub fn end_revocation(&mut self, connection: &mut Connection, qp: &Resources) {
        self.gate.end_revocation();
        self.update_gate(connection, qp);
    }

    /// The queue pair goes: nothing is shown any more.
    pub fn close(&mut self, connection: &mut Connection, qp: &Resources) {
        self.gate.close();
        self.update_gate(connection, qp);
    }

    /// The peer, if it may still be using revoked rights.
    pub fn take_lingering(&mut self) -> Option<Arc<Peer>> {
        self.gate.take_lingering()
    }
}
