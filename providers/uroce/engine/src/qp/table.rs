//! Which attributes each transition of ibv_modify_qp(3) requires and allows, by service (IBTA
//! volume 1, 11.2.5.2, table 96; XRC: annex A14).

use super::state::{Service, State};

/// A set of attributes: the bits of `enum ibv_qp_attr_mask`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mask(pub u32);

#[allow(missing_docs, reason = "the names are those of enum ibv_qp_attr_mask")]
impl Mask {
    pub const STATE: Self = Self(1);
    pub const CUR_STATE: Self = Self(1 << 1);
    pub const EN_SQD_ASYNC_NOTIFY: Self = Self(1 << 2);
    pub const ACCESS_FLAGS: Self = Self(1 << 3);
    pub const PKEY_INDEX: Self = Self(1 << 4);
    pub const PORT: Self = Self(1 << 5);
    pub const QKEY: Self = Self(1 << 6);
    pub const AV: Self = Self(1 << 7);
    pub const PATH_MTU: Self = Self(1 << 8);
    pub const TIMEOUT: Self = Self(1 << 9);
    pub const RETRY_CNT: Self = Self(1 << 10);
    pub const RNR_RETRY: Self = Self(1 << 11);
    pub const RQ_PSN: Self = Self(1 << 12);
    pub const MAX_QP_RD_ATOMIC: Self = Self(1 << 13);
    pub const ALT_PATH: Self = Self(1 << 14);
    pub const MIN_RNR_TIMER: Self = Self(1 << 15);
    pub const SQ_PSN: Self = Self(1 << 16);
    pub const MAX_DEST_RD_ATOMIC: Self = Self(1 << 17);
    pub const PATH_MIG_STATE: Self = Self(1 << 18);
    pub const CAP: Self = Self(1 << 19);
    pub const DEST_QPN: Self = Self(1 << 20);
    pub const RATE_LIMIT: Self = Self(1 << 25);

    /// No attribute.
    pub const NONE: Self = Self(0);

    /// Both sets together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every attribute of `other` is in the set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The set without the members of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The attributes of one transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Must be given.
    pub required: Mask,
    /// May be given.
    pub optional: Mask,
}

const fn all<const N: usize>(masks: [Mask; N]) -> Mask {
    let mut sum = Mask::NONE;
    let mut at = 0;
    while at < N {
        sum = sum.and(masks[at]);
        at += 1;
    }
    sum
}

use Mask as M;

const ADDRESSING_UD: Mask = all([M::PKEY_INDEX, M::PORT, M::QKEY]);
const ADDRESSING: Mask = all([M::PKEY_INDEX, M::PORT, M::ACCESS_FLAGS]);
const PATH: Mask = all([M::AV, M::PATH_MTU, M::DEST_QPN, M::RQ_PSN]);
const TARGET: Mask = all([M::MAX_DEST_RD_ATOMIC, M::MIN_RNR_TIMER]);
const RETRIES: Mask = all([M::TIMEOUT, M::RETRY_CNT, M::RNR_RETRY, M::MAX_QP_RD_ATOMIC]);
const MIGRATION: Mask = all([M::ALT_PATH, M::ACCESS_FLAGS, M::PATH_MIG_STATE]);

/// The rule of a transition, or `None` if there is no such transition.
#[must_use]
pub fn rule(service: Service, from: State, to: State) -> Option<Rule> {
    let none = M::NONE;
    let (required, optional) = match (from, to) {
        (_, State::Reset) => (none, none),
        (State::Reset, State::Error) => return None,
        (_, State::Error) => (none, none),
        (State::Reset, State::Init) => (addressing(service), none),
        (State::Init, State::Init) => (none, addressing(service)),
        (State::Init, State::Rtr) => init_to_rtr(service),
        (State::Rtr, State::Rts) => rtr_to_rts(service),
        (State::Rts, State::Rts) | (State::Sqd, State::Rts) => (none, running(service)),
        (State::Rts, State::Sqd) => (none, M::EN_SQD_ASYNC_NOTIFY),
        (State::Sqd, State::Sqd) => (none, drained(service)),
        (State::Sqe, State::Rts) => (none, from_sqe(service)?),
        _ => return None,
    };
    Some(Rule { required, optional })
}

