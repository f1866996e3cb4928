#![forbid(unsafe_code)]
//! A connection: the protocol's state and the verbs objects that execute it.

use super::endpoint::{Endpoint, RECEIVE};
use super::iomap_table::Iomaps;
use crate::abi::Buffers;
use crate::verbs::{Local, RdmaWrite, immediate};
use kit::abi::{IBV_WC_SUCCESS, IBV_WC_WITH_IMM, ibv_wc};
use kit::errno::Result;
use rsocket_protocol::{ConnectData, Payload, Stream, Write};
use std::time::Instant;

/// Completions taken at a time.
const BATCH: usize = 16;
/// Bytes of the first write of a call. Each following write is twice as long: the peer begins to
/// read while the rest is copied.
const FIRST_WRITE: usize = 2048;

/// A connection.
pub struct Connection {
    pub stream: Stream,
    pub endpoint: Endpoint,
    pub iomaps: Iomaps,
    /// Whether the completion queue makes an event at the next completion.
    armed: bool,
    /// Time of the last completion, or of connecting.
    pub last_completion: Instant,
    inline: Vec<u8>,
    /// Whether a change happened that other threads may wait for.
    progressed: bool,
}

impl Connection {
    pub fn new(endpoint: Endpoint, peer: &ConnectData) -> Self {
        Self {
            stream: Stream::new(endpoint.limits, peer),
            endpoint,
            iomaps: Iomaps::default(),
            armed: false,
            last_completion: Instant::now(),
            inline: Vec::new(),
            progressed: false,
        }
    }

    /// Takes completions, and sends messages that are due. True if there were any.
    pub fn process(&mut self) -> bool {
        let mut any = false;
        let mut completions: [ibv_wc; BATCH] = bytemuck::Zeroable::zeroed();
        loop {
            let count = match self.endpoint.cq().poll(&mut completions) {
                Ok(count) => count,
                Err(_) => {
                    self.stream.failed();
                    return true;
                }
            };
            for completion in &completions[..count] {
                self.complete(completion);
            }
            any |= count > 0;
            if count < BATCH {
                break;
            }
        }
        if any {
            self.last_completion = Instant::now();
            self.progressed = true;
        }
        self.send_control();
        any
    }

    fn complete(&mut self, completion: &ibv_wc) {
        let succeeded = completion.status == IBV_WC_SUCCESS;
        if completion.wr_id & RECEIVE == 0 {
            self.stream.sent(completion.wr_id, succeeded);
            return;
        }
        // Receive requests fail after the end of the connection; another completion reports its
        // cause.
        if !succeeded {
            return;
        }
        let number = completion.wr_id & !RECEIVE;
        let word = if completion.wc_flags & IBV_WC_WITH_IMM != 0 {
            immediate(completion)
        } else {
            self.endpoint.message(number)
        };
        // A violation ends the connection; no other action follows.
        let _ = self.stream.received(word, &mut self.endpoint.targets());
        if self.stream.is_connected() && self.endpoint.post_receive(number).is_err() {
            self.stream.failed();
        }
    }

    /// Sends control messages that are due.
    pub fn send_control(&mut self) {
        while let Some(write) = self.stream.next_control() {
            self.post(&write, None);
        }
    }

    /// Posts a write, with the program's bytes from a position. The stream fails if the write
    /// cannot be posted.
    pub fn post(&mut self, write: &Write, from: Option<(&Buffers, usize)>) {
        if self.try_post(write, from).is_err() {
            self.stream.failed();
        }
    }

