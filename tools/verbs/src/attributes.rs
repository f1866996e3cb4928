//! What a queue pair reports about itself.
#![forbid(unsafe_code)]

use kit::abi::{IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE};

use crate::{memory::Access, state::State, sys::calls::Queried};

/// The attributes of a queue pair: ibv_query_qp(3)
/// ([`QueuePair::attributes`](crate::QueuePair::attributes)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuePairAttributes {
    /// Its state.
    pub state: State,
    /// Whether requests are still being executed, in the state [`State::Drained`].
    pub is_draining: bool,
    /// The path MTU: `enum ibv_mtu`.
    pub mtu: u8,
    /// The peer's queue pair, of a connection.
    pub peer: u32,
    /// The GID of the peer; zeros if packets have no global routing header.
    pub peer_gid: [u8; 16],
    /// The packet sequence number that it expects next.
    pub receive_psn: u32,
    /// The packet sequence number that it sends next.
    pub send_psn: u32,
    /// What the peer may do.
    pub access: Access,
    /// The key, of datagrams.
    pub qkey: u32,
    /// The port.
    pub port: u8,
    /// The index of the partition key.
    pub pkey_index: u16,
    /// How long the peer may take to acknowledge a packet: 4.096 µs times two to this power.
    pub timeout: u8,
    /// How often a packet is repeated.
    pub retries: u8,
    /// How often a message is repeated while the peer has no receive request; 7 is for ever.
    pub rnr_retries: u8,
    /// How long the peer waits before it repeats such a message, as a code.
    pub rnr_timer: u8,
    /// How many RDMA reads and atomic operations it has in flight at once.
    pub reads: u8,
    /// How many RDMA reads and atomic operations of the peer it answers at once.
    pub peer_reads: u8,
    /// How many send requests it takes.
    pub sends: u32,
    /// How many receive requests it takes.
    pub receives: u32,
    /// How many segments a send request may have.
    pub send_segments: u32,
    /// How many segments a receive request may have.
    pub receive_segments: u32,
    /// How many bytes an inline request may have.
    pub inline: u32,
    /// The limit of its rate in kbit/s; 0 is none.
    pub rate_limit: u32,
}

impl QueuePairAttributes {
    pub(crate) fn of(queried: &Queried) -> Self {
        let (attr, cap) = (&queried.attr, queried.cap);
        let known = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
        Self {
            state: State::of(attr.qp_state),
            is_draining: attr.sq_draining != 0,
            mtu: u8::try_from(attr.path_mtu).unwrap_or(0),
            peer: attr.dest_qp_num,
            peer_gid: match attr.ah_attr.is_global {
                0 => [0; 16],
                _ => attr.ah_attr.grh.dgid.bytes(),
            },
            receive_psn: attr.rq_psn,
            send_psn: attr.sq_psn,
            access: Access::of_bits(attr.qp_access_flags & known),
            qkey: attr.qkey,
            port: attr.port_num,
            pkey_index: attr.pkey_index,
            timeout: attr.timeout,
            retries: attr.retry_cnt,
            rnr_retries: attr.rnr_retry,
            rnr_timer: attr.min_rnr_timer,
            reads: attr.max_rd_atomic,
            peer_reads: attr.max_dest_rd_atomic,
            sends: cap.max_send_wr,
            receives: cap.max_recv_wr,
            send_segments: cap.max_send_sge,
            receive_segments: cap.max_recv_sge,
            inline: cap.max_inline_data,
            rate_limit: attr.rate_limit,
        }
    }
}
