//! The side of a descriptor that events are written to.

use super::pipe::{Kind, Pipe, Record, Writer};
use crate::threads;
use kit::abi::*;
use kit::errno::Result;
use kit::provider::Token;
use kit::sync::Mutex;
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Writes event records to a descriptor that the application reads, and knows how many it was
/// handed of each object.
///
/// Writing never waits. Records that the pipe has no room for are kept, in order, and follow when
/// the application has read others: a thread that exists only as long as there are such records
/// sees to it.
pub struct Records(Arc<SharedRecords>);

struct SharedRecords {
    pipe: Pipe,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Records that there was no room for.
    kept: VecDeque<Event>,
    /// Records of each object that were written or kept and not taken back.
    reported: HashMap<Token, u32>,
    /// Whether a thread sends the kept records.
    sending: bool,
}

/// A record, and the object that it is about, if it is not a port or the device.
#[derive(Clone, Copy)]
struct Event {
    record: Record,
    token: Option<Token>,
}

impl Records {
    /// A descriptor for the application, and its writer.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    pub fn new(kind: Kind) -> Result<(Self, OwnedFd)> {
        let (pipe, descriptor) = Pipe::new(kind)?;
        let state = Mutex::default();
        Ok((Self(Arc::new(SharedRecords { pipe, state })), descriptor))
    }

    /// A completion event of a queue.
    pub fn completion(&self, queue: Token) {
        self.report(&queue.0.to_ne_bytes(), Some(queue));
    }

    /// An asynchronous event of an object.
    pub fn asynchronous(&self, event: ibv_event_type, object: Token) {
        self.report(&asynchronous(event, object.0), Some(object));
    }

    /// An asynchronous event of a port, or of the device (port 0).
    pub fn port(&self, event: ibv_event_type, port: u8) {
        self.report(&asynchronous(event, u64::from(port)), None);
    }

    fn report(&self, bytes: &[u8], token: Option<Token>) {
        let Some(record) = Record::new(bytes) else {
            return;
        };
        let mut state = self.0.state.lock();
        if let Some(token) = token {
            let reported = state.reported.entry(token).or_default();
            *reported = reported.wrapping_add(1);
        }
        state.kept.push_back(Event { record, token });
        self.0.send_kept(&mut state);
        self.see_to_the_rest(&mut state);
    }

    /// An object is destroyed: takes back its unread events; returns how many the application has
    /// read.
    pub fn take_back(&self, token: Token) -> u32 {
        let mut state = self.0.state.lock();
        let Some(reported) = state.reported.remove(&token) else {
            return 0;
        };
        let unread = self.0.unread(&state.kept);
        let all = unread.len();
        state.kept = unread;
        state.kept.retain(|event| event.token != Some(token));
        let taken = u32::try_from(all - state.kept.len()).unwrap_or(u32::MAX);
        self.0.send_kept(&mut state);
        self.see_to_the_rest(&mut state);
        reported.wrapping_sub(taken)
    }

    /// Starts a thread for the records that did not fit.
    fn see_to_the_rest(&self, state: &mut State) {
        if state.kept.is_empty() || state.sending {
            return;
        }
        let writer = self.0.pipe.writer();
        let inner = Arc::downgrade(&self.0);
        // Without a thread the next event tries again.
        state.sending = threads::spawn("uroce-events", move || send_later(&inner, &writer)).is_ok();
    }
}

impl SharedRecords {
    fn send_kept(&self, state: &mut State) {
        while let Some(first) = state.kept.front() {
            if !self.pipe.send(&first.record) {
                return;
            }
            state.kept.pop_front();
        }
    }

    /// All unread events, in order: those in the pipe, then those kept.
    fn unread(&self, kept: &VecDeque<Event>) -> VecDeque<Event> {
        let mut unread = VecDeque::new();
        while let Some(record) = self.pipe.take() {
            let token = object_of(&record);
            unread.push_back(Event { record, token });
        }
        unread.extend(kept);
        unread
    }
}

fn send_later(inner: &Weak<SharedRecords>, writer: &Writer) {
    loop {
        if writer.wait().is_err() {
            // No memory for the kernel to wait with.
            kit::sys::sched::sleep(Duration::from_millis(10));
        }
        let Some(inner) = inner.upgrade() else {
            return;
        };
        let mut state = inner.state.lock();
        inner.send_kept(&mut state);
        if state.kept.is_empty() {
            state.sending = false;
            return;
        }
    }
}

/// `struct ib_uverbs_async_event_desc`.
fn asynchronous(event: ibv_event_type, element: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    let (object, rest) = bytes.split_at_mut(8);
    object.copy_from_slice(&element.to_ne_bytes());
    if let Some(kind) = rest.first_chunk_mut::<4>() {
        *kind = event.to_ne_bytes();
    }
    bytes
}

/// The object that a record is about.
fn object_of(record: &Record) -> Option<Token> {
    let (object, rest) = record.bytes().split_first_chunk::<8>()?;
    if let Some(event) = rest.first_chunk::<4>()
        && is_of_port(ibv_event_type::from_ne_bytes(*event))
    {
        return None;
    }
    Some(Token(u64::from_ne_bytes(*object)))
}

fn is_of_port(event: ibv_event_type) -> bool {
    matches!(
        event,
        IBV_EVENT_DEVICE_FATAL
            | IBV_EVENT_PORT_ACTIVE
            | IBV_EVENT_PORT_ERR
            | IBV_EVENT_LID_CHANGE
            | IBV_EVENT_PKEY_CHANGE
            | IBV_EVENT_SM_CHANGE
            | IBV_EVENT_CLIENT_REREGISTER
            | IBV_EVENT_GID_CHANGE
    )
}
