//! A ring: records of bytes from one process to another.
//!
//! A record begins at a multiple of 64 bytes and does not wrap around. Its first word is written
//! last, so the consumer looks at one cache line and finds a short message there. Any line of a
//! record may be the beginning of the next one: the first words of all are zeroed before it is
//! given back. The other side's position is always checked against the own one.
//!
//! To zero it costs less than to leave it. A line that the consumer has only read stays with the
//! producer as one that both have, and the producer's next write to it waits until the consumer has
//! given it up. A line that the consumer wrote to is the consumer's alone, and processors fetch
//! such lines ahead when they see that one is written after the other.
//!
//! # Memory order
//! The argument is that of the language, and holds on processors that reorder stores, such as those
//! of arm64, except for the last item.
//!
//! - *A record.* Its bytes, and the words behind its first, are plain copies and relaxed stores
//!   before the release store of its first word ([`Producer::publish`]). The consumer reads them
//!   after it has acquired that word. So are the zeros of one that was given up
//!   ([`Producer::abandon`]): a consumer has acquired the record before a line when it looks there.
//! - *Its room.* The consumer's reads of a record, its relaxed zeros ([`Consumer::advance`]) and
//!   refusals ([`Consumer::refuse`]) come before the release store of its position
//!   ([`Consumer::report`]). The producer writes there after it has acquired the position, so no
//!   later zero overwrites a new record.
//! - *Refusals.* Their number is stored before the position, so a producer that has acquired a
//!   position finds the refusals of all records before it.
//! - *A sleeper* is the exception: the producer stores a word and then loads whether the other side
//!   sleeps, and release does not order the two ([`show`] keeps the compiler from exchanging them).
//!   x86-64 may exchange them. arm64 may not: a sequentially consistent load (`ldar`) waits for
//!   earlier release stores (`stlr`) of its thread; nor may riscv64 and ppc64el, whose compilers
//!   put a full fence before such a load. The second look, which x86-64 needs, is the same
//!   everywhere.

use super::link::{HEAD, RING};
use kit::sys::application::ApplicationMemory;
use kit::sys::prefetch;
use kit::sys::shared::Shared;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, compiler_fence};

/// Bytes of a cache line.
const LINE: usize = 64;
const WORD: usize = size_of::<u64>();
/// Bytes of a ring, as a position counts them.
const SIZE: u64 = 128 << 10;
const _: () = assert!(RING == 128 << 10);
/// The longest record: several must fit.
pub const LONGEST: usize = RING / 4;
/// Words of every record: the first word, and the one by which it may be refused.
pub const PREFIX: usize = 2 * WORD;

/// Words behind the prefix in the first line of a record.
pub const SHORT: usize = (LINE - PREFIX) / WORD;

/// Words of the head of a ring, each alone in its cache line.
const TAKEN: usize = 256 / WORD;
const REFUSED: usize = TAKEN + 1;
/// Up to where the producer waits to hear that records were taken.
const ASKED: usize = 512 / WORD;

/// How many records ahead the producer fetches lines: as many as it writes while a line comes from
/// another processor.
const AHEAD: u64 = 4;
/// The longest record whose lines are fetched one by one: those of longer ones are fetched by the
/// processor, which sees that one is written after the other.
const FETCHED: u64 = 256;

/// In a record's flags: its producer does not wait to hear that it was taken.
pub const UNASKED: u8 = 1 << 7;
/// How many bytes of such records are taken before the producer hears of it all the same, since it
/// may want their room: far fewer than a ring has.
const MUCH: u64 = SIZE / 8;

/// Set in the second word of a refused record; the bits below are the consumer's answer.
const REFUSAL: u64 = 1 << 63;
/// Set in the first word of every record.
const WHOLE: u64 = 1 << 63;

/// The peer broke a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// Where a ring is in the memory of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingOffset {
    base: usize,
}

impl RingOffset {
    /// The first or the second ring of a link.
    pub fn new(second: bool) -> Self {
        let base = if second { HEAD + RING } else { 0 };
        Self { base }
    }

    fn word(self, memory: &Shared, offset: usize) -> Result<&AtomicU64, Broken> {
        memory.words().get(self.base / WORD + offset).ok_or(Broken)
    }

