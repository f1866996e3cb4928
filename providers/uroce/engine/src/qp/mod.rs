//! A queue pair: requester, completer and responder under one state.

mod attributes;
mod error;
mod fast_path;
mod flow;
mod migration;
mod modify;
mod state;
pub mod table;

pub use crate::responder::{Answered, Rest};
pub use attributes::{Access, Attributes, Modify, Mtu};
pub use flow::Arrival;
pub use state::{Service, State};
pub use table::Mask;

use crate::counters::Counters;
use crate::host::Host;
use crate::requester::Requester;
use crate::responder::Responder;
use crate::timer::Time;
use crate::work::{Data, Request, WorkRequest};

/// Constants of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The service.
    pub service: Service,
    /// The number, 24 bits.
    pub number: u32,
    /// `max_send_wr`: requests posted and not completed.
    pub max_send_wr: usize,
    /// `sq_sig_all`: every request completes with a completion.
    pub sq_sig_all: bool,
    /// Whether receive requests come from a shared queue (always so for XRC).
    pub shared_receives: bool,
    /// The port's MTU: that of datagrams, and the most that `path_mtu` may be.
    pub port_mtu: Mtu,
    /// The most request packets in flight to a peer that does not report missing packets.
    pub max_in_flight: u32,
}

/// Why a call was refused, as the errno that its man page names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// EINVAL: not in this state, not with this service, a value out of range.
    Invalid,
    /// ENOMEM: the queue is full.
    Full,
}

/// A queue pair. The crate's documentation describes the order of calls.
#[derive(Debug)]
pub struct QueuePair {
    config: Config,
    state: State,
    attributes: Attributes,
    requester: Requester,
    responder: Responder,
    counters: Counters,
    /// The connection has been used (IBV_EVENT_COMM_EST was reported).
    established: bool,
    /// SQD was entered, and its end has not been reported.
    draining: bool,
    /// No request begins.
    pausing: bool,
    /// Short requests may wait for others.
    batching: bool,
    /// Requests have the next turn to send.
    requests_turn: bool,
    /// Peers may have credits: their messages on the fast path count as received.
    keeps_receives: bool,
}

