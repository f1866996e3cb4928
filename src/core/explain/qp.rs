#![forbid(unsafe_code)]
//! Why a queue pair is not made or modified (ibv_create_qp(3), ibv_modify_qp(3)).

use super::address::{self, Port, Vector};
use super::memory::Abilities;
use super::{Reasons, member};
use kit::abi::*;
use kit::errno::Errno;
use kit::names;
use uroce_engine::qp::table::{Mask, Rule, rule};
use uroce_engine::qp::{Service, State};

/// A call of ibv_modify_qp(3) that failed.
#[derive(Clone)]
pub struct Modify {
    /// `qp_num`.
    pub number: u32,
    /// `qp_type`.
    pub kind: ibv_qp_type,
    /// The state that the device reported, or the library last knew.
    pub from: ibv_qp_state,
    /// `attr_mask`.
    pub mask: u32,
    /// `attr`.
    pub attr: ibv_qp_attr,
    /// The port of `ah_attr`, or of `port_num`.
    pub port: Port,
    /// The limits of the device.
    pub limits: Limits,
}

/// Limits of the device; 0 where it did not report one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// `max_qp_rd_atom`: reads and atomics as responder.
    pub rd_atom: i64,
    /// `max_qp_init_rd_atom`: the same as requester.
    pub init_rd_atom: i64,
    /// `max_pkeys`.
    pub pkeys: u16,
    /// `max_qp_wr`.
    pub wr: i64,
    /// `max_sge`.
    pub sge: i64,
    /// `max_qp`.
    pub qps: i64,
    /// `max_cqe`.
    pub cqe: i64,
    /// `max_cq`.
    pub cqs: i64,
    /// `max_srq`.
    pub srqs: i64,
    /// `max_srq_wr`.
    pub srq_wr: i64,
    /// `max_srq_sge`.
    pub srq_sge: i64,
    /// `num_comp_vectors` of the context.
    pub vectors: i64,
    /// The optional features of the device.
    pub abilities: Abilities,
}

/// Access flags that every device takes for a queue pair.
const PLAIN_ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC;

impl Modify {
    fn has(&self, bit: u32) -> bool {
        self.mask & bit != 0
    }

    fn to(&self) -> ibv_qp_state {
        if self.has(IBV_QP_STATE) {
            self.attr.qp_state
        } else {
            self.from
        }
    }

    /// The arguments.
    pub fn arguments(&self) -> String {
        format!(
            "QP {:#x} ({}), {} -> {}, {}",
            self.number,
            names::qp_type(self.kind),
            names::qp_state(self.from),
            names::qp_state(self.to()),
            names::bits(self.mask, names::QP_ATTRIBUTES)
        )
    }

    /// Why it was refused.
    pub fn reasons(&self) -> Reasons {
        let mut why = Reasons::default();
        self.transition(&mut why);
        self.values(&mut why);
        self.paths(&mut why);
        if why.is_empty() {
            self.unusual(&mut why);
        }
        self.access(&mut why);
        why
    }

    fn transition(&self, why: &mut Reasons) {
        why.add_if(
            self.has(IBV_QP_CUR_STATE) && self.attr.cur_qp_state != self.from,
            || {
                format!(
                    "cur_qp_state says {}, but the queue pair is in {}.",
                    names::qp_state(self.attr.cur_qp_state),
                    names::qp_state(self.from)
                )
            },
        );
        let Some(service) = service(self.kind) else {
            return;
        };
        let (Some(from), Some(to)) = (state(self.from), state(self.to())) else {
            let to = names::qp_state(self.to());
            why.add_if(state(self.to()).is_none(), || {
                format!("{to} is not a state that can be asked for.")
            });
            return;
        };
        let kind = names::qp_type(self.kind);
        let (left, entered) = (names::qp_state(self.from), names::qp_state(self.to()));
        match rule(service, from, to) {
            None => why.add(format!(
                "There is no transition from {left} to {entered} for {kind} queue pairs{}",
                ways(service, from)
            )),
            Some(rule) => self.attributes(&rule, &kind, &format!("{left} -> {entered}"), why),
        }
    }

