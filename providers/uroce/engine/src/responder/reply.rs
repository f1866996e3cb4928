//! Pending answers, in the order of the requests' PSNs.

use std::collections::VecDeque;

use crate::host::RemoteRange;
use crate::outgoing::{Origin, Outgoing, Payload};
use crate::psn::Psn;
use crate::qp::{Attributes, Service};
use crate::wire::{
    Aeth, AtomicAckEth, Bth, Headers, Opcode, Operation, Position, Syndrome, pad_of,
};

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// An acknowledgement of one kind or another.
    Ack { psn: Psn, syndrome: Syndrome },
    /// A read's data, from packet `sent` on; `range` is empty for a read of nothing, a flush and an
    /// atomic write.
    Data {
        psn: Psn,
        range: RemoteRange,
        sent: u32,
        packets: u32,
    },
    /// The original value of an atomic operation.
    Atomic { psn: Psn, original: u64 },
}

impl Reply {
    fn last_psn(&self) -> Psn {
        match self {
            Self::Ack { psn, .. } | Self::Atomic { psn, .. } => *psn,
            Self::Data { psn, packets, .. } => psn.plus(packets.saturating_sub(1)),
        }
    }

    /// The PSN of the next packet.
    fn next_psn(&self) -> Psn {
        match self {
            Self::Ack { psn, .. } | Self::Atomic { psn, .. } => *psn,
            Self::Data { psn, sent, .. } => psn.plus(*sent),
        }
    }

    fn is_response(&self) -> bool {
        !matches!(self, Self::Ack { .. })
    }
}

/// An answer that is not sent in full.
#[derive(Clone, Copy, Debug)]
struct Queued {
    reply: Reply,
    /// Whether a part of it was never sent: it is not only a repetition.
    first: bool,
}

impl Queued {
    fn first(reply: Reply) -> Self {
        Self { reply, first: true }
    }
}

/// The answers, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Replies(VecDeque<Queued>);

impl Replies {
    /// Adds an answer. Of two acknowledgements in a row only the later is kept: each of them,
    /// negative ones too, acknowledges everything before its PSN.
    pub(crate) fn push(&mut self, reply: Reply) {
        let last = self.0.back().map(|queued| queued.reply);
        if let (Reply::Ack { psn, .. }, Some(Reply::Ack { psn: last, .. })) = (reply, last) {
            if psn.before(last) {
                return;
            }
            self.0.pop_back();
        }
        self.0.push_back(Queued::first(reply));
    }

    /// Whether every packet of an answer is still to be sent.
    pub(crate) fn holds(&self, reply: &Reply) -> bool {
        self.0.iter().any(|Queued { reply: known, .. }| {
            known.is_response()
                && reply.next_psn().at_or_after(known.next_psn())
                && !known.last_psn().before(reply.last_psn())
        })
    }

    /// Adds the answer to a request that was answered before, ahead of those to later requests. It
    /// replaces answers whose whole rest it repeats: a requester that goes back to a packet does
    /// not use later packets of an earlier request.
    pub(crate) fn repeat(&mut self, reply: Reply) {
        let mut first = false;
        self.0.retain(|queued| {
            let known = queued.reply;
            let rest = known.next_psn();
            let within =
                rest.at_or_after(reply.next_psn()) && !reply.last_psn().before(known.last_psn());
            let replaced = known.is_response() && within;
            first |= replaced && queued.first;
            !replaced
        });
        let psn = reply.next_psn();
        let later = |queued: &Queued| queued.reply.next_psn().at_or_after(psn);
        let at = self.0.iter().position(later).unwrap_or(self.0.len());
        self.0.insert(at, Queued { reply, first });
    }

    /// How many answers to reads and atomics are not sent in full, repetitions included.
    pub(crate) fn responses(&self) -> usize {
        let responses = self.0.iter().filter(|queued| queued.reply.is_response());
        responses.count()
    }

