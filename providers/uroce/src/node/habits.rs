//! How senders number their packets.
//!
//! A socket does not tell the IPv4 identification and the DF flag that the ICRC covers, so a check that
//! takes any of them is weaker by 17 bits: some damaged packets pass, even ones with a single flipped
//! bit. Senders are of few manners, though, and keep to them. A packet of another manner than its
//! sender's is taken for damaged, unless several come in succession: then the sender is another one.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// Senders that are remembered; then all are learned anew.
const MOST: usize = 1024;
/// Packets of one manner in succession after which another is unexpected, and the other way round.
const SURE: u8 = 3;
/// Identifications that a run of packets counts through, from 0.
const COUNTED: u16 = 64;

/// How a packet is numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// 0, or counting up from 0 in a run, with DF: Linux' sockets.
    Counted,
    /// Any number, with DF or without: the kernel's soft-RoCE, cards.
    Free {
        /// The DF flag.
        dont_fragment: bool,
    },
}

impl Manner {
    pub fn of(identification: u16, dont_fragment: bool) -> Self {
        if dont_fragment && identification < COUNTED {
            return Self::Counted;
        }
        Self::Free { dont_fragment }
    }

    /// Whether a sender of this manner may send such a packet: a free number may be a small one.
    fn admits(self, other: Self) -> bool {
        let free = Self::Free {
            dont_fragment: true,
        };
        self == other || (self == free && other == Self::Counted)
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is of another manner than its sender's.
    Refused,
    /// It is to be believed, and something was learned.
    Learned,
    /// It is to be believed, and so is the next of this manner, with nothing left to learn.
    Sure,
}

/// What was found while the packets of one run were looked at, all from one sender.
#[derive(Default)]
pub(super) struct Run {
    /// The identification that the next packet probably has.
    pub guess: u16,
    /// The manner that need not be asked for again.
    sure: Option<Manner>,
}

impl Run {
    /// As [`Habits::admit`], asking once a run where there is nothing to learn.
    pub fn admits(&mut self, habits: &Habits, source: Ipv4Addr, manner: Manner) -> bool {
        if self.sure == Some(manner) {
            return true;
        }
        let verdict = habits.admit(source, manner);
        self.sure = (verdict == Verdict::Sure).then_some(manner);
        verdict != Verdict::Refused
    }
}

#[derive(Clone, Copy)]
struct Habit {
    manner: Manner,
    /// Packets of the manner, up to [`SURE`].
    seen: u8,
    /// Packets of another one since.
    strange: u8,
}

/// The senders.
#[derive(Default)]
pub(super) struct Habits(Mutex<HashMap<Ipv4Addr, Habit>>);

impl Habits {
    /// Whether a packet of this manner, its ICRC right, is to be believed; learns from it.
    pub fn admit(&self, source: Ipv4Addr, manner: Manner) -> Verdict {
        let mut habits = self.0.lock();
        if habits.len() == MOST && !habits.contains_key(&source) {
            habits.clear();
        }
        let new = Habit {
            manner,
            seen: 0,
            strange: 0,
        };
        let habit = habits.entry(source).or_insert(new);
        if habit.manner.admits(manner) {
            habit.seen = (habit.seen + 1).min(SURE);
            habit.strange = 0;
            return match habit.seen {
                SURE => Verdict::Sure,
                _ => Verdict::Learned,
            };
        }
        habit.strange += 1;
        if habit.seen == SURE && habit.strange < SURE {
            return Verdict::Refused;
        }
        *habit = Habit { seen: 1, ..new };
        Verdict::Learned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    fn admits(habits: &Habits, source: Ipv4Addr, manner: Manner) -> bool {
        habits.admit(source, manner) != Verdict::Refused
    }

    fn free(dont_fragment: bool) -> Manner {
        Manner::of(40_000, dont_fragment)
    }

    #[test]
    fn single_strangers_are_refused() {
        let habits = Habits::default();
        for _ in 0..3 {
            assert!(admits(&habits, SENDER, Manner::of(5, true)));
        }
        for _ in 0..100 {
            assert!(!admits(&habits, SENDER, free(true)));
            assert!(!admits(&habits, SENDER, free(false)));
            assert!(admits(&habits, SENDER, Manner::of(0, true)));
        }
    }

    #[test]
    fn a_run_asks_until_there_is_nothing_to_learn() {
        let (habits, counted) = (Habits::default(), Manner::of(5, true));
        let mut run = Run::default();
        for _ in 0..100 {
            assert!(run.admits(&habits, SENDER, counted));
        }
        assert!(!run.admits(&habits, SENDER, free(true)));
        assert!(run.admits(&habits, SENDER, counted));
        assert!(!run.admits(&habits, SENDER, free(true)));
    }

    #[test]
    fn a_free_number_may_be_a_small_one() {
        let habits = Habits::default();
        for identification in [40_000, 3, 50_000, 0, 63, 64] {
            assert!(admits(&habits, SENDER, Manner::of(identification, true)));
        }
        assert!(!admits(&habits, SENDER, free(false)));
    }

    #[test]
    fn a_sender_may_become_another() {
        let habits = Habits::default();
        for _ in 0..10 {
            assert!(admits(&habits, SENDER, Manner::Counted));
        }
        let answers = [(); 4].map(|()| admits(&habits, SENDER, free(false)));
        assert_eq!(answers, [false, false, true, true]);
    }

    #[test]
    fn many_senders_are_learned_anew() {
        let habits = Habits::default();
        for number in 0..10_000 {
            assert!(admits(
                &habits,
                Ipv4Addr::from_bits(number),
                Manner::Counted
            ));
        }
        assert!(habits.0.lock().len() <= MOST);
    }
}
