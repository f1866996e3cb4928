//! What waits to be answered, in the order of the requests' PSNs.

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
    /// What an atomic operation found.
    Atomic { psn: Psn, original: u64 },
}

impl Reply {
    fn last_psn(&self) -> Psn {
        match self {
            Self::Ack { psn, .. } | Self::Atomic { psn, .. } => *psn,
            Self::Data { psn, packets, .. } => psn.plus(packets.saturating_sub(1)),
        }
    }

    fn is_response(&self) -> bool {
        !matches!(self, Self::Ack { .. })
    }
}

/// The answers, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Replies(VecDeque<Reply>);

impl Replies {
    /// Adds an answer. Of two acknowledgements in a row only the later is kept: each of them,
    /// negative ones too, acknowledges everything before its PSN.
    pub(crate) fn push(&mut self, reply: Reply) {
        if let (Reply::Ack { psn, .. }, Some(Reply::Ack { psn: last, .. })) =
            (reply, self.0.back().copied())
        {
            if psn.before(last) {
                return;
            }
            self.0.pop_back();
        }
        self.0.push_back(reply);
    }

    /// Takes back the answers from `psn` on: the requester starts over from there and will ask again.
    pub(crate) fn forget_from(&mut self, psn: Psn) {
        while self
            .0
            .back()
            .is_some_and(|reply| reply.last_psn().at_or_after(psn))
        {
            self.0.pop_back();
        }
    }

    /// How many reads and atomics are not answered in full.
    pub(crate) fn responses(&self) -> usize {
        self.0.iter().filter(|reply| reply.is_response()).count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the answer after which no other follows.
    pub(crate) fn end_with(&mut self, reply: Reply) {
        self.0.push_back(reply);
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
        let reply = self.0.pop_front()?;
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
                    self.0.push_front(Reply::Data {
                        psn,
                        range,
                        sent: sent + 1,
                        packets,
                    });
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
