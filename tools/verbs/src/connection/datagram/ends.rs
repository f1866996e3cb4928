//! Datagrams with separate objects, made by calls that wait.
#![forbid(unsafe_code)]

use std::{
    fmt,
    net::{SocketAddr, ToSocketAddrs},
    os::fd::AsRawFd,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{Destination, Peer};
use crate::{
    address::Endpoint,
    completion::{Completion, CompletionChannel, CompletionQueue},
    connection::{
        Event, EventChannel, Id, Options,
        ends::{addresses, error_of},
        readable,
    },
    context::Context,
    domain::ProtectionDomain,
    error::{Error, PostError, Result},
    memory::Buffer,
    qp::QueuePair,
    request::{ReceiveRequest, SendRequest},
    transport::Datagram,
};

/// The first address with which the attempt succeeds; else the error of the last one.
fn first<T>(to: impl ToSocketAddrs, attempt: impl Fn(SocketAddr) -> Result<T>) -> Result<T> {
    let mut failed = Error::new("getaddrinfo", libc::EADDRNOTAVAIL);
    for address in addresses(to)? {
        match attempt(address) {
            Err(error) => failed = error,
            done => return done,
        }
    }
    Err(failed)
}

/// A new id that is bound to an address, and its events.
fn bound(address: SocketAddr) -> Result<(Id, EventChannel)> {
    let events = EventChannel::new()?;
    let id = Id::datagrams(&events)?;
    id.bind(address)?;
    Ok((id, events))
}

/// Of datagrams, `access` does not count.
impl Options {
    /// Asks a [`DatagramListener`], or any other program that listens there, for its queue pair.
    /// The addresses of a name are tried in their order.
    ///
    /// # Errors
    /// Of the name; the last address's: EHOSTUNREACH or ENODEV where no device leads to it,
    /// ECONNREFUSED if the request was rejected, ETIMEDOUT if there is no answer.
    pub fn connect_datagrams(&self, to: impl ToSocketAddrs) -> Result<Datagrams> {
        first(to, |address| {
            let mut connecting = Connecting::begin(self, address)?;
            loop {
                let event = connecting.events().wait()?;
                if let Some(datagrams) = connecting.advance(&event)? {
                    return Ok(datagrams);
                }
            }
        })
    }

    /// A queue pair of the device that has an address of this machine, with no peer: for multicast
    /// groups, and for peers whose address is known otherwise.
    ///
    /// # Errors
    /// Of the name; of rdma_bind_addr(3): EADDRNOTAVAIL, ENODEV; of making the objects.
    pub fn bind_datagrams(&self, to: impl ToSocketAddrs) -> Result<Datagrams> {
        first(to, |address| {
            let (id, _) = bound(address)?;
            Datagrams::new(self, id)
        })
    }
}

/// A request for a queue pair: events lead from one step to the next.
pub(super) struct Connecting {
    id: Id,
    events: EventChannel,
    options: Options,
    /// What waits for its peer.
    made: Option<Datagrams>,
}

impl Connecting {
    pub(super) fn begin(options: &Options, address: SocketAddr) -> Result<Self> {
        let events = EventChannel::new()?;
        let id = Id::datagrams(&events)?;
        id.resolve_address(address, options.time)?;
        Ok(Self {
            id,
            events,
            options: options.clone(),
            made: None,
        })
    }

    pub(super) fn events(&self) -> &EventChannel {
        &self.events
    }

    pub(super) fn advance(&mut self, event: &Event) -> Result<Option<Datagrams>> {
        if let Some(error) = error_of(event) {
            return Err(error);
        }
        match event {
            Event::AddressResolved { .. } => self.id.resolve_route(self.options.time)?,
            Event::RouteResolved { .. } => {
                self.made = Some(Datagrams::new(&self.options, self.id.clone())?);
                let data = &self.options.parameters.private_data;
                self.id.request_datagrams(data)?;
            }
            Event::DestinationResolved {
                destination,
                private_data,
                ..
            } => {
                if let Some(mut made) = self.made.take() {
                    made.peer = Some(destination.peer(&made.pd)?);
                    made.received.clone_from(private_data);
                    return Ok(Some(made));
                }
            }
            _ => {}
        }
        Ok(None)
    }
}

/// A place where programs ask for a queue pair to which they send datagrams.
#[derive(Debug)]
pub struct DatagramListener {
    id: Id,
    events: EventChannel,
}

impl DatagramListener {
    /// Listens at an address of this machine; port 0 is any free one. Of several addresses it is
    /// the first that can be bound. Ports of datagrams differ from those of connections.
    ///
    /// # Errors
    /// Of the name; of rdma_bind_addr(3), rdma_listen(3): EADDRINUSE, EADDRNOTAVAIL, ENODEV.
    pub fn bind(to: impl ToSocketAddrs) -> Result<Self> {
        first(to, |address| {
            let (id, events) = bound(address)?;
            id.listen(128)?;
            Ok(Self { id, events })
        })
    }

    /// The address, with the port.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.id.local_addr()
    }

    /// Waits for a request, which the program accepts or rejects.
    ///
    /// # Errors
    /// Of rdma_get_cm_event(3); ENODEV if the device goes away.
    pub fn request(&self) -> Result<DatagramRequest> {
        loop {
            if let Some(request) = DatagramRequest::of(self.events().wait()?)? {
                return Ok(request);
            }
        }
    }

    /// Waits for a request and accepts it, with a queue pair for this peer alone.
    ///
    /// # Errors
    /// Of [`DatagramListener::request`] and [`DatagramRequest::accept`].
    pub fn accept(&self) -> Result<Datagrams> {
        self.request()?.accept(&Options::new())
    }

    pub(super) fn events(&self) -> &EventChannel {
        &self.events
    }
}