    fn attributes(&self, rule: &Rule, kind: &str, transition: &str, why: &mut Reasons) {
        let given = Mask(self.mask)
            .without(Mask::STATE)
            .without(Mask::CUR_STATE);
        let missing = rule.required.without(given);
        why.add_if(!missing.is_empty(), || {
            format!(
                "Missing for {transition} of {kind}: {}.",
                names::bits(missing.0, names::QP_ATTRIBUTES)
            )
        });
        let extra = given.without(rule.required).without(rule.optional);
        why.add_if(!extra.is_empty(), || {
            format!(
                "Not allowed in {transition} of {kind}: {}.",
                names::bits(extra.0, names::QP_ATTRIBUTES)
            )
        });
    }

    fn values(&self, why: &mut Reasons) {
        let a = &self.attr;
        let mut most = |bit: u32, name: &str, value: Value, most: i64| {
            why.add_if(self.has(bit) && most >= 0 && value.number > most, || {
                let value = value.text;
                format!("{name} is {value}, at most {most} is possible.")
            });
        };
        most(IBV_QP_TIMEOUT, "timeout", Value::of(a.timeout), 31);
        let (own, served) = (Value::of(a.max_rd_atomic), Value::of(a.max_dest_rd_atomic));
        let known = |limit: i64| if limit == 0 { -1 } else { limit };
        most(
            IBV_QP_MAX_QP_RD_ATOMIC,
            "max_rd_atomic",
            own,
            known(self.limits.init_rd_atom),
        );
        let name = "max_dest_rd_atomic";
        most(
            IBV_QP_MAX_DEST_RD_ATOMIC,
            name,
            served,
            known(self.limits.rd_atom),
        );
        let pkeys = i64::from(self.limits.pkeys) - 1;
        let index = Value::of(a.pkey_index);
        most(IBV_QP_PKEY_INDEX, "pkey_index", index, pkeys);
        self.mtu(why);
        let ports = self.port.ports;
        let port = a.port_num;
        why.add_if(
            self.has(IBV_QP_PORT) && ports != 0 && (port == 0 || port > ports),
            || {
                let port = member(port);
                format!("port_num is {port}; the device has the ports 1 to {ports}.")
            },
        );
    }

    /// Flags that no device knows; and, where nothing else is wrong, each flag that this device may
    /// refuse: drivers differ in the flags that they accept, and no call reports them.
    fn access(&self, why: &mut Reasons) {
        if !self.has(IBV_QP_ACCESS_FLAGS) {
            return;
        }
        let flags = self.attr.qp_access_flags;
        let known = names::ACCESS
            .iter()
            .fold(IBV_ACCESS_OPTIONAL_RANGE, |sum, (bit, _)| sum | bit);
        why.add_if(flags & !known != 0, || {
            format!(
                "qp_access_flags has {:#x}, which is not known.",
                flags & !known
            )
        });
        if !why.is_empty() {
            return;
        }
        let lacking = self.limits.abilities.lacking_flushes(flags);
        why.add_if(lacking != 0, || {
            format!(
                "qp_access_flags has {}, a flush that the device does not have \
                 (device_cap_flags_ex of ibv_query_device_ex).",
                names::bits(lacking, names::ACCESS)
            )
        });
        let rest = flags & !PLAIN_ACCESS & !IBV_ACCESS_OPTIONAL_RANGE & !lacking;
        why.add_if(rest != 0, || {
            format!(
                "qp_access_flags has {}, which not every device takes for a queue pair: try \
                 without.",
                names::bits(rest, names::ACCESS)
            )
        });
    }

