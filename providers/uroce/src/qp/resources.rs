//! The objects of a queue pair, and those that it uses without its lock.
//!
//! [`Resources`] is immutable, apart from three values with separate synchronisation: the names in
//! events, the mark that a completion queue had no room, and the list of processes that share an
//! XRC target ([`Sharing`]). The parts of a queue pair that are under its lock ([`Connection`],
//! [`FastPath`], [`XrcTarget`]) get a reference to it with each call.
//!
//! *Locks.* `tokens` is a leaf. Events are reported while the queue pair is locked, so no lock of
//! this file may be held while the queue pair's lock is taken.
//!
//! [`Connection`]: super::connection::Connection
//! [`FastPath`]: super::fast_path::FastPath
//! [`XrcTarget`]: super::xrc_target::XrcTarget

use super::domain::XrcDomain;
use super::xrc_target::Sharing;
use crate::channel::Records;
use crate::cq::{Cq, Entry};
use crate::device::Port;
use crate::memory::{Binding, Keys, PdId, Peer};
use crate::node::Node;
use crate::receive::{ReceiveQueue, Srq};
use kit::abi::*;
use kit::provider::Token;
use kit::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uroce_engine::host::{Fault, NoReceive};
use uroce_engine::qp::Service;
use uroce_engine::work::Receive;

/// The objects of a queue pair, besides its number.
pub struct CreateParams {
    /// The process's node.
    pub node: Arc<Node>,
    /// The device's port.
    pub port: Arc<Port>,
    /// Where asynchronous events are reported.
    pub events: Arc<Records>,
    /// The service.
    pub service: Service,
    /// Protection domain; that of nothing for XRC targets.
    pub pd: PdId,
    /// Queue for completions of send requests.
    pub send_cq: Option<Arc<Cq>>,
    /// Queue for completions of receive requests.
    pub recv_cq: Option<Arc<Cq>>,
    /// Shared receive queue.
    pub srq: Option<Arc<Srq>>,
    /// XRC domain of an XRC target.
    pub xrcd: Option<Arc<dyn XrcDomain>>,
    /// Sizes.
    pub cap: ibv_qp_cap,
    /// Every send request is signalled.
    pub sq_sig_all: bool,
}

/// The parts of a queue pair that are used without its lock.
pub struct Resources {
    /// The number.
    pub number: u32,
    /// The number by which the node knows it: another for a target of another process.
    pub node_number: u32,
    params: CreateParams,
    /// The names by which applications know it in events: more than one for an XRC target that was
    /// opened again, none for one that another process made.
    tokens: Mutex<Vec<Token>>,
    /// A completion found a queue without room; set under the queue pair's lock, and looked at when
    /// the engine has returned.
    overran: AtomicBool,
    /// The processes that have an XRC target open.
    sharing: Option<Box<Sharing>>,
}

impl Resources {
    /// Those of a queue pair that the application knows by a name.
    pub fn new(number: u32, token: Token, params: CreateParams) -> Self {
        Self::named(number, number, vec![token], params)
    }

    /// Those of the delegate of an XRC target, which the application does not know. The node knows
    /// it by another number.
    pub fn of_delegate(number: u32, node_number: u32, params: CreateParams) -> Self {
        Self::named(number, node_number, Vec::new(), params)
    }

    fn named(number: u32, node_number: u32, tokens: Vec<Token>, params: CreateParams) -> Self {
        let is_target = params.service == Service::XrcTarget;
        Self {
            number,
            node_number,
            tokens: Mutex::new(tokens),
            overran: AtomicBool::new(false),
            sharing: is_target.then(Box::default),
            params,
        }
    }

    /// The node that carries its packets.
    pub fn node(&self) -> &Arc<Node> {
        &self.params.node
    }

    /// The keys of the process.
    pub fn keys(&self) -> &Arc<Keys> {
        self.params.node.keys()
    }

    /// The service.
    pub fn service(&self) -> Service {
        self.params.service
    }

    /// The protection domain.
    pub fn pd(&self) -> PdId {
        self.params.pd
    }

    /// The XRC domain of an XRC target.
    pub fn xrcd(&self) -> Option<&Arc<dyn XrcDomain>> {
        self.params.xrcd.as_ref()
    }

    /// The processes that have an XRC target open; `None` for other services.
    pub fn sharing(&self) -> Option<&Sharing> {
        self.sharing.as_deref()
    }

    /// The device's port.
    pub fn port(&self) -> &Arc<Port> {
        &self.params.port
    }

    /// Sizes it was made with.
    pub fn cap(&self) -> &ibv_qp_cap {
        &self.params.cap
    }

    /// `max_send_wr`.
    pub fn max_send_wr(&self) -> usize {
        usize::try_from(self.params.cap.max_send_wr).unwrap_or(usize::MAX)
    }

