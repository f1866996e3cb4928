//! Connections as those of TCP: each with separate objects, made by calls that wait.
#![forbid(unsafe_code)]

use std::{
    fmt,
    net::{SocketAddr, ToSocketAddrs},
    os::fd::AsRawFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{Event, EventChannel, Id, Parameters, PreparedQueuePair, readable};
use crate::{
    completion::{Completion, CompletionChannel, CompletionQueue},
    context::Context,
    domain::ProtectionDomain,
    error::{Error, PostError, Result},
    memory::{Access, Buffer},
    qp::QueuePair,
    request::{ReceiveRequest, SendRequest},
    sys::cm::Signal,
    transport::Reliable,
};

/// What a [`Connection`] has: the settings of its queue pair, and what the peer is received.
#[derive(Clone, Debug)]
#[must_use = "`connect` or `Request::accept` makes a connection"]
pub struct Options {
    pub(super) sends: u32,
    pub(super) receives: u32,
    pub(super) segments: u32,
    pub(super) inline: u32,
    access: Access,
    pub(super) time: Duration,
    pub(super) parameters: Parameters,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sends: 16,
            receives: 16,
            segments: 1,
            inline: 0,
            access: Access::LOCAL,
            time: Duration::from_secs(2),
            parameters: Parameters::default(),
        }
    }
}

impl Options {
    /// The settings that connections have if none are given.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many send requests may be in flight; 16 otherwise.
    pub fn sends(mut self, requests: u32) -> Self {
        self.sends = requests;
        self
    }

    /// How many receive requests may be in flight; 16 otherwise.
    pub fn receives(mut self, requests: u32) -> Self {
        self.receives = requests;
        self
    }

    /// How many segments a request may have; one otherwise.
    pub fn segments(mut self, segments: u32) -> Self {
        self.segments = segments;
        self
    }

    /// How many bytes an inline request may have; none otherwise.
    pub fn inline(mut self, bytes: u32) -> Self {
        self.inline = bytes;
        self
    }

    /// What the peer may do; nothing otherwise. A memory region has to allow it as well.
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// How long the search for the device, and for the way, may take; 2 seconds each otherwise.
    pub fn resolve_within(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// Bytes for the program at the other end ([`Parameters::private_data`]).
    pub fn private_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.parameters.private_data = data.into();
        self
    }

    /// Connects to a [`Listener`] or any other program that listens there. The addresses of a name
    /// are tried in their order.
    ///
    /// # Errors
    /// Of the name; the last address's: EHOSTUNREACH or ENODEV where no device leads to it,
    /// ECONNREFUSED if the request was rejected, ETIMEDOUT if there is no answer.
    pub fn connect(&self, to: impl ToSocketAddrs) -> Result<Connection> {
        let mut failed = Error::new("getaddrinfo", libc::EADDRNOTAVAIL);
        for address in addresses(to)? {
            match self.connect_to(address) {
                Err(error) => failed = error,
                connected => return connected,
            }
        }
        Err(failed)
    }

    fn connect_to(&self, address: SocketAddr) -> Result<Connection> {
        let mut connecting = Connecting::begin(self, address)?;
        loop {
            let event = connecting.events().wait()?;
            if let Some(connection) = connecting.advance(event)? {
                return Ok(connection);
            }
        }
    }

    fn prepare(&self, id: &Id) -> Result<(Made, PreparedQueuePair)> {
        let none = Error::new("rdma_resolve_addr", libc::ENODEV);
        let context = id.context().ok_or(none)?;
        let pd = context.protection_domain()?;
        let channel = CompletionChannel::nonblocking(&context)?;
        let queue = channel.completion_queue(self.sends.saturating_add(self.receives))?;
        let builder = pd.reliable(&queue).sends(self.sends);
        let builder = builder.receives(self.receives).segments(self.segments);
        let qp = id.prepare(builder.inline(self.inline).access(self.access))?;
        let parts = Made {
            pd,
            channel,
            queue,
            end_signal: Arc::new(Signal::new()?),
        };
        Ok((parts, qp))
    }
}

pub(super) fn addresses(to: impl ToSocketAddrs) -> Result<impl Iterator<Item = SocketAddr>> {
    let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EADDRNOTAVAIL);
    to.to_socket_addrs()
        .map_err(|error| Error::new("getaddrinfo", errno(error)))
}