    /// Values that many devices take and some refuse: a reason only where there is no other.
    fn unusual(&self, why: &mut Reasons) {
        let a = &self.attr;
        let values = [
            (IBV_QP_RETRY_CNT, "retry_cnt", Value::of(a.retry_cnt), 7),
            (IBV_QP_RNR_RETRY, "rnr_retry", Value::of(a.rnr_retry), 7),
            (
                IBV_QP_MIN_RNR_TIMER,
                "min_rnr_timer",
                Value::of(a.min_rnr_timer),
                31,
            ),
            (
                IBV_QP_DEST_QPN,
                "dest_qp_num",
                Value::of(a.dest_qp_num),
                0xff_ffff,
            ),
        ];
        for (bit, name, value, most) in values {
            why.add_if(self.has(bit) && value.number > most, || {
                let value = value.text;
                format!("{name} is {value}, at most {most} is possible.")
            });
        }
    }

    fn mtu(&self, why: &mut Reasons) {
        let mtu = self.attr.path_mtu;
        if !self.has(IBV_QP_PATH_MTU) {
            return;
        }
        if !(IBV_MTU_256..=IBV_MTU_4096).contains(&mtu) {
            let mtu = member(mtu);
            why.add(format!(
                "path_mtu is {mtu}, which is not a value of enum ibv_mtu (1 to 5; IBV_MTU_1024 is \
                 3): it is not a number of bytes."
            ));
            return;
        }
        let active = self.port.mtu;
        why.add_if(active != 0 && mtu > active, || {
            format!(
                "path_mtu is {} bytes, the port's active_mtu {} bytes: use the smaller active_mtu \
                 of both ends.",
                names::mtu(mtu),
                names::mtu(active)
            )
        });
    }

    fn paths(&self, why: &mut Reasons) {
        if !self.has(IBV_QP_AV) {
            return;
        }
        address::reasons("ah_attr", &vector(&self.attr.ah_attr), &self.port, why);
    }
}

/// The value of an attribute, and its text.
struct Value {
    number: i64,
    text: String,
}

impl Value {
    fn of<T: Copy + Into<i64> + Into<u64>>(value: T) -> Self {
        Self {
            number: value.into(),
            text: member(value),
        }
    }
}

/// C's address vector.
pub fn vector(a: &ibv_ah_attr) -> Vector {
    Vector {
        port: a.port_num,
        global: a.is_global != 0,
        sgid_index: a.grh.sgid_index,
        dgid: a.grh.dgid.bytes(),
        hop_limit: a.grh.hop_limit,
        dlid: a.dlid,
    }
}

/// Where a queue pair can go from a state.
fn ways(service: Service, from: State) -> String {
    let all = [
        (State::Reset, "RESET"),
        (State::Init, "INIT"),
        (State::Rtr, "RTR"),
        (State::Rts, "RTS"),
        (State::Sqd, "SQD"),
        (State::Error, "ERR"),
    ];
    let ways: Vec<_> = all
        .iter()
        .filter(|(to, _)| rule(service, from, *to).is_some())
        .map(|(_, name)| *name)
        .collect();
    format!("; from there it goes to {}.", ways.join(", "))
}

/// The state of that number, if it is one of the specification's.
pub fn state(state: ibv_qp_state) -> Option<State> {
    Some(match state {
        IBV_QPS_RESET => State::Reset,
        IBV_QPS_INIT => State::Init,
        IBV_QPS_RTR => State::Rtr,
        IBV_QPS_RTS => State::Rts,
        IBV_QPS_SQD => State::Sqd,
        IBV_QPS_SQE => State::Sqe,
        IBV_QPS_ERR => State::Error,
        _ => return None,
    })
}

/// The service of a type, if its transitions are in the table.
fn service(kind: ibv_qp_type) -> Option<Service> {
    Some(match kind {
        IBV_QPT_RC => Service::Rc,
        IBV_QPT_UC => Service::Uc,
        IBV_QPT_UD => Service::Ud,
        IBV_QPT_XRC_SEND => Service::XrcInitiator,
        IBV_QPT_XRC_RECV => Service::XrcTarget,
        _ => return None,
    })
}

