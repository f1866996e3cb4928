//! Messages that must arrive and could not be sent yet, in order.

use kit::errno::{Errno, Result};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Descriptors that go with a message. Messages that wait share them with their owner: a copy of a
/// descriptor is one more, and there may be none left.
pub type Descriptors = Arc<[OwnedFd; MOST]>;

/// Descriptors that go with a message at most.
pub const MOST: usize = 2;

/// A message, and the descriptors that go along.
pub struct Waiting {
    pub bytes: Vec<u8>,
    pub descriptors: Option<Descriptors>,
}

/// The event that a message waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The other process takes messages out.
    Room,
    /// The kernel has memory again, or fewer descriptors are on their way between processes of the
    /// user. It reports neither.
    Memory,
}

impl Need {
    /// After a message could not be sent; `None` if it never can: the other process is gone.
    fn after(error: Errno) -> Option<Self> {
        match error {
            Errno::AGAIN => Some(Self::Room),
            Errno::NOMEM | Errno(libc::ENOBUFS | libc::ETOOMANYREFS) => Some(Self::Memory),
            _ => None,
        }
    }
}

/// The messages, and the means by which they are sent once that is possible.
#[derive(Default)]
pub struct Outbox {
    waiting: VecDeque<Waiting>,
    /// The progress thread looks for room.
    pub watches_room: bool,
    /// A thread tries again after a while.
    pub tries_later: bool,
}

impl Outbox {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn push(&mut self, message: Waiting) {
        self.waiting.push_back(message);
    }

    /// Sends messages until one has to wait; returns for what.
    pub fn send(&mut self, mut send: impl FnMut(&Waiting) -> Result<()>) -> Option<Need> {
        while let Some(first) = self.waiting.front() {
            if let Err(error) = send(first)
                && let Some(need) = Need::after(error)
            {
                return Some(need);
            }
            self.waiting.pop_front();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    fn message(byte: u8, descriptors: Option<Descriptors>) -> Waiting {
        Waiting {
            bytes: vec![byte],
            descriptors,
        }
    }

    fn sent(outbox: &mut Outbox) -> Vec<u8> {
        let mut sent = Vec::new();
        let need = outbox.send(|message| {
            sent.extend(&message.bytes);
            Ok(())
        });
        assert_eq!(need, None);
        sent
    }

    #[test]
    fn a_message_waits_until_it_can_be_sent() {
        for (error, need) in [
            (libc::EAGAIN, Need::Room),
            (libc::ENOMEM, Need::Memory),
            (libc::ENOBUFS, Need::Memory),
            (libc::ETOOMANYREFS, Need::Memory),
        ] {
            let mut outbox = Outbox::default();
            (0..3).for_each(|byte| outbox.push(message(byte, None)));
            let mut tried = 0;
            let waits = outbox.send(|_| {
                tried += 1;
                if tried > 1 { Err(Errno(error)) } else { Ok(()) }
            });
            assert_eq!((tried, waits), (2, Some(need)));
            outbox.push(message(3, None));
            assert_eq!(sent(&mut outbox), [1, 2, 3]);
            assert!(outbox.is_empty());
        }
    }

    #[test]
    fn no_message_waits_for_a_process_that_is_gone() {
        for error in [libc::EPIPE, libc::ECONNRESET] {
            let mut outbox = Outbox::default();
            (0..3).for_each(|byte| outbox.push(message(byte, None)));
            assert_eq!(outbox.send(|_| Err(Errno(error))), None);
            assert!(outbox.is_empty());
        }
    }

    #[test]
    fn a_message_that_waits_takes_no_more_descriptors() {
        let fd = || eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
        let descriptors = Arc::new([fd(), fd()]);
        let mut outbox = Outbox::default();
        outbox.push(message(0, Some(Arc::clone(&descriptors))));
        assert_eq!(outbox.send(|_| Err(Errno::AGAIN)), Some(Need::Room));
        let mut has_gone = false;
        outbox.send(|message| {
            let given = message.descriptors.as_ref();
            has_gone = given.is_some_and(|given| Arc::ptr_eq(given, &descriptors));
            Ok(())
        });
        assert!(has_gone);
    }
}
