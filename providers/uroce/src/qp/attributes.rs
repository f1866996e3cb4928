//! Attributes of ibv_modify_qp(3) and ibv_query_qp(3): C's numbers and the engine's values.

use kit::abi::*;
use kit::errno::{Errno, Result};
use uroce_engine::psn::Psn;
use uroce_engine::qp::{Access, Attributes, Mask, Modify, Mtu, Service, State};
use uroce_engine::timer::{AckTimeout, RnrTimer};

/// The service of `qp_type`.
///
/// # Errors
/// EOPNOTSUPP for a type of verbs that the protocol does not have, EINVAL for no type of verbs.
pub fn service(qp_type: ibv_qp_type) -> Result<Service> {
    match qp_type {
        IBV_QPT_RC => Ok(Service::Rc),
        IBV_QPT_UC => Ok(Service::Uc),
        IBV_QPT_UD => Ok(Service::Ud),
        IBV_QPT_XRC_SEND => Ok(Service::XrcInitiator),
        IBV_QPT_XRC_RECV => Ok(Service::XrcTarget),
        IBV_QPT_RAW_PACKET | IBV_QPT_DRIVER => Err(Errno::OPNOTSUPP),
        _ => Err(Errno::INVAL),
    }
}

/// `qp_type` of a service.
#[cfg(test)]
fn qp_type(service: Service) -> ibv_qp_type {
    match service {
        Service::Rc => IBV_QPT_RC,
        Service::Uc => IBV_QPT_UC,
        Service::Ud => IBV_QPT_UD,
        Service::XrcInitiator => IBV_QPT_XRC_SEND,
        Service::XrcTarget => IBV_QPT_XRC_RECV,
    }
}

/// C's number of a state.
pub fn qp_state(state: State) -> ibv_qp_state {
    match state {
        State::Reset => IBV_QPS_RESET,
        State::Init => IBV_QPS_INIT,
        State::Rtr => IBV_QPS_RTR,
        State::Rts => IBV_QPS_RTS,
        State::Sqd => IBV_QPS_SQD,
        State::Sqe => IBV_QPS_SQE,
        State::Error => IBV_QPS_ERR,
    }
}

/// The state of C's number.
///
/// # Errors
/// EINVAL for no state.
pub fn state(number: ibv_qp_state) -> Result<State> {
    Ok(match number {
        IBV_QPS_RESET => State::Reset,
        IBV_QPS_INIT => State::Init,
        IBV_QPS_RTR => State::Rtr,
        IBV_QPS_RTS => State::Rts,
        IBV_QPS_SQD => State::Sqd,
        IBV_QPS_SQE => State::Sqe,
        IBV_QPS_ERR => State::Error,
        _ => return Err(Errno::INVAL),
    })
}

/// The name of a state.
pub fn name_of_state(state: State) -> &'static str {
    match state {
        State::Reset => "RESET",
        State::Init => "INIT",
        State::Rtr => "RTR",
        State::Rts => "RTS",
        State::Sqd => "SQD",
        State::Sqe => "SQE",
        State::Error => "ERR",
    }
}

/// The name of a service.
pub fn name_of_service(service: Service) -> &'static str {
    match service {
        Service::Rc => "RC",
        Service::Uc => "UC",
        Service::Ud => "UD",
        Service::XrcInitiator => "XRC_SEND",
        Service::XrcTarget => "XRC_RECV",
    }
}

/// C's number of an MTU.
pub fn mtu_code(mtu: Mtu) -> ibv_mtu {
    match mtu {
        Mtu::B256 => IBV_MTU_256,
        Mtu::B512 => IBV_MTU_512,
        Mtu::B1024 => IBV_MTU_1024,
        Mtu::B2048 => IBV_MTU_2048,
        Mtu::B4096 => IBV_MTU_4096,
    }
}

/// The MTU of C's number.
///
/// # Errors
/// EINVAL for no number of an MTU.
pub fn mtu(code: ibv_mtu) -> Result<Mtu> {
    let code = u8::try_from(code).map_err(|_| Errno::INVAL)?;
    Mtu::from_code(code).ok_or(Errno::INVAL)
}

/// The attributes that a service does not use, and that the kernel removes from the mask of such
/// queue pairs: programs pass both ends of XRC the attributes of RC.
pub fn useless(service: Service) -> u32 {
    match service {
        Service::XrcInitiator => IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
        Service::XrcTarget => IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY,
        _ => 0,
    }
}

