//! Queue pairs.
#![forbid(unsafe_code)]

use std::{
    cmp, fmt,
    hash::{BuildHasher, Hasher, RandomState},
    marker::PhantomData,
    sync::{Arc, Mutex, PoisonError},
};

use bytemuck::Zeroable;
use kit::abi::*;

use crate::{
    address::{AddressHandle, Endpoint, Route},
    batch::Batch,
    completion::CompletionQueue,
    domain::ProtectionDomain,
    ece::Ece,
    error::{Error, PostError, Result},
    memory::Access,
    request::{ReceiveRequest, Receiver, SendRequest},
    srq::SharedReceiveQueue,
    sys::{calls, extended, flight::WorkQueue, post},
    transport::{Acknowledged, Connected, Datagram, Transport},
};

/// Times and counts of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    timeout: u8,
    pub(crate) retries: u8,
    pub(crate) rnr_retries: u8,
    pub(crate) rnr_timer: u8,
}

/// A queue pair that is to be made.
///
/// A completion queue has to have room for all requests that its queue pairs may have in flight, so
/// that no completion is lost: [`sends`](Self::sends) and [`receives`](Self::receives) of each, and
/// the requests of each shared receive queue. Else `build` fails with ENOSPC. Completions of a
/// queue pair that was dropped may still be there; a program polls until none is left before it
/// makes the next one.
#[derive(Debug)]
#[must_use = "`build` makes the queue pair"]
pub struct QueuePairBuilder<T> {
    pub(crate) pd: ProtectionDomain,
    send_cq: CompletionQueue,
    recv_cq: CompletionQueue,
    srq: Option<calls::Shared>,
    cap: Capacity,
    batches: bool,
    pub(crate) route: Route,
    gid_index: Option<u8>,
    pub(crate) access: Access,
    mtu: Option<u8>,
    pub(crate) ece: Option<Ece>,
    pub(crate) patience: Patience,
    transport: PhantomData<T>,
}

#[derive(Clone, Copy, Debug)]
struct Capacity {
    sends: u32,
    receives: u32,
    segments: u32,
    inline: u32,
}

impl<T: Transport> QueuePairBuilder<T> {
    pub(crate) fn new(pd: &ProtectionDomain, cq: &CompletionQueue) -> Self {
        Self {
            pd: pd.clone(),
            send_cq: cq.clone(),
            recv_cq: cq.clone(),
            srq: None,
            cap: Capacity {
                sends: 16,
                receives: 16,
                segments: 1,
                inline: 0,
            },
            batches: false,
            route: Route::default(),
            gid_index: None,
            access: Access::LOCAL,
            mtu: None,
            ece: None,
            patience: Patience {
                timeout: 14,
                retries: 7,
                rnr_retries: 7,
                rnr_timer: 12,
            },
            transport: PhantomData,
        }
    }

    /// Receive requests complete in a separate queue.
    pub fn receive_completions(mut self, cq: &CompletionQueue) -> Self {
        self.recv_cq = cq.clone();
        self
    }

    /// Takes receive requests from a shared queue, which is of the same protection domain.
    pub fn shared_receives(self, srq: &SharedReceiveQueue) -> Self {
        self.shared(calls::Shared::Plain(srq.clone()))
    }

    pub(crate) fn shared(mut self, queue: calls::Shared) -> Self {
        self.srq = Some(queue);
        self
    }

    /// How many send requests may be in flight, those included whose completions were not polled
    /// yet; 16 otherwise. Further ones are refused with ENOMEM.
    pub fn sends(mut self, requests: u32) -> Self {
        self.cap.sends = requests;
        self
    }

    /// How many receive requests may be in flight; 16 otherwise.
    pub fn receives(mut self, requests: u32) -> Self {
        self.cap.receives = requests;
        self
    }

    /// How many segments a request may have; one otherwise.
    pub fn segments(mut self, segments: u32) -> Self {
        self.cap.segments = segments;
        self
    }

    /// How many bytes an inline request may have; none otherwise.
    pub fn inline(mut self, bytes: u32) -> Self {
        self.cap.inline = bytes;
        self
    }

