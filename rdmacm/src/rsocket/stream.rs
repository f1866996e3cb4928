#![forbid(unsafe_code)]
//! Stream sockets, from a new socket to a connection.

use super::cm::{CmEvent, CmId};
use super::connection::Connection;
use super::endpoint::Endpoint;
use super::options::Options;
use super::settings::{self, Sizes};
use super::socket::{Attempt, Kind, Progress, Socket, attempt};
use super::{service, table};
use crate::abi::{Address, Buffers, Conn, event_type, port_space};
use crate::verbs::deferred;
use crate::{address, connect, registry, transition};
use kit::abi::{IBV_QPS_ERR, IBV_QPT_RC};
use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use rsocket_protocol::ConnectData;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Time limit of a first step of connecting, in milliseconds.
const PATIENCE: i32 = 1000;
/// How often a non-blocking socket repeats a step, each time with twice the time limit.
const RETRIES: u32 = 6;
/// Retry count of the transport.
const TRANSPORT_RETRIES: u8 = 7;
/// Time limit of shutting down a transport that completes no request.
const STALL: Duration = Duration::from_secs(60);
/// Limit of connections that wait to be accepted.
const BACKLOG: usize = 1024;
/// `RDMA_OPTION_IB`, `RDMA_OPTION_IB_PATH`
const IB_PATH: (i32, i32) = (1, 1);

/// A step of connecting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Address,
    Route,
    Connect,
}

/// A connection in progress.
pub struct Opening {
    step: Step,
    retries: u32,
    /// A blocking call attempts each step once.
    once: bool,
    destination: Address,
    endpoint: Option<Endpoint>,
}

/// A listening socket.
pub struct Listening {
    backlog: usize,
    queue: VecDeque<Arc<Socket>>,
    paused: bool,
}

/// The phase of a socket's life.
pub enum Phase {
    New,
    Bound,
    Listening(Listening),
    Opening(Opening),
    /// The socket has accepted a request, and the peer has not answered yet.
    Accepting(Endpoint, ConnectData, Weak<Socket>),
    /// The socket was connected; the stream knows whether it still is.
    Connected(Box<Connection>),
    /// Connecting has failed.
    Refused,
    Closed,
}

/// The state of a stream socket. The phase is dropped before the id.
pub struct StreamState {
    pub phase: Phase,
    pub cm: CmId,
    pub sizes: Sizes,
    pub options: Options,
    /// The value of `SO_ERROR`.
    pub error: Option<Errno>,
    changed: bool,
}

/// A new socket.
///
/// # Errors
/// Those of rdma_create_id(3).
pub fn create(family: i32, nonblocking: bool) -> Result<i32> {
    let cm = CmId::new(port_space::RDMA_PS_TCP, IBV_QPT_RC)?;
    let state = StreamState::new(cm, settings::get().sizes);
    let socket = into_socket(state, family, nonblocking)?;
    Ok(socket.fd)
}

fn into_socket(state: StreamState, family: i32, nonblocking: bool) -> Result<Arc<Socket>> {
    let fd = state.cm.fd();
    let kind = Kind::Stream(Box::new(Mutex::new(state)));
    let socket = Arc::new(Socket::new(fd, family, kind, nonblocking));
    table::add(&socket)?;
    Ok(socket)
}

impl Progress for StreamState {
    fn take_progress(&mut self) -> bool {
        let of_connection = match &mut self.phase {
            Phase::Connected(connection) => connection.take_progress(),
            _ => false,
        };
        std::mem::take(&mut self.changed) || of_connection
    }
}

impl StreamState {
    fn new(cm: CmId, sizes: Sizes) -> Self {
        Self {
            phase: Phase::New,
            cm,
            sizes,
            options: Options::default(),
            error: None,
            changed: false,
        }
    }

    /// Whether the sizes may still be changed: accepted sockets have those of their listener.
    pub fn is_fresh(&self) -> bool {
        matches!(self.phase, Phase::New | Phase::Bound | Phase::Listening(_))
    }

    /// # Errors
    /// Those of rdma_bind_addr(3).
    pub fn bind(&mut self, address: &Address) -> Result<()> {
        address::bind(&self.cm.id, address)?;
        if matches!(self.phase, Phase::New) {
            self.phase = Phase::Bound;
        }
        Ok(())
    }

