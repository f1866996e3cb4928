//! One process's side of the rendezvous with one peer.
#![forbid(unsafe_code)]

use super::backoff::{Backoff, Random};
use super::{Delivery, PATIENCE};

const MILLISECOND: u64 = 1_000_000;
/// How soon a message that found the socket full is sent again, and the longest interval.
const FULL: [u64; 2] = [MILLISECOND, 128 * MILLISECOND];
/// The same for a message that was delivered and not answered.
const UNANSWERED: [u64; 2] = [250 * MILLISECOND, 8000 * MILLISECOND];
/// The same for looks at the state of an offered link.
const LOOK: [u64; 2] = [16 * MILLISECOND, 256 * MILLISECOND];
/// An offer that was delivered is not repeated sooner, whatever the peer asks.
const REPEAT: u64 = 100 * MILLISECOND;
/// How long nothing is begun after an attempt in vain, unless the peer sends something.
const COOLDOWN: u64 = 1000 * MILLISECOND;

/// No deadline.
const NEVER: u64 = u64::MAX;

/// The role of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has the lower slot, makes the link and offers it.
    Offerer,
    /// It has the higher slot, and joins the link.
    Joiner,
}

impl Role {
    /// The role of the process of a slot towards the process of another.
    #[must_use]
    pub fn of(own: u16, peer: u16) -> Self {
        if own < peer {
            Self::Offerer
        } else {
            Self::Joiner
        }
    }
}

/// A message. The host adds the sender's generation, and descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// From the offerer: send a request.
    Invite,
    /// From the joiner, with its segment: make a link.
    Request,
    /// From the offerer, with its segment and the link.
    Offer {
        /// The generation of the joiner that the link was made for.
        to: u64,
    },
    /// From the joiner: the link was joined.
    Joined,
    /// The sender cannot share a link.
    Reject,
}

/// The state in the link's memory that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// The offerer waits.
    Offered,
    /// Both have the link.
    Joined,
    /// Neither process has it.
    Withdrawn,
}

/// The outcome of joining an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// Both have the link.
    Joined,
    /// The offer was withdrawn before.
    Withdrawn,
    /// Segment or link cannot be mapped here, or are invalid.
    Failed,
}

/// Actions that a session requests from its process.
pub trait Host {
    /// Sends a message, without waiting.
    fn send(&mut self, message: Message) -> Delivery;

    /// Prepares a link for the peer of that generation, whose request is being processed. Returns
    /// whether everything exists that is needed once the peer joins.
    fn create(&mut self, generation: u64) -> bool;

    /// Joins the link of the offer that is at hand, when all is prepared.
    fn join(&mut self, generation: u64) -> Join;

    /// The state of the link that was created.
    fn look(&mut self) -> LinkState;

    /// Moves that state from `Offered` to `Withdrawn`. Returns the resulting state.
    fn withdraw(&mut self) -> LinkState;

    /// Forgets the link that was created.
    fn discard(&mut self);

    /// Both processes have the link that was created or joined.
    fn ready(&mut self);

    /// The attempt is over: packets go by UDP.
    fn unreachable(&mut self);

    /// Whether the peer that a link was offered to, or is shared with, has ended or left.
    fn has_ended(&mut self) -> bool;

    /// Forgets the peer that a link is shared with, which has ended: another has its slot.
    fn lost(&mut self);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Asking,
    Offered(u64),
    Linked(u64),
}

/// The state of the rendezvous with the process of one slot. Times are nanoseconds of one clock.
#[derive(Debug)]
pub struct Session {
    role: Role,
    /// The generation of this process.
    own: u64,
    state: State,
    /// When the attempt began.
    asked: u64,
    /// When it ends.
    until: u64,
    /// When a message is sent again.
    resend: u64,
    /// When the word is looked at again.
    look: u64,
    /// When a message was delivered last.
    delivered: Option<u64>,
    /// Until when [`Session::connect`] begins nothing.
    cooldown: u64,
    full: Backoff,
    unanswered: Backoff,
    looks: Backoff,
    random: Random,
}

