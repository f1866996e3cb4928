//! Credits: how many messages a peer may complete as soon as they are in the ring.
//!
//! A message of the fast path that finds a receive request counts as received once it is in the
//! ring: its sender need not wait until the other side has consumed it. So a queue pair publishes
//! the number of messages for which it has receive requests with valid memory, and its peer
//! completes as many requests at once, like a card whose peer's card has acknowledged.
//!
//! [`CreditGrant`] is the receiving side: it owns the count of receive requests for which a grant
//! can be kept. [`CreditWindow`] is the sending side: it owns the last value read of the peer's
//! grant, and how far the sender is ahead of the receiver.
//!
//! *Invariants.* A grant is kept: it covers consecutive receive requests from the next one on, each
//! with at least the room that is shown. Requests of unknown memory end the grant until they are
//! used. Before receive requests are flushed or their memory is taken away, the grant is revoked,
//! and all messages that were sent by it are taken in ([`super::super::QpState`]'s
//! `revoke_credits`).
//!
//! *Order between processes.* A sender checks that the gate still holds after its message is
//! visible. A receiver that revokes a grant changes the gate, makes all threads pass a barrier
//! ([`kit::sys::barrier`]), and then checks for messages. So that check finds each message whose
//! sender has reported it as received.
//!
//! *Tests.* Here: a model of the receive queue shows that each grant can be kept; counters wrap.
//! `providers/uroce/tests/credits.rs` does the same between processes.

use crate::carrier::shm::{Credit, GateSeen, Peer};
use crate::memory::{Keys, MrCache, piece};
use kit::abi::ibv_sge;

/// A peer that has so many left is shown more only when they are more than so few.
const MANY: u32 = 128;
const FEW: u64 = 16;

/// The receiving side: for which receive requests a grant can be kept.
///
/// Requests are numbered as they are posted.
#[derive(Debug)]
pub(super) struct CreditGrant {
    /// The number of the next request that is posted.
    posted: u64,
    /// That of the next one that is used.
    next: u64,
    /// From the first request in doubt to the last: of their memory it is not known whether a
    /// message can be received there. Over when the last has been used.
    doubt: (u64, u64),
    /// The least room of those that are not in doubt.
    room: u32,
    /// Messages that came by the fast path in the life of the connection.
    taken: u32,
    /// The last published value.
    shown: Option<Credit>,
    /// Number of posted requests up to which the published value suffices.
    due: u64,
}

impl Default for CreditGrant {
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

impl CreditGrant {
    /// A request was posted, which has so much room if its memory is known to be valid.
    #[inline]
    pub fn posted(&mut self, room: Option<u32>) {
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

    /// A message came by the fast path, and has used a request.
    #[inline]
    pub fn used_one(&mut self) {
        self.next += 1;
        self.taken = self.taken.wrapping_add(1);
    }

    /// That many requests are left: the protocol has used others.
    #[inline]
    pub fn remain(&mut self, count: usize) {
        let count = u64::try_from(count).unwrap_or(0);
        self.next = self.posted.saturating_sub(count);
    }

    /// All requests that are there are in doubt from now on.
    pub fn invalidate(&mut self) {
        self.doubt = (self.next, self.posted);
    }

    /// A connection begins.
    pub fn begin(&mut self) {
        self.taken = 0;
    }

    /// Whether a new value is to be published after posting requests: not for each, as long as the
    /// peer has many left.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.posted >= self.due
    }

    /// Whether a new value is to be published after receiving messages: the peer may have few left.
    #[inline]
    pub fn runs_low(&self) -> bool {
        self.left() < MANY
    }

    /// Messages that the peer may still send by the published value.
    #[inline]
    fn left(&self) -> u32 {
        let left = self
            .shown
            .map_or(0, |shown| shown.limit.wrapping_sub(self.taken));
        if left > u32::MAX / 2 { 0 } else { left }
    }

    /// The peer is shown this.
    pub fn show(&mut self, credit: Credit) {
        self.shown = Some(credit);
        let more = if self.left() < MANY { 1 } else { FEW };
        self.due = self.posted + more;
    }

    /// Whether the peer was shown this last.
    #[inline]
    pub fn shows(&self, credit: &Credit) -> bool {
        self.shown.as_ref() == Some(credit)
    }