    /// So many words of the head, from one on.
    pub(super) fn head(self, memory: &Shared, from: usize, count: usize) -> Option<&[AtomicU64]> {
        let end = from.checked_add(count).filter(|end| *end <= HEAD / WORD)?;
        let base = self.base / WORD;
        memory.words().get(base + from..base + end)
    }

    /// The byte of the data at a position.
    fn at(self, position: u64) -> usize {
        let inside = usize::try_from(position % SIZE).unwrap_or(0);
        self.base + HEAD + inside
    }

    /// The words of the line at a position, where a record may begin.
    #[inline]
    fn line(self, memory: &Shared, position: u64) -> Result<&Line, Broken> {
        let words = memory.words().get(self.at(position) / WORD..);
        words.and_then(<[_]>::first_chunk).ok_or(Broken)
    }
}

/// Writes a word that the other side looks for, ahead of a look at whether that side sleeps.
///
/// There is no full fence between the two, which would wait until the other side gives up the cache
/// line, for each message: it may go to sleep, see the old word, and be seen awake, while the new
/// word is still in this processor's store buffer (on x86-64). A thread that goes to sleep
/// therefore looks a second time, when [`super::LATE`] has passed and the buffer is long empty.
#[inline]
fn show(word: &AtomicU64, value: u64) {
    word.store(value, Release);
    compiler_fence(SeqCst);
}

fn lines(bytes: usize) -> u64 {
    u64::try_from(bytes.next_multiple_of(LINE)).unwrap_or(u64::MAX)
}

/// A record that was found good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it begins, counted from the beginning of the ring's life.
    position: u64,
    /// Its first word, as it was when it was looked at.
    first: u64,
}

impl Record {
    /// Bytes, the prefix included.
    #[inline]
    pub fn length(&self) -> usize {
        usize::try_from(self.first & 0xffff_ffff).unwrap_or(usize::MAX)
    }

    /// The kind: not 0, which fills the end of the ring.
    #[inline]
    pub fn kind(&self) -> u8 {
        let [_, _, _, _, kind, ..] = self.first.to_le_bytes();
        kind
    }

    /// As the kind has it.
    #[inline]
    pub fn flags(&self) -> u8 {
        let [_, _, _, _, _, flags, ..] = self.first.to_le_bytes();
        flags
    }
}

/// The first line of a record, of which anything may change at any time.
type Line = [AtomicU64; LINE / WORD];

const FILLER: u8 = 0;

fn first_word(length: usize, kind: u8, flags: u8) -> u64 {
    let length = u64::try_from(length).unwrap_or(0);
    WHOLE | u64::from(flags) << 40 | u64::from(kind) << 32 | length
}

/// The writing side.
#[derive(Debug)]
pub struct Producer {
    place: RingOffset,
    /// Where the next record begins.
    tail: u64,
    /// Up to where records were taken, and looked at since: their room is free.
    free: u64,
    /// Refusals that were found.
    refused: u64,
}

impl Producer {
    /// At the beginning.
    pub fn new(place: RingOffset) -> Self {
        Self {
            place,
            tail: 0,
            free: 0,
            refused: 0,
        }
    }

    /// The position of the next record, if there is room for so many bytes. The remaining bytes
    /// before it are filled.
    ///
    /// # Errors
    /// [`Broken`] beyond the ring.
    #[inline]
    pub fn reserve(&mut self, memory: &Shared, length: usize) -> Result<Option<u64>, Broken> {
        let need = lines(length);
        let rest = SIZE - self.tail % SIZE;
        if length > LONGEST || need > rest && !self.fill_up(memory, rest, need)? {
            return Ok(None);
        }
        let fits = self.tail + need - self.free <= SIZE;
        Ok(fits.then_some(self.tail))
    }

    /// Fills the end of the ring, if there is room for that and for the record after it.
    #[cold]
    fn fill_up(&mut self, memory: &Shared, rest: u64, need: u64) -> Result<bool, Broken> {
        if self.tail + rest + need - self.free > SIZE {
            return Ok(false);
        }
        let length = usize::try_from(rest).map_err(|_| Broken)?;
        self.publish(memory, length, FILLER, 0, [])?;
        Ok(true)
    }

