//! Requests whose message is in flight on the fast path, kept until the outcome is known.
//!
//! [`Queue`] owns them, in the order in which they were sent. Each entry contains only the data
//! that the protocol needs to send the request after all, because there is one for each message.
//!
//! *Invariants.* Positions in the ring grow from the oldest to the newest. An entry that was
//! removed holds no allocation.
//!
//! *Tests.* Here: a request survives being kept, order while the queue grows and shrinks.

use super::super::requests;
use crate::carrier::shm::{FEW, Few};
use crate::memory::piece;
use crate::objects::Objects;
use crate::span::Span;
use kit::abi::*;
use kit::provider::{Data as Given, Inline, SendView};
use std::collections::VecDeque;
use uroce_engine::wire::ImmDt;
use uroce_engine::work::{Bytes, CompletionOpcode, Data, Request, Sge, WorkRequest};

/// Pieces of memory that are kept without an allocation. Of bytes it is as many as a message has in
/// its first line.
const PIECES: usize = 2;
const _: () = assert!(size_of::<[Sge; PIECES]>() == FEW);

/// Places for messages that a queue begins with.
const LEAST: usize = 4;

/// A message in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Where it is in the ring.
    pub position: u64,
    /// `wr_id`.
    pub id: u64,
    /// Bytes of data.
    pub length: u32,
    /// Bits of `enum ibv_send_flags`.
    pub flags: u32,
    immediate: Option<u32>,
    kind: Kind,
    /// That many bytes or pieces.
    count: u32,
    words: Few,
    /// Data that has no room there.
    much: Option<Box<Data>>,
}

/// The kind of the words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// Bytes of data.
    #[default]
    Bytes,
    /// Pieces of memory, two words each.
    Pieces,
    /// None: bytes of data that are in the queue's own place for those.
    Apart,
}

/// The immediate data of a request that may take the fast path, if it has any; `None` for others.
pub(super) fn immediate<'a, P: Objects>(given: &impl SendView<'a, P>) -> Option<Option<u32>> {
    match given.opcode() {
        IBV_WR_SEND => Some(None),
        IBV_WR_SEND_WITH_IMM => Some(Some(u32::from_be(given.extra()))),
        _ => None,
    }
}

/// A request but for its data.
pub(super) struct Header {
    /// `wr_id`.
    pub id: u64,
    /// Bits of `enum ibv_send_flags`.
    pub flags: u32,
    /// Immediate data.
    pub immediate: Option<u32>,
}

/// Messages in flight, in the order in which they were sent.
///
/// An entry is written in its final place, word by word. If it were made elsewhere and copied, the
/// copy would wait until the small parts have left the processor's store buffer, after the message,
/// whose line in the ring has to come from another processor first.
#[derive(Debug, Default)]
pub(super) struct Queue {
    places: Vec<InFlight>,
    used: Span,
    /// Inline data of requests that have no room for it themselves, in their order: one by one they
    /// would take an allocation each.
    apart: VecDeque<u8>,
}

impl Queue {
    #[inline]
    pub fn len(&self) -> usize {
        self.used.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The one that many places behind the oldest.
    #[inline]
    pub fn get(&self, behind: usize) -> Option<&InFlight> {
        let index = self.used.index(behind, self.places.len());
        self.places.get(index).filter(|_| behind < self.len())
    }

    pub fn iter(&self) -> impl Iterator<Item = &InFlight> {
        (0..self.len()).map_while(|behind| self.get(behind))
    }

    /// Adds a request, without its data, for a message at a position and of a length.
    #[inline(always)]
    pub fn add(
        &mut self,
        header: &Header,
        (position, length): (u64, u32),
    ) -> Option<&mut InFlight> {
        if self.len() == self.places.len() {
            self.grow();
        }
        let index = self.used.index(self.len(), self.places.len());
        let sent = self.places.get_mut(index)?;
        self.used.add();
        sent.position = position;
        sent.id = header.id;
        sent.length = length;
        sent.flags = header.flags;
        sent.immediate = header.immediate;
        Some(sent)
    }

    /// Adds a request with its data, for a message at a position and of a length.
    pub fn add_with(&mut self, header: &Header, place: (u64, u32), data: &Given<'_>) -> Option<()> {
        if let Given::Inline(inline) = data
            && inline.length() > FEW
        {
            match inline {
                Inline::Bytes(bytes) => self.apart.extend(*bytes),
                Inline::Pieces(pieces) => pieces.iter().for_each(|part| self.apart.extend(part)),
            }
            let sent = self.add(header, place)?;
            sent.kind = Kind::Apart;
            sent.count = u32::try_from(inline.length()).ok()?;
            return Some(());
        }
        self.add(header, place)?.keep(data);
        Some(())
    }

    #[cold]
    fn grow(&mut self) {
        self.places.rotate_left(self.used.first());
        self.used = Span::from_start(self.len());
        let more = self.len().max(LEAST);
        self.places
            .resize_with(self.len() + more, InFlight::default);
    }

    /// Takes the oldest out.
    pub fn pop_front(&mut self) -> Option<InFlight> {
        if self.is_empty() {
            return None;
        }
        let sent = self.places.get_mut(self.used.first()).map(std::mem::take);
        self.used.pass(self.places.len());
        let mut sent = sent?;
        if sent.kind == Kind::Apart {
            let bytes = self.apart.drain(..sent.apart().min(self.apart.len()));
            sent.keep_much(Data::Inline(bytes.collect()));
        }
        Some(sent)
    }

    /// Removes that many of the oldest.
    #[inline]
    pub fn remove_oldest(&mut self, count: usize) {
        let mut apart = 0;
        for _ in 0..count.min(self.len()) {
            if let Some(sent) = self.places.get_mut(self.used.first()) {
                sent.much = None;
                apart += sent.apart();
            }
            self.used.pass(self.places.len());
        }
        if apart > 0 {
            self.apart.drain(..apart.min(self.apart.len()));
        }
    }
}

impl InFlight {
    /// Keeps that many bytes, which are few.
    #[inline(always)]
    pub fn keep_few(&mut self, few: Few, count: usize) {
        self.kind = Kind::Bytes;
        self.words = few;
        self.count = u32::try_from(count).unwrap_or(0);
    }

