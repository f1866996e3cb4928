//! A responder between two messages, so that another engine can continue: the processes of an XRC
//! domain take turns at one queue pair.

use std::collections::VecDeque;

use super::{Reply, Resource, Resources, Responder};
use crate::host::{Host, RemoteRange};
use crate::psn::Psn;
use crate::wire::Operation;

/// A request that must not be carried out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Where it was.
    pub psn: Psn,
    /// The operation.
    pub operation: Operation,
    /// The original value of an atomic operation; `None` for a request answered without data.
    pub found: Option<u64>,
}

/// All that a responder knows when no message is half received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// The next PSN.
    pub expected: Psn,
    /// Messages that were carried out.
    pub msn: Psn,
    /// A negative acknowledgement was sent, and the requested packet has not arrived.
    pub nak_sent: bool,
    /// The latest requests that must not be carried out twice, oldest first.
    pub answered: Vec<Answered>,
}

impl Responder {
    /// The PSN that a new request has.
    pub(crate) fn expected(&self) -> Psn {
        self.expected
    }

    /// The state that another engine needs.
    pub(crate) fn rest(&self) -> Rest {
        let answered = |resource: &Resource| Answered {
            psn: resource.psn,
            operation: resource.operation,
            found: match resource.reply {
                Reply::Atomic { original, .. } => Some(original),
                _ => None,
            },
        };
        Rest {
            expected: self.expected,
            msn: self.msn,
            nak_sent: self.nak_sent,
            answered: self.resources().map(answered).collect(),
        }
    }

    /// Continues from another engine's state.
    pub(crate) fn resume(rest: &Rest) -> Self {
        let resource = |answered: &Answered| {
            let psn = answered.psn;
            let nothing = RemoteRange {
                rkey: 0,
                address: 0,
                length: 0,
            };
            let reply = match answered.found {
                Some(original) => Reply::Atomic { psn, original },
                None => Reply::Data {
                    psn,
                    range: nothing,
                    sent: 0,
                    packets: 1,
                },
            };
            Resource {
                psn,
                operation: answered.operation,
                reply,
            }
        };
        let known: VecDeque<Resource> = rest.answered.iter().map(resource).collect();
        let resources = (!known.is_empty()).then(|| Box::new(Resources(known)));
        Self {
            expected: rest.expected,
            msn: rest.msn,
            nak_sent: rest.nak_sent,
            resources,
            ..Self::default()
        }
    }

    /// Drops a message that is half received, and pending answers.
    pub(crate) fn abandon(&mut self, host: &mut impl Host) {
        self.flush(false, host);
        self.delay.end();
        self.replies.clear();
    }
}
