//! An XRC target of a domain that several processes have open.
//!
//! Its home is the process that made it, to which its number leads. A packet for a shared receive
//! queue of another process is handed on there, and with the first one the target is lent: a guest
//! in that process goes on where the home stopped, and sends the answers. A packet for a third
//! process, or for the home, waits until the guest has given the target back, which it does when no
//! message is half received and all is answered.

use super::attributes;
use super::core::{Core, Inner, Parts};
use crate::address;
use crate::carrier::HEAD;
use crate::carrier::udp::outbox::octets;
use crate::carrier::udp::slot;
use crate::memory::Care;
use crate::node::{self, Endpoint, Incoming, Mover};
use crate::threads;
use crate::xrc::{Link, Standing, Word};
use bytemuck::Zeroable;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::Token;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use uroce_engine::psn::Psn;
use uroce_engine::qp::{Mask, Modify, Rest, State};
use uroce_engine::timer::Time;
use uroce_engine::wire::ICRC_LEN;

/// Packets that wait at most; others are lost, and sent again by the peer.
const MOST_PARKED: usize = 512;

/// What a guest is told by way of attributes.
const GIVEN: u32 = IBV_QP_ACCESS_FLAGS
    | IBV_QP_PKEY_INDEX
    | IBV_QP_PATH_MTU
    | IBV_QP_DEST_QPN
    | IBV_QP_RQ_PSN
    | IBV_QP_MAX_DEST_RD_ATOMIC
    | IBV_QP_MIN_RNR_TIMER;

/// At home: where the target is.
#[derive(Default)]
pub(super) struct Away {
    /// Whom it is lent to.
    at: Option<Arc<Link>>,
    /// It was asked for.
    recalled: bool,
    /// Packets that wait for it.
    parked: VecDeque<(Psn, Vec<u8>)>,
}

/// How often a target that was lent came back. Not kept in the queue pair's lock, which waits for nothing.
#[derive(Default)]
pub(super) struct Returns {
    count: Mutex<u32>,
    more: Condvar,
}

impl Returns {
    fn count(&self) -> u32 {
        *self.count.lock()
    }

    fn tell(&self) {
        let mut count = self.count.lock();
        *count = count.wrapping_add(1);
        self.more.notify_all();
    }

    /// Waits until it came back after that count was read.
    fn wait_for_more(&self, seen: u32) {
        let mut count = self.count.lock();
        while *count == seen {
            self.more.wait(&mut count);
        }
    }
}

/// As a guest.
pub(super) struct Stay {
    pub(super) home: Arc<Link>,
    /// It is here now.
    pub(super) here: bool,
    /// It is wanted elsewhere.
    recalled: bool,
    /// How often it was lent, this time included.
    pub(super) turn: u32,
}

/// A packet as it lies in a ring.
fn bytes(incoming: &Incoming<'_>) -> Vec<u8> {
    let packet = &incoming.packet;
    let headers = packet.headers.emit();
    let tail = usize::from(packet.headers.bth.pad) + ICRC_LEN;
    let family = if incoming.source.is_ipv4() { 4 } else { 6 };
    let mut to = Vec::with_capacity(HEAD + headers.as_slice().len() + packet.payload.len() + tail);
    to.extend_from_slice(&[family, incoming.traffic_class, incoming.hop_limit, 0]);
    to.extend_from_slice(&incoming.interface.to_ne_bytes());
    to.extend_from_slice(&octets(incoming.source));
    to.extend_from_slice(&octets(incoming.destination));
    to.extend_from_slice(headers.as_slice());
    to.extend_from_slice(packet.payload);
    to.resize(to.len() + tail, 0);
    to
}