impl QueuePair {
    /// A queue pair in RESET.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            requester: Requester::new(config.max_in_flight),
            config,
            state: State::Reset,
            attributes: Attributes::of_port(config.port_mtu),
            responder: Responder::default(),
            counters: Counters::default(),
            established: false,
            draining: false,
            pausing: false,
            batching: false,
            requests_turn: false,
            keeps_receives: false,
        }
    }

    /// The parameters that it was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The values in force.
    #[must_use]
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether the peer's first request is still to be reported as an event.
    #[must_use]
    pub fn awaits_use(&self) -> bool {
        self.state == State::Rtr && !self.established
    }

    /// Send requests posted and not completed.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.requester.outstanding()
    }

    /// `sq_draining` of ibv_query_qp(3): in SQD, and requests that began are not finished.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.state == State::Sqd && !self.requester.is_drained()
    }

    /// Whether requests that have not begun wait until the next call, for a host that changes the
    /// path of packets, on which they would overtake those in flight. A few may still begin, up to
    /// one whose packet requests an acknowledgement.
    pub fn pause(&mut self, pauses: bool) {
        self.pausing = pauses;
    }

    /// Whether every request that began is finished: no packet is under way that may be answered.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.requester.is_drained()
    }

    /// Whether the peer may have received everything and its acknowledgement may be in flight: no
    /// timeout, gap or RNR NAK has shown otherwise.
    #[must_use]
    pub fn expects_answers(&self) -> bool {
        let reliable = matches!(self.config.service, Service::Rc | Service::XrcInitiator);
        reliable
            && matches!(self.state, State::Rts | State::Sqd)
            && self.requester.expects_answers()
    }

    /// Whether short requests may wait for others and leave together with them: worth it where a
    /// call that sends costs more than a packet. Then [`QueuePair::may_batch`] says which, and the
    /// window has no smaller limit for short messages.
    pub fn batch_requests(&mut self, wanted: bool) {
        self.batching = wanted;
    }

    /// Whether the host may leave the requests posted last to a later call of
    /// [`QueuePair::transmit`], so that they leave together with others: short messages, behind
    /// packets whose acknowledgement is on its way, and fewer than a batch. The host transmits
    /// after that acknowledgement, as after every packet, and has to bound the wait otherwise.
    #[inline]
    #[must_use]
    pub fn may_batch(&self) -> bool {
        self.batching
            && self.state == State::Rts
            && self.config.service.reliable()
            && self.requester.may_batch()
    }

    /// When [`QueuePair::on_time`] is to be called, whatever else happens.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        Time::earliest([self.requester.deadline(), self.responder.deadline()])
    }

    /// Whether acknowledgements may wait a moment for a request to go with, where the two sides
    /// take turns: worth it where a packet costs more than its bytes.
    pub fn delay_acknowledgements(&mut self, wanted: bool) {
        self.responder.delay(wanted);
    }

    /// An acknowledgement that waits for a request does so no longer. Returns whether one did; then
    /// there is something to transmit.
    pub fn hurry(&mut self) -> bool {
        self.responder.hurry()
    }

    /// Posts a send request. In ERR and SQE it completes at once, as flushed.
    ///
    /// # Errors
    /// [`Refused::Invalid`] in RESET, INIT and RTR, for a request that the service does not have, a
    /// datagram without destination or longer than the MTU, data of more than
    /// [`crate::work::MAX_MESSAGE`] bytes, inline data or too little room for a response, a
    /// misshapen flush; [`Refused::Full`] if `max_send_wr` requests are under way.
    pub fn post_send(&mut self, wr: WorkRequest, host: &mut impl Host) -> Result<(), Refused> {
        let length = self.check_post(&wr)?;
        if self.room() == 0 {
            return Err(Refused::Full);
        }
        self.requester.post(wr, length, &self.attributes);
        if matches!(self.state, State::Error | State::Sqe) {
            self.requester.flush(host);
        }
        Ok(())
    }

    /// Whether [`QueuePair::post_send`] would take the request, if there is room.
    ///
    /// # Errors
    /// As for [`QueuePair::post_send`], but for [`Refused::Full`].
    pub fn may_post(&self, wr: &WorkRequest) -> Result<(), Refused> {
        self.check_post(wr).map(|_| ())
    }

    /// How many more send requests there is room for.
    #[must_use]
    pub fn room(&self) -> usize {
        let posted = self.requester.outstanding();
        self.config.max_send_wr.saturating_sub(posted)
    }

    fn check_post(&self, wr: &WorkRequest) -> Result<u32, Refused> {
        if matches!(self.state, State::Reset | State::Init | State::Rtr) {
            return Err(Refused::Invalid);
        }
        self.check_request(wr).ok_or(Refused::Invalid)
    }

    /// Notes that receive requests were posted, so that in ERR they are flushed and a peer without
    /// credits learns of them. Whether they may be posted is [`QueuePair::may_post_receive`].
    pub fn receives_posted(&mut self, host: &mut impl Host) {
        if self.state == State::Error {
            self.flush_receives(host);
        } else if self.state.receives() && self.config.service == Service::Rc {
            self.responder.receives_posted(host);
        }
    }

    /// Whether [`QueuePair::receives_posted`] has anything to do.
    #[must_use]
    pub fn minds_receives(&self) -> bool {
        self.state == State::Error || self.responder.is_starved()
    }

    /// Whether receive requests may be posted: in every state but RESET.
    #[must_use]
    pub fn may_post_receive(&self) -> bool {
        self.state != State::Reset
    }

    fn owns_receives(&self) -> bool {
        !self.config.shared_receives && self.config.service != Service::XrcTarget
    }

    /// The length of a request's message, if the request can be carried out at all.
    fn check_request(&self, wr: &WorkRequest) -> Option<u32> {
        let service = self.config.service;
        let length = wr.data.length()?;
        let connected = service.reliable() && service.requests();
        let unreliable = matches!(
            wr.request,
            Request::Send
                | Request::SendImm(_)
                | Request::Write(_)
                | Request::WriteImm(..)
                | Request::Bind(_)
                | Request::LocalInvalidate(_)
        );
        let known = match service {
            Service::Ud => matches!(wr.request, Request::Send | Request::SendImm(_)),
            Service::Uc => unreliable,
            _ => connected,
        };
        let addressed = (service == Service::Ud) == wr.destination.is_some();
        if !known || !addressed {
            return None;
        }
        if service == Service::Ud && length > self.attributes.path_mtu.bytes() {
            return None;
        }
        check_response(wr, length)?;
        Some(match wr.request {
            Request::AtomicWrite(..) => 8,
            Request::Flush { .. } | Request::Bind(_) | Request::LocalInvalidate(_) => 0,
            _ => length,
        })
    }
}

fn check_response(wr: &WorkRequest, length: u32) -> Option<()> {
    let inline = matches!(wr.data, Data::Inline(_));
    let fits = match &wr.request {
        Request::Read(_) => !inline,
        Request::CompareSwap { .. } | Request::FetchAdd { .. } => !inline && length == 8,
        Request::Flush {
            placement,
            selectivity,
            ..
        } => {
            use crate::wire::feth;
            let known = feth::GLOBAL | feth::PERSISTENT;
            *placement != 0 && placement & !known == 0 && *selectivity <= feth::REGION
        }
        _ => true,
    };
    fits.then_some(())
}
