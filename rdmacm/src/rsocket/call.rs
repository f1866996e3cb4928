#![forbid(unsafe_code)]
//! Calls that may wait.
//!
//! A call consists of steps, none of which waits: a step does all that is possible, and returns the
//! events to sleep for. The sleep itself is in C (`export/rsocket.c`), where a thread can be
//! cancelled. The data that a call keeps between its steps is a [`State`].

use super::datagram::DatagramState;
use super::socket::{Attempt, Kind, Socket};
use super::stream::StreamState;
use super::waiter::Waiter;
use super::{service, settings, stream, table};
use crate::abi::{Address, Buffers};
use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use libc::pollfd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A call on one socket, with its arguments.
pub enum Operation<'a> {
    Connect(&'a Address),
    Accept,
    Receive {
        to: &'a Buffers,
        flags: i32,
    },
    Send {
        from: &'a Buffers,
        flags: i32,
        to: Option<&'a Address>,
    },
    WriteMapped {
        from: &'a Buffers,
        flags: i32,
        offset: u64,
    },
    Shutdown(i32),
    Close,
}

/// The result of a call.
#[derive(Clone, Copy, Default)]
pub struct Answer {
    pub value: usize,
    /// The peer's address, for calls that return it.
    pub address: Option<Address>,
}

impl From<usize> for Answer {
    fn from(value: usize) -> Self {
        Self {
            value,
            address: None,
        }
    }
}

/// The next action.
pub enum Step {
    Done(Result<Answer>),
    /// Sleep as [`Pending`] states, then step again.
    Sleep,
}

/// Conditions that wake a sleeping thread.
pub struct Pending {
    pub waiter: Arc<Waiter>,
    pub sockets: Vec<Arc<Socket>>,
    /// Descriptors that end the sleep.
    pub sleep: Vec<pollfd>,
    /// Timeout in milliseconds.
    pub timeout: i32,
}

impl Pending {
    /// # Errors
    /// Those of [`Waiter::borrow`].
    pub fn new(sockets: Vec<Arc<Socket>>) -> Result<Box<Self>> {
        let waiter = Waiter::borrow()?;
        for socket in &sockets {
            socket.waiters.add(&waiter);
        }
        Ok(Box::new(Self {
            waiter,
            sockets,
            sleep: Vec::new(),
            timeout: -1,
        }))
    }

    /// Sleeps until the thread is woken, one of the descriptors is ready, or the time is over.
    pub fn sleep(&mut self, fds: impl IntoIterator<Item = pollfd>, longest: Option<Duration>) {
        self.sleep.clear();
        self.sleep.push(watched(self.waiter.fd(), libc::POLLIN));
        self.sleep.extend(fds);
        self.timeout = longest.map_or(-1, milliseconds);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        for socket in &self.sockets {
            socket.waiters.remove(&self.waiter);
        }
        self.waiter.clone().give_back();
    }
}

pub fn watched(fd: i32, events: i16) -> pollfd {
    pollfd {
        fd,
        events,
        revents: 0,
    }
}

/// Rounds up, so that the sleep is not too short.
fn milliseconds(time: Duration) -> i32 {
    let up = time.saturating_add(Duration::from_nanos(999_999));
    i32::try_from(up.as_millis()).unwrap_or(i32::MAX)
}

/// A call in progress.
#[derive(Default)]
pub struct State {
    pub pending: Option<Box<Pending>>,
    /// Bytes of earlier steps, or 1 after a step.
    done: usize,
    /// A socket that is being closed: the table does not contain it any more.
    closing: Option<Arc<Socket>>,
    pub deadline: Option<Instant>,
    /// The descriptors of rselect.
    pub polled: Vec<pollfd>,
}

impl State {
    /// The thread was cancelled in its sleep: finishes without a wait.
    pub fn cancelled(mut self) {
        self.pending = None;
        if let Some(socket) = self.closing.take() {
            stream::dispose(&socket);
        }
    }