/// At home.
impl Core {
    /// Hands a packet on, if it is not for here. Answers whether that was done, or is going to be.
    pub(super) fn goes_elsewhere(&self, inner: &mut Inner, incoming: &Incoming<'_>) -> bool {
        let (Some(xrcd), Some(header)) = (&self.parts.xrcd, incoming.packet.headers.xrceth) else {
            return false;
        };
        if inner.stay.is_some() || !inner.engine.state().receives() {
            return false;
        }
        let psn = incoming.packet.headers.bth.psn;
        let to = slot::of(header.srqn);
        let waits = inner.away.comes_after_parked(psn);
        let expected = inner.engine.expected();
        if let Some(at) = &inner.away.at {
            if at.slot() == to && !waits {
                at.offer(&Word::Packet(self.number, &bytes(incoming)));
                return true;
            }
            // The home answers again for what is known to be done. It could not wait behind a message
            // that is half received.
            if psn.before(expected) {
                return false;
            }
            if !inner.away.recalled {
                inner.away.recalled = true;
                at.say(&Word::Recall(self.number, false));
            }
            return inner.away.park(psn, incoming);
        }
        if waits {
            return inner.away.park(psn, incoming);
        }
        // Something before it was lost: the engine here asks for that.
        if expected.before(psn) || !inner.engine.is_between() {
            return false;
        }
        if to == self.node().slot() {
            return false;
        }
        let Some(link) = xrcd.link(to) else {
            // Lost, and sent again by the peer.
            return xrcd.is_coming(to);
        };
        if !inner.engine.is_at_rest() {
            return inner.away.park(psn, incoming);
        }
        self.lend(inner, link, incoming);
        true
    }

    fn lend(&self, inner: &mut Inner, link: Arc<Link>, incoming: &Incoming<'_>) {
        let now = crate::clock::now();
        let (engine, mut host) = inner.split(self, now);
        engine.used(&mut host);
        inner.away.is_with(Arc::clone(&link));
        inner.lent = inner.lent.wrapping_add(1);
        // An heir asks the guest, so that it must be known before.
        self.record(inner);
        if let Some(estate) = &inner.estate {
            estate.show(self.number, &link);
        }
        let (attr, rest) = (self.told(inner), inner.engine.rest());
        link.say(&Word::Lend(self.number, inner.lent, attr, rest));
        link.offer(&Word::Packet(self.number, &bytes(incoming)));
    }

    pub(super) fn told(&self, inner: &Inner) -> ibv_qp_attr {
        let mut attr = ibv_qp_attr::zeroed();
        self.tell_attributes(inner, &mut attr);
        attr
    }

    /// Takes in the packets that waited, if the target is here and all before them is answered.
    /// Answers whether there were any.
    pub(super) fn unpark(&self, inner: &mut Inner, now: Time) -> bool {
        if inner.away.parked.is_empty() || inner.away.at.is_some() || !inner.engine.is_at_rest() {
            return false;
        }
        self.look_again(inner, now);
        true
    }

    /// Takes what is parked as if it came now.
    fn look_again(&self, inner: &mut Inner, now: Time) {
        for (_, bytes) in std::mem::take(&mut inner.away.parked) {
            if let Some(incoming) = node::incoming(&bytes)
                && !self.goes_elsewhere(inner, &incoming)
            {
                self.take_in(inner, now, &incoming, Care::ByKernel);
            }
        }
    }

    /// A guest tells how things stand.
    pub fn hear_of(&self, link: &Arc<Link>, standing: Standing, rest: &Rest) {
        {
            let inner = &mut *self.inner.lock();
            if !inner.away.is_at(link) {
                return;
            }
            if inner.engine.state().receives() && standing != Standing::Never {
                inner.engine.catch_up(rest);
                self.record(inner);
            }
            if standing == Standing::Going {
                if inner.away.parked.is_empty() {
                    return;
                }
                self.look_again(inner, crate::clock::now());
            } else {
                self.is_back(inner, standing == Standing::Failed);
            }
        }
        self.node().post(self.place);
    }

    /// A process has ended: what it had is here again, as far as it was told.
    pub fn lost(&self, link: &Arc<Link>) {
        {
            let inner = &mut *self.inner.lock();
            if !inner.away.is_at(link) {
                return;
            }
            self.is_back(inner, false);
        }
        self.node().post(self.place);
    }

