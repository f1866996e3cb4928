//! One connection: its state, the last sent message, and the effect of each message.
//!
//! | state | side | waits for |
//! | --- | --- | --- |
//! | `ReqSent` | active | REP, REJ or MRA; repeats the REQ |
//! | `MraReqReceived` | active | the same, longer, once |
//! | `RepReceived` | active | the program: [`Connection::establish`] or reject. A repeated REP is answered by an MRA |
//! | `ReqReceived` | passive | the program: accept or reject. A repeated REQ is answered by an MRA |
//! | `RepSent` | passive | RTU, or data on the queue pair; repeats the REP |
//! | `MraRepReceived` | passive | the same, longer, once |
//! | `Established` | both | the program, DREQ |
//! | `DreqSent` | both | DREP; repeats the DREQ |
//! | `DreqReceived` | both | the program, which answers by disconnecting or closing |
//! | `Timewait` | both | time: until no packet of the connection can be on its way |
//! | `Idle` | both | no event: the connection has failed or ended |
//!
//! Messages are repeated early as well ([`Repetition`]). An MRA in the first interval ends that,
//! and changes nothing else: the peer has sent it because the message came twice.
//!
//! The program may close a connection in any state. The message that is due then is sent once, and
//! a connection that was open continues in `Timewait` by itself.

use super::event::{Effects, Event, Reject, Reply, Request};
use super::repetition::{Repeated, Repetition};
use crate::{
    times::{SLACK, Times, milliseconds},
    wire::{Drep, Dreq, Mad, Message, Mra, Rej, Rep, Req, Rtu},
};

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the table of the module
pub enum State {
    Idle,
    ReqSent,
    MraReqReceived,
    RepReceived,
    ReqReceived,
    RepSent,
    MraRepReceived,
    Established,
    DreqSent,
    DreqReceived,
    Timewait,
}

/// Why a call was refused: the connection is in a state in which it makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongState;

/// The reason of a program, and of a failure on the passive side.
const CONSUMER: u16 = 28;
/// The active side gave up.
const TIMEOUT: u16 = 4;

/// Which message a REJ or MRA is about.
#[derive(Clone, Copy)]
enum About {
    Req = 0,
    Rep = 1,
    Other = 2,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    local_id: u32,
    /// 0 until the peer has sent it.
    remote_id: u32,
    state: State,
    /// Closed by the program: nothing is reported any more.
    closed: bool,
    guid: u64,
    remote_guid: u64,
    local_qpn: u32,
    remote_qpn: u32,
    transaction: u64,
    times: Times,
    /// The last sent message, while it waits for an answer.
    repetition: Option<Repetition>,
    /// The end of `Timewait`.
    waits_until: Option<u64>,
    /// How long packets of the connection may be under way after its end: `local_ack_timeout`.
    ack_timeout: u8,
}

impl Connection {
    /// The active side: sends a REQ.
    pub fn connect(
        local_id: u32,
        request: &Request,
        times: Times,
        now: u64,
        effects: &mut Effects,
    ) -> Self {
        let mut message = request.message;
        message.local_comm_id = local_id;
        message.remote_cm_response_timeout = times.response;
        message.local_cm_response_timeout = times.response;
        message.max_cm_retries = times.retries;
        let mut connection = Self {
            local_id,
            remote_id: 0,
            state: State::ReqSent,
            closed: false,
            guid: message.local_ca_guid,
            remote_guid: 0,
            local_qpn: message.local_qpn,
            remote_qpn: 0,
            transaction: u64::from(request.agent) << 32 | u64::from(local_id.swap_bytes()),
            times,
            repetition: None,
            waits_until: None,
            ack_timeout: message.primary_local_ack_timeout,
        };
        let mad = connection.mad(message, request.options);
        let interval = times.answer(times.response);
        connection.repeat(mad, interval, now, effects);
        connection
    }

    /// The passive side: a REQ of an unknown connection has come.
    pub fn requested(local_id: u32, mad: &Mad, req: &Req, times: Times) -> Self {
        Self {
            local_id,
            remote_id: req.local_comm_id,
            state: State::ReqReceived,
            closed: false,
            // The reply contains it.
            guid: 0,
            remote_guid: req.local_ca_guid,
            local_qpn: 0,
            remote_qpn: req.local_qpn,
            transaction: mad.transaction,
            times: Times {
                // The active side states the time for an answer, and the number of its attempts.
                response: req.local_cm_response_timeout,
                retries: req.max_cm_retries,
                ..times
            },
            repetition: None,
            waits_until: None,
            ack_timeout: req.primary_local_ack_timeout,
        }
    }