    fn try_post(&mut self, write: &Write, from: Option<(&Buffers, usize)>) -> Result<()> {
        let endpoint = &self.endpoint;
        let entry_bytes;
        let local = match write.payload {
            Payload::Empty => Local::Inline(&[]),
            Payload::Inline(length) => {
                self.inline.resize(length, 0);
                if let Some((buffers, at)) = from {
                    buffers.read(at, &mut self.inline);
                }
                Local::Inline(&self.inline)
            }
            Payload::Ring(pieces) => {
                if let Some((buffers, at)) = from {
                    endpoint.send.fill(pieces[0], buffers, at);
                    endpoint
                        .send
                        .fill(pieces[1], buffers, at + pieces[0].length);
                }
                Local::Pieces(endpoint.elements(pieces))
            }
            Payload::Entry(bytes, length) => {
                entry_bytes = bytes;
                Local::Inline(&entry_bytes[..length])
            }
            Payload::ControlEntry(bytes, length, place) => {
                let piece = endpoint.control_place(place, length);
                endpoint.send.write(piece.offset, &bytes[..length]);
                let empty = rsocket_protocol::Piece::default();
                Local::Pieces(endpoint.elements([piece, empty]))
            }
            Payload::RingEntry(bytes, pieces) => {
                let (first, second) = bytes.split_at(pieces[0].length);
                endpoint.send.write(pieces[0].offset, first);
                endpoint.send.write(pieces[1].offset, second);
                Local::Pieces(endpoint.elements(pieces))
            }
        };
        let qp = endpoint.qp;
        let is_send = endpoint.limits.message_is_send;
        let rdma = RdmaWrite {
            id: write.id,
            local,
            immediate: write.message.filter(|_| !is_send),
            address: write.target.address,
            key: write.target.key,
        };
        match write.message {
            Some(word) if is_send => {
                let carries = write.payload != Payload::Empty;
                if carries {
                    qp.write(&rdma)?;
                }
                let id = if carries { write.send_id() } else { write.id };
                qp.send_inline(id, &word.to_be_bytes())
            }
            _ => qp.write(&rdma),
        }
    }

    /// Sends as many bytes as there is room for, from a position; returns their number.
    pub fn send(&mut self, from: &Buffers, at: usize) -> usize {
        let (mut sent, mut most) = (0, FIRST_WRITE);
        while at + sent < from.total() {
            let left = from.total() - at - sent;
            // Completions are taken only when they are needed.
            let next = match self.stream.send(left, most) {
                Some(write) => Some(write),
                None => {
                    if self.process() {
                        self.stream.send(left, most)
                    } else {
                        None
                    }
                }
            };
            let Some(write) = next else {
                break;
            };
            self.post(&write, Some((from, at + sent)));
            sent += usize::try_from(write.target.length).unwrap_or(0);
            most *= 2;
        }
        sent
    }

    /// Copies received bytes and removes them; returns their number.
    pub fn receive(&mut self, to: &Buffers, at: usize) -> usize {
        let pieces = self.stream.take(to.total() - at);
        let copied = self.copy(pieces, to, at);
        // From now on the space may be granted to the peer.
        if copied > 0 {
            self.send_control();
        }
        copied
    }

    /// Copies received bytes and leaves them in the buffer.
    pub fn peek(&self, to: &Buffers) -> usize {
        self.copy(self.stream.peek(0, to.total()), to, 0)
    }

    fn copy(&self, pieces: [rsocket_protocol::Piece; 2], to: &Buffers, at: usize) -> usize {
        self.endpoint.ring.empty(pieces[0], to, at);
        self.endpoint
            .ring
            .empty(pieces[1], to, at + pieces[0].length);
        pieces[0].length + pieces[1].length
    }

    /// Takes an event from the completion channel. False if there is none.
    pub fn take_event(&mut self) -> bool {
        let mut any = false;
        while self.endpoint.channel().take_event() {
            // Other threads that sleep have to arm the queue again.
            self.armed = false;
            self.progressed = true;
            any = true;
        }
        any
    }

    /// Whether there was a change since the last call.
    pub fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.progressed)
    }

    /// Requests an event at the next completion. The caller then checks for completions that are
    /// already there.
    ///
    /// # Errors
    /// Those of ibv_req_notify_cq(3).
    pub fn arm(&mut self) -> Result<()> {
        if !self.armed {
            self.endpoint.cq().arm()?;
            self.armed = true;
        }
        Ok(())
    }

    /// Sends a write that fails if the peer does not respond.
    pub fn keep_alive(&mut self) {
        if let Some(write) = self.stream.keep_alive() {
            self.post(&write, None);
        }
    }

    /// Writes the outstanding entries of the peer's iomap. False if there was no room for all.
    pub fn write_iomaps(&mut self) -> bool {
        while let Some((index, entry)) = self.iomaps.pending() {
            let write = match self.stream.write_iomap(index, &entry) {
                Some(write) => write,
                None => {
                    if !self.process() {
                        return false;
                    }
                    match self.stream.write_iomap(index, &entry) {
                        Some(write) => write,
                        None => return false,
                    }
                }
            };
            self.iomaps.written(index);
            self.post(&write, None);
        }
        true
    }
}
