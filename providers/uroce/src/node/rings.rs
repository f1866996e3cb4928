//! What comes in by the rings of processes of this host.

use super::core::Core;
use super::endpoint::{Endpoint, Incoming};
use super::messages::Messages;
use super::mover::Mover;
use super::round::Round;
use crate::carrier::HEAD;
use crate::carrier::shm::PREFIX;
use crate::carrier::shm::{Broken, Census, Consumer, MESSAGE, News, PACKET, Peer, Record};
use crate::carrier::udp::slot;
use crate::clock;
use crate::cq::Turn;
use kit::sys::datagram::Received;
use std::sync::Arc;
use uroce_engine::wire::Packet;

/// Records of one ring that are taken in at once.
const RECORDS: u32 = 64;
/// How often that is as much as a ring holds.
pub(super) const WHOLE: u32 = 32;
/// Bytes of packets that are handed over at once.
const BATCH: usize = 48 << 10;
/// The longest packet, and the head in front of it.
const LONGEST: usize = 8192;

/// The reading side of a link.
struct Line {
    peer: Arc<Peer>,
    consumer: Consumer,
}

/// The queue pair that was called last: most messages are for the same one.
#[derive(Default)]
struct Known(Option<(u32, Arc<dyn Endpoint>)>);

impl Known {
    /// The queue pair of an index. Whoever takes it away says so by [`Rings::forget`], which waits for
    /// calls to it.
    #[inline]
    fn get(&mut self, core: &Core, index: u32) -> Option<&dyn Endpoint> {
        let is_known = matches!(&self.0, Some((known, _)) if *known == index);
        if !is_known {
            self.look_up(core, index)?;
        }
        self.0.as_ref().map(|(_, endpoint)| &**endpoint)
    }

    #[inline(never)]
    fn look_up(&mut self, core: &Core, index: u32) -> Option<()> {
        let entry = core.table.get(index)?;
        let endpoint = Arc::clone(entry.endpoint.read().as_ref()?);
        self.0 = Some((index, endpoint));
        Some(())
    }
}

/// The reading sides of all links.
pub(super) struct Rings {
    lines: Vec<Line>,
    known: Known,
    /// When the directory was looked at last.
    changes: u64,
    buffer: Box<[u8]>,
    /// Packets in the buffer: where each ends.
    ends: Vec<usize>,
    news: News,
}

/// A round that begins when there is need of it: most looks find nothing.
pub(super) struct Lazy<'a> {
    core: &'a Core,
    mover: Mover,
    round: Option<Round<'a>>,
}

impl<'a> Lazy<'a> {
    pub fn new(core: &'a Core, mover: Mover) -> Self {
        Self {
            core,
            mover,
            round: None,
        }
    }

    /// Who begins it.
    pub fn mover(&self) -> Mover {
        self.mover
    }

    /// The round, begun at the latest now.
    pub fn round(&mut self) -> &mut Round<'a> {
        self.round
            .get_or_insert_with(|| Round::new(self.core, self.mover))
    }

    /// Whether a moment may have come.
    pub fn may_be_past(&self, moment: u64) -> bool {
        match &self.round {
            Some(round) => round.may_be_past(moment),
            None => clock::may_have_come(moment),
        }
    }

    pub fn finish(self) {
        if let Some(round) = self.round {
            round.finish();
        }
    }
}

impl Rings {
    pub fn new() -> Self {
        Self {
            lines: Vec::new(),
            known: Known::default(),
            changes: 0,
            buffer: vec![0; BATCH + LONGEST].into_boxed_slice(),
            ends: Vec::new(),
            news: News::default(),
        }
    }

    /// Whether there is any.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// A queue pair was taken out of the table: it is not called any more.
    pub fn forget(&mut self, index: u32) {
        let known = &mut self.known.0;
        known.take_if(|(known, _)| *known == index);
    }

    /// Whether there is something to take in, or to learn.
    pub fn has_some(&mut self, core: &Core) -> bool {
        let mut turn = Lazy::new(core, Mover::Node);
        self.follow(core, &mut turn);
        turn.finish();
        self.lines.iter().any(|Line { peer, consumer }| {
            !peer.is_gone() && (consumer.has_some(peer.link().memory()) || peer.has_news())
        })
    }