    /// Where it is.
    pub fn state(&self) -> State {
        self.state
    }

    /// When [`Connection::on_time`] is to be called, in milliseconds.
    pub fn deadline(&self) -> Option<u64> {
        let repetition = self.repetition.as_ref().map(Repetition::deadline);
        repetition.or(self.waits_until)
    }

    /// Whether nothing is left to do: the program has closed it, and no packet can be on its way.
    pub fn is_over(&self) -> bool {
        self.closed && self.state == State::Idle
    }

    /// By which the peer is known: GUID and communication id.
    pub fn peer(&self) -> Option<(u64, u32)> {
        (self.remote_id != 0).then_some((self.remote_guid, self.remote_id))
    }

    /// The queue pair of the peer, while it counts as connected.
    pub fn peer_qp(&self) -> Option<(u64, u32)> {
        let counts = !matches!(
            self.state,
            State::Idle | State::ReqSent | State::MraReqReceived
        );
        (counts && self.remote_guid != 0).then_some((self.remote_guid, self.remote_qpn))
    }

    fn mad(&self, message: impl Into<Message>, modifier: u32) -> Mad {
        Mad {
            transaction: self.transaction,
            modifier,
            message: message.into(),
        }
    }

    fn send(&self, message: impl Into<Message>, effects: &mut Effects) {
        effects.send(self.mad(message, 0));
    }

    fn report(&self, event: Event, effects: &mut Effects) {
        if !self.closed {
            effects.report(event);
        }
    }

    /// Sends a message that is repeated until it is answered.
    fn repeat(&mut self, mad: Mad, interval: u64, now: u64, effects: &mut Effects) {
        let retries = self.times.retries;
        self.repetition = Some(Repetition::begin(mad, interval, retries, now, effects));
    }

    fn goes_to(&mut self, state: State) {
        self.state = state;
        self.repetition = None;
        self.waits_until = None;
    }

    fn waits_out(&mut self, now: u64) {
        self.goes_to(State::Timewait);
        self.waits_until = Some(now.saturating_add(milliseconds(self.ack_timeout)));
    }

    fn mra(&self, about: About) -> Mra {
        Mra {
            local_comm_id: self.local_id,
            remote_comm_id: self.remote_id,
            message_mraed: about as u8,
            service_timeout: self.times.service,
            ..Mra::default()
        }
    }

    fn rej(&self, about: About, reason: u16) -> Rej {
        Rej {
            // The kernel sends its own id, too, when a program rejects a request.
            local_comm_id: self.local_id,
            remote_comm_id: self.remote_id,
            message_rejected: about as u8,
            reason,
            ..Rej::default()
        }
    }

    /// The passive side takes the request.
    ///
    /// # Errors
    /// In every state but `ReqReceived`.
    pub fn accept(
        &mut self,
        reply: &Reply,
        now: u64,
        effects: &mut Effects,
    ) -> Result<(), WrongState> {
        if self.state != State::ReqReceived {
            return Err(WrongState);
        }
        let mut message = reply.message;
        message.local_comm_id = self.local_id;
        message.remote_comm_id = self.remote_id;
        self.guid = message.local_ca_guid;
        self.local_qpn = message.local_qpn;
        self.state = State::RepSent;
        let mad = self.mad(message, reply.options);
        let interval = milliseconds(self.times.response);
        self.repeat(mad, interval, now, effects);
        Ok(())
    }

    /// Either side rejects the peer's message.
    ///
    /// # Errors
    /// Unless a REQ or REP waits for the program.
    pub fn reject(&mut self, reject: &Reject, effects: &mut Effects) -> Result<(), WrongState> {
        let about = match self.state {
            State::ReqReceived => About::Req,
            State::RepReceived => About::Rep,
            _ => return Err(WrongState),
        };
        let mut message = self.rej(about, reject.reason);
        message.private_data = reject.private_data;
        self.send(message, effects);
        self.goes_to(State::Idle);
        Ok(())
    }

