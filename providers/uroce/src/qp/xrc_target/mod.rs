//! An XRC target that several processes share: its migration between them, and its takeover.
//!
//! [`crate::xrc`] describes delegation, changes of attributes, ends of processes and takeover. Here
//! is the queue pair's part of it.
//!
//! | module | type | owns |
//! | --- | --- | --- |
//! | `owner` | `Delegation` | the process that has the target, the packets that wait for it |
//! | `delegate` | `Delegate` | the owner of the target, and whether the target is here |
//! | `sharing` | `Sharing` | the processes that have it open, listeners of events, the wait for a return |
//! | here | [`XrcTarget`] | the first two, and the takeover state (`xrc::TakeoverState`) |
//!
//! A packet is parked only at the owner; the delegate returns the target as soon as it is at rest.
//! Reports of a process that is not (or no longer) the delegate are ignored.
//!
//! *Invariants.* A target is at one place: here as the owner, delegated, or here as a delegate. The
//! fast path is never open on it, so engine calls are followed only by
//! [`Connection::fail_on_overrun`].
//!
//! *Locks.* [`XrcTarget`] is under the queue pair's lock, [`Sharing`] is not. Links keep messages
//! that do not fit, so only `QpState::revoke_delegation` waits for another process, without the
//! queue pair's lock, for a second at most.
//!
//! *Tests.* In each module, and `super::tests`: delegation, parking, return and failure over a real
//! link. `c-tests/programs/post_44/xrc.c` and `xrc_takeover.c`: three processes, one of which is
//! killed.

mod delegate;
mod owner;
mod sharing;

pub use sharing::Sharing;

use super::attributes;
use super::connection::Connection;
use super::resources::Resources;
use crate::carrier::qpn;
use crate::clock;
use crate::memory::AccessMode;
use crate::node::{self, Incoming};
use crate::xrc::{DelegateState, Link, Message, Record, TakeoverState};
use bytemuck::Zeroable;
use delegate::Delegate;
use kit::abi::*;
use kit::errno::{Errno, Result};
use owner::Delegation;
use std::sync::Arc;
use uroce_engine::psn::Psn;
use uroce_engine::qp::{Attributes, Mask, Modify, Rest, State};
use uroce_engine::timer::Time;

/// The attributes that a delegate gets.
pub(super) const GIVEN: u32 = IBV_QP_ACCESS_FLAGS
    | IBV_QP_PKEY_INDEX
    | IBV_QP_PATH_MTU
    | IBV_QP_DEST_QPN
    | IBV_QP_RQ_PSN
    | IBV_QP_MAX_DEST_RD_ATOMIC
    | IBV_QP_MIN_RNR_TIMER;

/// The attributes that a successor gets, besides the state and the address.
pub(super) const WRITTEN: u32 = IBV_QP_ACCESS_FLAGS
    | IBV_QP_PATH_MTU
    | IBV_QP_TIMEOUT
    | IBV_QP_MAX_QP_RD_ATOMIC
    | IBV_QP_MAX_DEST_RD_ATOMIC
    | IBV_QP_MIN_RNR_TIMER;

/// The part of an XRC target that migrates, under the queue pair's lock.
#[derive(Default)]
pub(super) struct XrcTarget {
    /// As the owner: which process has it.
    delegation: Delegation,
    /// As a delegate: its owner.
    delegate: Option<Delegate>,
    /// The state for a successor, as soon as there may be one.
    takeover: Option<Arc<TakeoverState>>,
}

/// The attributes as another process is given them.
fn attributes_of(connection: &Connection, qp: &Resources) -> ibv_qp_attr {
    let mut attr = ibv_qp_attr::zeroed();
    connection.query(qp, false, &mut attr);
    attr
}