    /// Bytes of the record that was reserved.
    ///
    /// # Errors
    /// [`Broken`] beyond the ring.
    #[inline]
    pub fn copy(&self, memory: &Shared, offset: usize, bytes: &[u8]) -> Result<(), Broken> {
        let at = self.reserved(offset);
        memory.write(at, bytes).map_err(|_| Broken)
    }

    /// The place of a byte of the record that was reserved.
    #[inline]
    pub fn reserved(&self, offset: usize) -> usize {
        self.place.at(self.tail) + offset
    }

    /// Gives up a record of so many bytes that was reserved, and perhaps written in part. Another
    /// one may take its place, and end at any of its lines: their first words are zero again before
    /// that one is published.
    ///
    /// # Errors
    /// [`Broken`] beyond the ring.
    #[cold]
    pub fn abandon(&self, memory: &Shared, length: usize) -> Result<(), Broken> {
        let (mut at, end) = (self.tail, self.tail + lines(length));
        while at < end {
            let [first, ..] = self.place.line(memory, at)?;
            first.store(0, Relaxed);
            at += 64;
        }
        Ok(())
    }

    /// Shows the record that was reserved to the consumer, with these as its first words behind the
    /// prefix.
    ///
    /// # Errors
    /// [`Broken`] beyond the ring.
    #[inline]
    pub fn publish<const N: usize>(
        &mut self,
        memory: &Shared,
        length: usize,
        kind: u8,
        flags: u8,
        values: [u64; N],
    ) -> Result<(), Broken> {
        let [first, refusal, rest @ ..] = self.place.line(memory, self.tail)?;
        for (word, value) in rest.iter().zip(values) {
            word.store(value, Relaxed);
        }
        refusal.store(0, Relaxed);
        show(first, first_word(length, kind, flags));
        self.tail += lines(length);
        self.prefetch(memory, lines(length));
        Ok(())
    }

    /// Fetches the lines of a record that will come soon, if it is as long as the last one, which
    /// has so many bytes: the consumer wrote to them last. Not those of the very next record: a
    /// consumer that waits for it would fetch its first line back at once. Nor lines that may hold
    /// records yet.
    #[inline(always)]
    fn prefetch(&self, memory: &Shared, length: u64) {
        let begin = self.tail + AHEAD * length;
        if length > FETCHED || begin + length - self.free > SIZE {
            return;
        }
        let mut at = begin;
        while at < begin + length {
            if let Ok([first, ..]) = self.place.line(memory, at) {
                prefetch::to_write(first);
            }
            at += 64;
        }
    }

    /// Up to where the consumer has taken records.
    ///
    /// # Errors
    /// [`Broken`] when the consumer is ahead of this side, or went backwards.
    #[inline]
    pub fn taken(&self, memory: &Shared) -> Result<u64, Broken> {
        let taken = self.place.word(memory, TAKEN)?.load(Acquire);
        if taken < self.free || taken > self.tail {
            return Err(Broken);
        }
        Ok(taken)
    }

    /// Whether there are refusals that were not found.
    ///
    /// # Errors
    /// [`Broken`] beyond the ring.
    pub fn any_refused(&self, memory: &Shared) -> Result<bool, Broken> {
        let refused = self.place.word(memory, REFUSED)?.load(Acquire);
        Ok(refused != self.refused)
    }

    /// The consumer's answer if it refused the record at a position. Called once for each record.
    ///
    /// # Errors
    /// [`Broken`] beyond the ring.
    pub fn refusal(&mut self, memory: &Shared, position: u64) -> Result<Option<u64>, Broken> {
        let [_, refusal, ..] = self.place.line(memory, position)?;
        let word = refusal.load(Acquire);
        if word & REFUSAL == 0 {
            return Ok(None);
        }
        self.refused = self.refused.wrapping_add(1);
        Ok(Some(word & !REFUSAL))
    }

    /// Gives up the room of records up to a position that was taken.
    pub fn release(&mut self, position: u64) {
        self.free = position;
    }

    /// Where the next record begins.
    pub fn position(&self) -> u64 {
        self.tail
    }

    /// The word with the consumer's position.
    #[inline]
    pub fn taken_word(place: RingOffset, memory: &Shared) -> u64 {
        place
            .word(memory, TAKEN)
            .map_or(0, |word| word.load(Acquire))
    }