    /// The value that may be published.
    #[inline]
    pub fn credit(&self, epoch: u32) -> Credit {
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
pub(super) fn posted(grant: &mut CreditGrant, keys: &Keys, cache: &mut MrCache, sges: &[ibv_sge]) {
    let room = match sges {
        [one] if keys.is_to_receive(piece(one), cache) => Some(one.length),
        _ => None,
    };
    grant.posted(room);
}

/// Messages that may go by credit beyond those that the peer is known to have consumed, however
/// many requests it has: after as many, a message waits for its outcome.
const AHEAD: u32 = 480;

/// The share of so many requests. A faster sender would otherwise use up all of them, and one more
/// is refused. A sender that is far ahead also does not disturb the other side's processor, which
/// reads the next lines of the ring.
fn ahead_of(requests: u32) -> u32 {
    (requests - requests / 16).clamp(1, AHEAD)
}

/// The sending side: the peer's grant.
#[derive(Debug, Default)]
pub(super) struct CreditWindow {
    /// Messages of the fast path in the life of the connection.
    sent: u32,
    /// The last value read of the peer's grant; it is valid while the gate is that one.
    known: Option<(Credit, GateSeen)>,
    /// Where the last message is in the ring that went by it.
    last: Option<u64>,
    /// Messages that went by it since the peer was known to have taken in all of them.
    ahead: u32,
    /// That many may.
    most: u32,
}

impl CreditWindow {
    /// The known credit may be outdated.
    pub fn invalidate(&mut self) {
        self.known = None;
    }

    /// A message took the fast path.
    #[inline]
    pub fn sent(&mut self) {
        self.sent = self.sent.wrapping_add(1);
    }

    /// It went by credit.
    #[inline]
    pub fn completed(&mut self, position: u64) {
        self.last = Some(position);
        self.ahead += 1;
    }

    /// That many messages came back.
    pub fn refused(&mut self, count: usize) {
        let count = u32::try_from(count).unwrap_or(0);
        self.sent = self.sent.wrapping_sub(count);
        self.invalidate();
    }

    /// By which gate a message of that many bytes may go by credit.
    #[inline]
    pub fn covers(&self, length: u32) -> Option<GateSeen> {
        let (credit, gate) = self.known.as_ref()?;
        (self.left(credit) > 0 && length <= credit.room).then_some(*gate)
    }

    /// Whether the peer may not have taken in yet all that went by credit.
    pub fn is_ahead(&self, peer: &Peer) -> bool {
        self.last.is_some_and(|position| !peer.has_taken(position))
    }

    /// Whether there are so many that the next message has to wait for its outcome.
    #[inline]
    pub fn is_far_ahead(&mut self, peer: &Peer) -> bool {
        if self.ahead >= self.most && !self.is_ahead(peer) {
            self.ahead = 0;
        }
        self.ahead > 0 && self.ahead >= self.most
    }

    /// This value was read. The peer's number of requests is known while messages in flight use
    /// none.
    pub fn know(&mut self, credit: Credit, gate: GateSeen, peer: &Peer) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Post(Option<u32>),
        Message,
        Protocol,
        Invalidate,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1..100u32).prop_map(|room| Step::Post(Some(room))),
            1 => Just(Step::Post(None)),
            3 => Just(Step::Message),
            1 => Just(Step::Protocol),
            1 => Just(Step::Invalidate),
        ]
    }

    proptest! {
        /// No more is granted than there are good requests for, one after the other from the next
        /// on, and no more bytes than each of them has room for.
        #[test]
        fn each_grant_can_be_kept(steps in proptest::collection::vec(step(), 0..60)) {
            let mut grant = CreditGrant::default();
            let mut queue = std::collections::VecDeque::new();
            let mut taken = 0;
            for step in steps {
                match step {
                    Step::Post(room) => {
                        grant.posted(room);
                        queue.push_back(room);
                    }
                    Step::Message => {
                        if queue.pop_front().is_some() {
                            grant.used_one();
                            taken += 1;
                        }
                    }
                    Step::Protocol => {
                        queue.pop_front();
                        grant.remain(queue.len());
                    }
                    Step::Invalidate => {
                        grant.invalidate();
                        queue.iter_mut().for_each(|room| *room = None);
                    }
                }
                let credit = grant.credit(5);
                let granted = usize::try_from(credit.limit - taken).unwrap_or(usize::MAX);
                prop_assert!(granted <= queue.len());
                for room in queue.iter().take(granted) {
                    prop_assert!(room.is_some_and(|room| room >= credit.room));
                }
                if queue.iter().all(Option::is_some) {
                    prop_assert_eq!(granted, queue.len());
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
        let window = CreditWindow {
            sent: 10,
            ..CreditWindow::default()
        };
        assert_eq!(
            [9, 10, 11].map(|limit| window.left(&shows(limit))),
            [0, 0, 1]
        );
    }

    #[test]
    fn numbers_go_round() {
        let mut window = CreditWindow::default();
        window.refused(1);
        assert_eq!(window.sent, u32::MAX);
        window.sent();
        assert_eq!(window.sent, 0);
        let mut grant = CreditGrant {
            taken: u32::MAX,
            ..CreditGrant::default()
        };
        grant.posted(Some(8));
        assert_eq!(grant.credit(0).limit, 0);
        grant.begin();
        assert_eq!(grant.credit(0).limit, 1);
    }
}
