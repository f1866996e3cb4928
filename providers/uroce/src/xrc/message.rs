//! The messages between the processes of a domain, as bytes.
//!
//! They are processes of one user; received messages are still checked.

use crate::device::gid_of;
use bytemuck::Zeroable;
use kit::abi::*;
use std::net::Ipv6Addr;
use uroce_engine::psn::Psn;
use uroce_engine::qp::{Answered, Rest};
use uroce_engine::wire::Opcode;
use uroce_engine::wire::Transport;

/// A call to the owner of a target, from a process that has opened it.
#[derive(Clone, Copy)]
pub enum Call {
    /// ibv_open_qp(3).
    Open,
    /// ibv_destroy_qp(3) of an opened queue pair.
    Close,
    /// ibv_query_qp(3).
    Query,
    /// ibv_modify_qp(3), with its mask.
    Modify(ibv_qp_attr, u32),
}

/// One message. `qpn` is the number of a target.
pub enum Message<'a> {
    /// The first on a connection: the slot of the process that made it.
    Hello(u16),
    /// Owner to delegate: continue receiving with these attributes. The second is the number of the
    /// delegation.
    Delegate(u32, u32, ibv_qp_attr, Rest),
    /// Owner to delegate: the attributes are others from now on.
    Change(u32, ibv_qp_attr),
    /// Owner to delegate: a packet, as in a ring.
    Packet(u32, &'a [u8]),
    /// Owner to delegate: return the target when no message is half received, or at once.
    Revoke(u32, bool),
    /// Owner to a process that may take the target over: its [`super::TakeoverState`], in two
    /// descriptors.
    TakeoverState(u32),
    /// Successor to delegate: the owner is this process from now on; report the state of the
    /// delegation of that number. The last is the slot of the former owner.
    TakenOver(u32, u32, u16),
    /// Delegate to owner: the received state so far.
    Rest(u32, DelegateState, Rest),
    /// An event of the queue pair: delegate to owner, and owner to the openers.
    Event(u32, ibv_event_type),
    /// A call with its number.
    Call(u64, u32, Call),
    /// The answer: 0 or an errno, and attributes if they were asked for.
    Answer(u64, i32, Option<ibv_qp_attr>),
}

/// The state of a delegation, as the delegate reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelegateState {
    /// The delegate executes the target.
    Running,
    /// The delegate has returned the target.
    Returned,
    /// The delegate has returned the target, in ERR.
    Failed,
    /// The delegate has never received the target.
    Unknown,
}

const HELLO: u8 = 1;
const DELEGATE: u8 = 2;
const CHANGE: u8 = 3;
const PACKET: u8 = 4;
const REVOKE: u8 = 5;
const REST: u8 = 6;
const EVENT: u8 = 7;
const CALL: u8 = 8;
const ANSWER: u8 = 9;
const TAKEOVER_STATE: u8 = 10;
const TAKEN_OVER: u8 = 11;

const OPEN: u8 = 0;
const CLOSE: u8 = 1;
const QUERY: u8 = 2;
const MODIFY: u8 = 3;

/// The most answers that a rest has: `max_dest_rd_atomic` is a byte.
const MOST_ANSWERED: u16 = 256;

macro_rules! members {
    ($whole:ident: $($($part:ident).+;)*) => {
        fn write_members(to: &mut Vec<u8>, $whole: &ibv_qp_attr) {
            $( to.extend_from_slice(&$whole.$($part).+.to_ne_bytes()); )*
        }

        fn read_members(from: &mut Reader<'_>, $whole: &mut ibv_qp_attr) -> Option<()> {
            $( $whole.$($part).+ = Member::read(from)?; )*
            Some(())
        }
    };
}

members! { attr:
    qp_state; cur_qp_state; path_mtu; path_mig_state; qkey; rq_psn; sq_psn; dest_qp_num;
    qp_access_flags;
    cap.max_send_wr; cap.max_recv_wr; cap.max_send_sge; cap.max_recv_sge; cap.max_inline_data;
    ah_attr.grh.flow_label; ah_attr.grh.sgid_index; ah_attr.grh.hop_limit;
    ah_attr.grh.traffic_class; ah_attr.dlid; ah_attr.sl; ah_attr.src_path_bits;
    ah_attr.static_rate; ah_attr.is_global; ah_attr.port_num;
    pkey_index; alt_pkey_index; en_sqd_async_notify; sq_draining; max_rd_atomic;
    max_dest_rd_atomic; min_rnr_timer; port_num; timeout; retry_cnt; rnr_retry; alt_port_num;
    alt_timeout; rate_limit;
}

/// The rest to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

trait Member: Sized {
    fn read(from: &mut Reader<'_>) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty)*) => { $(
        impl Member for $number {
            fn read(from: &mut Reader<'_>) -> Option<Self> {
                Some(Self::from_ne_bytes(from.take()?))
            }
        }
    )* };
}
numbers! { u8 u16 u32 u64 i32 }

