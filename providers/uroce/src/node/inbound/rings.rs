//! Receiving from the rings of processes of this host.

use super::messages::Messages;
use crate::carrier::HEAD;
use crate::carrier::address::address;
use crate::carrier::shm::PREFIX;
use crate::carrier::shm::{Broken, Census, Consumer, MESSAGE, PACKET, Peer, Record, SendUpdates};
use crate::cq::Turn;
use crate::node::caller::Caller;
use crate::node::endpoint::{Endpoint, Incoming};
use crate::node::progress::lazy_pass::LazyPass;
use crate::node::transport::Transport;
use kit::sys::datagram::Received;
use std::sync::Arc;
use uroce_engine::wire::Packet;

/// Rings that are few: a poller looks at all of them in each turn. Of more it looks at those that
/// had something lately, no more than as many, and at some of the others, one after the other.
const FEW: usize = 16;
/// Those others in one turn.
const OTHERS: usize = 8;
/// Turns in vain after which a ring is one of the others.
const LATELY: u32 = 64;
/// Records of one ring that are taken in at once.
const RECORDS: u32 = 64;
/// How often that is as much as a ring holds.
pub(in crate::node) const WHOLE: u32 = 32;
/// Bytes of packets that are handed over at once.
const BATCH: usize = 48 << 10;
/// The longest packet, and the head in front of it.
const LONGEST: usize = 8192;

/// The reading side of a link.
struct Line {
    peer: Arc<Peer>,
    consumer: Consumer,
    /// The peer has broken a rule. Nothing of it is looked at any more.
    given_up: bool,
}

/// The queue pair that was called last: most messages are for the same one.
#[derive(Default)]
struct Known(Option<(u32, Arc<dyn Endpoint>)>);

impl Known {
    /// The queue pair of an index. A thread that removes it calls [`Rings::forget`], which waits
    /// for calls to it.
    #[inline]
    fn get(&mut self, transport: &Transport, index: u32) -> Option<&dyn Endpoint> {
        let is_known = matches!(&self.0, Some((known, _)) if *known == index);
        if !is_known {
            self.look_up(transport, index)?;
        }
        self.0.as_ref().map(|(_, endpoint)| &**endpoint)
    }

    #[inline(never)]
    fn look_up(&mut self, transport: &Transport, index: u32) -> Option<()> {
        let entry = transport.table.get(index)?;
        let endpoint = Arc::clone(entry.endpoint.read().as_ref()?);
        self.0 = Some((index, endpoint));
        Some(())
    }
}

/// A ring that had something lately.
struct Lively {
    /// Which line.
    at: usize,
    /// Turns in vain.
    idle: u32,
}

/// The reading sides of all links.
pub(super) struct Rings {
    lines: Vec<Line>,
    lively: Vec<Lively>,
    /// The line that a poller looks at next of all.
    next: usize,
    /// Lines that have something, as far as is known.
    found: Vec<usize>,
    known: Known,
    /// When the directory was looked at last.
    changes: u64,
    buffer: Box<[u8]>,
    /// Packets in the buffer: where each ends.
    ends: Vec<usize>,
    updates: SendUpdates,
}

