//! The connection manager of a port: connections, listeners, and the answers to messages that
//! belong to none.
//!
//! | file | contents |
//! | --- | --- |
//! | `event` | requests of programs, and events for programs |
//! | `connection` | one connection: its states, and the effect of each message |
//! | `repetition` | a message that is repeated until it is answered |
//! | `resolution` | service id resolution for datagrams (SIDR), of both sides |
//! | `table` | connections by the ids in messages |
//! | `held` | requests for ports that do not listen yet |
//!
//! *In*: calls of programs, messages with the address that they came from, time in milliseconds.
//! *Out*: [`Output`]s until [`Agent::poll`] returns `None`, and [`Agent::deadline`]. `P` is the
//! host's name of the route to a peer; the agent only keeps and compares it.
//!
//! Messages are hostile. A connection is found by both communication ids, of which one is this
//! side's, and by the way that the message came. State is made for one REQ or SIDR REQ at a time,
//! no more than the listener's backlog allows, or as may wait for a port to listen, and nothing
//! else makes any.

mod connection;
mod event;
mod held;
mod repetition;
mod resolution;
mod table;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Debug,
    hash::Hash,
};

use crate::{
    times::Times,
    wire::{Drep, Mad, Message, Rej, Rep, Req, SidrRep, SidrReq},
};
use connection::Connection;
pub use connection::{State, WrongState};
use event::Effects;
pub use event::{Event, Id, Owner, Reject, Reply, Request};
use held::Held;
pub use resolution::Answer;
use resolution::{Answering, Answers, Asking};
use table::{Entry, Role, Table};

/// Actions for the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // as Event
pub enum Output<P> {
    /// A message to send.
    Send {
        /// The way to the peer.
        to: P,
        /// The datagram.
        mad: Mad,
    },
    /// An event for a program.
    Report {
        /// Of which connection or resolution.
        id: Id,
        /// The event.
        event: Event,
    },
}

/// Constants of an agent.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The highest bits of this process's communication ids.
    pub slot: u16,
    /// Where to begin with the others.
    pub seed: u32,
    /// How long to wait.
    pub times: Times,
}

/// Bits of a communication id that count this process's.
pub const INDEX_BITS: u32 = 22;

/// A listener: how many requests may wait for the program, and how many do.
#[derive(Debug)]
struct Listener {
    backlog: usize,
    pending: usize,
}

/// The reasons and statuses that the agent itself answers.
mod reason {
    pub const NO_SERVICE: u16 = 8;
    pub const STALE: u16 = 10;
    pub const SIDR_UNSUPPORTED: u8 = 1;
}

/// The connection manager of a port.
#[derive(Debug)]
pub struct Agent<P> {
    settings: Settings,
    next: u32,
    /// The highest index of an id. Tests make it small.
    last: u32,
    table: Table<P>,
    listeners: BTreeMap<u64, Listener>,
    held: Held<P>,
    answers: Answers<P>,
    outputs: VecDeque<Output<P>>,
}