    /// The active side is ready to use the connection after the REP; the passive side has received
    /// data on the queue pair before the RTU.
    ///
    /// # Errors
    /// Unless a REP has come or was sent.
    pub fn establish(&mut self, effects: &mut Effects) -> Result<(), WrongState> {
        match self.state {
            State::RepReceived => {
                self.goes_to(State::Established);
                self.send(self.rtu(), effects);
            }
            State::RepSent | State::MraRepReceived => self.goes_to(State::Established),
            _ => return Err(WrongState),
        }
        self.report(Event::Established, effects);
        Ok(())
    }

    fn rtu(&self) -> Rtu {
        Rtu {
            local_comm_id: self.local_id,
            remote_comm_id: self.remote_id,
            ..Rtu::default()
        }
    }

    /// Ends an open connection, or answers the end that the peer asked for.
    ///
    /// # Errors
    /// Unless it is open or the peer asked.
    pub fn disconnect(&mut self, now: u64, effects: &mut Effects) -> Result<(), WrongState> {
        match self.state {
            State::Established | State::RepSent | State::MraRepReceived => {
                let active = matches!(self.state, State::Established);
                let interval = match active {
                    true => self.times.answer(self.times.response),
                    false => milliseconds(self.times.response),
                };
                self.state = State::DreqSent;
                let mad = self.mad(self.dreq(), 0);
                self.repeat(mad, interval, now, effects);
            }
            State::DreqReceived => {
                self.send(self.drep(), effects);
                self.waits_out(now);
            }
            _ => return Err(WrongState),
        }
        Ok(())
    }

    fn dreq(&self) -> Dreq {
        Dreq {
            local_comm_id: self.local_id,
            remote_comm_id: self.remote_id,
            remote_qpn: self.remote_qpn,
            ..Dreq::default()
        }
    }

    fn drep(&self) -> Drep {
        Drep {
            local_comm_id: self.local_id,
            remote_comm_id: self.remote_id,
            ..Drep::default()
        }
    }

    /// The program has no more to do with it.
    pub fn close(&mut self, now: u64, effects: &mut Effects) {
        self.closed = true;
        match self.state {
            State::ReqSent | State::MraReqReceived => {
                let mut message = self.rej(About::Other, TIMEOUT);
                message.additional_information_length = 8;
                if let Some(place) = message.additional_information.first_chunk_mut() {
                    *place = self.guid.to_be_bytes();
                }
                self.send(message, effects);
                self.goes_to(State::Idle);
            }
            State::ReqReceived | State::RepReceived | State::RepSent | State::MraRepReceived => {
                let about = match self.state {
                    State::ReqReceived => About::Req,
                    State::RepReceived => About::Rep,
                    _ => About::Other,
                };
                self.send(self.rej(about, CONSUMER), effects);
                self.goes_to(State::Idle);
            }
            State::Established => {
                // Once: a side that closes does not wait for the answer.
                self.send(self.dreq(), effects);
                self.waits_out(now);
            }
            State::DreqReceived => {
                self.send(self.drep(), effects);
                self.waits_out(now);
            }
            State::DreqSent => self.waits_out(now),
            State::Timewait | State::Idle => {}
        }
    }

    /// A repeated REQ of this connection has come.
    pub fn asked_again(&self, effects: &mut Effects) {
        // In other states a lost REP is repeated by its own timer.
        if self.state == State::ReqReceived {
            self.send(self.mra(About::Req), effects);
        }
    }

    /// A message of the peer, known by both communication ids, or an answer to the REQ.
    pub fn receive(&mut self, mad: &Mad, now: u64, effects: &mut Effects) {
        match &mad.message {
            Message::Rep(rep) => self.on_rep(rep, mad.modifier, effects),
            Message::Rtu(_) => self.on_rtu(effects),
            Message::Mra(mra) => self.on_mra(mra, now),
            Message::Rej(rej) => self.on_rej(rej, now, effects),
            Message::Dreq(dreq) => self.on_dreq(dreq, mad.transaction, effects),
            Message::Drep(_) => self.on_drep(now, effects),
            // Alternate paths are not used on RoCE. The others are not of connections.
            _ => {}
        }
    }

    fn on_rep(&mut self, rep: &Rep, options: u32, effects: &mut Effects) {
        match self.state {
            State::ReqSent | State::MraReqReceived => {
                self.goes_to(State::RepReceived);
                self.remote_id = rep.local_comm_id;
                self.remote_guid = rep.local_ca_guid;
                self.remote_qpn = rep.local_qpn;
                self.report(
                    Event::Reply {
                        reply: *rep,
                        options,
                    },
                    effects,
                );
            }
            State::RepReceived => self.send(self.mra(About::Rep), effects),
            State::Established => self.send(self.rtu(), effects),
            _ => {}
        }
    }

