#![forbid(unsafe_code)]
//! A queue pair of a datagram socket, and paths from it to peers.

use super::cm::CmId;
use super::service;
use super::settings::Sizes;
use crate::abi::{Address, Buffers, canonical, event_type, port_space};
use crate::verbs::{
    Ah, CompChannel, Context, Cq, Local, Pd, Peer, Qp, Region, deferred, gid_bytes,
};
use crate::{address, path, queue_pair};
use core::ptr::null_mut;
use kit::abi::{
    IBV_QPT_UD, IBV_WC_SUCCESS, ibv_ah_attr, ibv_qp_cap, ibv_qp_init_attr, ibv_sa_path_rec, ibv_wc,
};
use kit::errno::{Errno, Result};
use rsocket_protocol::{MAX_DATAGRAM, Piece, Q_KEY};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Bytes that a device writes before a datagram.
const GRH: usize = 40;
const ROOM: usize = GRH + MAX_DATAGRAM;
const BATCH: usize = 16;
/// Flag in the number of a receive request.
const RECEIVE: u64 = 1 << 63;
/// Time limit of path resolution, in milliseconds.
const PATIENCE: i32 = 2000;
/// Time after a failure before a path is resolved again.
const PAUSE: Duration = Duration::from_secs(10);
/// Number of GID table entries that are searched, and of those searched after a match.
const GIDS: i32 = 1024;
const NEAR: i32 = 4;

/// A queue pair that is bound to a local address. Members are dropped in their order.
pub struct DatagramQp {
    pub local: SocketAddr,
    qp: Qp,
    cq: Cq,
    channel: CompChannel,
    receive: Region,
    send: Region,
    /// Slots of the send region that no work request uses.
    free: Vec<usize>,
    places: usize,
    /// Slots that contain a datagram, with its length.
    arrived: VecDeque<(u64, usize)>,
    armed: bool,
    cm: CmId,
}

impl DatagramQp {
    /// # Errors
    /// ENODEV for an address without an RDMA device; those of verbs.
    pub fn new(local: SocketAddr, sizes: &Sizes) -> Result<Self> {
        let cm = CmId::new(port_space::RDMA_PS_UDP, IBV_QPT_UD)?;
        address::bind(&cm.id, &Address::from_ip(&local))?;
        let device = cm.id.device().ok_or(Errno::NODEV)?;
        let verbs = Context::of(cm.id.block.verbs()).ok_or(Errno::NODEV)?;
        let pd = Pd::of(cm.id.block.pd()).ok_or(Errno::NODEV)?;
        let count = |wanted: u32| usize::try_from(wanted.min(device.max_requests)).unwrap_or(0);
        let (places, requests) = (count(sizes.send_queue), count(sizes.receive_queue));
        let receive = Region::new(pd, requests * ROOM, false)?;
        let send = Region::new(pd, places * MAX_DATAGRAM, false)?;
        let entries = u32::try_from(places + requests).map_err(|_| Errno::NOMEM)?;
        let channel = verbs.create_comp_channel()?;
        let made = channel
            .set_nonblocking()
            .and_then(|()| verbs.create_cq(entries, null_mut(), channel));
        let cq = made.inspect_err(|_| channel.destroy())?;
        let made = make_qp(&cm, cq, places, requests);
        let qp = made.inspect_err(|_| {
            deferred(|thread| cq.destroy(channel.as_ptr(), thread));
        })?;
        let made = Self {
            local,
            qp,
            cq,
            channel,
            receive,
            send,
            free: (0..places).collect(),
            places,
            arrived: VecDeque::new(),
            armed: false,
            cm,
        };
        for n in 0..requests {
            made.post_receive(n as u64)?;
        }
        Ok(made)
    }

    fn post_receive(&self, number: u64) -> Result<()> {
        let place = usize::try_from(number).map_err(|_| Errno::INVAL)?;
        let piece = Piece {
            offset: place * ROOM,
            length: ROOM,
        };
        self.qp
            .receive(RECEIVE | number, Some(self.receive.sge(piece)))
    }

    pub fn number(&self) -> u32 {
        self.qp.number()
    }

    pub fn can_send(&self) -> bool {
        !self.free.is_empty()
    }