/// The rights of `qp_access_flags`. Flags without a meaning for a queue pair, and unknown ones, are
/// ignored, as in the kernel.
fn access(flags: u32) -> Access {
    Access {
        write: flags & IBV_ACCESS_REMOTE_WRITE != 0,
        read: flags & IBV_ACCESS_REMOTE_READ != 0,
        atomic: flags & IBV_ACCESS_REMOTE_ATOMIC != 0,
        flush_global: flags & IBV_ACCESS_FLUSH_GLOBAL != 0,
        flush_persistent: flags & IBV_ACCESS_FLUSH_PERSISTENT != 0,
    }
}

/// Low bits that a field of the protocol has.
const RNR_TIMER_BITS: u8 = 0x1f;
const NUMBER_BITS: u32 = 0x00ff_ffff;

/// The least timeout in force, about 17 ms. A peer answers when one of its threads gets a
/// processor, which a busy host does not give it at once. The firmware of a card answers by itself.
const LEAST_TIMEOUT: u8 = 12;

/// The timeout in force for the one that was asked for. 0 waits for ever.
fn timeout(asked: u8) -> Result<AckTimeout> {
    let least = if asked == 0 { 0 } else { LEAST_TIMEOUT };
    AckTimeout::new(asked.max(least)).ok_or(Errno::INVAL)
}

/// The attributes as kernel drivers take them: numbers keep the bits that the protocol has for them
/// (soft-RoCE and mlx5 do so). A path MTU of 0, or above the port's, is the port's: soft-RoCE takes
/// both, and programs name 4096 without a look at the port. Its packets are cut by IP then, which
/// the sockets here cannot have: the kernel would number them, and the ICRC covers the number.
/// Queries answer the values in force. A member that the mask does not name may be uninitialised,
/// so nothing is decided by it.
pub fn admitted(given: &ibv_qp_attr, mask: u32, port: Mtu) -> ibv_qp_attr {
    let mut attr = *given;
    attr.min_rnr_timer &= RNR_TIMER_BITS;
    attr.dest_qp_num &= NUMBER_BITS;
    attr.rq_psn &= NUMBER_BITS;
    attr.sq_psn &= NUMBER_BITS;
    if mask & IBV_QP_PATH_MTU != 0 {
        attr.path_mtu = path_mtu(attr.path_mtu, port);
    }
    attr
}

/// The path MTU in force for the one that was asked for; one that does not exist stays as it is.
fn path_mtu(asked: ibv_mtu, port: Mtu) -> ibv_mtu {
    let most = mtu_code(port);
    let exists = (IBV_MTU_256..=IBV_MTU_4096).contains(&asked);
    if asked == 0 || exists && asked > most {
        return most;
    }
    asked
}

/// One call of ibv_modify_qp(3) for the engine. Addresses are not in it ([`crate::address::path`]).
///
/// # Errors
/// EINVAL for a value that the mask names and that is out of its range, and for an alternate path,
/// which the port's capabilities do not offer (the kernel's soft-RoCE answers so too).
pub fn modify(attr: &ibv_qp_attr, mask: u32) -> Result<Modify> {
    let mask = Mask(mask);
    let has = |bit| mask.has(bit);
    if has(Mask::ALT_PATH) || has(Mask::PATH_MIG_STATE) && attr.path_mig_state != IBV_MIG_MIGRATED {
        return Err(Errno::INVAL);
    }
    if has(Mask::PORT) && attr.port_num != 1 || has(Mask::PKEY_INDEX) && attr.pkey_index != 0 {
        return Err(Errno::INVAL);
    }
    Ok(Modify {
        mask,
        state: when(has(Mask::STATE), || state(attr.qp_state))?,
        current: when(has(Mask::CUR_STATE), || state(attr.cur_qp_state))?,
        values: values(attr, mask)?,
    })
}

