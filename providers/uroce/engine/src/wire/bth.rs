//! Base Transport Header (IBTA volume 1, 9.2): stands at the start of every packet.

use super::field::{get16, get24, put16, put24};
use crate::psn::Psn;

/// Bytes of the header.
pub const LEN: usize = 12;

/// The header in place. No accessor can fail: the length was checked by [`View::split`].
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(&'a [u8; LEN]);

impl<'a> View<'a> {
    /// Splits `bytes` into the header and the rest; `None` if `bytes` is too short.
    #[must_use]
    pub fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (head, rest) = bytes.split_first_chunk()?;
        Some((Self(head), rest))
    }

    /// OpCode, not yet looked up.
    #[must_use]
    pub fn opcode(self) -> u8 {
        self.0[0]
    }

    /// SE: the receiver is asked for a solicited event.
    #[must_use]
    pub fn solicited(self) -> bool {
        self.0[1] & 0x80 != 0
    }

    /// M: the migration state.
    #[must_use]
    pub fn migrated(self) -> bool {
        self.0[1] & 0x40 != 0
    }

    /// PadCnt: bytes added to the payload, 0 to 3.
    #[must_use]
    pub fn pad(self) -> u8 {
        (self.0[1] >> 4) & 3
    }

    /// TVer: the version of the transport headers.
    #[must_use]
    pub fn version(self) -> u8 {
        self.0[1] & 0xf
    }

    /// P_Key.
    #[must_use]
    pub fn pkey(self) -> u16 {
        get16::<2, LEN>(self.0)
    }

    /// FECN: a switch on the way saw congestion.
    #[must_use]
    pub fn fecn(self) -> bool {
        self.0[4] & 0x80 != 0
    }

    /// BECN: the receiver reports congestion.
    #[must_use]
    pub fn becn(self) -> bool {
        self.0[4] & 0x40 != 0
    }

    /// Destination QP number.
    #[must_use]
    pub fn destination(self) -> u32 {
        get24::<5, LEN>(self.0)
    }

    /// A: the requester asks for an acknowledgement.
    #[must_use]
    pub fn ack_request(self) -> bool {
        self.0[8] & 0x80 != 0
    }

    /// The first of the seven reserved bits behind A: see [`Bth::selective`].
    #[must_use]
    pub fn selective(self) -> bool {
        self.0[8] & 0x40 != 0
    }

    /// The second of the seven reserved bits behind A: see [`Bth::piggyback`].
    #[must_use]
    pub fn piggyback(self) -> bool {
        self.0[8] & 0x20 != 0
    }

    /// The third of the seven reserved bits behind A: see [`Bth::equal`].
    #[must_use]
    pub fn equal(self) -> bool {
        self.0[8] & 0x10 != 0
    }

    /// The fourth of the seven reserved bits behind A: see [`Bth::filled`].
    #[must_use]
    pub fn filled(self) -> bool {
        self.0[8] & 0x08 != 0
    }

    /// Packet sequence number.
    #[must_use]
    pub fn psn(self) -> Psn {
        Psn::new(get24::<9, LEN>(self.0))
    }
}

/// The header as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bth {
    /// OpCode, see [`super::Opcode`].
    pub opcode: u8,
    /// SE: the receiver is asked for a solicited event.
    pub solicited: bool,
    /// M: the migration state (1 = migrated, the state of a path that never had an alternate).
    pub migrated: bool,
    /// PadCnt, 0 to 3.
    pub pad: u8,
    /// P_Key.
    pub pkey: u16,
    /// FECN.
    pub fecn: bool,
    /// BECN.
    pub becn: bool,
    /// Destination QP number, 24 bits.
    pub destination: u32,
    /// A: the requester asks for an acknowledgement.
    pub ack_request: bool,
    /// The first of the seven reserved bits behind A, which others send as 0, ignore, and cover by
    /// the ICRC: this end understands reports of missing packets ([`super::Report`]).
    pub selective: bool,
    /// The second of the reserved bits, which means something only beside [`Bth::selective`]. In a
    /// request: it contains an acknowledgement ([`super::Piggyback`]). In an answer: this end reads
    /// such requests.
    pub piggyback: bool,
    /// The third of the reserved bits, which means something only beside [`Bth::selective`]: this
    /// end takes messages in parts of any length, and packets with [`Bth::filled`]. A request has
    /// it if an answer had it, and may then be such a part.
    pub equal: bool,
    /// The fourth of the reserved bits, which means something only beside [`Bth::selective`]: the
    /// packet has bytes behind its payload that mean nothing ([`super::Filler`]).
    pub filled: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

impl Bth {
    /// Takes every field out of a view. The version is not kept: it is 0 in every known packet.
    #[must_use]
    pub fn parse(view: View<'_>) -> Self {
        Self {
            opcode: view.opcode(),
            solicited: view.solicited(),
            migrated: view.migrated(),
            pad: view.pad(),
            pkey: view.pkey(),
            fecn: view.fecn(),
            becn: view.becn(),
            destination: view.destination(),
            ack_request: view.ack_request(),
            selective: view.selective(),
            piggyback: view.piggyback(),
            equal: view.equal(),
            filled: view.filled(),
            psn: view.psn(),
        }
    }

    /// The header's bytes, other reserved bits 0.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[0] = self.opcode;
        bytes[1] =
            u8::from(self.solicited) << 7 | u8::from(self.migrated) << 6 | (self.pad & 3) << 4;
        put16::<2, LEN>(&mut bytes, self.pkey);
        bytes[4] = u8::from(self.fecn) << 7 | u8::from(self.becn) << 6;
        put24::<5, LEN>(&mut bytes, self.destination);
        bytes[8] = u8::from(self.ack_request) << 7
            | u8::from(self.selective) << 6
            | u8::from(self.piggyback) << 5
            | u8::from(self.equal) << 4
            | u8::from(self.filled) << 3;
        put24::<9, LEN>(&mut bytes, self.psn.value());
        bytes
    }
}