    /// Whether every send request is signalled.
    pub fn sq_sig_all(&self) -> bool {
        self.params.sq_sig_all
    }

    /// Queue for completions of send requests.
    #[inline]
    pub fn send_cq(&self) -> Option<&Arc<Cq>> {
        self.params.send_cq.as_ref()
    }

    /// Queue for completions of receive requests.
    #[inline]
    pub fn recv_cq(&self) -> Option<&Arc<Cq>> {
        self.params.recv_cq.as_ref()
    }

    /// Whether the thread of that mark polls its completion queues.
    #[inline]
    pub fn is_attended_by(&self, mark: usize) -> bool {
        let mut queues = [self.recv_cq(), self.send_cq()].into_iter().flatten();
        queues.any(|cq| cq.is_attended_by(mark))
    }

    /// The shared receive queue.
    #[inline]
    pub fn srq(&self) -> Option<&Srq> {
        self.params.srq.as_deref()
    }

    /// Whether receive requests come from queues that other queue pairs use as well.
    pub fn shares_receives(&self) -> bool {
        self.params.srq.is_some() || self.params.service == Service::XrcTarget
    }

    /// A receive queue for this queue pair alone, if it has one.
    pub fn receive_queue(&self) -> Option<ReceiveQueue> {
        let cap = self.cap();
        let owns = !self.shares_receives() && self.service().responds();
        owns.then(|| ReceiveQueue::new(cap.max_recv_wr, cap.max_recv_sge))
    }

    /// The next receive request of an XRC shared receive queue.
    pub fn next_shared(&self, number: u32) -> Result<Receive, NoReceive> {
        let srq = self.xrc_srq(number).ok_or(NoReceive::Unknown)?;
        srq.take().ok_or(NoReceive::Empty)
    }

    /// The XRC shared receive queue of a number.
    pub fn xrc_srq(&self, number: u32) -> Option<Arc<Srq>> {
        self.xrcd()?.srq(number)
    }

    /// Carries out a request to bind a window.
    ///
    /// # Errors
    /// [`Fault`] if the window cannot be bound so.
    pub fn bind(&self, binding: &Binding) -> Result<(), Fault> {
        let peer = Peer {
            pd: self.pd(),
            qpn: self.number,
        };
        self.keys().bind(peer, binding)
    }
}

/// Completions.
impl Resources {
    /// A completion found its queue without room.
    pub fn overrun(&self) {
        self.fail();
    }

    /// The queue pair is to fail as after an overrun.
    pub fn fail(&self) {
        self.overran.store(true, Ordering::Relaxed);
    }

    /// Whether a completion found its queue without room since [`Resources::take_overrun`].
    #[inline]
    pub fn has_overrun(&self) -> bool {
        self.overran.load(Ordering::Relaxed)
    }

    /// The same, and forgets it.
    pub fn take_overrun(&self) -> bool {
        self.overran.swap(false, Ordering::Relaxed)
    }

    /// Adds a completion to the queue that it belongs to.
    pub fn complete(&self, entry: Entry) {
        if let Some(number) = entry.completion.srqn {
            let srq = self.xrc_srq(number);
            return self.push(srq.as_ref().and_then(|srq| srq.cq()), entry);
        }
        let queue = if entry.completion.is_receive() {
            self.recv_cq()
        } else {
            self.send_cq()
        };
        self.push(queue, entry);
    }

    fn push(&self, queue: Option<&Arc<Cq>>, entry: Entry) {
        if queue.is_some_and(|queue| !queue.push(entry)) {
            self.overrun();
        }
    }

    /// Adds the completion of a send request that has succeeded.
    #[inline(always)]
    pub fn push_sent(&self, wc: ibv_wc) {
        if let Some(queue) = self.send_cq()
            && !queue.push_success(wc, false)
        {
            self.overrun();
        }
    }

    /// Drops its completions that were not polled.
    pub fn forget_completions(&self) {
        for cq in [self.send_cq(), self.recv_cq()].into_iter().flatten() {
            cq.forget(self.number);
        }
    }
}

/// Events.
impl Resources {
    /// Reports an asynchronous event to all that have the queue pair open.
    pub fn report(&self, event: ibv_event_type) {
        for token in self.tokens.lock().iter() {
            self.params.events.asynchronous(event, *token);
        }
        if let Some(sharing) = &self.sharing {
            sharing.report(self.xrcd(), self.number, event);
        }
    }

    /// Another name for it in events.
    pub fn add_token(&self, token: Token) {
        self.tokens.lock().push(token);
    }

    /// A name less; returns how many events were reported under it.
    pub fn remove_token(&self, token: Token) -> u32 {
        self.tokens.lock().retain(|known| *known != token);
        self.params.events.take_back(token)
    }

    /// The names that applications of this process have for it.
    pub fn tokens(&self) -> usize {
        self.tokens.lock().len()
    }
}
