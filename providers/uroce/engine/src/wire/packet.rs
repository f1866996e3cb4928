//! A packet: the UDP payload, from BTH to ICRC.

use super::opcode::{Kind, Opcode, PayloadRule, Transport};
use super::{
    AtomicAckEth, AtomicEth, Bth, Deth, Feth, Filler, Ieth, ImmDt, Piggyback, Reth, XrcEth, aeth,
    aeth::Aeth, atomic_ack_eth, atomic_eth, bth, deth, feth, filler, ieth, imm_dt, piggyback,
    report, reth, xrceth,
};

/// Bytes of the ICRC at the end.
pub const ICRC_LEN: usize = 4;
/// The most that all headers of one packet take: BTH, AtomicETH, an acknowledgement and a filler.
pub const MAX_HEADERS: usize = bth::LEN + atomic_eth::LEN + piggyback::LEN + filler::LEN;
/// The largest path MTU, and so the largest payload.
pub const MAX_PAYLOAD: usize = 4096;

/// Why bytes are no packet. Each is a reason to drop them silently (IBTA volume 1, 9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// Shorter than the headers, the pad and the ICRC together.
    Short,
    /// TVer is not 0.
    Version,
    /// A reserved opcode, or one of RD.
    Opcode,
    /// The payload's length breaks the opcode's rule, whatever the MTU.
    Payload,
    /// A reserved value in an extension header.
    Field,
}

/// All headers of a packet as values. Which extensions are there follows from the opcode;
/// [`Headers::emit`] writes those the opcode has and takes a missing one for zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The opcode; always equal to `bth.opcode`.
    pub opcode: Opcode,
    /// BTH.
    pub bth: Bth,
    /// XRCETH.
    pub xrceth: Option<XrcEth>,
    /// DETH.
    pub deth: Option<Deth>,
    /// FETH.
    pub feth: Option<Feth>,
    /// RETH.
    pub reth: Option<Reth>,
    /// AtomicETH.
    pub atomic_eth: Option<AtomicEth>,
    /// AETH.
    pub aeth: Option<Aeth>,
    /// AtomicAckETH.
    pub atomic_ack_eth: Option<AtomicAckEth>,
    /// Immediate data.
    pub imm_dt: Option<ImmDt>,
    /// IETH.
    pub ieth: Option<Ieth>,
    /// An acknowledgement, which the BTH announces.
    pub piggyback: Option<Piggyback>,
    /// How many bytes stand behind the payload, which the BTH announces.
    pub filler: Option<Filler>,
}

impl Headers {
    /// Headers with the opcode and a BTH, and no extension yet.
    #[must_use]
    pub fn new(opcode: Opcode, bth: Bth) -> Self {
        Self {
            opcode,
            bth: Bth {
                opcode: opcode.byte(),
                ..bth
            },
            xrceth: None,
            deth: None,
            feth: None,
            reth: None,
            atomic_eth: None,
            aeth: None,
            atomic_ack_eth: None,
            imm_dt: None,
            ieth: None,
            piggyback: None,
            filler: None,
        }
    }

    /// The bytes of all headers, in a buffer on the stack, and how many of them count.
    #[must_use]
    pub fn emit(&self) -> Emitted {
        let mut out = Emitted::default();
        let has = self.opcode.extensions();
        out.push(&self.bth.emit());
        if has.xrceth {
            out.push(&self.xrceth.unwrap_or_default().emit());
        }
        if has.deth {
            out.push(&self.deth.unwrap_or_default().emit());
        }
        if has.feth {
            out.push(&self.feth.unwrap_or_default().emit());
        }
        if has.reth {
            out.push(&self.reth.unwrap_or_default().emit());
        }
        if has.atomic_eth {
            out.push(&self.atomic_eth.unwrap_or_default().emit());
        }
        if has.aeth {
            out.push(&self.aeth.unwrap_or_default().emit());
        }
        if has.atomic_ack_eth {
            out.push(&self.atomic_ack_eth.unwrap_or_default().emit());
        }
        if has.imm_dt {
            out.push(&self.imm_dt.unwrap_or_default().emit());
        }
        if has.ieth {
            out.push(&self.ieth.unwrap_or_default().emit());
        }
        if self.announces_piggyback() {
            out.push(&self.piggyback.unwrap_or_default().emit());
        }
        if self.announces_filler() {
            out.push(&self.filler.unwrap_or_default().emit());
        }
        out
    }

