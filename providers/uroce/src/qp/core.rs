//! A queue pair: the engine's state machine between the node's packets and verbs' queues.
//!
//! One lock holds the engine. While it is held, keys, receive queues, completion queues and the
//! carrier's buffer may be locked, never another queue pair.

use super::attributes;
use super::binds::Binds;
use super::bypass::Bypass;
use super::counting::Counting;
use super::credit::{self, Offer, Permit};
use super::host::Surroundings;
use super::inherit::Inheritance;
use super::multicast::Groups;
use super::onesided::{MOST_BYTES, Recent};
use super::requests::Posting;
use super::turns::{Away, Returns, Stay};
use crate::address::Addresses;
use crate::carrier::shm;
use crate::carrier::udp::Path;
use crate::channel::Records;
use crate::context::Context;
use crate::cq::{Cq, Entry};
use crate::device::Port;
use crate::memory::{self, Binding, Care, Keys, Mw, PdId, Peer};
use crate::node::Node;
use crate::receive::{ReceiveQueue, Srq};
use crate::xrc::{Estate, Ground, Link, Xrcd};
use crate::{address, clock, limits};
use bytemuck::Zeroable;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{BindInfo, CompCntr, ReceiveRequest, SendChain, SendRequest, SendView, Token};
use kit::sys::lock::Lock;
use kit::sys::other_process::OtherProcess;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use uroce_engine::host::{Fault, NoReceive};
use uroce_engine::qp::{Config, Mask, Modify, QueuePair, Refused, Service, State};
use uroce_engine::timer::Time;
use uroce_engine::work::{Receive, Request, WorkRequest};

/// What a queue pair is made of, besides its number.
pub struct Parts {
    /// The process's node.
    pub node: Arc<Node>,
    /// The device's port.
    pub port: Arc<Port>,
    /// Where asynchronous events are told.
    pub events: Arc<Records>,
    /// The context's address handles.
    pub addresses: Arc<Addresses>,
    /// The service.
    pub service: Service,
    /// Protection domain; that of nothing for XRC targets.
    pub pd: PdId,
    /// Queue for completions of send requests.
    pub send_cq: Option<Arc<Cq>>,
    /// Queue for completions of receive requests.
    pub recv_cq: Option<Arc<Cq>>,
    /// Shared receive queue.
    pub srq: Option<Arc<Srq>>,
    /// XRC domain of an XRC target.
    pub xrcd: Option<Arc<Xrcd>>,
    /// Sizes.
    pub cap: ibv_qp_cap,
    /// Every send request is signalled.
    pub sq_sig_all: bool,
}

impl Parts {
    /// Those of an XRC target.
    pub fn of_target(ground: &Ground, xrcd: Arc<Xrcd>) -> Self {
        let ground = ground.clone();
        Self {
            node: ground.node,
            port: ground.port,
            events: ground.events,
            addresses: ground.addresses,
            service: Service::XrcTarget,
            pd: PdId::NONE,
            send_cq: None,
            recv_cq: None,
            srq: None,
            xrcd: Some(xrcd),
            cap: ibv_qp_cap::zeroed(),
            sq_sig_all: false,
        }
    }
}

/// A queue pair.
pub struct Core {
    /// The number.
    pub number: u32,
    /// The number by which the node knows it: another for a target of another process.
    pub place: u32,
    /// The protection domain.
    pub pd: PdId,
    pub(super) parts: Parts,
    /// The names by which applications know it in events: more than one for an XRC target that was
    /// opened again.
    tokens: Mutex<Vec<Token>>,
    /// A completion found a queue without room; set under the lock of `inner`, and looked at when
    /// the engine has answered.
    overran: AtomicBool,
    /// Multicast groups it is attached to.
    pub(super) groups: Mutex<Groups>,
    pub(super) inner: Lock<Inner>,
    /// An XRC target that was lent is here again.
    pub(super) back: Returns,
    /// The slots of other processes that have it open, each as often as it has.
    pub(super) visitors: Mutex<Vec<u16>>,
    /// What there is besides, if it was inherited.
    pub(super) inheritance: Mutex<Inheritance>,
    /// Where it is at home, if that is another process.
    pub(super) home: Mutex<Option<Arc<Link>>>,
    /// It has come to its end.
    pub(super) ended: AtomicBool,
}