    /// Several requests can be posted at once ([`QueuePair::batch`]).
    pub fn batches(mut self) -> Self {
        self.batches = true;
        self
    }

    /// The port; the first otherwise.
    pub fn port(mut self, port: u8) -> Self {
        self.route.port = port;
        self
    }

    /// The index of the GID that packets come from; that of `Context::gid_index` otherwise.
    pub fn gid_index(mut self, index: u8) -> Self {
        self.gid_index = Some(index);
        self
    }

    /// The index of the partition key of packets ([`Context::pkey_index`]); 0 otherwise.
    ///
    /// [`Context::pkey_index`]: crate::Context::pkey_index
    pub fn pkey_index(mut self, index: u16) -> Self {
        self.route.pkey_index = index;
        self
    }

    /// The traffic class of packets, of which the upper six bits are the DSCP of RoCE v2.
    pub fn traffic_class(mut self, class: u8) -> Self {
        self.route.traffic_class = class;
        self
    }

    /// The service level of packets.
    pub fn service_level(mut self, level: u8) -> Self {
        self.route.service_level = level;
        self
    }

    /// The queue pair, in the state RESET.
    pub(crate) fn create(&self) -> Result<calls::Qp> {
        const VERB: &str = "ibv_create_qp";
        let context = self.pd.context();
        let queues = [&self.send_cq, &self.recv_cq].map(CompletionQueue::context);
        let invalid = Error::new(VERB, libc::EINVAL);
        if !queues.iter().all(|one| one.same(context)) {
            return Err(invalid.because("a completion queue of another open device"));
        }
        // Devices look for the memory of its requests in the queue pair's domain, or in its own.
        if self
            .srq
            .as_ref()
            .is_some_and(|srq| !srq.domain().same(&self.pd))
        {
            return Err(invalid.because("a shared receive queue of another protection domain"));
        }
        let sends = Arc::new(WorkQueue::of_sends(VERB, self.cap.sends)?);
        let sends_alone = T::KIND == IBV_QPT_XRC_SEND;
        if sends_alone && self.srq.is_some() {
            return Err(invalid.because("a sender of XRC has no receive queue"));
        }
        let own = self.srq.is_none() && !sends_alone;
        let room = if own { self.cap.receives } else { 0 };
        let receives = match &self.srq {
            Some(srq) => Arc::clone(srq.queue()),
            None => Arc::new(WorkQueue::of_receives(VERB, room)?),
        };
        self.send_cq.serve(VERB, &sends)?;
        // Those of a tag matching queue complete elsewhere.
        if !matches!(self.srq, Some(calls::Shared::Tags(_))) {
            self.recv_cq.serve(VERB, &receives)?;
        }
        let cap = ibv_qp_cap {
            max_send_wr: self.cap.sends,
            max_recv_wr: room,
            max_send_sge: self.cap.segments,
            max_recv_sge: if own { self.cap.segments } else { 0 },
            max_inline_data: self.cap.inline,
        };
        let parts = calls::Objects {
            pd: self.pd.clone(),
            send_cq: self.send_cq.clone(),
            recv_cq: self.recv_cq.clone(),
            srq: self.srq.clone(),
            sends,
            receives,
            operations: 0,
        };
        let qp = match self.batches {
            false => calls::create_qp(parts, T::KIND, cap)?.0,
            true => extended::create_qp(parts, T::KIND, cap)?,
        };
        if let Some(ece) = self.ece {
            calls::set_ece(&qp, ece.to_c())?;
        }
        Ok(qp)
    }

    pub(crate) fn make(self) -> Result<(Pair, Self)> {
        let qp = self.create()?;
        let context = self.pd.context();
        let port = context.port(self.route.port)?;
        let gid_index = match self.gid_index {
            Some(index) => index,
            None => context.gid_index(self.route.port)?,
        };
        let route = Route {
            gid_index,
            ..self.route
        };
        // A value of the enumeration fits.
        let mtu = u8::try_from(port.active_mtu).unwrap_or(1);
        let endpoint = Endpoint {
            number: calls::qp_number(&qp),
            psn: random_psn(),
            qkey: 0,
            lid: port.lid,
            mtu: self.mtu.map_or(mtu, |wanted| cmp::min(wanted, mtu)),
            gid: context.gid(self.route.port, gid_index)?,
        };
        let inner = Pair {
            groups: Mutex::default(),
            qp: Arc::new(qp),
            endpoint,
            route,
            own: Some(Own {
                access: self.access,
                patience: self.patience,
            }),
        };
        Ok((inner, self))
    }
}

