//! A queue pair as the node sees it: packets and messages that come for it, and packets that it has
//! to send.
//!
//! [`QpState`] routes each call of the node to the part of the queue pair that it concerns. Which
//! memory may be accessed directly depends on the thread that calls ([`access_mode`]).

use super::attributes;
use super::connection::blocked;
use super::resources::Resources;
use super::state::QpState;
use crate::carrier::{Sender, shm};
use crate::memory::AccessMode;
use crate::node::{Account, Caller, Endpoint, Incoming, Messages};
use kit::sys::application::FoundPage;
use std::sync::Arc;
use uroce_engine::qp::Service;
use uroce_engine::timer::Time;
use uroce_engine::wire::Kind;

impl Endpoint for QpState {
    fn receive(&self, now: Time, incoming: &Incoming<'_>, caller: Caller) -> bool {
        let qp = &self.resources;
        let locked = &mut *self.locked.lock();
        let connection = &mut locked.connection;
        if !connection.is_from_peer(qp, incoming) {
            return false;
        }
        connection.note_arrival(incoming);
        if let Some(target) = &mut locked.target
            && target.redirect(connection, qp, incoming)
        {
            return true;
        }
        connection.receive(qp, now, incoming, access_mode(qp, caller));
        locked.fast_path.after_protocol(connection, qp, now);
        if let Some(target) = &locked.target {
            target.record_received(connection, qp);
            return true;
        }
        !connection.is_quiet(now)
    }

