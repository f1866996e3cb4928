#![forbid(unsafe_code)]
//! Datagram sockets: a UDP socket, whose descriptor the program sees, and a queue pair for each
//! local address in use.
//!
//! The first datagram to a peer goes by UDP and contains the number of this side's queue pair; the
//! peer answers by UDP with its number. From then on datagrams go from queue pair to queue pair. A
//! datagram that exceeds the path's MTU goes by UDP.
//!
//! rdma-core's library passes data received by UDP through the receiver's queue pair, for which it
//! makes an address handle from a LID alone. RoCE has no LIDs. This library puts the data into the
//! socket's queue.

use super::datagram_qp::{DatagramQp, Path};
use super::service;
use super::settings::{self, Sizes};
use super::socket::{Attempt, Kind, Progress, Socket};
use super::table;
use crate::abi::{Address, Buffers, canonical, in_ipv6};
use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use rsocket_protocol::{Announcement, DatagramKind, MAX_DATAGRAM, Sender};
use rustix::io::{DupFlags, dup3};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, bind, connect,
    getpeername, getsockname, recvfrom, sendto, socket_with,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

/// Limit of remembered peers, because any host adds one by a datagram.
const MOST_PEERS: usize = 4096;
/// Most UDP datagrams taken at a time.
const BATCH: usize = 64;

/// State of a peer.
struct Peer {
    /// Index of the queue pair that is used for the peer.
    local: usize,
    /// Number of the peer's queue pair, if the peer has announced it.
    queue_pair: Option<u32>,
    path: Option<Path>,
}

/// A received datagram.
struct Datagram {
    from: SocketAddr,
    bytes: Vec<u8>,
}

/// The state of a datagram socket.
pub struct DatagramState {
    peers: BTreeMap<SocketAddr, Peer>,
    queue_pairs: Vec<DatagramQp>,
    udp: OwnedFd,
    connected: Option<SocketAddr>,
    queue: VecDeque<Datagram>,
    pub sizes: Sizes,
    number: i32,
    is_ipv6: bool,
    readable: bool,
    /// Whether a change happened that other threads may wait for.
    progressed: bool,
}

/// A new socket.
///
/// # Errors
/// Those of socket(2).
pub fn create(family: i32, nonblocking: bool) -> Result<i32> {
    let kind = match family {
        libc::AF_INET => AddressFamily::INET,
        libc::AF_INET6 => AddressFamily::INET6,
        _ => return Err(Errno(libc::ENOTSUP)),
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let udp = socket_with(kind, SocketType::DGRAM, flags, None)?;
    let fd = udp.as_raw_fd();
    let state = DatagramState {
        peers: BTreeMap::new(),
        queue_pairs: Vec::new(),
        udp,
        connected: None,
        queue: VecDeque::new(),
        sizes: settings::get().sizes,
        number: fd,
        is_ipv6: kind == AddressFamily::INET6,
        readable: true,
        progressed: false,
    };
    let kind = Kind::Datagram(Mutex::new(state));
    table::add(&Arc::new(Socket::new(fd, family, kind, nonblocking)))?;
    Ok(fd)
}

fn ip(address: &Address) -> Result<SocketAddr> {
    address.ip().ok_or(Errno::INVAL)
}

fn address(of: SocketAddrAny) -> Option<Address> {
    SocketAddr::try_from(of)
        .ok()
        .map(|of| Address::from_ip(&of))
}

impl Progress for DatagramState {
    fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.progressed)
    }
}

impl DatagramState {
    pub fn local(&self) -> Option<Address> {
        getsockname(&self.udp).ok().and_then(address)
    }

    pub fn peer(&self) -> Option<Address> {
        getpeername(&self.udp).ok().flatten().and_then(address)
    }

    fn watch(&self) -> Result<()> {
        service::watch(self.number, self.udp.as_fd())
    }

    /// # Errors
    /// Those of bind(2).
    pub fn bind(&mut self, to: &Address) -> Result<()> {
        let to = ip(to)?;
        bind(&self.udp, &to)?;
        self.watch()
    }

    fn local_ip(&self) -> Result<SocketAddr> {
        let local = getsockname(&self.udp)?;
        SocketAddr::try_from(local).map_err(|_| Errno::INVAL)
    }

    /// # Errors
    /// Those of connect(2), and of [`Self::peer_of`].
    pub fn connect(&mut self, to: &Address) -> Result<()> {
        let to = ip(to)?;
        connect(&self.udp, &to)?;
        self.watch()?;
        self.peer_of(to)?;
        self.connected = Some(to);
        Ok(())
    }

    /// The index of the queue pair of a local address; the first call makes it.
    fn queue_pair(&mut self, local: SocketAddr) -> Result<usize> {
        let local = canonical(local);
        let known = self.queue_pairs.iter().position(|qp| qp.local == local);
        if let Some(place) = known {
            return Ok(place);
        }
        self.queue_pairs.push(DatagramQp::new(local, &self.sizes)?);
        Ok(self.queue_pairs.len() - 1)
    }