impl<T: Connected> QueuePairBuilder<T> {
    /// What the peer may do; nothing otherwise. A memory region has to allow it as well.
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// The largest path MTU, in `enum ibv_mtu`; the port's otherwise.
    pub fn mtu(mut self, mtu: u8) -> Self {
        self.mtu = Some(mtu);
        self
    }

    /// Makes the queue pair, in the state INIT: receive requests can be posted.
    ///
    /// # Errors
    /// Of ibv_create_qp(3), ibv_query_port(3), ibv_query_gid_ex(3) and ibv_modify_qp(3); EINVAL for
    /// a completion queue of another open device or a shared receive queue of another protection
    /// domain; ENOSPC if a completion queue has too few entries ([`QueuePairBuilder`]).
    pub fn build(self) -> Result<UnconnectedQueuePair<T>> {
        let (inner, builder) = self.make()?;
        inner.initialise(builder.access)?;
        Ok(UnconnectedQueuePair::new(inner, builder.patience))
    }
}

impl<T: Acknowledged> QueuePairBuilder<T> {
    /// How long the peer may take to acknowledge a packet, before it is repeated: 4.096 µs times
    /// two to this power; 0 is for ever. 14 otherwise.
    pub fn timeout(mut self, exponent: u8) -> Self {
        self.patience.timeout = exponent;
        self
    }

    /// How often a packet is repeated before the request fails, up to 7, which it is otherwise.
    pub fn retries(mut self, count: u8) -> Self {
        self.patience.retries = count;
        self
    }

    /// How often a message is repeated while the peer has no receive request, up to 6; 7 is for
    /// ever, which it is otherwise.
    pub fn rnr_retries(mut self, count: u8) -> Self {
        self.patience.rnr_retries = count;
        self
    }

    /// How long the peer waits before it repeats a message for which there was no receive request:
    /// a code of ibv_modify_qp(3), up to 31; 12 (0.64 ms) otherwise.
    pub fn rnr_timer(mut self, code: u8) -> Self {
        self.patience.rnr_timer = code;
        self
    }
}

impl QueuePairBuilder<Datagram> {
    /// Makes the queue pair, ready to send and receive, with this key.
    ///
    /// # Errors
    /// Of ibv_create_qp(3), ibv_query_port(3), ibv_query_gid_ex(3) and ibv_modify_qp(3); EINVAL for
    /// a completion queue of another open device or a shared receive queue of another protection
    /// domain; ENOSPC if a completion queue has too few entries ([`QueuePairBuilder`]).
    pub fn build(self, qkey: u32) -> Result<QueuePair<Datagram>> {
        let (mut inner, _) = self.make()?;
        inner.endpoint.qkey = qkey;
        inner.ready_for_datagrams()?;
        Ok(QueuePair::new(inner))
    }
}

/// A first packet sequence number that differs between queue pairs, so that late packets of a
/// former one are recognised.
pub(crate) fn random_psn() -> u32 {
    let [_, a, b, c, ..] = RandomState::new().build_hasher().finish().to_ne_bytes();
    u32::from_be_bytes([0, a, b, c])
}

/// How many RDMA reads and atomic operations are asked for, of those that a device has.
pub(crate) fn most_reads(count: i32) -> u8 {
    u8::try_from(count.clamp(0, 16)).unwrap_or(0)
}

pub(crate) struct Pair {
    /// Multicast groups, which are left before the queue pair is destroyed.
    groups: Mutex<Vec<([u8; 16], u16)>>,
    /// Flows keep it as well.
    pub(crate) qp: Arc<calls::Qp>,
    pub(crate) endpoint: Endpoint,
    pub(crate) route: Route,
    /// The values that it is connected again with; none if the connection manager connects it.
    own: Option<Own>,
}

/// Values of the builder that a connection has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub access: Access,
    pub patience: Patience,
}

