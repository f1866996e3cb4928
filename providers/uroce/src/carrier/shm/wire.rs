//! Sending to a peer: packets and messages through the ring, and the outcomes of messages.

use super::link::Link;
use super::ring::{Broken, LONGEST, PREFIX, Producer, SHORT, UNASKED};
pub use crate::few::{FEW, Few};
use kit::sys::application::ApplicationMemory;
use kit::sys::shared::Shared;
use std::collections::VecDeque;
use uroce_engine::host::Fault;

/// A record that holds a packet as it would go over the wire, behind where it comes from.
pub const PACKET: u8 = 1;
/// A record that holds a whole message, which knows nothing of the protocol.
pub const MESSAGE: u8 = 2;

/// The message has the bit for solicited events.
pub const SOLICITED: u8 = 1;
/// The message has immediate data.
pub const IMMEDIATE: u8 = 2;

/// Its sender has completed it: there was a credit for it.
pub const COMPLETED: u8 = UNASKED;

/// Bytes in front of a message's data: the prefix, queue pairs, epoch and immediate data.
pub const MESSAGE_HEAD: usize = PREFIX + 16;
/// The most bytes of a message: several must fit into the ring. UCX's longest eager messages are
/// somewhat longer than 8 KiB.
pub const MESSAGE_MAX: usize = 16384;
const _: () = assert!(MESSAGE_HEAD + MESSAGE_MAX <= LONGEST);
// So much data is in the first line of a message, behind two words.
const _: () = assert!(FEW == (SHORT - 2) * size_of::<u64>());

/// Bytes that are copied at once through another place.
const AT_ONCE: usize = 4096;

/// Writes the data of a message.
pub type Fill<'a> = &'a mut dyn FnMut(&mut Room<'_>) -> Result<(), Fault>;

/// The place of a message's data, which is written from its beginning on.
pub struct Room<'a> {
    memory: &'a Shared,
    at: usize,
    left: usize,
    scratch: &'a mut [u8],
}

