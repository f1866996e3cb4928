//! ibv_modify_qp(3) of raw packet queue pairs: which attributes each transition has.

use kit::abi::*;
use kit::errno::{Errno, Result};
use uroce_engine::qp::State;

/// Attributes that a transition needs, which are also all that it may have; `None` if there is no
/// such transition. The kernel has the same table (there a rate limit is possible besides, which
/// this device does not have).
fn needed(from: State, to: State) -> Option<u32> {
    match (from, to) {
        (_, State::Reset) => Some(0),
        (State::Reset, State::Error) => None,
        (_, State::Error) => Some(0),
        (State::Reset, State::Init) => Some(IBV_QP_PORT),
        (State::Init, State::Init | State::Rtr)
        | (State::Rtr, State::Rts)
        | (State::Rts, State::Rts | State::Sqd)
        | (State::Sqd, State::Rts | State::Sqd)
        | (State::Sqe, State::Rts) => Some(0),
        _ => None,
    }
}

/// The state that a call leads to.
///
/// # Errors
/// EINVAL for a transition, attribute or value that there is not.
pub fn next(from: State, to: Option<State>, attr: &ibv_qp_attr, mask: u32) -> Result<State> {
    let to = to.unwrap_or(from);
    let needed = needed(from, to).ok_or(Errno::INVAL)?;
    if mask & !IBV_QP_STATE != needed {
        return Err(Errno::INVAL);
    }
    if mask & IBV_QP_PORT != 0 && attr.port_num != crate::device::NUMBER {
        return Err(Errno::INVAL);
    }
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

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
    fn the_transitions_are_counted() {
        let pairs = STATES.iter().flat_map(|from| STATES.map(|to| (*from, to)));
        let count = pairs
            .filter(|(from, to)| needed(*from, *to).is_some())
            .count();
        // 7 to RESET, 6 to ERR, 8 between the others, and the way out of SQE.
        assert_eq!(count, 7 + 6 + 8 + 1);
    }

    #[test]
    fn the_port_is_all_that_is_ever_given() {
        let mut attr = ibv_qp_attr::zeroed();
        let to = |state, mask, attr: &_| next(State::Reset, Some(state), attr, mask);
        let mask = IBV_QP_STATE | IBV_QP_PORT;
        assert_eq!(to(State::Init, mask, &attr), Err(Errno::INVAL));
        attr.port_num = 1;
        assert_eq!(to(State::Init, mask, &attr), Ok(State::Init));
        assert_eq!(to(State::Init, IBV_QP_STATE, &attr), Err(Errno::INVAL));
        let more = mask | IBV_QP_PKEY_INDEX;
        assert_eq!(to(State::Init, more, &attr), Err(Errno::INVAL));
        assert_eq!(to(State::Rts, IBV_QP_STATE, &attr), Err(Errno::INVAL));
        assert_eq!(next(State::Rts, None, &attr, 0), Ok(State::Rts));
        let current = IBV_QP_STATE | IBV_QP_CUR_STATE;
        let answer = next(State::Rtr, Some(State::Rts), &attr, current);
        assert_eq!(answer, Err(Errno::INVAL));
    }
}