pub(super) struct Inner {
    pub(super) engine: QueuePair,
    /// Its own receive queue.
    pub(super) receives: Option<ReceiveQueue>,
    pub(super) binds: Binds,
    pub(super) bypass: Bypass,
    /// Whose ring had no room for a packet.
    pub(super) clogged: Option<Arc<shm::Peer>>,
    pub(super) counting: Counting,
    /// The address vector, as it was given.
    pub(super) av: Option<ibv_ah_attr>,
    /// Where the connected peer is.
    pub(super) path: Option<Path>,
    /// Its process, if it can be reached by shared memory.
    pub(super) peer: Option<Arc<shm::Peer>>,
    /// The same process, if its memory can be used from here.
    pub(super) reach: Option<OtherProcess>,
    /// What that process is shown.
    pub(super) gate: Option<shm::Gate>,
    /// The peer's key that was used last.
    pub(super) recent: Option<Recent>,
    /// The local key that few bytes were sent by last.
    pub(super) local: memory::Recent,
    /// That of the latest receive requests.
    pub(super) landing: memory::Recent,
    /// What the peer may be promised, and what he promises.
    pub(super) offer: Offer,
    pub(super) permit: Permit,
    /// So many want nothing to be promised now.
    pub(super) withheld: u32,
    /// The peer was told that its connection is used.
    pub(super) told_use: bool,
    /// The queue pair goes: nothing is shown any more.
    pub(super) closing: bool,
    /// The protection domain of the latest request: an XRC target has none of its own.
    pub(super) domain: PdId,
    /// An XRC target that another process receives with.
    pub(super) away: Away,
    /// An XRC target of another process.
    pub(super) stay: Option<Stay>,
    /// What an XRC target leaves, if there is anybody to inherit it.
    pub(super) estate: Option<Arc<Estate>>,
    /// How often an XRC target was lent.
    pub(super) lent: u32,
}

impl Inner {
    /// Requests posted and not completed.
    fn outstanding(&self) -> usize {
        self.engine.outstanding() + self.bypass.outstanding()
    }

    pub(super) fn split<'a>(
        &'a mut self,
        core: &'a Core,
        now: Time,
    ) -> (&'a mut QueuePair, Surroundings<'a>) {
        let host = Surroundings {
            core,
            receives: self.receives.as_mut(),
            binds: &mut self.binds,
            counting: &self.counting,
            domain: self.domain,
            care: Care::ByKernel,
            now,
        };
        (&mut self.engine, host)
    }

    /// After calls of the engine: a completion queue that had no room takes its queue pairs with it
    /// (IBTA volume 1, 10.2.6.2).
    pub(super) fn follow(&mut self, core: &Core, now: Time) {
        if core.overran.swap(false, Ordering::Relaxed) {
            let (engine, mut host) = self.split(core, now);
            engine.fatal(&mut host);
        }
        if let Some(receives) = &self.receives {
            self.offer.remain(receives.len());
        }
        core.mind_gate(self);
        core.mind_credit(self);
        core.flush_past(self);
        if self.engine.state() == State::Error && self.engine.keeps_receives() {
            core.node().failed(core.place);
        }
    }
}

impl Core {
    /// A queue pair in RESET.
    pub fn new(number: u32, token: Token, parts: Parts, me: &Weak<Self>) -> Self {
        let shared = parts.srq.is_some() || parts.service == Service::XrcTarget;
        let owns = !shared && parts.service.responds();
        let cap = parts.cap;
        Self {
            number,
            place: number,
            pd: parts.pd,
            tokens: Mutex::new(vec![token]),
            overran: AtomicBool::new(false),
            groups: Mutex::default(),
            inner: Lock::new(Inner {
                engine: QueuePair::new(Config {
                    service: parts.service,
                    number,
                    max_send_wr: usize::try_from(cap.max_send_wr).unwrap_or(usize::MAX),
                    sq_sig_all: parts.sq_sig_all,
                    shared_receives: shared,
                    port_mtu: parts.port.mtu(),
                    max_in_flight: limits::MAX_IN_FLIGHT,
                }),
                receives: owns.then(|| ReceiveQueue::new(cap.max_recv_wr, cap.max_recv_sge)),
                binds: Binds::default(),
                bypass: Bypass::default(),
                clogged: None,
                counting: Counting::default(),
                av: None,
                path: None,
                peer: None,
                reach: None,
                gate: None,
                recent: None,
                local: memory::Recent::new(parts.pd, Weak::<Self>::clone(me)),
                landing: memory::Recent::new(parts.pd, Weak::<Self>::clone(me)),
                offer: Offer::default(),
                permit: Permit::default(),
                withheld: 0,
                told_use: false,
                closing: false,
                domain: parts.pd,
                away: Away::default(),
                stay: None,
                estate: None,
                lent: 0,
            }),
            back: Returns::default(),
            visitors: Mutex::default(),
            inheritance: Mutex::default(),
            home: Mutex::default(),
            ended: AtomicBool::new(false),
            parts,
        }
    }