    fn is_back(&self, inner: &mut Inner, failed: bool) {
        inner.away.at = None;
        inner.away.recalled = false;
        let now = crate::clock::now();
        if failed && inner.engine.state().receives() {
            inner.away.parked.clear();
            let error = Modify {
                mask: Mask::STATE,
                state: Some(State::Error),
                ..Modify::default()
            };
            let (engine, mut host) = inner.split(self, now);
            // There is that transition from every state.
            let _ = engine.modify(&error, &mut host);
            inner.follow(self, now);
        }
        self.record(inner);
        self.back.tell();
        self.unpark(inner, now);
    }

    /// Waits until the target is here, whatever is under way.
    pub(super) fn call_back(&self) {
        let mut inner = self.inner.lock();
        inner.away.parked.clear();
        let Some(at) = &inner.away.at else {
            return;
        };
        at.say(&Word::Recall(self.number, true));
        inner.away.recalled = true;
        drop(inner);
        loop {
            let seen = self.back.count();
            let mut inner = self.inner.lock();
            if inner.away.at.is_none() {
                inner.away.parked.clear();
                return;
            }
            drop(inner);
            self.back.wait_for_more(seen);
        }
    }

    /// A guest learns of attributes that have changed.
    pub(super) fn tell_guest(&self, inner: &Inner) {
        if let Some(at) = &inner.away.at {
            at.say(&Word::Change(self.number, self.told(inner)));
        }
    }

    /// The target goes with the last that has it open, in a thread that may wait.
    pub(super) fn end_elsewhere(self: &Arc<Self>) {
        if self.is_held() {
            return;
        }
        let core = Arc::clone(self);
        // Without a thread it stays until the process ends.
        let _ = threads::spawn("uroce-xrc", move || core.end());
    }

    /// Whether anybody has it open.
    pub fn is_held(&self) -> bool {
        self.is_named() || !self.visitors.lock().is_empty() || !self.holders().is_empty()
    }

    /// Nobody has it open any more.
    pub fn end(&self) {
        if self.is_held() || self.ended.swap(true, Ordering::SeqCst) {
            return;
        }
        if let Some(at) = self.inner.lock().away.at.take() {
            at.say(&Word::Recall(self.number, true));
        }
        if let Some(xrcd) = self.xrcd() {
            xrcd.remove_target(self.number);
        }
        self.close();
        self.node().detach(self.place);
        self.forget_completions();
        self.renounce();
    }

    /// Tells those an event who have it open in other processes; a guest tells its home.
    pub(super) fn tell_others(&self, event: ibv_event_type) {
        if let Some(xrcd) = self.xrcd() {
            for slot in &*self.visitors.lock() {
                xrcd.tell(*slot, self.number, event);
            }
        }
        for opened in self.holders() {
            opened.tell(event);
        }
        // That one the home tells itself, when it learns that the target has failed.
        if let Some(home) = &*self.home.lock()
            && event != IBV_EVENT_QP_LAST_WQE_REACHED
        {
            home.say(&Word::Event(self.number, event));
        }
    }
}

/// As a guest.
impl Core {
    /// A target of another process, which is not here yet.
    ///
    /// # Errors
    /// ENOMEM if the process has 16384 queue pairs; ENODEV in a forked child.
    pub fn guest(number: u32, parts: Parts) -> Result<Arc<Self>> {
        let node = Arc::clone(&parts.node);
        let mut made = None;
        node.attach(|place| {
            let core =
                Arc::new_cyclic(|me| Self::new(number, Token::default(), parts, me).placed(place));
            made = Some(Arc::clone(&core));
            Ok(core)
        })?;
        made.ok_or(Errno::NOMEM)
    }