    /// How many reads and atomics were not answered in full. Repetitions do not count: their
    /// requester may have the answer already, and ask for the next.
    pub(crate) fn unanswered(&self) -> usize {
        let first = |queued: &&Queued| queued.first && queued.reply.is_response();
        self.0.iter().filter(first).count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a positive acknowledgement that is the only answer.
    pub(crate) fn take_ack(&mut self) -> Option<(Psn, Syndrome)> {
        let only = self.0.front().filter(|_| self.0.len() == 1)?;
        let Reply::Ack {
            psn,
            syndrome: syndrome @ Syndrome::Ack(_),
        } = only.reply
        else {
            return None;
        };
        self.0.clear();
        Some((psn, syndrome))
    }

    /// Adds the answer after which no other follows.
    pub(crate) fn end_with(&mut self, reply: Reply) {
        self.0.push_back(Queued::first(reply));
    }

    /// Forgets the answers to requests from a PSN on.
    pub(crate) fn forget_from(&mut self, psn: Psn) {
        self.0.retain(|queued| queued.reply.last_psn().before(psn));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The next packet, with the responder's message number.
    pub(crate) fn emit(
        &mut self,
        service: Service,
        attributes: &Attributes,
        msn: Psn,
    ) -> Option<Outgoing<'static>> {
        let Queued { reply, first } = self.0.pop_front()?;
        let emitter = Emitter {
            service,
            attributes,
            msn,
        };
        match reply {
            Reply::Ack { psn, syndrome } => {
                Some(emitter.packet(Operation::Acknowledge, psn, syndrome, None, EMPTY))
            }
            Reply::Atomic { psn, original } => Some(emitter.packet(
                Operation::AtomicAcknowledge,
                psn,
                Syndrome::Ack(None),
                Some(AtomicAckEth { original }),
                EMPTY,
            )),
            Reply::Data {
                psn,
                range,
                sent,
                packets,
            } => {
                if sent + 1 < packets {
                    let reply = Reply::Data {
                        psn,
                        range,
                        sent: sent + 1,
                        packets,
                    };
                    self.0.push_front(Queued { reply, first });
                }
                Some(emitter.data(psn, range, sent, packets))
            }
        }
    }
}

const EMPTY: Payload<'static> = Payload::Bytes(&[]);

struct Emitter<'a> {
    service: Service,
    attributes: &'a Attributes,
    msn: Psn,
}

impl Emitter<'_> {
    fn data(&self, psn: Psn, range: RemoteRange, sent: u32, packets: u32) -> Outgoing<'static> {
        let operation = match Position::of(sent == 0, sent + 1 >= packets) {
            Position::First => Operation::ReadResponseFirst,
            Position::Middle => Operation::ReadResponseMiddle,
            Position::Last => Operation::ReadResponseLast,
            Position::Only => Operation::ReadResponseOnly,
        };
        let mtu = self.attributes.path_mtu.bytes();
        let skip = sent.saturating_mul(mtu);
        let length = range.length.saturating_sub(skip).min(mtu);
        let payload = if length == 0 {
            EMPTY
        } else {
            Payload::Remote {
                rkey: range.rkey,
                address: range.address.wrapping_add(u64::from(skip)),
                length,
            }
        };
        self.packet(
            operation,
            psn.plus(sent),
            Syndrome::Ack(None),
            None,
            payload,
        )
    }

    fn packet(
        &self,
        operation: Operation,
        psn: Psn,
        syndrome: Syndrome,
        atomic_ack_eth: Option<AtomicAckEth>,
        payload: Payload<'static>,
    ) -> Outgoing<'static> {
        let transport = self.service.transport();
        let opcode = Opcode::new(transport, operation).unwrap_or(Opcode::SEND_ONLY);
        let bth = Bth {
            migrated: true,
            pad: pad_of(usize::try_from(payload.length()).unwrap_or(0)),
            pkey: self.attributes.pkey,
            destination: self.attributes.dest_qp_num,
            psn,
            ..Bth::default()
        };
        let mut headers = Headers::new(opcode, bth);
        headers.aeth = opcode.extensions().aeth.then_some(Aeth {
            syndrome: syndrome.byte(),
            msn: self.msn.value(),
        });
        headers.atomic_ack_eth = atomic_ack_eth;
        Outgoing {
            headers,
            payload,
            address: None,
            origin: Origin::Reply(psn),
        }
    }
}
