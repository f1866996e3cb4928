//! Requests of programs, events for programs, and the effects of a step of a connection or
//! resolution.

use crate::wire::{Mad, Rej, Rep, Req, SidrRep, SidrReq};

/// Names a connection or a resolution: its communication id.
pub type Id = u32;

/// The owner of the port that a request is for, by the host's number of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It listens.
    Listens(u64),
    /// It does not listen yet, and may do so: the request waits for that.
    Bound(u64),
}

/// Parameters of an active side. The agent fills in communication ids and times.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The REQ.
    pub message: Req,
    /// Enhanced connection options.
    pub options: u32,
    /// The number in the upper half of transaction ids.
    pub agent: u32,
}

/// Parameters of a passive side. The agent fills in communication ids.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// The REP.
    pub message: Rep,
    /// Enhanced connection options.
    pub options: u32,
}

/// Why a side refuses.
#[derive(Clone, Copy, Debug)]
pub struct Reject {
    /// The reason (IBTA volume 1, 12.6.7.2); 28 is the program's.
    pub reason: u16,
    /// The program's data.
    pub private_data: [u8; 148],
}

/// An event for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // one at a time, handed on at once
pub enum Event {
    /// A REQ for a listener: the id is a new connection.
    ConnectRequest {
        /// The listener.
        listener: u64,
        /// The REQ.
        request: Req,
        /// Enhanced connection options.
        options: u32,
    },
    /// A REP: the program makes its queue pair ready, and calls
    /// [`Agent::establish`](super::Agent::establish).
    Reply {
        /// The REP.
        reply: Rep,
        /// Enhanced connection options.
        options: u32,
    },
    /// Both sides are connected.
    Established,
    /// The peer has refused, or revoked its request.
    Rejected {
        /// The REJ.
        reject: Rej,
    },
    /// There was no answer.
    Unreachable,
    /// The peer asks for the end: [`Agent::disconnect`](super::Agent::disconnect) or
    /// [`Agent::close`](super::Agent::close) answer.
    DisconnectRequest,
    /// The end that this side asked for.
    Disconnected {
        /// Whether the peer has answered.
        answered: bool,
    },
    /// No packet of the connection can be on its way any more.
    TimewaitExit,
    /// A SIDR REQ for a listener: the id is a new resolution.
    ResolutionRequest {
        /// The listener.
        listener: u64,
        /// The SIDR REQ.
        request: SidrReq,
    },
    /// The answer to a SIDR REQ.
    Resolved {
        /// The SIDR REP; its status may be a refusal.
        reply: SidrRep,
        /// Enhanced connection options.
        options: u32,
    },
}

/// Messages to send and events to report: the effects of one step. The caller adds the id and the
/// path.
#[derive(Debug, Default)]
pub struct Effects {
    pub sent: Vec<Mad>,
    pub events: Vec<Event>,
}

impl Effects {
    pub fn send(&mut self, mad: Mad) {
        self.sent.push(mad);
    }

    pub fn report(&mut self, event: Event) {
        self.events.push(event);
    }
}
