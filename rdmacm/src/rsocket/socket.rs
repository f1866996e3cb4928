#![forbid(unsafe_code)]
//! An rsocket.

use super::datagram::DatagramState;
use super::service;
use super::stream::StreamState;
use super::timeouts::Timeout;
use super::waiter::{Waiter, Waiters};
use crate::abi::Address;
use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The kind of a socket, with its state.
pub enum Kind {
    Stream(Box<Mutex<StreamState>>),
    Datagram(Mutex<DatagramState>),
}

/// An rsocket.
pub struct Socket {
    /// The descriptor that the program sees.
    pub fd: i32,
    pub family: i32,
    pub kind: Kind,
    pub waiters: Waiters,
    /// Of calls that receive, or accept.
    pub receive_timeout: Timeout,
    /// Of calls that send, or connect.
    pub send_timeout: Timeout,
    nonblocking: AtomicBool,
}

/// The result of an attempt.
pub enum Attempt<T> {
    Done(Result<T>),
    /// The attempt has to be repeated after an event.
    Wait,
}

/// A state that records its changes.
pub trait Progress {
    /// Whether there was a change since the last call.
    fn take_progress(&mut self) -> bool;
}

/// The value of a finished attempt; returns from the function if it failed or has to wait.
macro_rules! attempt {
    ($attempt:expr) => {
        match $attempt {
            Attempt::Done(Ok(value)) => value,
            Attempt::Done(Err(e)) => return Attempt::Done(Err(e)),
            Attempt::Wait => return Attempt::Wait,
        }
    };
}
pub(super) use attempt;

impl Socket {
    pub fn new(fd: i32, family: i32, kind: Kind, nonblocking: bool) -> Self {
        Self {
            fd,
            family,
            kind,
            waiters: Waiters::default(),
            receive_timeout: Timeout::default(),
            send_timeout: Timeout::default(),
            nonblocking: AtomicBool::new(nonblocking),
        }
    }

    pub fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    /// Runs a function on the state of the socket, and wakes other threads that wait for it if the
    /// state has changed.
    pub fn with<S: Progress, T>(
        &self,
        state: &Mutex<S>,
        own: Option<&Arc<Waiter>>,
        call: impl FnOnce(&mut S) -> T,
    ) -> T {
        let mut state = state.lock();
        let answer = call(&mut state);
        let progressed = state.take_progress();
        drop(state);
        if progressed {
            self.waiters.wake_others(own);
        }
        answer
    }

    /// The connection manager has an event, or UDP a datagram. Called by the service thread.
    pub fn on_event(self: &Arc<Self>) {
        match &self.kind {
            Kind::Stream(_) => super::stream::on_event(self),
            Kind::Datagram(state) => {
                if state.lock().on_event() {
                    self.waiters.wake();
                }
            }
        }
    }

    /// The keepalive options may have changed: computes the next time.
    pub fn schedule(&self) {
        if let Kind::Stream(state) = &self.kind {
            let due = state.lock().keep_alive_due();
            service::call_at(self.fd, due);
        }
    }

    /// A deadline has passed. Called by the service thread.
    pub fn on_time(&self) {
        if let Kind::Stream(state) = &self.kind {
            let next = self.with(state, None, StreamState::on_time);
            service::call_at(self.fd, next);
        }
    }

    /// The events of poll(2) that are ready; takes completions to find out.
    pub fn ready(&self, events: i16, own: Option<&Arc<Waiter>>) -> i16 {
        match &self.kind {
            Kind::Stream(state) => self.with(state, own, |state| state.ready(events)),
            Kind::Datagram(state) => self.with(state, own, |state| state.ready(events)),
        }
    }

    /// Makes the descriptor readable at the next completion. A thread checks once more before it
    /// sleeps.
    ///
    /// # Errors
    /// Those of ibv_req_notify_cq(3).
    pub fn arm(&self, own: Option<&Arc<Waiter>>) -> Result<Vec<i32>> {
        match &self.kind {
            Kind::Stream(state) => {
                let armed = self.with(state, own, StreamState::arm)?;
                Ok(armed.into_iter().collect())
            }
            Kind::Datagram(state) => self.with(state, own, DatagramState::arm),
        }
    }

    /// # Errors
    /// EINVAL for a host of IPv4 if the socket is of IPv6 alone; those of rdma_bind_addr(3), or of
    /// bind(2).
    pub fn bind(&self, address: &Address) -> Result<()> {
        match &self.kind {
            Kind::Stream(state) => {
                let mut state = state.lock();
                let is_v6_only = state.options.v6_only;
                let address = self.to_manager(address, is_v6_only).ok_or(Errno::INVAL)?;
                state.bind(&address)
            }
            Kind::Datagram(state) => state.lock().bind(address),
        }
    }

    /// The address as a connection manager takes it: a socket of IPv6 reaches hosts of IPv4 by
    /// addresses `::ffff:a.b.c.d`. None if it is of IPv6 alone.
    pub fn to_manager(&self, address: &Address, is_v6_only: bool) -> Option<Address> {
        match address.unmapped().filter(|_| self.family == libc::AF_INET6) {
            Some(_) if is_v6_only => None,
            Some(ipv4) => Some(ipv4),
            None => Some(*address),
        }
    }

    /// The reverse of it.
    pub fn to_program(&self, address: Address) -> Address {
        if self.family == libc::AF_INET6 {
            return address.in_ipv6();
        }
        address
    }

    pub fn local(&self) -> Option<Address> {
        let local = match &self.kind {
            Kind::Stream(state) => state.lock().cm.local(),
            Kind::Datagram(state) => state.lock().local(),
        };
        local.map(|address| self.to_program(address))
    }

    pub fn peer(&self) -> Option<Address> {
        let peer = match &self.kind {
            Kind::Stream(state) => state.lock().cm.peer(),
            Kind::Datagram(state) => state.lock().peer(),
        };
        peer.map(|address| self.to_program(address))
    }
}