    /// # Errors
    /// EINVAL for a socket that connects; those of rdma_listen(3).
    pub fn listen(&mut self, socket: i32, backlog: i32) -> Result<()> {
        if !matches!(self.phase, Phase::New | Phase::Bound) {
            return match self.phase {
                Phase::Listening(_) => Ok(()),
                _ => Err(Errno::INVAL),
            };
        }
        address::listen(&self.cm.id, backlog)?;
        let most = usize::try_from(backlog).unwrap_or(0);
        self.phase = Phase::Listening(Listening {
            backlog: if most == 0 {
                BACKLOG
            } else {
                most.min(BACKLOG)
            },
            queue: VecDeque::new(),
            paused: false,
        });
        self.watch(socket)
    }

    fn watch(&self, socket: i32) -> Result<()> {
        service::watch(socket, self.cm.borrow()?)
    }

    /// Takes the next established connection.
    ///
    /// # Errors
    /// EBADF for a socket that is not listening.
    pub fn accept(&mut self, socket: i32) -> Result<Option<Arc<Socket>>> {
        let Phase::Listening(listening) = &mut self.phase else {
            return Err(Errno(libc::EBADF));
        };
        let accepted = listening.queue.pop_front();
        if listening.paused && listening.queue.len() < listening.backlog {
            listening.paused = false;
            service::pause(socket, self.cm.borrow()?, false);
        }
        Ok(accepted)
    }

    /// Begins to connect, or reports the progress.
    pub fn connect(&mut self, socket: i32, to: &Address, once: bool) -> Attempt<()> {
        match &self.phase {
            Phase::New | Phase::Bound => {
                if let Err(e) = self.begin_connect(socket, to, once) {
                    self.refuse(e);
                    return Attempt::Done(Err(e));
                }
                Attempt::Wait
            }
            Phase::Opening(_) => Attempt::Wait,
            Phase::Connected(_) => Attempt::Done(Ok(())),
            _ => Attempt::Done(Err(Errno::INVAL)),
        }
    }

    /// The result of [`Self::connect`], once it is known.
    pub fn connected(&mut self) -> Attempt<()> {
        match &self.phase {
            Phase::Opening(_) => Attempt::Wait,
            Phase::Connected(_) => Attempt::Done(Ok(())),
            _ => {
                let e = self.error.unwrap_or(Errno(libc::ECONNREFUSED));
                Attempt::Done(Err(e))
            }
        }
    }

    fn begin_connect(&mut self, socket: i32, to: &Address, once: bool) -> Result<()> {
        self.watch(socket)?;
        address::resolve_addr(&self.cm.id, None, to, PATIENCE)?;
        self.phase = Phase::Opening(Opening {
            step: Step::Address,
            retries: 0,
            once,
            destination: *to,
            endpoint: None,
        });
        Ok(())
    }

    fn refuse(&mut self, e: Errno) {
        self.error = Some(e);
        self.phase = Phase::Refused;
        self.changed = true;
    }

    /// Handles an event of a socket that is not listening.
    fn handle(&mut self, event: &CmEvent) {
        self.changed = true;
        match &mut self.phase {
            Phase::Opening(opening) => {
                let outcome = advance(opening, &self.cm, &self.sizes, &self.options, event);
                match outcome {
                    Ok(None) => {}
                    Ok(Some((endpoint, peer))) => self.establish(endpoint, &peer),
                    Err(e) => self.refuse(e),
                }
            }
            Phase::Connected(connection) => {
                // Data that arrived before the end is read.
                connection.process();
                connection.stream.disconnected();
                // Posted requests are flushed.
                let _ = deferred(|thread| transition::to(&self.cm.id, IBV_QPS_ERR, thread));
            }
            _ => {}
        }
    }

    fn establish(&mut self, endpoint: Endpoint, peer: &ConnectData) {
        let mut connection = Connection::new(endpoint, peer);
        connection.process();
        self.phase = Phase::Connected(Box::new(connection));
        self.changed = true;
    }

    /// The peer of an accepted connection has answered: true, with the listener. Otherwise the
    /// connection has failed.
    fn answer(&mut self, event: &CmEvent) -> Option<(bool, Weak<Socket>)> {
        let Phase::Accepting(..) = &self.phase else {
            return None;
        };
        let Phase::Accepting(endpoint, peer, listener) =
            std::mem::replace(&mut self.phase, Phase::Refused)
        else {
            return None;
        };
        let established = (event.kind, event.status) == (event_type::ESTABLISHED, 0);
        if established {
            self.establish(endpoint, &peer);
        }
        Some((established, listener))
    }