fn values(attr: &ibv_qp_attr, mask: Mask) -> Result<Attributes> {
    let has = |bit| mask.has(bit);
    let flags = has(Mask::ACCESS_FLAGS).then(|| access(attr.qp_access_flags));
    let path_mtu = when(has(Mask::PATH_MTU), || mtu(attr.path_mtu))?;
    let timeout = when(has(Mask::TIMEOUT), || timeout(attr.timeout))?;
    let min_rnr_timer = when(has(Mask::MIN_RNR_TIMER), || {
        RnrTimer::new(attr.min_rnr_timer).ok_or(Errno::INVAL)
    })?;
    let reads = |bit, value: u8| {
        let within = u32::from(value) <= crate::limits::MAX_READS;
        if has(bit) && !within {
            return Err(Errno::INVAL);
        }
        Ok(value)
    };
    Ok(Attributes {
        access: flags.unwrap_or_default(),
        pkey: crate::device::PKEY,
        qkey: attr.qkey,
        path_mtu: path_mtu.unwrap_or_default(),
        dest_qp_num: attr.dest_qp_num,
        rq_psn: Psn::new(attr.rq_psn),
        sq_psn: Psn::new(attr.sq_psn),
        timeout: timeout.unwrap_or_default(),
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        min_rnr_timer: min_rnr_timer.unwrap_or_default(),
        max_rd_atomic: reads(Mask::MAX_QP_RD_ATOMIC, attr.max_rd_atomic)?,
        max_dest_rd_atomic: reads(Mask::MAX_DEST_RD_ATOMIC, attr.max_dest_rd_atomic)?,
        en_sqd_async_notify: attr.en_sqd_async_notify != 0,
    })
}

fn when<T>(wanted: bool, value: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    if wanted { value().map(Some) } else { Ok(None) }
}

