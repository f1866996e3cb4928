//! Opcodes (IBTA volume 1, table 38 and annexes A14, A17, A19): three bits of transport service,
//! five of operation, and the headers of each packet that follow from them.

/// The service that the first three bits name. RD is not spoken by RoCE v2 devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Congestion notification (annex A17): only with [`Operation::Notification`].
    Cnp,
    /// Extended reliable connection.
    Xrc,
}

/// The operation that the last five bits name.
#[allow(missing_docs, reason = "the names are the specification's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    SendFirst = 0x00,
    SendMiddle = 0x01,
    SendLast = 0x02,
    SendLastImm = 0x03,
    SendOnly = 0x04,
    SendOnlyImm = 0x05,
    WriteFirst = 0x06,
    WriteMiddle = 0x07,
    WriteLast = 0x08,
    WriteLastImm = 0x09,
    WriteOnly = 0x0a,
    WriteOnlyImm = 0x0b,
    ReadRequest = 0x0c,
    ReadResponseFirst = 0x0d,
    ReadResponseMiddle = 0x0e,
    ReadResponseLast = 0x0f,
    ReadResponseOnly = 0x10,
    Acknowledge = 0x11,
    AtomicAcknowledge = 0x12,
    CompareSwap = 0x13,
    FetchAdd = 0x14,
    SendLastInvalidate = 0x16,
    SendOnlyInvalidate = 0x17,
    Flush = 0x1c,
    AtomicWrite = 0x1d,
    /// The congestion notification packet: its five bits are 1, distinguished by the transport.
    Notification = 0x81,
}

/// The kind of operation.
#[allow(missing_docs, reason = "the names are the specification's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Send,
    Write,
    ReadRequest,
    ReadResponse,
    Acknowledge,
    AtomicAcknowledge,
    Atomic,
    Flush,
    AtomicWrite,
    Notification,
}

/// Where in its message a packet stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// The first of several.
    First,
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
    /// The whole message.
    Only,
}

impl Position {
    /// Whether a message begins here.
    #[must_use]
    pub const fn begins(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether a message ends here.
    #[must_use]
    pub fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }

    /// The position of a packet, from whether the message begins and ends with it.
    #[must_use]
    pub fn of(begins: bool, ends: bool) -> Self {
        match (begins, ends) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, true) => Self::Last,
            (false, false) => Self::Middle,
        }
    }
}

/// The payload allowed between the headers and the ICRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadRule {
    /// Nothing.
    Empty,
    /// Exactly one path MTU (packets that are followed by another of their message).
    Full,
    /// 1 byte to one path MTU (the last of several).
    Some,
    /// 0 bytes to one path MTU.
    Any,
    /// Exactly 8 bytes.
    Eight,
    /// 16 reserved bytes.
    Sixteen,
}

/// Which extension headers follow the BTH, in the order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// XRCETH.
    pub xrceth: bool,
    /// DETH.
    pub deth: bool,
    /// FETH.
    pub feth: bool,
    /// RETH.
    pub reth: bool,
    /// AtomicETH.
    pub atomic_eth: bool,
    /// AETH.
    pub aeth: bool,
    /// AtomicAckETH.
    pub atomic_ack_eth: bool,
    /// ImmDt.
    pub imm_dt: bool,
    /// IETH.
    pub ieth: bool,
}

/// A valid pair of transport and operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opcode {
    transport: Transport,
    operation: Operation,
}

const OPERATIONS: [Operation; 25] = [
    Operation::SendFirst,
    Operation::SendMiddle,
    Operation::SendLast,
    Operation::SendLastImm,
    Operation::SendOnly,
    Operation::SendOnlyImm,
    Operation::WriteFirst,
    Operation::WriteMiddle,
    Operation::WriteLast,
    Operation::WriteLastImm,
    Operation::WriteOnly,
    Operation::WriteOnlyImm,
    Operation::ReadRequest,
    Operation::ReadResponseFirst,
    Operation::ReadResponseMiddle,
    Operation::ReadResponseLast,
    Operation::ReadResponseOnly,
    Operation::Acknowledge,
    Operation::AtomicAcknowledge,
    Operation::CompareSwap,
    Operation::FetchAdd,
    Operation::SendLastInvalidate,
    Operation::SendOnlyInvalidate,
    Operation::Flush,
    Operation::AtomicWrite,
];

/// The five bits of an operation.
const BITS: u8 = 0x1f;
const NUMBERS: usize = BITS as usize + 1;

/// The operations by their bits.
const BY_BITS: [Option<Operation>; NUMBERS] = by_bits();
/// Their extension headers, without those that the transport has.
static EXTENSIONS: [Extensions; NUMBERS] = extensions();

const fn by_bits() -> [Option<Operation>; NUMBERS] {
    let mut table = [None; NUMBERS];
    let mut at = 0;
    while at < OPERATIONS.len() {
        table[OPERATIONS[at] as usize] = Some(OPERATIONS[at]);
        at += 1;
    }
    table
}

