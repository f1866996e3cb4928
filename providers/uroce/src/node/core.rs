//! The parts of a node, shared with its helper thread.

use super::backlog::BACKLOG;
use super::courtesy::Courtesy;
use super::deliver::{Inbox, Look};
use super::failing::Failing;
use super::groups::Groups;
use super::habits::Habits;
use super::helper::{self, Alarm};
use super::inherited::Inherited;
use super::mover::Mover;
use super::parting::{self, Wait};
use super::peers::Stalls;
use super::rings::Lazy;
use super::round::Round;
use super::table::{Entry, NEVER, Table};
use super::timers::Timers;
use super::watch::Watches;
use crate::carrier::shm::{Carrier, Directory, complain};
use crate::carrier::udp::faults::BadNetwork;
use crate::carrier::udp::outbox::{Counters, Outbox, send_packet};
use crate::carrier::udp::{Heirs, Slot, Sockets, Tools, Ways, slot};
use crate::clock;
use kit::errno::{Errno, Result};
use kit::sys::lock::Lock;
use kit::sys::per_process::PerProcess;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use uroce_engine::timer::Time;

/// Outboxes kept for the next sender.
const SPARE: usize = 4;

/// Something of its own address in every process, forked children included. Not of size 0, since
/// such things share addresses.
#[derive(Default)]
struct Mark {
    _byte: u8,
}

static MARK: PerProcess<Mark> = PerProcess::new();

pub(super) struct Core {
    mark: &'static Mark,
    pub slot: Slot,
    pub ways: Arc<Ways>,
    /// To this host's addresses nothing but shared memory leads.
    only_local: bool,
    /// Processes of this host that can be reached by shared memory; `None` if that is not wanted, or
    /// cannot be had.
    pub directory: Option<Directory>,
    pub table: Table,
    pub timers: Timers,
    pub groups: Groups,
    pub habits: Habits,
    pub watches: Watches,
    pub alarm: Alarm,
    pub inbox: Lock<Inbox>,
    pub heirs: Heirs,
    pub inherited: Inherited,
    pub stalls: Mutex<Stalls>,
    pub counters: Counters,
    outboxes: Mutex<Vec<Outbox>>,
    /// When the timers know that a held packet is due.
    held_until: AtomicU64,
    /// When the timers know that packets that wait for another process are tried again.
    pub backlog_until: AtomicU64,
    /// Waits of queue pairs that go: for room in a peer's ring, for a peer's acknowledgements.
    pub room: Wait,
    pub answers: Wait,
    pub failing: Failing,
    courtesy: Courtesy,
    /// A peer may have a short timeout.
    hasty: AtomicBool,
    /// The program exits, and waits for the helper to send what is held back.
    pub exits: AtomicBool,
}

/// What the timers know the bad network by; no queue pair's index.
const HELD_PACKETS: u32 = u32::MAX;

/// # Errors
/// What [`Directory::open`] answers, if there shall be no other way.
fn open_directory(slot: &Slot, carrier: Carrier) -> Result<Option<Directory>> {
    let open = || Directory::open(slot.number());
    match carrier {
        Carrier::Udp => Ok(None),
        Carrier::Auto => {
            let opened = open().inspect_err(|error| complain("processes of this host", *error));
            Ok(opened.ok())
        }
        Carrier::Shm => open().map(Some),
    }
}

impl Core {
    pub fn open(tools: Tools) -> Result<Self> {
        let slot = Slot::claim()?;
        let sockets = Sockets::open()?;
        let alarm = Alarm::new(&sockets, &slot)?;
        let only_local = tools.carrier == Carrier::Shm;
        let directory = open_directory(&slot, tools.carrier)?;
        for socket in directory.iter().flat_map(Directory::sockets) {
            alarm.add(socket, helper::PEERS)?;
        }
        Ok(Self {
            mark: MARK.get()?,
            slot,
            ways: Arc::new(Ways::new(sockets, tools)),
            only_local,
            directory,
            table: Table::new(),
            timers: Timers::new(),
            groups: Groups::default(),
            habits: Habits::default(),
            watches: Watches::default(),
            alarm,
            inbox: Lock::new(Inbox::new()),
            heirs: Heirs::default(),
            inherited: Inherited::default(),
            stalls: Mutex::default(),
            counters: Counters::default(),
            outboxes: Mutex::new(Vec::new()),
            held_until: AtomicU64::new(NEVER),
            backlog_until: AtomicU64::new(NEVER),
            room: Wait::new(parting::ROOM),
            answers: Wait::new(parting::ANSWERS),
            failing: Failing::default(),
            courtesy: Courtesy::default(),
            hasty: AtomicBool::new(false),
            exits: AtomicBool::new(false),
        })
    }

    /// Whether this is the process that made the node.
    ///
    /// # Errors
    /// ENODEV in a forked child.
    pub fn here(&self) -> Result<()> {
        if std::ptr::eq(MARK.get()?, self.mark) {
            return Ok(());
        }
        Err(Errno::NODEV)
    }

    /// A queue pair, and so perhaps its peer, waits so short a time for acknowledgements that the helper
    /// is to look often.
    pub fn make_haste(&self) {
        self.hasty.store(true, Relaxed);
    }