impl Room<'_> {
    /// Where the next bytes go, which are so many.
    fn take(&mut self, length: usize) -> Result<usize, Fault> {
        let at = self.at;
        self.left = self.left.checked_sub(length).ok_or(Fault)?;
        self.at += length;
        Ok(at)
    }

    /// Writes the next bytes.
    ///
    /// # Errors
    /// [`Fault`] if the message has fewer; as below.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let at = self.take(bytes.len())?;
        self.memory.write(at, bytes).map_err(|_| Fault)
    }

    /// The same, of bytes of the application, which are copied once.
    ///
    /// # Errors
    /// As for [`Room::put`].
    pub fn put_from(&mut self, memory: &ApplicationMemory) -> Result<(), Fault> {
        let at = self.take(memory.length())?;
        memory.read_into(self.memory, at).map_err(|_| Fault)
    }

    /// The same, of bytes that `read` writes, in parts: it gets the offset of each.
    ///
    /// # Errors
    /// As for [`Room::put`]; those of `read`.
    pub fn put_by(
        &mut self,
        length: usize,
        mut read: impl FnMut(usize, &mut [u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let begin = self.take(length)?;
        let mut done = 0;
        while done < length {
            let count = (length - done).min(AT_ONCE);
            let part = self.scratch.get_mut(..count).ok_or(Fault)?;
            read(done, part)?;
            self.memory.write(begin + done, part).map_err(|_| Fault)?;
            done += count;
        }
        Ok(())
    }
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// QP number of the sender.
    pub source: u32,
    /// QP number of the receiver.
    pub destination: u32,
    /// Must be the receiver's current epoch, which changes with each refusal.
    pub epoch: u32,
    /// Immediate data.
    pub immediate: Option<u32>,
    /// The bit for solicited events.
    pub solicited: bool,
    /// There is a credit for it, and its sender completes it at once.
    pub completed: bool,
}

impl Header {
    fn flags(&self) -> u8 {
        let solicited = if self.solicited { SOLICITED } else { 0 };
        let immediate = if self.immediate.is_some() {
            IMMEDIATE
        } else {
            0
        };
        let completed = if self.completed { COMPLETED } else { 0 };
        solicited | immediate | completed
    }

    #[inline]
    fn words(&self) -> [u64; 2] {
        let both = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [
            both(self.source, self.destination),
            both(self.epoch, self.immediate.unwrap_or(0)),
        ]
    }
}

/// The first line of a message: its words as received, and the flags of the first one.
#[derive(Clone, Copy, Debug)]
pub struct Front {
    who: u64,
    what: u64,
    few: Few,
    flags: u8,
}

fn low(word: u64) -> u32 {
    u32::try_from(word & 0xffff_ffff).unwrap_or(0)
}

impl Front {
    /// The words after the prefix.
    #[inline]
    pub fn new([who, what, few @ ..]: [u64; SHORT], flags: u8) -> Self {
        Self {
            who,
            what,
            few,
            flags,
        }
    }

    /// The message's header.
    #[inline]
    pub fn header(&self) -> Header {
        Header {
            source: low(self.who),
            destination: self.destination(),
            epoch: low(self.what),
            immediate: (self.flags & IMMEDIATE != 0).then_some(low(self.what >> 32)),
            solicited: self.flags & SOLICITED != 0,
            completed: self.flags & COMPLETED != 0,
        }
    }

    /// QP number of the receiver.
    #[inline]
    pub fn destination(&self) -> u32 {
        low(self.who >> 32)
    }

    /// The first bytes of the data, and of the bytes after it.
    #[inline]
    pub fn few(&self) -> &[u8] {
        bytemuck::bytes_of(&self.few)
    }
}

/// The outcome of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All up to this position were received.
    Taken(u64),
    /// The one at this position was refused, and all behind it are; the next may have this epoch.
    Refused(u64, u32),
    /// The peer is gone.
    Lost,
}

/// A message that was put into the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// Where it is.
    pub position: u64,
    /// The message had a valid credit: the peer will receive it, and reports no outcome.
    pub completed: bool,
}

/// Why a message was not put into the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPut {
    /// There is no room, or the peer is gone.
    NoRoom,
    /// Its bytes cannot be read.
    Unreadable,
}

/// The writing side of a link, and its waiting queue pairs.
#[derive(Debug)]
pub struct Out {
    producer: Producer,
    /// Messages in flight: position, and QP number of the sender.
    sent: VecDeque<(u64, u32)>,
    outcomes: Vec<(u32, Outcome)>,
    /// Packets that found no room, in order.
    backlog: VecDeque<Vec<u8>>,
    /// Queue pairs that wait until there is room.
    waiting: Vec<u32>,
    /// Queue pairs (indices) whose messages wait for room, in order.
    short: VecDeque<u32>,
    scratch: Box<[u8]>,
    /// The peer is gone, and that was reported: later messages, from a queue pair that does not
    /// know it yet, would wait for ever.
    lost: bool,
    /// Where the consumer was found to stall.
    stalled: Option<u64>,
    waits: Waits,
}

/// Bytes of room for each queue pair whose messages wait for it, before the next one is served. A
/// consumer that does not hear that its producer waits reports twice as many at a time.
pub const SHARE: u64 = 8192;
/// Bytes of room that are left to such queue pairs while there are any.
const LEFT: u64 = 2 * SHARE;

/// The most messages that find no room and are not waited for after a wait in vain.
const PENALTY: u32 = 64;

/// A wait for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// There is room now.
    Over,
    /// The peer may make room soon.
    Begins,
    /// Room is unlikely, or not all that the message lacks.
    Useless,
}

