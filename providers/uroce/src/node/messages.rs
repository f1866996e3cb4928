//! Messages that came past the protocol, as a queue pair takes them in.

use crate::carrier::shm::{
    Broken, Consumer, FEW, Front, Header, MESSAGE, MESSAGE_HEAD, Peer, Record,
};
use std::sync::Arc;

/// Messages for one queue pair that came together, in order. Each is accepted or refused before the
/// next is looked at.
pub struct Messages<'a> {
    peer: &'a Arc<Peer>,
    consumer: &'a mut Consumer,
    buffer: &'a mut [u8],
    budget: &'a mut u32,
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
        let front = front(peer, consumer, first)?;
        Ok(Self {
            peer,
            consumer,
            buffer,
            budget,
            record: *first,
            front,
            destination: front.header.destination,
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

    /// What the message says besides its data.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.front.header
    }

    /// Bytes of its data.
    #[must_use]
    pub fn length(&self) -> usize {
        self.record.length - MESSAGE_HEAD
    }

    /// Its data.
    pub fn data(&mut self) -> Option<&[u8]> {
        let length = self.length();
        if length <= FEW {
            return self.front.few.get(..length);
        }
        let data = self.buffer.get_mut(..length)?;
        let memory = self.peer.link().memory();
        let read = self.consumer.read(memory, &self.record, MESSAGE_HEAD, data);
        read.ok()?;
        Some(data)
    }

    /// The message was received. Answers whether there is another one.
    pub fn accept(&mut self) -> bool {
        self.give_back()
    }

    /// The message is not received: its sender has to take the long way, and may then come with this
    /// epoch. Answers whether there is another message.
    pub fn refuse(&mut self, epoch: u32) -> bool {
        let memory = self.peer.link().memory();
        let refused = self.consumer.refuse(memory, &self.record, u64::from(epoch));
        self.note(refused);
        self.give_back()
    }

    fn note(&mut self, result: Result<(), Broken>) {
        if let Err(broken) = result {
            self.broken = Some(broken);
        }
    }

    fn give_back(&mut self) -> bool {
        let memory = self.peer.link().memory();
        let advanced = self.consumer.advance(memory, &self.record);
        self.note(advanced);
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
    fn follows(&mut self) -> Result<Option<(Record, Front)>, Broken> {
        let memory = self.peer.link().memory();
        let Some(record) = self.consumer.next(memory)? else {
            self.last = true;
            return Ok(None);
        };
        if record.kind != MESSAGE {
            return Ok(None);
        }
        let front = front(self.peer, self.consumer, &record)?;
        Ok((front.header.destination == self.destination).then_some((record, front)))
    }

    /// Refuses what nobody answered: there is no such queue pair. Answers whether other records may
    /// follow.
    pub(super) fn finish(&mut self) -> Result<bool, Broken> {
        while !self.done && self.refuse(0) {}
        self.broken.take().map_or(Ok(!self.last), Err)
    }
}

#[inline]
fn front(peer: &Peer, consumer: &Consumer, record: &Record) -> Result<Front, Broken> {
    if record.length < MESSAGE_HEAD {
        return Err(Broken);
    }
    let words = consumer.get(peer.link().memory(), record)?;
    Ok(Front::parse(words, record.flags))
}