fn addressing(service: Service) -> Mask {
    match service {
        Service::Ud => ADDRESSING_UD,
        _ => ADDRESSING,
    }
}

fn init_to_rtr(service: Service) -> (Mask, Mask) {
    let optional = all([M::ALT_PATH, M::ACCESS_FLAGS, M::PKEY_INDEX]);
    match service {
        Service::Ud => (M::NONE, all([M::PKEY_INDEX, M::QKEY])),
        Service::Uc | Service::XrcInitiator => (PATH, optional),
        Service::Rc | Service::XrcTarget => (PATH.and(TARGET), optional),
    }
}

fn rtr_to_rts(service: Service) -> (Mask, Mask) {
    let required = match service {
        Service::Ud | Service::Uc => M::SQ_PSN,
        Service::Rc | Service::XrcInitiator => M::SQ_PSN.and(RETRIES),
        Service::XrcTarget => M::SQ_PSN.and(M::TIMEOUT),
    };
    (required, running(service))
}

fn running(service: Service) -> Mask {
    M::CUR_STATE.and(match service {
        Service::Ud => M::QKEY,
        Service::Uc | Service::XrcInitiator => MIGRATION,
        Service::Rc | Service::XrcTarget => MIGRATION.and(M::MIN_RNR_TIMER),
    })
}

fn drained(service: Service) -> Mask {
    let connected = all([M::AV, M::PKEY_INDEX]).and(MIGRATION);
    match service {
        Service::Ud => all([M::PKEY_INDEX, M::QKEY]),
        Service::Uc => connected,
        Service::Rc => connected.and(RETRIES).and(TARGET).and(M::PORT),
        Service::XrcInitiator => connected.and(RETRIES).and(M::PORT),
        Service::XrcTarget => connected.and(TARGET).and(M::PORT).and(M::TIMEOUT),
    }
}

/// Only services without acknowledgements enter SQE.
fn from_sqe(service: Service) -> Option<Mask> {
    match service {
        Service::Ud => Some(M::CUR_STATE.and(M::QKEY)),
        Service::Uc => Some(M::CUR_STATE.and(M::ACCESS_FLAGS)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SERVICES: [Service; 5] = [
        Service::Rc,
        Service::Uc,
        Service::Ud,
        Service::XrcInitiator,
        Service::XrcTarget,
    ];
    const STATES: [State; 7] = [
        State::Reset,
        State::Init,
        State::Rtr,
        State::Rts,
        State::Sqd,
        State::Sqe,
        State::Error,
    ];

    #[test]
    fn the_masks_are_those_of_the_header() {
        let rule = |from, to| rule(Service::Rc, from, to).expect("transition");
        assert_eq!(rule(State::Reset, State::Init).required.0, 0x38);
        assert_eq!(rule(State::Init, State::Rtr).required.0, 0x12_9180);
        assert_eq!(rule(State::Rtr, State::Rts).required.0, 0x1_2e00);
    }

    #[test]
    fn the_transitions_are_counted() {
        for service in SERVICES {
            let count = STATES
                .iter()
                .flat_map(|from| STATES.iter().map(move |to| (*from, *to)))
                .filter(|(from, to)| rule(service, *from, *to).is_some())
                .count();
            // 7 to RESET, 6 to ERR, 8 between the others, and the way out of SQE.
            let sqe = usize::from(matches!(service, Service::Ud | Service::Uc));
            assert_eq!(count, 7 + 6 + 8 + sqe, "{service:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_both_required_and_optional(
            service in proptest::sample::select(&SERVICES[..]),
            from in proptest::sample::select(&STATES[..]),
            to in proptest::sample::select(&STATES[..]),
        ) {
            if let Some(rule) = rule(service, from, to) {
                prop_assert_eq!(rule.required.0 & rule.optional.0, 0);
                prop_assert!(!rule.required.and(rule.optional).has(Mask::STATE));
                if service == Service::Ud {
                    let connected = PATH.and(TARGET).and(RETRIES).and(M::ACCESS_FLAGS);
                    prop_assert_eq!(rule.required.and(rule.optional).0 & connected.0, 0);
                }
            }
        }
    }
}
