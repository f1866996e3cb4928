//! A queue pair of the protocol: [`QpState`].
//!
//! [`QpState`] owns the parts of a queue pair and routes calls to them: those of verbs (this file)
//! and those of the node ([`super::endpoint`]).
//!
//! | part | owns | lock |
//! | --- | --- | --- |
//! | [`Resources`] | number, node, queues, sizes, names in events | none |
//! | [`Groups`] | multicast groups | separate |
//! | [`Connection`] | the engine and its waiting conditions | the queue pair's |
//! | [`FastPath`] | operations without packets | the queue pair's |
//! | [`XrcTarget`] | migration and takeover of an XRC target; absent for other services | the queue pair's |
//!
//! *Invariants.* [`FastPath::after_protocol`] follows each call of the engine before the lock is
//! released. Operations that may wait for another thread or process (revoking credits, waiting for
//! a peer or for a delegate) are done here, between two times that the lock is held, never inside a
//! part.
//!
//! *Locks.* One lock for the three parts. While it is held, keys, receive queues, completion
//! queues, events and the carrier's buffer may be locked, never another queue pair.
//!
//! *Tests.* `tests`: the routing of calls. `super::tests`: queue pairs with a peer, XRC targets.

use super::attributes;
use super::connection::{self, Connection};
use super::domain::EventListener;
use super::fast_path::{self, Budget, FastPath};
use super::locked::{Locked, errno};
use super::multicast::Groups;
use super::resources::{CreateParams, Resources};
use super::xrc_target::{GIVEN, XrcTarget};
use crate::carrier::shm::LATE;
use crate::memory::{Binding, InvalidationListener, Mw};
use crate::node::{Caller, Endpoint, Incoming};
use crate::objects::Objects;
use crate::xrc::{DelegateState, Link, Record, TakeoverState};
use crate::{address, clock, threads};
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{BindInfo, CompCntr, ReceiveRequest, SendChain, SendRequest, SendView, Token};
use kit::sys::barrier;
use kit::sys::lock::Lock;
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use uroce_engine::qp::{Mask, Modify, Rest, Service, State};
use uroce_engine::timer::{AckTimeout, Time};
use uroce_engine::work::{Request, WorkRequest};

/// How long a send queue that drains waits for messages of the fast path.
const DRAIN: Duration = Duration::from_millis(100);

/// How long the delegate of an XRC target has to return it.
const PATIENCE: Duration = Duration::from_secs(1);

/// A queue pair.
pub struct QpState {
    pub(super) resources: Resources,
    groups: Groups,
    /// It has come to its end.
    ended: AtomicBool,
    pub(super) locked: Lock<Locked>,
}

impl QpState {
    /// A queue pair in RESET.
    pub fn new(number: u32, token: Token, params: CreateParams, me: &Weak<Self>) -> Self {
        Self::with(Resources::new(number, token, params), me)
    }

    fn with(resources: Resources, me: &Weak<Self>) -> Self {
        let is_target = resources.service() == Service::XrcTarget;
        Self {
            groups: Groups::default(),
            ended: AtomicBool::new(false),
            locked: Lock::new(Locked::new(
                Connection::new(&resources),
                FastPath::new(&resources, me),
                is_target.then(Box::default),
            )),
            resources,
        }
    }

    /// The number.
    pub fn number(&self) -> u32 {
        self.resources.number
    }

    /// The parts used without its lock.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// The multicast groups that it is attached to.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Sends the packets of requests that were just posted, or leaves them to the next occasion.
    /// After `some` posts it also receives, if this thread polls the queue pair's completion
    /// queues and has not for a while.
    fn send_posted(&self, batches: bool, some: bool, now: Time) {
        let (node, number) = (self.resources.node(), self.resources.node_number);
        match batches {
            true => node.post_in_batch(number, now),
            false => node.post_at(number, now),
        }
        if some {
            let mark = threads::mark();
            if self.resources.is_attended_by(mark) {
                node.progress_while_posting(Caller::Poller(mark));
            }
        }
    }

    /// Sends the pending packets.
    pub fn post(&self) {
        self.resources.node().post(self.resources.node_number);
    }

