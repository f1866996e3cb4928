//! Work requests and completions.

use crate::wire::ImmDt;
use smallvec::SmallVec;

/// The longest message: 2^30 bytes, so that even with the smallest MTU its packets take a quarter
/// of the PSN circle.
pub const MAX_MESSAGE: u32 = 1 << 30;

/// A piece of local memory (`struct ibv_sge`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// Address of the first byte.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// L_Key.
    pub lkey: u32,
}

/// Pieces of local memory. Most requests have one.
pub type Sges = SmallVec<[Sge; 2]>;

/// Bytes that were copied when their request was posted. Most are few.
pub type Bytes = SmallVec<[u8; 32]>;

/// A place in the peer's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// Virtual address.
    pub address: u64,
    /// R_Key.
    pub rkey: u32,
}

/// The operation of a work request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `IBV_WR_SEND`.
    Send,
    /// `IBV_WR_SEND_WITH_IMM`.
    SendImm(ImmDt),
    /// `IBV_WR_SEND_WITH_INV`: the peer's R_Key.
    SendInvalidate(u32),
    /// `IBV_WR_RDMA_WRITE`.
    Write(Remote),
    /// `IBV_WR_RDMA_WRITE_WITH_IMM`.
    WriteImm(Remote, ImmDt),
    /// `IBV_WR_RDMA_READ`.
    Read(Remote),
    /// `IBV_WR_ATOMIC_CMP_AND_SWP`.
    CompareSwap {
        /// Where.
        remote: Remote,
        /// Compared with.
        compare: u64,
        /// Stored if equal.
        swap: u64,
    },
    /// `IBV_WR_ATOMIC_FETCH_AND_ADD`.
    FetchAdd {
        /// Where.
        remote: Remote,
        /// Added.
        add: u64,
    },
    /// `IBV_WR_ATOMIC_WRITE`: 8 bytes in the order in which they lie in memory.
    AtomicWrite(Remote, [u8; 8]),
    /// `IBV_WR_FLUSH`.
    Flush {
        /// Where.
        remote: Remote,
        /// Bytes.
        length: u32,
        /// [`crate::wire::feth::GLOBAL`], [`crate::wire::feth::PERSISTENT`].
        placement: u8,
        /// [`crate::wire::feth::RANGE`] or [`crate::wire::feth::REGION`].
        selectivity: u8,
    },
    /// `IBV_WR_LOCAL_INV`: the local R_Key.
    LocalInvalidate(u32),
    /// `IBV_WR_BIND_MW`: the host's number of the binding.
    Bind(u64),
}

impl Request {
    /// Whether it is carried out here, without a packet.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self, Self::LocalInvalidate(_) | Self::Bind(_))
    }

    /// Whether the peer answers it with a separate response rather than an acknowledgement.
    #[must_use]
    pub fn has_response(&self) -> bool {
        matches!(
            self,
            Self::Read(_)
                | Self::CompareSwap { .. }
                | Self::FetchAdd { .. }
                | Self::AtomicWrite(..)
                | Self::Flush { .. }
        )
    }

    /// Whether it takes a receive request from the peer's queue.
    #[must_use]
    pub fn takes_receive(&self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendImm(_) | Self::SendInvalidate(_) | Self::WriteImm(..)
        )
    }

    /// The opcode of its completion.
    #[must_use]
    pub fn completion_opcode(&self) -> CompletionOpcode {
        match self {
            Self::Send | Self::SendImm(_) | Self::SendInvalidate(_) => CompletionOpcode::Send,
            Self::Write(_) | Self::WriteImm(..) => CompletionOpcode::Write,
            Self::Read(_) => CompletionOpcode::Read,
            Self::CompareSwap { .. } => CompletionOpcode::CompareSwap,
            Self::FetchAdd { .. } => CompletionOpcode::FetchAdd,
            Self::AtomicWrite(..) => CompletionOpcode::AtomicWrite,
            Self::Flush { .. } => CompletionOpcode::Flush,
            Self::LocalInvalidate(_) => CompletionOpcode::LocalInvalidate,
            Self::Bind(_) => CompletionOpcode::Bind,
        }
    }
}

/// The data of a work request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Local memory, gathered or scattered in order.
    Sges(Sges),
    /// Bytes copied when the request was posted (`IBV_SEND_INLINE`).
    Inline(Bytes),
}

impl Default for Data {
    fn default() -> Self {
        Self::Sges(Sges::new())
    }
}

