//! Credits: what a queue pair promises its peer, and what the peer does with it.
//!
//! A message past the protocol ([`super::bypass`]) that finds a receive request is as good as received once
//! it is in the ring: its sender need not wait until the other side has taken it in. So a queue pair shows
//! how many messages it has receive requests for, of those whose memory is known to be good, and its peer
//! tells the success of as many at once, as a card's does whose peer's card has answered.
//!
//! What was promised is kept: before receive requests are flushed or their memory is taken away, the promise
//! is taken back, and all is taken in that was sent by it ([`Core::withdraw`]). A sender looks whether the
//! promise still holds after its message can be seen; who takes it back changes the gate, has everybody
//! pass a barrier ([`kit::sys::barrier`]), and looks for messages then. So a message of which the sender
//! believes that it is received is found by that look.

use super::core::{Core, Inner};
use super::endpoint::INDEX;
use crate::carrier::shm::{Credit, Directory, GateSeen, LATE, Peer};
use crate::clock;
use crate::memory::{Keys, Recent, Remembers, piece};
use kit::abi::ibv_sge;
use kit::sys::barrier;
use std::time::Duration;
use uroce_engine::qp::Service;

/// A peer that has so many left is told of more only when they are more than so few.
const MANY: u32 = 128;
const FEW: u64 = 16;

/// The receiving side: which requests a promise can be given for.
///
/// Requests are numbered as they are posted.
#[derive(Debug)]
pub(super) struct Offer {
    /// The number of the next request that is posted.
    posted: u64,
    /// That of the next one that is used.
    next: u64,
    /// From the first request in doubt to the last: of their memory it is not known whether a message can be
    /// received there. Over when the last has been used.
    doubt: (u64, u64),
    /// The least room of those that are not in doubt.
    room: u32,
    /// Messages that came past the protocol in the life of the connection.
    taken: u32,
    /// What the peer was shown last.
    shown: Option<Credit>,
    /// Until so many requests were posted, what was shown is good enough.
    due: u64,
}

impl Default for Offer {
    fn default() -> Self {
        Self {
            posted: 0,
            next: 0,
            doubt: (0, 0),
            room: u32::MAX,
            taken: 0,
            shown: None,
            due: 0,
        }
    }
}

impl Offer {
    /// A request was posted, which has so much room if its memory is known to be good.
    #[inline]
    fn posted(&mut self, room: Option<u32>) {
        if self.posted == self.next {
            self.room = u32::MAX;
        }
        match room {
            Some(room) => self.room = self.room.min(room),
            None => {
                if !self.doubts() {
                    self.doubt.0 = self.posted;
                }
                self.doubt.1 = self.posted + 1;
            }
        }
        self.posted += 1;
    }

    fn doubts(&self) -> bool {
        self.doubt.1 > self.next
    }

    /// A message came past the protocol, and has used a request.
    #[inline]
    pub fn took(&mut self) {
        self.next += 1;
        self.taken = self.taken.wrapping_add(1);
    }

    /// So many requests are left: the protocol has used others.
    #[inline]
    pub fn remain(&mut self, count: usize) {
        let count = u64::try_from(count).unwrap_or(0);
        self.next = self.posted.saturating_sub(count);
    }

    /// All requests that are there are in doubt from now on.
    fn distrust(&mut self) {
        self.doubt = (self.next, self.posted);
    }

    /// A connection begins.
    pub fn begin(&mut self) {
        self.taken = 0;
    }

    /// Whether the peer is to be shown what there is, for requests were posted: not for each, as long as it has
    /// many left.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.posted >= self.due
    }

    /// Whether the peer is to be shown what there is, for messages came: it may have few left.
    #[inline]
    pub fn runs_low(&self) -> bool {
        self.left() < MANY
    }

    /// Messages that the peer may still send by what it was shown.
    #[inline]
    fn left(&self) -> u32 {
        let left = self
            .shown
            .map_or(0, |shown| shown.limit.wrapping_sub(self.taken));
        if left > u32::MAX / 2 { 0 } else { left }
    }

    /// The peer is shown this.
    fn show(&mut self, credit: Credit) {
        self.shown = Some(credit);
        let more = if self.left() < MANY { 1 } else { FEW };
        self.due = self.posted + more;
    }

    /// What the peer may be shown.
    #[inline]
    fn credit(&self, epoch: u32) -> Credit {
        let good = match self.doubts() {
            true => self.doubt.0.max(self.next),
            false => self.posted,
        };
        // No more than a queue holds.
        let count = u32::try_from(good - self.next).unwrap_or(0);
        Credit {
            limit: self.taken.wrapping_add(count),
            room: self.room,
            epoch,
        }
    }
}

/// Notes a receive request that was posted, with these pieces.
#[inline]
pub(super) fn posted(offer: &mut Offer, keys: &Keys, landing: &mut Recent, sges: &[ibv_sge]) {
    let room = match sges {
        [one] if keys.is_to_receive(piece(one), landing) => Some(one.length),
        _ => None,
    };
    offer.posted(room);
}

