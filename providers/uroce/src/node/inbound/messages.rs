//! Messages that came on the eager path, as a queue pair takes them in.

use crate::carrier::shm::{
    Broken, Consumer, FEW, Front, Header, MESSAGE, MESSAGE_HEAD, Peer, Record, SHORT,
};
use kit::sys::application::ApplicationMemory;
use kit::sys::shared::Shared;
use std::sync::Arc;

/// Messages for one queue pair that came together, in order. Each is accepted or refused before the
/// next is looked at.
pub struct Messages<'a> {
    peer: &'a Arc<Peer>,
    consumer: &'a mut Consumer,
    buffer: &'a mut [u8],
    budget: &'a mut u32,
    memory: &'a Shared,
    record: Record,
    front: Front,
    destination: u32,
    /// The message was answered, or there is none.
    done: bool,
    /// No record followed.
    last: bool,
    broken: Option<Broken>,
}

impl<'a> Messages<'a> {
    pub(super) fn new(
        peer: &'a Arc<Peer>,
        consumer: &'a mut Consumer,
        buffer: &'a mut [u8],
        budget: &'a mut u32,
        first: &Record,
    ) -> Result<Self, Broken> {
        let memory = peer.link().memory();
        let front = front(first, consumer.get(memory, first)?)?;
        Ok(Self {
            peer,
            memory,
            consumer,
            buffer,
            budget,
            record: *first,
            front,
            destination: front.destination(),
            done: false,
            last: false,
            broken: None,
        })
    }

    /// The queue pair that they are for.
    #[must_use]
    pub fn destination(&self) -> u32 {
        self.destination
    }

    /// The process that they came from.
    #[must_use]
    pub fn peer(&self) -> &Arc<Peer> {
        self.peer
    }

    /// The header of the message.
    #[must_use]
    #[inline]
    pub fn header(&self) -> Header {
        self.front.header()
    }

    /// Bytes of its data.
    #[must_use]
    pub fn length(&self) -> usize {
        self.record.length() - MESSAGE_HEAD
    }

    /// Its data.
    pub fn data(&mut self) -> Option<&[u8]> {
        let length = self.length();
        if length <= FEW {
            return self.front.few().get(..length);
        }
        let data = self.buffer.get_mut(..length)?;
        let read = self
            .consumer
            .read(self.memory, &self.record, MESSAGE_HEAD, data);
        read.ok()?;
        Some(data)
    }

    /// Whether its data is in its first line.
    #[inline]
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.length() <= FEW
    }

    /// Writes its data into memory of the application that has as many bytes.
    #[inline]
    pub fn write_to(&self, to: &ApplicationMemory) -> Option<()> {
        let (memory, record) = (self.memory, &self.record);
        self.consumer
            .read_into(memory, record, MESSAGE_HEAD, to)
            .ok()
    }

    /// The message was received. Returns whether there is another one.
    #[inline(always)]
    pub fn accept(&mut self) -> bool {
        self.give_back()
    }

    /// The message is not received: its sender has to take the protocol path, and may then use this
    /// epoch. Returns whether there is another message.
    #[inline(never)]
    pub fn refuse(&mut self, epoch: u32) -> bool {
        let refused = self
            .consumer
            .refuse(self.memory, &self.record, u64::from(epoch));
        self.note(refused);
        self.give_back()
    }

    fn note(&mut self, result: Result<(), Broken>) {
        if let Err(broken) = result {
            self.broken = Some(broken);
        }
    }

    #[inline(always)]
    fn give_back(&mut self) -> bool {
        let advanced = self.consumer.advance(self.memory, &self.record);
        self.note(advanced);
        let reported = self.consumer.report_much(self.memory);
        self.note(reported);
        self.done = true;
        *self.budget = self.budget.saturating_sub(1);
        if self.broken.is_some() || *self.budget == 0 {
            return false;
        }
        match self.follows() {
            Ok(Some((record, front))) => {
                self.record = record;
                self.front = front;
                self.done = false;
                true
            }
            Ok(None) => false,
            Err(broken) => {
                self.broken = Some(broken);
                false
            }
        }
    }

    /// The next message, if it is for the same queue pair.
    #[inline(always)]
    fn follows(&mut self) -> Result<Option<(Record, Front)>, Broken> {
        let Some((record, words)) = self.consumer.next_with_words(self.memory)? else {
            self.last = true;
            return Ok(None);
        };
        if record.kind() != MESSAGE {
            return Ok(None);
        }
        let front = front(&record, words)?;
        Ok((front.destination() == self.destination).then_some((record, front)))
    }

    /// Refuses a message that was neither accepted nor refused, because there is no such queue
    /// pair. Returns whether other records may follow.
    pub(super) fn finish(&mut self) -> Result<bool, Broken> {
        while !self.done && self.refuse(0) {}
        self.broken.take().map_or(Ok(!self.last), Err)
    }
}

#[inline(always)]
fn front(record: &Record, words: [u64; SHORT]) -> Result<Front, Broken> {
    if record.length() < MESSAGE_HEAD {
        return Err(Broken);
    }
    Ok(Front::new(words, record.flags()))
}