    /// The target comes here.
    ///
    /// # Errors
    /// EINVAL for attributes that have no meaning here: an address that the interface does not have.
    pub fn lodge(
        &self,
        home: &Arc<Link>,
        turn: u32,
        attr: &ibv_qp_attr,
        rest: &Rest,
    ) -> Result<()> {
        let values = attributes::modify(attr, GIVEN)?.values;
        let path = address::path(self.port(), &attr.ah_attr)?;
        let peer = self.meet(Some(&path), attr, GIVEN);
        *self.home.lock() = Some(Arc::clone(home));
        let inner = &mut *self.inner.lock();
        inner.engine.resume(values, rest);
        inner.path = Some(path);
        inner.peer = peer;
        inner.stay = Some(Stay {
            home: Arc::clone(home),
            here: true,
            recalled: false,
            turn,
        });
        Ok(())
    }

    /// The attributes have changed at home.
    pub fn follow_home(&self, attr: &ibv_qp_attr) {
        if let Ok(modify) = attributes::modify(attr, GIVEN) {
            self.inner.lock().engine.follow(modify.values);
        }
    }

    /// Takes in a packet that the home has handed on.
    pub fn receive_as_guest(&self, now: Time, incoming: &Incoming<'_>) {
        if !self.inner.lock().is_here() {
            return;
        }
        self.receive(now, incoming, Mover::Node);
        self.report();
        self.node().post(self.place);
    }

    /// Tells the home what is known now, before the answers leave.
    fn report(&self) {
        let inner = &mut *self.inner.lock();
        let (failed, rest) = (inner.engine.state() == State::Error, inner.engine.rest());
        let Some(stay) = inner.stay.as_mut().filter(|stay| stay.here) else {
            return;
        };
        if failed {
            stay.here = false;
            let word = Word::Rest(self.number, Standing::Failed, rest);
            stay.home.say(&word);
        } else {
            let word = Word::Rest(self.number, Standing::Going, rest);
            stay.home.offer(&word);
        }
    }

    /// The target is wanted elsewhere: it goes when it is at rest, or at once.
    pub fn go_home(&self, at_once: bool) {
        let now = crate::clock::now();
        let inner = &mut *self.inner.lock();
        if !inner.is_here() {
            return;
        }
        if at_once {
            let (engine, mut host) = inner.split(self, now);
            engine.abandon(&mut host);
            inner.follow(self, now);
        }
        if let Some(stay) = &mut inner.stay {
            stay.recalled = true;
        }
        self.mind_stay(inner);
        if inner.is_here() {
            // The home learns by this which of the packets that wait there were here before.
            let word = Word::Rest(self.number, Standing::Going, inner.engine.rest());
            if let Some(stay) = &inner.stay {
                stay.home.say(&word);
            }
        }
    }

    /// Goes home, if that is wanted and can be.
    pub(super) fn mind_stay(&self, inner: &mut Inner) {
        let (at_rest, rest) = (inner.engine.is_at_rest(), &inner.engine);
        if let Some(stay) = &mut inner.stay
            && stay.here
            && stay.recalled
            && at_rest
        {
            stay.here = false;
            let word = Word::Rest(self.number, Standing::Back, rest.rest());
            stay.home.say(&word);
        }
    }
}

impl Inner {
    fn is_here(&self) -> bool {
        self.stay.as_ref().is_some_and(|stay| stay.here)
    }
}

impl Away {
    /// Whom it is lent to.
    pub fn at(&self) -> Option<&Arc<Link>> {
        self.at.as_ref()
    }

    /// It is lent.
    pub fn is_with(&mut self, link: Arc<Link>) {
        self.at = Some(link);
        self.recalled = false;
    }

    fn is_at(&self, link: &Arc<Link>) -> bool {
        self.at.as_ref().is_some_and(|at| Arc::ptr_eq(at, link))
    }

    /// Whether a packet has to wait behind others.
    fn comes_after_parked(&self, psn: Psn) -> bool {
        self.parked
            .front()
            .is_some_and(|(first, _)| !psn.before(*first))
    }

    /// Keeps a packet. If it came before, the peer has gone back and sends again what came after it.
    fn park(&mut self, psn: Psn, incoming: &Incoming<'_>) -> bool {
        self.parked.retain(|(earlier, _)| earlier.before(psn));
        if self.parked.len() < MOST_PARKED {
            self.parked.push_back((psn, bytes(incoming)));
        }
        true
    }
}
