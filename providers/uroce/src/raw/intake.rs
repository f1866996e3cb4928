//! The receiving half of a queue pair or a work queue: frames into receive requests.

use super::checksum;
use crate::cq::{Cq, Entry};
use crate::memory::{AccessMode, Keys, PdId};
use crate::receive::{ReceiveQueue, Srq};
use kit::errno::{Errno, Result};
use kit::provider::ReceiveRequest;
use kit::sync::Mutex;
use std::sync::Arc;
use uroce_engine::work::{Completion, CompletionOpcode, Receive, Status};

/// Where receive requests come from.
pub enum Requests {
    /// Its own queue.
    Own(ReceiveQueue),
    /// A shared one.
    Shared(Arc<Srq>),
}

/// The outcome of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the memory of a request.
    Received,
    /// There was no request, or none that it fits into; that one waits for another frame.
    Dropped,
    /// The request's memory may not be written, or its completion has no room.
    Failed,
}

/// The receiving half.
pub struct Intake {
    /// `qp_num` of completions.
    pub number: u32,
    pd: PdId,
    requests: Requests,
    /// A request that a frame did not fit into.
    held: Mutex<Option<Receive>>,
    cq: Arc<Cq>,
    keys: Arc<Keys>,
}

impl Intake {
    /// One of that number, with memory by the keys of the domain.
    pub fn new(number: u32, pd: PdId, requests: Requests, cq: &Arc<Cq>, keys: &Arc<Keys>) -> Self {
        let pd = match &requests {
            Requests::Own(_) => pd,
            Requests::Shared(srq) => srq.pd(),
        };
        Self {
            number,
            pd,
            requests,
            held: Mutex::default(),
            cq: Arc::clone(cq),
            keys: Arc::clone(keys),
        }
    }

    /// Whether requests come from a shared queue.
    pub fn is_shared(&self) -> bool {
        matches!(self.requests, Requests::Shared(_))
    }

    /// ibv_post_recv(3).
    ///
    /// # Errors
    /// EINVAL with a shared queue and for too many pieces; ENOMEM if the queue is full.
    pub fn post<'a>(&self, requests: &mut impl Iterator<Item = ReceiveRequest<'a>>) -> Result<()> {
        match &self.requests {
            Requests::Own(queue) => queue.post(requests),
            Requests::Shared(_) => Err(Errno::INVAL),
        }
    }

    fn next(&self) -> Option<Receive> {
        match &self.requests {
            Requests::Own(queue) => queue.take(),
            Requests::Shared(srq) => srq.take(),
        }
    }

    /// Takes a frame in.
    pub fn take(&self, frame: &[u8]) -> Outcome {
        let mut held = self.held.lock();
        let Some(receive) = held.take().or_else(|| self.next()) else {
            return Outcome::Dropped;
        };
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        if u64::from(length) > receive.room() {
            *held = Some(receive);
            return Outcome::Dropped;
        }
        // The progress thread does it.
        let memory = self.keys.using(AccessMode::Faultable);
        let written = memory.scatter(self.pd, &receive.sges, 0, frame);
        let status = match written {
            Ok(()) => Status::Success,
            Err(_) => Status::LocProt,
        };
        let checked = status == Status::Success && checksum::is_right(frame);
        let reported = self.report(receive.id, status, length, checked);
        if reported && status == Status::Success {
            return Outcome::Received;
        }
        Outcome::Failed
    }

    fn report(&self, id: u64, status: Status, length: u32, checked: bool) -> bool {
        let mut completion = Completion::new(id, status, CompletionOpcode::Receive);
        completion.length = length;
        let mut entry = Entry::new(completion, self.number);
        entry.checked = checked;
        self.cq.push(entry)
    }

    /// Ends all requests of this queue.
    pub fn flush(&self) {
        let mut held = self.held.lock();
        let mut next = || {
            let own = || match &self.requests {
                Requests::Own(queue) => queue.take(),
                Requests::Shared(_) => None,
            };
            held.take().or_else(own)
        };
        while let Some(receive) = next() {
            self.report(receive.id, Status::WrFlush, 0, false);
        }
    }

    /// Drops all requests of this queue, and completions that were not polled.
    pub fn clear(&self) {
        *self.held.lock() = None;
        if let Requests::Own(queue) = &self.requests {
            queue.clear();
        }
        self.cq.forget(self.number);
    }
}