    /// Keeps data of any length.
    pub fn keep(&mut self, data: &Given<'_>) {
        match data {
            Given::Sges(pieces) if pieces.len() <= PIECES => {
                self.kind = Kind::Pieces;
                self.count = u32::try_from(pieces.len()).unwrap_or(0);
                let places = self.words.as_chunks_mut::<2>().0;
                for (place, given) in places.iter_mut().zip(*pieces) {
                    *place = two_words(piece(given));
                }
            }
            Given::Sges(many) => self.keep_much(Data::Sges(many.iter().map(piece).collect())),
            Given::Inline(inline) => {
                let bytes = requests::bytes(inline);
                match bytes.len() <= FEW {
                    true => self.keep_few(words(&bytes), bytes.len()),
                    false => self.keep_much(Data::Inline(bytes)),
                }
            }
        }
    }

    /// Bytes of its data that the queue has.
    fn apart(&self) -> usize {
        match self.kind {
            Kind::Apart => usize::try_from(self.count).unwrap_or(0),
            Kind::Bytes | Kind::Pieces => 0,
        }
    }

    fn keep_much(&mut self, data: Data) {
        self.much = Some(Box::new(data));
    }

    /// Whether a success is reported.
    pub fn is_signaled(&self) -> bool {
        self.flags & IBV_SEND_SIGNALED != 0
    }

    /// The operation in its completion.
    pub const OPCODE: CompletionOpcode = CompletionOpcode::Send;

    fn data(&mut self) -> Data {
        let count = usize::try_from(self.count).unwrap_or(0);
        match (self.kind, self.much.take()) {
            (_, Some(much)) => *much,
            (Kind::Pieces, None) => {
                let places = self.words.as_chunks::<2>().0;
                Data::Sges(places.iter().take(count).map(piece_of).collect())
            }
            // Whatever is apart was added when the request was taken out of the queue.
            (Kind::Apart, None) => Data::Inline(Bytes::new()),
            (Kind::Bytes, None) => {
                let bytes: [u8; FEW] = bytemuck::cast(self.words);
                Data::Inline(Bytes::from_slice(bytes.get(..count).unwrap_or_default()))
            }
        }
    }