impl Rings {
    pub fn new() -> Self {
        Self {
            lines: Vec::new(),
            lively: Vec::new(),
            next: 0,
            found: Vec::new(),
            known: Known::default(),
            changes: 0,
            buffer: vec![0; BATCH + LONGEST].into_boxed_slice(),
            ends: Vec::new(),
            updates: SendUpdates::default(),
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
    pub fn has_some(&mut self, transport: &Transport) -> bool {
        let mut turn = LazyPass::new(transport, Caller::Node);
        self.follow(transport, &mut turn);
        turn.finish();
        let has_some = |line: &Line| {
            let Line { peer, consumer, .. } = line;
            if peer.is_given_up() {
                // Messages to it are lost, which is reported once.
                return !line.given_up;
            }
            // Of a peer that has closed its last device, too: its last messages count.
            consumer.has_some(peer.link().memory()) || peer.awaits() && peer.has_updates()
        };
        let lines = self.lines.iter().enumerate();
        let found = lines.filter(|(_, line)| has_some(line)).map(|(at, _)| at);
        self.found.clear();
        self.found.extend(found);
        !self.found.is_empty()
    }

    /// Where there are many rings, receives from those that had records at the last call of
    /// [`Rings::has_some`] or of this, and from those whose peers have announced records. The
    /// caller has to call [`Rings::has_some`] before it sleeps.
    pub fn take_in_found(
        &mut self,
        transport: &Transport,
        turn: &mut LazyPass<'_>,
        rung: &[u16],
    ) -> bool {
        if self.lines.len() <= FEW {
            return self.take_in(transport, turn);
        }
        self.follow(transport, turn);
        let mut events = None;
        let mut found = std::mem::take(&mut self.found);
        if !rung.is_empty() {
            let lines = self.lines.iter().enumerate();
            let says = lines.filter(|(_, line)| rung.contains(&line.peer.slot()));
            found.extend(says.map(|(at, _)| at));
        }
        found.sort_unstable();
        found.dedup();
        found.retain(|at| self.take_from(transport, turn, *at, &mut events));
        self.found = found;
        !self.found.is_empty()
    }

    /// Receives from the rings: a poller, if there are many, from some of them in each turn.
    /// Returns whether there was anything.
    #[inline]
    pub fn take_in(&mut self, transport: &Transport, turn: &mut LazyPass<'_>) -> bool {
        self.follow(transport, turn);
        // Completion events wait until all is taken in.
        let mut events = None;
        if self.lines.len() > FEW && matches!(turn.caller(), Caller::Poller(_)) {
            return self.take_in_some(transport, turn, &mut events);
        }
        let mut some = false;
        for at in 0..self.lines.len() {
            some |= self.take_from(transport, turn, at, &mut events);
        }
        some
    }

    /// Receives from one ring, and collects outcomes of sent messages.
    #[inline]
    fn take_from(
        &mut self,
        transport: &Transport,
        turn: &mut LazyPass<'_>,
        at: usize,
        events: &mut Option<Turn>,
    ) -> bool {
        let Some(line) = self.lines.get(at) else {
            return false;
        };
        if line.peer.is_given_up() {
            self.give_up(transport, turn, at);
            return false;
        }
        let mut some = false;
        if line.consumer.has_some(line.peer.link().memory()) {
            some = true;
            events.get_or_insert_with(Turn::begin);
            self.drain(transport, turn, at);
        }
        if self
            .lines
            .get(at)
            .is_some_and(|line| line.peer.has_updates())
        {
            some = true;
            events.get_or_insert_with(Turn::begin);
            self.learn(transport, turn, at);
        }
        some
    }

    /// Receives from the recently active rings, and some of the others: checking hundreds takes
    /// longer than a peer takes to answer.
    fn take_in_some(
        &mut self,
        transport: &Transport,
        turn: &mut LazyPass<'_>,
        events: &mut Option<Turn>,
    ) -> bool {
        let mut some = false;
        let mut lively = std::mem::take(&mut self.lively);
        lively.retain_mut(|ring| {
            let found = self.take_from(transport, turn, ring.at, events);
            ring.idle = if found { 0 } else { ring.idle + 1 };
            some |= found;
            ring.idle < LATELY
        });
        for _ in 0..OTHERS {
            self.next = (self.next + 1) % self.lines.len();
            let at = self.next;
            if lively.iter().any(|ring| ring.at == at) {
                continue;
            }
            if self.take_from(transport, turn, at, events) {
                some = true;
                if lively.len() < FEW {
                    lively.push(Lively { at, idle: 0 });
                }
            }
        }
        self.lively = lively;
        some
    }

    /// Knows the same processes as the directory.
    fn follow(&mut self, transport: &Transport, turn: &mut LazyPass<'_>) {
        let Some(directory) = &transport.directory else {
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
        for (peer, waiting) in directory.take_linked() {
            for index in waiting {
                turn.pass().linked(index, &peer);
            }
        }
        for peer in left {
            let at = self.line_of(&peer);
            self.empty(transport, turn, at);
            self.lines.swap_remove(at);
            self.lively.clear();
            self.found.clear();
            peer.lose(&mut self.updates);
            report(transport, turn, &peer, &mut self.known, &mut self.updates);
        }
    }

    /// Which line is a process's. One that came and went unseen has one, too: something may have
    /// been sent in either direction.
    fn line_of(&mut self, peer: &Arc<Peer>) -> usize {
        let is_his = |line: &Line| Arc::ptr_eq(&line.peer, peer);
        self.lines.iter().position(is_his).unwrap_or_else(|| {
            self.lines.push(Line {
                peer: Arc::clone(peer),
                consumer: peer.consumer(),
                given_up: false,
            });
            self.lines.len() - 1
        })
    }

    /// A peer has violated a rule: messages sent to it are lost, which is reported once.
    #[cold]
    fn give_up(&mut self, transport: &Transport, turn: &mut LazyPass<'_>, at: usize) {
        let Some(line) = self.lines.get_mut(at) else {
            return;
        };
        if !std::mem::replace(&mut line.given_up, true) {
            line.peer.lose(&mut self.updates);
            report(
                transport,
                turn,
                &line.peer,
                &mut self.known,
                &mut self.updates,
            );
        }
    }

    /// Receives the records that a process sent before its end, no more than a ring holds.
    fn empty(&mut self, transport: &Transport, turn: &mut LazyPass<'_>, at: usize) {
        for _ in 0..WHOLE {
            let more = |line: &Line| line.consumer.has_some(line.peer.link().memory());
            if !self.lines.get(at).is_some_and(more) {
                return;
            }
            self.drain(transport, turn, at);
        }
    }

    /// Collects the outcomes of sent messages.
    fn learn(&mut self, transport: &Transport, turn: &mut LazyPass<'_>, at: usize) {
        if let Some(Line { peer, .. }) = self.lines.get(at)
            && let Some(directory) = &transport.directory
        {
            directory.collect(peer, &mut self.updates);
            report(transport, turn, peer, &mut self.known, &mut self.updates);
        }
    }

    /// Takes in records, and reports to the sender.
    fn drain(&mut self, transport: &Transport, turn: &mut LazyPass<'_>, at: usize) {
        let Some(Line { peer, consumer, .. }) = self.lines.get_mut(at) else {
            return;
        };
        let mut work = Work {
            transport,
            known: &mut self.known,
            peer,
            consumer,
            buffer: &mut self.buffer,
            ends: &mut self.ends,
            filled: 0,
            budget: RECORDS,
        };
        let taken = work.take_in(turn);
        let reported = taken.and_then(|()| consumer.report(peer.link().memory()));
        match (reported, &transport.directory) {
            (Ok(true), Some(directory)) => directory.reported(peer),
            (Ok(_), _) => {}
            (Err(Broken), _) => peer.give_up(),
        }
    }
}

/// Reports outcomes of sent messages to their queue pairs.
fn report(
    transport: &Transport,
    turn: &mut LazyPass<'_>,
    peer: &Peer,
    known: &mut Known,
    updates: &mut SendUpdates,
) {
    // Ahead of those that learn of an outcome, and may have more to send.
    for index in &updates.roomy {
        if let Some(endpoint) = known.get(transport, *index)
            && endpoint.on_room(peer, turn.caller())
        {
            turn.pass().transmit(*index);
        }
    }
    for (number, outcome) in &updates.outcomes {
        if let Some(index) = transport.index(*number)
            && let Some(endpoint) = known.get(transport, index)
            && endpoint.on_outcome(peer, *outcome, turn.caller())
        {
            turn.pass().transmit(index);
        }
    }
    for index in &updates.ready {
        turn.pass().transmit(*index);
    }
    updates.clear();
}

/// One look at a ring.
struct Work<'a> {
    transport: &'a Transport,
    known: &'a mut Known,
    peer: &'a Arc<Peer>,
    consumer: &'a mut Consumer,
    buffer: &'a mut [u8],
    ends: &'a mut Vec<usize>,
    filled: usize,
    budget: u32,
}

impl Work<'_> {
    fn take_in(&mut self, turn: &mut LazyPass<'_>) -> Result<(), Broken> {
        let peer: &Arc<Peer> = self.peer;
        let memory = peer.link().memory();
        // The queue pair that the packets in the buffer are for.
        let mut whose = 0;
        while self.budget > 0
            && let Some(record) = self.consumer.next(memory)?
        {
            match record.kind() {
                MESSAGE => {
                    self.hand_over(turn, whose);
                    if !self.messages(&record, turn.caller())? {
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
                    self.consumer.report_much(memory)?;
                    self.budget -= 1;
                }
                _ => return Err(Broken),
            }
        }
        self.hand_over(turn, whose);
        Ok(())
    }

    /// Copies a packet behind those in the buffer. Returns the QP number that it names.
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

    /// Hands the packets in the buffer to their queue pair.
    #[inline]
    fn hand_over(&mut self, turn: &mut LazyPass<'_>, whose: u32) {
        if !self.ends.is_empty() {
            self.hand_over_all(turn, whose);
        }
    }

    #[inline(never)]
    fn hand_over_all(&mut self, turn: &mut LazyPass<'_>, whose: u32) {
        let mut begin = 0;
        let mut whole = Vec::with_capacity(self.ends.len());
        for end in self.ends.drain(..) {
            let bytes = self.buffer.get(begin..end).unwrap_or_default();
            whole.extend(incoming(bytes));
            begin = end;
        }
        self.filled = 0;
        if let Some(index) = self.transport.index(whose)
            && !whole.is_empty()
        {
            turn.pass().deliver(index, &whole);
        }
    }

    /// Hands messages to the queue pair that the first one names. Returns whether there may be more
    /// records.
    fn messages(&mut self, first: &Record, caller: Caller) -> Result<bool, Broken> {
        let mut messages = Messages::new(
            self.peer,
            self.consumer,
            self.buffer,
            &mut self.budget,
            first,
        )?;
        if let Some(index) = self.transport.index(messages.destination())
            && let Some(endpoint) = self.known.get(self.transport, index)
        {
            endpoint.messages(&mut messages, caller);
        }
        messages.finish()
    }
}

/// A packet as it lies in a ring.
pub fn incoming(bytes: &[u8]) -> Option<Incoming<'_>> {
    let (head, datagram) = bytes.split_first_chunk::<HEAD>()?;
    let [family, traffic_class, hop_limit, _, i0, i1, i2, i3, ..] = *head;
    let source = address(family, *head.get(8..)?.first_chunk()?)?;
    let destination = address(family, *head.get(24..)?.first_chunk()?)?;
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
    Some(Incoming::new(packet, datagram.len(), &run).by_link())
}
