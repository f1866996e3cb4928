//! Datagrams on tokio.
#![forbid(unsafe_code)]

use std::{net::SocketAddr, ops::Deref};

use tokio::io::unix::AsyncFd;

use super::{
    DatagramListener, DatagramRequest, Datagrams, Peer,
    ends::{Connecting, Joining},
};
use crate::{
    completion::{Completion, CompletionChannel},
    connection::{
        EventChannel, Options,
        asynchronous::{next, watch},
    },
    sys::calls::watched,
};

/// A [`DatagramListener`] whose requests are awaited, on tokio.
#[derive(Debug)]
pub struct AsyncDatagramListener {
    listener: DatagramListener,
    events: AsyncFd<EventChannel>,
}

impl AsyncDatagramListener {
    /// Listens at an address of this machine; port 0 is any free one. It is called within a
    /// runtime.
    ///
    /// # Errors
    /// Of [`DatagramListener::bind`], and of tokio: if there is no runtime.
    ///
    /// # Panics
    /// If the runtime was built without I/O (`enable_io`), which tokio does not report otherwise.
    pub fn bind(address: SocketAddr) -> std::io::Result<Self> {
        let listener = DatagramListener::bind(address)?;
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
    /// Of [`DatagramListener::request`].
    pub async fn request(&self) -> std::io::Result<DatagramRequest> {
        loop {
            if let Some(request) = DatagramRequest::of(next(&self.events).await?)? {
                return Ok(request);
            }
        }
    }

    /// Waits for a request and accepts it, with a queue pair for this peer alone.
    ///
    /// # Errors
    /// Of [`AsyncDatagramListener::request`] and [`DatagramRequest::accept`].
    pub async fn accept(&self) -> std::io::Result<AsyncDatagrams> {
        let request = self.request().await?;
        AsyncDatagrams::new(request.accept(&Options::new())?)
    }
}

/// [`Datagrams`] whose completions are awaited, on tokio.
///
/// ```
/// # use verbs::{ReceiveRequest, SendRequest, connection::{AsyncDatagrams, Datagrams}};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # verbs::use_uroce("lo");
/// let datagrams = AsyncDatagrams::new(Datagrams::bind("127.0.0.1:0")?)?;
/// let group = datagrams.join("239.1.2.3:0".parse()?).await?;
/// datagrams.post_receive(ReceiveRequest::new(datagrams.buffer(40 + 64)?))?;
/// datagrams.post_to(SendRequest::send(datagrams.buffer(8)?), &group)?;
/// let mut done = 0;
/// while done < 2 {
///     done += datagrams.completions().await?.len(); // the message comes back
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncDatagrams {
    channel: AsyncFd<CompletionChannel>,
    datagrams: Datagrams,
}

impl AsyncDatagrams {
    /// Has completions awaited. It is called within a runtime.
    ///
    /// # Errors
    /// Of tokio: if there is no runtime.
    ///
    /// # Panics
    /// If the runtime was built without I/O (`enable_io`), which tokio does not report otherwise.
    pub fn new(datagrams: Datagrams) -> std::io::Result<Self> {
        tokio::runtime::Handle::try_current().map_err(std::io::Error::other)?;
        Ok(Self {
            channel: watched(datagrams.channel().clone())?,
            datagrams,
        })
    }

    /// Asks a listener for its queue pair.
    ///
    /// # Errors
    /// Of [`Options::connect_datagrams`], and of tokio: if there is no runtime.
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
            if let Some(datagrams) = connecting.advance(&event)? {
                return Self::new(datagrams);
            }
        }
    }

    /// Joins a multicast group ([`Datagrams::join`]). If the future is dropped, it has not joined.
    ///
    /// # Errors
    /// Of [`Datagrams::join`].
    pub async fn join(&self, group: SocketAddr) -> std::io::Result<Peer> {
        self.joined(Joining::begin(self, group, false)?).await
    }

    /// The same, as a member that only sends ([`Datagrams::join_send_only`]).
    ///
    /// # Errors
    /// As above.
    pub async fn join_send_only(&self, group: SocketAddr) -> std::io::Result<Peer> {
        self.joined(Joining::begin(self, group, true)?).await
    }

    async fn joined(&self, joining: Joining) -> std::io::Result<Peer> {
        let events = watch(joining.events())?;
        loop {
            let event = next(&events).await?;
            if let Some(peer) = joining.advance(self, &event)? {
                return Ok(peer);
            }
        }
    }

    /// Waits until there are completions. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// Of [`Datagrams::completions`].
    pub async fn completions(&self) -> std::io::Result<Vec<Completion>> {
        loop {
            if let Some(completions) = self.datagrams.try_completions()? {
                return Ok(completions);
            }
            // An event after the next attempt makes it readable again.
            self.channel.readable().await?.clear_ready();
            if let Some(completions) = self.datagrams.try_completions()? {
                return Ok(completions);
            }
        }
    }
}

impl Deref for AsyncDatagrams {
    type Target = Datagrams;

    fn deref(&self) -> &Datagrams {
        &self.datagrams
    }
}