    pub fn ready(&mut self, events: i16) -> i16 {
        let asked = |bit: i16, is: bool| if is { events & bit } else { 0 };
        match &mut self.phase {
            Phase::Connected(connection) => {
                connection.process();
                let stream = &connection.stream;
                let mut ready = asked(libc::POLLIN, stream.unread() > 0 || !stream.is_readable());
                // A program that may not send any more learns so from its next send.
                ready |= asked(libc::POLLOUT, stream.can_send() || !stream.is_writable());
                if stream.has_failed() {
                    ready |= libc::POLLERR;
                } else if !stream.is_connected() {
                    ready |= libc::POLLHUP;
                }
                ready
            }
            Phase::Listening(listening) => asked(libc::POLLIN, !listening.queue.is_empty()),
            Phase::Refused => asked(libc::POLLIN | libc::POLLOUT, true) | libc::POLLERR,
            _ => 0,
        }
    }

    /// # Errors
    /// Those of ibv_req_notify_cq(3).
    pub fn arm(&mut self) -> Result<Option<i32>> {
        let Phase::Connected(connection) = &mut self.phase else {
            return Ok(None);
        };
        connection.take_event();
        connection.arm()?;
        connection.process();
        Ok(Some(connection.endpoint.channel().fd()))
    }

    /// The connection; an error if there is none.
    fn connection(&mut self) -> Attempt<&mut Connection> {
        match &mut self.phase {
            Phase::Connected(connection) => Attempt::Done(Ok(connection)),
            Phase::Opening(_) | Phase::Accepting(..) => Attempt::Wait,
            Phase::Refused => {
                let e = self.error.unwrap_or(Errno::NOTCONN);
                Attempt::Done(Err(e))
            }
            _ => Attempt::Done(Err(Errno::NOTCONN)),
        }
    }

    /// Receives; `done` bytes were received by earlier attempts of the call.
    pub fn receive(&mut self, to: &Buffers, flags: i32, done: &mut usize) -> Attempt<usize> {
        let connection = attempt!(self.connection());
        if to.total() == *done {
            return Attempt::Done(Ok(*done));
        }
        // A peek leaves data unread, so it also looks for data that arrived behind them.
        let peeks = flags & libc::MSG_PEEK != 0;
        let unread = connection.stream.unread();
        if unread == 0 || peeks && unread < to.total() {
            connection.process();
        }
        let stream = &connection.stream;
        if stream.unread() == 0 {
            return match (stream.is_readable(), *done) {
                (true, _) => Attempt::Wait,
                (false, 0) if stream.has_failed() => Attempt::Done(Err(Errno(libc::ECONNRESET))),
                (false, done) => Attempt::Done(Ok(done)),
            };
        }
        if peeks {
            return Attempt::Done(Ok(connection.peek(to)));
        }
        *done += connection.receive(to, *done);
        if flags & libc::MSG_WAITALL != 0 && *done < to.total() {
            return Attempt::Wait;
        }
        Attempt::Done(Ok(*done))
    }

    /// Sends; `done` bytes were sent by earlier attempts of the call.
    pub fn send(&mut self, from: &Buffers, done: &mut usize) -> Attempt<usize> {
        let connection = attempt!(self.connection());
        if !connection.stream.is_writable() {
            return ended(*done);
        }
        if !connection.write_iomaps() {
            return if connection.stream.is_writable() {
                Attempt::Wait
            } else {
                ended(*done)
            };
        }
        *done += connection.send(from, *done);
        if *done == from.total() {
            return Attempt::Done(Ok(*done));
        }
        if !connection.stream.is_writable() {
            return ended(*done);
        }
        Attempt::Wait
    }

    /// Writes to the peer's memory by offset.
    pub fn write_mapped(
        &mut self,
        from: &Buffers,
        offset: u64,
        done: &mut usize,
    ) -> Attempt<usize> {
        let connection = attempt!(self.connection());
        if !connection.stream.is_writable() {
            return ended(*done);
        }
        if !connection.write_iomaps() {
            return Attempt::Wait;
        }
        connection.write_mapped(from, offset, done)
    }

    /// Closes directions of a connection.
    pub fn shut_down(&mut self, how: i32) {
        let reading = matches!(how, libc::SHUT_RD | libc::SHUT_RDWR);
        let writing = matches!(how, libc::SHUT_WR | libc::SHUT_RDWR);
        if let Phase::Connected(connection) = &mut self.phase {
            connection.stream.shut_down(reading, writing);
            connection.send_control();
            connection.last_completion = Instant::now();
            self.changed = true;
        }
    }