    /// Takes in what there is. Answers whether there was anything.
    #[inline]
    pub fn take_in(&mut self, core: &Core, turn: &mut Lazy<'_>) -> bool {
        self.follow(core, turn);
        let mut some = false;
        // Completion events wait until all is taken in.
        let mut events = None;
        for at in 0..self.lines.len() {
            let Some(line) = self.lines.get(at) else {
                break;
            };
            if line.consumer.has_some(line.peer.link().memory()) {
                some = true;
                events.get_or_insert_with(Turn::begin);
                self.drain(core, turn, at);
            }
            if self.lines.get(at).is_some_and(|line| line.peer.has_news()) {
                some = true;
                events.get_or_insert_with(Turn::begin);
                self.learn(core, turn, at);
            }
        }
        some
    }

    /// Knows the same processes as the directory.
    fn follow(&mut self, core: &Core, turn: &mut Lazy<'_>) {
        let Some(directory) = &core.directory else {
            return;
        };
        let changes = directory.changes();
        if changes == self.changes {
            return;
        }
        self.changes = changes;
        let Census { there, left } = directory.census();
        for peer in there {
            self.line_of(&peer);
        }
        for peer in left {
            let at = self.line_of(&peer);
            self.empty(core, turn, at);
            self.lines.swap_remove(at);
            peer.lose(&mut self.news);
            tell(core, turn, &peer, &mut self.known, &mut self.news);
        }
    }

    /// Which line is a process's. One that came and went unseen has one, too: something may have been
    /// sent in either direction.
    fn line_of(&mut self, peer: &Arc<Peer>) -> usize {
        let is_his = |line: &Line| Arc::ptr_eq(&line.peer, peer);
        self.lines.iter().position(is_his).unwrap_or_else(|| {
            self.lines.push(Line {
                peer: Arc::clone(peer),
                consumer: peer.consumer(),
            });
            self.lines.len() - 1
        })
    }

    /// Takes in what a process sent before its end, no more than a ring holds.
    fn empty(&mut self, core: &Core, turn: &mut Lazy<'_>, at: usize) {
        for _ in 0..WHOLE {
            let more = |line: &Line| line.consumer.has_some(line.peer.link().memory());
            if !self.lines.get(at).is_some_and(more) {
                return;
            }
            self.drain(core, turn, at);
        }
    }

    /// What became of what was sent.
    fn learn(&mut self, core: &Core, turn: &mut Lazy<'_>, at: usize) {
        if let Some(Line { peer, .. }) = self.lines.get(at) {
            peer.collect(&mut self.news);
            tell(core, turn, peer, &mut self.known, &mut self.news);
        }
    }

    /// Takes in records, and tells the sender.
    fn drain(&mut self, core: &Core, turn: &mut Lazy<'_>, at: usize) {
        let Some(Line { peer, consumer }) = self.lines.get_mut(at) else {
            return;
        };
        let mut work = Work {
            core,
            known: &mut self.known,
            peer,
            consumer,
            buffer: &mut self.buffer,
            ends: &mut self.ends,
            filled: 0,
            budget: RECORDS,
        };
        let taken = work.take_in(turn);
        let told = taken.and_then(|()| consumer.tell(peer.link().memory()));
        match (told, &core.directory) {
            (Ok(true), Some(directory)) => directory.told(peer),
            (Ok(_), _) => {}
            (Err(Broken), _) => peer.give_up(),
        }
    }
}

/// Tells queue pairs what became of what they sent.
fn tell(core: &Core, turn: &mut Lazy<'_>, peer: &Peer, known: &mut Known, news: &mut News) {
    for (number, fate) in &news.fates {
        if let Some(index) = core.index(*number)
            && let Some(endpoint) = known.get(core, index)
            && endpoint.settled(peer, *fate)
        {
            turn.round().transmit(index);
        }
    }
    for index in &news.ready {
        turn.round().transmit(*index);
    }
    news.clear();
}

/// One look at a ring.
struct Work<'a> {
    core: &'a Core,
    known: &'a mut Known,
    peer: &'a Arc<Peer>,
    consumer: &'a mut Consumer,
    buffer: &'a mut [u8],
    ends: &'a mut Vec<usize>,
    filled: usize,
    budget: u32,
}

