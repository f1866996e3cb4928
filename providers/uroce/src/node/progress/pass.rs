//! One thread's turn at moving queue pairs along.

use super::batches;
use super::deadlines::{Due, Task};
use crate::carrier::Sender;
use crate::carrier::shm::Peer;
use crate::carrier::udp::Outbox;
use crate::clock;
use crate::cq::Turn;
use crate::node::caller::Caller;
use crate::node::endpoint::{Endpoint, Incoming};
use crate::node::registry::Entry;
use crate::node::transport::Transport;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use uroce_engine::timer::Time;

/// The queue pairs whose sending belongs to a thread. Mostly there is one, which needs no memory.
#[derive(Default)]
struct Held {
    first: Option<u32>,
    others: Vec<u32>,
}

impl Held {
    fn contains(&self, index: u32) -> bool {
        self.first == Some(index) || self.others.contains(&index)
    }

    fn push(&mut self, index: u32) {
        match self.first {
            Some(_) => self.others.push(index),
            None => self.first = Some(index),
        }
    }

    fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.is_empty()
    }

    fn retain(&mut self, mut keeps: impl FnMut(u32) -> bool) {
        self.first = self.first.filter(|index| keeps(*index));
        self.others.retain(|index| keeps(*index));
    }
}

/// Packets go into one outbox for all queue pairs of the turn, and leave at its end.
///
/// Sending for a queue pair belongs to one thread at a time, from taking its packets until they are
/// sent, so that they leave in order. A thread that finds it taken leaves a note, and the other
/// thread continues.
pub(in crate::node) struct Pass<'a> {
    transport: &'a Transport,
    caller: Caller,
    /// Asked for when there is need of it.
    now: Option<Time>,
    outbox: Option<Outbox>,
    held: Held,
    /// Completion events wait until all packets are handed over.
    turn: Option<Turn>,
}

impl<'a> Pass<'a> {
    pub fn new(transport: &'a Transport, caller: Caller) -> Self {
        Self {
            transport,
            caller,
            now: None,
            outbox: None,
            held: Held::default(),
            turn: Some(Turn::begin()),
        }
    }

    /// The same, which begins now.
    pub fn at(self, now: Time) -> Self {
        Self {
            now: Some(now),
            ..self
        }
    }

    /// The time, as long as nothing was done that takes long.
    pub fn now(&mut self) -> Time {
        *self.now.get_or_insert_with(clock::now)
    }

    /// Whether a moment may have come.
    pub fn may_be_past(&self, moment: u64) -> bool {
        match self.now {
            Some(now) => moment <= now.nanos(),
            None => clock::may_have_come(moment),
        }
    }