impl Pair {
    /// One that the connection manager connects, or one for raw packets. It has a number, and no
    /// address.
    pub(crate) fn of(qp: calls::Qp, route: Route) -> Self {
        let number = calls::qp_number(&qp);
        Self {
            groups: Mutex::default(),
            qp: Arc::new(qp),
            endpoint: Endpoint {
                number,
                ..Endpoint::default()
            },
            route,
            own: None,
        }
    }

    pub(crate) fn post_receive(
        &self,
        request: ReceiveRequest,
    ) -> std::result::Result<(), PostError<ReceiveRequest>> {
        const VERB: &str = "ibv_post_recv";
        if self.qp.srq.is_some() {
            let error = Error::new(VERB, libc::EINVAL);
            let error = error.because("the queue pair has a shared receive queue");
            return Err(PostError::new(error, request));
        }
        self.contain(request.post(VERB, &self.qp.pd, |flight| {
            post::receive_qp(&self.qp, &self.qp.receives, flight)
        }))
    }

    /// Ends the queue pair if a device may have a request that was reported as not posted.
    pub(crate) fn contain<R>(
        &self,
        posted: std::result::Result<(), PostError<R>>,
    ) -> std::result::Result<(), PostError<R>> {
        if posted
            .as_ref()
            .is_err_and(|failed| failed.request.is_none())
        {
            // If the device refuses that as well, the request stays in flight until the drop.
            let _ = self.shut_down();
        }
        posted
    }

    fn shut_down(&self) -> Result<()> {
        self.change_state(IBV_QPS_ERR)
    }

    pub(crate) fn change_state(&self, state: ibv_qp_state) -> Result<()> {
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = state;
        calls::modify_qp(&self.qp, attr, IBV_QP_STATE)
    }

    pub(crate) fn initialise(&self, access: Access) -> Result<()> {
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = self.route.port;
        attr.pkey_index = self.route.pkey_index;
        attr.qp_access_flags = access.bits();
        let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        calls::modify_qp(&self.qp, attr, mask)
    }

    pub(crate) fn ready_for_packets(&self) -> Result<()> {
        let mut attr = ibv_qp_attr::zeroed();
        attr.port_num = self.route.port;
        for (state, mask) in [
            (IBV_QPS_INIT, IBV_QP_PORT),
            (IBV_QPS_RTR, 0),
            (IBV_QPS_RTS, 0),
        ] {
            attr.qp_state = state;
            calls::modify_qp(&self.qp, attr, mask | IBV_QP_STATE)?;
        }
        Ok(())
    }

    pub(crate) fn ready_for_datagrams(&self) -> Result<()> {
        let mut attr = ibv_qp_attr::zeroed();
        attr.qkey = self.endpoint.qkey;
        attr.port_num = self.route.port;
        attr.pkey_index = self.route.pkey_index;
        attr.sq_psn = self.endpoint.psn;
        for (state, mask) in [
            (IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
            (IBV_QPS_RTR, 0),
            (IBV_QPS_RTS, IBV_QP_SQ_PSN),
        ] {
            attr.qp_state = state;
            calls::modify_qp(&self.qp, attr, mask | IBV_QP_STATE)?;
        }
        Ok(())
    }

    /// Moves it into the state RESET, and frees its requests, which the device has given up.
    /// Those of a shared receive queue stay there.
    pub(crate) fn reset(&mut self) -> Result<Own> {
        let managed = Error::new("ibv_modify_qp", libc::EINVAL);
        let managed = managed.because("the connection manager has connected the queue pair");
        let own = self.own.ok_or(managed)?;
        self.change_state(IBV_QPS_RESET)?;
        drop(self.qp.sends.clear());
        if self.qp.srq.is_none() {
            drop(self.qp.receives.clear());
        }
        self.endpoint.psn = random_psn();
        Ok(own)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let groups = self.groups.get_mut();
        for group in groups.unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A queue pair that cannot leave a group is not destroyed; its objects stay.
            let _ = calls::multicast(&self.qp, group, false);
        }
    }
}

/// A queue pair that is not yet connected: it has an address, and takes receive requests.
#[must_use = "`connect` makes a queue pair that can send"]
pub struct UnconnectedQueuePair<T> {
    inner: Pair,
    patience: Patience,
    transport: PhantomData<T>,
}

