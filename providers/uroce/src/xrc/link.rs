//! A connection between two processes of a domain.

use super::message::Message;
use super::outbox::{Descriptors, MOST, Need, Outbox, Waiting};
use crate::carrier::udp::Socket;
use crate::node::{Interest, Node, Ready, Watch};
use crate::threads;
use kit::abi::ibv_qp_attr;
use kit::errno::{Errno, Result};
use kit::sync::{Condvar, Mutex};
use rustix::io::Errno as SystemErrno;
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    self, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Bytes of the longest message.
const LONGEST: usize = 16 << 10;
/// Messages received in a row.
const MESSAGES: usize = 64;
/// How long after an attempt for which the kernel had no memory the next one is made.
const AGAIN: Duration = Duration::from_millis(10);

/// The result of a call: attributes, if they were requested.
type Answer = Result<Option<ibv_qp_attr>>;

/// A connection.
pub struct Link {
    /// Of the process at the other end; 0 until it has sent it.
    slot: AtomicU16,
    socket: Socket,
    itself: Weak<Self>,
    watch: Mutex<Option<Watch>>,
    /// Messages that could not be sent yet. Locked before the watch.
    outbox: Mutex<Outbox>,
    gone: AtomicBool,
    calls: Mutex<Calls>,
    answered: Condvar,
}

/// A received message with descriptors, or none at the end.
pub type Received<'a> = Option<(Message<'a>, Vec<OwnedFd>)>;

#[derive(Default)]
struct Calls {
    last: u64,
    /// Calls under way, and their answers when they have come.
    open: HashMap<u64, Option<Answer>>,
}