/// The engine's values for ibv_query_qp(3).
pub fn report(values: &Attributes, to: &mut ibv_qp_attr) {
    let flag = |given: bool, bit: u32| if given { bit } else { 0 };
    to.path_mtu = mtu_code(values.path_mtu);
    to.path_mig_state = IBV_MIG_MIGRATED;
    to.qkey = values.qkey;
    to.rq_psn = values.rq_psn.value();
    to.sq_psn = values.sq_psn.value();
    to.dest_qp_num = values.dest_qp_num;
    to.qp_access_flags = flag(values.access.write, IBV_ACCESS_REMOTE_WRITE)
        | flag(values.access.read, IBV_ACCESS_REMOTE_READ)
        | flag(values.access.atomic, IBV_ACCESS_REMOTE_ATOMIC)
        | flag(values.access.flush_global, IBV_ACCESS_FLUSH_GLOBAL)
        | flag(values.access.flush_persistent, IBV_ACCESS_FLUSH_PERSISTENT);
    to.en_sqd_async_notify = u8::from(values.en_sqd_async_notify);
    to.max_rd_atomic = values.max_rd_atomic;
    to.max_dest_rd_atomic = values.max_dest_rd_atomic;
    to.min_rnr_timer = values.min_rnr_timer.code();
    to.timeout = values.timeout.code();
    to.retry_cnt = values.retry_cnt;
    to.rnr_retry = values.rnr_retry;
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    #[test]
    fn only_values_that_the_mask_names_are_looked_at() {
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = 99;
        attr.timeout = 77;
        attr.path_mtu = 9;
        attr.port_num = 3;
        assert!(modify(&attr, 0).is_ok());
        for mask in [IBV_QP_STATE, IBV_QP_TIMEOUT, IBV_QP_PATH_MTU, IBV_QP_PORT] {
            assert_eq!(modify(&attr, mask).err(), Some(Errno::INVAL), "{mask:#x}");
        }
    }

    #[test]
    fn modified_attributes_are_reported() {
        let mut attr = ibv_qp_attr::zeroed();
        attr.path_mtu = IBV_MTU_2048;
        attr.qp_access_flags = IBV_ACCESS_REMOTE_READ
            | IBV_ACCESS_REMOTE_ATOMIC
            | IBV_ACCESS_FLUSH_GLOBAL
            | IBV_ACCESS_FLUSH_PERSISTENT;
        attr.timeout = 14;
        attr.min_rnr_timer = 12;
        attr.max_rd_atomic = 3;
        attr.rq_psn = 0x12_3456;
        let mask = IBV_QP_PATH_MTU
            | IBV_QP_ACCESS_FLAGS
            | IBV_QP_TIMEOUT
            | IBV_QP_MIN_RNR_TIMER
            | IBV_QP_MAX_QP_RD_ATOMIC
            | IBV_QP_RQ_PSN;
        let values = modify(&attr, mask).expect("in range").values;
        let mut reported = ibv_qp_attr::zeroed();
        report(&values, &mut reported);
        assert_eq!(reported.path_mtu, attr.path_mtu);
        assert_eq!(reported.qp_access_flags, attr.qp_access_flags);
        assert_eq!(reported.timeout, 14);
        assert_eq!(reported.min_rnr_timer, 12);
        assert_eq!(reported.max_rd_atomic, 3);
        assert_eq!(reported.rq_psn, 0x12_3456);
    }

    #[test]
    fn a_short_timeout_leaves_time_to_be_scheduled() {
        let in_force = |asked| {
            let mut attr = ibv_qp_attr::zeroed();
            attr.timeout = asked;
            modify(&attr, IBV_QP_TIMEOUT).map(|modify| modify.values.timeout.code())
        };
        assert_eq!(in_force(0), Ok(0), "for ever");
        assert_eq!((in_force(1), in_force(4)), (Ok(12), Ok(12)));
        assert_eq!((in_force(13), in_force(31)), (Ok(13), Ok(31)));
        assert_eq!(in_force(32), Err(Errno::INVAL));
    }

    #[test]
    fn bits_beyond_a_field_are_left_out() {
        let mut given = ibv_qp_attr::zeroed();
        given.min_rnr_timer = 0xff;
        given.dest_qp_num = 0xff12_3456;
        given.rq_psn = 0xff00_0001;
        given.sq_psn = 0x0100_0002;
        given.retry_cnt = 8;
        let attr = admitted(&given, IBV_QP_PATH_MTU, Mtu::B1024);
        assert_eq!(attr.min_rnr_timer, 31);
        assert_eq!(attr.dest_qp_num, 0x12_3456);
        assert_eq!((attr.rq_psn, attr.sq_psn), (1, 2));
        assert_eq!(attr.path_mtu, IBV_MTU_1024);
        assert_eq!(attr.retry_cnt, 8, "a count, as in soft-RoCE");
    }

    #[test]
    fn a_path_mtu_is_at_most_the_port_s() {
        let in_force = |asked, port| {
            let mut given = ibv_qp_attr::zeroed();
            given.path_mtu = asked;
            let attr = admitted(&given, IBV_QP_PATH_MTU, port);
            modify(&attr, IBV_QP_PATH_MTU).map(|modify| modify.values.path_mtu)
        };
        assert_eq!(in_force(0, Mtu::B1024), Ok(Mtu::B1024));
        assert_eq!(in_force(IBV_MTU_4096, Mtu::B1024), Ok(Mtu::B1024));
        assert_eq!(in_force(IBV_MTU_512, Mtu::B1024), Ok(Mtu::B512));
        assert_eq!(in_force(IBV_MTU_4096, Mtu::B4096), Ok(Mtu::B4096));
        for no_mtu in [6, 4096, u32::MAX] {
            assert_eq!(in_force(no_mtu, Mtu::B1024), Err(Errno::INVAL));
        }
    }

    #[test]
    fn an_alternate_path_is_not_offered() {
        let attr = ibv_qp_attr::zeroed();
        let answer = modify(&attr, IBV_QP_ALT_PATH).err();
        assert_eq!(answer, Some(Errno::INVAL));
        assert!(modify(&attr, IBV_QP_PATH_MIG_STATE).is_ok());
    }

    #[test]
    fn states_and_types_have_their_numbers() {
        for number in IBV_QPS_RESET..=IBV_QPS_ERR {
            assert_eq!(state(number).map(qp_state), Ok(number));
        }
        for number in [
            IBV_QPT_RC,
            IBV_QPT_UC,
            IBV_QPT_UD,
            IBV_QPT_XRC_SEND,
            IBV_QPT_XRC_RECV,
        ] {
            assert_eq!(service(number).map(qp_type), Ok(number));
        }
        assert_eq!(service(0), Err(Errno::INVAL));
        assert_eq!(service(IBV_QPT_RAW_PACKET), Err(Errno::OPNOTSUPP));
    }

    #[test]
    fn xrc_accepts_the_attributes_of_rc() {
        let target = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        let retries = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
        assert_eq!(useless(Service::XrcInitiator), target);
        assert_eq!(useless(Service::XrcTarget), retries);
        assert_eq!(useless(Service::Rc), 0);
    }
}