    /// Makes the packet longer by so many bytes. Other than by 0 or at least 4 it cannot become.
    pub(crate) fn fill(&mut self, bytes: u32) {
        self.filler = Filler::of(bytes);
        self.bth.filled = self.filler.is_some();
    }

    /// Leaves out the bytes that mean nothing.
    pub fn unfill(&mut self) {
        self.filler = None;
        self.bth.filled = false;
    }

    /// Bytes behind the payload: pad, filling and ICRC.
    #[must_use]
    pub fn tail(&self) -> usize {
        let filling = self.filler.filter(|_| self.announces_filler());
        let filling = filling.map_or(0, |filler| usize::from(filler.length));
        usize::from(self.bth.pad) + filling + ICRC_LEN
    }

    /// Whether the bytes behind the payload are counted behind the other headers.
    fn announces_filler(&self) -> bool {
        self.bth.selective && self.bth.filled && self.opcode.transport() == Transport::Rc
    }

    /// Whether a packet that is not the last of its message may have any length.
    pub(crate) fn is_of_equal_parts(&self) -> bool {
        self.bth.selective && self.bth.equal && self.opcode.transport() == Transport::Rc
    }

    /// Whether an acknowledgement stands behind the other headers.
    fn announces_piggyback(&self) -> bool {
        self.bth.selective
            && self.bth.piggyback
            && self.opcode.transport() == Transport::Rc
            && !self.opcode.operation().is_response()
    }

    fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (view, mut rest) = bth::View::split(bytes).ok_or(Malformed::Short)?;
        if view.version() != 0 {
            return Err(Malformed::Version);
        }
        let opcode = Opcode::parse(view.opcode()).ok_or(Malformed::Opcode)?;
        let mut headers = Self::new(opcode, Bth::parse(view));
        let has = opcode.extensions();
        if has.xrceth {
            let (view, after) = xrceth::View::split(rest).ok_or(Malformed::Short)?;
            headers.xrceth = Some(XrcEth::parse(view));
            rest = after;
        }
        if has.deth {
            let (view, after) = deth::View::split(rest).ok_or(Malformed::Short)?;
            headers.deth = Some(Deth::parse(view));
            rest = after;
        }
        if has.feth {
            let (view, after) = feth::View::split(rest).ok_or(Malformed::Short)?;
            headers.feth = Some(Feth::parse(view));
            rest = after;
        }
        if has.reth {
            let (view, after) = reth::View::split(rest).ok_or(Malformed::Short)?;
            headers.reth = Some(Reth::parse(view));
            rest = after;
        }
        if has.atomic_eth {
            let (view, after) = atomic_eth::View::split(rest).ok_or(Malformed::Short)?;
            headers.atomic_eth = Some(AtomicEth::parse(view));
            rest = after;
        }
        if has.aeth {
            let (view, after) = aeth::View::split(rest).ok_or(Malformed::Short)?;
            headers.aeth = Some(Aeth::parse(view));
            rest = after;
        }
        if has.atomic_ack_eth {
            let (view, after) = atomic_ack_eth::View::split(rest).ok_or(Malformed::Short)?;
            headers.atomic_ack_eth = Some(AtomicAckEth::parse(view));
            rest = after;
        }
        if has.imm_dt {
            let (view, after) = imm_dt::View::split(rest).ok_or(Malformed::Short)?;
            headers.imm_dt = Some(ImmDt::parse(view));
            rest = after;
        }
        if has.ieth {
            let (view, after) = ieth::View::split(rest).ok_or(Malformed::Short)?;
            headers.ieth = Some(Ieth::parse(view));
            rest = after;
        }
        if headers.announces_piggyback() {
            let (view, after) = piggyback::View::split(rest).ok_or(Malformed::Short)?;
            headers.piggyback = Some(Piggyback::parse(view));
            rest = after;
        }
        if headers.announces_filler() {
            let (view, after) = filler::View::split(rest).ok_or(Malformed::Short)?;
            headers.filler = Some(Filler::parse(view));
            rest = after;
        }
        Ok((headers, rest))
    }
}