/// The objects of a connection, beside its queue pair.
struct Made {
    pd: ProtectionDomain,
    channel: CompletionChannel,
    queue: CompletionQueue,
    end_signal: Arc<Signal>,
}

/// The error of an event that ends an attempt; none for other events.
pub(super) fn error_of(event: &Event) -> Option<Error> {
    Some(match event {
        Event::AddressError { error, .. }
        | Event::RouteError { error, .. }
        | Event::ConnectError { error, .. }
        | Event::Unreachable { error, .. } => *error,
        Event::Rejected { .. } => {
            let error = Error::new("rdma_connect", libc::ECONNREFUSED);
            error.because("the peer has rejected the request")
        }
        Event::Disconnected { .. } => Error::new("rdma_connect", libc::ECONNRESET),
        Event::DeviceRemoval { .. } => Error::new("rdma_get_cm_event", libc::ENODEV),
        _ => return None,
    })
}

/// A connection that is being made by this end: events lead from one step to the next.
pub(super) struct Connecting {
    id: Id,
    events: EventChannel,
    options: Options,
    prepared: Option<(Made, PreparedQueuePair)>,
}

impl Connecting {
    pub(super) fn begin(options: &Options, address: SocketAddr) -> Result<Self> {
        let events = EventChannel::new()?;
        let id = Id::new(&events)?;
        id.resolve_address(address, options.time)?;
        Ok(Self {
            id,
            events,
            options: options.clone(),
            prepared: None,
        })
    }

    pub(super) fn events(&self) -> &EventChannel {
        &self.events
    }

    pub(super) fn advance(&mut self, event: Event) -> Result<Option<Connection>> {
        if let Some(error) = error_of(&event) {
            return Err(error);
        }
        match (event, self.prepared.take()) {
            (Event::AddressResolved { .. }, _) => self.id.resolve_route(self.options.time)?,
            (Event::RouteResolved { .. }, _) => {
                let (parts, qp) = self.options.prepare(&self.id)?;
                self.id.connect(&qp, &self.options.parameters)?;
                self.prepared = Some((parts, qp));
            }
            (Event::ConnectResponse { parameters, .. }, Some((parts, qp))) => {
                let qp = self.id.establish(qp)?;
                return Ok(Some(self.connection(parts, qp, parameters)));
            }
            // On iWARP.
            (Event::Established { parameters, .. }, Some((parts, qp))) => {
                let qp = self.id.connected(qp, None)?;
                return Ok(Some(self.connection(parts, qp, parameters)));
            }
            (_, prepared) => self.prepared = prepared,
        }
        Ok(None)
    }

    fn connection(&self, parts: Made, qp: QueuePair<Reliable>, received: Parameters) -> Connection {
        Connection::new(self.id.clone(), self.events.clone(), parts, qp, received)
    }
}

/// A place where connections arrive.
#[derive(Debug)]
pub struct Listener {
    id: Id,
    events: EventChannel,
}

impl Listener {
    /// Listens at an address of this machine; port 0 is any free one. Of several addresses it is
    /// the first that can be bound.
    ///
    /// # Errors
    /// Of the name; of rdma_bind_addr(3), rdma_listen(3): EADDRINUSE, EADDRNOTAVAIL, ENODEV.
    pub fn bind(to: impl ToSocketAddrs) -> Result<Self> {
        let mut failed = Error::new("getaddrinfo", libc::EADDRNOTAVAIL);
        for address in addresses(to)? {
            match Self::bind_to(address) {
                Err(error) => failed = error,
                bound => return bound,
            }
        }
        Err(failed)
    }

    fn bind_to(address: SocketAddr) -> Result<Self> {
        let events = EventChannel::new()?;
        let id = Id::new(&events)?;
        id.bind(address)?;
        id.listen(128)?;
        Ok(Self { id, events })
    }

    /// The address, with the port.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.id.local_addr()
    }

    /// Waits for a request and accepts it.
    ///
    /// # Errors
    /// Of [`Listener::request`] and [`Request::accept`]. The latter concern one peer; the listener
    /// can continue.
    pub fn accept(&self) -> Result<Connection> {
        self.accept_with(&Options::new())
    }

    /// The same, with settings.
    ///
    /// # Errors
    /// As above.
    pub fn accept_with(&self, options: &Options) -> Result<Connection> {
        self.request()?.accept(options)
    }

    /// Waits for a request, which the program accepts or rejects.
    ///
    /// # Errors
    /// Of rdma_get_cm_event(3); ENODEV if the device goes away.
    pub fn request(&self) -> Result<Request> {
        loop {
            if let Some(request) = Request::of(self.events().wait()?)? {
                return Ok(request);
            }
        }
    }

    pub(super) fn events(&self) -> &EventChannel {
        &self.events
    }
}