    fn receive_batch(&self, now: Time, incoming: &[Incoming<'_>], caller: Caller) -> bool {
        let qp = &self.resources;
        let connected = matches!(qp.service(), Service::Rc | Service::Uc);
        let combines = connected && access_mode(qp, caller) == AccessMode::Faultable;
        let mut sends = false;
        // Between two messages, the application may post a receive request for the second.
        for some in incoming.chunk_by(|before, _| !ends_receive(before)) {
            if combines && some.len() > 1 && some.iter().any(has_data) {
                let locked = &mut *self.locked.lock();
                locked.connection.receive_combined(qp, now, some);
                locked.after_protocol(qp, now);
                sends = true;
                continue;
            }
            for one in some {
                sends |= self.receive(now, one, caller);
            }
        }
        sends
    }

    fn transmit(&self, now: Time, out: &mut Sender<'_>, caller: Caller) {
        let qp = &self.resources;
        let locked = &mut *self.locked.lock();
        let connection = &mut locked.connection;
        if connection.is_blocked(qp, now) {
            return;
        }
        let (mode, fast_path) = (access_mode(qp, caller), &mut locked.fast_path);
        if connection.retries_fast_path(qp, now, |wr| fast_path.may_retry(wr, mode)) {
            fast_path.retry_waiting(connection, qp, now, mode);
        }
        let link = connection.live_peer().cloned();
        let (mut without_room, mut found) = (None, FoundPage::default());
        while without_room.is_none() && !out.is_full() {
            if !connection.transmit(qp, now, link.as_ref(), mode, out, &mut found) {
                if let Some(target) = &mut locked.target
                    && target.unpark(connection, qp, now)
                {
                    continue;
                }
                break;
            }
            // Called again when there is room.
            without_room = blocked(qp, out);
        }
        locked.fast_path.after_protocol(connection, qp, now);
        connection.block(qp, now, without_room);
        if let Some(target) = &mut locked.target {
            target.return_if_at_rest(connection, qp);
        }
    }

    fn is_attended_by(&self, mark: usize) -> bool {
        self.resources.is_attended_by(mark)
    }

    fn waits_for_room(&self) -> bool {
        let connection = &self.locked.lock().connection;
        connection.waits_for_room(&self.resources)
    }

    fn linked(&self, now: Time, peer: &Arc<shm::Peer>) {
        let qp = &self.resources;
        let locked = &mut *self.locked.lock();
        let connection = &mut locked.connection;
        if connection.lacks_link(peer) {
            locked.fast_path.use_link(connection, qp, peer);
            locked.after_protocol(qp, now);
        }
    }

    fn used(&self, now: Time) {
        let locked = &mut *self.locked.lock();
        locked
            .fast_path
            .used(&mut locked.connection, &self.resources, now);
    }

    fn on_time(&self, now: Time) {
        let qp = &self.resources;
        let locked = &mut *self.locked.lock();
        let connection = &mut locked.connection;
        connection.postpone_if_taken(now);
        connection.end_hold_on_time(now);
        locked.fast_path.watch_peer(connection, qp, now);
        let (engine, mut host) = connection.split(qp, now);
        engine.on_time(now, &mut host);
        locked.after_protocol(qp, now);
    }

    fn hurry(&self) -> bool {
        self.locked.lock().connection.engine_mut().hurry()
    }

    fn expects_answers(&self) -> bool {
        self.locked.lock().connection.engine().expects_answers()
    }

    fn deadline(&self) -> Option<Time> {
        self.locked.lock().connection.deadline()
    }

    fn messages(&self, messages: &mut Messages<'_>, caller: Caller) {
        let qp = &self.resources;
        let locked = &mut *self.locked.lock();
        let (connection, fast_path) = (&mut locked.connection, &mut locked.fast_path);
        fast_path.take(connection, qp, messages, access_mode(qp, caller));
        fast_path.after_completions(connection, qp, crate::clock::now);
    }

    fn on_outcome(&self, peer: &shm::Peer, outcome: shm::Outcome, caller: Caller) -> bool {
        let qp = &self.resources;
        let locked = &mut *self.locked.lock();
        let (connection, fast_path) = (&mut locked.connection, &mut locked.fast_path);
        if !connection.is_linked_to(peer) {
            return false;
        }
        let sends = fast_path.on_outcome(connection, qp, outcome, access_mode(qp, caller));
        fast_path.after_completions(connection, qp, crate::clock::now);
        sends
    }

    fn on_room(&self, peer: &shm::Peer, caller: Caller) -> bool {
        let qp = &self.resources;
        let locked = &mut *self.locked.lock();
        let (connection, fast_path) = (&mut locked.connection, &mut locked.fast_path);
        if !connection.is_linked_to(peer) {
            return false;
        }
        let sends = fast_path.on_room(connection, qp, access_mode(qp, caller));
        fast_path.after_completions(connection, qp, crate::clock::now);
        sends
    }

    fn failed(&self) {
        self.revoke_credits();
        self.grant_credits();
    }

    fn account(&self) -> Option<Account> {
        let qp = &self.resources;
        let locked = self.locked.lock();
        let engine = locked.connection.engine();
        Some(Account {
            kind: attributes::name_of_service(qp.service()),
            state: attributes::name_of_state(engine.state()),
            device: qp.port().name().to_owned(),
            peer: locked.connection.remote(),
            counters: *engine.counters(),
        })
    }
}

/// Whether a packet's payload goes into memory.
fn has_data(incoming: &Incoming<'_>) -> bool {
    let kind = incoming.packet.headers.opcode.operation().kind();
    matches!(kind, Kind::Write | Kind::Send | Kind::ReadResponse)
}

/// Whether a packet ends a message that takes a receive request.
fn ends_receive(incoming: &Incoming<'_>) -> bool {
    let operation = incoming.packet.headers.opcode.operation();
    let takes = operation.kind() == Kind::Send || operation.has_immediate();
    takes && operation.position().ends()
}

/// How memory is accessed for the queue pair by this caller: directly by the threads that post to
/// it and poll its queues, by copies of the kernel in all others, because the application may have
/// unmapped it.
#[inline]
pub(super) fn access_mode(qp: &Resources, caller: Caller) -> AccessMode {
    match caller {
        Caller::Poster => AccessMode::Direct,
        Caller::Poller(mark) if qp.is_attended_by(mark) => AccessMode::Direct,
        Caller::Poller(_) | Caller::Node => AccessMode::Faultable,
    }
}