    /// Takes completions. True if there were any.
    pub fn process(&mut self) -> bool {
        let mut any = false;
        let mut completions: [ibv_wc; BATCH] = bytemuck::Zeroable::zeroed();
        loop {
            // A removed device has no completions.
            let count = self.cq.poll(&mut completions).unwrap_or(0);
            for completion in &completions[..count] {
                self.complete(completion);
            }
            any |= count > 0;
            if count < BATCH {
                return any;
            }
        }
    }

    fn complete(&mut self, completion: &ibv_wc) {
        if completion.wr_id & RECEIVE == 0 {
            let place = usize::try_from(completion.wr_id).unwrap_or(usize::MAX);
            if place < self.places {
                self.free.push(place);
            }
            return;
        }
        let number = completion.wr_id & !RECEIVE;
        if completion.status == IBV_WC_SUCCESS {
            let length = usize::try_from(completion.byte_len).unwrap_or(0);
            self.arrived.push_back((number, length.min(ROOM)));
        }
    }

    /// The next datagram with its header. Its bytes are dropped unless `keep`.
    pub fn received(&mut self, keep: bool) -> Option<Vec<u8>> {
        let (number, length) = self.arrived.pop_front()?;
        let place = usize::try_from(number).unwrap_or(0);
        let mut bytes = vec![0; length.saturating_sub(GRH)];
        if keep {
            self.receive.read(place * ROOM + GRH, &mut bytes);
        } else {
            bytes.clear();
        }
        // If this fails, the queue pair receives less; the function has no result to report an
        // error by.
        let _ = self.post_receive(number);
        Some(bytes)
    }

    /// # Errors
    /// EAGAIN if all slots are in use; those of ibv_post_send(3).
    pub fn send(&mut self, header: &[u8], data: &Buffers, handle: Ah, number: u32) -> Result<()> {
        let place = self.free.pop().ok_or(Errno::AGAIN)?;
        let offset = place * MAX_DATAGRAM;
        self.send.write(offset, header);
        let piece = Piece {
            offset: offset + header.len(),
            length: data.total(),
        };
        self.send.fill(piece, data, 0);
        let whole = Piece {
            offset,
            length: header.len() + data.total(),
        };
        let nothing = self.send.sge(Piece::default());
        let local = Local::Pieces([self.send.sge(whole), nothing]);
        let peer = Peer {
            handle,
            queue_pair: number,
            key: Q_KEY,
        };
        let sent = self.qp.send_to(place as u64, &local, peer);
        sent.inspect_err(|_| self.free.push(place))
    }

    /// Requests an event at the next completion. Returns the descriptor, and whether an event was
    /// there.
    ///
    /// # Errors
    /// Those of ibv_req_notify_cq(3).
    pub fn arm(&mut self) -> Result<(i32, bool)> {
        let mut taken = false;
        while self.channel.take_event() {
            (self.armed, taken) = (false, true);
        }
        if !self.armed {
            self.cq.arm()?;
            self.armed = true;
        }
        Ok((self.channel.fd(), taken))
    }
}

fn make_qp(cm: &CmId, cq: Cq, places: usize, requests: usize) -> Result<Qp> {
    let count = |count: usize| u32::try_from(count).map_err(|_| Errno::NOMEM);
    let attr = ibv_qp_init_attr {
        qp_context: null_mut(),
        send_cq: cq.as_ptr(),
        recv_cq: cq.as_ptr(),
        srq: null_mut(),
        cap: ibv_qp_cap {
            max_send_wr: count(places)?,
            max_recv_wr: count(requests)?,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        },
        qp_type: IBV_QPT_UD,
        sq_sig_all: 1,
    };
    let mut attr = crate::endpoint::extended(&attr, null_mut());
    queue_pair::create(&cm.id, &mut attr)?;
    cm.id.qp().ok_or(Errno::INVAL)
}

impl Drop for DatagramQp {
    fn drop(&mut self) {
        queue_pair::destroy(&self.cm.id);
        deferred(|thread| self.cq.destroy(self.channel.as_ptr(), thread));
    }
}

/// A path to a peer, resolved by an id that is destroyed once the path is known.
pub struct Path {
    looking: Option<CmId>,
    pd: Pd,
    handle: Option<Ah>,
    mtu: usize,
    failed: Option<Instant>,
}

