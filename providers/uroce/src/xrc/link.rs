//! A connection between two processes of a domain.

use super::message::Message;
use crate::carrier::udp::Socket;
use crate::node::{Interest, Node, Ready, Watch};
use kit::abi::ibv_qp_attr;
use kit::errno::{Errno, Result};
use kit::sync::{Condvar, Mutex};
use rustix::io::Errno as SystemErrno;
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    self, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::SeqCst};
use std::time::Instant;

/// Bytes of the longest message.
const LONGEST: usize = 16 << 10;
/// Descriptors that go with a message at most.
const MOST: usize = 2;
/// Messages received in a row.
const MESSAGES: usize = 64;

/// The result of a call: attributes, if they were requested.
type Answer = Result<Option<ibv_qp_attr>>;

/// A connection.
pub struct Link {
    /// Of the process at the other end; 0 until it has sent it.
    slot: AtomicU16,
    socket: Socket,
    watch: Mutex<Option<Watch>>,
    /// Messages that there was no room for.
    kept: Mutex<VecDeque<Kept>>,
    gone: AtomicBool,
    calls: Mutex<Calls>,
    answered: Condvar,
}

/// A message that there was no room for, and the descriptors that go along.
struct Kept {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
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
        let link = Arc::new(Self {
            slot: AtomicU16::new(slot),
            socket: Socket::new(socket),
            watch: Mutex::default(),
            kept: Mutex::default(),
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

    /// Sends a message that must arrive: kept if there is no room.
    pub fn send(&self, message: &Message<'_>) {
        self.send_with(message, &[]);
    }

    /// Sends a message that must arrive, with descriptors.
    pub fn send_with(&self, message: &Message<'_>, descriptors: &[BorrowedFd<'_>]) {
        let bytes = message.emit();
        let mut kept = self.kept.lock();
        if kept.is_empty() && self.try_send(&bytes, descriptors) != Err(Errno::AGAIN) {
            return;
        }
        let copies = descriptors.iter().map(|fd| fd.try_clone_to_owned());
        let Ok(descriptors) = copies.collect() else {
            // Without free descriptors, the other end works without those that it cannot get.
            return;
        };
        kept.push_back(Kept { bytes, descriptors });
        self.watch_for(Interest::Both);
    }

    /// Sends a message that may be lost: dropped if there is no room.
    pub fn send_or_drop(&self, message: &Message<'_>) {
        if self.kept.lock().is_empty() {
            let _ = self.try_send(&message.emit(), &[]);
        }
    }

    fn try_send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Errno::INVAL);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            match net::sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, flags) {
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

    fn watch_for(&self, interest: Interest) {
        if let Some(watch) = &*self.watch.lock() {
            // A kept message would wait for the next one; there is no better way.
            let _ = watch.set_interest(interest);
        }
    }

    fn serve(
        self: &Arc<Self>,
        ready: Ready,
        buffer: &mut [u8],
        receive: &impl Fn(&Arc<Self>, Received<'_>),
    ) {
        if ready.writable {
            self.send_kept();
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

    fn send_kept(&self) {
        let mut kept = self.kept.lock();
        while let Some(Kept { bytes, descriptors }) = kept.front() {
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            if self.try_send(bytes, &descriptors) == Err(Errno::AGAIN) {
                return;
            }
            kept.pop_front();
        }
        self.watch_for(Interest::Read);
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