    pub fn is_hasty(&self) -> bool {
        self.hasty.load(Relaxed)
    }

    /// What a sender has to know of shared memory.
    pub fn local(&self) -> Option<(&Directory, bool)> {
        let directory = self.directory.as_ref()?;
        Some((directory, self.only_local))
    }

    /// The sockets of port 4791.
    pub fn sockets(&self) -> &Sockets {
        self.ways.shared()
    }

    /// The index of a QP number of this process, or of one that it has inherited.
    #[inline]
    pub fn index(&self, qpn: u32) -> Option<u32> {
        let ours = qpn >> 24 == 0 && slot::of(qpn) == self.slot.number();
        if ours {
            return Some(qpn & ((1 << slot::INDEX_BITS) - 1));
        }
        self.inherited.index(qpn)
    }

    pub fn outbox(&self) -> Outbox {
        let spare = self.outboxes.lock().pop();
        spare.unwrap_or_else(|| Outbox::new(Arc::clone(&self.ways)))
    }

    pub fn put_back(&self, outbox: Outbox) {
        let mut outboxes = self.outboxes.lock();
        if outboxes.len() < SPARE {
            outboxes.push(outbox);
        }
    }

    /// Sends what is in an outbox.
    pub fn send(&self, outbox: &mut Outbox, now: Time) {
        outbox.send(now, &self.counters);
        if self.ways.tools().network.is_some() {
            self.mind_held();
        }
    }

    /// Sends what a queue pair has to send, and waits for whoever is sending for it.
    pub fn send_out(&self, index: u32) {
        Round::new(self, Mover::Node).send_for(index);
        while self.table.get(index).is_some_and(Entry::is_sending) {
            std::thread::yield_now();
        }
    }

    pub fn progress(&self, mover: Mover) {
        self.alarm.polled();
        self.serve_failed();
        let Some(mut inbox) = self.inbox.try_lock() else {
            return;
        };
        if inbox.take_in_rings(self, mover) {
            inbox.found(true);
            return;
        }
        if inbox.leaves_sockets() {
            return;
        }
        self.alarm.looked();
        // With rings there, one call tells that all the sockets have nothing.
        let quiet = inbox.is_for_rings() && !clock::may_have_come(self.timers.next());
        let some =
            (!quiet || self.alarm.has_some()) && self.advance(&mut inbox, Look::Worthwhile, mover);
        inbox.found(some);
        if inbox.waits_long() {
            drop(inbox);
            self.courtesy.give_way();
        }
    }

    /// Takes in packets, hands them over, sends the answers, acts on deadlines. Answers whether
    /// there was a packet.
    pub fn advance(&self, inbox: &mut Inbox, look: Look<'_>, mover: Mover) -> bool {
        let mut turn = Lazy::new(self, mover);
        let due = look.is_past(self.timers.next());
        let some = inbox.take_in(self, &mut turn, look);
        if due || turn.may_be_past(self.timers.next()) {
            self.expire(turn.round());
        }
        turn.finish();
        if inbox.has_backlog() {
            self.mind_backlog();
        }
        inbox.take_in_rings(self, mover) || some
    }

    /// Passes a bell on to the helper that another thread has heard, perhaps while it looked for an
    /// answer: that thread may look at no ring any more.
    #[inline]
    pub fn pass_bell(&self) {
        if let Some(directory) = &self.directory
            && directory.take_bell()
            && !self.alarm.is_helper()
        {
            self.alarm.kick();
        }
    }

    fn expire(&self, round: &mut Round<'_>) {
        while let Some((time, index)) = self.timers.expired(round.now()) {
            match index {
                HELD_PACKETS => self.release(round.now()),
                // They were tried before this.
                BACKLOG => self.backlog_until.store(NEVER, SeqCst),
                index => round.expire(time, index),
            }
        }
    }

    /// Sends what the bad network held and has let go.
    fn release(&self, now: Time) {
        self.held_until.store(NEVER, SeqCst);
        let network = self.ways.tools().network.as_ref();
        while let Some(packet) = network.and_then(|network| network.due(now)) {
            send_packet(&self.ways, &packet, &self.counters);
        }
        self.mind_held();
    }

    /// Has the timers know of a deadline that is noted where it belongs.
    pub fn add_deadline(&self, time: u64, index: u32) {
        self.timers.add(time, index, |time, index| match index {
            HELD_PACKETS => self.held_until.load(SeqCst) == time,
            BACKLOG => self.backlog_until.load(SeqCst) == time,
            index => {
                let entry = self.table.get(index);
                entry.is_some_and(|entry| entry.scheduled.load(SeqCst) == time)
            }
        });
    }

    /// Has the timers know of packets that the bad network holds.
    pub fn mind_held(&self) {
        let network = self.ways.tools().network.as_ref();
        if let Some(time) = network.and_then(BadNetwork::next)
            && self.held_until.fetch_min(time, SeqCst) > time
        {
            self.add_deadline(time, HELD_PACKETS);
            self.alarm.deadline(time);
        }
    }
}
