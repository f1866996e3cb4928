#![forbid(unsafe_code)]
//! The verbs objects of one side of a connection: a queue pair with one completion queue, the
//! buffers, and the tables that the peer writes.

use super::settings::Sizes;
use crate::id::Id;
use crate::queue_pair;
use crate::verbs::{CompChannel, Context, Cq, Mr, Pd, Qp, Region, deferred};
use core::ptr::null_mut;
use kit::abi::{IBV_QPT_RC, ibv_cq, ibv_qp_cap, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_sge};
use kit::errno::{Errno, Result};
use rsocket_protocol::{
    Buffer, CONTROL_PLACES, ConnectData, IOMAP_ENTRY, Limits, Piece, SGE, Sge, TARGET_ENTRIES,
    TargetSgl,
};
use std::sync::Arc;

/// Bytes of the table of target entries, which precedes the iomap.
const TABLE: usize = SGE * TARGET_ENTRIES as usize;
/// Bytes of a message that is a separate send.
const MESSAGE: usize = 4;

/// A completion queue with its channel.
struct Completions {
    cq: Cq,
    channel: CompChannel,
}

impl Completions {
    fn new(verbs: Context, entries: u32) -> Result<Self> {
        let channel = verbs.create_comp_channel()?;
        let made = channel
            .set_nonblocking()
            .and_then(|()| verbs.create_cq(entries, null_mut(), channel));
        let cq = made.inspect_err(|_| channel.destroy())?;
        Ok(Self { cq, channel })
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        deferred(|thread| self.cq.destroy(self.channel.as_ptr(), thread));
    }
}

/// One side of a connection. Members are dropped in their order, because the queue pair has to be
/// destroyed first.
pub struct Endpoint {
    id: Arc<Id>,
    pub qp: Qp,
    completions: Completions,
    pub limits: Limits,
    /// The peer writes data here; receive buffers for messages that are sends follow it.
    pub ring: Region,
    /// Data in flight, followed by slots for control entries.
    pub send: Region,
    /// Target entries and iomap.
    pub tables: Region,
    iomap: u16,
}

fn attributes(cq: *mut ibv_cq, sizes: &Sizes) -> ibv_qp_init_attr_ex {
    let attr = ibv_qp_init_attr {
        qp_context: null_mut(),
        send_cq: cq,
        recv_cq: cq,
        srq: null_mut(),
        cap: ibv_qp_cap {
            max_send_wr: sizes.send_queue,
            max_recv_wr: sizes.receive_queue,
            max_send_sge: 2,
            max_recv_sge: 1,
            max_inline_data: sizes.inline,
        },
        qp_type: IBV_QPT_RC,
        sq_sig_all: 1,
    };
    crate::endpoint::extended(&attr, null_mut())
}

impl Endpoint {
    /// Makes all objects of a connection, and posts all receive requests.
    ///
    /// # Errors
    /// EINVAL for an id without a device; ENOTSUP for an iWARP device without inline data; those of
    /// verbs.
    pub fn new(id: &Arc<Id>, sizes: &Sizes) -> Result<Self> {
        let device = id.device().ok_or(Errno::INVAL)?;
        let verbs = Context::of(id.block.verbs()).ok_or(Errno::INVAL)?;
        let pd = Pd::of(id.block.pd()).ok_or(Errno::INVAL)?;
        let most = device.max_requests;
        let sizes = Sizes {
            send_queue: sizes.send_queue.min(most),
            receive_queue: sizes.receive_queue.min(most),
            ..*sizes
        };
        let usize_of = |size: u32| usize::try_from(size).map_err(|_| Errno::NOMEM);
        let (ring, requests) = (
            usize_of(sizes.receive_buffer)?,
            usize_of(sizes.receive_queue)?,
        );
        let messages = if device.capabilities.is_iwarp {
            requests * MESSAGE
        } else {
            0
        };
        let ring_region = Region::new(pd, ring + messages, true)?;
        let send_buffer = usize_of(sizes.send_buffer)?;
        let places = usize::from(CONTROL_PLACES) * IOMAP_ENTRY;
        let send = Region::new(pd, send_buffer + places, false)?;
        let iomap = u16::try_from(sizes.iomap).unwrap_or(u16::MAX);
        let tables = Region::new(pd, TABLE + usize::from(iomap) * IOMAP_ENTRY, true)?;

        let completions = Completions::new(verbs, sizes.send_queue + sizes.receive_queue)?;
        let mut attr = attributes(completions.cq.as_ptr(), &sizes);
        queue_pair::create(id, &mut attr)?;
        let qp = id.qp().ok_or(Errno::INVAL)?;
        let inline = usize_of(attr.cap.max_inline_data)?;
        let short = |size: u32| u16::try_from(size).unwrap_or(u16::MAX);
        let endpoint = Self {
            id: id.clone(),
            qp,
            completions,
            limits: Limits {
                send_places: short(sizes.send_queue),
                receive_requests: short(sizes.receive_queue),
                inline,
                send_buffer,
                receive_buffer: Sge {
                    address: ring_region.address(),
                    key: ring_region.remote_key(),
                    length: sizes.receive_buffer,
                },
                message_is_send: device.capabilities.is_iwarp,
            },
            ring: ring_region,
            send,
            tables,
            iomap,
        };
        if device.capabilities.is_iwarp && inline < MESSAGE {
            return Err(Errno(libc::ENOTSUP));
        }
        for n in 0..requests {
            endpoint.post_receive(u64::try_from(n).unwrap_or(0))?;
        }
        Ok(endpoint)
    }