    /// The same, under another number in the node, and with no name: the application does not know it.
    pub(super) fn placed(self, place: u32) -> Self {
        Self {
            place,
            tokens: Mutex::default(),
            ..self
        }
    }

    /// The node that carries its packets.
    pub fn node(&self) -> &Arc<Node> {
        &self.parts.node
    }

    /// The keys of the process.
    pub fn keys(&self) -> &Arc<Keys> {
        self.parts.node.keys()
    }

    /// The service.
    pub fn service(&self) -> Service {
        self.parts.service
    }

    /// The XRC domain of an XRC target.
    pub fn xrcd(&self) -> Option<&Arc<Xrcd>> {
        self.parts.xrcd.as_ref()
    }

    /// The device's port.
    pub fn port(&self) -> &Arc<Port> {
        &self.parts.port
    }

    /// Sizes it was made with.
    pub(super) fn cap(&self) -> &ibv_qp_cap {
        &self.parts.cap
    }

    /// The queue pair goes: its peer uses nothing by way of it any more.
    pub fn close(&self) {
        self.withdraw();
        let mut inner = self.inner.lock();
        inner.closing = true;
        self.mind_gate(&mut inner);
    }

    /// Calls the engine, with its surroundings.
    pub(super) fn with<T>(
        &self,
        now: Time,
        call: impl FnOnce(&mut QueuePair, &mut Surroundings<'_>) -> T,
    ) -> T {
        let mut inner = self.inner.lock();
        let (engine, mut host) = inner.split(self, now);
        let answer = call(engine, &mut host);
        inner.follow(self, now);
        answer
    }

    /// What [`Inner::follow`] does, without asking for the time where there is nothing to do.
    pub(super) fn mind_overrun(&self, inner: &mut Inner) {
        if self.overran.load(Ordering::Relaxed) {
            inner.follow(self, clock::now());
        }
    }

    /// A completion found its queue without room.
    pub fn overrun(&self) {
        self.overran.store(true, Ordering::Relaxed);
    }

    /// ibv_modify_qp(3); answers the state after it.
    ///
    /// # Errors
    /// EINVAL for a transition, attribute or value that there is not. Then nothing has changed.
    pub fn modify(&self, attr: &ibv_qp_attr, mask: u32) -> Result<ibv_qp_state> {
        let mask = mask & !attributes::useless(self.parts.service);
        let modify = attributes::modify(attr, mask)?;
        let leaves = matches!(modify.state, Some(State::Reset | State::Error));
        if leaves {
            self.withdraw();
        }
        let state = self.change(attr, mask, &modify);
        if leaves {
            self.grant();
        }
        let state = state?;
        // Out of SQD requests go on; a peer is told of an error.
        self.parts.node.post(self.place);
        Ok(state)
    }

    fn change(&self, attr: &ibv_qp_attr, mask: u32, modify: &Modify) -> Result<ibv_qp_state> {
        if modify.state == Some(State::Sqd) {
            self.drain_past();
        }
        // A peer's request that has completed here is answered, whatever comes now.
        if matches!(modify.state, Some(State::Reset | State::Error)) {
            self.parts.node.see_off(self.place);
            self.call_back();
        }
        let path = if modify.mask.has(Mask::AV) {
            Some(address::path(&self.parts.port, &attr.ah_attr)?)
        } else {
            None
        };
        let peer = self.meet(path.as_ref(), attr, mask);
        let inner = &mut *self.inner.lock();
        let now = clock::now();
        let (engine, mut host) = inner.split(self, now);
        engine.modify(modify, &mut host).map_err(errno)?;
        inner.follow(self, now);
        if modify.mask.has(Mask::TIMEOUT) {
            self.parts.node.mind_timeout(modify.values.timeout);
        }
        if let Some(path) = path {
            let open = peer.is_some() && self.may_bypass();
            inner.bypass.expect(open, attr.rq_psn);
            inner.offer.begin();
            // A packet in a ring costs no system call.
            inner.engine.delay_acknowledgements(peer.is_none());
            inner.path = Some(path);
            inner.told_use = false;
            inner.recent = None;
            inner.reach = peer
                .as_ref()
                .and_then(|peer| OtherProcess::new(peer.pid()).ok());
            inner.peer = peer;
            inner.av = Some(attr.ah_attr);
        }
        let state = inner.engine.state();
        if modify.mask.has(Mask::SQ_PSN) {
            inner.bypass.begin(attr.sq_psn);
            inner.permit = Permit::default();
        }
        if state == State::Reset {
            inner.bypass.clear();
            inner.clogged = None;
            inner.path = None;
            inner.peer = None;
            inner.reach = None;
            inner.recent = None;
            inner.av = None;
            inner.binds.clear();
            self.forget_completions();
            if let Some(receives) = &inner.receives {
                receives.clear();
                inner.offer.remain(0);
            }
        }
        self.mind_gate(inner);
        self.tell_guest(inner);
        self.record(inner);
        Ok(attributes::qp_state(state))
    }

    /// The process that it is being connected to, if that can be reached by shared memory: met now, so
    /// that all packets go one way.
    pub(super) fn meet(
        &self,
        path: Option<&Path>,
        attr: &ibv_qp_attr,
        mask: u32,
    ) -> Option<Arc<shm::Peer>> {
        let connects = path.is_some_and(|path| path.local) && mask & IBV_QP_DEST_QPN != 0;
        connects
            .then(|| self.parts.node.meet(attr.dest_qp_num))
            .flatten()
    }

    /// Drops its completions that were not polled.
    pub fn forget_completions(&self) {
        for cq in [&self.parts.send_cq, &self.parts.recv_cq]
            .into_iter()
            .flatten()
        {
            cq.forget(self.number);
        }
    }

    /// ibv_query_qp(3).
    pub fn query(&self, attr: &mut ibv_qp_attr) {
        self.tell_attributes(&self.inner.lock(), attr);
    }

    pub(super) fn tell_attributes(&self, inner: &Inner, attr: &mut ibv_qp_attr) {
        let engine = &inner.engine;
        attributes::tell(engine.attributes(), attr);
        attr.qp_state = attributes::qp_state(engine.state());
        attr.cur_qp_state = attr.qp_state;
        let past = engine.state() == State::Sqd && inner.bypass.is_busy();
        attr.sq_draining = u8::from(engine.is_draining() || past);
        attr.cap = self.parts.cap;
        attr.port_num = 1;
        attr.ah_attr = inner.av.unwrap_or_else(ibv_ah_attr::zeroed);
    }

    /// ibv_qp_attach_comp_cntr(3).
    ///
    /// # Errors
    /// EINVAL once the queue pair is neither in RESET nor in INIT.
    pub fn count_on(&self, counter: Arc<CompCntr>, ops: u32) -> Result<()> {
        let mut inner = self.inner.lock();
        if !matches!(inner.engine.state(), State::Reset | State::Init) {
            return Err(Errno::INVAL);
        }
        inner.counting.add(ops, counter);
        Ok(())
    }

    /// ibv_post_send(3): takes requests until one is refused; what was taken is sent.
    ///
    /// # Errors
    /// EINVAL for a request that is wrong, or not in this state; ENOMEM if the queue is full.
    pub fn post_send<'a>(&self, requests: &mut impl SendChain<'a, Context>) -> Result<()> {
        let mut taken = Ok(());
        let mut budget = MOST_BYTES;
        // Of the first request that the protocol takes.
        let mut time = None;
        {
            let inner = &mut *self.inner.lock();
            for view in requests.views() {
                if self.post_past(inner, &view) {
                    continue;
                }
                if self.one_sided(inner, &view, &mut budget).is_some() {
                    continue;
                }
                taken = view.request().and_then(|given| {
                    let now = *time.get_or_insert_with(clock::now);
                    self.post_one(inner, &given, now)
                });
                if taken.is_err() {
                    break;
                }
            }
            match time {
                Some(now) => inner.follow(self, now),
                None => self.mind_overrun(inner),
            }
        }
        if let Some(now) = time {
            self.parts.node.post_at(self.place, now);
        }
        taken
    }

