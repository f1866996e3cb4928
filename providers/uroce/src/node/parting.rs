//! Queue pairs that go: what has come for them counts, and their peers get the answers that they wait
//! for.
//!
//! A card has taken in a packet when it comes. Here one may lie in a socket while a program, told by other
//! means that its peer has done, ends the connection: the acknowledgement among them. Or that waits a
//! moment, at a peer that is quicker to say so by those means.
//!
//! By the network an answer is on its way once it is sent. In a ring there may be no room for it, and the
//! process may end before there is. Where sides take turns, an acknowledgement waits for the next request.

use super::core::Core;
use super::deliver::{Inbox, Look};
use super::endpoint::Endpoint;
use super::helper::LONG_NAP;
use super::mover::Mover;
use super::rings::WHOLE;
use super::round::Round;
use parking_lot::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// How long a peer is waited for that takes nothing.
pub const ROOM: Duration = Duration::from_millis(200);
/// How long acknowledgements are waited for: some times as long as a peer of ours may keep them back,
/// which is until its helper has ended a nap.
pub const ANSWERS: Duration = Duration::from_nanos(3 * LONG_NAP);
/// How long nobody waits again after a wait in vain.
const VAIN: Duration = Duration::from_secs(1);
/// How long a program that exits waits for what is still to be sent, and how often it looks.
const EXIT: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_micros(20);
/// Looks in a row: more may come than anybody waits for.
const LOOKS: u32 = 8;

/// Waiting for a peer that may be gone: one wait in vain is the last for a while.
pub struct Wait {
    patience: Duration,
    in_vain: Mutex<Option<Instant>>,
}

impl Wait {
    pub fn new(patience: Duration) -> Self {
        Self {
            patience,
            in_vain: Mutex::new(None),
        }
    }

    /// Does something about it while there is something to wait for.
    fn wait(&self, has_to: impl Fn() -> bool, about_it: impl Fn()) {
        if !has_to() || self.was_in_vain() {
            return;
        }
        let began = Instant::now();
        while has_to() {
            if began.elapsed() > self.patience {
                *self.in_vain.lock() = Some(Instant::now());
                return;
            }
            std::thread::yield_now();
            about_it();
        }
    }

    fn was_in_vain(&self) -> bool {
        let in_vain = *self.in_vain.lock();
        in_vain.is_some_and(|since| since.elapsed() < VAIN)
    }
}

impl Core {
    /// Takes in what has come, sends what a queue pair has to send, and sees to it that it has left.
    pub fn see_off(&self, index: u32) {
        self.take_in();
        self.hurry(index);
        self.send_out(index);
        let room = || self.waits_for_room(index);
        self.room.wait(room, || {
            self.take_in_rings();
            self.send_out(index);
        });
    }

    /// Waits a moment for the acknowledgements of what a queue pair has sent.
    pub fn hear_out(&self, index: u32) {
        let answers = || self.ask(index, |endpoint| endpoint.expects_answers());
        self.answers.wait(answers, || self.take_in());
    }

    /// What a queue pair holds back is to be sent. Answers whether there is such.
    fn hurry(&self, index: u32) -> bool {
        self.ask(index, |endpoint| endpoint.hurry())
    }

    fn waits_for_room(&self, index: u32) -> bool {
        self.ask(index, |endpoint| endpoint.waits_for_room())
    }

    /// What a queue pair answers; `false` if there is none.
    fn ask(&self, index: u32, question: impl FnOnce(&dyn Endpoint) -> bool) -> bool {
        let Some(entry) = self.table.get(index) else {
            return false;
        };
        entry.endpoint.read().as_deref().is_some_and(question)
    }

    /// The program exits, with queue pairs that it did not destroy: sees to it that what they hold back
    /// is sent. The helper does it, since a signal handler that calls exit(3) may have interrupted
    /// whoever holds a lock.
    pub fn exits(&self) {
        if self.alarm.is_helper() {
            return;
        }
        self.exits.store(true, SeqCst);
        self.alarm.kick();
        let began = Instant::now();
        while self.exits.load(SeqCst) && began.elapsed() < EXIT {
            std::thread::sleep(LOOK);
        }
    }

    /// Does what [`Core::exits`] waits for.
    pub fn serve_exit(&self) {
        if !self.exits.load(SeqCst) {
            return;
        }
        let mut round = Round::new(self, Mover::Node);
        for index in self.table.indices() {
            if self.hurry(index) {
                round.transmit(index);
            }
        }
        round.finish();
        self.await_senders();
        self.hand_out(EXIT);
        self.exits.store(false, SeqCst);
    }

    /// Waits for threads that send: who posted meanwhile has left that to them. But one of them may be the one
    /// that exits.
    fn await_senders(&self) {
        let began = Instant::now();
        for entry in self
            .table
            .indices()
            .filter_map(|index| self.table.get(index))
        {
            while entry.is_sending() && began.elapsed() < EXIT {
                std::thread::yield_now();
            }
        }
    }

    /// Waits until other processes have taken what came here for them, so long at most.
    pub fn hand_out(&self, patience: Duration) {
        let began = Instant::now();
        while self.inbox.lock().keeps_packets(self) && began.elapsed() < patience {
            std::thread::sleep(LOOK);
        }
    }

    fn take_in(&self) {
        self.look(LOOKS, |inbox| {
            self.advance(inbox, Look::Everywhere, Mover::Node)
        });
    }

    fn take_in_rings(&self) {
        self.look(LOOKS, |inbox| inbox.take_in_rings(self, Mover::Node));
    }

    /// Takes in all that is in rings now. What comes meanwhile may be left.
    pub fn take_in_all_rings(&self) {
        self.look(WHOLE, |inbox| inbox.take_in_rings(self, Mover::Node));
    }

    /// Looks as long as something is found, no oftener than so many times.
    fn look(&self, looks: u32, mut at: impl FnMut(&mut Inbox) -> bool) {
        let mut inbox = self.inbox.lock();
        for _ in 0..looks {
            if !at(&mut inbox) {
                return;
            }
        }
    }
}