impl Data {
    /// Bytes in all; `None` if more than [`MAX_MESSAGE`].
    #[must_use]
    pub fn length(&self) -> Option<u32> {
        let total: u64 = match self {
            Self::Sges(sges) => sges.iter().map(|sge| u64::from(sge.length)).sum(),
            Self::Inline(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        };
        u32::try_from(total)
            .ok()
            .filter(|total| *total <= MAX_MESSAGE)
    }
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Destination {
    /// The host's name for the address handle.
    pub address: u64,
    /// Remote QP number.
    pub qpn: u32,
    /// Remote Q_Key; with the highest bit set, the queue pair's own is sent (IBTA 10.2.5).
    pub qkey: u32,
}

/// A send work request (`struct ibv_send_wr`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// `wr_id`.
    pub id: u64,
    /// The operation.
    pub request: Request,
    /// The data.
    pub data: Data,
    /// `IBV_SEND_SIGNALED`.
    pub signaled: bool,
    /// `IBV_SEND_SOLICITED`.
    pub solicited: bool,
    /// `IBV_SEND_FENCE`.
    pub fence: bool,
    /// UD: where to.
    pub destination: Option<Destination>,
    /// XRC: the peer's shared receive queue.
    pub srqn: u32,
}

impl WorkRequest {
    /// A signalled request without data.
    #[must_use]
    pub fn new(id: u64, request: Request) -> Self {
        Self {
            id,
            request,
            data: Data::default(),
            signaled: true,
            solicited: false,
            fence: false,
            destination: None,
            srqn: 0,
        }
    }
}

/// A receive work request (`struct ibv_recv_wr`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receive {
    /// `wr_id`.
    pub id: u64,
    /// Where to scatter to.
    pub sges: Sges,
}

impl Receive {
    /// Bytes of room.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.sges.iter().map(|sge| u64::from(sge.length)).sum()
    }
}

/// `enum ibv_wc_status`.
#[allow(missing_docs, reason = "the names are those of enum ibv_wc_status")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Status {
    Success = 0,
    LocLen = 1,
    LocQpOp = 2,
    LocProt = 4,
    WrFlush = 5,
    MwBind = 6,
    BadResp = 7,
    LocAccess = 8,
    RemInvReq = 9,
    RemAccess = 10,
    RemOp = 11,
    RetryExc = 12,
    RnrRetryExc = 13,
}

/// `enum ibv_wc_opcode`.
#[allow(missing_docs, reason = "the names are those of enum ibv_wc_opcode")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompletionOpcode {
    Send,
    Write,
    Read,
    CompareSwap,
    FetchAdd,
    Bind,
    LocalInvalidate,
    AtomicWrite,
    Flush,
    Receive,
    ReceiveWithImm,
}

/// A completion (`struct ibv_wc`). Whether it is one of the receive queue is in the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// `wr_id`.
    pub id: u64,
    /// `status`.
    pub status: Status,
    /// `opcode`.
    pub opcode: CompletionOpcode,
    /// `byte_len`.
    pub length: u32,
    /// `imm_data`, with `IBV_WC_WITH_IMM`.
    pub immediate: Option<ImmDt>,
    /// `invalidated_rkey`, with `IBV_WC_WITH_INV`.
    pub invalidated: Option<u32>,
    /// `src_qp`.
    pub source: u32,
    /// `IBV_WC_GRH`: the first 40 bytes of the buffer are the network header, of this kind.
    pub grh: Option<Network>,
    /// Whether an event asked for solicited completions only is due. Errors always count.
    pub solicited: bool,
    /// XRC: the shared receive queue that the receive request came from.
    pub srqn: Option<u32>,
}

impl Completion {
    /// A completion with only its identity.
    #[must_use]
    pub fn new(id: u64, status: Status, opcode: CompletionOpcode) -> Self {
        Self {
            id,
            status,
            opcode,
            length: 0,
            immediate: None,
            invalidated: None,
            source: 0,
            grh: None,
            solicited: status != Status::Success,
            srqn: None,
        }
    }

    /// Whether the completion is one of the receive queue.
    #[must_use]
    pub fn is_receive(&self) -> bool {
        matches!(
            self.opcode,
            CompletionOpcode::Receive | CompletionOpcode::ReceiveWithImm
        )
    }
}

/// The network that carried a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// The header is the last 20 of the 40 bytes.
    Ipv4,
    /// The header is all of them.
    Ipv6,
}

impl Network {
    /// By the version in front of an IPv6 header; before one of IPv4 are zeroes.
    pub(crate) fn of(grh: &[u8; 40]) -> Self {
        match grh {
            [first, ..] if first >> 4 == 6 => Self::Ipv6,
            _ => Self::Ipv4,
        }
    }
}

/// Asynchronous events of a queue pair (`enum ibv_event_type`).
#[allow(missing_docs, reason = "the names are those of enum ibv_event_type")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    CommEst,
    SqDrained,
    LastWqeReached,
    QpFatal,
    QpReqErr,
    QpAccessErr,
}
