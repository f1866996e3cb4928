//! The gate that a queue pair publishes for its peer: the peer's rights without packets.
//!
//! [`ShownGate`] owns the last published value, the process that it admitted, and the two reasons
//! to grant less: credits are being revoked, and the queue pair is being destroyed.
//!
//! *Invariants.* The gate equals the result of [`ShownGate::wanted`], or is about to:
//! [`ShownGate::update`] is called after each change of the state, the attributes, the link, or the
//! reasons to grant less. Operations of the peer by revoked rights are awaited: 2 ms with the queue
//! pair locked, and for the rest of a second without a lock ([`ShownGate::take_lingering`],
//! [`await_unused`]).
//!
//! *Locks.* Under the queue pair's lock. The peer is waited for with that lock held, so the wait is
//! short and bounded.
//!
//! *Tests.* `super::super::tests`: a gate follows the state. `providers/uroce/tests`: `onesided.rs`
//! (deregistering under a stream of writes), `credits.rs`.

use super::super::connection::Connection;
use super::super::resources::Resources;
use super::eager_receive::EagerReceiver;
use crate::carrier::qpn;
use crate::carrier::shm::{Gate, PATIENCE, Patience, Peer, Use, still_used};
use kit::sys::barrier;
use std::sync::Arc;
use std::sync::atomic::{Ordering::SeqCst, fence};
use std::time::Duration;
use uroce_engine::qp::Service;

/// How long the peer is waited for with the queue pair locked.
const MOMENT: Duration = Duration::from_millis(2);

/// The published value.
#[derive(Default)]
pub(super) struct ShownGate {
    shown: Option<Gate>,
    /// The process that was shown a gate last.
    admitted: Option<Arc<Peer>>,
    /// The peer may still be using its earlier rights.
    lingers: bool,
    /// That many calls want no credits to be granted now.
    revocations: u32,
    /// The queue pair goes: nothing is shown any more.
    closing: bool,
}

impl ShownGate {
    /// No credits are granted from now on, until [`ShownGate::end_revocation`] was called as often.
    pub fn begin_revocation(&mut self) {
        self.revocations += 1;
    }

    /// There may be credits again.
    pub fn end_revocation(&mut self) {
        self.revocations = self.revocations.saturating_sub(1);
    }

    /// The queue pair goes.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Whether the peer was shown credits.
    #[inline]
    pub fn grants_credits(&self) -> bool {
        self.shown.is_some_and(|gate| gate.credits)
    }

    /// Publishes the peer's current rights, if they have changed.
    #[inline]
    pub fn update(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        receiver: &mut EagerReceiver,
    ) {
        let gate = self.wanted(connection, qp);
        if gate != self.shown {
            self.show(gate, connection, qp, receiver);
        }
    }

    fn show(
        &mut self,
        gate: Option<Gate>,
        connection: &mut Connection,
        qp: &Resources,
        receiver: &mut EagerReceiver,
    ) {
        let Some(directory) = qp.node().directory() else {
            return;
        };
        let index = qpn::index_of(qp.number);
        if gate.is_some_and(|gate| gate.credits) {
            connection.engine_mut().keep_receives();
            receiver.show_credit(qp, directory);
        }
        directory.segment().show_gate(index, gate);
        if self.shown.is_some() && rights(self.shown) != rights(gate) {
            fence(SeqCst);
            self.lingers |= self.admitted.as_ref().is_some_and(|peer| {
                !peer.await_unused(Use::Gate(index), &mut Patience::new(MOMENT))
            });
        }
        self.shown = gate;
        if gate.is_some() {
            self.admitted = connection.peer().cloned();
        } else if !self.lingers {
            self.admitted = None;
        }
    }

    /// The peer's current rights.
    fn wanted(&self, connection: &Connection, qp: &Resources) -> Option<Gate> {
        let peer = connection.peer()?;
        let engine = connection.engine();
        if qp.service() != Service::Rc || !engine.state().receives() || self.closing {
            return None;
        }
        let attributes = engine.attributes();
        let access = attributes.access;
        Some(Gate {
            peer: attributes.dest_qp_num,
            generation: peer.generation(),
            pd: qp.pd().number(),
            pkey: attributes.pkey,
            write: access.write,
            read: access.read && attributes.max_dest_rd_atomic > 0,
            awaits_use: engine.awaits_use(),
            credits: self.may_grant(connection, qp),
        })
    }

    /// Whether credits may be granted: the receive requests are the queue pair's own, and the
    /// kernel has the barrier by which credits are revoked.
    fn may_grant(&self, connection: &Connection, qp: &Resources) -> bool {
        let has_own = self.revocations == 0 && connection.receives().is_some();
        qp.service() == Service::Rc && has_own && barrier::takes_part()
    }

    /// The peer, if it may still be using revoked rights. The caller waits for it by
    /// [`await_unused`], without a lock.
    pub fn take_lingering(&mut self) -> Option<Arc<Peer>> {
        let lingers = std::mem::take(&mut self.lingers);
        self.admitted.clone().filter(|_| lingers)
    }
}

/// The part of the gate whose change has to wait for a peer that uses it.
fn rights(gate: Option<Gate>) -> Option<Gate> {
    gate.map(|gate| Gate {
        awaits_use: false,
        credits: false,
        ..gate
    })
}

/// Waits until the peer has finished operations by revoked rights: for calls of the application
/// after which it may reuse the memory while it stays registered.
pub(in super::super) fn await_unused(peer: &Peer, number: u32) {
    let index = qpn::index_of(number);
    if !peer.await_unused(Use::Gate(index), &mut Patience::new(PATIENCE)) {
        still_used("a queue pair", peer.pid().as_raw_nonzero().get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        Gate {
            peer: 3,
            generation: 4,
            pd: 5,
            pkey: 0xffff,
            write: true,
            read: true,
            awaits_use: true,
            credits: true,
        }
    }

    #[test]
    fn only_rights_are_waited_for() {
        let changed = Gate {
            awaits_use: false,
            credits: false,
            ..gate()
        };
        assert!(rights(Some(gate())) == rights(Some(changed)));
        let fewer = Gate {
            write: false,
            ..gate()
        };
        assert!(rights(Some(gate())) != rights(Some(fewer)));
        assert!(rights(Some(gate())) != rights(None));
    }

    #[test]
    fn credits_are_granted_when_all_revocations_have_ended() {
        let mut shown = ShownGate::default();
        shown.begin_revocation();
        shown.begin_revocation();
        shown.end_revocation();
        assert_eq!(shown.revocations, 1);
        shown.end_revocation();
        shown.end_revocation();
        assert_eq!(shown.revocations, 0, "it does not wrap");
        assert!(!shown.grants_credits() && shown.take_lingering().is_none());
    }
}
