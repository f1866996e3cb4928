//! Messages that come by the fast path, and the credits that are granted for them.
//!
//! [`EagerReceiver`] owns the epoch that the peer's next message must have, the cache of the memory
//! that receive requests name, and the credit grant.
//!
//! *Invariants.* A message is put into the next receive request, or nothing has happened and it is
//! refused; what follows it in the ring is refused too, because the epoch has changed.
//!
//! *Locks.* Under the queue pair's lock: the lock of its receive queue if that is shared, a key of
//! the memory, and the ring of its completion queue. A key that is not held yet is waited for only
//! after the completion queue has been given back, so that pollers never wait for a change of a
//! key.
//!
//! *Tests.* `super::super::tests`: messages, refusals and epochs between two queue pairs.

use super::super::connection::Connection;
use super::super::resources::Resources;
use super::credit::{self, CreditGrant};
use crate::carrier::qpn;
use crate::carrier::shm::{Directory, Header, Peer};
use crate::cq::{Filling, success};
use crate::memory::{AccessMode, InvalidationListener, MrCache, Scattering};
use crate::node::Messages;
use kit::abi::*;
use kit::errno::Result;
use kit::provider::ReceiveRequest;
use std::sync::{Arc, Weak};
use uroce_engine::work::{CompletionOpcode, Receive};

/// What a queue pair receives by the fast path.
pub(super) struct EagerReceiver {
    /// The peer may use it.
    open: bool,
    /// The epoch of the peer's next message.
    expected: u32,
    /// What the local key of the latest receive requests stands for.
    cache: MrCache,
    grant: CreditGrant,
}

impl EagerReceiver {
    pub fn new(qp: &Resources, listener: Weak<dyn InvalidationListener>) -> Self {
        Self {
            open: false,
            expected: 0,
            cache: MrCache::new(qp.pd(), listener),
            grant: CreditGrant::default(),
        }
    }

    /// The queue pair has a peer. Its messages begin with the PSN that its packets begin with, so
    /// that no message of an earlier connection is taken for one of this.
    pub fn begin(&mut self, open: bool, psn: u32) {
        self.open = open;
        self.expected = psn << 8;
        self.grant.begin();
    }

    /// Nothing is received any more, as in RESET.
    pub fn reset(&mut self) {
        self.open = false;
        self.expected = 0;
        self.grant.remain(0);
    }

    /// The credit grant.
    pub fn grant(&self) -> &CreditGrant {
        &self.grant
    }

    /// So many receive requests are left: the protocol has used others.
    #[inline]
    pub fn remain(&mut self, count: usize) {
        self.grant.remain(count);
    }

    /// A key ceases to stand for its memory. Returns whether receive requests name it.
    pub fn forget(&mut self, key: u32) -> bool {
        let receives = self.cache.forget(key);
        if receives {
            self.grant.invalidate();
        }
        receives
    }

    /// ibv_post_recv(3) of a queue pair with a receive queue of its own.
    ///
    /// # Errors
    /// EINVAL for too many pieces; ENOMEM if the queue is full.
    pub fn post<'a>(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        let Some(receives) = connection.receives_mut() else {
            return Ok(());
        };
        let (grant, cache, keys) = (&mut self.grant, &mut self.cache, qp.keys());
        receives.post_alone(requests, |sges| credit::posted(grant, keys, cache, sges))
    }

    /// Shows the peer the credit, if that has changed.
    pub fn show_credit(&mut self, qp: &Resources, directory: &Directory) {
        let credit = self.grant.credit(self.expected);
        if !self.grant.shows(&credit) {
            self.grant.show(credit);
            directory
                .segment()
                .show_credit(qpn::index_of(qp.number), credit);
        }
    }

    /// Receives messages that came together.
    pub fn take(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        messages: &mut Messages<'_>,
        mode: AccessMode,
    ) {
        let mut intake = Intake::new(self.open, connection, qp, messages, mode);
        loop {
            let received = self.receive(connection, qp, &mut intake, messages);
            let more = match received {
                Some(()) => messages.accept(),
                None => {
                    if messages.header().epoch == self.expected {
                        self.expected = self.expected.wrapping_add(1);
                    }
                    messages.refuse(self.expected)
                }
            };
            if !more {
                break;
            }
        }
    }

    /// Puts a message into the next receive request. `None` if anything is not as it should be;
    /// then nothing has happened.
    #[inline(always)]
    fn receive(
        &mut self,
        connection: &mut Connection,
        qp: &Resources,
        intake: &mut Intake<'_>,
        messages: &mut Messages<'_>,
    ) -> Option<()> {
        let header = messages.header();
        if !intake.expects(self.expected, &header) {
            return None;
        }
        let length = u32::try_from(messages.length()).ok()?;
        let Intake {
            memory,
            queue,
            mode,
            ..
        } = intake;
        let cache = (*mode == AccessMode::Direct).then_some(&self.cache);
        let scatter = |receive: &Receive| {
            let Some(data) = messages.data() else {
                return false;
            };
            let received = cache.and_then(|cache| cache.receive(&receive.sges, data));
            if received.is_some() {
                return true;
            }
            if !memory.holds(&receive.sges)
                && let Some(queue) = queue
            {
                // A thread that changes that key may be waited for here, but not by pollers.
                queue.give_back();
            }
            memory.write(&receive.sges, data).is_ok()
        };
        let id = match (connection.receives_mut(), qp.srq()) {
            (Some(own), _) => own
                .take_alone_with(scatter)
                .inspect(|_| self.grant.used_one()),
            (None, Some(srq)) => srq.take_with(scatter),
            (None, None) => None,
        }?;
        connection.engine_mut().received_on_fast_path(length);
        connection
            .counting()
            .succeeded(CompletionOpcode::Receive, length);
        let mut wc = success(id, IBV_WC_RECV, length, qp.number);
        wc.src_qp = header.source;
        if let Some(immediate) = header.immediate {
            wc.imm.imm_data = be32::new(immediate);
            wc.wc_flags = IBV_WC_WITH_IMM;
        }
        if let Some(queue) = &mut intake.queue
            && !queue.push_success(wc, header.solicited)
        {
            qp.overrun();
        }
        Some(())
    }
}

/// What messages that came together go into.
struct Intake<'a> {
    /// The fast path may be used.
    is_open: bool,
    /// QP number of the connected peer.
    source: u32,
    memory: Scattering<'a>,
    mode: AccessMode,
    queue: Option<Filling<'a>>,
}

impl<'a> Intake<'a> {
    // What is asked here does not change while the queue pair is locked and only messages of the
    // fast path come.
    fn new(
        open: bool,
        connection: &Connection,
        qp: &'a Resources,
        messages: &Messages<'_>,
        mode: AccessMode,
    ) -> Self {
        let is_peer = |peer: &Arc<Peer>| peer.is(messages.peer());
        let is_open = open
            && connection.peer().is_some_and(is_peer)
            && connection.engine().may_receive_on_fast_path();
        Self {
            is_open,
            source: connection.engine().attributes().dest_qp_num,
            memory: Scattering::new(qp.keys(), qp.pd(), mode),
            mode,
            queue: qp.recv_cq().map(|cq| cq.filling()),
        }
    }

    /// Whether the next message may be this one.
    #[inline(always)]
    fn expects(&self, epoch: u32, header: &Header) -> bool {
        self.is_open && header.epoch == epoch && header.source == self.source
    }
}