/// The actions of a session.
impl Session {
    /// A session of the process of that generation; `seed` makes its intervals differ from others'.
    #[must_use]
    pub fn new(role: Role, own: u64, seed: u64) -> Self {
        Self {
            role,
            own,
            state: State::Idle,
            asked: 0,
            until: NEVER,
            resend: NEVER,
            look: NEVER,
            delivered: None,
            cooldown: 0,
            full: Backoff::new(FULL[0], FULL[1]),
            unanswered: Backoff::new(UNANSWERED[0], UNANSWERED[1]),
            looks: Backoff::new(LOOK[0], LOOK[1]),
            random: Random::new(own ^ seed.rotate_left(32)),
        }
    }

    /// Whether the attempt is under way.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(self.state, State::Asking | State::Offered(_))
    }

    /// When the attempt began that is under way.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// When [`Session::on_time`] is to be called; `None` if nothing is under way.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        let next = self.until.min(self.resend).min(self.look);
        (self.is_pending() && next != NEVER).then_some(next)
    }

    /// A caller in this process wants the link.
    pub fn connect(&mut self, now: u64, host: &mut impl Host) {
        if self.state == State::Idle && now >= self.cooldown {
            self.ask(now, host);
        }
    }

    /// A message of the peer of that generation has come.
    pub fn receive(&mut self, now: u64, from: u64, message: Message, host: &mut impl Host) {
        match (self.role, message) {
            (Role::Offerer, Message::Request) => self.requested(now, from, host),
            (Role::Offerer, Message::Joined) => self.look(now, host),
            (Role::Joiner, Message::Invite) => self.invited(now, from, host),
            (Role::Joiner, Message::Offer { to }) if to == self.own => {
                self.offered(now, from, host);
            }
            (_, Message::Reject) => self.rejected(now, host),
            // For a former process of this slot, or against the roles.
            _ => {}
        }
    }

    /// The deadline has passed, perhaps.
    pub fn on_time(&mut self, now: u64, host: &mut impl Host) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        if matches!(self.state, State::Offered(_)) {
            self.look(now, host);
        }
        if !self.is_pending() {
            return;
        }
        if now >= self.until {
            self.give_up(now, host);
        } else if now >= self.resend {
            self.send(now, host);
        }
    }

    /// Looks whether the peer has joined the link that it was offered.
    pub fn look(&mut self, now: u64, host: &mut impl Host) {
        let State::Offered(generation) = self.state else {
            return;
        };
        match host.look() {
            LinkState::Joined => self.linked(generation, host),
            LinkState::Offered => self.look = now.saturating_add(self.looks.next(&mut self.random)),
            // Against the rules: only the offerer withdraws.
            LinkState::Withdrawn => self.give_up(now, host),
        }
    }

    /// The peer of that generation has ended, or left.
    pub fn ended(&mut self, now: u64, generation: u64, host: &mut impl Host) {
        match self.state {
            State::Offered(offered) if offered == generation => {
                host.discard();
                self.fail(now, host);
            }
            State::Linked(linked) if linked == generation => self.state = State::Idle,
            _ => {}
        }
    }
}

/// How it does that.
impl Session {
    fn ask(&mut self, now: u64, host: &mut impl Host) {
        self.state = State::Asking;
        self.asked = now;
        self.begin(now);
        self.send(now, host);
    }

    /// An attempt, or the next step of it, begins.
    fn begin(&mut self, now: u64) {
        self.until = now.saturating_add(PATIENCE);
        self.look = NEVER;
        self.delivered = None;
        self.full.restart();
        self.unanswered.restart();
        self.looks.restart();
    }