    /// Bytes of room, as far as it was looked at.
    pub fn room(&self) -> u64 {
        SIZE - (self.tail - self.free)
    }

    /// Up to where room is free.
    pub fn released(&self) -> u64 {
        self.free
    }

    /// Waits after all to hear that all records were taken that are there now.
    ///
    /// # Errors
    /// [`Broken`] beyond the ring.
    pub fn ask(&self, memory: &Shared) -> Result<(), Broken> {
        show(self.place.word(memory, ASKED)?, self.tail);
        Ok(())
    }
}

#[inline(always)]
fn behind_prefix([_, _, rest @ ..]: &Line) -> [u64; SHORT] {
    rest.each_ref().map(|word| word.load(Relaxed))
}

/// The reading side.
#[derive(Debug)]
pub struct Consumer {
    place: RingOffset,
    /// Where the next record begins.
    head: u64,
    /// Up to where it was reported to the producer that records were taken.
    reported: u64,
    /// It waits to hear of more.
    owing: bool,
    /// Some were reported before the end of a look.
    early: bool,
    refused: u64,
}

impl Consumer {
    /// At the beginning.
    pub fn new(place: RingOffset) -> Self {
        Self {
            place,
            head: 0,
            reported: 0,
            owing: false,
            early: false,
            refused: 0,
        }
    }

    /// Whether there is a record, or something else to look at, or the producer waits to hear of
    /// one that was taken.
    #[inline]
    pub fn has_some(&self, memory: &Shared) -> bool {
        let line = self.place.line(memory, self.head);
        line.is_ok_and(|[first, ..]| first.load(SeqCst) != 0) || self.is_asked(memory)
    }

    /// Whether the producer waits for the consumption of a record, besides the records' flags.
    #[inline]
    fn is_asked(&self, memory: &Shared) -> bool {
        self.reported != self.head
            && self
                .place
                .word(memory, ASKED)
                .is_ok_and(|asked| asked.load(SeqCst) > self.reported)
    }

    /// The next record.
    ///
    /// # Errors
    /// [`Broken`] for a record that is not the protocol's.
    #[inline]
    pub fn next(&mut self, memory: &Shared) -> Result<Option<Record>, Broken> {
        Ok(self.next_line(memory)?.map(|(record, _)| record))
    }

    /// The next record, and the words behind the prefix in its first line.
    ///
    /// # Errors
    /// [`Broken`] for a record that is not the protocol's.
    #[inline(always)]
    pub fn next_with_words(
        &mut self,
        memory: &Shared,
    ) -> Result<Option<(Record, [u64; SHORT])>, Broken> {
        let next = self.next_line(memory)?;
        Ok(next.map(|(record, line)| (record, behind_prefix(line))))
    }

