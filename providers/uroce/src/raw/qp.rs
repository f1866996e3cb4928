//! Raw packet queue pairs.

use super::intake::{Intake, Outcome as Taken, Requests};
use super::sending::{Outcome, Sending};
use super::states;
use crate::carrier::Sender;
use crate::channel::Records;
use crate::cq::{Cq, Entry};
use crate::device::Port;
use crate::memory::PdId;
use crate::node::{Account, Caller, Endpoint, Incoming, Node};
use crate::objects::Objects;
use crate::qp::attributes;
use crate::receive::{ReceiveQueue, Srq};
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{ReceiveRequest, SendRequest, Token};
use kit::sync::Mutex;
use kit::sys::packet;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use uroce_engine::counters::Counters;
use uroce_engine::qp::State;
use uroce_engine::timer::Time;
use uroce_engine::work::{Completion, CompletionOpcode, Status};

/// The objects of a queue pair, besides its number.
pub struct RawQpParams {
    /// The process's node.
    pub node: Arc<Node>,
    /// The device's port.
    pub port: Arc<Port>,
    /// Where asynchronous events are reported.
    pub events: Arc<Records>,
    /// Its name there.
    pub token: Token,
    /// Protection domain.
    pub pd: PdId,
    /// Queue for completions of send requests.
    pub send_cq: Arc<Cq>,
    /// Queue for completions of receive requests.
    pub recv_cq: Arc<Cq>,
    /// Shared receive queue.
    pub srq: Option<Arc<Srq>>,
    /// Sizes.
    pub cap: ibv_qp_cap,
    /// Every send request is signalled.
    pub sq_sig_all: bool,
}

/// A queue pair that sends and receives frames.
pub struct RawQp {
    /// The number.
    pub number: u32,
    params: RawQpParams,
    intake: Intake,
    socket: OwnedFd,
    inner: Mutex<QueueState>,
}

struct QueueState {
    state: State,
    sends: VecDeque<Sending>,
    /// When to try again, after the socket had no room.
    again: Option<Time>,
    /// Memory to gather frames in.
    room: Vec<u8>,
    /// Frames and their bytes.
    counters: Counters,
}

