//! Which IPv4 identification a sender may have used.
//!
//! The ICRC covers the IPv4 identification and the DF flag, and a socket reports neither. A check
//! that accepts any of them is weaker by 17 bits: some damaged packets pass, even with a single
//! flipped bit. Senders follow few policies, though, and keep to them. Linux' sockets use 0,
//! counting up from 0 in a run; cards and the kernel's soft-RoCE use any number. A packet that does
//! not follow its sender's policy counts as damaged, unless several come in succession: then the
//! sender is another one.

use kit::sync::Mutex;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use uroce_engine::wire::icrc::Latest;

/// Senders that are remembered; then all are learned anew.
const MOST: usize = 1024;
/// Packets of one policy in succession after which another is unexpected, and the other way round.
const SURE: u8 = 3;
/// Identifications that a run of packets counts through, from 0.
const COUNTED: u16 = 64;

/// How a packet is numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// 0, or counting up from 0 in a run, with DF: Linux' sockets.
    Counted,
    /// Any number, with DF or without: the kernel's soft-RoCE, cards.
    Free {
        /// The DF flag.
        dont_fragment: bool,
    },
}

impl Policy {
    pub fn of(identification: u16, dont_fragment: bool) -> Self {
        if dont_fragment && identification < COUNTED {
            return Self::Counted;
        }
        Self::Free { dont_fragment }
    }

    /// Whether a sender of this policy may send such a packet: a free number may be a small one.
    fn admits(self, other: Self) -> bool {
        let free = Self::Free {
            dont_fragment: true,
        };
        self == other || (self == free && other == Self::Counted)
    }
}

/// The outcome of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is of another policy than its sender's.
    Refused,
    /// It is to be believed, and something was learned.
    Learned,
    /// It is to be believed, and so is the next of this policy, with nothing left to learn.
    Sure,
}

/// Results of examining the packets of one run, all from one sender.
pub(super) struct Run<'a> {
    /// The ICRCs of the latest packets.
    pub latest: &'a mut Latest,
    /// The identification that the next packet probably has.
    pub guess: u16,
    /// The policy that need not be asked for again.
    sure: Option<Policy>,
}

impl<'a> Run<'a> {
    pub fn new(latest: &'a mut Latest) -> Self {
        Self {
            latest,
            guess: 0,
            sure: None,
        }
    }

    /// As [`Inference::admit`], asking once a run where there is nothing to learn.
    pub fn admits(&mut self, inference: &Inference, source: Ipv4Addr, policy: Policy) -> bool {
        if self.sure == Some(policy) {
            return true;
        }
        let verdict = inference.admit(source, policy);
        self.sure = (verdict == Verdict::Sure).then_some(policy);
        verdict != Verdict::Refused
    }
}

#[derive(Clone, Copy)]
struct Known {
    policy: Policy,
    /// Packets of the policy, up to [`SURE`].
    seen: u8,
    /// Packets of another one since.
    deviating: u8,
}

/// The senders.
#[derive(Default)]
struct Senders {
    known: HashMap<Ipv4Addr, Known>,
    /// That of the latest packet, if there is nothing left to learn of it.
    sure: Option<(Ipv4Addr, Policy)>,
}

/// Learns how senders number their packets.
#[derive(Default)]
pub(super) struct Inference(Mutex<Senders>);

impl Inference {
    /// Whether a packet of this policy, its ICRC right, is to be believed; learns from it.
    pub fn admit(&self, source: Ipv4Addr, policy: Policy) -> Verdict {
        let mut senders = self.0.lock();
        if senders.sure == Some((source, policy)) {
            return Verdict::Sure;
        }
        let verdict = senders.admit(source, policy);
        senders.sure = (verdict == Verdict::Sure).then_some((source, policy));
        verdict
    }
}

impl Senders {
    fn admit(&mut self, source: Ipv4Addr, policy: Policy) -> Verdict {
        let inference = &mut self.known;
        if inference.len() == MOST && !inference.contains_key(&source) {
            inference.clear();
        }
        let new = Known {
            policy,
            seen: 0,
            deviating: 0,
        };
        let known = inference.entry(source).or_insert(new);
        if known.policy.admits(policy) {
            known.seen = (known.seen + 1).min(SURE);
            known.deviating = 0;
            return match known.seen {
                SURE => Verdict::Sure,
                _ => Verdict::Learned,
            };
        }
        known.deviating += 1;
        if known.seen == SURE && known.deviating < SURE {
            return Verdict::Refused;
        }
        *known = Known { seen: 1, ..new };
        Verdict::Learned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    fn admits(inference: &Inference, source: Ipv4Addr, policy: Policy) -> bool {
        inference.admit(source, policy) != Verdict::Refused
    }

    fn free(dont_fragment: bool) -> Policy {
        Policy::of(40_000, dont_fragment)
    }

    #[test]
    fn single_strangers_are_refused() {
        let inference = Inference::default();
        for _ in 0..3 {
            assert!(admits(&inference, SENDER, Policy::of(5, true)));
        }
        for _ in 0..100 {
            assert!(!admits(&inference, SENDER, free(true)));
            assert!(!admits(&inference, SENDER, free(false)));
            assert!(admits(&inference, SENDER, Policy::of(0, true)));
        }
    }

    #[test]
    fn a_run_asks_until_there_is_nothing_to_learn() {
        let (inference, counted) = (Inference::default(), Policy::of(5, true));
        let mut latest = Latest::default();
        let mut run = Run::new(&mut latest);
        for _ in 0..100 {
            assert!(run.admits(&inference, SENDER, counted));
        }
        assert!(!run.admits(&inference, SENDER, free(true)));
        assert!(run.admits(&inference, SENDER, counted));
        assert!(!run.admits(&inference, SENDER, free(true)));
    }

    #[test]
    fn a_free_number_may_be_a_small_one() {
        let inference = Inference::default();
        for identification in [40_000, 3, 50_000, 0, 63, 64] {
            assert!(admits(&inference, SENDER, Policy::of(identification, true)));
        }
        assert!(!admits(&inference, SENDER, free(false)));
    }

    #[test]
    fn a_sender_may_become_another() {
        let inference = Inference::default();
        for _ in 0..10 {
            assert!(admits(&inference, SENDER, Policy::Counted));
        }
        let answers = [(); 4].map(|()| admits(&inference, SENDER, free(false)));
        assert_eq!(answers, [false, false, true, true]);
    }

    #[test]
    fn many_senders_are_learned_anew() {
        let inference = Inference::default();
        for number in 0..10_000 {
            assert!(admits(
                &inference,
                Ipv4Addr::from_bits(number),
                Policy::Counted
            ));
        }
        assert!(inference.0.lock().known.len() <= MOST);
    }
}
