#![forbid(unsafe_code)]
//! An rsocket.

use super::datagram::DatagramState;
use super::service;
use super::stream::StreamState;
use super::waiter::{Waiter, Waiters};
use crate::abi::Address;
use kit::errno::Result;
use kit::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What it is, with its state.
pub enum Kind {
    Stream(Box<Mutex<StreamState>>),
    Datagram(Mutex<DatagramState>),
}

/// An rsocket.
pub struct Socket {
    /// The program's name for it.
    pub fd: i32,
    pub family: i32,
    pub kind: Kind,
    pub waiters: Waiters,
    nonblocking: AtomicBool,
}

/// What has become of an attempt.
pub enum Attempt<T> {
    Done(Result<T>),
    /// It has to be made again after something has happened.
    Wait,
}

/// State that notes its changes.
pub trait Progress {
    /// Whether something has changed since this was asked last.
    fn take_progress(&mut self) -> bool;
}

/// What a finished attempt has; returns from the function for one that failed or has to wait.
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
            nonblocking: AtomicBool::new(nonblocking),
        }
    }

    pub fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    /// Does something to the state of the socket, and wakes others who wait for it if anything has
    /// changed.
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

    /// The connection manager has an event, or UDP a datagram. Of the service thread.
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

    /// Options of keepalives may be others: the next one is due at another time.
    pub fn schedule(&self) {
        if let Kind::Stream(state) = &self.kind {
            let due = state.lock().keep_alive_due();
            service::call_at(self.fd, due);
        }
    }

    /// A time has come. Of the service thread.
    pub fn on_time(&self) {
        if let Kind::Stream(state) = &self.kind {
            let next = self.with(state, None, StreamState::on_time);
            service::call_at(self.fd, next);
        }
    }

    /// What poll(2) would say of it: completions are looked at.
    pub fn ready(&self, events: i16, own: Option<&Arc<Waiter>>) -> i16 {
        match &self.kind {
            Kind::Stream(state) => self.with(state, own, |state| state.ready(events)),
            Kind::Datagram(state) => self.with(state, own, |state| state.ready(events)),
        }
    }

    /// Has its descriptor become readable at the next completion. Whoever sleeps looks once more
    /// afterwards.
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

    pub fn local(&self) -> Option<Address> {
        match &self.kind {
            Kind::Stream(state) => state.lock().cm.local(),
            Kind::Datagram(state) => state.lock().local(),
        }
    }

    pub fn peer(&self) -> Option<Address> {
        match &self.kind {
            Kind::Stream(state) => state.lock().cm.peer(),
            Kind::Datagram(state) => state.lock().peer(),
        }
    }
}
