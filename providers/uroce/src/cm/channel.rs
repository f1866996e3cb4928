//! Event channels: events in order, and a descriptor that can be read as long as there is one.

use kit::cm::Record;
use kit::errno::{Errno, Result};
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
    /// Bytes in the socket, unless the program has read some.
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
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // Where there is no room, the others follow as events are taken.
        while self.bytes < self.events.len() && rustix::net::send(&self.signal, &[0], flags).is_ok()
        {
            self.bytes += 1;
        }
    }

    fn hide_one(&mut self) {
        // If the program has not read it.
        let _ = rustix::net::recv(&self.shown, &mut [0; 1], RecvFlags::DONTWAIT);
        self.bytes = self.bytes.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::sys::epoll::wait;
    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::mem::MaybeUninit;

    fn event(id: u32) -> Waiting {
        Waiting {
            record: Record::new(0, id, 0, 0),
            counts_for: id,
            join: None,
        }
    }

    fn can_be_read(fd: &OwnedFd) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut polled = [PollFd::new(fd, PollFlags::IN)];
        poll(&mut polled, Some(&now)) == Ok(1)
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
