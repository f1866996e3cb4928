//! A connection between two processes of a domain.

use super::words::Word;
use crate::carrier::udp::Socket;
use crate::node::{Interest, Node, Ready, Watch};
use kit::abi::ibv_qp_attr;
use kit::errno::{Errno, Result};
use parking_lot::{Condvar, Mutex};
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

/// Bytes of the longest word.
const LONGEST: usize = 16 << 10;
/// Descriptors that go with a word at most.
const MOST: usize = 2;
/// Words taken in at once.
const WORDS: usize = 64;

/// What a call was answered: attributes, if they were asked for.
type Answer = Result<Option<ibv_qp_attr>>;

/// A connection.
pub struct Link {
    /// Of the process at the other end; 0 until it has said.
    slot: AtomicU16,
    socket: Socket,
    watch: Mutex<Option<Watch>>,
    /// Words that there was no room for.
    kept: Mutex<VecDeque<Kept>>,
    gone: AtomicBool,
    calls: Mutex<Calls>,
    answered: Condvar,
}

/// A word that there was no room for, and the descriptors that go along.
struct Kept {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// What was heard: a word with descriptors, or at last nothing.
pub type Heard<'a> = Option<(Word<'a>, Vec<OwnedFd>)>;

#[derive(Default)]
struct Calls {
    last: u64,
    /// Calls under way, and their answers when they have come.
    open: HashMap<u64, Option<Answer>>,
}

impl Link {
    /// A connection to the process of a slot, or of one that has not said; `hear` is called with all
    /// that is said, and at last with `None`.
    ///
    /// # Errors
    /// Of dup(2), epoll_ctl(2).
    pub fn new(
        node: &Node,
        slot: u16,
        socket: OwnedFd,
        hear: impl Fn(&Arc<Self>, Heard<'_>) + Send + 'static,
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
                link.serve(ready, &mut buffer, &hear);
            }
        })?;
        *link.watch.lock() = Some(watch);
        Ok(link)
    }

    /// Whose it is.
    pub fn slot(&self) -> u16 {
        self.slot.load(SeqCst)
    }

    /// The other end has said whose it is.
    pub fn is_of(&self, slot: u16) {
        self.slot.store(slot, SeqCst);
    }

    /// Whether the other process has gone.
    pub fn is_gone(&self) -> bool {
        self.gone.load(SeqCst)
    }

    /// Says something that must arrive: kept if there is no room.
    pub fn say(&self, word: &Word<'_>) {
        self.hand(word, &[]);
    }

    /// Says something that must arrive, and hands descriptors over.
    pub fn hand(&self, word: &Word<'_>, descriptors: &[BorrowedFd<'_>]) {
        let bytes = word.emit();
        let mut kept = self.kept.lock();
        if kept.is_empty() && self.send(&bytes, descriptors) != Err(Errno::AGAIN) {
            return;
        }
        let copies = descriptors.iter().map(|fd| fd.try_clone_to_owned());
        let Ok(descriptors) = copies.collect() else {
            // Without descriptors left, the other end does without what it cannot have.
            return;
        };
        kept.push_back(Kept { bytes, descriptors });
        self.watch_for(Interest::Both);
    }

    /// Says something that may be lost: dropped if there is no room.
    pub fn offer(&self, word: &Word<'_>) {
        if self.kept.lock().is_empty() {
            let _ = self.send(&word.emit(), &[]);
        }
    }

    fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
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

    /// The next word's bytes, and what came along.
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
            // What is kept would wait for the next word; there is no better way.
            let _ = watch.set_interest(interest);
        }
    }

    fn serve(
        self: &Arc<Self>,
        ready: Ready,
        buffer: &mut [u8],
        hear: &impl Fn(&Arc<Self>, Heard<'_>),
    ) {
        if ready.writable {
            self.send_kept();
        }
        for _ in 0..WORDS {
            match self.take(buffer) {
                Ok((length, descriptors)) if length > 0 => {
                    let word = buffer.get(..length).and_then(Word::parse);
                    if let Some(word) = word {
                        hear(self, Some((word, descriptors)));
                    }
                }
                // The other end has gone without having read all. What it had said comes next.
                Err(SystemErrno::CONNRESET) => {}
                Err(SystemErrno::AGAIN | SystemErrno::INTR) => return,
                _ => {
                    self.end();
                    hear(self, None);
                    return;
                }
            }
        }
    }

    fn send_kept(&self) {
        let mut kept = self.kept.lock();
        while let Some(Kept { bytes, descriptors }) = kept.front() {
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            if self.send(bytes, &descriptors) == Err(Errno::AGAIN) {
                return;
            }
            kept.pop_front();
        }
        self.watch_for(Interest::Read);
    }

    fn end(&self) {
        self.gone.store(true, SeqCst);
        // Nobody listens any more: this is called by what listens.
        self.watch.lock().take();
        let mut calls = self.calls.lock();
        for answer in calls.open.values_mut() {
            answer.get_or_insert(Err(Errno(libc::EIO)));
        }
        self.answered.notify_all();
    }

    /// Asks, and waits for the answer. Not to be called in the helper thread.
    ///
    /// # Errors
    /// What is answered; EIO if the process ends meanwhile.
    pub fn call(&self, qpn: u32, call: super::words::Call) -> Answer {
        let id = {
            let mut calls = self.calls.lock();
            calls.last += 1;
            let id = calls.last;
            calls.open.insert(id, None);
            id
        };
        self.say(&Word::Call(id, qpn, call));
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
            self.answered.wait(&mut calls);
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