    /// Whether everything was sent; otherwise how long to wait for it at most.
    pub fn drained(&mut self) -> Option<Duration> {
        let Phase::Connected(connection) = &mut self.phase else {
            return None;
        };
        connection.process();
        if !connection.stream.is_connected() || connection.stream.is_all_sent() {
            return None;
        }
        let left = STALL.saturating_sub(connection.last_completion.elapsed());
        (!left.is_zero()).then_some(left)
    }

    /// Whether a posted write is still unacknowledged.
    pub fn is_stalled(&self) -> bool {
        match &self.phase {
            Phase::Connected(connection) => {
                connection.stream.is_connected() && !connection.stream.is_all_sent()
            }
            _ => false,
        }
    }

    /// When the next keepalive is due, if they are enabled.
    pub fn keep_alive_due(&self) -> Option<Instant> {
        let Phase::Connected(_) = &self.phase else {
            return None;
        };
        Some(Instant::now() + self.options.keep_alive()?)
    }

    /// Sends a keepalive that is due. Returns the time of the next.
    pub fn on_time(&mut self) -> Option<Instant> {
        let Phase::Connected(connection) = &mut self.phase else {
            return None;
        };
        connection.process();
        let interval = self.options.keep_alive()?;
        if !connection.stream.is_connected() {
            return None;
        }
        connection.keep_alive();
        Some(Instant::now() + interval)
    }

    /// Drops the objects of the socket. Returns the sockets that were not accepted.
    pub fn close(&mut self) -> Vec<Arc<Socket>> {
        let unaccepted = match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Listening(listening) => listening.queue.into(),
            _ => Vec::new(),
        };
        // Other threads may keep the socket for a while; its port is free when the call returns.
        self.cm.end();
        unaccepted
    }
}

/// The result of a send on a socket that may not send any more.
fn ended(done: usize) -> Attempt<usize> {
    match done {
        0 => Attempt::Done(Err(Errno(libc::ECONNRESET))),
        done => Attempt::Done(Ok(done)),
    }
}

/// Executes the next step of connecting. Returns the connection after the last step.
fn advance(
    opening: &mut Opening,
    cm: &CmId,
    sizes: &Sizes,
    options: &Options,
    event: &CmEvent,
) -> Result<Option<(Endpoint, ConnectData)>> {
    match (opening.step, event.kind, event.status) {
        (Step::Address, event_type::ADDR_RESOLVED, 0) => {
            (opening.step, opening.retries) = (Step::Route, 0);
            begin_route(cm, options, PATIENCE)?;
        }
        (Step::Route, event_type::ROUTE_RESOLVED, 0) => {
            opening.step = Step::Connect;
            let endpoint = opening.endpoint.insert(Endpoint::new(&cm.id, sizes)?);
            let conn = Conn {
                flow_control: 1,
                retry_count: TRANSPORT_RETRIES,
                rnr_retry_count: TRANSPORT_RETRIES,
                initiator_depth: u8::from(endpoint.limits.message_is_send),
                ..Conn::default()
            };
            let data = endpoint.connect_data().encode();
            connect::connect(&cm.id, Some((conn, &data)))?;
        }
        (Step::Connect, event_type::ESTABLISHED, 0) => {
            let data = ConnectData::decode(&event.private_data);
            let peer = data.map_err(|_| Errno(libc::ENOTSUP))?;
            let endpoint = opening.endpoint.take().ok_or(Errno::INVAL)?;
            return Ok(Some((endpoint, peer)));
        }
        (step, ..) => {
            let e = event.error();
            let again = e == Errno(libc::ETIMEDOUT)
                && step != Step::Connect
                && !opening.once
                && opening.retries < RETRIES;
            if !again {
                return Err(e);
            }
            opening.retries += 1;
            let patience = PATIENCE << opening.retries;
            match step {
                Step::Address => {
                    address::resolve_addr(&cm.id, None, &opening.destination, patience)?;
                }
                Step::Route | Step::Connect => begin_route(cm, options, patience)?,
            }
        }
    }
    Ok(None)
}

fn begin_route(cm: &CmId, options: &Options, patience: i32) -> Result<()> {
    match options.route() {
        Some(route) => address::set_option(&cm.id, IB_PATH.0, IB_PATH.1, route),
        None => address::resolve_route(&cm.id, patience),
    }
}