    /// The request as the protocol takes it.
    pub fn request(mut self) -> WorkRequest {
        WorkRequest {
            id: self.id,
            request: match self.immediate {
                Some(data) => Request::SendImm(ImmDt { data }),
                None => Request::Send,
            },
            signaled: self.is_signaled(),
            solicited: self.flags & IBV_SEND_SOLICITED != 0,
            fence: self.flags & IBV_SEND_FENCE != 0,
            data: self.data(),
            destination: None,
            srqn: 0,
        }
    }
}

/// The data of a request, if it is inline, in one piece and fits into the first line of a message;
/// and how many bytes it has.
// Inlined, so that words are kept as such until they are where they stay.
#[inline(always)]
pub(super) fn few(data: &Given<'_>) -> Option<(Few, usize)> {
    let Given::Inline(inline) = data else {
        return None;
    };
    let Some(bytes) = inline.only() else {
        return joined(inline);
    };
    (bytes.len() <= FEW).then(|| (words(bytes), bytes.len()))
}

/// The same of several pieces. UCX sends a header and its data so.
#[inline(never)]
fn joined(inline: &Inline<'_>) -> Option<(Few, usize)> {
    let length = inline.length();
    if length > FEW {
        return None;
    }
    let bytes = requests::bytes(inline);
    Some((words(&bytes), length))
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

fn two_words(piece: Sge) -> [u64; 2] {
    let both = u64::from(piece.length) | u64::from(piece.lkey) << 32;
    [piece.address, both]
}

fn piece_of([address, both]: &[u64; 2]) -> Sge {
    let half = |word: u64| u32::try_from(word & 0xffff_ffff).unwrap_or(0);
    Sge {
        address: *address,
        length: half(*both),
        lkey: half(*both >> 32),
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

/// The word at a place, with zeros for bytes after the end.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use kit::provider::SendRequest;

    fn piece_at(addr: u64) -> ibv_sge {
        ibv_sge {
            addr,
            length: 33,
            lkey: 3,
        }
    }

    fn kept(data: Given<'_>) -> WorkRequest {
        let mut given = SendRequest::<Context>::new(7, IBV_WR_SEND_WITH_IMM, IBV_SEND_SOLICITED);
        given.imm = 9u32.to_be_bytes();
        given.data = data;
        let header = Header {
            id: given.id,
            flags: given.flags,
            immediate: immediate(&given).expect("one that may go"),
        };
        let mut queue = Queue::default();
        match few(&data) {
            Some((few, count)) => queue
                .add(&header, (64, 3))
                .expect("it was added")
                .keep_few(few, count),
            None => queue
                .add_with(&header, (64, 3), &data)
                .expect("it was added"),
        }
        let sent = queue.pop_front().expect("it is there");
        assert_eq!((sent.position, sent.id, sent.length), (64, 7, 3));
        sent.request()
    }

    #[test]
    fn the_kept_entry_is_the_request() {
        let sges = [piece_at(1), piece_at(2), piece_at(3)];
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

    fn added(queue: &mut Queue, id: u64) {
        let header = Header {
            id,
            flags: 0,
            immediate: None,
        };
        let sent = queue.add(&header, (id, 0)).expect("it was added");
        let many = [piece_at(1), piece_at(2), piece_at(3)];
        sent.keep(&Given::Sges(
            &many[..usize::try_from(id).expect("small") % 4],
        ));
    }

    #[test]
    fn they_stay_in_order_as_the_queue_grows() {
        let mut queue = Queue::default();
        let (mut next, mut oldest) = (0, 0);
        for round in 0..40_usize {
            for _ in 0..round {
                added(&mut queue, next);
                next += 1;
            }
            queue.remove_oldest(round / 2);
            oldest += round as u64 / 2;
            let ids: Vec<u64> = queue.iter().map(|sent| sent.id).collect();
            assert_eq!(ids, (oldest..next).collect::<Vec<u64>>());
        }
        while let Some(sent) = queue.pop_front() {
            let pieces = usize::try_from(oldest % 4).expect("small");
            let Data::Sges(kept) = sent.request().data else {
                panic!("pieces of memory were kept");
            };
            assert_eq!(kept.len(), pieces);
            oldest += 1;
        }
        assert_eq!(oldest, next);
    }

    #[test]
    fn removed_requests_take_no_memory() {
        let mut queue = Queue::default();
        added(&mut queue, 3);
        queue.remove_oldest(1);
        assert!(queue.is_empty() && queue.get(0).is_none());
        assert!(queue.places.iter().all(|sent| sent.much.is_none()));
    }

    #[test]
    fn bytes_that_are_apart_stay_with_their_requests() {
        let mut queue = Queue::default();
        let bytes: Vec<u8> = (0..=255).collect();
        let lengths = [40, 3, 200, 33, 32, 100];
        let header = |id| Header {
            id,
            flags: 0,
            immediate: None,
        };
        for (id, length) in (0..).zip(lengths) {
            let data = Given::Inline(Inline::Bytes(&bytes[..length]));
            queue
                .add_with(&header(id), (id, 0), &data)
                .expect("it was added");
        }
        queue.remove_oldest(2);
        for (id, length) in (0..).zip(lengths).skip(2) {
            let sent = queue.pop_front().expect("it is there");
            assert_eq!(sent.id, id);
            let data = Data::Inline(Bytes::from_slice(&bytes[..length]));
            assert_eq!(sent.request().data, data);
        }
        assert!(queue.is_empty() && queue.apart.is_empty());
    }

    #[test]
    fn other_requests_take_the_protocol_path() {
        let given = SendRequest::<Context>::new(7, IBV_WR_RDMA_WRITE, 0);
        assert_eq!(immediate(&given), None);
    }
}