    /// Sends the message of the state.
    fn send(&mut self, now: u64, host: &mut impl Host) {
        let message = match (self.state, self.role) {
            (State::Asking, Role::Offerer) => Message::Invite,
            (State::Asking, Role::Joiner) => Message::Request,
            (State::Offered(to), _) => Message::Offer { to },
            (State::Idle | State::Linked(_), _) => return,
        };
        let interval = match host.send(message) {
            Delivery::Delivered => {
                self.delivered = Some(now);
                self.full.restart();
                self.unanswered.next(&mut self.random)
            }
            Delivery::Full => self.full.next(&mut self.random),
            Delivery::Gone => return self.give_up(now, host),
        };
        self.resend = now.saturating_add(interval);
    }

    /// Sends the message of the state, unless it was delivered just before.
    fn repeat(&mut self, now: u64, host: &mut impl Host) {
        let is_fresh = |delivered: u64| now < delivered.saturating_add(REPEAT);
        if !self.delivered.is_some_and(is_fresh) {
            self.send(now, host);
        }
    }

    /// Ends an attempt: neither process has the link, unless the peer has joined it just now.
    fn give_up(&mut self, now: u64, host: &mut impl Host) {
        if let State::Offered(generation) = self.state {
            if host.withdraw() == LinkState::Joined {
                return self.linked(generation, host);
            }
            host.discard();
        }
        self.fail(now, host);
    }

    fn fail(&mut self, now: u64, host: &mut impl Host) {
        self.state = State::Idle;
        self.cooldown = now.saturating_add(COOLDOWN);
        host.unreachable();
    }

    fn linked(&mut self, generation: u64, host: &mut impl Host) {
        self.state = State::Linked(generation);
        self.cooldown = 0;
        host.ready();
    }

    /// Whether a message of that generation changes nothing: there is a link with that peer
    /// already, or with another that is there, so that the message is one that a former process of
    /// the slot has left.
    fn is_linked(&mut self, generation: u64, host: &mut impl Host) -> bool {
        let State::Linked(linked) = self.state else {
            return false;
        };
        if linked == generation || !host.has_ended() {
            return true;
        }
        host.lost();
        self.state = State::Idle;
        false
    }

    fn requested(&mut self, now: u64, from: u64, host: &mut impl Host) {
        self.look(now, host);
        if self.is_linked(from, host) {
            return;
        }
        if let State::Offered(generation) = self.state {
            if generation == from {
                return self.repeat(now, host);
            }
            if !host.has_ended() {
                return;
            }
            host.discard();
        }
        if !host.create(from) {
            // If it does not arrive, the peer's patience ends.
            host.send(Message::Reject);
            return self.fail(now, host);
        }
        if !self.is_pending() {
            self.asked = now;
        }
        self.state = State::Offered(from);
        self.begin(now);
        self.look = now.saturating_add(self.looks.next(&mut self.random));
        self.send(now, host);
    }

    fn invited(&mut self, now: u64, from: u64, host: &mut impl Host) {
        if self.is_linked(from, host) {
            return;
        }
        match self.state {
            State::Asking if self.delivered.is_some() => {}
            State::Asking => self.send(now, host),
            _ => self.ask(now, host),
        }
    }

    fn offered(&mut self, now: u64, from: u64, host: &mut impl Host) {
        if self.is_linked(from, host) {
            return;
        }
        match host.join(from) {
            Join::Joined => {
                self.linked(from, host);
                // If it does not arrive, the offerer finds it out by looking.
                host.send(Message::Joined);
            }
            // The offerer has given up meanwhile, and is there.
            Join::Withdrawn if self.state == State::Asking => self.repeat(now, host),
            Join::Withdrawn => self.ask(now, host),
            Join::Failed => {
                host.send(Message::Reject);
                self.fail(now, host);
            }
        }
    }

    fn rejected(&mut self, now: u64, host: &mut impl Host) {
        if self.is_pending() {
            self.give_up(now, host);
        }
    }
}