    /// Bounds the sleep that is about to begin, counted from the first one; false if that time is
    /// over.
    fn has_time(&mut self, bound: Option<Duration>) -> bool {
        let Some(bound) = bound else {
            return true;
        };
        let now = Instant::now();
        if self.deadline.is_none() {
            self.deadline = now.checked_add(bound);
        }
        // A time that the clock does not reach is no bound.
        let Some(deadline) = self.deadline else {
            return true;
        };
        let left = deadline.saturating_duration_since(now);
        if let Some(pending) = &mut self.pending {
            pending.timeout = milliseconds(left);
        }
        !left.is_zero()
    }

    /// The thread's waiter, if it has slept.
    pub fn own(&self) -> Option<Arc<Waiter>> {
        self.pending.as_ref().map(|pending| pending.waiter.clone())
    }
}

/// Executes a step of a call. `interrupted` means that a signal ended the sleep.
pub fn step(state: &mut State, fd: i32, operation: &Operation, interrupted: bool) -> Step {
    match operation {
        Operation::Close => return close(state, fd),
        Operation::Shutdown(how) => return shut_down(state, fd, *how),
        _ => {}
    }
    let socket = match table::socket(fd) {
        Ok(socket) => socket,
        Err(e) => return Step::Done(Err(e)),
    };
    if interrupted {
        return Step::Done(partial(operation, state.done, Errno(libc::EINTR)));
    }
    let nonblocking = is_nonblocking(&socket, operation);
    let own = state.own();
    let (pending, done) = (&mut state.pending, &mut state.done);
    let answer = wait(pending, own, &socket, nonblocking, &mut |own| {
        attempt(&socket, operation, nonblocking, done, own)
    });
    match answer {
        None if state.has_time(bound(&socket, operation)) => Step::Sleep,
        None | Some(Err(Errno::AGAIN)) => {
            let e = match operation {
                Operation::Connect(_) => Errno(libc::EINPROGRESS),
                _ => Errno::AGAIN,
            };
            Step::Done(partial(operation, state.done, e))
        }
        Some(answer) => Step::Done(answer),
    }
}

/// How long the call may wait: `SO_RCVTIMEO` and `SO_SNDTIMEO`.
fn bound(socket: &Socket, operation: &Operation) -> Option<Duration> {
    match operation {
        Operation::Accept | Operation::Receive { .. } => socket.receive_timeout.get(),
        Operation::Connect(_) | Operation::Send { .. } | Operation::WriteMapped { .. } => {
            socket.send_timeout.get()
        }
        Operation::Shutdown(_) | Operation::Close => None,
    }
}

/// The bytes of earlier steps take precedence over an error.
fn partial(operation: &Operation, done: usize, e: Errno) -> Result<Answer> {
    let counts = matches!(
        operation,
        Operation::Receive { .. } | Operation::Send { .. } | Operation::WriteMapped { .. }
    );
    if counts && done > 0 {
        return Ok(done.into());
    }
    Err(e)
}

fn is_nonblocking(socket: &Socket, operation: &Operation) -> bool {
    let flags = match operation {
        Operation::Receive { flags, .. }
        | Operation::Send { flags, .. }
        | Operation::WriteMapped { flags, .. } => *flags,
        _ => 0,
    };
    socket.is_nonblocking() || flags & libc::MSG_DONTWAIT != 0
}