    /// The local address from which a peer is reached.
    fn source(&self, to: SocketAddr) -> Result<SocketAddr> {
        let own = self.local_ip()?;
        if !own.ip().is_unspecified() {
            return Ok(own);
        }
        let kind = if to.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let probe = socket_with(kind, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        connect(&probe, &to)?;
        let local = SocketAddr::try_from(getsockname(&probe)?).map_err(|_| Errno::INVAL)?;
        Ok(SocketAddr::new(local.ip(), own.port()))
    }

    /// Adds a peer.
    ///
    /// # Errors
    /// Those of finding a local address and of making its queue pair; ENOBUFS for too many peers.
    fn peer_of(&mut self, to: SocketAddr) -> Result<()> {
        if self.peers.contains_key(&to) {
            return Ok(());
        }
        if self.peers.len() >= MOST_PEERS {
            return Err(Errno(libc::ENOBUFS));
        }
        if self.local_ip()?.port() == 0 {
            // The peer answers to this port.
            let any = SocketAddr::new(self.local_ip()?.ip(), 0);
            bind(&self.udp, &any)?;
        }
        self.watch()?;
        let local = self.queue_pair(self.source(to)?)?;
        let peer = Peer {
            local,
            queue_pair: None,
            path: None,
        };
        self.peers.insert(to, peer);
        Ok(())
    }

    /// Sends a datagram.
    pub fn send(&mut self, from: &Buffers, to: Option<&Address>) -> Attempt<usize> {
        match self.try_send(from, to) {
            Ok(sent) => Attempt::Done(Ok(sent)),
            Err(Errno::AGAIN) => Attempt::Wait,
            Err(e) => Attempt::Done(Err(e)),
        }
    }

    fn try_send(&mut self, from: &Buffers, to: Option<&Address>) -> Result<usize> {
        let to = match to {
            Some(to) => ip(to)?,
            None => self.connected.ok_or(Errno(libc::EDESTADDRREQ))?,
        };
        self.peer_of(to)?;
        let peer = self.peers.get(&to).ok_or(Errno::INVAL)?;
        let qp = self.queue_pairs.get_mut(peer.local).ok_or(Errno::INVAL)?;
        let sender = Sender(qp.local);
        let whole = sender.length() + from.total();
        if let (Some(number), Some(path)) = (peer.queue_pair, &peer.path)
            && let Some(handle) = path.handle()
            && whole <= path.mtu().min(MAX_DATAGRAM)
        {
            qp.process();
            qp.send(&sender.encode(), from, handle, number)?;
            return Ok(from.total());
        }
        let number = qp.number();
        self.send_by_udp(to, DatagramKind::Data, number, Some(from))?;
        Ok(from.total())
    }

    fn send_by_udp(
        &self,
        to: SocketAddr,
        kind: DatagramKind,
        queue_pair: u32,
        data: Option<&Buffers>,
    ) -> Result<()> {
        let announcement = Announcement {
            kind,
            queue_pair,
            target: to.ip().to_canonical(),
        };
        let mut bytes = announcement.encode();
        if let Some(data) = data {
            let begin = bytes.len();
            if begin + data.total() > MAX_DATAGRAM {
                return Err(Errno(libc::EMSGSIZE));
            }
            bytes.resize(begin + data.total(), 0);
            data.read(0, &mut bytes[begin..]);
        }
        let flags = SendFlags::NOSIGNAL;
        let sent = if self.connected == Some(to) {
            rustix::net::send(&self.udp, &bytes, flags)
        } else {
            sendto(&self.udp, &bytes, flags, &to)
        };
        sent?;
        Ok(())
    }

    /// Receives a datagram; bytes that exceed the buffer are lost.
    pub fn receive(&mut self, to: &Buffers, flags: i32) -> Attempt<(usize, Address)> {
        if self.queue.is_empty() {
            self.process();
        }
        let peek = flags & libc::MSG_PEEK != 0;
        let Some(datagram) = self.queue.front() else {
            return Attempt::Wait;
        };
        to.write(0, &datagram.bytes);
        let got = datagram.bytes.len().min(to.total());
        let from = Address::from_ip(&datagram.from);
        if !peek {
            self.queue.pop_front();
        }
        Attempt::Done(Ok((got, from)))
    }

    /// Limit of datagrams that wait to be read.
    fn most(&self) -> usize {
        usize::try_from(self.sizes.receive_queue).unwrap_or(usize::MAX)
    }

    /// Takes datagrams from the queue pairs. True if there were any.
    pub fn process(&mut self) -> bool {
        let most = self.most();
        let mut any = false;
        for qp in &mut self.queue_pairs {
            any |= qp.process();
            while let Some(bytes) = qp.received(self.queue.len() < most) {
                if let Some((Sender(from), data)) = Sender::decode(&bytes) {
                    let from = if self.is_ipv6 { in_ipv6(from) } else { from };
                    let bytes = data.to_vec();
                    self.queue.push_back(Datagram { from, bytes });
                }
            }
        }
        self.progressed |= any;
        any
    }

    /// Takes UDP datagrams and events of path resolution. True if a datagram can be read. Called by
    /// the service thread.
    pub fn on_event(&mut self) -> bool {
        let mut any = false;
        let mut bytes = [0; MAX_DATAGRAM + 64];
        for _ in 0..BATCH {
            let received = recvfrom(&self.udp, &mut bytes[..], RecvFlags::DONTWAIT);
            let (length, from) = match received {
                Ok((length, _, Some(from))) => (length, from),
                Ok(_) => continue,
                // The error belongs to an earlier datagram; reading it has cleared it.
                Err(rustix::io::Errno::CONNREFUSED) => continue,
                Err(_) => break,
            };
            let Ok(from) = SocketAddr::try_from(from) else {
                continue;
            };
            any |= self.arrived(from, &bytes[..length]);
        }
        for peer in self.peers.values_mut() {
            if let Some(path) = &mut peer.path {
                path.on_event();
            }
        }
        any
    }

    fn arrived(&mut self, from: SocketAddr, bytes: &[u8]) -> bool {
        let Some((announcement, data)) = Announcement::decode(bytes) else {
            return false;
        };
        let is_data = announcement.kind == DatagramKind::Data;
        // The datagram of a peer for which no queue pair could be made is still delivered.
        if self.peer_of(from).is_ok() {
            self.learn(from, announcement.queue_pair);
            if is_data && let Some(number) = self.number_for(from) {
                // The peer's next datagram repeats the request if this answer is lost.
                let _ = self.send_by_udp(from, DatagramKind::Control, number, None);
            }
        }
        if !is_data || self.queue.len() >= self.most() {
            return false;
        }
        let bytes = data.to_vec();
        self.queue.push_back(Datagram { from, bytes });
        true
    }

    /// Number of the queue pair that is used for a peer.
    fn number_for(&self, peer: SocketAddr) -> Option<u32> {
        let peer = self.peers.get(&peer)?;
        Some(self.queue_pairs.get(peer.local)?.number())
    }

    /// A peer has announced the number of its queue pair: begins to resolve a path to it.
    fn learn(&mut self, from: SocketAddr, number: u32) {
        let Some(peer) = self.peers.get_mut(&from) else {
            return;
        };
        peer.queue_pair = Some(number);
        if peer
            .path
            .as_ref()
            .is_some_and(|path| !path.is_to_be_looked_for())
        {
            return;
        }
        let Some(qp) = self.queue_pairs.get(peer.local) else {
            return;
        };
        // Without a path, datagrams go by UDP.
        peer.path = Path::look_for(self.number, qp, from).ok();
    }

    pub fn ready(&mut self, events: i16) -> i16 {
        self.process();
        let mut ready = 0;
        if !self.queue.is_empty() || !self.readable {
            ready |= events & libc::POLLIN;
        }
        if self.queue_pairs.iter().all(DatagramQp::can_send) {
            ready |= events & libc::POLLOUT;
        }
        ready
    }

    /// Descriptors that become readable at the next completion.
    ///
    /// # Errors
    /// Those of ibv_req_notify_cq(3).
    pub fn arm(&mut self) -> Result<Vec<i32>> {
        let mut fds = Vec::new();
        for qp in &mut self.queue_pairs {
            let (fd, taken) = qp.arm()?;
            // Other threads that sleep have to arm the queue again.
            self.progressed |= taken;
            fds.push(fd);
        }
        self.process();
        Ok(fds)
    }

    pub fn shut_down(&mut self, reading: bool) {
        self.readable &= !reading;
    }

    pub fn is_readable(&self) -> bool {
        self.readable
    }

    /// Drops everything but the descriptor, by which other threads may still be sleeping.
    pub fn close(&mut self) {
        service::unwatch(self.udp.as_fd());
        self.peers.clear();
        self.queue_pairs.clear();
        // The port is free when the call returns. If there is no descriptor for another socket, it
        // is free when those threads have woken.
        let family = AddressFamily::INET;
        let unbound = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        if let Ok(unbound) = unbound {
            let _ = dup3(&unbound, &mut self.udp, DupFlags::CLOEXEC);
        }
    }

    /// Whether the sizes may still be changed.
    pub fn is_fresh(&self) -> bool {
        self.queue_pairs.is_empty()
    }

    pub fn udp(&self) -> &OwnedFd {
        &self.udp
    }
}