    /// Closes the queue pair: its peer uses no memory through it any more.
    pub fn close(&self) {
        self.revoke_credits();
        {
            let locked = &mut *self.locked.lock();
            let connection = &mut locked.connection;
            locked.fast_path.close(connection, &self.resources);
        }
        self.await_lingering();
    }
}

/// Attributes.
impl QpState {
    /// ibv_modify_qp(3); returns the state after it.
    ///
    /// # Errors
    /// EINVAL for a transition, attribute or value that there is not. Then nothing has changed.
    pub fn modify(&self, attr: &ibv_qp_attr, mask: u32) -> Result<ibv_qp_state> {
        let qp = &self.resources;
        let mask = mask & !attributes::useless(qp.service());
        let attr = &attributes::admitted(attr, mask, qp.port().mtu());
        let modify = attributes::modify(attr, mask)?;
        let leaves = matches!(modify.state, Some(State::Reset | State::Error));
        // The peer may be another one from then on. Messages that were sent by credit count.
        let moves = modify.mask.has(Mask::AV) && !modify.mask.has(Mask::DEST_QPN);
        if leaves || moves {
            self.revoke_credits();
        }
        let state = self.change(attr, mask, &modify);
        if leaves || moves {
            self.grant_credits();
            self.await_lingering();
        }
        let state = state?;
        // Requests continue after SQD; a peer is informed of an error.
        self.post();
        Ok(state)
    }

    fn change(&self, attr: &ibv_qp_attr, mask: u32, modify: &Modify) -> Result<ibv_qp_state> {
        let qp = &self.resources;
        if modify.state == Some(State::Sqd) {
            // Requests that wait for others begin before: afterwards none does.
            self.post();
            self.drain_fast_path();
        }
        // A peer's request that has completed here is answered, whatever comes now.
        if matches!(modify.state, Some(State::Reset | State::Error)) {
            qp.node().tear_down(qp.node_number);
            self.revoke_delegation();
        }
        let path = match modify.mask.has(Mask::AV) {
            true => Some(connection::path(qp, &attr.ah_attr)?),
            false => None,
        };
        let link = connection::connect(qp, path.as_ref(), attr, mask);
        let locked = &mut *self.locked.lock();
        let now = clock::now();
        let (engine, mut host) = locked.connection.split(qp, now);
        engine.modify(modify, &mut host).map_err(errno)?;
        locked.after_protocol(qp, now);
        if modify.mask.has(Mask::TIMEOUT) {
            locked.connection.note_timeout(attr.timeout);
            if let Some(asked) = AckTimeout::new(attr.timeout) {
                qp.node().note_timeout(asked);
            }
        }
        if let Some(path) = path {
            let (connection, fast_path) = (&mut locked.connection, &mut locked.fast_path);
            if modify.mask.has(Mask::DEST_QPN) {
                fast_path.begin(qp, path.local, attr.rq_psn);
                let by_link = link.is_some() || qp.node().is_local_only();
                connection.begin(path, attr.ah_attr, by_link);
            } else {
                fast_path.change_path(connection, qp, path.local);
                connection.change_path(path, attr.ah_attr);
            }
            match link {
                Some(peer) => fast_path.use_link(connection, qp, &peer),
                None => locked.use_link_if_found(qp),
            }
        }
        let state = locked.connection.engine().state();
        if modify.mask.has(Mask::SQ_PSN) {
            locked.fast_path.begin_sending(attr.sq_psn);
        }
        if state == State::Reset {
            locked.fast_path.reset();
            locked.connection.reset();
            qp.forget_completions();
        }
        let (connection, fast_path) = (&mut locked.connection, &mut locked.fast_path);
        fast_path.update_gate(connection, qp);
        if let Some(target) = &locked.target {
            target.pass_on_attributes(connection, qp);
            target.record(connection, qp);
        }
        Ok(attributes::qp_state(state))
    }

    /// ibv_query_qp(3).
    pub fn query(&self, attr: &mut ibv_qp_attr) {
        let locked = self.locked.lock();
        let drains = locked.fast_path.is_busy();
        locked.connection.query(&self.resources, drains, attr);
    }