/// As the owner.
impl XrcTarget {
    /// Forwards a packet that is for another process. Returns whether it was forwarded, or waits
    /// for that.
    pub fn redirect(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        incoming: &Incoming<'_>,
    ) -> bool {
        let (Some(xrcd), Some(header)) = (qp.xrcd(), incoming.packet.headers.xrceth) else {
            return false;
        };
        let engine = connection.engine();
        if self.delegate.is_some() || !engine.state().receives() {
            return false;
        }
        let psn = incoming.packet.headers.bth.psn;
        let to = qpn::slot_of(header.srqn);
        let waits = self.delegation.comes_after_parked(psn);
        let expected = engine.expected();
        if let Some(delegate) = self.delegation.delegate() {
            if delegate.slot() == to && !waits {
                delegate.send_or_drop(&Message::Packet(qp.number, &owner::bytes(incoming)));
                return true;
            }
            // The owner answers a completed request again. It could not wait behind a message that
            // is half received.
            if psn.before(expected) {
                return false;
            }
            let delegate = Arc::clone(delegate);
            if self.delegation.revoke() {
                delegate.send(&Message::Revoke(qp.number, false));
            }
            return self.park(psn, incoming);
        }
        if waits {
            return self.park(psn, incoming);
        }
        // Something before it was lost: the engine here asks for that.
        if expected.before(psn) || !engine.is_between() {
            return false;
        }
        if to == qp.node().slot() {
            return false;
        }
        let Some(link) = xrcd.link(to) else {
            // It was lost, and the peer sends it again.
            return xrcd.is_coming(to);
        };
        if !engine.is_at_rest() {
            return self.park(psn, incoming);
        }
        self.begin_delegation(connection, qp, link, incoming);
        true
    }

    fn park(&mut self, psn: Psn, incoming: &Incoming<'_>) -> bool {
        self.delegation.park(psn, owner::bytes(incoming));
        true
    }

    fn begin_delegation(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        link: Arc<Link>,
        incoming: &Incoming<'_>,
    ) {
        let (engine, mut host) = connection.split(qp, clock::now());
        engine.used(&mut host);
        let number = self.delegation.begin(Arc::clone(&link));
        // A successor asks the delegate, so that it must be known before.
        self.record(connection, qp);
        if let Some(takeover) = &self.takeover {
            takeover.show(qp.number, &link);
        }
        let attr = attributes_of(connection, qp);
        let rest = connection.engine().rest();
        link.send(&Message::Delegate(qp.number, number, attr, rest));
        link.send_or_drop(&Message::Packet(qp.number, &owner::bytes(incoming)));
    }

    /// Takes in the packets that waited, if the target is here and all before them is answered.
    /// Returns whether there were any.
    pub fn unpark(&mut self, connection: &mut Connection, qp: &Resources, now: Time) -> bool {
        let is_here = self.delegation.delegate().is_none();
        if !self.delegation.has_parked() || !is_here || !connection.engine().is_at_rest() {
            return false;
        }
        self.take_parked(connection, qp, now);
        true
    }

    /// Takes in the packets that waited as if they came now.
    fn take_parked(&mut self, connection: &mut Connection, qp: &Resources, now: Time) {
        for bytes in self.delegation.take_parked() {
            if let Some(incoming) = node::incoming(&bytes)
                && !self.redirect(connection, qp, &incoming)
            {
                connection.receive(qp, now, &incoming, AccessMode::Faultable);
                connection.fail_on_overrun(qp, now);
                self.record_received(connection, qp);
            }
        }
    }

    /// A delegate reports. Returns whether there may be something to send now.
    pub fn on_report(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        link: &Arc<Link>,
        state: DelegateState,
        rest: &Rest,
    ) -> bool {
        if !self.delegation.is_with(link) {
            return false;
        }
        if connection.engine().state().receives() && state != DelegateState::Unknown {
            connection.engine_mut().catch_up(rest);
            self.record(connection, qp);
        }
        if state != DelegateState::Running {
            self.end_delegation(connection, qp, state == DelegateState::Failed);
            return true;
        }
        if !self.delegation.has_parked() {
            return false;
        }
        self.take_parked(connection, qp, clock::now());
        true
    }

    /// A process has ended: its delegated target returns here, with its last reported state.
    /// Returns whether it had the target.
    pub fn on_lost(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        link: &Arc<Link>,
    ) -> bool {
        let was_there = self.delegation.is_with(link);
        if was_there {
            self.end_delegation(connection, qp, false);
        }
        was_there
    }

