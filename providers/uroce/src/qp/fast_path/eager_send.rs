//! Messages that are sent by the fast path.
//!
//! [`EagerSender`] owns the epoch that the peer expects, the messages in flight, the requests that
//! wait behind them, the credit window and the cache of the memory that messages are read from.
//!
//! A whole message goes into the ring that leads to the peer's process, and the peer's poll puts it
//! into the next receive request. The peer refuses a message that it cannot receive so (no receive
//! request, one that is too short, memory that may not be written, another state), and all later
//! ones. The protocol then sends those requests, meets the same condition, and handles it.
//!
//! *Invariants.*
//! - The protocol has no request under way while messages are in flight, and gets the next request
//!   when the outcome of all of them is known. That keeps the order.
//! - A message goes by credit only when the outcome of all before it is known.
//! - After a refusal some requests take the protocol path before the fast path is tried again: one
//!   after the first refusal, twice as many after each that follows, 64 at most.
//!
//! *Room.* The ring serves all queue pairs of two processes. A message that finds no room waits
//! briefly, while the peer takes records. Otherwise it is deferred, and so are all that are posted
//! after it. With messages in flight, it follows when their outcome is known. Without any, which is
//! so where all went by credit, the ring lists the queue pair, and reports in turn when there is
//! room ([`EagerSender::on_room`]). The protocol takes it only on unreliable connections, and where
//! the fast path may not be used any more.
//!
//! *Time limit.* As long as messages are in flight, or wait for room, a deadline runs
//! ([`super::super::stall`]): a peer that takes nothing from its ring ends the connection.
//!
//! *Tests.* `super::super::tests`: completion, refusal, flush; room.
//! `providers/uroce/tests`: `stalled.rs`, `credits.rs`.

use super::super::connection::Connection;
use super::super::requests;
use super::super::resources::Resources;
use super::backoff::Backoff;
use super::credit::CreditWindow;
use super::in_flight::{self, Header, InFlight};
use crate::carrier::qpn;
use crate::carrier::shm::{Directory, Few, GateSeen, Header as MessageHeader, Outcome};
use crate::carrier::shm::{MESSAGE_MAX, NotPut, Put, Room, RoomWait, SHARE};
use crate::clock;
use crate::cq::{Entry, success};
use crate::memory::{AccessMode, InvalidationListener, MrCache, piece};
use crate::objects::Objects;
use bytemuck::Zeroable;
use kit::abi::*;
use kit::provider::{Data, Inline, SendView};
use kit::sys::barrier;
use std::collections::VecDeque;
use std::sync::Weak;
use uroce_engine::host::Fault;
use uroce_engine::qp::{Service, State};
use uroce_engine::timer::Time;
use uroce_engine::work::{
    Completion, CompletionOpcode, Data as Pieces, Request, Sge, Status, WorkRequest,
};

/// Flags of requests that may take the fast path.
const FLAGS: u32 = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
/// Pieces of memory of a request that was with the protocol.
const PIECES: usize = 4;

/// The sending side of the fast path.
pub(super) struct EagerSender {
    /// It may be used on this queue pair.
    open: bool,
    /// The peer's epoch for the next message.
    epoch: u32,
    in_flight: in_flight::Queue,
    /// Requests that wait until the outcome of all messages is known, or for room.
    deferred: VecDeque<WorkRequest>,
    /// The latest message found no room in the ring.
    no_room: bool,
    /// Messages wait for room, and none is in flight: the position of the last byte that was in the
    /// ring then. The peer's ring lists the queue pair.
    short_since: Option<u64>,
    backoff: Backoff,
    window: CreditWindow,
    /// The region of the local key that the last short message used.
    cache: MrCache,
}

impl EagerSender {
    pub fn new(qp: &Resources, listener: Weak<dyn InvalidationListener>) -> Self {
        Self {
            open: false,
            epoch: 0,
            in_flight: in_flight::Queue::default(),
            deferred: VecDeque::new(),
            no_room: false,
            short_since: None,
            backoff: Backoff::default(),
            window: CreditWindow::default(),
            cache: MrCache::new(qp.pd(), listener),
        }
    }