/// A peer that asks for a queue pair. If it is dropped, the peer is rejected.
#[derive(Debug)]
pub struct DatagramRequest {
    id: Id,
    private_data: Vec<u8>,
}

impl DatagramRequest {
    /// The request of an event of a listener.
    pub(super) fn of(event: Event) -> Result<Option<Self>> {
        match event {
            Event::ConnectRequest { id, parameters, .. } => Ok(Some(Self {
                id,
                private_data: parameters.private_data,
            })),
            Event::DeviceRemoval { .. } => Err(Error::new("rdma_get_cm_event", libc::ENODEV)),
            _ => Ok(None),
        }
    }

    /// The peer's private data; zeros may follow it.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// The peer's address.
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.id.peer_addr()
    }

    /// Accepts it with a new queue pair. The peer's own queue pair is not known by that
    /// ([`Datagrams::peer`]).
    ///
    /// # Errors
    /// Of making the objects, and of rdma_accept(3): EINVAL for more than 136 bytes of private
    /// data.
    pub fn accept(self, options: &Options) -> Result<Datagrams> {
        let mut made = Datagrams::new(options, self.id.clone())?;
        let data = &options.parameters.private_data;
        self.id.accept_datagrams(&made.qp, data)?;
        made.received = self.private_data;
        Ok(made)
    }

    /// Accepts it with a queue pair that is there, and that may serve many peers; with private
    /// data for the peer.
    ///
    /// # Errors
    /// Of rdma_accept(3): EINVAL if the queue pair is of another device, and for more than 136
    /// bytes of private data.
    pub fn accept_with(self, datagrams: &Datagrams, private_data: &[u8]) -> Result<()> {
        self.id.accept_datagrams(&datagrams.qp, private_data)
    }

    /// Rejects it, with bytes for the peer's program.
    ///
    /// # Errors
    /// Of rdma_reject(3).
    pub fn reject(self, private_data: &[u8]) -> Result<()> {
        self.id.reject(private_data)
    }
}

/// A queue pair for datagrams with a protection domain and a completion queue, a peer's address,
/// and multicast groups.
///
/// A message is lost if the receiver has no request for it. The first 40 bytes of a received
/// buffer are those of the global routing header.
///
/// ```
/// use verbs::{ReceiveRequest, SendRequest, connection::{DatagramListener, Datagrams}};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # verbs::use_uroce("lo");
/// let listener = DatagramListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr().ok_or("no address")?;
/// let server = std::thread::spawn(move || -> verbs::Result<Datagrams> {
///     let request = listener.request()?;
///     let datagrams = Datagrams::bind("127.0.0.1:0")?;
///     datagrams.post_receive(ReceiveRequest::new(datagrams.buffer(40 + 64)?))?;
///     request.accept_with(&datagrams, b"")?; // there is room for a message now
///     Ok(datagrams)
/// });
///
/// let datagrams = Datagrams::connect(address)?;
/// datagrams.post(SendRequest::send(datagrams.buffer(5)?))?;
/// for completion in datagrams.completions()? {
///     completion.success()?;
/// }
/// let server = server.join().map_err(|_| "panicked")??;
/// assert_eq!(server.completions()?.remove(0).success()?.bytes, 40 + 5);
/// # Ok(())
/// # }
/// ```
pub struct Datagrams {
    // Before the groups, which it is detached from first.
    qp: QueuePair<Datagram>,
    groups: Mutex<Vec<Joined>>,
    id: Id,
    queue: CompletionQueue,
    channel: CompletionChannel,
    pd: ProtectionDomain,
    peer: Option<Peer>,
    received: Vec<u8>,
}

