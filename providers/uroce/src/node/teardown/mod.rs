//! The end of a queue pair, of a device, and of a program: packets that have come still count, and
//! peers get the answers that they wait for.
//!
//! A card has taken in a packet when it comes. Here one may lie in a socket while a program, which
//! learned by other means that its peer is done, ends the connection: the acknowledgement among
//! them.
//!
//! | step | action | bound |
//! | --- | --- | --- |
//! | flush | processes received packets, sends pending ones, waits until rings have room for them |
//! 200 ms |
//! | await acknowledgements | waits for answers to the queue pair's requests, unless a timeout, a gap or RNR showed that they may not come: a peer of this device delays an acknowledgement until its progress thread checks again | 24 ms |
//! | leave | later packets go to other processes; processes those that have arrived | 1024 looks |
//! | drain | waits until other processes have taken the packets that arrived here for them | 200 ms; 20 ms at exit |
//! | exit | the progress thread sends the pending packets of all queue pairs, and waits for other threads that send | 20 ms |
//!
//! After a wait in vain no thread waits again for a second. A process that is killed, or ends by
//! _exit(2), does none of this.
//!
//! *Locks.* None is held during a wait but for the look at the inbox.

use super::caller::Caller;
use super::endpoint::Endpoint;
use super::inbound::inbox::Inbox;
use super::inbound::rings::WHOLE;
use super::inbound::sources::Look;
use super::progress::alarm::Alarm;
use super::progress::idle_backoff::LONG_BACKOFF;
use super::progress::pass::Pass;
use super::progress::poll::Progress;
use super::transport::Transport;
use kit::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// How long a peer is waited for that takes nothing.
pub const ROOM: Duration = Duration::from_millis(200);
/// How long acknowledgements are waited for: some times as long as a peer of ours may keep them
/// back, which is until its progress thread has ended a backoff.
const ANSWERS: Duration = Duration::from_nanos(3 * LONG_BACKOFF);
/// Time without further waits after a wait in vain.
const VAIN: Duration = Duration::from_secs(1);
/// How long an exiting program waits for pending packets, and how often it checks.
const EXIT: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_micros(20);
/// Checks in a row for the packets that have arrived, when the node goes.
const REST: u32 = 1024;
/// Checks in a row: more packets may come than any caller waits for.
const LOOKS: u32 = 8;

/// Waiting for a peer that may be gone: one wait in vain is the last for a while.
struct Wait {
    patience: Duration,
    in_vain: Mutex<Option<Instant>>,
}