fn size(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// How long a full socket is left alone, in nanoseconds.
const PATIENCE: u64 = 200_000;

/// A socket that frames of an interface are sent by.
fn socket(interface: u32) -> Result<OwnedFd> {
    let socket = packet::open(interface, false)?;
    if !packet::hardware(socket.as_fd())?.ethernet {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(socket)
}

/// Whether this process may have queue pairs of raw packets on an interface.
///
/// # Errors
/// EPERM without `CAP_NET_RAW`; EOPNOTSUPP for an interface without Ethernet frames; ENODEV for a
/// removed one.
pub fn check_rights(interface: u32) -> Result<()> {
    socket(interface).map(drop)
}

impl RawQp {
    /// Makes one on the port's interface, in RESET.
    ///
    /// # Errors
    /// As for [`check_rights`]; ENOMEM if there are no numbers left.
    pub fn create(params: RawQpParams) -> Result<Arc<Self>> {
        let socket = socket(params.port.interface())?;
        let node = Arc::clone(&params.node);
        let mut made = None;
        node.attach(|number| {
            let qp = Arc::new(Self::new(number, params, socket));
            made = Some(Arc::clone(&qp));
            Ok(qp)
        })?;
        made.ok_or(Errno::NOMEM)
    }

    fn new(number: u32, params: RawQpParams, socket: OwnedFd) -> Self {
        let requests = match &params.srq {
            Some(srq) => Requests::Shared(Arc::clone(srq)),
            None => {
                let cap = &params.cap;
                Requests::Own(ReceiveQueue::new(cap.max_recv_wr, cap.max_recv_sge))
            }
        };
        let keys = params.node.keys();
        Self {
            number,
            intake: Intake::new(number, params.pd, requests, &params.recv_cq, keys),
            socket,
            params,
            inner: Mutex::new(QueueState {
                state: State::Reset,
                sends: VecDeque::new(),
                again: None,
                room: Vec::new(),
                counters: Counters::default(),
            }),
        }
    }

    /// ibv_modify_qp(3); returns the state after it.
    ///
    /// # Errors
    /// EINVAL for a transition, attribute or value that there is not.
    pub fn modify(&self, attr: &ibv_qp_attr, mask: u32) -> Result<ibv_qp_state> {
        let asked = match mask & IBV_QP_STATE {
            0 => None,
            _ => Some(attributes::state(attr.qp_state)?),
        };
        let mut inner = self.inner.lock();
        let state = states::next(inner.state, asked, attr, mask)?;
        match state {
            State::Reset => self.clear(&mut inner),
            State::Error => self.fail(&mut inner),
            _ => inner.state = state,
        }
        drop(inner);
        self.params.node.post(self.number);
        Ok(attributes::qp_state(state))
    }

    /// ibv_query_qp(3).
    pub fn query(&self, attr: &mut ibv_qp_attr) {
        let inner = self.inner.lock();
        attr.qp_state = attributes::qp_state(inner.state);
        attr.cur_qp_state = attr.qp_state;
        attr.sq_draining = 0;
        attr.cap = self.params.cap;
        attr.port_num = match inner.state {
            State::Reset => 0,
            _ => crate::device::NUMBER,
        };
    }

    /// ibv_post_send(3): posts requests until one is refused; posted requests are sent.
    ///
    /// # Errors
    /// EINVAL for a request that is wrong, or not in this state; ENOMEM if the queue is full.
    pub fn post_send<P: Objects>(
        &self,
        requests: &mut dyn Iterator<Item = SendRequest<'_, P>>,
    ) -> Result<()> {
        let mut taken = Ok(());
        let mut inner = self.inner.lock();
        for given in requests {
            taken = self.sending(&inner, &given).map(|sending| {
                self.enqueue(&mut inner, sending);
            });
            if taken.is_err() {
                break;
            }
        }
        drop(inner);
        self.params.node.post(self.number);
        taken
    }

    /// ibv_wr_complete(3): takes all requests or, after an error, none.
    ///
    /// # Errors
    /// As for [`Self::post_send`].
    pub fn post_send_all<P: Objects>(
        &self,
        requests: &mut dyn ExactSizeIterator<Item = SendRequest<'_, P>>,
    ) -> Result<()> {
        let mut inner = self.inner.lock();
        if requests.len() > self.room(&inner) {
            return Err(Errno::NOMEM);
        }
        let sendings = requests
            .map(|given| self.sending(&inner, &given))
            .collect::<Result<Vec<_>>>()?;
        for sending in sendings {
            self.enqueue(&mut inner, sending);
        }
        drop(inner);
        self.params.node.post(self.number);
        Ok(())
    }

    fn room(&self, inner: &QueueState) -> usize {
        let most = usize::try_from(self.params.cap.max_send_wr).unwrap_or(usize::MAX);
        most.saturating_sub(inner.sends.len())
    }

    fn sending<P: Objects>(
        &self,
        inner: &QueueState,
        given: &SendRequest<'_, P>,
    ) -> Result<Sending> {
        if matches!(inner.state, State::Reset | State::Init | State::Rtr) {
            return Err(Errno::INVAL);
        }
        let sending = Sending::new(given, &self.params.cap, self.params.sq_sig_all)?;
        if self.room(inner) == 0 {
            return Err(Errno::NOMEM);
        }
        Ok(sending)
    }

    fn enqueue(&self, inner: &mut QueueState, sending: Sending) {
        inner.sends.push_back(sending);
        if matches!(inner.state, State::Error | State::Sqe) {
            self.flush_sends(inner);
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
        let inner = self.inner.lock();
        if inner.state == State::Reset || self.intake.is_shared() {
            // The first is the one that is refused.
            return requests.next().map_or(Ok(()), |_| Err(Errno::INVAL));
        }
        let taken = self.intake.post(requests);
        if inner.state == State::Error {
            self.intake.flush();
        }
        taken
    }

    /// A frame that a rule leads here.
    pub fn receive(&self, frame: &[u8]) {
        let mut inner = self.inner.lock();
        if matches!(inner.state, State::Reset | State::Init | State::Error) {
            return;
        }
        let counters = &mut inner.counters;
        counters.packets_received += 1;
        match self.intake.take(frame) {
            Taken::Received => counters.bytes_received += size(frame.len()),
            Taken::Dropped => counters.dropped += 1,
            Taken::Failed => {
                counters.errors += 1;
                self.fatal(&mut inner);
            }
        }
    }

    /// Out of service: nothing arrives or leaves any more. Returns how many events were reported.
    pub fn end(&self) -> u32 {
        self.clear(&mut self.inner.lock());
        self.params.node.detach(self.number);
        self.params.events.take_back(self.params.token)
    }

    fn clear(&self, inner: &mut QueueState) {
        inner.state = State::Reset;
        inner.sends.clear();
        inner.again = None;
        self.intake.clear();
        self.params.send_cq.forget(self.number);
    }

    fn fail(&self, inner: &mut QueueState) {
        let again = std::mem::replace(&mut inner.state, State::Error) == State::Error;
        inner.again = None;
        self.flush_sends(inner);
        self.intake.flush();
        if self.intake.is_shared() && !again {
            self.report(IBV_EVENT_QP_LAST_WQE_REACHED);
        }
    }

    fn fatal(&self, inner: &mut QueueState) {
        self.fail(inner);
        self.report(IBV_EVENT_QP_FATAL);
    }

    fn report(&self, event: ibv_event_type) {
        self.params.events.asynchronous(event, self.params.token);
    }

    fn flush_sends(&self, inner: &mut QueueState) {
        for sending in inner.sends.drain(..) {
            self.complete(sending.id, Status::WrFlush);
        }
    }

    fn complete(&self, id: u64, status: Status) -> bool {
        let completion = Completion::new(id, status, CompletionOpcode::Send);
        self.params
            .send_cq
            .push(Entry::new(completion, self.number))
    }

    /// Sends pending frames, as far as the socket accepts them.
    fn pump(&self, inner: &mut QueueState, now: Time) {
        inner.again = None;
        while inner.state == State::Rts {
            let Some(sending) = inner.sends.front() else {
                return;
            };
            let (keys, pd) = (self.params.node.keys(), self.params.pd);
            let outcome = sending.send(self.socket.as_fd(), keys, pd, &mut inner.room);
            let (id, signaled, length) = (sending.id, sending.signaled, sending.length());
            let reported = match outcome {
                Outcome::Full => {
                    inner.again = Some(now.plus(PATIENCE));
                    return;
                }
                Outcome::Sent => !signaled || self.complete(id, Status::Success),
                Outcome::Failed(status) => self.complete(id, status),
            };
            inner.sends.pop_front();
            if outcome == Outcome::Sent {
                inner.counters.packets_sent += 1;
                inner.counters.bytes_sent += size(length);
            } else {
                inner.counters.errors += 1;
            }
            if !reported {
                self.fatal(inner);
            } else if outcome != Outcome::Sent {
                // As with datagrams, receiving continues.
                inner.state = State::Sqe;
                self.flush_sends(inner);
            }
        }
    }
}

/// The node gives it its number, and calls it to send. RoCE packets for that number are dropped.
impl Endpoint for RawQp {
    fn receive(&self, _: Time, _: &Incoming<'_>, _: Caller) -> bool {
        false
    }

    fn transmit(&self, now: Time, _: &mut Sender<'_>, _: Caller) {
        self.pump(&mut self.inner.lock(), now);
    }

    fn on_time(&self, now: Time) {
        self.pump(&mut self.inner.lock(), now);
    }

    fn deadline(&self) -> Option<Time> {
        self.inner.lock().again
    }

    fn account(&self) -> Option<Account> {
        let inner = self.inner.lock();
        Some(Account {
            kind: "RAW_PACKET",
            state: attributes::name_of_state(inner.state),
            device: self.params.port.name().to_owned(),
            peer: None,
            counters: inner.counters,
        })
    }
}