    /// The parameters for the peer.
    pub fn connect_data(&self) -> ConnectData {
        let ring = self.limits.receive_buffer;
        ConnectData {
            big_endian: ConnectData::NATIVE,
            credits: self.limits.receive_requests,
            iomap_size: self.iomap,
            target_sgl: Buffer {
                address: self.tables.address(),
                key: self.tables.remote_key(),
                length: TARGET_ENTRIES,
            },
            data: Buffer {
                length: ring.length / 2,
                ..ring
            },
        }
    }

    /// Offset of a receive request's message in the ring's region, if messages are sends.
    fn message_place(&self, number: u64) -> Option<Piece> {
        if !self.limits.message_is_send {
            return None;
        }
        let number = usize::try_from(number).ok()?;
        let ring = usize::try_from(self.limits.receive_buffer.length).ok()?;
        Some(Piece {
            offset: ring + number * MESSAGE,
            length: MESSAGE,
        })
    }

    /// Posts the receive request of a number below their count.
    ///
    /// # Errors
    /// Those of ibv_post_recv(3).
    pub fn post_receive(&self, number: u64) -> Result<()> {
        let place = self.message_place(number).map(|place| self.ring.sge(place));
        self.qp.receive(RECEIVE | number, place)
    }

    /// The message of a receive request that a send has filled.
    pub fn message(&self, number: u64) -> u32 {
        let mut bytes = [0; MESSAGE];
        if let Some(place) = self.message_place(number) {
            self.ring.read(place.offset, &mut bytes);
        }
        u32::from_be_bytes(bytes)
    }

    /// Scatter/gather elements for pieces of the send buffer.
    pub fn elements(&self, pieces: [Piece; 2]) -> [ibv_sge; 2] {
        pieces.map(|piece| self.send.sge(piece))
    }

    /// The slot for the entry of a control message.
    pub fn control_place(&self, place: usize, length: usize) -> Piece {
        Piece {
            offset: self.limits.send_buffer + place * IOMAP_ENTRY,
            length,
        }
    }

    /// An entry of this side's iomap, as the peer has written it.
    pub fn iomap_entry(&self, index: u16) -> rsocket_protocol::IomapEntry {
        let mut bytes = [0; IOMAP_ENTRY];
        self.tables
            .read(TABLE + usize::from(index) * IOMAP_ENTRY, &mut bytes);
        rsocket_protocol::IomapEntry::decode_native(&bytes)
    }

    pub fn iomap_size(&self) -> u16 {
        self.iomap
    }

    /// Registers memory of the program.
    ///
    /// # Errors
    /// EINVAL for an id without a domain; those of ibv_reg_mr(3).
    pub fn register(&self, address: usize, length: usize, remote_write: bool) -> Result<Mr> {
        let pd = Pd::of(self.id.block.pd()).ok_or(Errno::INVAL)?;
        Mr::new(pd, address, length, remote_write)
    }

    pub fn cq(&self) -> Cq {
        self.completions.cq
    }

    pub fn channel(&self) -> CompChannel {
        self.completions.channel
    }

    /// Reads the entries that the peer has written.
    pub fn targets(&self) -> Targets<'_> {
        Targets(&self.tables)
    }
}

/// Flag in the number of a receive request.
pub const RECEIVE: u64 = 1 << 63;

/// The table of target entries in memory.
pub struct Targets<'a>(&'a Region);

impl TargetSgl for Targets<'_> {
    fn take(&mut self, index: u32) -> Option<Sge> {
        let index = usize::try_from(index).ok()?;
        self.0.take_entry(index * SGE)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        queue_pair::destroy(&self.id);
    }
}