/// Messages that may go by credit beyond what the peer is known to have taken in, however many requests it
/// has: after as many, one waits to be told.
const AHEAD: u32 = 480;

/// As many of so many requests. A sender that is faster would otherwise use up all of them, and one more is
/// refused. Who is far ahead also leaves the other side's processor alone, which looks at lines of the ring
/// that are next.
fn ahead_of(requests: u32) -> u32 {
    (requests - requests / 16).clamp(1, AHEAD)
}

/// The sending side: what the peer has promised.
#[derive(Debug, Default)]
pub(super) struct Permit {
    /// Messages past the protocol in the life of the connection.
    sent: u32,
    /// What was read last of what the peer shows; it is good while the gate is that one.
    known: Option<(Credit, GateSeen)>,
    /// Where the last message is in the ring that went by it.
    last: Option<u64>,
    /// Messages that went by it since the peer was known to have taken in all of them.
    ahead: u32,
    /// So many may.
    most: u32,
}

impl Permit {
    /// What is known of the credit may be wrong.
    pub fn doubt(&mut self) {
        self.known = None;
    }

    /// A message went past the protocol.
    #[inline]
    pub fn sent(&mut self) {
        self.sent = self.sent.wrapping_add(1);
    }

    /// It went by credit.
    #[inline]
    pub fn settled(&mut self, position: u64) {
        self.last = Some(position);
        self.ahead += 1;
    }

    /// So many messages came back.
    pub fn refused(&mut self, count: usize) {
        let count = u32::try_from(count).unwrap_or(0);
        self.sent = self.sent.wrapping_sub(count);
        self.doubt();
    }

    /// By which gate a message of so many bytes may go by credit.
    #[inline]
    fn covers(&self, length: u32) -> Option<GateSeen> {
        let (credit, gate) = self.known.as_ref()?;
        (self.left(credit) > 0 && length <= credit.room).then_some(*gate)
    }

    /// Whether the peer may not have taken in yet all that went by credit.
    pub fn is_ahead(&self, peer: &Peer) -> bool {
        self.last.is_some_and(|position| !peer.has_taken(position))
    }

    /// Whether that are so many that the next message is to tell.
    #[inline]
    fn is_far_ahead(&mut self, peer: &Peer) -> bool {
        if self.ahead >= self.most && !self.is_ahead(peer) {
            self.ahead = 0;
        }
        self.ahead > 0 && self.ahead >= self.most
    }

    /// This was read. How many requests the peer has is known while none is used by what is under way.
    fn know(&mut self, credit: Credit, gate: GateSeen, peer: &Peer) {
        self.known = Some((credit, gate));
        if !self.is_ahead(peer) {
            self.ahead = 0;
            self.most = ahead_of(self.left(&credit));
        }
    }

    /// Messages that may still go by this.
    #[inline]
    fn left(&self, credit: &Credit) -> u32 {
        let left = credit.limit.wrapping_sub(self.sent);
        if left > u32::MAX / 2 { 0 } else { left }
    }
}

/// Sending.
impl Core {
    /// By which gate a message of so many bytes may go by credit. One goes so only when the fate of all
    /// before it is known.
    #[inline]
    pub(super) fn permit(&self, inner: &mut Inner, length: u32) -> Option<GateSeen> {
        if inner.bypass.is_busy() {
            return None;
        }
        let peer = inner.peer.as_ref()?;
        if inner.permit.is_far_ahead(peer) {
            return None;
        }
        if let Some(gate) = inner.permit.covers(length) {
            return Some(gate);
        }
        self.read_credit(inner)?;
        inner.permit.covers(length)
    }

    #[inline(never)]
    fn read_credit(&self, inner: &mut Inner) -> Option<()> {
        inner.permit.doubt();
        if !barrier::takes_part() {
            return None;
        }
        let peer = inner.peer.as_ref()?;
        let index = inner.engine.attributes().dest_qp_num & INDEX;
        let (gate, seen) = peer.segment().gate_seen(index)?;
        let generation = self.node().directory()?.generation();
        let ours = gate.peer == self.number && gate.generation == generation;
        if !ours || !gate.credits || gate.awaits_use {
            return None;
        }
        let credit = peer.segment().credit(index)?;
        if inner.bypass.has_epoch(credit.epoch) {
            inner.permit.know(credit, seen, peer);
        }
        Some(())
    }
}

/// Receiving.
impl Core {
    /// Whether a queue pair may promise something: its receive requests are its own, and the kernel has the
    /// barrier by which a promise is taken back.
    pub(super) fn offers(&self, inner: &Inner) -> bool {
        let has_own = inner.withheld == 0 && inner.receives.is_some();
        self.service() == Service::Rc && has_own && barrier::takes_part()
    }