    /// ibv_qp_attach_comp_cntr(3).
    ///
    /// # Errors
    /// EINVAL once the queue pair is neither in RESET nor in INIT.
    pub fn count_on(&self, counter: Arc<CompCntr>, ops: u32) -> Result<()> {
        let connection = &mut self.locked.lock().connection;
        if !matches!(connection.engine().state(), State::Reset | State::Init) {
            return Err(Errno::INVAL);
        }
        connection.counting_mut().add(ops, counter);
        Ok(())
    }

    /// Waits a moment until the outcome of all messages is known: the protocol reports that a send
    /// queue has drained, and knows nothing of the fast path.
    fn drain_fast_path(&self) {
        let began = Instant::now();
        while self.locked.lock().fast_path.is_busy() && began.elapsed() < DRAIN {
            self.resources.node().progress(Caller::Node);
            std::thread::yield_now();
        }
    }
}

/// Requests.
impl QpState {
    /// ibv_post_send(3): posts requests until one is refused; posted requests are sent.
    ///
    /// # Errors
    /// EINVAL for a request that is wrong, or not in this state; ENOMEM if the queue is full.
    pub fn post_send<'a, P: Objects>(&self, requests: &mut impl SendChain<'a, P>) -> Result<()> {
        let qp = &self.resources;
        let mut taken = Ok(());
        let mut budget = Budget::of_a_call();
        // Of the first request that the protocol takes.
        let mut time = None;
        let (batches, some);
        {
            let locked = &mut *self.locked.lock();
            some = locked.count_post(qp);
            for view in requests.views() {
                if locked.post_at_once(qp, &view, &mut budget) {
                    continue;
                }
                taken = view.request().and_then(|given| {
                    let now = *time.get_or_insert_with(clock::now);
                    let wr = locked.convert(qp, &given)?;
                    locked.post_to_protocol(qp, wr, now)
                });
                if taken.is_err() {
                    break;
                }
            }
            let (connection, fast_path) = (&mut locked.connection, &mut locked.fast_path);
            match time {
                Some(now) => fast_path.after_protocol(connection, qp, now),
                None => fast_path.after_completions(connection, qp, clock::now),
            }
            batches = time.is_some() && connection.engine().may_batch();
        }
        if let Some(now) = time {
            self.send_posted(batches, some, now);
        }
        taken
    }

    /// ibv_wr_complete(3): takes all requests or, after an error, none.
    ///
    /// # Errors
    /// As for [`QpState::post_send`].
    pub fn post_send_all<P: Objects>(
        &self,
        requests: &mut dyn ExactSizeIterator<Item = SendRequest<'_, P>>,
    ) -> Result<()> {
        let qp = &self.resources;
        let now;
        let (batches, some);
        {
            let locked = &mut *self.locked.lock();
            some = locked.count_post(qp);
            if !locked.has_room(qp, requests.len()) {
                return Err(Errno::NOMEM);
            }
            if requests.len() == 1
                && let Some(given) = requests.next()
            {
                let mut budget = Budget::of_a_call();
                if locked.post_at_once(qp, &given, &mut budget) {
                    let (connection, fast_path) = (&mut locked.connection, &mut locked.fast_path);
                    fast_path.after_completions(connection, qp, clock::now);
                    return Ok(());
                }
                now = clock::now();
                let wr = locked.convert(qp, &given)?;
                locked.post_to_protocol(qp, wr, now)?;
            } else {
                now = clock::now();
            }
            // Several take the protocol path, since none may be carried out if a later one is
            // wrong.
            for wr in locked.convert_all(qp, requests)? {
                locked.hand_over(qp, wr, now);
            }
            locked.after_protocol(qp, now);
            batches = locked.connection.engine().may_batch();
        }
        self.send_posted(batches, some, now);
        Ok(())
    }

    /// ibv_post_recv(3).
    ///
    /// # Errors
    /// EINVAL in RESET, with a shared receive queue, for too many pieces; ENOMEM if the queue is
    /// full.
    pub fn post_recv<'a>(
        &self,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        let qp = &self.resources;
        let locked = &mut *self.locked.lock();
        let connection = &mut locked.connection;
        if connection.receives().is_none() {
            return Err(Errno::INVAL);
        }
        if !connection.engine().may_post_receive() {
            // The first is the one that is refused.
            return requests.next().map_or(Ok(()), |_| Err(Errno::INVAL));
        }
        let taken = locked.fast_path.post_receives(connection, qp, requests);
        if connection.engine().minds_receives() {
            // In ERR they are flushed; a peer that was informed of an empty queue learns of them.
            let now = clock::now();
            let (engine, mut host) = connection.split(qp, now);
            engine.receives_posted(&mut host);
            locked.after_protocol(qp, now);
        }
        taken
    }

    /// ibv_bind_mw(3), for windows of type 1: posts the request; returns the new R_Key.
    ///
    /// # Errors
    /// As for [`QpState::post_send`]; EINVAL for a window of type 2.
    pub fn bind_mw<P: Objects>(
        &self,
        mw: &Arc<Mw>,
        id: u64,
        flags: u32,
        info: &BindInfo<'_, P>,
    ) -> Result<u32> {
        let qp = &self.resources;
        let rkey = qp.keys().next_rkey(mw)?;
        let mut wr = WorkRequest::new(id, Request::Bind(0));
        wr.signaled = flags & IBV_SEND_SIGNALED != 0;
        wr.solicited = flags & IBV_SEND_SOLICITED != 0;
        wr.fence = flags & IBV_SEND_FENCE != 0;
        let now;
        {
            let locked = &mut *self.locked.lock();
            let binds = locked.connection.binds_mut();
            wr.request = Request::Bind(binds.keep(Binding {
                mw: Arc::clone(mw),
                rkey,
                mr: info.mr.map(Arc::clone),
                address: info.address,
                length: info.length,
                access: info.access,
            }));
            now = clock::now();
            locked.post_to_protocol(qp, wr, now)?;
            locked.after_protocol(qp, now);
        }
        qp.node().post_at(qp.node_number, now);
        Ok(rkey)
    }
}