    /// The queue pair has a peer.
    pub fn open(&mut self, open: bool) {
        self.open = open;
    }

    /// The queue pair may send. Messages begin with its first PSN.
    pub fn begin(&mut self, psn: u32) {
        self.epoch = psn << 8;
        self.window = CreditWindow::default();
    }

    /// Forgets all requests, as in RESET.
    pub fn reset(&mut self) {
        self.open = false;
        self.epoch = 0;
        self.in_flight = in_flight::Queue::default();
        self.deferred.clear();
        self.short_since = None;
        self.backoff = Backoff::default();
    }

    /// Requests posted and not completed.
    pub fn outstanding(&self) -> usize {
        self.in_flight.len() + self.deferred.len()
    }

    /// Whether the next request has to wait for its turn.
    #[inline]
    pub fn is_busy(&self) -> bool {
        !self.in_flight.is_empty() || !self.deferred.is_empty()
    }

    /// The position of the oldest message in flight, or of the last one that a message without room
    /// waits for, if there is one.
    pub fn oldest(&self) -> Option<u64> {
        let in_flight = self.in_flight.get(0).map(|message| message.position);
        in_flight.or(self.short_since)
    }

    /// The peer's grant.
    pub fn window(&self) -> &CreditWindow {
        &self.window
    }

    /// The region of a key is invalidated.
    pub fn forget(&mut self, key: u32) {
        self.cache.forget(key);
    }

    /// The protocol takes a request, at once or when its turn comes.
    pub fn post_to_protocol(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        wr: WorkRequest,
        now: Time,
    ) {
        self.backoff.passed_one();
        self.put_back(connection, qp, wr, now);
    }

    /// The same of a request that the protocol had already.
    pub fn put_back(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        wr: WorkRequest,
        now: Time,
    ) {
        if self.is_busy() || self.waits_for_room(connection, qp) {
            self.deferred.push_back(wr);
        } else {
            self.hand_over(connection, qp, wr, now);
        }
    }

    /// Whether a message that has just found no room waits for it, while none is in flight. The
    /// protocol would send it as packets, and then all that are posted until it has nothing under
    /// way. [`EagerSender::on_room`] is called when there is room.
    fn waits_for_room(&mut self, connection: &mut Connection, qp: &Resources) -> bool {
        let no_room = std::mem::take(&mut self.no_room);
        // Other services have no outcome that may be late.
        if !no_room || qp.service() != Service::Rc || !self.may_send(connection) {
            return false;
        }
        let (peer, index) = (connection.live_peer(), qpn::index_of(qp.node_number));
        self.short_since = peer.and_then(|peer| peer.wait_for_room(index));
        if self.short_since.is_some() {
            self.watch_peer(connection, qp);
        }
        self.short_since.is_some()
    }

    fn hand_over(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        wr: WorkRequest,
        now: Time,
    ) {
        // The request uses receive requests of the peer's.
        self.window.invalidate();
        connection.hold_if_worthwhile(qp, &wr, now);
        connection.begin_retries(now);
        let (engine, mut host) = connection.split(qp, now);
        // Refused only in a state that it cannot have come to since it was asked.
        let _ = engine.post_send(wr, &mut host);
    }
}