/// Handles events of a stream socket. Called by the service thread.
pub fn on_event(socket: &Arc<Socket>) {
    let Kind::Stream(state) = &socket.kind else {
        return;
    };
    loop {
        let mut locked = state.lock();
        let event = match locked.cm.next_event() {
            Ok(Some(event)) => event,
            Ok(None) => break,
            Err(_) => {
                // No further event follows, so the descriptor is not watched any longer.
                if let Ok(fd) = locked.cm.borrow() {
                    service::pause(socket.fd, fd, true);
                }
                break;
            }
        };
        if let Some((established, listener)) = locked.answer(&event) {
            locked.take_progress();
            let due = locked.keep_alive_due();
            drop(locked);
            service::call_at(socket.fd, due);
            hand_over(socket, established, &listener);
            continue;
        }
        if matches!(locked.phase, Phase::Listening(_)) {
            request(socket, &locked, &event);
            continue;
        }
        locked.handle(&event);
        let due = locked.keep_alive_due();
        let changed = locked.take_progress();
        drop(locked);
        if due.is_some() {
            service::call_at(socket.fd, due);
        }
        if changed {
            socket.waiters.wake();
        }
    }
}

/// Adds an accepted socket to its listener's queue, or closes it if connecting failed.
fn hand_over(socket: &Arc<Socket>, established: bool, listener: &Weak<Socket>) {
    if established
        && let Some(listener) = listener.upgrade()
        && let Kind::Stream(state) = &listener.kind
    {
        let mut state = state.lock();
        if let Phase::Listening(listening) = &mut state.phase {
            listening.queue.push_back(socket.clone());
            let full = listening.queue.len() >= listening.backlog;
            if full && !listening.paused {
                listening.paused = true;
                if let Ok(fd) = state.cm.borrow() {
                    service::pause(listener.fd, fd, true);
                }
            }
            drop(state);
            listener.waiters.wake();
            return;
        }
    }
    discard(socket);
}

/// Closes a socket that was not delivered to a program.
pub fn discard(socket: &Arc<Socket>) {
    if table::remove(socket.fd).is_err() {
        return;
    }
    if let Kind::Stream(state) = &socket.kind {
        // The result is not needed, because no call waits for it.
        state.lock().shut_down(libc::SHUT_RDWR);
    }
    dispose(socket);
}

/// Frees the objects of a socket that is no longer in the table.
pub fn dispose(socket: &Arc<Socket>) {
    let unaccepted = match &socket.kind {
        Kind::Stream(state) => {
            let mut state = state.lock();
            let unaccepted = state.close();
            if let Ok(fd) = state.cm.borrow() {
                service::unwatch(fd);
            }
            unaccepted
        }
        Kind::Datagram(state) => {
            state.lock().close();
            Vec::new()
        }
    };
    service::forget(socket.fd);
    for socket in unaccepted {
        discard(&socket);
    }
    socket.waiters.wake();
}

/// Accepts a request to a listener at once, with its connection parameters. A request that cannot
/// be accepted is rejected by destroying its id.
fn request(listener: &Arc<Socket>, state: &StreamState, event: &CmEvent) {
    if event.kind != event_type::CONNECT_REQUEST {
        return;
    }
    let Ok(cm) = registry::id(event.id).and_then(CmId::of_request) else {
        return;
    };
    let Ok(peer) = ConnectData::decode(&event.private_data) else {
        // If the reject cannot be sent, destroying the id rejects the request.
        let _ = connect::reject(&cm.id, 0, &[]);
        return;
    };
    let mut made = StreamState::new(cm, state.sizes);
    made.options = state.options.clone();
    // A failed socket is dropped, which rejects the peer.
    let _ = accept_request(made, event.conn, &peer, listener);
}

fn accept_request(
    mut state: StreamState,
    conn: Conn,
    peer: &ConnectData,
    listener: &Arc<Socket>,
) -> Result<()> {
    let endpoint = Endpoint::new(&state.cm.id, &state.sizes)?;
    let data = endpoint.connect_data().encode();
    let conn = Conn {
        qp_num: 0,
        srq: 0,
        ..conn
    };
    deferred(|thread| connect::accept(&state.cm.id, Some((conn, &data)), thread))?;
    state.phase = Phase::Accepting(endpoint, *peer, Arc::downgrade(listener));
    let socket = into_socket(state, listener.family, false)?;
    socket.receive_timeout.copy(&listener.receive_timeout);
    socket.send_timeout.copy(&listener.send_timeout);
    let watched = match &socket.kind {
        Kind::Stream(state) => state.lock().watch(socket.fd),
        Kind::Datagram(_) => Ok(()),
    };
    watched.inspect_err(|_| discard(&socket))
}