/// Header bytes on the stack.
#[derive(Clone, Copy, Debug)]
pub struct Emitted {
    bytes: [u8; MAX_HEADERS],
    length: usize,
}

impl Default for Emitted {
    fn default() -> Self {
        Self {
            bytes: [0; MAX_HEADERS],
            length: 0,
        }
    }
}

impl Emitted {
    fn push(&mut self, part: &[u8]) {
        let end = self.length + part.len();
        if let Some(room) = self.bytes.get_mut(self.length..end) {
            room.copy_from_slice(part);
            self.length = end;
        }
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// A packet read from bytes: its headers, and its payload without pad, filling and ICRC. The ICRC
/// is not looked at here, see [`super::icrc`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The headers.
    pub headers: Headers,
    /// The payload.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a UDP payload.
    ///
    /// # Errors
    /// The reasons of [`Malformed`]. The path MTU is unknown here, so the queue pair checks
    /// [`PayloadRule::Full`].
    pub fn parse(datagram: &'a [u8]) -> Result<Self, Malformed> {
        let (headers, rest) = Headers::parse(datagram)?;
        let length = rest
            .len()
            .checked_sub(headers.tail())
            .ok_or(Malformed::Short)?;
        let payload = rest.get(..length).ok_or(Malformed::Short)?;
        check_payload(&headers, payload)?;
        if let Some(feth) = headers.feth {
            check_flush(feth)?;
        }
        Ok(Self { headers, payload })
    }
}

fn check_payload(headers: &Headers, payload: &[u8]) -> Result<(), Malformed> {
    let length = payload.len();
    let padded = length + usize::from(headers.bth.pad);
    let reports = headers.bth.selective
        && headers.opcode.operation().kind() == Kind::Acknowledge
        && padded == length
        && length <= report::MAX_BYTES;
    let fits = match headers.opcode.payload_rule() {
        PayloadRule::Empty if reports => true,
        PayloadRule::Empty => padded == 0,
        // The last packet is the only one with a pad.
        PayloadRule::Full if headers.is_of_equal_parts() => {
            (1..=MAX_PAYLOAD).contains(&length) && padded == length
        }
        PayloadRule::Full => matches!(length, 256 | 512 | 1024 | 2048 | 4096) && padded == length,
        PayloadRule::Some => (1..=MAX_PAYLOAD).contains(&length),
        PayloadRule::Any => length <= MAX_PAYLOAD,
        PayloadRule::Eight => length == 8 && padded == 8,
        PayloadRule::Sixteen => padded == 16,
    };
    if fits && padded.is_multiple_of(4) {
        Ok(())
    } else {
        Err(Malformed::Payload)
    }
}

fn check_flush(feth: Feth) -> Result<(), Malformed> {
    let placement = 1..=feth::GLOBAL | feth::PERSISTENT;
    if placement.contains(&feth.placement) && feth.selectivity <= feth::REGION {
        Ok(())
    } else {
        Err(Malformed::Field)
    }
}

/// How many bytes of pad follow a payload, so that packets end on 4 bytes.
#[must_use]
pub fn pad_of(length: usize) -> u8 {
    match length % 4 {
        1 => 3,
        2 => 2,
        3 => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::psn::Psn;
    use crate::wire::Operation;
    use proptest::prelude::*;

    fn opcodes() -> impl Strategy<Value = Opcode> {
        let all: Vec<Opcode> = (0..=255).filter_map(Opcode::parse).collect();
        proptest::sample::select(all)
    }

    prop_compose! {
        fn headers()(
            opcode in opcodes(),
            flags in any::<[bool; 9]>(),
            pkey in any::<u16>(),
            numbers in any::<[u32; 6]>(),
            wide in any::<[u64; 4]>(),
            syndrome in any::<u8>(),
            flush in (1u8..4, 0u8..2),
            filling in 0u16..70,
        ) -> Headers {
            let bth = Bth {
                opcode: 0,
                solicited: flags[0],
                migrated: flags[1],
                pad: 0,
                pkey,
                fecn: flags[2],
                becn: flags[3],
                destination: numbers[0] >> 8,
                ack_request: flags[4],
                selective: flags[5],
                piggyback: flags[6],
                equal: flags[7],
                filled: flags[8],
                psn: Psn::new(numbers[1]),
            };
            let has = opcode.extensions();
            let mut headers = Headers::new(opcode, bth);
            headers.xrceth = has.xrceth.then_some(XrcEth { srqn: numbers[2] >> 8 });
            headers.deth = has.deth.then_some(Deth { qkey: numbers[3], source: numbers[4] >> 8 });
            headers.feth = has.feth.then_some(Feth { placement: flush.0, selectivity: flush.1 });
            headers.reth = has.reth.then_some(Reth { address: wide[0], rkey: numbers[3], length: numbers[4] });
            headers.atomic_eth = has.atomic_eth.then_some(AtomicEth {
                address: wide[0], rkey: numbers[3], swap_add: wide[1], compare: wide[2],
            });
            headers.aeth = has.aeth.then_some(Aeth { syndrome, msn: numbers[5] >> 8 });
            headers.atomic_ack_eth = has.atomic_ack_eth.then_some(AtomicAckEth { original: wide[3] });
            headers.imm_dt = has.imm_dt.then_some(ImmDt { data: numbers[5] });
            headers.ieth = has.ieth.then_some(Ieth { rkey: numbers[5] });
            headers.piggyback = headers.announces_piggyback().then_some(Piggyback {
                syndrome, msn: numbers[2] >> 8, psn: numbers[3] >> 8,
            });
            headers.filler = headers.announces_filler().then_some(Filler { length: filling });
            headers
        }
    }

    fn payload_for(opcode: Opcode, wish: usize) -> usize {
        match opcode.payload_rule() {
            PayloadRule::Empty => 0,
            PayloadRule::Full => 256 << (wish % 5),
            PayloadRule::Some => 1 + wish % MAX_PAYLOAD,
            PayloadRule::Any => wish % (MAX_PAYLOAD + 1),
            PayloadRule::Eight => 8,
            PayloadRule::Sixteen => 16,
        }
    }

    proptest! {
        #[test]
        fn an_emitted_packet_is_parsed(mut headers in headers(), wish in any::<usize>()) {
            let length = payload_for(headers.opcode, wish);
            headers.bth.pad = pad_of(length);
            let mut bytes = headers.emit().as_slice().to_vec();
            bytes.resize(bytes.len() + length, 0xa5);
            bytes.resize(bytes.len() + headers.tail(), 0);
            let packet = Packet::parse(&bytes).expect("well formed");
            prop_assert_eq!(packet.headers, headers);
            prop_assert_eq!(packet.payload.len(), length);
            // Every cut is refused, or is a shorter packet of the same headers.
            for end in 0..bytes.len() {
                if let Ok(cut) = Packet::parse(&bytes[..end]) {
                    prop_assert_eq!(cut.headers, headers);
                    prop_assert!(cut.payload.len() < length);
                }
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Ok(packet) = Packet::parse(&bytes) {
                let emitted = packet.headers.emit();
                prop_assert!(emitted.as_slice().len() + packet.payload.len() + ICRC_LEN <= bytes.len());
            }
        }
    }

    #[test]
    fn the_largest_headers_fit() {
        let bth = Bth {
            selective: true,
            piggyback: true,
            filled: true,
            ..Bth::default()
        };
        let largest = (0..=255)
            .filter_map(Opcode::parse)
            .map(|opcode| Headers::new(opcode, bth).emit().as_slice().len())
            .max();
        assert_eq!(largest, Some(MAX_HEADERS));
    }

    #[test]
    fn a_filler_is_no_payload_and_no_longer_than_the_packet() {
        let opcode = Opcode::new(Transport::Rc, Operation::SendMiddle).expect("RC has it");
        let bth = Bth {
            selective: true,
            equal: true,
            ..Bth::default()
        };
        let mut headers = Headers::new(opcode, bth);
        headers.fill(16);
        assert_eq!(headers.tail(), 12 + ICRC_LEN);
        let mut bytes = headers.emit().as_slice().to_vec();
        bytes.extend([7; 920]);
        bytes.resize(bytes.len() + headers.tail(), 0);
        let packet = Packet::parse(&bytes).expect("well formed");
        assert_eq!((packet.headers, packet.payload), (headers, &[7; 920][..]));
        let with_length = |length: u16| {
            let mut bytes = bytes.clone();
            bytes[bth::LEN..bth::LEN + 2].copy_from_slice(&length.to_be_bytes());
            Packet::parse(&bytes).map(|packet| packet.payload.len())
        };
        assert_eq!(with_length(928), Ok(4));
        // A packet in the middle of a message has payload, in units of 4 bytes.
        assert_eq!(with_length(932), Err(Malformed::Payload));
        assert_eq!(with_length(927), Err(Malformed::Payload));
        assert_eq!(with_length(933), Err(Malformed::Short));
        assert_eq!(with_length(u16::MAX), Err(Malformed::Short));
        headers.unfill();
        assert_eq!(headers.tail(), ICRC_LEN);
    }

    #[test]
    fn only_ends_of_this_make_cut_messages_anywhere() {
        let opcode = Opcode::new(Transport::Rc, Operation::SendMiddle).expect("RC has it");
        for (selective, equal) in [(false, false), (false, true), (true, false), (true, true)] {
            let bth = Bth {
                selective,
                equal,
                ..Bth::default()
            };
            let mut bytes = Headers::new(opcode, bth).emit().as_slice().to_vec();
            bytes.resize(bytes.len() + 920 + ICRC_LEN, 0);
            assert_eq!(Packet::parse(&bytes).is_ok(), selective && equal);
        }
    }

    #[test]
    fn wrong_packets_are_named() {
        let opcode = Opcode::parse(0x04).expect("send only");
        let good = Headers::new(opcode, Bth::default());
        let mut bytes = good.emit().as_slice().to_vec();
        assert_eq!(Packet::parse(&bytes), Err(Malformed::Short));
        bytes.extend([0; ICRC_LEN]);
        assert!(Packet::parse(&bytes).is_ok());
        bytes[1] = 0x01;
        assert_eq!(Packet::parse(&bytes), Err(Malformed::Version));
        bytes[1] = 0x30;
        assert_eq!(Packet::parse(&bytes), Err(Malformed::Short));
        bytes[1] = 0;
        bytes[0] = 0x5f;
        assert_eq!(Packet::parse(&bytes), Err(Malformed::Opcode));
        bytes[0] = 0x02;
        assert_eq!(Packet::parse(&bytes), Err(Malformed::Payload));
        bytes[0] = 0x11;
        assert_eq!(Packet::parse(&bytes), Err(Malformed::Short));
    }
}
