//! Event channels: events in order, and a descriptor that can be read as long as there is one.

use kit::cm::Record;
use kit::errno::{Errno, Result};
use rustix::io::Errno as Os;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// An event that the program has not read.
#[derive(Clone)]
pub struct Waiting {
    pub record: Record,
    /// The id that counts the event.
    pub counts_for: u32,
    /// Of a group: the number of the join.
    pub join: Option<u32>,
}

/// An event channel.
///
/// The descriptor is a socket in which a byte lies for each event that waits, as far as there is
/// room. A program waits for it by poll(2), or by recv(2) with MSG_PEEK, which blocks or not as the
/// program has set the descriptor, and which a signal interrupts or not as it does a call that
/// waits in the kernel. Of several threads that wait so, a byte wakes one.
pub struct Channel {
    events: VecDeque<Waiting>,
    /// Bytes in the socket at most: the program may have read some.
    bytes: usize,
    signal: OwnedFd,
    /// The program's socket.
    shown: OwnedFd,
}

impl Channel {
    /// A channel, and a descriptor for the program.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    pub fn new() -> Result<(Self, OwnedFd)> {
        // Of this kind a thread that waits is not woken when the channel is closed: librdmacm's
        // programs rely on that.
        let (kind, flags) = (SocketType::DGRAM, SocketFlags::CLOEXEC);
        let (signal, shown) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?;
        let channel = Self {
            events: VecDeque::new(),
            bytes: 0,
            signal,
            shown: rustix::io::fcntl_dupfd_cloexec(&shown, 3)?,
        };
        Ok((channel, shown))
    }

    pub fn push(&mut self, event: Waiting) {
        self.events.push_back(event);
        self.show();
    }

    /// # Errors
    /// EAGAIN if no event is pending.
    pub fn pop(&mut self) -> Result<Waiting> {
        let event = self.events.pop_front().ok_or(Errno::AGAIN)?;
        self.hide_one();
        self.show();
        Ok(event)
    }

    /// Takes out the events that a question is true of.
    pub fn take(&mut self, is_wanted: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let (wanted, others) = std::mem::take(&mut self.events)
            .into_iter()
            .partition(|event| is_wanted(event));
        self.events = others;
        self.show();
        VecDeque::into(wanted)
    }

    /// Has as many bytes lie in the socket as events wait.
    fn show(&mut self) {
        while self.bytes > self.events.len() {
            self.hide_one();
        }
        // Otherwise one is sent below in any case.
        if self.bytes > 0 && self.bytes == self.events.len() && !self.is_shown() {
            self.bytes = 0;
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // Where there is no room, the others follow as events are taken.
        while self.bytes < self.events.len() && rustix::net::send(&self.signal, &[0], flags).is_ok()
        {
            self.bytes += 1;
        }
    }

    fn hide_one(&mut self) {
        self.bytes = match self.receive(RecvFlags::empty()) {
            Err(Os::AGAIN) => 0,
            _ => self.bytes.saturating_sub(1),
        };
    }

    /// Whether a byte lies in the socket.
    fn is_shown(&self) -> bool {
        self.receive(RecvFlags::PEEK) != Err(Os::AGAIN)
    }

    fn receive(&self, how: RecvFlags) -> rustix::io::Result<()> {
        let how = how | RecvFlags::DONTWAIT;
        rustix::net::recv(&self.shown, &mut [0; 1], how).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::sys::epoll::wait;
    use kit::sys::ready::is_readable;
    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd;

    fn event(id: u32) -> Waiting {
        Waiting {
            record: Record::new(0, id, 0, 0),
            counts_for: id,
            join: None,
        }
    }

    fn can_be_read(fd: &OwnedFd) -> bool {
        is_readable(fd.as_fd()) == Ok(true)
    }

    #[test]
    fn the_descriptor_can_be_read_while_an_event_waits() {
        let (mut channel, fd) = Channel::new().expect("a channel");
        assert!(!can_be_read(&fd));
        channel.push(event(1));
        channel.push(event(2));
        channel.push(event(1));
        assert_eq!(channel.take(|event| event.counts_for == 1).len(), 2);
        assert!(can_be_read(&fd));
        assert_eq!(channel.pop().map(|event| event.record.id), Ok(2));
        assert!(!can_be_read(&fd));
        assert_eq!(
            channel.pop().map(|event| event.record.id),
            Err(Errno::AGAIN)
        );
        channel.push(event(3));
        assert!(can_be_read(&fd));
        assert_eq!(channel.take(|_| true).len(), 1);
        assert!(!can_be_read(&fd));
    }

    /// A program that waits by read(2) takes the byte.
    #[test]
    fn an_event_whose_byte_the_program_has_read_can_be_read_again() {
        for (waiting, read) in [(2, 1), (3, 1), (3, 2), (3, 3)] {
            let (mut channel, fd) = Channel::new().expect("a channel");
            (0..waiting).for_each(|id| channel.push(event(id)));
            for _ in 0..read {
                assert_eq!(rustix::io::read(&fd, &mut [0; 8]), Ok(1));
            }
            for id in 0..waiting {
                let popped = channel.pop();
                assert_eq!(popped.map(|event| event.record.id), Ok(id));
                let are_left = id + 1 < waiting;
                assert_eq!(can_be_read(&fd), are_left, "{waiting} {read} {id}");
            }
            channel.push(event(9));
            assert!(can_be_read(&fd));
        }
    }

    #[test]
    fn taking_out_events_shows_the_others_whose_bytes_the_program_has_read() {
        let (mut channel, fd) = Channel::new().expect("a channel");
        for id in [1, 2, 2] {
            channel.push(event(id));
        }
        for _ in 0..2 {
            assert_eq!(rustix::io::read(&fd, &mut [0; 8]), Ok(1));
        }
        assert_eq!(channel.take(|event| event.counts_for == 1).len(), 1);
        assert!(can_be_read(&fd));
    }

    /// Threads that wait in recv(2) are woken as this is: one for each byte.
    #[test]
    fn each_event_wakes_a_thread() {
        let (mut channel, fd) = Channel::new().expect("a channel");
        let set = epoll::create(CreateFlags::CLOEXEC).expect("a set");
        let data = EventData::new_u64(0);
        epoll::add(&set, &fd, data, EventFlags::IN | EventFlags::ET).expect("added");
        let wakes = || {
            let woken = wait(&set, Some(0), &mut [MaybeUninit::uninit()]).map(<[_]>::len);
            woken == Ok(1)
        };
        assert!(!wakes());
        // Until the socket has no room, and one more.
        let held = (0..).take_while(|id| {
            channel.push(event(*id));
            wakes()
        });
        let held = u32::try_from(held.count()).expect("few");
        assert!(held > 1);
        channel.push(event(held + 1));
        for id in 0..held + 2 {
            assert!(can_be_read(&fd));
            assert_eq!(channel.pop().map(|event| event.record.id), Ok(id));
            // There is room for the byte of another one that waits.
            assert_eq!(wakes(), id < 2);
        }
        assert!(!can_be_read(&fd));
    }
}