    #[inline(always)]
    fn next_line<'m>(&mut self, memory: &'m Shared) -> Result<Option<(Record, &'m Line)>, Broken> {
        match self.look(memory)? {
            Some((filler, _)) if filler.kind() == FILLER => self.behind(memory, &filler),
            other => Ok(other),
        }
    }

    /// The record behind a filler, which is no other filler.
    #[cold]
    fn behind<'m>(
        &mut self,
        memory: &'m Shared,
        filler: &Record,
    ) -> Result<Option<(Record, &'m Line)>, Broken> {
        self.advance(memory, filler)?;
        match self.look(memory)? {
            Some((record, _)) if record.kind() == FILLER => Err(Broken),
            other => Ok(other),
        }
    }

    #[inline(always)]
    fn look<'m>(&self, memory: &'m Shared) -> Result<Option<(Record, &'m Line)>, Broken> {
        let line = self.place.line(memory, self.head)?;
        let [word, ..] = line;
        match word.load(Acquire) {
            0 => Ok(None),
            first => Ok(Some((self.check(first)?, line))),
        }
    }

    /// The record that begins here with this word, if it fits.
    #[inline(always)]
    fn check(&self, first: u64) -> Result<Record, Broken> {
        let record = Record {
            position: self.head,
            first,
        };
        let length = record.length();
        let rest = SIZE - self.head % SIZE;
        let fits = length >= PREFIX && lines(length) <= rest;
        let short = length <= LONGEST || record.kind() == FILLER;
        if first & WHOLE != 0 && fits && short {
            Ok(record)
        } else {
            Err(Broken)
        }
    }

    /// The words behind the prefix in the first line of a record that was not given back. They may
    /// change at any time.
    ///
    /// # Errors
    /// [`Broken`] beyond the ring.
    #[inline]
    pub fn get(&self, memory: &Shared, record: &Record) -> Result<[u64; SHORT], Broken> {
        Ok(behind_prefix(self.place.line(memory, record.position)?))
    }

    /// Bytes of a record that was not given back.
    ///
    /// # Errors
    /// [`Broken`] beyond the record.
    #[inline]
    pub fn read(
        &self,
        memory: &Shared,
        record: &Record,
        offset: usize,
        to: &mut [u8],
    ) -> Result<(), Broken> {
        if offset
            .checked_add(to.len())
            .is_none_or(|end| end > record.length())
        {
            return Err(Broken);
        }
        let at = self.place.at(record.position) + offset;
        memory.read(at, to).map_err(|_| Broken)
    }

    /// The same into memory of the application: as many bytes as that has.
    ///
    /// # Errors
    /// [`Broken`] beyond the record.
    #[inline]
    pub fn read_into(
        &self,
        memory: &Shared,
        record: &Record,
        offset: usize,
        to: &ApplicationMemory,
    ) -> Result<(), Broken> {
        let end = offset.checked_add(to.length());
        if end.is_none_or(|end| end > record.length()) {
            return Err(Broken);
        }
        let at = self.place.at(record.position) + offset;
        to.write_from(memory, at).map_err(|_| Broken)
    }

    /// Refuses the record, before it is given back.
    ///
    /// # Errors
    /// [`Broken`] beyond the ring.
    pub fn refuse(&mut self, memory: &Shared, record: &Record, say: u64) -> Result<(), Broken> {
        let [_, refusal, ..] = self.place.line(memory, record.position)?;
        refusal.store(REFUSAL | say & !REFUSAL, Relaxed);
        self.refused += 1;
        Ok(())
    }

    /// Gives the record back; the producer learns of it by [`Consumer::report`].
    ///
    /// # Errors
    /// [`Broken`] beyond the ring.
    #[inline]
    pub fn advance(&mut self, memory: &Shared, record: &Record) -> Result<(), Broken> {
        let length = lines(record.length());
        let end = record.position + length;
        let mut at = record.position;
        while at < end {
            let [first, ..] = self.place.line(memory, at)?;
            first.store(0, Relaxed);
            at += 64;
        }
        self.head = end;
        self.owing |= record.flags() & UNASKED == 0;
        Ok(())
    }

    /// Reports to the producer how far it has come, if it waits for that. Returns whether there was
    /// anything to report.
    ///
    /// # Errors
    /// [`Broken`] beyond the ring.
    #[inline]
    pub fn report(&mut self, memory: &Shared) -> Result<bool, Broken> {
        let early = std::mem::take(&mut self.early);
        if self.reported == self.head || !self.has_to_report(memory) {
            return Ok(early);
        }
        self.store_taken(memory)?;
        Ok(true)
    }

    /// Reports in the middle of a look, if there is much to report: a producer without room would
    /// otherwise wait until the consumer has taken all there is, and then the consumer for it.
    ///
    /// # Errors
    /// [`Broken`] beyond the ring.
    #[inline]
    pub fn report_much(&mut self, memory: &Shared) -> Result<(), Broken> {
        if self.head - self.reported < MUCH {
            return Ok(());
        }
        self.early = true;
        self.store_taken(memory)
    }

    fn store_taken(&mut self, memory: &Shared) -> Result<(), Broken> {
        self.owing = false;
        self.reported = self.head;
        self.place
            .word(memory, REFUSED)?
            .store(self.refused, Release);
        show(self.place.word(memory, TAKEN)?, self.head);
        Ok(())
    }

    #[inline]
    fn has_to_report(&self, memory: &Shared) -> bool {
        self.owing || self.head - self.reported >= MUCH || self.is_asked(memory)
    }
}

#[cfg(test)]
mod tests;