/// Whether waits for room are worthwhile.
///
/// After one in vain (the peer does not run, or waits for this process in turn) a message without
/// room does not wait, and twice as many after each further one, until a wait succeeds.
#[derive(Debug, Default)]
struct Waits {
    /// Messages that are not to wait.
    left: u32,
    penalty: u32,
}

impl Waits {
    /// Whether a message that has found no room waits.
    fn begin(&mut self) -> bool {
        let waits = self.left == 0;
        self.left = self.left.saturating_sub(1);
        waits
    }

    /// A wait has ended.
    fn end(&mut self, in_vain: bool) {
        self.penalty = match in_vain {
            true => (self.penalty * 2).clamp(1, PENALTY),
            false => 0,
        };
        self.left = self.penalty;
    }
}

impl Out {
    pub fn new(producer: Producer) -> Self {
        Self {
            producer,
            sent: VecDeque::new(),
            outcomes: Vec::new(),
            backlog: VecDeque::new(),
            waiting: Vec::new(),
            short: VecDeque::new(),
            scratch: vec![0; AT_ONCE].into_boxed_slice(),
            lost: false,
            stalled: None,
            waits: Waits::default(),
        }
    }

    /// Puts a packet into the ring, or behind those that found no room. Returns whether it found
    /// room; to a peer that is gone it is lost, and to one that stalls if it may be.
    pub fn packet(
        &mut self,
        link: &Link,
        content: &[u8],
        may_be_lost: bool,
    ) -> Result<bool, Broken> {
        if self.lost || self.backlog.is_empty() && self.put_packet(link.memory(), content)? {
            return Ok(true);
        }
        if may_be_lost && self.is_stalled() {
            return Ok(true);
        }
        self.backlog.push_back(content.to_vec());
        Ok(false)
    }

    fn put_packet(&mut self, memory: &Shared, content: &[u8]) -> Result<bool, Broken> {
        let length = PREFIX + content.len();
        if !self.reserve(memory, length)? {
            return Ok(false);
        }
        self.producer.copy(memory, PREFIX, content)?;
        self.producer.publish(memory, length, PACKET, 0, [])?;
        Ok(true)
    }

    #[inline]
    fn reserve(&mut self, memory: &Shared, length: usize) -> Result<bool, Broken> {
        if self.producer.reserve(memory, length)?.is_some() {
            return Ok(true);
        }
        self.look_and_reserve(memory, length)
    }

    #[inline(never)]
    fn look_and_reserve(&mut self, memory: &Shared, length: usize) -> Result<bool, Broken> {
        self.look(memory)?;
        Ok(self.producer.reserve(memory, length)?.is_some())
    }

    /// Puts a message of so many bytes into the ring, which are in its first line; `None` if there
    /// is no room, or the peer is gone. If the header requests it, `good` then checks that the
    /// credit for it has not been revoked.
    #[inline(always)]
    pub fn short(
        &mut self,
        link: &Link,
        header: &Header,
        [w0, w1, w2, w3]: Few,
        length: usize,
        good: impl FnOnce() -> bool,
    ) -> Result<Option<Put>, Broken> {
        let memory = link.memory();
        let total = MESSAGE_HEAD + length;
        if !self.may_take(memory, total)? {
            return Ok(None);
        }
        let [who, what] = header.words();
        self.show(memory, total, header, [who, what, w0, w1, w2, w3], good)
            .map(Some)
    }

    /// The same for a message whose bytes `fill` writes.
    pub fn long(
        &mut self,
        link: &Link,
        header: &Header,
        length: usize,
        fill: Fill<'_>,
        good: impl FnOnce() -> bool,
    ) -> Result<Result<Put, NotPut>, Broken> {
        let memory = link.memory();
        let total = MESSAGE_HEAD + length;
        if !self.may_take(memory, total)? {
            return Ok(Err(NotPut::NoRoom));
        }
        let mut room = Room {
            memory,
            at: self.producer.reserved(MESSAGE_HEAD),
            left: length,
            scratch: &mut self.scratch,
        };
        if fill(&mut room).is_err() {
            self.producer.abandon(memory, total)?;
            return Ok(Err(NotPut::Unreadable));
        }
        self.show(memory, total, header, header.words(), good)
            .map(Ok)
    }