impl<T> UnconnectedQueuePair<T> {
    pub(crate) fn new(inner: Pair, patience: Patience) -> Self {
        Self {
            inner,
            patience,
            transport: PhantomData,
        }
    }

    pub(crate) fn pair(&self) -> &Pair {
        &self.inner
    }
}

impl<T: Connected> UnconnectedQueuePair<T> {
    /// Its address, for the peer.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.inner.endpoint
    }

    /// Posts a receive request. Those that are posted before the peer connects miss no message.
    ///
    /// # Errors
    /// Of ibv_post_recv(3), with the request; EINVAL with a shared receive queue. If the device may
    /// have the request, the queue pair is moved into the error state ([`PostError`]).
    pub fn post_receive(
        &self,
        request: ReceiveRequest,
    ) -> std::result::Result<(), PostError<ReceiveRequest>> {
        self.inner.post_receive(request)
    }

    /// Connects it to a peer, which does the same with this one's address. A peer that sends before
    /// this one is connected repeats the message, if it is reliable.
    ///
    /// # Errors
    /// Of ibv_modify_qp(3), ibv_query_device(3).
    pub fn connect(self, peer: &Endpoint) -> Result<QueuePair<T>> {
        let Self {
            inner, patience, ..
        } = self;
        let reliable = matches!(T::KIND, IBV_QPT_RC | IBV_QPT_XRC_SEND);
        let device = inner.qp.pd.context().attributes()?;
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = u32::from(cmp::min(peer.mtu, inner.endpoint.mtu));
        attr.dest_qp_num = peer.number;
        attr.rq_psn = peer.psn;
        attr.ah_attr = inner.route.to(peer.lid, peer.gid);
        attr.max_dest_rd_atomic = most_reads(device.max_qp_rd_atom);
        attr.min_rnr_timer = patience.rnr_timer;
        let mut mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        if reliable {
            mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        }
        calls::modify_qp(&inner.qp, attr, mask)?;
        attr.qp_state = IBV_QPS_RTS;
        attr.sq_psn = inner.endpoint.psn;
        attr.timeout = patience.timeout;
        attr.retry_cnt = patience.retries;
        attr.rnr_retry = patience.rnr_retries;
        attr.max_rd_atomic = most_reads(device.max_qp_init_rd_atom);
        let mut mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
        if reliable {
            mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        }
        calls::modify_qp(&inner.qp, attr, mask)?;
        Ok(QueuePair::new(inner))
    }
}

impl<T> fmt::Debug for UnconnectedQueuePair<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("UnconnectedQueuePair");
        shown.field("endpoint", &self.inner.endpoint);
        shown.finish_non_exhaustive()
    }
}

/// A queue pair that can send and receive. When it is dropped, it is destroyed, and the memory of
/// requests in flight is freed.
pub struct QueuePair<T> {
    pub(crate) inner: Pair,
    transport: PhantomData<T>,
}

impl<T: Transport> QueuePair<T> {
    pub(crate) fn new(inner: Pair) -> Self {
        Self {
            inner,
            transport: PhantomData,
        }
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.inner.endpoint.number
    }

    /// Its address, for peers.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.inner.endpoint
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// Of ibv_post_recv(3), with the request; EINVAL with a shared receive queue, or if the memory
    /// is of another protection domain. If the device may have the request, the queue pair is moved
    /// into the error state ([`PostError`]).
    pub fn post_receive(
        &self,
        request: ReceiveRequest,
    ) -> std::result::Result<(), PostError<ReceiveRequest>> {
        self.inner.post_receive(request)
    }