/// Attempts until the call is finished, or has to sleep: then none. A call that does not block
/// returns EAGAIN instead.
fn wait(
    pending: &mut Option<Box<Pending>>,
    own: Option<Arc<Waiter>>,
    socket: &Arc<Socket>,
    nonblocking: bool,
    attempt: &mut dyn FnMut(Option<&Arc<Waiter>>) -> Attempt<Answer>,
) -> Option<Result<Answer>> {
    if let Some(own) = &own {
        own.clear();
    }
    if let Attempt::Done(answer) = attempt(own.as_ref()) {
        return Some(answer);
    }
    if nonblocking {
        return Some(Err(Errno::AGAIN));
    }
    if pending.is_none() {
        let until = Instant::now() + settings::get().polling_time;
        while Instant::now() < until {
            core::hint::spin_loop();
            if let Attempt::Done(answer) = attempt(None) {
                return Some(answer);
            }
        }
        match Pending::new(vec![socket.clone()]) {
            Ok(new) => *pending = Some(new),
            Err(e) => return Some(Err(e)),
        }
    }
    let pending = pending.as_mut()?;
    let own = pending.waiter.clone();
    let channel = match socket.arm(Some(&own)) {
        Ok(channel) => channel,
        Err(e) => return Some(Err(e)),
    };
    if let Attempt::Done(answer) = attempt(Some(&own)) {
        return Some(answer);
    }
    let channel = channel.into_iter().map(|fd| watched(fd, libc::POLLIN));
    pending.sleep(channel, None);
    None
}

fn attempt(
    socket: &Arc<Socket>,
    operation: &Operation,
    nonblocking: bool,
    done: &mut usize,
    own: Option<&Arc<Waiter>>,
) -> Attempt<Answer> {
    match &socket.kind {
        Kind::Stream(state) => socket.with(state, own, |state| {
            of_stream(socket, state, operation, nonblocking, done)
        }),
        Kind::Datagram(state) => socket.with(state, own, |state| of_datagram(state, operation)),
    }
}

fn of_datagram(state: &mut DatagramState, operation: &Operation) -> Attempt<Answer> {
    match operation {
        Operation::Connect(to) => Attempt::Done(state.connect(to).map(|()| Answer::default())),
        Operation::Receive { to, flags } => match state.receive(to, *flags) {
            Attempt::Done(received) => Attempt::Done(received.map(|(value, from)| Answer {
                value,
                address: Some(from),
            })),
            Attempt::Wait if state.is_readable() => Attempt::Wait,
            Attempt::Wait => Attempt::Done(Ok(Answer::default())),
        },
        Operation::Send { from, to, .. } => counted(state.send(from, *to)),
        Operation::Accept | Operation::WriteMapped { .. } => Attempt::Done(Err(Errno::OPNOTSUPP)),
        Operation::Shutdown(_) | Operation::Close => Attempt::Done(Err(Errno::INVAL)),
    }
}

fn counted(attempt: Attempt<usize>) -> Attempt<Answer> {
    match attempt {
        Attempt::Done(answer) => Attempt::Done(answer.map(Answer::from)),
        Attempt::Wait => Attempt::Wait,
    }
}

fn of_stream(
    socket: &Socket,
    state: &mut StreamState,
    operation: &Operation,
    nonblocking: bool,
    done: &mut usize,
) -> Attempt<Answer> {
    match operation {
        Operation::Connect(to) => {
            let connected = if *done == 0 {
                *done = 1;
                let Some(to) = socket.to_manager(to, state.options.v6_only) else {
                    return Attempt::Done(Err(Errno(libc::ENETUNREACH)));
                };
                state.connect(socket.fd, &to, !nonblocking)
            } else {
                state.connected()
            };
            match connected {
                Attempt::Done(answer) => Attempt::Done(answer.map(|()| Answer::default())),
                Attempt::Wait => Attempt::Wait,
            }
        }
        Operation::Accept => match state.accept(socket.fd) {
            Ok(Some(accepted)) => Attempt::Done(Ok(Answer {
                value: usize::try_from(accepted.fd).unwrap_or(0),
                address: accepted.peer(),
            })),
            Ok(None) => Attempt::Wait,
            Err(e) => Attempt::Done(Err(e)),
        },
        Operation::Receive { to, flags } => match state.receive(to, *flags, done) {
            Attempt::Done(Ok(value)) => Attempt::Done(Ok(Answer {
                value,
                address: state
                    .cm
                    .peer()
                    .filter(|_| value > 0)
                    .map(|peer| socket.to_program(peer)),
            })),
            other => counted(other),
        },
        Operation::Send { to: Some(_), .. } => Attempt::Done(Err(Errno(libc::EISCONN))),
        Operation::Send { from, .. } => counted(state.send(from, done)),
        Operation::WriteMapped { from, offset, .. } => {
            counted(state.write_mapped(from, *offset, done))
        }
        Operation::Shutdown(_) | Operation::Close => Attempt::Done(Err(Errno::INVAL)),
    }
}

