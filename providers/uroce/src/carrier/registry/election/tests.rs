use super::*;
use std::collections::{BTreeMap, HashSet};

fn token(number: u64) -> Token {
    Token::from_number(number)
}

#[test]
fn the_lower_token_waits_and_an_owner_keeps_the_slot() {
    let own = token(5);
    assert_eq!(judge(own, &[]), Verdict::Keep);
    let lower = Rival::Claiming(token(4));
    let higher = Rival::Claiming(token(6));
    assert_eq!(judge(own, &[higher]), Verdict::Wait);
    for rivals in [
        vec![lower],
        vec![higher, lower],
        vec![higher, Rival::Owner],
        vec![Rival::Unknown],
    ] {
        assert_eq!(judge(own, &rivals), Verdict::Withdraw, "{rivals:?}");
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    claimant: Claimant,
    /// The next step.
    next: Step,
    /// The slot and token of its claim.
    claim: Option<(u16, Token)>,
    /// The slot that it has bound the names of.
    acquired: Option<u16>,
    /// The slot whose name without a token this process has.
    alone: Option<u16>,
    names: u64,
    dead: bool,
}

/// Processes, and slots whose names without a token belong to a stranger.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    processes: Vec<Process>,
    last: u16,
    squatted: BTreeSet<u16>,
    /// Slots with names of unknown owner.
    unclear: BTreeSet<u16>,
    /// Names cannot be listed.
    is_blind: bool,
}

impl World {
    fn new(count: u64, last: u16) -> Self {
        let limits = Limits {
            easy: 2,
            tries: 5,
            looks: 2,
        };
        Self::with(limits, count, last)
    }

    fn with(limits: Limits, count: u64, last: u16) -> Self {
        let process = |number: u64| {
            // All begin at the same slot.
            let (claimant, next) = Claimant::begin_with(limits, last, 1 << 40);
            Process {
                claimant,
                next,
                claim: None,
                acquired: None,
                alone: None,
                // Tokens of a process lie apart from each other, between those of others.
                names: number,
                dead: false,
            }
        };
        Self {
            processes: (1..=count).map(process).collect(),
            last,
            squatted: BTreeSet::new(),
            unclear: BTreeSet::new(),
            is_blind: false,
        }
    }

    fn sight(&self, of: usize) -> Sight {
        let mut sight = Sight::default();
        if self.is_blind {
            sight.is_blind = true;
            return sight;
        }
        let Some((slot, _)) = self.processes[of].claim else {
            return sight;
        };
        for (index, other) in self.processes.iter().enumerate() {
            if index == of || other.dead {
                continue;
            }
            if let Some((at, token)) = other.claim {
                sight.taken.insert(at);
                if at == slot {
                    sight.rivals.push(Rival::Claiming(token));
                }
            }
            if let Some(at) = other.acquired {
                sight.taken.insert(at);
                if at == slot {
                    sight.rivals.push(Rival::Owner);
                }
            }
        }
        if self.unclear.contains(&slot) {
            sight.rivals.push(Rival::Unknown);
        }
        sight.unclear.clone_from(&self.unclear);
        sight
    }

    /// One system call of a process.
    fn step(&mut self, of: usize) {
        let sight = self.sight(of);
        let taken: BTreeSet<u16> = {
            let others = self.processes.iter().filter(|other| !other.dead);
            let taken = others.filter_map(|other| other.alone);
            taken.chain(self.squatted.iter().copied()).collect()
        };
        let process = &mut self.processes[of];
        process.next = match process.next {
            Step::Bind(slot) => {
                assert!((1..=self.last).contains(&slot));
                process.names += 10;
                // The order of the tokens of two processes changes from one try to the next.
                let token = token(process.names ^ (((process.names / 10) & 1) * 3));
                process.claim = Some((slot, token));
                process.claimant.bound(token)
            }
            Step::Look { .. } | Step::LookAgain => process.claimant.saw(&sight),
            Step::Acquire { alone } => {
                let (slot, _) = process.claim.expect("a claim");
                // Two steps: the name without a token, then the others.
                if process.alone.is_none() && !taken.contains(&slot) {
                    process.alone = Some(slot);
                    Step::Acquire { alone }
                } else if alone && process.alone.is_none() {
                    process.claimant.acquired(false)
                } else if process.acquired.is_none() {
                    process.acquired = Some(slot);
                    Step::Acquire { alone }
                } else {
                    process.claim = None;
                    process.claimant.acquired(true)
                }
            }
            done => done,
        };
        if process.next == Step::Fail {
            process.claim = None;
        }
    }

    fn runs(&self, of: usize) -> bool {
        let process = &self.processes[of];
        !process.dead && !matches!(process.next, Step::Done(_) | Step::Fail)
    }