    #[inline]
    fn may_take(&mut self, memory: &Shared, length: usize) -> Result<bool, Broken> {
        Ok(!self.lost && self.backlog.is_empty() && self.reserve(memory, length)?)
    }

    #[inline]
    fn show<const N: usize>(
        &mut self,
        memory: &Shared,
        length: usize,
        header: &Header,
        words: [u64; N],
        good: impl FnOnce() -> bool,
    ) -> Result<Put, Broken> {
        let position = self.producer.position();
        self.producer
            .publish(memory, length, MESSAGE, header.flags(), words)?;
        // After it can be seen: a receiver that revokes a credit looks for messages afterwards.
        let completed = header.completed && good();
        if !completed {
            self.wonder(memory, header, position)?;
        }
        Ok(Put {
            position,
            completed,
        })
    }

    /// The outcome of a message is to be reported.
    #[inline]
    fn wonder(&mut self, memory: &Shared, header: &Header, position: u64) -> Result<(), Broken> {
        self.sent.push_back((position, header.source));
        if header.completed {
            // The record contradicts it.
            self.producer.ask(memory)?;
        }
        Ok(())
    }

    /// Begins a wait of a message of so many bytes that has found no room.
    ///
    /// # Errors
    /// [`Broken`] as for [`Out::short`].
    pub fn begin_wait(&mut self, memory: &Shared, length: usize) -> Result<Wait, Broken> {
        if self.lost || !self.backlog.is_empty() || length > MESSAGE_MAX {
            return Ok(Wait::Useless);
        }
        if self.reserve(memory, MESSAGE_HEAD + length)? {
            return Ok(Wait::Over);
        }
        Ok(match self.waits.begin() {
            true => Wait::Begins,
            false => Wait::Useless,
        })
    }

    /// Such a wait has ended.
    pub fn end_wait(&mut self, in_vain: bool) {
        self.waits.end(in_vain);
    }

    /// Reads the consumer's position.
    pub fn look(&mut self, memory: &Shared) -> Result<(), Broken> {
        let taken = self.producer.taken(memory)?;
        if taken == self.producer.released() {
            return Ok(());
        }
        let refusals = self.producer.any_refused(memory)?;
        self.record_to(memory, taken, refusals)?;
        self.producer.release(taken);
        Ok(())
    }

    /// Records the outcomes of the messages up to a position.
    fn record_to(&mut self, memory: &Shared, end: u64, refusals: bool) -> Result<(), Broken> {
        let mut count = 0;
        let mut sound = Ok(());
        for (position, number) in self.sent.iter().take_while(|sent| sent.0 < end) {
            let refusal = match refusals {
                true => self.producer.refusal(memory, *position),
                false => Ok(None),
            };
            match refusal {
                Ok(refusal) => record(&mut self.outcomes, *number, *position, refusal),
                Err(broken) => {
                    sound = Err(broken);
                    break;
                }
            }
            count += 1;
        }
        self.sent.drain(..count);
        sound
    }

    /// The outcomes of messages since the last call, and the queue pairs for whose packets there is
    /// room now. Returns whether packets that waited for room were put into the ring: then the
    /// consumer has to be woken, if it sleeps.
    pub fn collect(&mut self, link: &Link, updates: &mut SendUpdates) -> Result<bool, Broken> {
        let memory = link.memory();
        let mut any_put = false;
        self.look(memory)?;
        if updates.outcomes.is_empty() {
            std::mem::swap(&mut updates.outcomes, &mut self.outcomes);
        } else {
            updates.outcomes.append(&mut self.outcomes);
        }
        while let Some(packet) = self.backlog.pop_front() {
            if !self.put_packet(memory, &packet)? {
                self.backlog.push_front(packet);
                return Ok(any_put);
            }
            any_put = true;
        }
        updates.ready.append(&mut self.waiting);
        let shares = usize::try_from(self.producer.room() / SHARE).unwrap_or(0);
        let served = shares.min(self.short.len());
        updates.roomy.extend(self.short.drain(..served));
        Ok(any_put)
    }