/// Waits until everything posted is sent. None when it is; otherwise how long the sleep may be.
fn drain(
    state: &mut State,
    socket: &Arc<Socket>,
    locked: &Mutex<StreamState>,
) -> Result<Option<()>> {
    let own = state.own();
    if let Some(own) = &own {
        own.clear();
    }
    let is_closing = state.closing.is_some();
    if is_closing && locked.lock().is_stalled() {
        stream::on_event(socket);
    }
    let drained = || socket.with(locked, own.as_ref(), StreamState::drained);
    if drained().is_none() {
        return Ok(None);
    }
    if state.pending.is_none() {
        state.pending = Some(Pending::new(vec![socket.clone()])?);
    }
    let Some(pending) = &mut state.pending else {
        return Ok(None);
    };
    let channel = socket.arm(Some(&pending.waiter))?;
    let Some(mut longest) = drained() else {
        return Ok(None);
    };
    if let Some(deadline) = state.deadline {
        longest = longest.min(deadline.saturating_duration_since(Instant::now()));
        if longest.is_zero() {
            return Ok(None);
        }
    }
    let own_channel = is_closing.then_some(socket.fd);
    let fds = channel.into_iter().chain(own_channel);
    pending.sleep(fds.map(|fd| watched(fd, libc::POLLIN)), Some(longest));
    Ok(Some(()))
}

fn shut_down(state: &mut State, fd: i32, how: i32) -> Step {
    let socket = match table::socket(fd) {
        Ok(socket) => socket,
        Err(e) => return Step::Done(Err(e)),
    };
    let stream = match &socket.kind {
        Kind::Stream(stream) => stream,
        Kind::Datagram(datagrams) => {
            let reading = how == libc::SHUT_RD || how == libc::SHUT_RDWR;
            datagrams.lock().shut_down(reading);
            socket.waiters.wake();
            return Step::Done(Ok(Answer::default()));
        }
    };
    if state.done == 0 {
        state.done = 1;
        socket.with(stream, None, |state| state.shut_down(how));
    }
    match drain(state, &socket, stream) {
        Ok(Some(())) => Step::Sleep,
        Ok(None) if stream.lock().is_stalled() => Step::Done(Err(Errno(libc::ETIMEDOUT))),
        Ok(None) => Step::Done(Ok(Answer::default())),
        Err(e) => Step::Done(Err(e)),
    }
}

fn close(state: &mut State, fd: i32) -> Step {
    let socket = match &state.closing {
        Some(socket) => socket.clone(),
        None => {
            let socket = match table::remove(fd) {
                Ok(socket) => socket,
                Err(e) => return Step::Done(Err(e)),
            };
            state.closing = Some(socket.clone());
            if let Kind::Stream(locked) = &socket.kind {
                // The service thread does not find the socket any more: this call takes its events.
                if let Ok(fd) = locked.lock().cm.borrow() {
                    service::unwatch(fd);
                }
                let linger = socket.with(locked, None, |state| {
                    state.shut_down(libc::SHUT_RDWR);
                    state.options.linger()
                });
                state.deadline = linger.map(|linger| Instant::now() + linger);
            }
            socket
        }
    };
    // Without a descriptor to sleep with, the socket is closed at once.
    if let Kind::Stream(locked) = &socket.kind
        && let Ok(Some(())) = drain(state, &socket, locked)
    {
        return Step::Sleep;
    }
    state.pending = None;
    state.closing = None;
    stream::dispose(&socket);
    Step::Done(Ok(Answer::default()))
}
