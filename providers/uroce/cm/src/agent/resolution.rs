//! Service id resolution: how the side that asks learns the datagram queue pair of a service.

use super::event::{Effects, Event};
use crate::{
    times::{Times, milliseconds},
    wire::{Mad, SidrRep, SidrReq},
};

/// The side that asks.
#[derive(Debug)]
pub struct Asking {
    mad: Mad,
    interval: u64,
    retries_left: u8,
    deadline: u64,
}

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
        effects.send(mad);
        let interval = milliseconds(times.response);
        Self {
            mad,
            interval,
            retries_left: times.retries,
            deadline: now.saturating_add(interval),
        }
    }

    /// When [`Asking::on_time`] is to be called.
    pub fn deadline(&self) -> u64 {
        self.deadline
    }

    /// There was no answer in time. Returns whether to continue.
    pub fn on_time(&mut self, now: u64, effects: &mut Effects) -> bool {
        let Some(left) = self.retries_left.checked_sub(1) else {
            effects.report(Event::Unreachable);
            return false;
        };
        self.retries_left = left;
        self.deadline = now.saturating_add(self.interval);
        effects.send(self.mad);
        true
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
    request_id: u32,
    service: u64,
}

impl Answering {
    pub fn new(transaction: u64, request: &SidrReq) -> Self {
        Self {
            transaction,
            request_id: request.request_id,
            service: request.service_id,
        }
    }

    /// By which the request is known again.
    pub fn request_id(&self) -> u32 {
        self.request_id
    }

    pub fn answer(&self, answer: &Answer) -> Mad {
        let rep = SidrRep {
            request_id: self.request_id,
            status: answer.status,
            qpn: answer.qpn,
            service_id: self.service,
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