    /// Shows the peer the credit, if that has changed.
    pub(super) fn mind_credit(&self, inner: &mut Inner) {
        if inner.gate.is_some_and(|gate| gate.credits)
            && let Some(directory) = self.node().directory()
        {
            self.show_credit(inner, directory);
        }
    }

    pub(super) fn show_credit(&self, inner: &mut Inner, directory: &Directory) {
        let credit = inner.offer.credit(inner.bypass.expected());
        if inner.offer.shown != Some(credit) {
            inner.offer.show(credit);
            directory.segment().show_credit(self.number & INDEX, credit);
        }
    }

    /// Takes back what the peer was promised, and takes in what was sent by that; what has failed before is
    /// flushed then. Whoever calls it calls [`Core::grant`] later. Not to be called from inside a call of the node, or with a lock held that one
    /// waits for.
    pub(super) fn withdraw(&self) {
        {
            let inner = &mut *self.inner.lock();
            inner.withheld += 1;
            self.mind_gate(inner);
            // So until somebody has taken in all: another thread that has closed the gate may not have yet.
            if !inner.engine.keeps_receives() {
                return;
            }
        }
        if !barrier::shared() {
            // It did before. What was written by then can be seen after a while, too.
            std::thread::sleep(Duration::from_nanos(LATE));
        }
        self.node().take_in_rings();
        let inner = &mut *self.inner.lock();
        let now = clock::now();
        let (engine, mut host) = inner.split(self, now);
        engine.release_receives(&mut host);
        inner.follow(self, now);
    }

    /// There may be promises again.
    pub(super) fn grant(&self) {
        let inner = &mut *self.inner.lock();
        inner.withheld = inner.withheld.saturating_sub(1);
        self.mind_gate(inner);
    }
}

impl Remembers for Core {
    fn forget(&self, key: u32) {
        let is_here = self.node().is_here();
        // In a forked child it may stay locked for good, and nothing is sent.
        let inner = match is_here {
            true => Some(self.inner.lock()),
            false => self.inner.try_lock(),
        };
        let Some(mut inner) = inner else {
            return;
        };
        inner.local.forget(key);
        let lands = inner.landing.forget(key);
        if lands {
            inner.offer.distrust();
        }
        drop(inner);
        if lands && is_here {
            self.withdraw();
            self.grant();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Post(Option<u32>),
        Message,
        Protocol,
        Distrust,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1..100u32).prop_map(|room| Step::Post(Some(room))),
            1 => Just(Step::Post(None)),
            3 => Just(Step::Message),
            1 => Just(Step::Protocol),
            1 => Just(Step::Distrust),
        ]
    }

    proptest! {
        /// No more is promised than there are good requests for, one after the other from the next on, and
        /// no more bytes than each of them has room for.
        #[test]
        fn what_is_promised_can_be_kept(steps in proptest::collection::vec(step(), 0..60)) {
            let mut offer = Offer::default();
            let mut queue = std::collections::VecDeque::new();
            let mut taken = 0;
            for step in steps {
                match step {
                    Step::Post(room) => {
                        offer.posted(room);
                        queue.push_back(room);
                    }
                    Step::Message => {
                        if queue.pop_front().is_some() {
                            offer.took();
                            taken += 1;
                        }
                    }
                    Step::Protocol => {
                        queue.pop_front();
                        offer.remain(queue.len());
                    }
                    Step::Distrust => {
                        offer.distrust();
                        queue.iter_mut().for_each(|room| *room = None);
                    }
                }
                let credit = offer.credit(5);
                let promised = usize::try_from(credit.limit - taken).unwrap_or(usize::MAX);
                prop_assert!(promised <= queue.len());
                for room in queue.iter().take(promised) {
                    prop_assert!(room.is_some_and(|room| room >= credit.room));
                }
                if queue.iter().all(Option::is_some) {
                    prop_assert_eq!(promised, queue.len());
                }
            }
        }
    }

    #[test]
    fn a_sender_leaves_some_of_the_requests() {
        assert_eq!([0, 1, 15, 16].map(ahead_of), [1, 1, 15, 15]);
        assert_eq!([64, 512, u32::MAX].map(ahead_of), [60, AHEAD, AHEAD]);
        let shows = |limit| Credit {
            limit,
            room: 8,
            epoch: 0,
        };
        let permit = Permit {
            sent: 10,
            ..Permit::default()
        };
        assert_eq!(
            [9, 10, 11].map(|limit| permit.left(&shows(limit))),
            [0, 0, 1]
        );
    }

    #[test]
    fn numbers_go_round() {
        let mut permit = Permit::default();
        permit.refused(1);
        assert_eq!(permit.sent, u32::MAX);
        permit.sent();
        assert_eq!(permit.sent, 0);
        let mut offer = Offer {
            taken: u32::MAX,
            ..Offer::default()
        };
        offer.posted(Some(8));
        assert_eq!(offer.credit(0).limit, 0);
        offer.begin();
        assert_eq!(offer.credit(0).limit, 1);
    }
}