/// Sending.
impl EagerSender {
    /// Sends a request, if it may take the fast path. It is one that the protocol would take, and
    /// there is room for it. `wait` is how long the call may still wait for room in the ring.
    #[inline]
    pub fn post<'a, P: Objects>(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        given: &impl SendView<'a, P>,
        wait: &mut RoomWait,
    ) -> bool {
        self.no_room = false;
        let Some(immediate) = in_flight::immediate(given) else {
            return false;
        };
        let may = given.flags() & !FLAGS == 0 && self.may_send(connection);
        let Some(data) = given.data().ok().filter(|_| may) else {
            return false;
        };
        if !connection.requests_by_link(qp, clock::now) {
            return false;
        }
        let request = Header {
            id: given.id(),
            flags: given.flags(),
            immediate,
        };
        if is_crowded(connection, qp) {
            self.no_room = true;
            return false;
        }
        let (mode, data) = (AccessMode::Direct, &data);
        self.put(connection, qp, &request, (data, mode), wait)
            .is_some()
    }

    #[inline(always)]
    fn may_send(&self, connection: &Connection) -> bool {
        self.open
            && self.backoff.is_over()
            && self.deferred.is_empty()
            && connection.engine().may_take_fast_path()
    }

    /// Whether a request that the protocol has could be sent, as far as is known.
    pub fn may_retry(&self, wr: &WorkRequest) -> bool {
        let is_message = matches!(wr.request, Request::Send | Request::SendImm(_));
        let length = wr
            .data
            .length()
            .and_then(|length| usize::try_from(length).ok());
        let fits = length.is_some_and(|length| length <= MESSAGE_MAX);
        let few = match &wr.data {
            Pieces::Sges(pieces) => pieces.len() <= PIECES,
            Pieces::Inline(_) => true,
        };
        is_message && fits && few && self.open && self.backoff.is_over() && self.deferred.is_empty()
    }

    /// Sends a request that the protocol had, or that waited, if it may take the fast path, and if
    /// there is room now: the thread may hold the inbox, or have waited for other requests of its
    /// call. `mode` is how it accesses memory.
    pub fn retry(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        wr: &WorkRequest,
        mode: AccessMode,
    ) -> bool {
        self.no_room = false;
        let immediate = match &wr.request {
            Request::Send => None,
            Request::SendImm(immediate) => Some(immediate.data),
            _ => return false,
        };
        if !self.may_send(connection) || !connection.requests_by_link(qp, clock::now) {
            return false;
        }
        let mut sges = [ibv_sge::zeroed(); PIECES];
        let Some(data) = requests::given(&wr.data, &mut sges) else {
            return false;
        };
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let request = Header {
            id: wr.id,
            flags: flag(wr.signaled, IBV_SEND_SIGNALED)
                | flag(wr.solicited, IBV_SEND_SOLICITED)
                | flag(wr.fence, IBV_SEND_FENCE),
            immediate,
        };
        let wait = &mut RoomWait::none();
        self.put(connection, qp, &request, (&data, mode), wait)
            .is_some()
    }

    // The same for every kind of view.
    #[inline(never)]
    fn put(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        request: &Header,
        (data, mode): (&Data<'_>, AccessMode),
        wait: &mut RoomWait,
    ) -> Option<()> {
        connection.live_peer()?;
        let length = requests::length(qp.cap(), data)?;
        if usize::try_from(length).ok()? > MESSAGE_MAX {
            return None;
        }
        // In a forked child nothing is touched: it may have neither the memory nor the locks.
        let directory = qp.node().directory()?;
        let few = match in_flight::one_piece(data) {
            Some(piece) if mode == AccessMode::Direct => Some(self.read_few(qp, piece)?),
            Some(_) => None,
            None => in_flight::few(data),
        };
        let Some((few, count)) = few else {
            let data = (data, length, mode);
            return self.put_much(connection, qp, directory, request, data, wait);
        };
        let credit = self.credit_gate(connection, qp, length);
        let header = self.header(connection, qp, request, credit);
        let gate = credit.unwrap_or_default();
        let peer = connection.peer()?;
        let put = peer.put_when_room(count, wait, || {
            let put = directory.put(peer, |peer| peer.short(&header, few, count, gate));
            put.ok_or(NotPut::NoRoom)
        });
        let put = self.found(put)?;
        if self.is_completed(connection, qp, request, length, put, credit) {
            return Some(());
        }
        self.in_flight
            .add(request, (put.position, length))?
            .keep_few(few, count);
        self.watch_peer(connection, qp);
        Some(())
    }

    /// Notes whether a message found room.
    #[inline(always)]
    fn found(&mut self, put: Result<Put, NotPut>) -> Option<Put> {
        self.no_room = put == Err(NotPut::NoRoom);
        put.ok()
    }

    /// A message is in the ring, perhaps by credit. Returns whether its request is completed
    /// already.
    #[inline(always)]
    fn is_completed(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        request: &Header,
        length: u32,
        put: Put,
        credit: Option<GateSeen>,
    ) -> bool {
        connection.engine_mut().sent_on_fast_path(length);
        self.window.sent();
        if put.completed {
            self.window.completed(put.position);
            self.backoff.succeeded();
            succeed(connection, qp, request.id, request.flags, length);
        } else if credit.is_some() {
            self.window.invalidate();
        }
        put.completed
    }

    #[inline(always)]
    fn header(
        &self,
        connection: &Connection,
        qp: &Resources,
        request: &Header,
        credit: Option<GateSeen>,
    ) -> MessageHeader {
        MessageHeader {
            source: qp.number,
            destination: connection.engine().attributes().dest_qp_num,
            epoch: self.epoch,
            immediate: request.immediate,
            solicited: request.flags & IBV_SEND_SOLICITED != 0,
            completed: credit.is_some(),
        }
    }

    /// The bytes of a piece that are few; `None` if they cannot be read.
    #[inline(always)]
    fn read_few(&mut self, qp: &Resources, piece: Sge) -> Option<(Few, usize)> {
        let count = usize::try_from(piece.length).ok()?;
        if count == 0 {
            return Some((Few::default(), 0));
        }
        let few = qp.keys().gather_few(piece, &mut self.cache).ok()?;
        Some((few, count))
    }

    /// Sends a message that exceeds the first line.
    #[inline(never)]
    fn put_much(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        directory: &Directory,
        request: &Header,
        (data, length, mode): (&Data<'_>, u32, AccessMode),
        wait: &mut RoomWait,
    ) -> Option<()> {
        let size = usize::try_from(length).ok()?;
        let credit = self.credit_gate(connection, qp, length);
        let header = self.header(connection, qp, request, credit);
        let gate = credit.unwrap_or_default();
        let cache = &mut self.cache;
        let mut read = |room: &mut Room<'_>| read(qp, (data, mode), cache, room);
        let peer = connection.peer()?;
        let put = peer.put_when_room(size, wait, || {
            directory.put(peer, |peer| peer.long(&header, size, &mut read, gate))
        });
        let put = self.found(put)?;
        if self.is_completed(connection, qp, request, length, put, credit) {
            return Some(());
        }
        self.in_flight
            .add_with(request, (put.position, length), data)?;
        self.watch_peer(connection, qp);
        Some(())
    }

    /// By which gate a message of that many bytes may go by credit. It may only when the outcome of
    /// all before it is known.
    #[inline]
    fn credit_gate(
        &mut self,
        connection: &Connection,
        qp: &Resources,
        length: u32,
    ) -> Option<GateSeen> {
        if self.is_busy() {
            return None;
        }
        let peer = connection.peer()?;
        if self.window.is_far_ahead(peer) {
            return None;
        }
        if let Some(gate) = self.window.covers(length) {
            return Some(gate);
        }
        self.read_credit(connection, qp)?;
        self.window.covers(length)
    }

    #[inline(never)]
    fn read_credit(&mut self, connection: &Connection, qp: &Resources) -> Option<()> {
        self.window.invalidate();
        if !barrier::takes_part() {
            return None;
        }
        let peer = connection.peer()?;
        let index = qpn::index_of(connection.engine().attributes().dest_qp_num);
        let (gate, seen) = peer.segment().gate_seen(index)?;
        let generation = qp.node().directory()?.generation();
        let ours = gate.peer == qp.number && gate.generation == generation;
        if !ours || !gate.credits || gate.awaits_use {
            return None;
        }
        let credit = peer.segment().credit(index)?;
        if self.epoch == credit.epoch {
            self.window.know(credit, seen, peer);
        }
        Some(())
    }

    /// Messages are in flight: that has a time limit.
    #[inline]
    fn watch_peer(&self, connection: &mut Connection, qp: &Resources) {
        if !connection.watches_peer() {
            begin_watch(connection, qp);
        }
    }
}

#[cold]
fn begin_watch(connection: &mut Connection, qp: &Resources) {
    if let Some(due) = connection.watch_peer(qp, clock::now()) {
        qp.node().note_deadline(qp.node_number, due);
    }
}

/// Whether the messages of other queue pairs wait for the room that there is.
#[inline]
fn is_crowded(connection: &Connection, qp: &Resources) -> bool {
    let crowded = connection.peer().is_some_and(|peer| peer.is_crowded());
    crowded && qp.service() == Service::Rc
}

fn read(
    qp: &Resources,
    (data, mode): (&Data<'_>, AccessMode),
    cache: &mut MrCache,
    room: &mut Room<'_>,
) -> Result<(), Fault> {
    if let (Data::Sges([one]), AccessMode::Direct) = (data, mode)
        && let Some(bytes) = qp.keys().lend(piece(one), cache)
    {
        return room.put_from(&bytes);
    }
    match data {
        Data::Inline(Inline::Bytes(bytes)) => room.put(bytes),
        Data::Inline(Inline::Pieces(pieces)) => pieces.iter().try_for_each(|part| room.put(part)),
        Data::Sges(pieces) => pieces
            .iter()
            .try_for_each(|one| read_piece(qp, one, mode, room)),
    }
}

fn read_piece(
    qp: &Resources,
    given: &ibv_sge,
    mode: AccessMode,
    room: &mut Room<'_>,
) -> Result<(), Fault> {
    let (memory, pd) = (qp.keys().using(mode), qp.pd());
    let whole = piece(given);
    let put = memory.lend(pd, whole, |bytes| room.put_from(&bytes))?;
    if let Some(put) = put {
        return put;
    }
    // Device memory, memory on demand, or a thread that may not access it directly.
    let length = usize::try_from(whole.length).map_err(|_| Fault)?;
    room.put_by(length, |offset, to| {
        let part = Sge {
            address: whole.address + u64::try_from(offset).map_err(|_| Fault)?,
            length: u32::try_from(to.len()).map_err(|_| Fault)?,
            lkey: whole.lkey,
        };
        memory.gather(pd, part, to)
    })
}

/// Outcomes.
impl EagerSender {
    /// The outcome of messages is known. Returns whether the protocol has something to send now.
    /// `mode` is how this thread accesses memory.
    pub fn on_outcome(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        outcome: Outcome,
        mode: AccessMode,
    ) -> bool {
        match outcome {
            Outcome::Taken(position) => self.complete_to(connection, qp, position, true),
            Outcome::Refused(position, epoch) => {
                self.complete_to(connection, qp, position, false);
                let front = self.in_flight.get(0);
                if front.is_some_and(|message| message.position == position) {
                    self.epoch = epoch;
                    self.fall_back(connection, qp);
                }
            }
            Outcome::Lost => self.fall_back(connection, qp),
        }
        if outcome == Outcome::Lost {
            self.short_since = None;
        }
        if self.short_since.is_some() {
            return false;
        }
        if !self.deferred.is_empty() {
            self.send_deferred(connection, qp, mode, false);
        }
        self.resume(connection, qp)
    }

    /// There is room for messages that wait for it, if they do. Returns whether the protocol has
    /// something to send now.
    pub fn on_room(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        mode: AccessMode,
    ) -> bool {
        if self.short_since.take().is_none() {
            return false;
        }
        self.send_deferred(connection, qp, mode, true);
        self.resume(connection, qp)
    }

    /// Messages that waited follow into the ring, as many as there is room for; `in_turn` if the
    /// room is this queue pair's, up to its share. The protocol would send them as packets, and
    /// then all that are posted until it has nothing under way.
    fn send_deferred(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        mode: AccessMode,
        in_turn: bool,
    ) {
        let mut waiting = std::mem::take(&mut self.deferred);
        let mut left = if in_turn { SHARE } else { u64::MAX };
        while let Some(wr) = waiting.front() {
            if left == 0 || !in_turn && is_crowded(connection, qp) {
                self.no_room = true;
                break;
            }
            let length = u64::from(wr.data.length().unwrap_or(0));
            if !self.retry(connection, qp, wr, mode) {
                break;
            }
            left = left.saturating_sub(length.max(64));
            waiting.pop_front();
        }
        if !waiting.is_empty() && self.in_flight.is_empty() {
            // It is its turn again when the others had theirs.
            self.waits_for_room(connection, qp);
        }
        self.deferred = waiting;
    }

    /// Completes messages up to a position.
    fn complete_to(
        &mut self,
        connection: &Connection,
        qp: &Resources,
        position: u64,
        inclusive: bool,
    ) {
        let is_done = |message: &InFlight| {
            message.position < position || inclusive && message.position == position
        };
        let mut count = 0;
        let done = self.in_flight.iter().take_while(|message| is_done(message));
        for message in done {
            succeed(connection, qp, message.id, message.flags, message.length);
            count += 1;
        }
        if count > 0 {
            self.backoff.succeeded();
            self.in_flight.remove_oldest(count);
        }
    }

    /// The protocol sends all messages that are in flight.
    fn fall_back(&mut self, connection: &mut Connection, qp: &Resources) {
        if self.in_flight.is_empty() {
            return;
        }
        self.backoff.refused();
        let mut messages = std::mem::take(&mut self.in_flight);
        self.window.refused(messages.len());
        let now = clock::now();
        while let Some(message) = messages.pop_front() {
            self.hand_over(connection, qp, message.request(), now);
        }
    }

    /// The protocol takes the requests that wait, if their turn has come. Returns whether it has
    /// something to send.
    fn resume(&mut self, connection: &mut Connection, qp: &Resources) -> bool {
        if !self.in_flight.is_empty() || self.short_since.is_some() {
            return false;
        }
        if !self.deferred.is_empty() {
            let now = clock::now();
            for wr in std::mem::take(&mut self.deferred) {
                self.hand_over(connection, qp, wr, now);
            }
        }
        connection.engine().outstanding() > 0
    }

    /// After calls of the protocol: if it has failed, all requests are flushed.
    #[inline]
    pub fn flush_if_failed(&mut self, connection: &Connection, qp: &Resources) {
        let failed = matches!(connection.engine().state(), State::Error | State::Sqe);
        if failed && self.is_busy() {
            self.flush(connection, qp);
        }
    }

    fn flush(&mut self, connection: &Connection, qp: &Resources) {
        let messages = std::mem::take(&mut self.in_flight);
        let deferred = std::mem::take(&mut self.deferred);
        self.short_since = None;
        for message in messages.iter() {
            let opcode = InFlight::OPCODE;
            fail(connection, qp, message.id, Status::WrFlush, opcode);
        }
        for wr in deferred {
            let opcode = wr.request.completion_opcode();
            fail(connection, qp, wr.id, Status::WrFlush, opcode);
        }
    }

    /// The peer has taken nothing for as long as it may. The connection ends as it does when the
    /// protocol's repeated packets stay without an answer; without acknowledgements, the messages
    /// are lost.
    pub fn on_stall(&mut self, connection: &mut Connection, qp: &Resources, now: Time) {
        if qp.service().reliable() {
            let oldest = self.in_flight.pop_front().map(|message| message.id);
            let waiting = || self.deferred.pop_front().map(|wr| wr.id);
            if let Some(id) = oldest.or_else(waiting) {
                fail(connection, qp, id, Status::RetryExc, InFlight::OPCODE);
            }
            let (engine, mut host) = connection.split(qp, now);
            engine.fail_on_fast_path(&mut host);
            return;
        }
        while let Some(message) = self.in_flight.pop_front() {
            succeed(connection, qp, message.id, message.flags, message.length);
        }
        self.resume(connection, qp);
    }
}

/// A message was received, or is lost and nothing acknowledges it. That is reported if it is
/// signalled.
#[inline(always)]
fn succeed(connection: &Connection, qp: &Resources, id: u64, flags: u32, length: u32) {
    connection.counting().succeeded(InFlight::OPCODE, length);
    if flags & IBV_SEND_SIGNALED != 0 || qp.sq_sig_all() {
        qp.push_sent(success(id, IBV_WC_SEND, length, qp.number));
    }
}

/// A request that took the fast path, or waited behind it, has failed.
fn fail(
    connection: &Connection,
    qp: &Resources,
    id: u64,
    status: Status,
    opcode: CompletionOpcode,
) {
    let completion = Completion::new(id, status, opcode);
    connection.counting().count(&completion);
    qp.complete(Entry::new(completion, qp.number));
}