    /// ibv_wr_complete(3): takes all requests or, after an error, none.
    ///
    /// # Errors
    /// As for [`Core::post_send`].
    pub fn post_send_all(
        &self,
        requests: &mut dyn ExactSizeIterator<Item = SendRequest<'_, Context>>,
    ) -> Result<()> {
        let now;
        {
            let mut inner = self.inner.lock();
            let inner = &mut *inner;
            if requests.len() > self.room().saturating_sub(inner.outstanding()) {
                return Err(Errno::NOMEM);
            }
            if requests.len() == 1
                && let Some(given) = requests.next()
            {
                if self.post_past(inner, &given) {
                    return Ok(());
                }
                let mut budget = MOST_BYTES;
                if self.one_sided(inner, &given, &mut budget).is_some() {
                    self.mind_overrun(inner);
                    return Ok(());
                }
                now = clock::now();
                self.post_one(inner, &given, now)?;
            } else {
                now = clock::now();
            }
            // Several go the ordinary way, since none may be carried out if a later one is wrong.
            let mut converted = Vec::with_capacity(requests.len());
            for given in requests {
                let wr = self.posting(&mut inner.binds).convert(&given)?;
                inner.engine.may_post(&wr).map_err(errno)?;
                converted.push(wr);
            }
            for wr in converted {
                self.post_checked(inner, wr, now);
            }
            inner.follow(self, now);
        }
        self.parts.node.post_at(self.place, now);
        Ok(())
    }