/// A queue pair that was not made.
#[derive(Clone, Copy)]
pub struct Create {
    /// `qp_type`.
    pub kind: ibv_qp_type,
    /// `cap`.
    pub cap: ibv_qp_cap,
    /// Whether `send_cq` and `recv_cq` are given.
    pub cqs: (bool, bool),
    /// Whether `srq` is given.
    pub srq: bool,
    /// Whether `pd` is given.
    pub pd: bool,
}

impl Create {
    /// The arguments.
    pub fn arguments(&self) -> String {
        let cap = &self.cap;
        format!(
            "{}, max_send_wr {}, max_recv_wr {}, max_send_sge {}, max_recv_sge {}, \
             max_inline_data {}",
            names::qp_type(self.kind),
            cap.max_send_wr,
            cap.max_recv_wr,
            cap.max_send_sge,
            cap.max_recv_sge,
            cap.max_inline_data
        )
    }

    /// Why it was refused.
    pub fn reasons(&self, limits: &Limits, e: Errno) -> Reasons {
        let mut why = Reasons::default();
        let cap = &self.cap;
        let mut most = |name: &str, value: u32, limit: &str, most: i64| {
            why.add_if(most > 0 && i64::from(value) > most, || {
                let value = member(value);
                format!("{name} is {value}, the device's {limit} is {most}.")
            });
        };
        most("cap.max_send_wr", cap.max_send_wr, "max_qp_wr", limits.wr);
        most("cap.max_send_sge", cap.max_send_sge, "max_sge", limits.sge);
        if !self.srq {
            most("cap.max_recv_wr", cap.max_recv_wr, "max_qp_wr", limits.wr);
            most("cap.max_recv_sge", cap.max_recv_sge, "max_sge", limits.sge);
        }
        let target = self.kind == IBV_QPT_XRC_RECV;
        why.add_if(!self.cqs.0 && !target, || "send_cq is NULL.".to_owned());
        let initiator = self.kind == IBV_QPT_XRC_SEND;
        why.add_if(!self.cqs.1 && !target && !initiator, || {
            "recv_cq is NULL.".to_owned()
        });
        why.add_if(!self.pd && !target, || {
            "No protection domain is given.".to_owned()
        });
        why.add_if(
            service(self.kind).is_none() && self.kind != IBV_QPT_RAW_PACKET,
            || {
                format!(
                    "qp_type is {}, which is not one of the common types.",
                    self.kind
                )
            },
        );
        let inline = cap.max_inline_data;
        why.add_most(e, "queue pairs", "max_qp", limits.qps);
        // No attribute of a device contains this limit.
        let alone = why.is_empty();
        why.add_if(alone && inline > 0, || {
            let inline = member(inline);
            format!(
                "cap.max_inline_data is {inline}, which may be more than the device takes: try \
                 less; ibv_create_qp returns what the queue pair got in cap.max_inline_data."
            )
        });
        why
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    fn modify(kind: ibv_qp_type, from: ibv_qp_state, to: ibv_qp_state, mask: u32) -> Modify {
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = to;
        attr.path_mtu = IBV_MTU_1024;
        attr.port_num = 1;
        Modify {
            number: 17,
            kind,
            from,
            mask: mask | IBV_QP_STATE,
            attr,
            port: Port {
                ports: 1,
                ..Port::default()
            },
            limits: Limits::default(),
        }
    }

    #[test]
    fn missing_and_extra_attributes_are_named() {
        let mask = IBV_QP_PORT | IBV_QP_QKEY;
        let m = modify(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, mask);
        let text = m.reasons().text();
        assert!(text.contains("Missing for RESET -> INIT of RC: IBV_QP_ACCESS_FLAGS|"));
        assert!(text.contains("Not allowed in RESET -> INIT of RC: IBV_QP_QKEY."));
        assert!(
            m.arguments()
                .contains("QP 0x11 (RC), RESET -> INIT, IBV_QP_STATE|")
        );
    }

    #[test]
    fn impossible_transitions_name_the_possible_ones() {
        let m = modify(IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_RTS, 0);
        let text = m.reasons().text();
        assert!(text.contains("no transition from RESET to RTS"));
        assert!(text.contains("it goes to RESET, INIT."));
    }

    #[test]
    fn values_out_of_range_are_named() {
        let mask = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN;
        let mask = mask | IBV_QP_MAX_QP_RD_ATOMIC;
        let mut m = modify(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, mask);
        m.attr.retry_cnt = 8;
        assert!(m.reasons().text().contains("retry_cnt is 8, at most 7"));
        m.attr.retry_cnt = u8::MAX;
        let text = m.reasons().text();
        assert!(text.contains("retry_cnt is 255 (-1 in 8 bits), at most 7"));
        // Where there is another reason, that is it.
        m.attr.timeout = 32;
        let text = m.reasons().text();
        assert!(text.contains("timeout is 32, at most 31"));
        assert!(!text.contains("retry_cnt"));
        let mut m = modify(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_PATH_MTU);
        m.attr.path_mtu = 1024;
        assert!(m.reasons().text().contains("not a number of bytes"));
        m.attr.path_mtu = IBV_MTU_4096;
        m.port.mtu = IBV_MTU_1024;
        assert!(
            m.reasons()
                .text()
                .contains("path_mtu is 4096 bytes, the port's active_mtu 1024")
        );
    }

    #[test]
    fn access_flags_that_may_be_refused_are_named() {
        let mask = IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
        let mut m = modify(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, mask);
        m.limits.pkeys = 1;
        m.attr.qp_access_flags = PLAIN_ACCESS | IBV_ACCESS_RELAXED_ORDERING | 1 << 10;
        assert_eq!(
            m.reasons().text(),
            "qp_access_flags has 0x400, which is not known."
        );
        m.attr.qp_access_flags =
            PLAIN_ACCESS | IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;
        let both = "IBV_ACCESS_FLUSH_GLOBAL|IBV_ACCESS_FLUSH_PERSISTENT";
        let not_every = "which not every device takes for a queue pair: try without.";
        // The device's limits are unknown.
        assert_eq!(
            m.reasons().text(),
            format!("qp_access_flags has {both}, {not_every}")
        );
        m.limits.abilities.capabilities = Some(1 << 38);
        m.attr.qp_access_flags |= IBV_ACCESS_ZERO_BASED;
        let text = m.reasons().text();
        assert!(
            text.contains(
                "qp_access_flags has IBV_ACCESS_FLUSH_PERSISTENT, a flush that the device does \
                 not have"
            ),
            "{text}"
        );
        let rest = "IBV_ACCESS_ZERO_BASED|IBV_ACCESS_FLUSH_GLOBAL";
        assert!(
            text.contains(&format!("qp_access_flags has {rest}, {not_every}")),
            "{text}"
        );
        // A certain reason suppresses others, and flags that every device accepts are not reasons.
        m.attr.port_num = 2;
        assert!(!m.reasons().text().contains("qp_access_flags"));
        m.attr.port_num = 1;
        m.attr.qp_access_flags = PLAIN_ACCESS;
        assert_eq!(m.reasons().text(), "");
    }

    #[test]
    fn a_call_with_nothing_wrong_has_no_reasons() {
        let mask = IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
        let mut m = modify(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, mask);
        m.limits.pkeys = 1;
        assert_eq!(m.reasons().text(), "");
    }

    #[test]
    fn limits_that_were_passed_stand_beside_the_devices() {
        let create = Create {
            kind: IBV_QPT_RC,
            cap: ibv_qp_cap {
                max_send_wr: 100_000,
                ..ibv_qp_cap::zeroed()
            },
            cqs: (true, false),
            srq: false,
            pd: true,
        };
        let limits = Limits {
            wr: 16384,
            ..Limits::default()
        };
        let text = create.reasons(&limits, Errno::INVAL).text();
        assert!(text.contains("cap.max_send_wr is 100000, the device's max_qp_wr is 16384."));
        assert!(text.contains("recv_cq is NULL."));
    }
}
