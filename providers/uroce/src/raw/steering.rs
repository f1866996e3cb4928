//! Which rules a frame meets (ibv_create_flow(3)).

use super::headers::Headers;
use super::rule::{Kind, Rule};
use kit::sys::packet::Origin;

/// Rules in the order of their evaluation, each with its target.
pub struct Steering<T> {
    rules: Vec<(Rule, T)>,
}

impl<T> Default for Steering<T> {
    fn default() -> Self {
        Self { rules: Vec::new() }
    }
}

impl<T> Steering<T> {
    /// Adds a rule, behind those of its priority.
    pub fn add(&mut self, rule: Rule, target: T) {
        let place = |known: &Rule| (known.kind, known.priority) <= (rule.kind, rule.priority);
        let at = self.rules.partition_point(|(known, _)| place(known));
        self.rules.insert(at, (rule, target));
    }

    /// Removes the rules whose target `is` accepts.
    pub fn remove(&mut self, is: impl Fn(&T) -> bool) {
        self.rules.retain(|(_, target)| !is(target));
    }

    /// Calls `meet` with each rule that the frame meets, in order. The first takes it, unless it
    /// passes on; those that are equal to one that the frame meets meet it too, and sniffers all.
    pub fn steer(&self, headers: &Headers<'_>, origin: Origin, mut meet: impl FnMut(&Rule, &T)) {
        let mut taken: Option<&Rule> = None;
        for (rule, target) in &self.rules {
            if !admits(rule, headers, origin) {
                continue;
            }
            let meets = match taken {
                _ if rule.kind == Kind::Sniffer => true,
                None => rule.matches(headers),
                Some(taken) => rule == taken,
            };
            if !meets {
                continue;
            }
            meet(rule, target);
            if taken.is_none() && rule.kind != Kind::Sniffer && !rule.passes_on {
                taken = Some(rule);
            }
        }
    }
}

/// A frame sent by this host returns to its rules only if it is for a group, as with cards;
/// sniffers see everything.
fn admits(rule: &Rule, headers: &Headers<'_>, origin: Origin) -> bool {
    origin == Origin::Received || rule.kind == Kind::Sniffer || headers.is_group()
}

#[cfg(test)]
mod tests {
    use super::super::headers::tests::{tcp6, udp4};
    use super::super::rule::tests::{default, from};
    use super::*;
    use kit::abi::*;
    use proptest::prelude::*;

    fn met(steering: &Steering<usize>, frame: &[u8], origin: Origin) -> Vec<usize> {
        let headers = Headers::read(frame).expect("a frame");
        let mut met = Vec::new();
        steering.steer(&headers, origin, |_, target| met.push(*target));
        met
    }

    #[test]
    fn defaults_get_the_rest_and_sniffers_everything() {
        let mut steering = Steering::default();
        for (target, kind) in [
            IBV_FLOW_ATTR_SNIFFER,
            IBV_FLOW_ATTR_ALL_DEFAULT,
            IBV_FLOW_ATTR_MC_DEFAULT,
        ]
        .into_iter()
        .enumerate()
        {
            steering.add(default(kind), target);
        }
        steering.add(from(9, [1; 4], [0xff; 4]), 3);
        let of = |frame: &[u8]| met(&steering, frame, Origin::Received);
        assert_eq!(of(&udp4(None, [1; 4], 5)), [3, 0]);
        assert_eq!(of(&udp4(None, [2; 4], 5)), [2, 0], "a group");
        assert_eq!(of(&tcp6()), [1, 0], "one of us");
        assert_eq!(met(&steering, &tcp6(), Origin::Sent), [0]);
        assert_eq!(met(&steering, &udp4(None, [1; 4], 5), Origin::Sent), [3, 0]);
    }

    #[test]
    fn a_rule_that_passes_on_takes_nothing_away() {
        let mut steering = Steering::default();
        let mut first = from(0, [1; 4], [0xff; 4]);
        first.passes_on = true;
        steering.add(first, 0);
        steering.add(from(1, [1; 4], [0xff; 4]), 1);
        steering.add(from(2, [1; 4], [0xff; 4]), 2);
        assert_eq!(
            met(&steering, &udp4(None, [1; 4], 5), Origin::Received),
            [0, 1]
        );
        steering.remove(|target| *target == 1);
        assert_eq!(
            met(&steering, &udp4(None, [1; 4], 5), Origin::Received),
            [0, 2]
        );
    }

    proptest! {
        #[test]
        fn the_first_that_matches_and_its_equals(
            rules in proptest::collection::vec((0u16..3, 0u8..3, proptest::bool::ANY), 0..8),
            source in 0u8..3,
        ) {
            let mut steering = Steering::default();
            let rule = |&(priority, last, exact): &(u16, u8, bool)| {
                let mask = if exact { [0xff; 4] } else { [0xff, 0xff, 0xff, 0] };
                from(priority, [1, 1, 1, last], mask)
            };
            for (at, given) in rules.iter().enumerate() {
                steering.add(rule(given), at);
            }
            let frame = udp4(None, [1, 1, 1, source], 5);
            let headers = Headers::read(&frame).expect("a frame");
            let best = (0..rules.len())
                .filter(|at| rule(&rules[*at]).matches(&headers))
                .min_by_key(|at| (rules[*at].0, *at));
            let wanted: Vec<_> = match best {
                None => Vec::new(),
                Some(best) => {
                    let equal = |at: &usize| rule(&rules[*at]) == rule(&rules[best]);
                    (0..rules.len()).filter(equal).collect()
                }
            };
            prop_assert_eq!(met(&steering, &frame, Origin::Received), wanted);
        }
    }
}