/// Waits without the lock.
impl QpState {
    /// Revokes the credits that the peer was granted, and receives the messages that used them; if
    /// the queue pair has failed, they are flushed then. The caller later calls
    /// [`QpState::grant_credits`] as often. Must not be called from inside a call of the node, or
    /// with a lock held that such a call waits for.
    pub(super) fn revoke_credits(&self) {
        let qp = &self.resources;
        {
            let locked = &mut *self.locked.lock();
            let connection = &mut locked.connection;
            if !locked.fast_path.begin_revocation(connection, qp) {
                return;
            }
        }
        if !barrier::shared() {
            // There were barriers before. Earlier writes become visible after a while, too.
            std::thread::sleep(Duration::from_nanos(LATE));
        }
        qp.node().take_in_rings();
        let locked = &mut *self.locked.lock();
        let now = clock::now();
        let (engine, mut host) = locked.connection.split(qp, now);
        engine.release_receives(&mut host);
        locked.after_protocol(qp, now);
    }

    /// There may be credits again.
    pub(super) fn grant_credits(&self) {
        let locked = &mut *self.locked.lock();
        let connection = &mut locked.connection;
        locked.fast_path.end_revocation(connection, &self.resources);
    }

    /// Waits until the peer does not use its revoked rights any more.
    fn await_lingering(&self) {
        let peer = self.locked.lock().fast_path.take_lingering();
        if let Some(peer) = peer {
            fast_path::await_unused(&peer, self.resources.number);
        }
    }

    /// Waits until an XRC target is here, whatever is under way. A target that is not returned,
    /// because its delegate is stopped, is taken.
    fn revoke_delegation(&self) {
        let qp = &self.resources;
        let Some(sharing) = qp.sharing() else {
            return;
        };
        if self.with_target(|_, target| target.revoke_at_once(qp)) != Some(true) {
            return;
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let seen = sharing.returns().count();
            let is_over = Instant::now() >= until;
            let returned = self.with_target(|connection, target| {
                let returned = target.is_returned();
                if !returned && is_over {
                    target.end_delegation(connection, qp, false);
                }
                returned
            });
            match returned {
                Some(false) if !is_over => sharing.returns().wait_for_more(seen, until),
                Some(false) => continue,
                _ => return,
            };
        }
    }
}

impl InvalidationListener for QpState {
    fn forget(&self, key: u32) {
        let is_here = self.resources.node().is_here();
        // In a forked child it may stay locked for good, and nothing is sent.
        let locked = match is_here {
            true => Some(self.locked.lock()),
            false => self.locked.try_lock(),
        };
        let Some(mut locked) = locked else {
            return;
        };
        let receives = locked.fast_path.forget(key);
        drop(locked);
        if receives && is_here {
            self.revoke_credits();
            self.grant_credits();
        }
    }
}

