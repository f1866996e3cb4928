//! Connections on tokio.
#![forbid(unsafe_code)]

use std::{future::poll_fn, net::SocketAddr, ops::Deref, pin::pin, sync::Arc, task::Poll};

use tokio::{io::unix::AsyncFd, runtime::Handle};

use super::{
    Connection, Event, EventChannel, Listener, Options, Request,
    ends::{Accepting, Connecting},
};
use crate::{
    completion::{Completion, CompletionChannel},
    sys::{calls::watched, cm::Signal},
};

/// Watches a channel; there has to be a runtime.
pub(super) fn watch(events: &EventChannel) -> std::io::Result<AsyncFd<EventChannel>> {
    Handle::try_current().map_err(std::io::Error::other)?;
    watched(events.clone())
}

/// The next event of a channel.
pub(super) async fn next(events: &AsyncFd<EventChannel>) -> std::io::Result<Event> {
    loop {
        if let Some(event) = events.get_ref().poll()? {
            return Ok(event);
        }
        // An event after the next poll makes it readable again.
        events.readable().await?.clear_ready();
        if let Some(event) = events.get_ref().poll()? {
            return Ok(event);
        }
    }
}

/// A [`Listener`] whose requests are awaited, on tokio.
#[derive(Debug)]
pub struct AsyncListener {
    listener: Listener,
    events: AsyncFd<EventChannel>,
}

impl AsyncListener {
    /// Listens at an address of this machine; port 0 is any free one. It is called within a
    /// runtime.
    ///
    /// # Errors
    /// Of [`Listener::bind`], and of tokio: if there is no runtime.
    ///
    /// # Panics
    /// If the runtime was built without I/O (`enable_io`), which tokio does not report otherwise.
    pub fn bind(address: SocketAddr) -> std::io::Result<Self> {
        let listener = Listener::bind(address)?;
        let events = watch(listener.events())?;
        Ok(Self { listener, events })
    }

    /// The address, with the port.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits for a request, which the program accepts or rejects. Nothing is lost if the future is
    /// dropped.
    ///
    /// # Errors
    /// Of [`Listener::request`].
    pub async fn request(&self) -> std::io::Result<Request> {
        loop {
            if let Some(request) = Request::of(next(&self.events).await?)? {
                return Ok(request);
            }
        }
    }

    /// Waits for a request and accepts it.
    ///
    /// # Errors
    /// Of [`AsyncListener::request`] and [`AsyncConnection::accept`].
    pub async fn accept(&self) -> std::io::Result<AsyncConnection> {
        AsyncConnection::accept(self.request().await?, &Options::new()).await
    }
}

/// A [`Connection`] whose completions are awaited, on tokio.
///
/// ```
/// # use verbs::{ReceiveRequest, SendRequest, connection::{AsyncConnection, AsyncListener}};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # verbs::use_uroce("lo");
/// let listener = AsyncListener::bind("127.0.0.1:0".parse()?)?;
/// let address = listener.local_addr().ok_or("no address")?;
/// let (server, client) = tokio::join!(listener.accept(), AsyncConnection::connect(address));
/// let (server, client) = (server?, client?);
/// server.post_receive(ReceiveRequest::new(server.buffer(64)?))?;
/// client.post(SendRequest::send(client.buffer(8)?))?;
/// for completion in server.completions().await? {
///     assert_eq!(completion.success()?.bytes, 8);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncConnection {
    channel: AsyncFd<CompletionChannel>,
    events: AsyncFd<EventChannel>,
    end: AsyncFd<Arc<Signal>>,
    connection: Connection,
}

impl AsyncConnection {
    /// Connects to a listener.
    ///
    /// # Errors
    /// Of [`Options::connect`], and of tokio: if there is no runtime.
    pub async fn connect(to: SocketAddr) -> std::io::Result<Self> {
        Self::connect_with(to, &Options::new()).await
    }

    /// The same, with settings.
    ///
    /// # Errors
    /// As above.
    pub async fn connect_with(to: SocketAddr, options: &Options) -> std::io::Result<Self> {
        let mut connecting = Connecting::begin(options, to)?;
        let events = watch(connecting.events())?;
        loop {
            let event = next(&events).await?;
            if let Some(connection) = connecting.advance(event)? {
                return Self::of(connection, events);
            }
        }
    }

    /// Accepts a request, and waits until the connection is there.
    ///
    /// # Errors
    /// Of [`Request::accept`], and of tokio: if there is no runtime.
    pub async fn accept(request: Request, options: &Options) -> std::io::Result<Self> {
        let mut accepting = Accepting::begin(request, options)?;
        let events = watch(accepting.events())?;
        loop {
            let event = next(&events).await?;
            if let Some(connection) = accepting.advance(&event)? {
                return Self::of(connection, events);
            }
        }
    }

    fn of(connection: Connection, events: AsyncFd<EventChannel>) -> std::io::Result<Self> {
        let (channel, _, end) = connection.channels();
        Ok(Self {
            channel: watched(channel.clone())?,
            events,
            end: watched(Arc::clone(end))?,
            connection,
        })
    }

    /// Waits until there are completions. When the connection has ended, all requests complete: as
    /// flushed, if they were not executed. Afterwards it fails with ENOTCONN. Nothing is lost if
    /// the future is dropped. Several tasks may wait.
    ///
    /// # Errors
    /// Of [`Connection::completions`].
    pub async fn completions(&self) -> std::io::Result<Vec<Completion>> {
        loop {
            if let Some(completions) = self.connection.try_completions()? {
                return Ok(completions);
            }
            self.readable().await?;
        }
    }

    /// Waits until one of the descriptors is readable.
    async fn readable(&self) -> std::io::Result<()> {
        let (mut channel, mut events) =
            (pin!(self.channel.readable()), pin!(self.events.readable()));
        let mut end = pin!(self.end.readable());
        poll_fn(|context| {
            // An event after the next attempt makes it readable again. The end stays.
            if let Poll::Ready(ready) = channel.as_mut().poll(context) {
                ready?.clear_ready();
                return Poll::Ready(Ok(()));
            }
            if let Poll::Ready(ready) = events.as_mut().poll(context) {
                ready?.clear_ready();
                return Poll::Ready(Ok(()));
            }
            end.as_mut().poll(context).map(|ready| ready.map(drop))
        })
        .await
    }
}

impl Deref for AsyncConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}