    fn check(&self) {
        let mut owners: BTreeMap<u16, usize> = BTreeMap::new();
        for (index, process) in self.processes.iter().enumerate() {
            if let (Some(slot), false) = (process.acquired, process.dead) {
                let other = owners.insert(slot, index);
                assert_eq!(other, None, "{self:#?}");
            }
        }
    }
}

/// Goes through all orders of the steps of all processes, each of which may be killed at any
/// moment, but no more than `deaths` of them.
fn explore(world: World, deaths: usize, end: &dyn Fn(&World)) -> usize {
    let mut seen = HashSet::new();
    let mut left = vec![(world, deaths)];
    while let Some((world, deaths)) = left.pop() {
        world.check();
        if !seen.insert((world.clone(), deaths)) {
            continue;
        }
        let mut is_end = true;
        for of in 0..world.processes.len() {
            if !world.runs(of) {
                continue;
            }
            is_end = false;
            let mut next = world.clone();
            next.step(of);
            left.push((next, deaths));
            if deaths > 0 {
                let mut next = world.clone();
                next.processes[of].dead = true;
                left.push((next, deaths - 1));
            }
        }
        if is_end {
            end(&world);
        }
    }
    seen.len()
}

/// A process without a slot at the end has tried as often as it may: a scheduler that always runs
/// the other process can cause this.
fn no_candidate_gives_up_early(world: &World) {
    let there = world.processes.iter().filter(|process| !process.dead);
    for process in there.filter(|process| !matches!(process.next, Step::Done(_))) {
        let claimant = &process.claimant;
        assert!(claimant.tries > claimant.limits.tries, "{world:#?}");
    }
}

#[test]
fn two_share_no_slot_in_any_order_whichever_dies() {
    let seen = explore(World::new(2, 2), 1, &no_candidate_gives_up_early);
    eprintln!("{seen} states");
    assert!(seen > 100);
}

#[test]
fn a_stranger_that_has_all_names_does_not_keep_others_out() {
    let mut world = World::new(2, 3);
    world.squatted = (1..=3).collect();
    let seen = explore(world.clone(), 1, &no_candidate_gives_up_early);
    world.unclear = (1..=3).collect();
    let more = explore(world, 1, &no_candidate_gives_up_early);
    eprintln!("{seen} and {more} states");
    assert!(seen > 100 && more > 100);
}

#[test]
fn three_share_no_slot_in_any_order() {
    let limits = Limits {
        easy: 1,
        tries: 2,
        looks: 1,
    };
    let seen = explore(World::with(limits, 3, 3), 0, &|_| ());
    eprintln!("{seen} states");
    assert!(seen > 1000);
}

#[test]
fn without_a_list_the_name_without_a_token_decides() {
    let mut world = World::new(2, 3);
    world.is_blind = true;
    world.squatted = [1].into();
    let seen = explore(world, 1, &no_candidate_gives_up_early);
    eprintln!("{seen} states");
    assert!(seen > 50);
}

#[test]
fn many_find_slots_in_random_order_where_there_are_hardly_enough() {
    for seed in 1..20u64 {
        let mut world = World::with(LIMITS, 30, 33);
        if seed % 2 == 0 {
            world.squatted = (1..=33).collect();
        }
        let mut random = seed;
        while let Some(first) = (0..30).find(|of| world.runs(*of)) {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let of = usize::try_from(random >> 33).expect("small") % 30;
            world.step(if world.runs(of) { of } else { first });
            world.check();
        }
        for process in &world.processes {
            assert!(matches!(process.next, Step::Done(_)), "{process:#?}");
        }
    }
}

#[test]
fn one_too_many_fails_and_the_others_have_theirs() {
    let mut world = World::new(3, 2);
    // One after the other.
    for of in 0..3 {
        while world.runs(of) {
            world.step(of);
            world.check();
        }
    }
    let ends = world.processes.iter().map(|process| process.next);
    let ends: Vec<_> = ends.collect();
    assert!(matches!(ends[..2], [Step::Done(_), Step::Done(_)]));
    assert_eq!(ends[2], Step::Fail);
}

#[test]
fn a_rival_that_never_moves_blocks_no_candidate_for_ever() {
    let mut world = World::new(2, 2);
    world.step(1);
    let stopped = world.processes[1].claim.expect("a claim");
    let mut steps = 0;
    while world.runs(0) {
        world.step(0);
        steps += 1;
    }
    assert!(steps < 20, "{steps}");
    assert_ne!(world.processes[0].next, Step::Done(stopped.0));
    assert!(matches!(world.processes[0].next, Step::Done(_)));
}