impl Work<'_> {
    fn take_in(&mut self, turn: &mut Lazy<'_>) -> Result<(), Broken> {
        let peer: &Arc<Peer> = self.peer;
        let memory = peer.link().memory();
        // For whom the packets in the buffer are.
        let mut whose = 0;
        while self.budget > 0
            && let Some(record) = self.consumer.next(memory)?
        {
            match record.kind() {
                MESSAGE => {
                    self.hand_over(turn, whose);
                    if !self.messages(&record, turn.mover())? {
                        break;
                    }
                }
                PACKET => {
                    if self.filled > BATCH {
                        self.hand_over(turn, whose);
                    }
                    let number = self.copy(&record)?;
                    if number != whose {
                        // The new one is copied again, to the beginning of the buffer.
                        self.hand_over(turn, whose);
                        self.copy(&record)?;
                        whose = number;
                    }
                    self.keep(&record);
                    self.consumer.advance(memory, &record)?;
                    self.budget -= 1;
                }
                _ => return Err(Broken),
            }
        }
        self.hand_over(turn, whose);
        Ok(())
    }

    /// Copies a packet behind those in the buffer. Answers the QP number that it names.
    fn copy(&mut self, record: &Record) -> Result<u32, Broken> {
        let length = record.length() - PREFIX;
        let end = self.filled + length;
        let place = self.buffer.get_mut(self.filled..end).ok_or(Broken)?;
        if length > LONGEST {
            return Err(Broken);
        }
        let memory = self.peer.link().memory();
        self.consumer.read(memory, record, PREFIX, place)?;
        let number = place.get(HEAD + 5..HEAD + 8).ok_or(Broken)?;
        let [high, middle, low] = *number.first_chunk().ok_or(Broken)?;
        Ok(u32::from_be_bytes([0, high, middle, low]))
    }

    fn keep(&mut self, record: &Record) {
        self.filled += record.length() - PREFIX;
        self.ends.push(self.filled);
    }

    /// Hands the packets in the buffer to whom they are for.
    #[inline]
    fn hand_over(&mut self, turn: &mut Lazy<'_>, whose: u32) {
        if !self.ends.is_empty() {
            self.hand_over_all(turn, whose);
        }
    }

    #[inline(never)]
    fn hand_over_all(&mut self, turn: &mut Lazy<'_>, whose: u32) {
        let mut begin = 0;
        let mut whole = Vec::with_capacity(self.ends.len());
        for end in self.ends.drain(..) {
            let bytes = self.buffer.get(begin..end).unwrap_or_default();
            whole.extend(incoming(bytes));
            begin = end;
        }
        self.filled = 0;
        if let Some(index) = self.core.index(whose)
            && !whole.is_empty()
        {
            turn.round().deliver(index, &whole);
        }
    }

    /// Hands messages to the queue pair that the first one names. Answers whether there may be more
    /// records.
    fn messages(&mut self, first: &Record, mover: Mover) -> Result<bool, Broken> {
        let mut messages = Messages::new(
            self.peer,
            self.consumer,
            self.buffer,
            &mut self.budget,
            first,
        )?;
        if let Some(index) = self.core.index(messages.destination())
            && let Some(endpoint) = self.known.get(self.core, index)
        {
            endpoint.messages(&mut messages, mover);
        }
        messages.finish()
    }
}

/// A packet as it lies in a ring.
pub fn incoming(bytes: &[u8]) -> Option<Incoming<'_>> {
    let (head, datagram) = bytes.split_first_chunk::<HEAD>()?;
    let [family, traffic_class, hop_limit, _, i0, i1, i2, i3, ..] = *head;
    let source = slot::address(family, *head.get(8..)?.first_chunk()?)?;
    let destination = slot::address(family, *head.get(24..)?.first_chunk()?)?;
    let run = Received {
        data: datagram,
        segment: datagram.len(),
        source,
        port: 0,
        destination,
        interface: u32::from_ne_bytes([i0, i1, i2, i3]),
        hop_limit,
        traffic_class,
    };
    let packet = Packet::parse(datagram).ok()?;
    Some(Incoming::new(packet, datagram.len(), &run))
}