const fn extensions() -> [Extensions; NUMBERS] {
    let mut table = [Extensions::NONE; NUMBERS];
    let mut at = 0;
    while at < OPERATIONS.len() {
        table[OPERATIONS[at] as usize] = Extensions::of(OPERATIONS[at]);
        at += 1;
    }
    table
}

impl Extensions {
    const NONE: Self = Self {
        xrceth: false,
        deth: false,
        feth: false,
        reth: false,
        atomic_eth: false,
        aeth: false,
        atomic_ack_eth: false,
        imm_dt: false,
        ieth: false,
    };

    /// Those that an operation has, whatever its transport.
    const fn of(operation: Operation) -> Self {
        let (kind, position) = (operation.kind(), operation.position());
        Self {
            feth: matches!(kind, Kind::Flush),
            reth: matches!(kind, Kind::ReadRequest | Kind::Flush | Kind::AtomicWrite)
                || matches!(kind, Kind::Write) && position.begins(),
            atomic_eth: matches!(kind, Kind::Atomic),
            aeth: operation.is_response() && !matches!(position, Position::Middle),
            atomic_ack_eth: matches!(kind, Kind::AtomicAcknowledge),
            imm_dt: operation.has_immediate(),
            ieth: operation.has_invalidate(),
            ..Self::NONE
        }
    }
}

impl Operation {
    /// The kind of operation.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::SendFirst
            | Self::SendMiddle
            | Self::SendLast
            | Self::SendLastImm
            | Self::SendOnly
            | Self::SendOnlyImm
            | Self::SendLastInvalidate
            | Self::SendOnlyInvalidate => Kind::Send,
            Self::WriteFirst
            | Self::WriteMiddle
            | Self::WriteLast
            | Self::WriteLastImm
            | Self::WriteOnly
            | Self::WriteOnlyImm => Kind::Write,
            Self::ReadRequest => Kind::ReadRequest,
            Self::ReadResponseFirst
            | Self::ReadResponseMiddle
            | Self::ReadResponseLast
            | Self::ReadResponseOnly => Kind::ReadResponse,
            Self::Acknowledge => Kind::Acknowledge,
            Self::AtomicAcknowledge => Kind::AtomicAcknowledge,
            Self::CompareSwap | Self::FetchAdd => Kind::Atomic,
            Self::Flush => Kind::Flush,
            Self::AtomicWrite => Kind::AtomicWrite,
            Self::Notification => Kind::Notification,
        }
    }

    /// Where in its message the packet stands. Operations of one packet are [`Position::Only`].
    #[must_use]
    pub const fn position(self) -> Position {
        match self {
            Self::SendFirst | Self::WriteFirst | Self::ReadResponseFirst => Position::First,
            Self::SendMiddle | Self::WriteMiddle | Self::ReadResponseMiddle => Position::Middle,
            Self::SendLast
            | Self::SendLastImm
            | Self::SendLastInvalidate
            | Self::WriteLast
            | Self::WriteLastImm
            | Self::ReadResponseLast => Position::Last,
            _ => Position::Only,
        }
    }

    /// Whether the packet carries immediate data.
    #[must_use]
    pub const fn has_immediate(self) -> bool {
        matches!(
            self,
            Self::SendLastImm | Self::SendOnlyImm | Self::WriteLastImm | Self::WriteOnlyImm
        )
    }

    /// Whether the packet asks the responder to invalidate an R_Key.
    #[must_use]
    pub const fn has_invalidate(self) -> bool {
        matches!(self, Self::SendLastInvalidate | Self::SendOnlyInvalidate)
    }

    /// Whether the packet goes from the responder to the requester.
    #[must_use]
    pub const fn is_response(self) -> bool {
        matches!(
            self.kind(),
            Kind::ReadResponse | Kind::Acknowledge | Kind::AtomicAcknowledge
        )
    }
}

impl Opcode {
    /// RC Acknowledge.
    pub const ACKNOWLEDGE: Self = Self {
        transport: Transport::Rc,
        operation: Operation::Acknowledge,
    };

    /// RC SEND Only, the smallest request.
    pub const SEND_ONLY: Self = Self {
        transport: Transport::Rc,
        operation: Operation::SendOnly,
    };

    /// The pair, if the transport has the operation.
    #[must_use]
    pub fn new(transport: Transport, operation: Operation) -> Option<Self> {
        let known = match transport {
            Transport::Rc | Transport::Xrc => operation != Operation::Notification,
            Transport::Uc => {
                matches!(operation.kind(), Kind::Send | Kind::Write) && !operation.has_invalidate()
            }
            Transport::Ud => matches!(operation, Operation::SendOnly | Operation::SendOnlyImm),
            Transport::Cnp => operation == Operation::Notification,
        };
        known.then_some(Self {
            transport,
            operation,
        })
    }