/// A group, with the id that is its member until it is dropped.
struct Joined {
    group: SocketAddr,
    destination: Destination,
    send_only: bool,
    _id: Id,
}

impl Datagrams {
    /// Asks a listener for its queue pair, with the settings of [`Options::new`].
    ///
    /// # Errors
    /// Of [`Options::connect_datagrams`].
    pub fn connect(to: impl ToSocketAddrs) -> Result<Self> {
        Options::new().connect_datagrams(to)
    }

    /// A queue pair without a peer, with the settings of [`Options::new`].
    ///
    /// # Errors
    /// Of [`Options::bind_datagrams`].
    pub fn bind(to: impl ToSocketAddrs) -> Result<Self> {
        Options::new().bind_datagrams(to)
    }

    fn new(options: &Options, id: Id) -> Result<Self> {
        let none = Error::new("rdma_bind_addr", libc::ENODEV);
        let context = id.context().ok_or(none)?;
        let pd = context.protection_domain()?;
        let channel = CompletionChannel::nonblocking(&context)?;
        let queue = channel.completion_queue(options.sends.saturating_add(options.receives))?;
        let builder = pd.datagram(&queue).sends(options.sends);
        let builder = builder
            .receives(options.receives)
            .segments(options.segments);
        let qp = id.datagram_queue_pair(builder.inline(options.inline))?;
        Ok(Self {
            qp,
            groups: Mutex::default(),
            id,
            queue,
            channel,
            pd,
            peer: None,
            received: Vec::new(),
        })
    }

    /// Registered memory for its requests ([`ProtectionDomain::buffer`]).
    ///
    /// # Errors
    /// Of ibv_reg_mr(3).
    pub fn buffer(&self, length: usize) -> Result<Buffer> {
        self.pd.buffer(length)
    }

    /// Posts a message to the peer.
    ///
    /// # Errors
    /// Of [`QueuePair::post_to`]; EDESTADDRREQ, with the request, if there is no peer.
    pub fn post(&self, request: SendRequest) -> std::result::Result<(), PostError<SendRequest>> {
        match &self.peer {
            Some(peer) => self.post_to(request, peer),
            None => {
                let error = Error::new("ibv_post_send", libc::EDESTADDRREQ);
                Err(PostError::new(error.because("there is no peer"), request))
            }
        }
    }

    /// Posts a message to a group, or another peer.
    ///
    /// # Errors
    /// Of [`QueuePair::post_to`].
    pub fn post_to(
        &self,
        request: SendRequest,
        to: &Peer,
    ) -> std::result::Result<(), PostError<SendRequest>> {
        self.qp.post_to(request, &to.address, to.number, to.qkey)
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// Of [`QueuePair::post_receive`].
    pub fn post_receive(
        &self,
        request: ReceiveRequest,
    ) -> std::result::Result<(), PostError<ReceiveRequest>> {
        self.qp.post_receive(request)
    }

    /// Waits until there are completions.
    ///
    /// # Errors
    /// Of ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
    pub fn completions(&self) -> Result<Vec<Completion>> {
        loop {
            if let Some(completions) = self.try_completions()? {
                return Ok(completions);
            }
            readable([self.channel.as_raw_fd()], None)?;
        }
    }

    /// Takes completions, or asks for an event.
    pub(super) fn try_completions(&self) -> Result<Option<Vec<Completion>>> {
        // Those before the queue is asked for an event have none.
        for asked in [false, true] {
            let completions = self.queue.poll()?;
            if !completions.is_empty() {
                return Ok(Some(completions));
            }
            if !asked {
                self.channel.clear()?;
                self.queue.request_event()?;
            }
        }
        Ok(None)
    }

    /// Joins a multicast group, and waits until it is a member: its messages are received, and the
    /// result is where they are sent. The port of the address does not count.
    ///
    /// # Errors
    /// Of rdma_join_multicast(3): EINVAL for an address that is no group; an errno of the system
    /// for groups of IPv6 over RoCE; EADDRINUSE if it has joined the group; of ibv_create_ah(3) and
    /// ibv_attach_mcast(3).
    pub fn join(&self, group: SocketAddr) -> Result<Peer> {
        self.wait_for(Joining::begin(self, group, false)?)
    }

    /// The same, as a member that only sends: it receives no messages of the group.
    ///
    /// # Errors
    /// As above.
    pub fn join_send_only(&self, group: SocketAddr) -> Result<Peer> {
        self.wait_for(Joining::begin(self, group, true)?)
    }

    fn wait_for(&self, joining: Joining) -> Result<Peer> {
        loop {
            let event = joining.events().wait()?;
            if let Some(peer) = joining.advance(self, &event)? {
                return Ok(peer);
            }
        }
    }

    /// Leaves a multicast group.
    ///
    /// # Errors
    /// EADDRNOTAVAIL if it has not joined the group; of ibv_detach_mcast(3).
    pub fn leave(&self, group: SocketAddr) -> Result<()> {
        let mut groups = self.groups();
        let of_group = |one: &Joined| one.group == group;
        let none = Error::new("rdma_leave_multicast", libc::EADDRNOTAVAIL);
        let at = groups.iter().position(of_group).ok_or(none)?;
        if let Some(one) = groups.get(at).filter(|one| !one.send_only) {
            one.destination.detach(&self.qp)?;
        }
        // Its id leaves the group.
        groups.remove(at);
        Ok(())
    }

    fn groups(&self) -> MutexGuard<'_, Vec<Joined>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The peer that has answered; none of a queue pair that was bound, or made for a request.
    #[must_use]
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    /// A peer whose [`Endpoint`] is known otherwise, for example of its private data or first
    /// message.
    ///
    /// # Errors
    /// Of ibv_create_ah(3).
    pub fn peer_at(&self, endpoint: &Endpoint) -> Result<Peer> {
        let address = self.qp.address_handle(endpoint)?;
        Ok(Peer::new(address, endpoint.number, endpoint.qkey))
    }

    /// The sender of a datagram that was received here, for an answer. A datagram does not contain
    /// the sender's key; here it is the key of this queue pair, which is the same if both were made
    /// by the connection manager.
    ///
    /// # Errors
    /// Of [`QueuePair::answer_handle`].
    pub fn sender(&self, datagram: &Completion) -> Result<Peer> {
        let address = self.qp.answer_handle(datagram)?;
        Ok(Peer::new(address, datagram.source, self.endpoint().qkey))
    }

    /// The address of its queue pair, for peers.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.qp.endpoint()
    }