    fn entry(&self, index: u32) -> Option<&'a Entry> {
        self.transport.table.get(index)
    }

    fn with(&self, index: u32, call: impl FnOnce(&dyn Endpoint)) -> bool {
        let Some(entry) = self.entry(index) else {
            return false;
        };
        let endpoint = entry.endpoint.read();
        let Some(endpoint) = endpoint.as_deref() else {
            return false;
        };
        call(endpoint);
        true
    }

    /// Passes packets to a queue pair of this process, and sends its answers. Returns whether it
    /// exists.
    pub fn deliver(&mut self, index: u32, incoming: &[Incoming<'_>]) -> bool {
        let (now, caller) = (self.now(), self.caller);
        let (mut sends, mut deadline) = (false, None);
        let there = self.with(index, |endpoint| {
            sends = match incoming {
                [one] => endpoint.receive(now, one, caller),
                more => endpoint.receive_batch(now, more, caller),
            };
            if !sends {
                deadline = endpoint.deadline();
            }
        });
        if sends {
            self.transmit(index);
        } else if let Some(deadline) = deadline {
            self.transport.schedule(index, deadline);
        }
        there
    }

    /// There is a link that a queue pair has asked for.
    pub fn linked(&mut self, index: u32, peer: &Arc<Peer>) {
        let now = self.now();
        if self.with(index, |endpoint| endpoint.linked(now, peer)) {
            self.transmit(index);
        }
    }

    /// The peer has used a queue pair's connection without a packet.
    pub fn used(&mut self, index: u32) {
        let now = self.now();
        self.with(index, |endpoint| endpoint.used(now));
    }

    /// Acts on all deadlines that have passed.
    pub fn expire(&mut self) {
        let transport = self.transport;
        while let Some(due) = transport.deadlines.expired(&transport.table, self.now()) {
            match due {
                Due::QueuePair(index) => self.call_on_time(index),
                Due::Task(Task::HeldPackets) => transport.send_held(self.now()),
                // They were tried before this.
                Due::Task(Task::Backlog) => {}
                Due::Task(Task::Rendezvous) => transport.continue_rendezvous(),
                Due::Task(Task::ConnectionManager) => transport.cm.on_time(transport),
                Due::Task(Task::IdleRegions) => transport.unmap_idle_regions(self.now()),
            }
        }
    }

    /// Takes the packets of the queue pairs whose requests wait for others. A poller leaves those
    /// that it does not attend: another may, and can access their memory directly.
    pub fn send_batches(&mut self) {
        self.send_batches_since(u64::MAX);
    }

    /// The same of those that the timer would send soon.
    pub fn send_old_batches(&mut self) {
        let since = self.now().nanos().saturating_sub(batches::OLD);
        self.send_batches_since(since);
    }

    fn send_batches_since(&mut self, since: u64) {
        let caller = self.caller;
        let attends = |entry: &Entry| match caller {
            Caller::Poller(mark) => {
                let endpoint = entry.endpoint.read();
                endpoint
                    .as_deref()
                    .is_none_or(|endpoint| endpoint.is_attended_by(mark))
            }
            Caller::Poster | Caller::Node => true,
        };
        let is_wanted = |entry: &Entry| entry.waits_since.load(SeqCst) <= since && attends(entry);
        let taken = self
            .transport
            .batches
            .take(&self.transport.table, is_wanted);
        for index in taken {
            self.transmit(index);
        }
    }

    fn call_on_time(&mut self, index: u32) {
        let now = self.now();
        if self.with(index, |endpoint| endpoint.on_time(now)) {
            self.transmit(index);
        }
    }

    /// Takes the pending packets of a queue pair.
    pub fn transmit(&mut self, index: u32) {
        let Some(entry) = self.entry(index) else {
            return;
        };
        entry.sends();
        if self.held.contains(index) {
            self.pump(index);
        } else if entry.sending.fetch_add(1, SeqCst) == 0 {
            self.held.push(index);
            self.pump(index);
        }
    }

    /// Takes the pending packets of one queue pair, and sends them.
    pub fn send_for(mut self, index: u32) {
        self.transmit(index);
        self.finish();
    }

    fn pump(&mut self, index: u32) {
        let mut outbox = self
            .outbox
            .take()
            .unwrap_or_else(|| self.transport.outbound.outbox());
        loop {
            let (now, caller) = (self.now(), self.caller);
            let mut deadline = None;
            self.with(index, |endpoint| {
                let mut sender = Sender::new(&mut outbox, self.transport.local());
                endpoint.transmit(now, &mut sender, caller);
                deadline = endpoint.deadline();
            });
            if let Some(deadline) = deadline {
                self.transport.schedule(index, deadline);
            }
            if !outbox.is_full() {
                break;
            }
            self.transport.send(&mut outbox, self.now());
            // Sending takes its time, and timers are set by this.
            self.now = None;
        }
        self.outbox = Some(outbox);
    }

    /// Sends everything, and then reports completion events. The order matters: a program that is
    /// woken by a message may answer at once, by another queue pair, and the answer must not
    /// overtake the acknowledgement. A requester that waits for its own completion first would take
    /// the answer for that (perftest does).
    pub fn finish(mut self) {
        self.send();
        self.turn = None;
        while !self.held.is_empty() {
            self.send();
            let mut held = std::mem::take(&mut self.held);
            held.retain(|index| !self.let_go(index));
            self.held = held;
        }
        if let Some(outbox) = self.outbox.take() {
            self.transport.outbound.put_back(outbox);
        }
        self.transport.pass_bell();
    }

    fn send(&mut self) {
        let now = self.now;
        if let Some(outbox) = &mut self.outbox {
            self.transport.send(outbox, now.unwrap_or_else(clock::now));
        }
    }

    /// Ends sending for a queue pair, unless a thread has requested more.
    fn let_go(&mut self, index: u32) -> bool {
        let Some(entry) = self.entry(index) else {
            return true;
        };
        if entry.sending.compare_exchange(1, 0, SeqCst, SeqCst).is_ok() {
            return true;
        }
        entry.sending.store(1, SeqCst);
        self.now = None;
        self.pump(index);
        false
    }
}