/// The processes that have it open.
impl QpState {
    /// The application knows it by another name, too.
    pub fn add_token(&self, token: Token) {
        self.resources.add_token(token);
    }

    /// The application does not know it by that name any more. Returns how many events were
    /// reported under it.
    pub fn remove_token(&self, token: Token) -> u32 {
        self.resources.remove_token(token)
    }

    /// Whether the application knows it by several names.
    pub fn is_shared(&self) -> bool {
        self.resources.tokens() > 1
    }

    /// Whether the application knows it by any name.
    pub fn is_named(&self) -> bool {
        self.resources.tokens() > 0
    }

    fn is_in_use(&self) -> bool {
        let sharing = self.resources.sharing();
        self.is_named() || sharing.is_some_and(|sharing| sharing.is_in_use())
    }

    /// Ends it, if it is not open any more.
    pub fn end(&self) {
        if self.is_in_use() || self.ended.swap(true, Ordering::SeqCst) {
            return;
        }
        let qp = &self.resources;
        self.with_target(|_, target| target.abandon(qp));
        if let Some(xrcd) = qp.xrcd() {
            xrcd.remove_target(qp.number);
        }
        self.close();
        qp.node().detach(qp.node_number);
        qp.forget_completions();
        qp.node().release_number(qp.number);
        if let Some(sharing) = qp.sharing() {
            sharing.release_domain();
        }
    }

    /// The same in a thread that may wait.
    fn end_in_thread(self: &Arc<Self>) {
        if self.is_in_use() {
            return;
        }
        let ends = Arc::clone(self);
        // Without a thread it stays until the process ends.
        let _ = threads::spawn("uroce-xrc", move || ends.end());
    }
}

/// An XRC target, as its owner.
impl QpState {
    /// Calls with the parts of an XRC target; `None` for other services.
    fn with_target<T>(&self, call: impl FnOnce(&mut Connection, &mut XrcTarget) -> T) -> Option<T> {
        let locked = &mut *self.locked.lock();
        let target = locked.target.as_deref_mut()?;
        Some(call(&mut locked.connection, target))
    }

    /// A delegate reports.
    pub fn on_report(&self, link: &Arc<Link>, state: DelegateState, rest: &Rest) {
        let qp = &self.resources;
        let sends = self
            .with_target(|connection, target| target.on_report(connection, qp, link, state, rest));
        if sends == Some(true) {
            self.post();
        }
    }

    /// A process has ended: its delegated target returns here, with its last reported state.
    pub fn on_lost(&self, link: &Arc<Link>) {
        let qp = &self.resources;
        let had = self.with_target(|connection, target| target.on_lost(connection, qp, link));
        if had == Some(true) {
            self.post();
        }
    }

    /// Another process has opened it, and may take it over.
    ///
    /// # Errors
    /// Of the successor's resources: memfd_create(2), socket(2), mmap(2).
    pub fn add_user(&self, link: &Arc<Link>) -> Result<()> {
        let qp = &self.resources;
        self.with_target(|connection, target| target.add_user(connection, qp, link))
            .unwrap_or(Err(Errno::INVAL))
    }

    /// Another process has opened it `most` times less, or as often as it did.
    pub fn remove_user(self: &Arc<Self>, slot: u16, most: usize) {
        let sharing = self.resources.sharing();
        if sharing.is_some_and(|sharing| sharing.remove_user(slot, most)) {
            self.locked.lock().record(&self.resources);
            self.end_in_thread();
        }
    }
}

/// An XRC target, as its delegate.
impl QpState {
    /// The delegate of a target of another process; the target is not here yet.
    ///
    /// # Errors
    /// ENOMEM if the process has 16384 queue pairs; ENODEV in a forked child.
    pub fn delegate(number: u32, params: CreateParams) -> Result<Arc<Self>> {
        let node = Arc::clone(&params.node);
        let mut made = None;
        node.attach(|node_number| {
            let resources = Resources::of_delegate(number, node_number, params);
            let delegate = Arc::new_cyclic(|me| Self::with(resources, me));
            made = Some(Arc::clone(&delegate));
            Ok(delegate)
        })?;
        made.ok_or(Errno::NOMEM)
    }

