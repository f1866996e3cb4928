//! Elects the process that gets a resource that only one process of the user can have: a slot, or
//! the turn to open a domain.
//!
//! Names with tokens keep strangers out, and do not exclude each other. So a process binds a name
//! with a token first, looks at the names of others after that, and continues only if it saw
//! none. Of two processes at least one sees the other, whatever the order of their steps. The
//! one of the lower token then waits for the other to give way, or to be there for good.
//!
//! [`judge`] is that rule; [`Claimant`] goes by it to find a slot. Neither knows of sockets or
//! time.

use super::Token;
use std::collections::BTreeSet;

/// Another process of the user that has, or wants, the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// Has it.
    Owner,
    /// Wants it.
    Claiming(Token),
    /// The owner of the name is unknown.
    Unknown,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No other process is there.
    Keep,
    /// Look again: the others give way, or turn out to have it.
    Wait,
    /// Give way.
    Withdraw,
}

/// Decides, for a process that bound a name with this token before it looked.
#[must_use]
pub fn judge(own: Token, rivals: &[Rival]) -> Verdict {
    let gives_way = |rival: &Rival| match rival {
        Rival::Owner | Rival::Unknown => true,
        Rival::Claiming(token) => *token <= own,
    };
    if rivals.is_empty() {
        Verdict::Keep
    } else if rivals.iter().any(gives_way) {
        Verdict::Withdraw
    } else {
        Verdict::Wait
    }
}

/// The names found.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// At the slot that is claimed.
    pub rivals: Vec<Rival>,
    /// Slots with names of the user's.
    pub taken: BTreeSet<u16>,
    /// Slots with names that may be the user's.
    pub unclear: BTreeSet<u16>,
    /// Nothing can be seen here: names that can be bound once have to do.
    pub is_blind: bool,
}

/// The next request of a claimant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Take back the name of the slot before, if there is one, and bind one of this slot. Then
    /// [`Claimant::bound`].
    Bind(u16),
    /// Look at the names of others. With `everything` it must be known of all names whether they
    /// are the user's. Then [`Claimant::saw`].
    Look {
        /// All slots, and not that of the claim alone.
        everything: bool,
    },
    /// Look, after a moment. Then [`Claimant::saw`].
    LookAgain,
    /// Bind the names of a process that has the slot, and then take back that of the claim. With
    /// `alone` it fails if the name without a token is taken, too. Then [`Claimant::acquired`].
    Acquire {
        /// The name without a token must be free.
        alone: bool,
    },
    /// The slot is ours.
    Done(u16),
    /// All slots are taken.
    Fail,
}

/// How long a claimant continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Limits {
    /// Slots that are tried only if no name is in the way. Beyond these, names of strangers are
    /// tolerated. Otherwise a stranger that takes the names without a token, or has sockets of
    /// unknown owner, could keep all processes out.
    easy: u32,
    /// Slots that are tried.
    tries: u32,
    /// How often it is waited for others to give way.
    looks: u32,
}

const LIMITS: Limits = Limits {
    easy: 16,
    tries: 256,
    looks: 50,
};

/// A claimant of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claimant {
    limits: Limits,
    /// The highest slot.
    last: u16,
    slot: u16,
    token: Token,
    /// Strangers' names are put up with.
    tolerant: bool,
    tried: BTreeSet<u16>,
    /// Slots with names of the user's, and with such as may be, as they were seen last.
    taken: BTreeSet<u16>,
    unclear: BTreeSet<u16>,
    is_blind: bool,
    tries: u32,
    looks: u32,
    random: u64,
}

impl Claimant {
    /// One for slots 1 to `last`, and its first step: `first` is tried first, if there is such a
    /// slot.
    #[must_use]
    pub fn begin(last: u16, random: u64, first: Option<u16>) -> (Self, Step) {
        let (mut claimant, step) = Self::begin_with(LIMITS, last, random);
        let Some(first) = first.filter(|slot| (1..=last).contains(slot)) else {
            return (claimant, step);
        };
        claimant.slot = first;
        claimant.tried = BTreeSet::from([first]);
        (claimant, Step::Bind(first))
    }

    fn begin_with(limits: Limits, last: u16, random: u64) -> (Self, Step) {
        let mut claimant = Self {
            limits,
            last,
            slot: 0,
            token: Token::from_number(0),
            tolerant: false,
            tried: BTreeSet::new(),
            taken: BTreeSet::new(),
            unclear: BTreeSet::new(),
            is_blind: false,
            tries: 0,
            looks: 0,
            random,
        };
        let step = claimant.next();
        (claimant, step)
    }

    /// A name with this token was bound.
    pub fn bound(&mut self, token: Token) -> Step {
        self.token = token;
        self.looks = 0;
        let everything = self.tolerant;
        Step::Look { everything }
    }

    /// This was seen after that.
    pub fn saw(&mut self, sight: &Sight) -> Step {
        self.taken.clone_from(&sight.taken);
        self.unclear.clone_from(&sight.unclear);
        self.is_blind = sight.is_blind;
        let is_in_the_way = |rival: &&Rival| !self.tolerant || **rival != Rival::Unknown;
        let rivals: Vec<_> = sight.rivals.iter().filter(is_in_the_way).copied().collect();
        match judge(self.token, &rivals) {
            Verdict::Keep => Step::Acquire {
                alone: !self.tolerant || self.is_blind,
            },
            Verdict::Wait if self.looks < self.limits.looks => {
                self.looks += 1;
                Step::LookAgain
            }
            Verdict::Wait | Verdict::Withdraw => self.next(),
        }
    }

    /// The names of a process that has the slot were bound, or could not be.
    pub fn acquired(&mut self, done: bool) -> Step {
        if done {
            return Step::Done(self.slot);
        }
        self.next()
    }

    fn next(&mut self) -> Step {
        self.tries += 1;
        let most = if self.is_blind {
            2 * u32::from(self.last)
        } else {
            self.limits.tries
        };
        if self.tries > most {
            return Step::Fail;
        }
        self.tolerant |= self.tries > self.limits.easy && !self.is_blind;
        let Some(slot) = self.choose() else {
            return Step::Fail;
        };
        self.tried.insert(slot);
        self.slot = slot;
        Step::Bind(slot)
    }

    /// A slot without names of the user's, as far as is known: one that was not tried yet, if there
    /// is one.
    fn choose(&mut self) -> Option<u16> {
        let choose = |tried: &BTreeSet<u16>, tolerant: bool| {
            let free = |slot: &u16| {
                let is_named =
                    self.taken.contains(slot) || !tolerant && self.unclear.contains(slot);
                !is_named && !tried.contains(slot)
            };
            let count = (1..=self.last).filter(free).count();
            let random = usize::try_from(self.random >> 33).unwrap_or(0);
            (1..=self.last).filter(free).nth(random.checked_rem(count)?)
        };
        let mut chosen = choose(&self.tried, self.tolerant);
        if chosen.is_none() {
            self.tolerant |= !self.is_blind;
            self.tried.clear();
            chosen = choose(&self.tried, self.tolerant);
        }
        // Knuth's numbers.
        let random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d);
        self.random = random.wrapping_add(0x1405_7b7e_f767_814f);
        chosen
    }
}

#[cfg(test)]
mod tests;
