//! Ids: ends of connections.
#![forbid(unsafe_code)]

use std::{
    cmp,
    collections::HashMap,
    fmt,
    net::SocketAddr,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kit::{
    abi::{IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS},
    cm::port_space::RDMA_PS_TCP,
};

use super::{EventChannel, Parameters, PreparedQueuePair};
use crate::{
    context::Context,
    domain::ProtectionDomain,
    ece::Ece,
    error::{Error, Result},
    qp::{QueuePair, QueuePairBuilder},
    sys::{calls, cm},
    transport::Reliable,
};

/// An end of a connection, or a place where requests arrive: `struct rdma_cm_id`, of the port space
/// TCP, or UDP ([`Id::datagrams`]). Copies are the same one; with the last one the connection ends.
#[derive(Clone)]
pub struct Id(Arc<Entry>);

struct Entry {
    number: usize,
    object: cm::Cm,
    /// What the peer asked for, of an id of a request.
    asked: Mutex<Option<(u8, u8)>>,
    /// Multicast groups, by the number in their events.
    groups: Mutex<Vec<(usize, SocketAddr)>>,
}

/// All ids, by the number in their events.
static IDS: LazyLock<Mutex<HashMap<usize, Weak<Entry>>>> = LazyLock::new(Mutex::default);

fn ids() -> MutexGuard<'static, HashMap<usize, Weak<Entry>>> {
    IDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of the next id.
pub(super) fn next_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Milliseconds, as librdmacm takes them.
fn milliseconds(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

impl Id {
    /// Makes an id, whose events the channel reports.
    ///
    /// # Errors
    /// Of rdma_create_id(3).
    pub fn new(channel: &EventChannel) -> Result<Self> {
        Self::of_space(channel, RDMA_PS_TCP)
    }

    pub(super) fn of_space(channel: &EventChannel, space: u32) -> Result<Self> {
        let number = next_number();
        Ok(Self::entered(
            number,
            cm::create_id(channel, number, space)?,
        ))
    }

    pub(super) fn object(&self) -> &cm::Cm {
        &self.0.object
    }

    /// The multicast groups that it joins.
    pub(super) fn groups(&self) -> MutexGuard<'_, Vec<(usize, SocketAddr)>> {
        let groups = self.0.groups.lock();
        groups.unwrap_or_else(PoisonError::into_inner)
    }

    /// EINVAL unless the device is the id's.
    pub(super) fn expect_device(&self, pd: &ProtectionDomain) -> Result<()> {
        match self.context().is_some_and(|own| own.same(pd.context())) {
            true => Ok(()),
            false => {
                let invalid = Error::new("ibv_create_qp", libc::EINVAL);
                Err(invalid.because("the id has another device, or none yet"))
            }
        }
    }

    /// The id of a request.
    pub(super) fn of(object: cm::Cm) -> Self {
        Self::entered(cm::number(&object), object)
    }

    fn entered(number: usize, object: cm::Cm) -> Self {
        let inner = Arc::new(Entry {
            number,
            object,
            asked: Mutex::default(),
            groups: Mutex::default(),
        });
        ids().insert(number, Arc::downgrade(&inner));
        Self(inner)
    }

    pub(super) fn find(number: usize) -> Option<Self> {
        let found = ids().get(&number).and_then(Weak::upgrade);
        found.map(Self)
    }

    /// Keeps what the peer asked for.
    pub(super) fn asked(&self, parameters: &Parameters) {
        let asked = parameters
            .responder_resources
            .zip(parameters.initiator_depth);
        *self.0.asked.lock().unwrap_or_else(PoisonError::into_inner) = asked;
    }

    /// Moves it to another channel, which reports its events from now on. Events of the former
    /// channel that were not taken yet move along.
    ///
    /// # Errors
    /// Of rdma_migrate_id(3).
    pub fn migrate(&self, channel: &EventChannel) -> Result<()> {
        let own = self.0.object.lock();
        let mut own = own.unwrap_or_else(PoisonError::into_inner);
        cm::migrate(&self.0.object, channel)?;
        *own = channel.clone();
        Ok(())
    }

    /// Binds it to an address of this machine. Port 0 is any free one ([`Id::local_addr`]).
    ///
    /// # Errors
    /// Of rdma_bind_addr(3).
    pub fn bind(&self, address: SocketAddr) -> Result<()> {
        cm::bind(&self.0.object, address)
    }

    /// Other ids may be bound to the same address: rdma_set_option(3), RDMA_OPTION_ID_REUSEADDR.
    /// Before [`Id::bind`].
    ///
    /// # Errors
    /// Of rdma_set_option(3).
    pub fn reuse_address(&self, reuse: bool) -> Result<()> {
        cm::set_option(&self.0.object, 0, 1, i32::from(reuse))
    }

    /// Bound to an address of IPv6, it takes no requests over IPv4: RDMA_OPTION_ID_AFONLY.
    ///
    /// # Errors
    /// Of rdma_set_option(3).
    pub fn only_ipv6(&self, only: bool) -> Result<()> {
        cm::set_option(&self.0.object, 0, 2, i32::from(only))
    }

    /// The type of service of its packets: RDMA_OPTION_ID_TOS.
    ///
    /// # Errors
    /// Of rdma_set_option(3).
    pub fn type_of_service(&self, tos: u8) -> Result<()> {
        cm::set_option(&self.0.object, 0, 0, tos)
    }

    /// How long the peer may take to acknowledge a packet: 4.096 µs times two to this power;
    /// RDMA_OPTION_ID_ACK_TIMEOUT.
    ///
    /// # Errors
    /// Of rdma_set_option(3).
    pub fn ack_timeout(&self, exponent: u8) -> Result<()> {
        cm::set_option(&self.0.object, 0, 3, exponent)
    }

    /// Lets requests arrive, of which that many may wait.
    ///
    /// # Errors
    /// Of rdma_listen(3).
    pub fn listen(&self, backlog: i32) -> Result<()> {
        cm::listen(&self.0.object, backlog)
    }

    /// Looks for the device that leads to a destination. [`Event::AddressResolved`](super::Event)
    /// or `AddressError` follows.
    ///
    /// # Errors
    /// Of rdma_resolve_addr(3).
    pub fn resolve_address(&self, to: SocketAddr, time: Duration) -> Result<()> {
        cm::resolve_addr(&self.0.object, to, milliseconds(time))
    }

    /// Looks for the way. [`Event::RouteResolved`](super::Event) or `RouteError` follows.
    ///
    /// # Errors
    /// Of rdma_resolve_route(3).
    pub fn resolve_route(&self, time: Duration) -> Result<()> {
        cm::resolve_route(&self.0.object, milliseconds(time))
    }

    /// The open device that it belongs to: after `AddressResolved`, of a request, or bound to an
    /// address of one device.
    #[must_use]
    pub fn context(&self) -> Option<Context> {
        cm::device(&self.0.object).map(Context::new)
    }

    /// The port of the device; 0 before there is one.
    #[must_use]
    pub fn port(&self) -> u8 {
        cm::port(&self.0.object)
    }

    /// The address of this end.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        let [source, _] = cm::addresses(&self.0.object);
        source
    }

    /// The address of the other end.
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        let [_, destination] = cm::addresses(&self.0.object);
        destination
    }

    /// Makes a queue pair for the connection: it takes receive requests, and cannot send yet. Port,
    /// route, path MTU and timeout of the builder do not count, as the connection manager has them.
    ///
    /// # Errors
    /// Those of [`QueuePairBuilder::build`]; EINVAL if the protection domain is of another open
    /// device than [`Id::context`], or the id is one of datagrams; of rdma_init_qp_attr(3).
    pub fn prepare(&self, builder: QueuePairBuilder<Reliable>) -> Result<PreparedQueuePair> {
        self.expect_device(&builder.pd)?;
        if cm::is_datagram(&self.0.object) {
            let invalid = Error::new("ibv_create_qp", libc::EINVAL);
            return Err(invalid.because("the id is one of datagrams"));
        }
        let (attr, mask) = cm::qp_attr(&self.0.object, IBV_QPS_INIT)?;
        PreparedQueuePair::new(&builder, attr, mask)
    }

    /// Asks the destination for a connection. [`Event::ConnectResponse`](super::Event) follows
    /// (`Established` on iWARP), or `Rejected`, `Unreachable`, `ConnectError`.
    ///
    /// # Errors
    /// Of rdma_connect(3).
    pub fn connect(&self, qp: &PreparedQueuePair, parameters: &Parameters) -> Result<()> {
        cm::connect(&self.0.object, &self.param(qp, parameters, None)?)
    }

    /// Connects the queue pair after the peer's response, and informs the peer.
    ///
    /// # Errors
    /// Of rdma_init_qp_attr(3), ibv_modify_qp(3), rdma_establish(3).
    pub fn establish(&self, qp: PreparedQueuePair) -> Result<QueuePair<Reliable>> {
        let qp = self.connected(qp, None)?;
        cm::establish(&self.0.object)?;
        Ok(qp)
    }

    /// Connects the queue pair; with the depths, if they are not those of the connection manager.
    pub(super) fn connected(
        &self,
        qp: PreparedQueuePair,
        depths: Option<(u8, u8)>,
    ) -> Result<QueuePair<Reliable>> {
        let receive = cm::qp_attr(&self.0.object, IBV_QPS_RTR)?;
        qp.ready_to_receive(receive, depths.map(|(resources, _)| resources))?;
        let send = cm::qp_attr(&self.0.object, IBV_QPS_RTS)?;
        qp.ready_to_send(send, depths.map(|(_, depth)| depth))
    }

    /// Accepts a request. [`Event::Established`](super::Event) follows. The queue pair can send
    /// from then on; messages before that may be lost with the connection.
    ///
    /// # Errors
    /// Of rdma_init_qp_attr(3), ibv_modify_qp(3), rdma_accept(3).
    pub fn accept(
        &self,
        qp: PreparedQueuePair,
        parameters: &Parameters,
    ) -> Result<QueuePair<Reliable>> {
        let asked = *self.0.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let param = self.param(&qp, parameters, asked)?;
        let depths = (param.responder_resources, param.initiator_depth);
        let qp = self.connected(qp, Some(depths))?;
        cm::accept(&self.0.object, &param)?;
        Ok(qp)
    }

    fn param(
        &self,
        qp: &PreparedQueuePair,
        parameters: &Parameters,
        asked: Option<(u8, u8)>,
    ) -> Result<cm::Param> {
        let device = calls::query_device(qp.context().object())?;
        let most = |count: i32| u8::try_from(count.clamp(0, 254)).unwrap_or(0);
        let (most_resources, most_depth) = (
            most(device.max_qp_rd_atom),
            most(device.max_qp_init_rd_atom),
        );
        let (resources, depth) = asked.unwrap_or((most_resources, most_depth));
        let (retries, rnr_retries) = qp.retries();
        Ok(cm::Param {
            responder_resources: parameters
                .responder_resources
                .unwrap_or_else(|| cmp::min(resources, most_resources)),
            initiator_depth: parameters
                .initiator_depth
                .unwrap_or_else(|| cmp::min(depth, most_depth)),
            flow_control: 1,
            retries,
            rnr_retries,
            queue_pair: qp.number(),
            has_srq: qp.has_shared_receives(),
            private_data: parameters.private_data.clone(),
        })
    }

    /// Rejects a request. The peer gets the private data.
    ///
    /// # Errors
    /// Of rdma_reject(3).
    pub fn reject(&self, private_data: &[u8]) -> Result<()> {
        cm::reject(&self.0.object, private_data)
    }

    /// Rejects a request because of its ECE options (reason 35). The peer gets the private data.
    ///
    /// # Errors
    /// Of rdma_reject_ece(3).
    pub fn reject_ece(&self, private_data: &[u8]) -> Result<()> {
        cm::reject_ece(&self.0.object, private_data)
    }

    /// The peer's ECE options: those of its request, after `ConnectRequest`, or those of its
    /// acceptance, after `ConnectResponse`. The vendor is 0 if it has sent none.
    ///
    /// ```
    /// # use verbs::{Ece, Result, connection::{Event, Id, Parameters, PreparedQueuePair}};
    /// # fn accept(event: Event, build: fn(&Id) -> Result<PreparedQueuePair>) -> Result<()> {
    /// if let Event::ConnectRequest { id, .. } = event {
    ///     let qp = build(&id)?;
    ///     let asked = id.remote_ece()?;
    ///     if asked.vendor_id != 0 && qp.set_ece(asked).is_ok() {
    ///         id.set_local_ece(qp.ece()?)?; // what the device takes of them
    ///     }
    ///     id.accept(qp, &Parameters::default())?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Of rdma_get_remote_ece(3): EINVAL if the id has a queue pair of librdmacm, which ids of this
    /// crate have not.
    pub fn remote_ece(&self) -> Result<Ece> {
        cm::remote_ece(&self.0.object).map(Ece::of)
    }

    /// Sets the ECE options that [`Id::connect`] or [`Id::accept`] sends to the peer.
    ///
    /// # Errors
    /// Of rdma_set_local_ece(3): EINVAL if the vendor is 0, or the id has a queue pair of
    /// librdmacm, which ids of this crate have not.
    pub fn set_local_ece(&self, ece: Ece) -> Result<()> {
        cm::set_local_ece(&self.0.object, ece.to_c())
    }

    /// Ends the connection, or answers when the peer has ended it.
    /// [`Event::Disconnected`](super::Event) follows at both ends. The queue
    /// pair of this end is shut down by the program
    /// ([`QueuePair::shut_down`](crate::QueuePair::shut_down)).
    ///
    /// # Errors
    /// Of rdma_disconnect(3).
    pub fn disconnect(&self) -> Result<()> {
        cm::disconnect(&self.0.object)
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Id {}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Id");
        shown.field("number", &self.0.number);
        shown.finish_non_exhaustive()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        ids().remove(&self.number);
    }
}