    /// The target is here again. If it has failed, it goes to ERR.
    pub fn end_delegation(&mut self, connection: &mut Connection, qp: &Resources, failed: bool) {
        self.delegation.end();
        let now = clock::now();
        if failed && connection.engine().state().receives() {
            self.delegation.drop_parked();
            let error = Modify {
                mask: Mask::STATE,
                state: Some(State::Error),
                ..Modify::default()
            };
            let (engine, mut host) = connection.split(qp, now);
            // There is that transition from every state.
            let _ = engine.modify(&error, &mut host);
            connection.fail_on_overrun(qp, now);
        }
        self.record(connection, qp);
        if let Some(sharing) = qp.sharing() {
            sharing.returns().add();
        }
        self.unpark(connection, qp, now);
    }

    /// Asks for the target at once, whatever is under way, and drops packets that wait for it.
    /// Returns whether it is delegated.
    pub fn revoke_at_once(&mut self, qp: &Resources) -> bool {
        self.delegation.drop_parked();
        let Some(delegate) = self.delegation.delegate() else {
            return false;
        };
        delegate.send(&Message::Revoke(qp.number, true));
        self.delegation.revoke();
        true
    }

    /// Whether the target is here. Then packets that waited for it are dropped.
    pub fn is_returned(&mut self) -> bool {
        let is_here = self.delegation.delegate().is_none();
        if is_here {
            self.delegation.drop_parked();
        }
        is_here
    }

    /// Abandons the target: its delegate is not waited for.
    pub fn abandon(&mut self, qp: &Resources) {
        if let Some(delegate) = self.delegation.end() {
            delegate.send(&Message::Revoke(qp.number, true));
        }
    }

    /// Attributes have changed: the delegate is given them.
    pub fn pass_on_attributes(&self, connection: &Connection, qp: &Resources) {
        if let Some(delegate) = self.delegation.delegate() {
            delegate.send(&Message::Change(qp.number, attributes_of(connection, qp)));
        }
    }
}

/// Takeover, as the owner.
impl XrcTarget {
    /// Another process has opened the target, and may take it over.
    ///
    /// # Errors
    /// Of the successor's resources: memfd_create(2), socket(2), mmap(2).
    pub fn add_user(
        &mut self,
        connection: &Connection,
        qp: &Resources,
        link: &Arc<Link>,
    ) -> Result<()> {
        let takeover = match &self.takeover {
            Some(takeover) => Arc::clone(takeover),
            None => {
                let kept = qp.node().keeps_slot()?;
                let takeover = Arc::new(TakeoverState::create(qp.node().slot(), kept)?);
                self.takeover = Some(Arc::clone(&takeover));
                takeover
            }
        };
        if let Some(sharing) = qp.sharing() {
            sharing.add_user(link.slot());
        }
        self.record(connection, qp);
        takeover.show(qp.number, link);
        if let Some(delegate) = self.delegation.delegate() {
            takeover.show(qp.number, delegate);
        }
        Ok(())
    }

    /// Writes down the state, if there may be a successor.
    pub fn record(&self, connection: &Connection, qp: &Resources) {
        let Some(takeover) = &self.takeover else {
            return;
        };
        takeover.write(&Record {
            attr: attributes_of(connection, qp),
            rest: connection.engine().rest(),
            delegate: self.delegation.delegate().map_or(0, |at| at.slot()),
            delegation: self.delegation.number(),
            openers: qp.sharing().map(Sharing::users).unwrap_or_default(),
        });
    }

    /// The same after a packet, before the answer to it leaves: unless a message is half received.
    pub fn record_received(&self, connection: &Connection, qp: &Resources) {
        if self.takeover.is_some() && connection.engine().is_between() {
            self.record(connection, qp);
        }
    }
}

/// As a delegate.
impl XrcTarget {
    /// Whether the target is here, as a delegate.
    pub fn is_delegated_here(&self) -> bool {
        self.delegate.as_ref().is_some_and(Delegate::is_here)
    }

    /// The target moves here, with its owner's state.
    pub fn begin_here(
        &mut self,
        connection: &mut Connection,
        owner: &Arc<Link>,
        delegation: u32,
        (values, rest): (Attributes, &Rest),
    ) {
        connection.engine_mut().resume(values, rest);
        self.delegate = Some(Delegate::new(Arc::clone(owner), delegation));
    }