    /// Takes a request, for the protocol.
    fn post_one(
        &self,
        inner: &mut Inner,
        given: &SendRequest<'_, Context>,
        now: Time,
    ) -> Result<()> {
        let wr = self.posting(&mut inner.binds).convert(given)?;
        inner.engine.may_post(&wr).map_err(errno)?;
        if inner.outstanding() >= self.room() {
            return Err(Errno::NOMEM);
        }
        self.post_checked(inner, wr, now);
        Ok(())
    }

    /// Takes a request that was found good and that there is room for.
    fn post_checked(&self, inner: &mut Inner, wr: WorkRequest, now: Time) {
        if inner.bypass.is_busy() {
            inner.bypass.defer(wr);
        } else {
            self.post_to_engine(inner, wr, now);
        }
    }

    /// The protocol takes a request.
    pub(super) fn post_to_engine(&self, inner: &mut Inner, wr: WorkRequest, now: Time) {
        inner.bypass.passed_by();
        // It uses receive requests of the peer's.
        inner.permit.doubt();
        let (engine, mut host) = inner.split(self, now);
        // Refused only in a state that it cannot have come to since it was asked.
        let _ = engine.post_send(wr, &mut host);
    }

    /// Whether the fate of messages that went past the protocol is not known.
    pub(super) fn is_busy_past(&self) -> bool {
        self.inner.lock().bypass.is_busy()
    }

    /// `max_send_wr`.
    pub(super) fn room(&self) -> usize {
        usize::try_from(self.parts.cap.max_send_wr).unwrap_or(usize::MAX)
    }

    /// Whether messages may go past the protocol.
    fn may_bypass(&self) -> bool {
        matches!(self.parts.service, Service::Rc | Service::Uc) && self.parts.node.may_bypass()
    }

    pub(super) fn posting<'a>(&'a self, binds: &'a mut Binds) -> Posting<'a> {
        Posting {
            service: self.parts.service,
            cap: &self.parts.cap,
            pd: self.pd,
            keys: self.parts.node.keys(),
            binds,
        }
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
        let inner = &mut *self.inner.lock();
        let receives = inner.receives.as_mut().ok_or(Errno::INVAL)?;
        if !inner.engine.may_post_receive() {
            // The first is the one that is refused.
            return requests.next().map_or(Ok(()), |_| Err(Errno::INVAL));
        }
        let keys = self.parts.node.keys();
        let (offer, landing) = (&mut inner.offer, &mut inner.landing);
        let taken = receives.post_alone(requests, |sges| {
            credit::posted(offer, keys, landing, sges);
        });
        if inner.offer.is_due() {
            self.mind_credit(inner);
        }
        if inner.engine.minds_receives() {
            // In ERR they are flushed; a peer that was told of an empty queue learns of them.
            let now = clock::now();
            let (engine, mut host) = inner.split(self, now);
            engine.receives_posted(&mut host);
            inner.follow(self, now);
        }
        taken
    }