    /// Begins a batch of send requests, for a queue pair that was built with
    /// [`batches`](QueuePairBuilder::batches).
    pub fn batch(&self) -> Batch<'_, T> {
        Batch::new(self)
    }

    /// Whether there are requests whose completions the device reports.
    #[cfg(feature = "connection")]
    pub(crate) fn awaits_completions(&self) -> bool {
        let queues = [&self.inner.qp.sends, &self.inner.qp.receives];
        queues.iter().any(|queue| queue.awaits_completions())
    }

    /// Moves it into the error state: all requests complete, as flushed, and their memory comes
    /// back. Unsignaled requests that had succeeded before have no completion: they come back with
    /// that of a signaled request that is posted afterwards, which is flushed; else their memory
    /// is freed when the queue pair is dropped.
    ///
    /// Requests of a shared receive queue that the queue pair had taken are flushed, too. Before
    /// such a queue pair is dropped, a program waits for the event IBV_EVENT_QP_LAST_WQE_REACHED
    /// ([`Context::async_event`](crate::Context::async_event)), and polls until the completion
    /// queue is empty. Requests that the queue pair had taken and that were not polled stay in
    /// flight until the shared receive queue is dropped.
    ///
    /// # Errors
    /// Of ibv_modify_qp(3).
    pub fn shut_down(&self) -> Result<()> {
        self.inner.shut_down()
    }
}

impl<T: Connected> QueuePair<T> {
    /// Posts a send request.
    ///
    /// # Errors
    /// Of ibv_post_send(3), with the request; EINVAL if the memory is of another protection domain
    /// or is longer than the peer's, for an operation that the type of queue pair does not have
    /// ([`Unreliable`](crate::Unreliable)), and for an atomic operation of other than eight aligned
    /// bytes. If the device may have the request, the queue pair is moved into the error state
    /// ([`PostError`]).
    pub fn post(&self, request: SendRequest) -> std::result::Result<(), PostError<SendRequest>> {
        let posted = request.post(T::KIND, &self.inner.qp, None);
        self.inner.contain(posted)
    }
}

impl QueuePair<Datagram> {
    /// The way to a queue pair, or to a multicast group, from the port of this one.
    ///
    /// # Errors
    /// Of ibv_create_ah(3).
    pub fn address_handle(&self, endpoint: &Endpoint) -> Result<AddressHandle> {
        let attr = self.inner.route.to(endpoint.lid, endpoint.gid);
        AddressHandle::new(&self.inner.qp.pd, attr)
    }

    /// Posts a message to the queue pair of that number, which has that key.
    ///
    /// # Errors
    /// Of ibv_post_send(3), with the request; EINVAL if memory or address are of another protection
    /// domain, and for RDMA and atomic operations. If the device may have the request, the queue
    /// pair is moved into the error state ([`PostError`]).
    pub fn post_to(
        &self,
        request: SendRequest,
        address: &AddressHandle,
        number: u32,
        qkey: u32,
    ) -> std::result::Result<(), PostError<SendRequest>> {
        let to = Receiver {
            address: address.clone(),
            number,
            qkey,
        };
        let posted = request.post(IBV_QPT_UD, &self.inner.qp, Some(to));
        self.inner.contain(posted)
    }

    /// Receives the messages of a multicast group, until [`QueuePair::leave`].
    ///
    /// # Errors
    /// Of ibv_attach_mcast(3).
    pub fn join(&self, group: [u8; 16]) -> Result<()> {
        self.attach((group, 0))
    }

    /// Receives the messages of the group of a GID and a LID.
    pub(crate) fn attach(&self, group: ([u8; 16], u16)) -> Result<()> {
        let groups = self.inner.groups.lock();
        let mut groups = groups.unwrap_or_else(PoisonError::into_inner);
        if !groups.contains(&group) {
            calls::multicast(&self.inner.qp, group, true)?;
            groups.push(group);
        }
        Ok(())
    }

    /// Leaves a multicast group.
    ///
    /// # Errors
    /// Of ibv_detach_mcast(3).
    pub fn leave(&self, group: [u8; 16]) -> Result<()> {
        self.detach((group, 0))
    }

    pub(crate) fn detach(&self, group: ([u8; 16], u16)) -> Result<()> {
        let groups = self.inner.groups.lock();
        let mut groups = groups.unwrap_or_else(PoisonError::into_inner);
        calls::multicast(&self.inner.qp, group, false)?;
        groups.retain(|joined| *joined != group);
        Ok(())
    }
}

impl<T> fmt::Debug for QueuePair<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("QueuePair");
        shown.field("endpoint", &self.inner.endpoint);
        shown.finish_non_exhaustive()
    }
}