impl Calls {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl Link {
    /// A connection to the process of a slot, or of one that has not sent its slot; `receive` is
    /// called with each message, and at last with `None`.
    ///
    /// # Errors
    /// Of dup(2), epoll_ctl(2).
    pub fn new(
        node: &Node,
        slot: u16,
        socket: OwnedFd,
        receive: impl Fn(&Arc<Self>, Received<'_>) + Send + 'static,
    ) -> Result<Arc<Self>> {
        let link = Arc::new_cyclic(|itself| Self {
            slot: AtomicU16::new(slot),
            socket: Socket::new(socket),
            itself: Weak::clone(itself),
            watch: Mutex::default(),
            outbox: Mutex::default(),
            gone: AtomicBool::new(false),
            calls: Mutex::default(),
            answered: Condvar::new(),
        });
        let weak = Arc::downgrade(&link);
        let mut buffer = vec![0; LONGEST];
        let watch = node.watch(link.socket.as_fd(), Interest::Read, move |ready| {
            if let Some(link) = weak.upgrade() {
                link.serve(ready, &mut buffer, &receive);
            }
        })?;
        *link.watch.lock() = Some(watch);
        Ok(link)
    }

    /// The slot of the process at the other end.
    pub fn slot(&self) -> u16 {
        self.slot.load(SeqCst)
    }

    /// The other end has sent its slot.
    pub fn is_of(&self, slot: u16) {
        self.slot.store(slot, SeqCst);
    }

    /// Whether the other process has gone.
    pub fn is_gone(&self) -> bool {
        self.gone.load(SeqCst)
    }

    /// Sends a message that must arrive: as soon as that is possible.
    pub fn send(&self, message: &Message<'_>) {
        self.send_in_turn(message, None);
    }

    /// Sends a message that must arrive, with descriptors.
    pub fn send_with(&self, message: &Message<'_>, descriptors: &Descriptors) {
        self.send_in_turn(message, Some(Arc::clone(descriptors)));
    }

    fn send_in_turn(&self, message: &Message<'_>, descriptors: Option<Descriptors>) {
        let bytes = message.emit();
        let mut outbox = self.outbox.lock();
        let is_first = outbox.is_empty();
        outbox.push(Waiting { bytes, descriptors });
        if is_first {
            self.send_all(&mut outbox);
        }
    }

    /// Sends a message that may be lost: dropped if there is no room.
    pub fn send_or_drop(&self, message: &Message<'_>) {
        if self.outbox.lock().is_empty() {
            let bytes = message.emit();
            let _ = self.try_send(&Waiting {
                bytes,
                descriptors: None,
            });
        }
    }

    /// Sends the messages of the outbox; sees to it that those follow that have to wait.
    fn send_all(&self, outbox: &mut Outbox) {
        let need = outbox.send(|message| self.try_send(message));
        let watched = self.watch_room(outbox, need == Some(Need::Room));
        let is_later = match need {
            None => true,
            Some(Need::Room) => watched || self.send_later(outbox),
            Some(Need::Memory) => self.send_later(outbox),
        };
        if !is_later {
            // The progress thread tries all the time, because the socket has room.
            self.watch_room(outbox, true);
        }
    }

    /// Has the progress thread look for room, or not. Returns whether it does as it should.
    fn watch_room(&self, outbox: &mut Outbox, wanted: bool) -> bool {
        if outbox.watches_room == wanted {
            return true;
        }
        let interest = if wanted {
            Interest::Both
        } else {
            Interest::Read
        };
        let watch = self.watch.lock();
        let done = watch
            .as_ref()
            .is_some_and(|watch| watch.set_interest(interest).is_ok());
        if done {
            outbox.watches_room = wanted;
        }
        done
    }

    /// Has a thread try again after a while. Returns whether there is one.
    fn send_later(&self, outbox: &mut Outbox) -> bool {
        if !outbox.tries_later {
            let itself = Weak::clone(&self.itself);
            let started = threads::spawn("uroce-xrc", move || try_again(&itself));
            outbox.tries_later = started.is_ok();
        }
        outbox.tries_later
    }

    fn try_send(&self, message: &Waiting) -> Result<()> {
        let shared = message.descriptors.iter();
        let shared: Vec<_> = shared.flat_map(|all| all.iter().map(AsFd::as_fd)).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !shared.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&shared)) {
            return Err(Errno::INVAL);
        }
        let parts = [IoSlice::new(&message.bytes)];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            match net::sendmsg(&self.socket, &parts, &mut control, flags) {
                Err(SystemErrno::INTR) => {}
                sent => return Ok(sent.map(|_| ())?),
            }
        }
    }

    /// The next message's bytes, and its descriptors.
    fn take(&self, buffer: &mut [u8]) -> rustix::io::Result<(usize, Vec<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let parts = &mut [IoSliceMut::new(buffer)];
        let got = net::recvmsg(&self.socket, parts, &mut control, flags)?;
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = message {
                descriptors.extend(some);
            }
        }
        Ok((got.bytes, descriptors))
    }

    fn serve(
        self: &Arc<Self>,
        ready: Ready,
        buffer: &mut [u8],
        receive: &impl Fn(&Arc<Self>, Received<'_>),
    ) {
        if ready.writable {
            self.send_all(&mut self.outbox.lock());
        }
        for _ in 0..MESSAGES {
            match self.take(buffer) {
                Ok((length, descriptors)) if length > 0 => {
                    let message = buffer.get(..length).and_then(Message::parse);
                    if let Some(message) = message {
                        receive(self, Some((message, descriptors)));
                    }
                }
                // The other end has gone without having read all. Its last messages come next.
                Err(SystemErrno::CONNRESET) => {}
                Err(SystemErrno::AGAIN | SystemErrno::INTR) => return,
                _ => {
                    self.end();
                    receive(self, None);
                    return;
                }
            }
        }
    }

    fn end(&self) {
        self.gone.store(true, SeqCst);
        // The watch ends: this is called by it.
        self.watch.lock().take();
        let mut calls = self.calls.lock();
        for answer in calls.open.values_mut() {
            answer.get_or_insert(Err(Errno(libc::EIO)));
        }
        self.answered.notify_all();
    }

    /// StateRequest, and does not wait for the answer.
    pub fn ask(&self, qpn: u32, call: super::message::Call) {
        let id = self.calls.lock().next();
        self.send(&Message::Call(id, qpn, call));
    }

    /// StateRequest, and waits for the answer until that time. Not to be called in the progress
    /// thread.
    ///
    /// # Errors
    /// The error of the call; EIO if the process ends meanwhile; ETIMEDOUT if it does not answer.
    /// Then it may still execute the call.
    pub fn call(&self, qpn: u32, call: super::message::Call, until: Instant) -> Answer {
        let id = {
            let mut calls = self.calls.lock();
            let id = calls.next();
            calls.open.insert(id, None);
            id
        };
        self.send(&Message::Call(id, qpn, call));
        let mut calls = self.calls.lock();
        loop {
            if let Some(Some(answer)) = calls.open.get(&id) {
                let answer = *answer;
                calls.open.remove(&id);
                return answer;
            }
            if self.is_gone() {
                calls.open.remove(&id);
                return Err(Errno(libc::EIO));
            }
            let late;
            (calls, late) = self.answered.wait_until(calls, until);
            if late && matches!(calls.open.get(&id), Some(None)) {
                calls.open.remove(&id);
                return Err(Errno(libc::ETIMEDOUT));
            }
        }
    }

    /// The answer to a call.
    pub fn answer(&self, id: u64, code: i32, attr: Option<ibv_qp_attr>) {
        let mut calls = self.calls.lock();
        if let Some(open) = calls.open.get_mut(&id) {
            *open = Some(match code {
                0 => Ok(attr),
                code => Err(Errno(code)),
            });
            self.answered.notify_all();
        }
    }
}

/// Tries to send what the kernel had no memory for, until it waits for nothing or for room.
fn try_again(link: &Weak<Link>) {
    loop {
        kit::sys::sched::sleep(AGAIN);
        let Some(link) = link.upgrade() else {
            return;
        };
        let mut outbox = link.outbox.lock();
        link.send_all(&mut outbox);
        if outbox.is_empty() || outbox.watches_room {
            outbox.tries_later = false;
            return;
        }
    }
}