    /// The peer's private data; zeros may follow it.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        &self.received
    }

    /// The address of this end.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.id.local_addr()
    }

    /// The address of the other end, if there is one.
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.id.peer_addr()
    }

    /// Its queue pair.
    #[must_use]
    pub fn queue_pair(&self) -> &QueuePair<Datagram> {
        &self.qp
    }

    /// The queue of its completions. A program may poll it as well.
    #[must_use]
    pub fn queue(&self) -> &CompletionQueue {
        &self.queue
    }

    /// Its protection domain.
    #[must_use]
    pub fn protection_domain(&self) -> &ProtectionDomain {
        &self.pd
    }

    /// The open device.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.pd.context()
    }

    #[cfg(feature = "tokio")]
    pub(super) fn channel(&self) -> &CompletionChannel {
        &self.channel
    }
}

/// A group that is being joined, by a separate id: its events are of this group alone.
pub(super) struct Joining {
    id: Id,
    events: EventChannel,
    group: SocketAddr,
    send_only: bool,
}

impl Joining {
    pub(super) fn begin(of: &Datagrams, group: SocketAddr, send_only: bool) -> Result<Self> {
        const FUNCTION: &str = "rdma_join_multicast";
        let mut address = of.local_addr().ok_or(Error::new(FUNCTION, libc::EINVAL))?;
        address.set_port(0);
        let (id, events) = bound(address)?;
        let joining = Self {
            id,
            events,
            group,
            send_only,
        };
        joining.expect_new(&of.groups())?;
        joining.id.join_multicast(group, send_only)?;
        Ok(joining)
    }

    fn expect_new(&self, groups: &[Joined]) -> Result<()> {
        match groups.iter().any(|one| one.group == self.group) {
            false => Ok(()),
            true => {
                let used = Error::new("rdma_join_multicast", libc::EADDRINUSE);
                Err(used.because("it has joined the group"))
            }
        }
    }

    pub(super) fn events(&self) -> &EventChannel {
        &self.events
    }

    pub(super) fn advance(&self, of: &Datagrams, event: &Event) -> Result<Option<Peer>> {
        match event {
            Event::MulticastJoin { destination, .. } => {
                let peer = destination.peer(&of.pd)?;
                let mut groups = of.groups();
                self.expect_new(&groups)?;
                if !self.send_only {
                    destination.attach(&of.qp)?;
                }
                groups.push(Joined {
                    group: self.group,
                    destination: *destination,
                    send_only: self.send_only,
                    _id: self.id.clone(),
                });
                Ok(Some(peer))
            }
            Event::MulticastError { error, .. } => Err(*error),
            event => error_of(event).map_or(Ok(None), Err),
        }
    }
}

impl fmt::Debug for Datagrams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Datagrams");
        shown.field("local_addr", &self.local_addr());
        shown.field("peer_addr", &self.peer_addr());
        shown.finish_non_exhaustive()
    }
}