    /// The shared receive queue.
    pub(super) fn srq(&self) -> Option<&Srq> {
        self.parts.srq.as_deref()
    }

    /// The next receive request of an XRC shared receive queue.
    pub fn next_shared(&self, number: u32) -> std::result::Result<Receive, NoReceive> {
        let srq = self.shared(number).ok_or(NoReceive::Unknown)?;
        srq.take().ok_or(NoReceive::Empty)
    }

    pub(super) fn shared(&self, number: u32) -> Option<Arc<Srq>> {
        self.parts.xrcd.as_ref()?.srq(number)
    }

    /// Adds a completion to the queue that it belongs to.
    pub(super) fn complete(&self, entry: Entry) {
        if let Some(number) = entry.completion.srqn {
            let srq = self.shared(number);
            return self.push(srq.as_ref().and_then(|srq| srq.cq()), entry);
        }
        let queue = if entry.completion.is_receive() {
            &self.parts.recv_cq
        } else {
            &self.parts.send_cq
        };
        self.push(queue.as_ref(), entry);
    }

    /// Adds a completion to a queue.
    fn push(&self, queue: Option<&Arc<Cq>>, entry: Entry) {
        if queue.is_some_and(|queue| !queue.push(entry)) {
            self.overrun();
        }
    }

    /// Adds a success that is made already to a queue.
    #[inline(always)]
    pub(super) fn push_success(&self, queue: Option<&Arc<Cq>>, wc: ibv_wc, solicited: bool) {
        if let Some(queue) = queue
            && !queue.push_success(wc, solicited)
        {
            self.overrun();
        }
    }

    /// Carries out a request to bind a window.
    ///
    /// # Errors
    /// [`Fault`] if the window cannot be bound so.
    pub fn bind(&self, binding: &Binding) -> std::result::Result<(), Fault> {
        let peer = Peer {
            pd: self.pd,
            qpn: self.number,
        };
        self.keys().bind(peer, binding)
    }

    /// ibv_bind_mw(3), for windows of type 1: posts the request; answers the new R_Key.
    ///
    /// # Errors
    /// As for [`Core::post_send`]; EINVAL for a window of type 2.
    pub fn bind_mw(
        &self,
        mw: &Arc<Mw>,
        id: u64,
        flags: u32,
        info: &BindInfo<'_, Context>,
    ) -> Result<u32> {
        let rkey = self.keys().next_rkey(mw)?;
        let mut wr = WorkRequest::new(id, Request::Bind(0));
        wr.signaled = flags & IBV_SEND_SIGNALED != 0;
        wr.solicited = flags & IBV_SEND_SOLICITED != 0;
        wr.fence = flags & IBV_SEND_FENCE != 0;
        let now;
        {
            let mut inner = self.inner.lock();
            wr.request = Request::Bind(inner.binds.keep(Binding {
                mw: Arc::clone(mw),
                rkey,
                mr: info.mr.map(Arc::clone),
                address: info.address,
                length: info.length,
                access: info.access,
            }));
            let inner = &mut *inner;
            inner.engine.may_post(&wr).map_err(errno)?;
            if inner.outstanding() >= self.room() {
                return Err(Errno::NOMEM);
            }
            now = clock::now();
            self.post_checked(inner, wr, now);
            inner.follow(self, now);
        }
        self.parts.node.post_at(self.place, now);
        Ok(rkey)
    }

    /// Tells an asynchronous event.
    pub fn tell(&self, event: ibv_event_type) {
        for token in self.tokens.lock().iter() {
            self.parts.events.asynchronous(event, *token);
        }
        self.tell_others(event);
    }

    /// Another name for it in events.
    pub fn opened(&self, token: Token) {
        self.tokens.lock().push(token);
    }

    /// Whether several hold it.
    pub fn is_shared(&self) -> bool {
        self.tokens.lock().len() > 1
    }

    /// A name less; answers how many are left, and how many events were told under it.
    pub fn closed(&self, token: Token) -> (usize, u32) {
        let mut tokens = self.tokens.lock();
        tokens.retain(|known| *known != token);
        (tokens.len(), self.parts.events.take_back(token))
    }

    /// Whether an application still has a name for it.
    pub fn is_named(&self) -> bool {
        !self.tokens.lock().is_empty()
    }
}

fn errno(refused: Refused) -> Errno {
    match refused {
        Refused::Invalid => Errno::INVAL,
        Refused::Full => Errno::NOMEM,
    }
}