impl Path {
    /// # Errors
    /// Those of the connection manager.
    pub fn look_for(socket: i32, from: &DatagramQp, to: SocketAddr) -> Result<Self> {
        let pd = Pd::of(from.cm.id.block.pd()).ok_or(Errno::NODEV)?;
        let cm = CmId::new(port_space::RDMA_PS_UDP, IBV_QPT_UD)?;
        let source = Address::from_ip(&SocketAddr::new(from.local.ip(), 0));
        let to = Address::from_ip(&canonical(to));
        address::resolve_addr(&cm.id, Some(&source), &to, PATIENCE)?;
        service::watch(socket, cm.borrow()?)?;
        Ok(Self {
            looking: Some(cm),
            pd,
            handle: None,
            mtu: 0,
            failed: None,
        })
    }

    pub fn handle(&self) -> Option<Ah> {
        self.handle
    }

    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Whether there is no path, and it is time to resolve it again.
    pub fn is_to_be_looked_for(&self) -> bool {
        self.failed.is_some_and(|at| at.elapsed() >= PAUSE)
    }

    /// Processes events of the path resolution.
    pub fn on_event(&mut self) {
        while let Some(cm) = &self.looking {
            let step = match cm.next_event() {
                Ok(None) => return,
                Ok(Some(event)) => match (event.kind, event.status) {
                    (event_type::ADDR_RESOLVED, 0) => {
                        address::resolve_route(&cm.id, PATIENCE).map(|()| false)
                    }
                    (event_type::ROUTE_RESOLVED, 0) => Ok(true),
                    _ => Err(event.error()),
                },
                Err(e) => Err(e),
            };
            let found = match step {
                Ok(false) => continue,
                Ok(true) => found(cm, self.pd),
                Err(e) => Err(e),
            };
            match found {
                Ok((handle, mtu)) => (self.handle, self.mtu) = (Some(handle), mtu),
                Err(_) => self.failed = Some(Instant::now()),
            }
            self.looking = None;
        }
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        if let Some(handle) = self.handle {
            handle.destroy();
        }
    }
}

/// An address handle for the path of an id, and the longest datagram on it.
fn found(cm: &CmId, pd: Pd) -> Result<(Ah, usize)> {
    let path = path::first(cm.id.backend()?)?.ok_or(Errno::NODEV)?;
    let verbs = Context::of(cm.id.block.verbs()).ok_or(Errno::NODEV)?;
    let port = cm.id.block.port_num();
    let mut attr = attributes(&path, port);
    if attr.is_global != 0 {
        let index = gid_index(verbs, port, gid_bytes(&path.sgid)).ok_or(Errno::NODEV)?;
        attr.grh.sgid_index = index;
    }
    // An enumeration: 1 is 256 bytes, each following value twice as many.
    let mtu = 128_usize << path.mtu.clamp(1, 5);
    Ok((Ah::new(pd, &mut attr)?, mtu))
}

fn attributes(path: &ibv_sa_path_rec, port: u8) -> ibv_ah_attr {
    let mut attr: ibv_ah_attr = bytemuck::Zeroable::zeroed();
    attr.dlid = path.dlid.get();
    attr.sl = path.sl;
    attr.static_rate = path.rate;
    attr.port_num = port;
    // Ethernet has no LIDs, so it always needs a global route.
    if path.dlid.get() == 0 || path.hop_limit > 1 {
        attr.is_global = 1;
        attr.grh.dgid = path.dgid;
        attr.grh.flow_label = path.flow_label.get();
        attr.grh.hop_limit = path.hop_limit;
        attr.grh.traffic_class = path.traffic_class;
    }
    attr
}

/// The last index of a GID: a GID that exists for both versions of RoCE has its entry for version 2
/// after that for version 1.
fn gid_index(verbs: Context, port: u8, gid: [u8; 16]) -> Option<u8> {
    let is_it = |index: &i32| verbs.gid(port, *index).is_ok_and(|other| other == gid);
    let first = (0..GIDS).find(is_it)?;
    let last = (first..=first + NEAR).rev().find(is_it)?;
    u8::try_from(last).ok()
}
