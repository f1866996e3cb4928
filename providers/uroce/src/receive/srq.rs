//! Shared receive queues.

use super::queue::{ReceiveQueue, Taking};
use crate::carrier::qpn::INDEX_BITS;
use crate::channel::Records;
use crate::cq::Cq;
use crate::memory::PdId;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{ReceiveRequest, Token};
use kit::sync::Mutex;
use kit::sys::{first::First, forks, lock::Lock};
use std::collections::HashSet;
use std::sync::Arc;
use uroce_engine::work::Receive;

/// Where shared receive queues are found by number: an XRC domain.
pub trait Domain: Send + Sync {
    /// Makes a queue known by its number.
    fn add_srq(&self, number: u32, srq: &Arc<Srq>);
    /// Forgets a queue.
    fn remove_srq(&self, number: u32);
}

/// A shared receive queue.
pub struct Srq {
    token: Token,
    pd: PdId,
    number: Number,
    queue: ReceiveQueue,
    events: Arc<Records>,
    cq: Option<Arc<Cq>>,
    domain: Mutex<Option<Arc<dyn Domain>>>,
}

impl Srq {
    /// A queue of the sizes in `attr`; the limit there does not count (ibv_create_srq(3)). Events
    /// go to `events`. With `cq`, it is one for XRC. With `slot`, its number begins with that.
    ///
    /// # Errors
    /// ENOMEM if there are 2^24 already, or with `slot` 2^14.
    pub fn new(
        token: Token,
        pd: PdId,
        attr: &ibv_srq_attr,
        events: Arc<Records>,
        cq: Option<Arc<Cq>>,
        slot: Option<u16>,
    ) -> Result<Self> {
        Ok(Self {
            token,
            pd,
            number: Number::take(slot)?,
            queue: ReceiveQueue::new(attr.max_wr, attr.max_sge),
            events,
            cq,
            domain: Mutex::default(),
        })
    }

    /// Its number, of 24 bits.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number.0
    }

    /// The protection domain of its requests.
    #[must_use]
    pub fn pd(&self) -> PdId {
        self.pd
    }

    /// XRC: the queue for completions of its requests.
    #[must_use]
    pub fn cq(&self) -> Option<&Arc<Cq>> {
        self.cq.as_ref()
    }

    /// Makes it known in its XRC domain.
    pub fn enter<D: Domain + 'static>(self: &Arc<Self>, domain: &Arc<D>) {
        domain.add_srq(self.number(), self);
        let domain: Arc<dyn Domain> = Arc::<D>::clone(domain);
        *self.domain.lock() = Some(domain);
    }

    /// The queue goes: forgets it in its XRC domain; returns how many of its events the application
    /// was handed.
    pub fn leave(&self) -> u32 {
        if let Some(domain) = self.domain.lock().take() {
            domain.remove_srq(self.number());
        }
        self.events.take_back(self.token)
    }

    /// ibv_post_srq_recv(3): takes requests in until one is refused.
    ///
    /// # Errors
    /// EINVAL for too many pieces; ENOMEM if the queue is full, or there is no memory.
    pub fn post<'a>(&self, requests: &mut impl Iterator<Item = ReceiveRequest<'a>>) -> Result<()> {
        self.queue.post(requests)
    }

    /// Takes the next request out. `IBV_EVENT_SRQ_LIMIT_REACHED` is reported once when fewer than
    /// the limit are left.
    pub fn take(&self) -> Option<Receive> {
        let taken = self.queue.take_limited();
        self.report(taken.at_limit);
        taken.receive
    }

    /// To take requests out for messages that come together.
    #[must_use]
    pub fn taking(&self) -> SrqTaking<'_> {
        SrqTaking {
            srq: self,
            locked: None,
        }
    }

    fn report(&self, at_limit: bool) {
        if at_limit {
            let event = IBV_EVENT_SRQ_LIMIT_REACHED;
            self.events.asynchronous(event, self.token);
        }
    }

    /// How many requests there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// ibv_modify_srq(3). A limit that is above the number of requests is reached at once, so that
    /// the program does not wait for an event that it has missed.
    ///
    /// # Errors
    /// EINVAL for a size of 0 or under the number of requests, a limit above the size, bits of the
    /// mask that there are not. Then nothing has changed.
    pub fn modify(&self, attr: &ibv_srq_attr, mask: u32) -> Result<()> {
        if mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
            return Err(Errno::INVAL);
        }
        let max_wr = (mask & IBV_SRQ_MAX_WR != 0).then_some(attr.max_wr);
        let limit = (mask & IBV_SRQ_LIMIT != 0).then_some(attr.srq_limit);
        let at_limit = self.queue.modify(max_wr, limit)?;
        self.report(at_limit);
        Ok(())
    }

    /// ibv_query_srq(3): the limit is 0 once it was reached.
    #[must_use]
    pub fn query(&self) -> ibv_srq_attr {
        let (max_wr, max_sge, srq_limit) = self.queue.sizes();
        ibv_srq_attr {
            max_wr,
            max_sge,
            srq_limit,
        }
    }
}

/// Requests that are taken out for messages that come together. The queue is locked once for all
/// of them, from the first one on until the value is dropped. `IBV_EVENT_SRQ_LIMIT_REACHED` is
/// reported then.
pub struct SrqTaking<'q> {
    srq: &'q Srq,
    locked: Option<Taking<'q>>,
}

impl SrqTaking<'_> {
    /// Takes the next request out if `receive` returns that it has processed it. Returns its
    /// identifier.
    #[inline]
    pub fn take_with(&mut self, receive: impl FnOnce(&Receive) -> bool) -> Option<u64> {
        let queue = &self.srq.queue;
        self.locked
            .get_or_insert_with(|| queue.taking())
            .take_with(receive)
    }
}

impl SrqTaking<'_> {
    /// Others may use the queue until the next request is taken out.
    pub fn give_back(&mut self) {
        // Without the lock.
        let at_limit = self.locked.take().is_some_and(|locked| locked.at_limit);
        self.srq.report(at_limit);
    }
}

impl Drop for SrqTaking<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The numbers of this process's queues.
fn numbers() -> &'static Lock<Numbers> {
    static NUMBERS: First<Lock<Numbers>> = First::new();
    NUMBERS.get_or_make(Lock::default)
}

#[derive(Default)]
struct Numbers {
    used: HashSet<u32>,
    latest: u32,
}

/// The significant bits of a number: all of them, or those after a slot.
fn mask(slot: Option<u16>) -> u32 {
    match slot {
        None => (1 << 24) - 1,
        Some(_) => (1 << INDEX_BITS) - 1,
    }
}

/// A number that no other queue of the process has.
struct Number(u32);

impl Number {
    fn take(slot: Option<u16>) -> Result<Self> {
        let mask = mask(slot);
        let first = slot.map_or(0, |slot| u32::from(slot) << INDEX_BITS);
        let all = numbers();
        forks::wait_for(all)?;
        let mut numbers = all.lock();
        for _ in 0..mask {
            numbers.latest = (numbers.latest + 1) & ((1 << 24) - 1);
            let next = first | numbers.latest & mask;
            if next & mask != 0 && numbers.used.insert(next) {
                return Ok(Self(next));
            }
        }
        Err(Errno::NOMEM)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        numbers().lock().used.remove(&self.0);
    }
}