fn write_attr(to: &mut Vec<u8>, attr: &ibv_qp_attr) {
    write_members(to, attr);
    to.extend_from_slice(&attr.ah_attr.grh.dgid.bytes());
}

fn read_attr(from: &mut Reader<'_>) -> Option<ibv_qp_attr> {
    let mut attr = ibv_qp_attr::zeroed();
    read_members(from, &mut attr)?;
    attr.ah_attr.grh.dgid = gid_of(Ipv6Addr::from(from.take()?).to_canonical());
    Some(attr)
}

/// The state of a target that its owner stores for a successor.
#[derive(Clone)]
pub struct Record {
    /// Its attributes, state among them.
    pub attr: ibv_qp_attr,
    /// The received state.
    pub rest: Rest,
    /// The slot of the delegate; 0 without one.
    pub delegate: u16,
    /// The number of the latest delegation.
    pub delegation: u32,
    /// The slots of other processes that have it open, each as often as it has.
    pub openers: Vec<u16>,
}

impl Record {
    /// The bytes.
    pub fn emit(&self) -> Vec<u8> {
        let mut to = Vec::new();
        to.extend_from_slice(&self.delegate.to_ne_bytes());
        to.extend_from_slice(&self.delegation.to_ne_bytes());
        write_attr(&mut to, &self.attr);
        write_rest(&mut to, &self.rest);
        for opener in &self.openers {
            to.extend_from_slice(&opener.to_ne_bytes());
        }
        to
    }

    /// Reads the bytes; `None` if they are not such.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let from = &mut Reader(bytes);
        let (delegate, delegation) = (u16::read(from)?, u32::read(from)?);
        let (attr, rest) = (read_attr(from)?, read_rest(from)?);
        let mut openers = Vec::new();
        while let Some(opener) = u16::read(from) {
            openers.push(opener);
        }
        Some(Self {
            attr,
            rest,
            delegate,
            delegation,
            openers,
        })
    }
}

fn write_rest(to: &mut Vec<u8>, rest: &Rest) {
    to.extend_from_slice(&rest.expected.value().to_ne_bytes());
    to.extend_from_slice(&rest.msn.value().to_ne_bytes());
    to.push(u8::from(rest.nak_sent));
    let count = u16::try_from(rest.answered.len()).unwrap_or(u16::MAX);
    to.extend_from_slice(&count.to_ne_bytes());
    for answered in &rest.answered {
        let opcode = Opcode::new(Transport::Xrc, answered.operation).map_or(0, Opcode::byte);
        to.extend_from_slice(&answered.psn.value().to_ne_bytes());
        to.extend_from_slice(&[opcode, u8::from(answered.found.is_some())]);
        to.extend_from_slice(&answered.found.unwrap_or(0).to_ne_bytes());
    }
}

fn read_rest(from: &mut Reader<'_>) -> Option<Rest> {
    let expected = Psn::new(Member::read(from)?);
    let msn = Psn::new(Member::read(from)?);
    let nak_sent = u8::read(from)? != 0;
    let count = u16::read(from)?;
    let mut answered = Vec::new();
    for _ in 0..count.min(MOST_ANSWERED) {
        let psn = Psn::new(Member::read(from)?);
        let operation = Opcode::parse(u8::read(from)?)?.operation();
        let is_found = u8::read(from)? != 0;
        let found = u64::read(from)?;
        answered.push(Answered {
            psn,
            operation,
            found: is_found.then_some(found),
        });
    }
    Some(Rest {
        expected,
        msn,
        nak_sent,
        answered,
    })
}

impl<'a> Message<'a> {
    /// The bytes.
    pub fn emit(&self) -> Vec<u8> {
        let mut to = Vec::new();
        let begin = |to: &mut Vec<u8>, kind: u8, qpn: u32| {
            to.push(kind);
            to.extend_from_slice(&qpn.to_ne_bytes());
        };
        match self {
            Self::Hello(slot) => begin(&mut to, HELLO, u32::from(*slot)),
            Self::Delegate(qpn, delegation, attr, rest) => {
                begin(&mut to, DELEGATE, *qpn);
                to.extend_from_slice(&delegation.to_ne_bytes());
                write_attr(&mut to, attr);
                write_rest(&mut to, rest);
            }
            Self::Change(qpn, attr) => {
                begin(&mut to, CHANGE, *qpn);
                write_attr(&mut to, attr);
            }
            Self::Packet(qpn, bytes) => {
                begin(&mut to, PACKET, *qpn);
                to.extend_from_slice(bytes);
            }
            Self::Revoke(qpn, hard) => {
                begin(&mut to, REVOKE, *qpn);
                to.push(u8::from(*hard));
            }
            Self::Rest(qpn, state, rest) => {
                begin(&mut to, REST, *qpn);
                to.push(match state {
                    DelegateState::Running => 0,
                    DelegateState::Returned => 1,
                    DelegateState::Failed => 2,
                    DelegateState::Unknown => 3,
                });
                write_rest(&mut to, rest);
            }
            Self::TakeoverState(qpn) => begin(&mut to, TAKEOVER_STATE, *qpn),
            Self::TakenOver(qpn, delegation, former) => {
                begin(&mut to, TAKEN_OVER, *qpn);
                to.extend_from_slice(&delegation.to_ne_bytes());
                to.extend_from_slice(&former.to_ne_bytes());
            }
            Self::Event(qpn, event) => {
                begin(&mut to, EVENT, *qpn);
                to.extend_from_slice(&event.to_ne_bytes());
            }
            Self::Call(id, qpn, call) => {
                begin(&mut to, CALL, *qpn);
                to.extend_from_slice(&id.to_ne_bytes());
                match call {
                    Call::Open => to.push(OPEN),
                    Call::Close => to.push(CLOSE),
                    Call::Query => to.push(QUERY),
                    Call::Modify(attr, mask) => {
                        to.push(MODIFY);
                        to.extend_from_slice(&mask.to_ne_bytes());
                        write_attr(&mut to, attr);
                    }
                }
            }
            Self::Answer(id, code, attr) => {
                begin(&mut to, ANSWER, 0);
                to.extend_from_slice(&id.to_ne_bytes());
                to.extend_from_slice(&code.to_ne_bytes());
                to.push(u8::from(attr.is_some()));
                if let Some(attr) = attr {
                    write_attr(&mut to, attr);
                }
            }
        }
        to
    }