/// A peer that asks for a connection. If it is dropped, the peer is rejected.
#[derive(Debug)]
pub struct Request {
    id: Id,
    parameters: Parameters,
}

impl Request {
    /// The request of an event of a listener.
    pub(super) fn of(event: Event) -> Result<Option<Self>> {
        match event {
            Event::ConnectRequest { id, parameters, .. } => Ok(Some(Self { id, parameters })),
            Event::DeviceRemoval { .. } => Err(Error::new("rdma_get_cm_event", libc::ENODEV)),
            _ => Ok(None),
        }
    }

    /// The peer's private data; zeros may follow it.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        &self.parameters.private_data
    }

    /// The peer's address.
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.id.peer_addr()
    }

    /// Accepts it, and waits until the connection is there.
    ///
    /// # Errors
    /// Of making the objects, of rdma_migrate_id(3) and rdma_accept(3); ETIMEDOUT, ECONNRESET or
    /// ECONNREFUSED if the peer does not complete the connection.
    pub fn accept(self, options: &Options) -> Result<Connection> {
        let mut accepting = Accepting::begin(self, options)?;
        loop {
            let event = accepting.events().wait()?;
            if let Some(connection) = accepting.advance(&event)? {
                return Ok(connection);
            }
        }
    }

    /// Rejects it, with bytes for the peer's program.
    ///
    /// # Errors
    /// Of rdma_reject(3).
    pub fn reject(self, private_data: &[u8]) -> Result<()> {
        self.id.reject(private_data)
    }
}

/// A request that was accepted.
pub(super) struct Accepting {
    id: Id,
    events: EventChannel,
    received: Parameters,
    parts: Option<(Made, QueuePair<Reliable>)>,
}

impl Accepting {
    pub(super) fn begin(request: Request, options: &Options) -> Result<Self> {
        let Request { id, parameters } = request;
        let events = EventChannel::new()?;
        id.migrate(&events)?;
        let (parts, qp) = options.prepare(&id)?;
        let qp = id.accept(qp, &options.parameters)?;
        Ok(Self {
            id,
            events,
            received: parameters,
            parts: Some((parts, qp)),
        })
    }

    pub(super) fn events(&self) -> &EventChannel {
        &self.events
    }

    pub(super) fn advance(&mut self, event: &Event) -> Result<Option<Connection>> {
        if let Some(error) = error_of(event) {
            return Err(error);
        }
        if !matches!(event, Event::Established { .. }) {
            return Ok(None);
        }
        Ok(self.parts.take().map(|(parts, qp)| {
            let received = std::mem::take(&mut self.received);
            Connection::new(self.id.clone(), self.events.clone(), parts, qp, received)
        }))
    }
}

/// A reliable connection, with a protection domain, a completion queue and a separate queue pair.
///
/// When it is dropped, the connection ends, and requests in flight are lost: a program waits for
/// the completions of its messages first.
pub struct Connection {
    id: Id,
    events: EventChannel,
    qp: QueuePair<Reliable>,
    queue: CompletionQueue,
    channel: CompletionChannel,
    pd: ProtectionDomain,
    received: Parameters,
    ended: AtomicBool,
    /// Wakes all who wait, as only one of them takes the event.
    end_signal: Arc<Signal>,
}

impl Connection {
    /// Connects to a [`Listener`], with the settings of [`Options::new`].
    ///
    /// # Errors
    /// Of [`Options::connect`].
    pub fn connect(to: impl ToSocketAddrs) -> Result<Self> {
        Options::new().connect(to)
    }

    fn new(
        id: Id,
        events: EventChannel,
        parts: Made,
        qp: QueuePair<Reliable>,
        received: Parameters,
    ) -> Self {
        Self {
            id,
            events,
            qp,
            queue: parts.queue,
            channel: parts.channel,
            pd: parts.pd,
            received,
            ended: AtomicBool::new(false),
            end_signal: parts.end_signal,
        }
    }

