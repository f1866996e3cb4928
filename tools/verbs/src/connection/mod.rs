//! Connections by address: the connection manager, librdmacm.
//!
//! A [`Listener`] and a [`Connection`] are used as those of TCP. The address is one of an interface
//! with an RDMA device, for example that of the interface which uroce was asked for:
//!
//! ```
//! use verbs::{ReceiveRequest, SendRequest, connection::{Connection, Listener}};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! verbs::use_uroce("lo");
//! let listener = Listener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr().ok_or("no address")?;
//! let server = std::thread::spawn(move || -> verbs::Result<usize> {
//!     let connection = listener.accept()?;
//!     connection.post_receive(ReceiveRequest::new(connection.buffer(64)?))?;
//!     Ok(connection.completions()?.iter().map(|one| one.bytes).sum())
//! });
//!
//! let connection = Connection::connect(address)?;
//! let mut message = connection.buffer(5)?;
//! message.copy_from_slice(b"hello");
//! connection.post(SendRequest::send(message))?;
//! for completion in connection.completions()? {
//!     completion.success()?;
//! }
//! assert_eq!(server.join().map_err(|_| "panicked")??, 5);
//! # Ok(())
//! # }
//! ```
//!
//! # Two levels
//! - [`Connection`], [`Listener`], [`Request`], with [`Options`]: each connection has a protection
//!   domain, a completion queue and a separate queue pair, and calls wait. With the feature
//!   `tokio`, `AsyncConnection` and `AsyncListener` do the same, and are awaited.
//! - [`EventChannel`], [`Id`] and [`Event`]: the calls of librdmacm. Connections may share
//!   protection domains and completion queues, and one thread serves many of them.
//!
//! # Datagrams and multicast groups
//! [`DatagramListener`] and [`Datagrams`] are for datagrams (UD): a program asks the address of a
//! listener for the peer's queue pair ([`Datagrams::connect`]), and joins multicast groups
//! ([`Datagrams::join`]). No connection arises of that. Among the ids, [`Id::datagrams`] makes one
//! for them.
//!
//! # Events
//! An [`Event`] is a copy, which was acknowledged when it was taken. So no call waits for an
//! acknowledgement: an [`Id`] may be dropped at any time, by any thread. Events of an id that was
//! dropped are left out.
//!
//! # Queue pairs
//! A queue pair does not belong to its id: [`Id::prepare`] makes a [`PreparedQueuePair`], which
//! takes receive requests but cannot send; [`Id::accept`] and [`Id::establish`] make a
//! [`QueuePair`](crate::QueuePair) of it. Either may be dropped first. When an id is dropped, the
//! connection ends for the peer.
//!
//! ```compile_fail,E0382
//! # use verbs::connection::{Id, Parameters, PreparedQueuePair};
//! # fn f(id: &Id, qp: PreparedQueuePair) -> verbs::Result<()> {
//! let connected = id.establish(qp)?;
//! id.connect(&qp, &Parameters::default()) // error: it is connected already
//! # }
//! ```
//!
//! # Devices
//! The device of an id is open already ([`Id::context`]), as librdmacm opens each once and leaves
//! it open. Objects for an id are made with that [`Context`](crate::Context); those of a device
//! that the program opened itself are refused with EINVAL.

#![forbid(unsafe_code)]

#[cfg(feature = "tokio")]
mod asynchronous;
mod datagram;
mod ends;
mod event;
mod id;
mod lookup;
mod prepared;

use std::{
    fmt,
    os::fd::{AsRawFd, RawFd},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    error::{Error, Result},
    sys::cm,
};

#[cfg(feature = "tokio")]
pub use asynchronous::{AsyncConnection, AsyncListener};
#[cfg(feature = "tokio")]
pub use datagram::{AsyncDatagramListener, AsyncDatagrams};
pub use datagram::{DatagramListener, DatagramRequest, Datagrams, Destination, Peer};
pub use ends::{Connection, Listener, Options, Request};
pub use event::{Event, Parameters};
pub use id::Id;
use id::next_number;
pub use lookup::Lookup;
pub use prepared::PreparedQueuePair;

pub use crate::sys::cm::lookup::Address;

/// A channel of events, which the ids made with it report. Copies are the same one.
///
/// The descriptor ([`AsRawFd`]) is readable when there may be an event.
#[derive(Clone)]
pub struct EventChannel(Arc<cm::Channel>);

impl EventChannel {
    /// Makes one.
    ///
    /// # Errors
    /// Of rdma_create_event_channel(3): ENODEV where there is no device.
    pub fn new() -> Result<Self> {
        Ok(Self(Arc::new(cm::create_channel()?)))
    }

    pub(crate) fn object(&self) -> &cm::Channel {
        &self.0
    }

    /// Takes the next event, if there is one.
    ///
    /// # Errors
    /// Of rdma_get_cm_event(3).
    pub fn poll(&self) -> Result<Option<Event>> {
        loop {
            match cm::get_event(&self.0, self, next_number)? {
                None => return Ok(None),
                Some(taken) => match Event::of(taken) {
                    // One of an id that was dropped.
                    None => {}
                    event => return Ok(event),
                },
            }
        }
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// Of rdma_get_cm_event(3).
    pub fn wait(&self) -> Result<Event> {
        loop {
            if let Some(event) = self.poll()? {
                return Ok(event);
            }
            readable([self.as_raw_fd()], None)?;
        }
    }

    /// Waits for the next event, for that long at most.
    ///
    /// # Errors
    /// Of rdma_get_cm_event(3).
    pub fn wait_for(&self, time: Duration) -> Result<Option<Event>> {
        let end = Instant::now().checked_add(time);
        loop {
            if let Some(event) = self.poll()? {
                return Ok(Some(event));
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            readable([self.as_raw_fd()], left)?;
        }
    }
}

/// Waits until one of the descriptors is readable, or the time is over, or a signal came.
fn readable<const N: usize>(fds: [RawFd; N], time: Option<Duration>) -> Result<()> {
    // Rounded up, so that the time is over afterwards.
    let milliseconds = |time: Duration| time.as_millis().saturating_add(1);
    let milliseconds = time.map(|time| i32::try_from(milliseconds(time)).unwrap_or(i32::MAX));
    match cm::wait_readable(fds, milliseconds) {
        Err(error) if error.errno() != libc::EINTR => Err(error),
        _ => Ok(()),
    }
}

/// The error of a call, where the connection manager reports it later by an event.
fn failed(function: &'static str, status: i32) -> Error {
    match status {
        0 => Error::new(function, libc::EIO),
        _ => Error::new(function, status.saturating_abs()),
    }
}

impl AsRawFd for EventChannel {
    fn as_raw_fd(&self) -> RawFd {
        cm::channel_fd(&self.0)
    }
}

impl fmt::Debug for EventChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("EventChannel");
        shown.field("fd", &self.as_raw_fd());
        shown.finish_non_exhaustive()
    }
}