    fn on_rtu(&mut self, effects: &mut Effects) {
        if matches!(self.state, State::RepSent | State::MraRepReceived) {
            self.goes_to(State::Established);
            self.report(Event::Established, effects);
        }
    }

    /// The peer needs longer: once, then messages are repeated as before.
    fn on_mra(&mut self, mra: &Mra, now: u64) {
        let state = match (self.state, mra.message_mraed) {
            (State::ReqSent, 0) => State::MraReqReceived,
            (State::RepSent, 1) => State::MraRepReceived,
            _ => return,
        };
        let Some(repetition) = &mut self.repetition else {
            return;
        };
        if repetition.is_first(now) {
            repetition.end_early();
            return;
        }
        self.state = state;
        let longer = milliseconds(mra.service_timeout).saturating_add(SLACK);
        repetition.wait_until(now.saturating_add(longer));
    }

    fn on_rej(&mut self, rej: &Rej, now: u64, effects: &mut Effects) {
        const STALE: u16 = 10;
        match self.state {
            State::ReqSent
            | State::MraReqReceived
            | State::RepSent
            | State::MraRepReceived
            | State::ReqReceived => {
                if rej.reason == STALE {
                    self.waits_out(now);
                } else {
                    self.goes_to(State::Idle);
                }
            }
            State::DreqSent | State::RepReceived | State::Established => self.waits_out(now),
            State::DreqReceived | State::Timewait | State::Idle => return,
        }
        self.report(Event::Rejected { reject: *rej }, effects);
    }

    fn on_dreq(&mut self, dreq: &Dreq, transaction: u64, effects: &mut Effects) {
        if dreq.remote_qpn != self.local_qpn {
            return;
        }
        match self.state {
            State::Established | State::RepSent | State::MraRepReceived | State::DreqSent => {
                self.goes_to(State::DreqReceived);
                self.transaction = transaction;
                self.report(Event::DisconnectRequest, effects);
            }
            State::Timewait => {
                let mut mad = self.mad(self.drep(), 0);
                mad.transaction = transaction;
                effects.send(mad);
            }
            _ => {}
        }
    }

    fn on_drep(&mut self, now: u64, effects: &mut Effects) {
        if matches!(self.state, State::DreqSent | State::DreqReceived) {
            self.waits_out(now);
            self.report(Event::Disconnected { answered: true }, effects);
        }
    }

    /// The peer has ended without a word.
    pub fn vanished(&mut self, now: u64, effects: &mut Effects) {
        match self.state {
            State::Established | State::DreqSent => {
                self.report(Event::DisconnectRequest, effects);
                self.waits_out(now);
            }
            State::RepReceived | State::RepSent | State::MraRepReceived => {
                self.goes_to(State::Idle);
                let reject = Rej {
                    reason: CONSUMER,
                    ..Rej::default()
                };
                self.report(Event::Rejected { reject }, effects);
            }
            State::ReqReceived => self.goes_to(State::Idle),
            State::DreqReceived => self.waits_out(now),
            State::ReqSent | State::MraReqReceived | State::Timewait | State::Idle => {}
        }
    }

    /// Another connection uses the peer's queue pair: this one is stale.
    pub fn is_stale(&mut self, now: u64, effects: &mut Effects) {
        // Refused where it is not open any more, and then there is nothing to end.
        let _ = self.disconnect(now, effects);
    }

    /// The deadline has come.
    pub fn on_time(&mut self, now: u64, effects: &mut Effects) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        if self.state == State::Timewait {
            self.goes_to(State::Idle);
            self.report(Event::TimewaitExit, effects);
            return;
        }
        let Some(repetition) = &mut self.repetition else {
            return;
        };
        match (repetition.on_time(now, effects), self.state) {
            (Repeated::Early, _) => {}
            // After an MRA's longer time, too.
            (Repeated::Again, State::MraReqReceived) => self.state = State::ReqSent,
            (Repeated::Again, State::MraRepReceived) => self.state = State::RepSent,
            (Repeated::Again, _) => {}
            (Repeated::No, State::DreqSent) => {
                self.waits_out(now);
                self.report(Event::Disconnected { answered: false }, effects);
            }
            (Repeated::No, _) => {
                self.goes_to(State::Idle);
                self.report(Event::Unreachable, effects);
            }
        }
    }
}
