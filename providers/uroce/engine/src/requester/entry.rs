//! One work request in the send queue.

use super::cut::Cut;
use crate::psn::Psn;
use crate::qp::Mtu;
use crate::work::{Completion, Request, Status, WorkRequest};

/// A posted request and how far it has come.
#[derive(Debug)]
pub(crate) struct Entry {
    pub wr: WorkRequest,
    /// Bytes of the message.
    pub length: u32,
    /// The first PSN; given with the first packet.
    pub start: Psn,
    /// PSNs of the message: of its packets, or for a read of its responses.
    pub packets: u32,
    /// The message's number, counting from 1.
    pub ssn: Psn,
    /// Whether PSNs were given.
    pub sent: bool,
    /// Packets of the response that have arrived.
    pub arrived: u32,
    /// How it is cut into packets; decided with the first one.
    pub cut: Cut,
    /// Finished, perhaps not yet reported because of others before it.
    pub done: bool,
    /// Failed here; reported, and ends the queue, once all before it are finished.
    pub failed: Option<Status>,
}

impl Entry {
    pub(crate) fn new(wr: WorkRequest, length: u32, mtu: Mtu) -> Self {
        let packets = match wr.request {
            Request::Read(_) => mtu.packets(length),
            _ if wr.request.has_response() => 1,
            _ if wr.request.is_local() => 0,
            _ => mtu.packets(length),
        };
        Self {
            wr,
            length,
            start: Psn::default(),
            packets,
            ssn: Psn::default(),
            sent: false,
            arrived: 0,
            cut: Cut::default(),
            done: false,
            failed: None,
        }
    }

    /// Decides how it is cut into packets. Their number may become larger by one.
    pub(crate) fn cut(&mut self, latest: &mut Cut, mtu: u32) {
        let request = &self.wr.request;
        self.cut = Cut::equal(request, self.length, self.packets, mtu);
        if let Some((cut, packets)) = self.cut.like(*latest, request, self.length, mtu) {
            self.cut = cut;
            self.packets = packets;
        }
        if self.cut != Cut::default() {
            *latest = self.cut;
        }
    }

    /// Where the payload of a packet begins in the message, and its length.
    pub(crate) fn part(&self, packet: u32, mtu: u32) -> (u32, u32) {
        self.cut.part(&self.wr.request, packet, self.length, mtu)
    }

    /// The PSN after the last one.
    pub(crate) fn end(&self) -> Psn {
        self.start.plus(self.packets)
    }

    pub(crate) fn completion(&self, status: Status) -> Completion {
        let mut completion =
            Completion::new(self.wr.id, status, self.wr.request.completion_opcode());
        if status == Status::Success {
            completion.length = self.length;
        }
        completion
    }
}
