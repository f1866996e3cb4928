//! A request that went past the protocol, as it is kept until its fate is known: with what the protocol
//! has to know if it is to send it after all, and no more, since there is one for each message.

use super::requests;
use crate::carrier::shm::{FEW, Few};
use crate::context::Context;
use crate::memory::piece;
use kit::abi::*;
use kit::provider::{Data as Given, SendView};
use uroce_engine::wire::ImmDt;
use uroce_engine::work::{Bytes, CompletionOpcode, Data, Request, Sge, Sges, WorkRequest};

/// Pieces of memory that are kept without an allocation. Of bytes it is as many as a message has in its
/// first line.
const PIECES: usize = 2;

/// A message whose fate is not known.
#[derive(Debug)]
pub(super) struct Sent {
    /// Where it is in the ring.
    pub position: u64,
    /// `wr_id`.
    pub id: u64,
    /// Bytes of data.
    pub length: u32,
    /// Bits of `enum ibv_send_flags`.
    pub flags: u32,
    immediate: Option<u32>,
    data: Kept,
}

/// The data of a request.
#[derive(Debug)]
pub(super) enum Kept {
    Pieces([Sge; PIECES], usize),
    Bytes(Few, usize),
    Much(Box<Data>),
}

/// The immediate data of a request that may go past the protocol, if it has any; `None` for others.
pub(super) fn immediate<'a>(given: &impl SendView<'a, Context>) -> Option<Option<u32>> {
    match given.opcode() {
        IBV_WR_SEND => Some(None),
        IBV_WR_SEND_WITH_IMM => Some(Some(u32::from_be(given.extra()))),
        _ => None,
    }
}

/// A request but for its data.
pub(super) struct Asked {
    /// `wr_id`.
    pub id: u64,
    /// Bits of `enum ibv_send_flags`.
    pub flags: u32,
    /// Immediate data.
    pub immediate: Option<u32>,
}

impl Sent {
    #[inline]
    pub fn new(asked: &Asked, data: Kept, (position, length): (u64, u32)) -> Self {
        Self {
            position,
            id: asked.id,
            length,
            flags: asked.flags,
            immediate: asked.immediate,
            data,
        }
    }

    /// Whether a success is to be told.
    pub fn is_signaled(&self) -> bool {
        self.flags & IBV_SEND_SIGNALED != 0
    }

    /// What its completion says that it was.
    pub const OPCODE: CompletionOpcode = CompletionOpcode::Send;

    /// The request as the protocol takes it.
    pub fn request(self) -> WorkRequest {
        WorkRequest {
            id: self.id,
            request: match self.immediate {
                Some(data) => Request::SendImm(ImmDt { data }),
                None => Request::Send,
            },
            signaled: self.is_signaled(),
            solicited: self.flags & IBV_SEND_SOLICITED != 0,
            fence: self.flags & IBV_SEND_FENCE != 0,
            data: self.data.into(),
            destination: None,
            srqn: 0,
        }
    }
}

/// The data of a request, if it is inline, in one piece and fits into the first line of a message; and
/// how many bytes it has.
// Inlined, so that words are kept as such until they are where they stay.
#[inline(always)]
pub(super) fn few(data: &Given<'_>) -> Option<(Few, usize)> {
    let Given::Inline(inline) = data else {
        return None;
    };
    let bytes = inline.only().filter(|bytes| bytes.len() <= FEW)?;
    Some((words(bytes), bytes.len()))
}

/// The piece that has a request's data, if it fits into the first line of a message.
#[inline]
pub(super) fn one_piece(data: &Given<'_>) -> Option<Sge> {
    let Given::Sges([one]) = data else {
        return None;
    };
    let fits = usize::try_from(one.length).is_ok_and(|length| length <= FEW);
    fits.then(|| piece(one))
}

impl Kept {
    /// Data that [`few`] has no words of.
    pub fn of(data: &Given<'_>) -> Self {
        match data {
            Given::Sges([]) => Self::Pieces([Sge::default(); PIECES], 0),
            Given::Sges([one]) => Self::Pieces([piece(one), Sge::default()], 1),
            Given::Sges([one, two]) => Self::Pieces([piece(one), piece(two)], 2),
            Given::Sges(many) => {
                let many = many.iter().map(piece).collect();
                Self::Much(Box::new(Data::Sges(many)))
            }
            Given::Inline(inline) => {
                let bytes = requests::bytes(inline);
                if bytes.len() <= FEW {
                    return Self::Bytes(words(&bytes), bytes.len());
                }
                Self::Much(Box::new(Data::Inline(bytes)))
            }
        }
    }
}

/// As many bytes as there is room for, and zeros.
#[inline(always)]
fn words(bytes: &[u8]) -> Few {
    // One by one, so that they are in registers.
    [
        word(bytes, 0),
        word(bytes, 8),
        word(bytes, 16),
        word(bytes, 24),
    ]
}

/// The word at a place, with zeros for what is behind the end.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.first_chunk()
        .map_or_else(|| part(rest), |whole| u64::from_ne_bytes(*whole))
}

/// A word that begins with these bytes.
#[inline]
fn part(bytes: &[u8]) -> u64 {
    if bytes.is_empty() {
        return 0;
    }
    let mut word = [0; size_of::<u64>()];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_ne_bytes(word)
}

impl From<Kept> for Data {
    fn from(kept: Kept) -> Self {
        match kept {
            Kept::Pieces(pieces, count) => {
                Self::Sges(Sges::from_slice(pieces.get(..count).unwrap_or_default()))
            }
            Kept::Bytes(few, count) => {
                let bytes: [u8; FEW] = bytemuck::cast(few);
                Self::Inline(Bytes::from_slice(bytes.get(..count).unwrap_or_default()))
            }
            Kept::Much(data) => *data,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::provider::SendRequest;

    /// As the data is kept that is not read at once.
    fn kept_of(data: &Given<'_>) -> Kept {
        few(data).map_or_else(|| Kept::of(data), |(few, count)| Kept::Bytes(few, count))
    }

    fn kept(data: Given<'_>) -> WorkRequest {
        let mut given = SendRequest::<Context>::new(7, IBV_WR_SEND_WITH_IMM, IBV_SEND_SOLICITED);
        given.imm = 9u32.to_be_bytes();
        given.data = data;
        let asked = Asked {
            id: given.id,
            flags: given.flags,
            immediate: immediate(&given).expect("one that may go"),
        };
        Sent::new(&asked, kept_of(&data), (64, 3)).request()
    }

    #[test]
    fn what_is_kept_is_the_request() {
        let sge = |addr| ibv_sge {
            addr,
            length: 33,
            lkey: 3,
        };
        let sges = [sge(1), sge(2), sge(3)];
        for count in 0..=sges.len() {
            let some = &sges[..count];
            let wr = kept(Given::Sges(some));
            assert_eq!(wr.data, Data::Sges(some.iter().map(piece).collect()));
            assert_eq!(wr.request, Request::SendImm(ImmDt { data: 9 }));
            assert!(wr.solicited && !wr.signaled && !wr.fence && wr.id == 7);
        }
        let bytes: Vec<u8> = (0..100).collect();
        for count in [0, 1, FEW, FEW + 1, 100] {
            let some = &bytes[..count];
            let wr = kept(Given::Inline(kit::provider::Inline::Bytes(some)));
            assert_eq!(wr.data, Data::Inline(Bytes::from_slice(some)));
        }
    }

    #[test]
    fn other_requests_do_not_go_past() {
        let given = SendRequest::<Context>::new(7, IBV_WR_RDMA_WRITE, 0);
        assert_eq!(immediate(&given), None);
    }
}
