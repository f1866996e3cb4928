//! Service id resolution: how the side that asks learns the datagram queue pair of a service.

use super::event::{Effects, Event};
use super::repetition::{Repeated, Repetition};
use std::collections::VecDeque;

use crate::{
    times::{Times, milliseconds},
    wire::{Mad, SidrRep, SidrReq},
};

/// The side that asks.
#[derive(Debug)]
pub struct Asking(Repetition);

impl Asking {
    /// Sends a request, which is repeated until it is answered.
    pub fn new(
        id: u32,
        request: &SidrReq,
        agent: u32,
        times: Times,
        now: u64,
        effects: &mut Effects,
    ) -> Self {
        let message = SidrReq {
            request_id: id,
            ..*request
        };
        let mad = Mad {
            transaction: u64::from(agent) << 32 | u64::from(id.swap_bytes()),
            modifier: 0,
            message: message.into(),
        };
        let interval = milliseconds(times.response);
        Self(Repetition::begin(
            mad,
            interval,
            times.retries,
            now,
            effects,
        ))
    }

    /// When [`Asking::on_time`] is to be called.
    pub fn deadline(&self) -> u64 {
        self.0.deadline()
    }

    /// There was no answer in time. Returns whether to continue.
    pub fn on_time(&mut self, now: u64, effects: &mut Effects) -> bool {
        if self.0.on_time(now, effects) != Repeated::No {
            return true;
        }
        effects.report(Event::Unreachable);
        false
    }
}

/// The answer of the program on the other side.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// 0, or why there is no queue pair.
    pub status: u8,
    /// The queue pair.
    pub qpn: u32,
    /// Its Q_Key.
    pub q_key: u32,
    /// Enhanced connection options.
    pub options: u32,
    /// The program's data.
    pub private_data: [u8; 136],
}

impl Answer {
    /// A refusal of the program.
    #[must_use]
    pub fn rejected() -> Self {
        const REJECTED: u8 = 2;
        Self {
            status: REJECTED,
            qpn: 0,
            q_key: 0,
            options: 0,
            private_data: [0; 136],
        }
    }
}

/// The side that is asked, until its program has answered.
#[derive(Debug)]
pub struct Answering {
    transaction: u64,
    request: SidrReq,
}

impl Answering {
    pub fn new(transaction: u64, request: &SidrReq) -> Self {
        Self {
            transaction,
            request: *request,
        }
    }

    /// By which the request is known again.
    pub fn request_id(&self) -> u32 {
        self.request.request_id
    }

    pub fn answer(&self, answer: &Answer) -> Mad {
        let rep = SidrRep {
            request_id: self.request.request_id,
            status: answer.status,
            qpn: answer.qpn,
            service_id: self.request.service_id,
            q_key: answer.q_key,
            private_data: answer.private_data,
            ..SidrRep::default()
        };
        Mad {
            transaction: self.transaction,
            modifier: answer.options,
            message: rep.into(),
        }
    }
}

/// How long an answer is kept, in milliseconds: longer than the sender of the request waits until
/// it repeats the request.
const KEPT: u64 = 10_000;
/// Answers that are kept at most.
const MOST: usize = 64;

/// An answer that was sent.
#[derive(Debug)]
struct Sent<P> {
    to: P,
    request: SidrReq,
    /// It has the transaction of the request.
    answer: Mad,
    until: u64,
}

/// The last answers, the oldest first. A request that comes again, because its answer was lost or
/// late, gets the same answer; the program does not see a second request.
#[derive(Debug)]
pub struct Answers<P>(VecDeque<Sent<P>>);

impl<P> Default for Answers<P> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<P: Copy + Eq> Answers<P> {
    /// Keeps the answer to a request.
    pub fn keep(&mut self, to: P, asked: &Answering, answer: Mad, now: u64) {
        self.forget_old(now);
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(Sent {
            to,
            request: asked.request,
            answer,
            until: now.saturating_add(KEPT),
        });
    }

    /// The answer to a request that was answered before.
    pub fn to(&mut self, from: P, mad: &Mad, request: &SidrReq, now: u64) -> Option<Mad> {
        self.forget_old(now);
        let of_it = |sent: &&Sent<P>| {
            sent.to == from
                && sent.answer.transaction == mad.transaction
                && sent.request == *request
        };
        Some(self.0.iter().find(of_it)?.answer)
    }

    fn forget_old(&mut self, now: u64) {
        while self.0.front().is_some_and(|sent| sent.until <= now) {
            self.0.pop_front();
        }
    }
}