impl<P: Copy + Debug + Eq + Hash> Agent<P> {
    /// One without connections.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            next: settings.seed,
            last: (1 << INDEX_BITS) - 1,
            table: Table::default(),
            listeners: BTreeMap::new(),
            held: Held::default(),
            answers: Answers::default(),
            outputs: VecDeque::new(),
        }
    }

    /// The next action.
    pub fn poll(&mut self) -> Option<Output<P>> {
        self.outputs.pop_front()
    }

    /// When [`Agent::on_time`] is to be called, in milliseconds.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        let deadlines = [self.table.deadline(), self.held.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// How many connections and resolutions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no connections.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where a connection is; `None` for a resolution, and for an id that is not in use.
    #[must_use]
    pub fn state(&self, id: Id) -> Option<State> {
        match &self.table.get(id)?.role {
            Role::Connection(connection) => Some(connection.state()),
            Role::Asking(_) | Role::Answering(_) => None,
        }
    }

    /// Takes requests for a listener, that many at a time until the program has seen them, and
    /// those that came while its port was only bound. The host has a number for each listener.
    /// Returns whether there was none of that number; if there was, nothing has changed.
    pub fn listen(&mut self, listener: u64, backlog: usize, now: u64) -> bool {
        if self.listeners.contains_key(&listener) {
            return false;
        }
        let entry = Listener {
            backlog,
            pending: 0,
        };
        self.listeners.insert(listener, entry);
        for (from, mad) in self.held.take(listener) {
            self.receive(from, &mad, Some(Owner::Listens(listener)), now);
        }
        true
    }

    /// Takes no more requests for a listener, or for an owner of a port that does not listen. Those
    /// that the program has been sent stay the program's; those that wait for the owner to listen
    /// are refused.
    pub fn unlisten(&mut self, owner: u64, now: u64) {
        self.listeners.remove(&owner);
        for (from, mad) in self.held.take(owner) {
            self.receive(from, &mad, None, now);
        }
    }

    /// Refuses all requests that wait for a port to listen.
    pub fn refuse_held(&mut self, now: u64) {
        for (from, mad) in self.held.take_all() {
            self.receive(from, &mad, None, now);
        }
    }

    /// The program has seen a request, which has no place in the listener's backlog any more.
    pub fn taken(&mut self, id: Id) {
        let pending = self.table.change(id, |entry| entry.pending.take());
        self.release(pending.flatten());
    }

    /// The peer of a connection has ended without a word: as if it had asked for the end, and was
    /// answered.
    pub fn vanished(&mut self, id: Id, now: u64) {
        let _ = self.with(id, |connection, effects| {
            connection.vanished(now, effects);
            Ok(())
        });
    }

    /// The peer's id of a connection, and the way to it.
    #[must_use]
    pub fn peer(&self, id: Id) -> Option<(Id, P)> {
        let (path, connection) = self.table.connection(id)?;
        Some((connection.peer()?.1, path))
    }

    /// The connections whose peers are known: own id, peer's id, and route.
    pub fn peers(&self) -> impl Iterator<Item = (Id, Id, P)> {
        let ids = self.table.ids();
        ids.filter_map(|id| self.peer(id).map(|(peer, path)| (id, peer, path)))
    }

    /// The way to the peer of a connection or resolution.
    #[must_use]
    pub fn path(&self, id: Id) -> Option<P> {
        self.table.get(id).map(|entry| entry.path)
    }

    /// Whether a REJ of a peer that does not know this side's id is for a connection here.
    #[must_use]
    pub fn is_rejected_by(&self, rej: &Rej) -> bool {
        let guid = rej.additional_information.first_chunk();
        let guid = guid.map(|guid| u64::from_be_bytes(*guid));
        let peer = guid.map(|guid| (guid, rej.local_comm_id));
        peer.is_some_and(|peer| self.table.by_peer(peer).is_some() || self.held.has(peer))
    }

    /// An id that is free; `None` if all are in use.
    fn free_id(&mut self) -> Option<Id> {
        let slot = u32::from(self.settings.slot) << INDEX_BITS;
        for _ in 0..=self.last {
            self.next = self.next.wrapping_add(1) & self.last;
            let id = slot | self.next;
            if id != 0 && self.table.get(id).is_none() {
                return Some(id);
            }
        }
        None
    }

    /// Connects: sends a REQ. `None` if all ids are in use.
    pub fn connect(&mut self, path: P, request: &Request, now: u64) -> Option<Id> {
        let id = self.free_id()?;
        let mut effects = Effects::default();
        let times = self.settings.times;
        let connection = Connection::connect(id, request, times, now, &mut effects);
        self.enter(id, path, Role::Connection(connection), None);
        self.carry_out(id, path, effects);
        Some(id)
    }

    /// Asks for the datagram queue pair of a service: sends a SIDR REQ. `None` if all ids are in
    /// use.
    pub fn resolve(&mut self, path: P, request: &SidrReq, agent: u32, now: u64) -> Option<Id> {
        let id = self.free_id()?;
        let mut effects = Effects::default();
        let times = self.settings.times;
        let asking = Asking::new(id, request, agent, times, now, &mut effects);
        self.enter(id, path, Role::Asking(asking), None);
        self.carry_out(id, path, effects);
        Some(id)
    }

    /// `pending` names the listener of a request, which takes a place of its backlog.
    fn enter(&mut self, id: Id, path: P, role: Role, pending: Option<u64>) {
        if let Some(listener) = pending.and_then(|listener| self.listeners.get_mut(&listener)) {
            listener.pending += 1;
        }
        self.table.insert(
            id,
            Entry {
                path,
                role,
                pending,
            },
        );
    }

    /// Takes a request.
    ///
    /// # Errors
    /// If no connection of this id waits for it.
    pub fn accept(&mut self, id: Id, reply: &Reply, now: u64) -> Result<(), WrongState> {
        self.with(id, |connection, effects| {
            connection.accept(reply, now, effects)
        })
    }

    /// Refuses a request or a reply.
    ///
    /// # Errors
    /// If no connection of this id waits for it.
    pub fn reject(&mut self, id: Id, reject: &Reject) -> Result<(), WrongState> {
        self.with(id, |connection, effects| connection.reject(reject, effects))
    }

    /// The queue pair is ready, or has got data before the RTU came.
    ///
    /// # Errors
    /// If no REP was sent or has come.
    pub fn establish(&mut self, id: Id) -> Result<(), WrongState> {
        self.with(id, |connection, effects| connection.establish(effects))
    }

    /// Ends a connection, or answers the end that the peer asked for.
    ///
    /// # Errors
    /// If it is not open.
    pub fn disconnect(&mut self, id: Id, now: u64) -> Result<(), WrongState> {
        self.with(id, |connection, effects| {
            connection.disconnect(now, effects)
        })
    }

    /// Answers a SIDR REQ. The id is free afterwards.
    ///
    /// # Errors
    /// If none waits.
    pub fn answer(&mut self, id: Id, answer: &Answer, now: u64) -> Result<(), WrongState> {
        let Some(Entry {
            role: Role::Answering(answering),
            path,
            ..
        }) = self.table.get(id)
        else {
            return Err(WrongState);
        };
        let (mad, path) = (answering.answer(answer), *path);
        self.answers.keep(path, answering, mad, now);
        self.outputs.push_back(Output::Send { to: path, mad });
        self.forget(id);
        Ok(())
    }

    /// The program gives up a connection or resolution. The peer gets the message that its state
    /// calls for, and no further event has this id.
    pub fn close(&mut self, id: Id, now: u64) {
        let Some(entry) = self.table.get(id) else {
            return;
        };
        match &entry.role {
            Role::Connection(_) => {
                // Closing has no state in which it is refused.
                let _ = self.with(id, |connection, effects| {
                    connection.close(now, effects);
                    Ok(())
                });
            }
            Role::Asking(_) => self.forget(id),
            // The id of one that waits is taken back by its own answer.
            Role::Answering(_) => _ = self.answer(id, &Answer::rejected(), now),
        }
    }

    fn forget(&mut self, id: Id) {
        if let Some(entry) = self.table.remove(id) {
            self.release(entry.pending);
        }
    }

    /// A request does not wait for the program any more.
    fn release(&mut self, pending: Option<u64>) {
        if let Some(listener) = pending.and_then(|listener| self.listeners.get_mut(&listener)) {
            listener.pending = listener.pending.saturating_sub(1);
        }
    }

    /// Runs a function on a connection, and executes its results.
    fn with<T>(
        &mut self,
        id: Id,
        run: impl FnOnce(&mut Connection, &mut Effects) -> Result<T, WrongState>,
    ) -> Result<T, WrongState> {
        let mut effects = Effects::default();
        let (path, pending, answer) = self
            .table
            .change(id, |entry| {
                let Role::Connection(connection) = &mut entry.role else {
                    return (entry.path, None, Err(WrongState));
                };
                let answer = run(connection, &mut effects);
                let waits = connection.state() == State::ReqReceived;
                let pending = if waits { None } else { entry.pending.take() };
                (entry.path, pending, answer)
            })
            .ok_or(WrongState)?;
        self.release(pending);
        self.carry_out(id, path, effects);
        if self.table.is_over(id) {
            self.forget(id);
        }
        answer
    }

    fn carry_out(&mut self, id: Id, path: P, effects: Effects) {
        let Effects { sent, events } = effects;
        let sent = sent.into_iter().map(|mad| Output::Send { to: path, mad });
        self.outputs.extend(sent);
        let events = events.into_iter().map(|event| Output::Report { id, event });
        self.outputs.extend(events);
    }

    /// Processes a message. For a request, the host names the owner of its port, if there is one.
    pub fn receive(&mut self, from: P, mad: &Mad, owner: Option<Owner>, now: u64) {
        match &mad.message {
            Message::Req(req) => self.on_req(from, mad, req, owner, now),
            Message::SidrReq(req) => self.on_sidr_req(from, mad, req, owner, now),
            Message::SidrRep(rep) => self.on_sidr_rep(from, rep, mad.modifier),
            Message::Rep(rep) => self.on_rep(from, mad, rep, now),
            Message::Rej(rej) => self.on_rej(from, mad, rej, now),
            Message::Mra(mra) => {
                self.on_answer(from, mad, (mra.remote_comm_id, mra.local_comm_id), now);
            }
            Message::Rtu(rtu) => {
                self.on_known(from, mad, (rtu.remote_comm_id, rtu.local_comm_id), now);
            }
            Message::Drep(drep) => {
                self.on_known(from, mad, (drep.remote_comm_id, drep.local_comm_id), now);
            }
            Message::Dreq(dreq) => {
                let ids = (dreq.remote_comm_id, dreq.local_comm_id);
                if !self.on_known(from, mad, ids, now) {
                    self.send_drep(from, mad.transaction, ids);
                }
            }
            // Not used on RoCE, and not answered.
            Message::Lap(_) | Message::Apr(_) => {}
        }
    }

    /// A message for a connection whose peer is known: this side's id, and the sender's. Returns
    /// whether there is such a connection.
    fn on_known(&mut self, from: P, mad: &Mad, (own, peer): (Id, Id), now: u64) -> bool {
        self.deliver(from, mad, own, now, |known| known == Some(peer))
    }

    /// A message that answers a REQ, whose sender is not known yet, or one of a peer that is.
    fn on_answer(&mut self, from: P, mad: &Mad, (own, peer): (Id, Id), now: u64) {
        self.deliver(from, mad, own, now, |known| {
            known.is_none_or(|id| id == peer)
        });
    }

    /// Delivers a message to a connection if it came by the connection's path, and the peer's id
    /// that is known so far fits. Returns whether it does.
    fn deliver(
        &mut self,
        from: P,
        mad: &Mad,
        own: Id,
        now: u64,
        fits: impl FnOnce(Option<Id>) -> bool,
    ) -> bool {
        let Some((path, connection)) = self.table.connection(own) else {
            return false;
        };
        if path != from || !fits(connection.peer().map(|(_, id)| id)) {
            return false;
        }
        let _ = self.with(own, |connection, effects| {
            connection.receive(mad, now, effects);
            Ok(())
        });
        true
    }

    fn on_rep(&mut self, from: P, mad: &Mad, rep: &Rep, now: u64) {
        // The queue pair of the peer may still count as that of another connection.
        let own = rep.remote_comm_id;
        if let Some(old) = self
            .table
            .by_qp((rep.local_ca_guid, rep.local_qpn))
            .filter(|id| *id != own)
        {
            let waits = self
                .state(own)
                .is_some_and(|state| matches!(state, State::ReqSent | State::MraReqReceived));
            if waits {
                self.end_stale(from, old, now);
                self.send_rej(
                    from,
                    mad.transaction,
                    (own, rep.local_comm_id),
                    1,
                    reason::STALE,
                );
                return;
            }
        }
        self.on_answer(from, mad, (own, rep.local_comm_id), now);
    }

    /// A REJ names this side's id, or, from a peer that gave up before it knew that id, its own
    /// GUID.
    fn on_rej(&mut self, from: P, mad: &Mad, rej: &Rej, now: u64) {
        const GAVE_UP: u16 = 4;
        let ids = (rej.remote_comm_id, rej.local_comm_id);
        let guid = rej
            .additional_information
            .first_chunk()
            .map(|guid| u64::from_be_bytes(*guid));
        if rej.reason == GAVE_UP
            && rej.additional_information_length >= 8
            && let Some(guid) = guid
        {
            let peer = (guid, rej.local_comm_id);
            if let Some(own) = self.table.by_peer(peer) {
                self.on_known(from, mad, (own, rej.local_comm_id), now);
                return;
            }
            if self.held.revoke(from, peer) {
                return;
            }
        }
        // The sender of a REJ to a REQ may have no id.
        self.on_answer(from, mad, ids, now);
    }

    fn on_req(&mut self, from: P, mad: &Mad, req: &Req, owner: Option<Owner>, now: u64) {
        let peer = (req.local_ca_guid, req.local_comm_id);
        if let Some(id) = self.table.by_peer(peer) {
            match self.state(id) {
                Some(State::Timewait) => {
                    self.send_rej(
                        from,
                        mad.transaction,
                        (0, req.local_comm_id),
                        0,
                        reason::STALE,
                    );
                }
                _ => {
                    let _ = self.with(id, |connection, effects| {
                        connection.asked_again(effects);
                        Ok(())
                    });
                }
            }
            return;
        }
        if let Some(old) = self.table.by_qp((req.local_ca_guid, req.local_qpn)) {
            self.end_stale(from, old, now);
            self.send_rej(
                from,
                mad.transaction,
                (0, req.local_comm_id),
                0,
                reason::STALE,
            );
            return;
        }
        if let Some(Owner::Bound(owner)) = owner {
            self.held.add(owner, from, mad, now);
            return;
        }
        let Some((number, listener)) = self.listener(owner) else {
            self.send_rej(
                from,
                mad.transaction,
                (0, req.local_comm_id),
                0,
                reason::NO_SERVICE,
            );
            return;
        };
        // Dropped without an answer, so that the repeated one may fit.
        if listener.pending >= listener.backlog {
            return;
        }
        let Some(id) = self.free_id() else {
            return;
        };
        let connection = Connection::requested(id, mad, req, self.settings.times);
        self.enter(id, from, Role::Connection(connection), Some(number));
        let event = Event::ConnectRequest {
            listener: number,
            request: *req,
            options: mad.modifier,
        };
        self.outputs.push_back(Output::Report { id, event });
    }

    /// Another connection names the queue pair of this one's peer. This one ends only if that
    /// message came by its own path: any sender can claim a GUID and a number.
    fn end_stale(&mut self, from: P, id: Id, now: u64) {
        if self.table.get(id).is_none_or(|entry| entry.path != from) {
            return;
        }
        let _ = self.with(id, |connection, effects| {
            connection.is_stale(now, effects);
            Ok(())
        });
    }

    fn send_rej(&mut self, to: P, transaction: u64, (own, peer): (Id, Id), about: u8, reason: u16) {
        let rej = Rej {
            local_comm_id: own,
            remote_comm_id: peer,
            message_rejected: about,
            reason,
            ..Rej::default()
        };
        self.send_plain(to, transaction, rej.into());
    }

    fn send_drep(&mut self, to: P, transaction: u64, (own, peer): (Id, Id)) {
        let drep = Drep {
            local_comm_id: own,
            remote_comm_id: peer,
            ..Drep::default()
        };
        self.send_plain(to, transaction, drep.into());
    }

    fn send_plain(&mut self, to: P, transaction: u64, message: Message) {
        let mad = Mad {
            transaction,
            modifier: 0,
            message,
        };
        self.outputs.push_back(Output::Send { to, mad });
    }

    fn listener(&self, owner: Option<Owner>) -> Option<(u64, &Listener)> {
        let Some(Owner::Listens(number)) = owner else {
            return None;
        };
        Some((number, self.listeners.get(&number)?))
    }

    fn on_sidr_req(&mut self, from: P, mad: &Mad, req: &SidrReq, owner: Option<Owner>, now: u64) {
        if self.table.by_request((from, req.request_id)).is_some() {
            // Being answered.
            return;
        }
        if let Some(mad) = self.answers.to(from, mad, req, now) {
            self.outputs.push_back(Output::Send { to: from, mad });
            return;
        }
        if let Some(Owner::Bound(owner)) = owner {
            self.held.add(owner, from, mad, now);
            return;
        }
        let Some((number, listener)) = self.listener(owner) else {
            let rep = SidrRep {
                request_id: req.request_id,
                status: reason::SIDR_UNSUPPORTED,
                service_id: req.service_id,
                ..SidrRep::default()
            };
            self.send_plain(from, mad.transaction, rep.into());
            return;
        };
        if listener.pending >= listener.backlog {
            return;
        }
        let Some(id) = self.free_id() else {
            return;
        };
        let answering = Answering::new(mad.transaction, req);
        self.enter(id, from, Role::Answering(answering), Some(number));
        let event = Event::ResolutionRequest {
            listener: number,
            request: *req,
        };
        self.outputs.push_back(Output::Report { id, event });
    }

    fn on_sidr_rep(&mut self, from: P, rep: &SidrRep, options: u32) {
        let id = rep.request_id;
        let asked = self
            .table
            .get(id)
            .is_some_and(|entry| entry.path == from && matches!(entry.role, Role::Asking(_)));
        if asked {
            self.forget(id);
            let event = Event::Resolved {
                reply: *rep,
                options,
            };
            self.outputs.push_back(Output::Report { id, event });
        }
    }

    /// Executes the timers that are due.
    pub fn on_time(&mut self, now: u64) {
        while let Some((from, mad)) = self.held.due(now) {
            self.receive(from, &mad, None, now);
        }
        while let Some(id) = self.table.due(now) {
            let asking = self.table.change(id, |entry| match &mut entry.role {
                Role::Asking(asking) => {
                    let mut effects = Effects::default();
                    let goes_on = asking.on_time(now, &mut effects);
                    Some((entry.path, effects, goes_on))
                }
                _ => None,
            });
            if let Some(Some((path, effects, goes_on))) = asking {
                self.carry_out(id, path, effects);
                if !goes_on {
                    self.forget(id);
                }
            } else {
                let _ = self.with(id, |connection, effects| {
                    connection.on_time(now, effects);
                    Ok(())
                });
            }
        }
    }
}