    /// Registered memory for its requests ([`ProtectionDomain::buffer`]).
    ///
    /// # Errors
    /// Of ibv_reg_mr(3).
    pub fn buffer(&self, length: usize) -> Result<Buffer> {
        self.pd.buffer(length)
    }

    /// Posts a send request.
    ///
    /// # Errors
    /// Of [`QueuePair::post`].
    pub fn post(&self, request: SendRequest) -> std::result::Result<(), PostError<SendRequest>> {
        self.qp.post(request)
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

    /// Waits until there are completions. When the connection has ended, all requests complete: as
    /// flushed, if they were not executed. Afterwards it fails with ENOTCONN, and waits no more.
    ///
    /// # Errors
    /// Of ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3), rdma_get_cm_event(3).
    pub fn completions(&self) -> Result<Vec<Completion>> {
        let fds = [
            self.channel.as_raw_fd(),
            self.events.as_raw_fd(),
            self.end_signal.as_raw_fd(),
        ];
        loop {
            if let Some(completions) = self.try_completions()? {
                return Ok(completions);
            }
            readable(fds, None)?;
        }
    }

    /// Takes completions, or asks for events at both channels.
    pub(super) fn try_completions(&self) -> Result<Option<Vec<Completion>>> {
        self.take_events()?;
        // Those before the queue is asked for an event have none.
        for asked in [false, true] {
            let completions = self.queue.poll()?;
            if !completions.is_empty() {
                self.is_over();
                return Ok(Some(completions));
            }
            if !asked {
                self.channel.clear()?;
                self.queue.request_event()?;
            }
        }
        if self.is_over() {
            let error = Error::new("ibv_poll_cq", libc::ENOTCONN);
            return Err(error.because("the connection has ended"));
        }
        Ok(None)
    }

    /// Whether the connection has ended and no further completion follows.
    fn is_over(&self) -> bool {
        let is_over = self.ended.load(Ordering::Acquire) && !self.qp.awaits_completions();
        if is_over {
            self.end_signal.raise();
        }
        is_over
    }

    fn take_events(&self) -> Result<()> {
        while let Some(event) = self.events.poll()? {
            let ends = matches!(
                event,
                Event::Disconnected { .. } | Event::DeviceRemoval { .. }
            );
            if ends {
                // The answer, without which the peer waits for some time. There is none to give if
                // this end began.
                let _ = self.id.disconnect();
                self.end()?;
            }
        }
        Ok(())
    }

    fn end(&self) -> Result<()> {
        match self.ended.swap(true, Ordering::AcqRel) {
            true => Ok(()),
            false => {
                // All requests complete.
                let shut_down = self.qp.shut_down();
                self.is_over();
                shut_down
            }
        }
    }

    /// Whether the connection has not ended, as far as events have arrived.
    ///
    /// # Errors
    /// Of rdma_get_cm_event(3), ibv_modify_qp(3).
    pub fn is_connected(&self) -> Result<bool> {
        self.take_events()?;
        Ok(!self.ended.load(Ordering::Acquire))
    }

    /// Ends the connection for both ends. Requests that wait complete as flushed
    /// ([`Connection::completions`]).
    ///
    /// # Errors
    /// Of rdma_disconnect(3), ibv_modify_qp(3).
    pub fn disconnect(&self) -> Result<()> {
        let disconnected = self.id.disconnect();
        self.end()?;
        disconnected
    }

    /// The peer's private data; zeros may follow it.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        &self.received.private_data
    }

    /// The address of this end.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.id.local_addr()
    }

    /// The address of the other end.
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.id.peer_addr()
    }

    /// Its queue pair.
    #[must_use]
    pub fn queue_pair(&self) -> &QueuePair<Reliable> {
        &self.qp
    }

    /// The queue of its completions. A program may poll it as well.
    #[must_use]
    pub fn queue(&self) -> &CompletionQueue {
        &self.queue
    }

    /// Its protection domain, for memory regions.
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
    pub(super) fn channels(&self) -> (&CompletionChannel, &EventChannel, &Arc<Signal>) {
        (&self.channel, &self.events, &self.end_signal)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Connection");
        shown.field("local_addr", &self.local_addr());
        shown.field("peer_addr", &self.peer_addr());
        shown.finish_non_exhaustive()
    }
}