    /// Reports the current state to the owner, before the answers leave.
    pub fn report_progress(&mut self, connection: &Connection, qp: &Resources) {
        let engine = connection.engine();
        let Some(delegate) = self.delegate.as_mut().filter(|it| it.is_here()) else {
            return;
        };
        if engine.state() == State::Error {
            delegate.give_back(qp.number, true, engine.rest());
        } else {
            delegate.report_progress(qp.number, engine.rest());
        }
    }

    /// The owner wants the target back: it is returned when it is at rest, or at once.
    pub fn on_revoke(&mut self, connection: &mut Connection, qp: &Resources, at_once: bool) {
        if !self.is_delegated_here() {
            return;
        }
        if at_once {
            let now = clock::now();
            let (engine, mut host) = connection.split(qp, now);
            engine.abandon(&mut host);
            connection.fail_on_overrun(qp, now);
        }
        if let Some(delegate) = &mut self.delegate {
            delegate.revoke();
        }
        self.return_if_at_rest(connection, qp);
        if let Some(delegate) = self.delegate.as_ref().filter(|it| it.is_here()) {
            // The owner learns by this which of the packets that wait there were here before.
            delegate.report(qp.number, connection.engine().rest());
        }
    }

    /// Returns the target to its owner, if that was requested and is possible.
    pub fn return_if_at_rest(&mut self, connection: &Connection, qp: &Resources) {
        let engine = connection.engine();
        if let Some(delegate) = &mut self.delegate
            && delegate.is_to_return()
            && engine.is_at_rest()
        {
            delegate.give_back(qp.number, false, engine.rest());
        }
    }
}

/// Takeover, as a successor and as a delegate whose owner has ended.
impl XrcTarget {
    /// Continues a target whose owner, of that slot, has ended. `delegate` has it at the moment, if
    /// that is another process.
    ///
    /// # Errors
    /// EIO for a state that there is not; EINVAL for an address that the interface does not have.
    pub fn take_over(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        record: &Record,
        (former, delegate): (u16, Option<Arc<Link>>),
        takeover: Arc<TakeoverState>,
    ) -> Result<()> {
        let state = attributes::state(record.attr.qp_state).map_err(|_| Errno(libc::EIO))?;
        let values = attributes::modify(&record.attr, WRITTEN)?.values;
        let path = crate::address::path(qp.port(), &record.attr.ah_attr);
        let path = if state.receives() { Some(path?) } else { None };
        if let Some(sharing) = qp.sharing() {
            sharing.set_owner(None);
            sharing.set_users(record.openers.clone());
        }
        // If it is delegated to this process, the state here is the latest.
        let was_here = self.delegate.take();
        let is_delegate = record.delegate == qp.node().slot();
        let knows = is_delegate && was_here.is_some_and(|it| it.is_of(record.delegation));
        let engine = connection.engine_mut();
        if knows && engine.state() == State::Error {
            engine.take_over(State::Error, values, None);
        } else {
            let rest = (!knows).then_some(&record.rest);
            engine.take_over(state, values, rest);
        }
        connection.take_over(path, record.attr.ah_attr);
        self.delegation.set_number(record.delegation);
        self.takeover = Some(takeover);
        if let Some(delegate) = delegate {
            delegate.send(&Message::TakenOver(qp.number, record.delegation, former));
            self.delegation.resume(delegate);
        }
        self.record(connection, qp);
        Ok(())
    }

    /// Reports to a successor how the delegation of that number stands.
    pub fn answer_successor(
        &mut self,
        connection: &Connection,
        qp: &Resources,
        successor: &Arc<Link>,
        delegation: u32,
    ) {
        let engine = connection.engine();
        let failed = engine.state() == State::Error;
        match self.delegate.as_mut().filter(|it| it.is_of(delegation)) {
            Some(it) => it.answer_successor(successor, qp.number, failed, engine.rest()),
            None => successor.send(&Message::Rest(
                qp.number,
                DelegateState::Unknown,
                Rest::default(),
            )),
        }
    }
}