impl Wait {
    fn new(patience: Duration) -> Self {
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

/// The waits of queue pairs that go, and of a program that exits.
pub struct Teardown {
    /// For room in a peer's ring.
    room: Wait,
    /// For a peer's acknowledgements.
    answers: Wait,
    /// The program exits, and waits for the progress thread to send pending packets.
    exits: AtomicBool,
}

impl Teardown {
    pub fn new() -> Self {
        Self {
            room: Wait::new(ROOM),
            answers: Wait::new(ANSWERS),
            exits: AtomicBool::new(false),
        }
    }

    /// Processes received packets, sends the pending packets of a queue pair, and makes sure that
    /// they have left.
    pub fn flush(&self, progress: &Progress, index: u32) {
        let transport = &progress.transport;
        take_in(progress);
        hurry(transport, index);
        progress.send_out(index);
        let room = || ask(transport, index, |endpoint| endpoint.waits_for_room());
        self.room.wait(room, || {
            take_in_rings(progress, LOOKS);
            progress.send_out(index);
        });
    }

    /// Waits a moment for the acknowledgements of a queue pair's requests.
    pub fn await_acknowledgements(&self, progress: &Progress, index: u32) {
        let transport = &progress.transport;
        let answers = || ask(transport, index, |endpoint| endpoint.expects_answers());
        self.answers.wait(answers, || take_in(progress));
    }

    /// As [`Teardown::await_acknowledgements`], however long that takes.
    #[cfg(test)]
    pub fn await_all_acknowledgements(progress: &Progress, index: u32) {
        while ask(&progress.transport, index, |endpoint| {
            endpoint.expects_answers()
        }) {
            std::thread::yield_now();
            take_in(progress);
        }
    }

    /// The program exits, with queue pairs that it did not destroy: makes sure that their pending
    /// packets are sent. The progress thread does it, because a signal handler that calls exit(3)
    /// may have interrupted a thread that holds a lock.
    pub fn exits(&self, alarm: &Alarm) {
        if alarm.is_progress_thread() {
            return;
        }
        self.exits.store(true, SeqCst);
        alarm.kick();
        let began = Instant::now();
        while self.exits.load(SeqCst) && began.elapsed() < EXIT {
            kit::sys::sched::sleep(LOOK);
        }
    }

    /// Executes the work that [`Teardown::exits`] waits for.
    pub fn serve_exit(&self, progress: &Progress) {
        if !self.exits.load(SeqCst) {
            return;
        }
        let transport = &progress.transport;
        let mut pass = Pass::new(transport, Caller::Node);
        for index in transport.table.indices() {
            if hurry(transport, index) {
                pass.transmit(index);
            }
        }
        pass.finish();
        // After those: the interrupted thread may hold the lock of the list.
        progress.send_batches(Caller::Node);
        transport.cm.exits(transport);
        await_senders(transport);
        drain(progress, EXIT);
        self.exits.store(false, SeqCst);
    }
}

/// Lets a queue pair send its delayed packets. Returns whether there are any.
fn hurry(transport: &Transport, index: u32) -> bool {
    ask(transport, index, |endpoint| endpoint.hurry())
}

/// The result of a question to a queue pair; `false` if it does not exist.
fn ask(transport: &Transport, index: u32, question: impl FnOnce(&dyn Endpoint) -> bool) -> bool {
    let Some(entry) = transport.table.get(index) else {
        return false;
    };
    entry.endpoint.read().as_deref().is_some_and(question)
}

/// Waits for threads that send: threads that posted meanwhile have left their packets to them. But
/// one of them may be the one that exits.
fn await_senders(transport: &Transport) {
    let table = &transport.table;
    let began = Instant::now();
    for entry in table.indices().filter_map(|index| table.get(index)) {
        while entry.is_sending() && began.elapsed() < EXIT {
            std::thread::yield_now();
        }
    }
}

/// The node goes: later packets go to other processes, and those that have arrived for them are
/// forwarded. So long at most it waits until they are taken.
pub fn leave(progress: &Progress, patience: Duration) {
    progress.transport.sockets().leave();
    look(progress, REST, |inbox| {
        progress.advance(inbox, Look::Everywhere, Caller::Node)
    });
    drain(progress, patience);
}

/// Waits until other processes have taken their packets, so long at most.
fn drain(progress: &Progress, patience: Duration) {
    let began = Instant::now();
    let keeps_packets = || progress.inbox.lock().keeps_packets(progress.sorter.slot());
    while keeps_packets() && began.elapsed() < patience {
        kit::sys::sched::sleep(LOOK);
    }
}

fn take_in(progress: &Progress) {
    look(progress, LOOKS, |inbox| {
        progress.advance(inbox, Look::Everywhere, Caller::Node)
    });
}

fn take_in_rings(progress: &Progress, looks: u32) {
    look(progress, looks, |inbox| {
        inbox.take_in_rings(&progress.transport, Caller::Node)
    });
}

/// Receives everything that is in the rings now. Later records may be left.
pub fn take_in_all_rings(progress: &Progress) {
    take_in_rings(progress, WHOLE);
}

/// Looks as long as something is found, no oftener than so many times.
fn look(progress: &Progress, looks: u32, mut at: impl FnMut(&mut Inbox) -> bool) {
    let mut inbox = progress.inbox.lock();
    for _ in 0..looks {
        if !at(&mut inbox) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn after_a_wait_in_vain_there_is_none_for_a_while() {
        let wait = Wait::new(Duration::ZERO);
        let looks = Cell::new(0);
        let look = || looks.set(looks.get() + 1);
        wait.wait(|| false, look);
        assert_eq!(looks.get(), 0);
        wait.wait(|| true, look);
        assert!(wait.was_in_vain());
        let before = looks.get();
        wait.wait(|| true, look);
        assert_eq!(looks.get(), before);
    }

    #[test]
    fn an_arrival_ends_the_wait() {
        let wait = Wait::new(Duration::from_secs(600));
        let looks = Cell::new(0);
        wait.wait(|| looks.get() < 3, || looks.set(looks.get() + 1));
        assert_eq!(looks.get(), 3);
        assert!(!wait.was_in_vain());
    }
}