    /// The target comes here.
    ///
    /// # Errors
    /// EINVAL for attributes that have no meaning here: an address that the interface does not
    /// have.
    pub fn begin_delegation(
        &self,
        owner: &Arc<Link>,
        delegation: u32,
        attr: &ibv_qp_attr,
        rest: &Rest,
    ) -> Result<()> {
        let qp = &self.resources;
        let values = attributes::modify(attr, GIVEN)?.values;
        let path = address::path(qp.port(), &attr.ah_attr)?;
        let link = connection::connect(qp, Some(&path), attr, GIVEN);
        if let Some(sharing) = qp.sharing() {
            sharing.set_owner(Some(owner));
        }
        let locked = &mut *self.locked.lock();
        let target = locked.target.as_deref_mut().ok_or(Errno::INVAL)?;
        let connection = &mut locked.connection;
        target.begin_here(connection, owner, delegation, (values, rest));
        let by_link = link.is_some() || qp.node().is_local_only();
        connection.begin_delegate(path, link, by_link);
        locked.use_link_if_found(qp);
        Ok(())
    }

    /// The owner has changed attributes.
    pub fn follow_owner(&self, attr: &ibv_qp_attr) {
        if let Ok(modify) = attributes::modify(attr, GIVEN) {
            let connection = &mut self.locked.lock().connection;
            connection.engine_mut().follow(modify.values);
        }
    }

    /// Takes in a packet that the owner has handed on.
    pub fn receive_as_delegate(&self, now: Time, incoming: &Incoming<'_>) {
        if self.with_target(|_, target| target.is_delegated_here()) != Some(true) {
            return;
        }
        self.receive(now, incoming, Caller::Node);
        let qp = &self.resources;
        self.with_target(|connection, target| target.report_progress(connection, qp));
        self.post();
    }

    /// The owner wants the target back: it is returned when it is at rest, or at once.
    pub fn return_to_owner(&self, at_once: bool) {
        let qp = &self.resources;
        self.with_target(|connection, target| target.on_revoke(connection, qp, at_once));
    }

    /// Whether its owner has ended.
    pub fn has_lost_owner(&self) -> bool {
        let sharing = self.resources.sharing();
        sharing.is_some_and(|sharing| sharing.has_lost_owner())
    }

    /// Reports to a successor of its owner how the delegation of that number stands.
    pub fn answer_successor(&self, successor: &Arc<Link>, delegation: u32) {
        let qp = &self.resources;
        if let Some(sharing) = qp.sharing() {
            sharing.set_owner(Some(successor));
        }
        self.with_target(|connection, target| {
            target.answer_successor(connection, qp, successor, delegation);
        });
    }
}

/// An XRC target, as the successor of its owner.
impl QpState {
    /// Continues a target whose owner, of that slot, has ended, and that this process has taken
    /// over. `delegate` has it at the moment, if that is another process. `domain` keeps the domain
    /// open.
    ///
    /// # Errors
    /// EIO for a state that there is not; EINVAL for an address that the interface does not have;
    /// of socket(2), bind(2).
    pub fn take_over(
        &self,
        record: &Record,
        former: (u16, Option<Arc<Link>>),
        takeover: Arc<TakeoverState>,
        domain: Box<dyn Any + Send>,
    ) -> Result<()> {
        let qp = &self.resources;
        self.with_target(|connection, target| {
            target.take_over(connection, qp, record, former, takeover)?;
            if let Some(sharing) = qp.sharing() {
                sharing.keep_domain(domain);
            }
            qp.node().take_over_number(qp.number, qp.node_number)
        })
        .unwrap_or(Err(Errno::INVAL))
    }

    /// A handle of this process is older than the takeover.
    pub fn add_listener<L: EventListener + 'static>(&self, listener: &Arc<L>) {
        if let Some(sharing) = self.resources.sharing() {
            sharing.add_listener(listener);
        }
    }

    /// That handle is closed.
    pub fn remove_listener<L: EventListener>(&self, listener: &L) {
        if let Some(sharing) = self.resources.sharing() {
            sharing.remove_listener(listener);
        }
        self.end();
    }
}

#[cfg(test)]
mod tests;