    /// Reads the bytes; `None` if they are not such.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let from = &mut Reader(bytes);
        let kind = u8::read(from)?;
        let qpn = u32::read(from)?;
        Some(match kind {
            HELLO => Self::Hello(u16::try_from(qpn).ok()?),
            DELEGATE => Self::Delegate(qpn, u32::read(from)?, read_attr(from)?, read_rest(from)?),
            TAKEOVER_STATE => Self::TakeoverState(qpn),
            TAKEN_OVER => Self::TakenOver(qpn, u32::read(from)?, u16::read(from)?),
            CHANGE => Self::Change(qpn, read_attr(from)?),
            PACKET => Self::Packet(qpn, from.rest()),
            REVOKE => Self::Revoke(qpn, u8::read(from)? != 0),
            REST => {
                let state = match u8::read(from)? {
                    0 => DelegateState::Running,
                    1 => DelegateState::Returned,
                    2 => DelegateState::Failed,
                    3 => DelegateState::Unknown,
                    _ => return None,
                };
                Self::Rest(qpn, state, read_rest(from)?)
            }
            EVENT => Self::Event(qpn, u32::read(from)?),
            CALL => Self::Call(u64::read(from)?, qpn, read_call(from)?),
            ANSWER => {
                let (id, code) = (u64::read(from)?, i32::read(from)?);
                let has_attr = u8::read(from)? != 0;
                let attr = if has_attr {
                    Some(read_attr(from)?)
                } else {
                    None
                };
                Self::Answer(id, code, attr)
            }
            _ => return None,
        })
    }
}

fn read_call(from: &mut Reader<'_>) -> Option<Call> {
    Some(match u8::read(from)? {
        OPEN => Call::Open,
        CLOSE => Call::Close,
        QUERY => Call::Query,
        MODIFY => {
            let mask = u32::read(from)?;
            Call::Modify(read_attr(from)?, mask)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use uroce_engine::wire::Operation;

    fn rest() -> Rest {
        let answered = |psn, operation, found| Answered {
            psn: Psn::new(psn),
            operation,
            found,
        };
        Rest {
            expected: Psn::new(77),
            msn: Psn::new(5),
            nak_sent: true,
            answered: vec![
                answered(70, Operation::FetchAdd, Some(9)),
                answered(71, Operation::Flush, None),
            ],
        }
    }

    #[test]
    fn a_rest_is_read_as_it_was_written() {
        let bytes = Message::Rest(3, DelegateState::Failed, rest()).emit();
        let Some(Message::Rest(3, DelegateState::Failed, read)) = Message::parse(&bytes) else {
            panic!("another message");
        };
        assert_eq!(read, rest());
    }

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let mut attr = ibv_qp_attr::zeroed();
        attr.dest_qp_num = 0x12_3456;
        attr.min_rnr_timer = 12;
        attr.ah_attr.grh.dgid = gid_of([10, 1, 2, 3].into());
        attr.ah_attr.grh.sgid_index = 1;
        let bytes = Message::Call(8, 9, Call::Modify(attr, 0x55)).emit();
        let Some(Message::Call(8, 9, Call::Modify(read, 0x55))) = Message::parse(&bytes) else {
            panic!("another message");
        };
        assert_eq!(read.dest_qp_num, attr.dest_qp_num);
        assert_eq!(read.min_rnr_timer, 12);
        assert_eq!(read.ah_attr.grh.sgid_index, 1);
        let gid = |attr: &ibv_qp_attr| attr.ah_attr.grh.dgid.bytes();
        assert_eq!(gid(&read), gid(&attr));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(message) = Message::parse(&bytes) {
                let again = message.emit();
                prop_assert_eq!(again.first(), bytes.first());
            }
        }
    }
}