    /// The messages of a queue pair wait for room from now on: it is reported by [`Out::collect`].
    /// Returns the position of the last byte that was sent; `None` if the peer is gone.
    pub fn wait_for_room(&mut self, index: u32) -> Option<u64> {
        if self.lost {
            return None;
        }
        self.short.push_back(index);
        self.producer.position().checked_sub(1)
    }

    /// Whether there is room for queue pairs that wait, which were not all reported.
    pub fn can_serve(&self) -> bool {
        !self.short.is_empty() && self.backlog.is_empty() && self.producer.room() >= SHARE
    }

    /// The peer is gone: unknown outcomes remain unknown.
    pub fn lose(&mut self, updates: &mut SendUpdates) {
        self.lost = true;
        updates.outcomes.append(&mut self.outcomes);
        let mut last = None;
        for (_, number) in self.sent.drain(..) {
            if last != Some(number) {
                updates.outcomes.push((number, Outcome::Lost));
            }
            last = Some(number);
        }
        self.backlog.clear();
        updates.ready.append(&mut self.waiting);
        updates.roomy.extend(self.short.drain(..));
    }

    /// Whether packets wait for room; then the queue pair is remembered.
    pub fn waits(&mut self, index: u32) -> bool {
        if self.backlog.is_empty() {
            return false;
        }
        if !self.waiting.contains(&index) {
            self.waiting.push(index);
        }
        true
    }

    /// Whether anything depends on records that the consumer takes, or on [`Out::collect`].
    pub fn awaits(&self) -> bool {
        let any_outcome = !self.sent.is_empty() || !self.outcomes.is_empty();
        any_outcome || !self.backlog.is_empty() || !self.short.is_empty()
    }

    /// Whether the room is that of queue pairs that wait for it, and not of messages that are
    /// posted meanwhile.
    pub fn is_crowded(&self) -> bool {
        !self.short.is_empty() && self.producer.room() < LEFT
    }

    /// Up to where records were taken, as far as it was looked at.
    pub fn released(&self) -> u64 {
        self.producer.released()
    }

    /// The consumer has taken nothing for long.
    pub fn stalls(&mut self) {
        self.stalled = Some(self.producer.released());
    }

    /// Whether it still takes nothing.
    pub fn is_stalled(&self) -> bool {
        self.stalled == Some(self.producer.released())
    }
}

#[inline]
fn record(outcomes: &mut Vec<(u32, Outcome)>, number: u32, position: u64, refusal: Option<u64>) {
    if let Some(word) = refusal {
        let epoch = u32::try_from(word & 0xffff_ffff).unwrap_or(0);
        outcomes.push((number, Outcome::Refused(position, epoch)));
        return;
    }
    match outcomes.last_mut() {
        Some((last, Outcome::Taken(end))) if *last == number => *end = position,
        _ => outcomes.push((number, Outcome::Taken(position))),
    }
}

/// The results of checking a peer.
#[derive(Debug, Default)]
pub struct SendUpdates {
    /// The outcomes of messages, by QP number of the sender.
    pub outcomes: Vec<(u32, Outcome)>,
    /// Queue pairs (indices) for whose packets there is room.
    pub ready: Vec<u32>,
    /// Queue pairs (indices) for some of whose messages there is room.
    pub roomy: Vec<u32>,
}

impl SendUpdates {
    /// There is nothing new.
    pub fn clear(&mut self) {
        self.outcomes.clear();
        self.ready.clear();
        self.roomy.clear();
    }
}