    /// The opcode that a BTH's first byte names; `None` for reserved ones and for RD.
    #[must_use]
    pub fn parse(byte: u8) -> Option<Self> {
        let transport = match byte >> 5 {
            0 => Transport::Rc,
            1 => Transport::Uc,
            3 => Transport::Ud,
            4 if byte == Operation::Notification as u8 => {
                return Self::new(Transport::Cnp, Operation::Notification);
            }
            5 => Transport::Xrc,
            _ => return None,
        };
        let operation = (*BY_BITS.get(usize::from(byte & BITS))?)?;
        Self::new(transport, operation)
    }

    /// The byte for the BTH.
    #[must_use]
    pub fn byte(self) -> u8 {
        let service = match self.transport {
            Transport::Rc => 0x00,
            Transport::Uc => 0x20,
            Transport::Ud => 0x60,
            Transport::Cnp => 0x80,
            Transport::Xrc => 0xa0,
        };
        service | self.operation as u8
    }

    /// The transport service.
    #[must_use]
    pub fn transport(self) -> Transport {
        self.transport
    }

    /// The operation.
    #[must_use]
    pub fn operation(self) -> Operation {
        self.operation
    }

    /// Which extension headers the packet has.
    #[must_use]
    pub fn extensions(self) -> Extensions {
        let operation = self.operation;
        // The notification has none, as its five bits in the table.
        let known = EXTENSIONS.get(usize::from(operation as u8 & BITS));
        Extensions {
            xrceth: self.transport == Transport::Xrc && !operation.is_response(),
            deth: self.transport == Transport::Ud,
            ..known.copied().unwrap_or_default()
        }
    }

    /// The payload that the packet may have.
    #[must_use]
    pub fn payload_rule(self) -> PayloadRule {
        match self.operation.kind() {
            Kind::Send | Kind::Write | Kind::ReadResponse => match self.operation.position() {
                Position::First | Position::Middle => PayloadRule::Full,
                Position::Last => PayloadRule::Some,
                Position::Only => PayloadRule::Any,
            },
            Kind::AtomicWrite => PayloadRule::Eight,
            Kind::Notification => PayloadRule::Sixteen,
            _ => PayloadRule::Empty,
        }
    }

    /// Whether the responder always answers, requested or not: reads, atomics, flushes, and atomic
    /// writes have separate responses.
    #[must_use]
    pub fn always_answered(self) -> bool {
        matches!(
            self.operation.kind(),
            Kind::ReadRequest | Kind::Atomic | Kind::Flush | Kind::AtomicWrite
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read_and_written_alike() {
        let known: Vec<u8> = (0..=255)
            .filter(|byte| Opcode::parse(*byte).is_some())
            .collect();
        for byte in &known {
            let opcode = Opcode::parse(*byte).expect("known");
            assert_eq!(opcode.byte(), *byte);
        }
        let of = |service: u8| known.iter().filter(|byte| *byte >> 5 == service).count();
        assert_eq!(
            [of(0), of(1), of(2), of(3), of(4), of(5)],
            [25, 12, 0, 2, 1, 25]
        );
        assert_eq!(known.len(), 65);
    }

    #[test]
    fn the_numbers_are_the_specifications() {
        let number = |transport, operation| Opcode::new(transport, operation).map(Opcode::byte);
        assert_eq!(number(Transport::Rc, Operation::ReadRequest), Some(0x0c));
        assert_eq!(
            number(Transport::Rc, Operation::SendOnlyInvalidate),
            Some(0x17)
        );
        assert_eq!(number(Transport::Rc, Operation::AtomicWrite), Some(0x1d));
        assert_eq!(number(Transport::Uc, Operation::WriteLastImm), Some(0x29));
        assert_eq!(number(Transport::Ud, Operation::SendOnlyImm), Some(0x65));
        assert_eq!(number(Transport::Xrc, Operation::Acknowledge), Some(0xb1));
        assert_eq!(number(Transport::Uc, Operation::ReadRequest), None);
        assert_eq!(number(Transport::Uc, Operation::SendLastInvalidate), None);
        assert_eq!(number(Transport::Ud, Operation::SendFirst), None);
        assert_eq!(number(Transport::Cnp, Operation::Notification), Some(0x81));
        assert_eq!(Opcode::parse(0x15), None);
        assert_eq!(Opcode::parse(0x44), None);
    }

    #[test]
    fn only_the_beginning_of_a_write_carries_the_address() {
        let extensions = |operation| {
            Opcode::new(Transport::Rc, operation)
                .expect("RC has it")
                .extensions()
        };
        assert!(extensions(Operation::WriteFirst).reth);
        assert!(extensions(Operation::WriteOnlyImm).reth);
        assert!(extensions(Operation::WriteOnlyImm).imm_dt);
        assert!(!extensions(Operation::WriteMiddle).reth);
        assert!(!extensions(Operation::WriteLast).reth);
        assert!(!extensions(Operation::ReadResponseMiddle).aeth);
        assert!(extensions(Operation::ReadResponseOnly).aeth);
    }
}
