#![forbid(unsafe_code)]
//! Work requests as providers see them.

use super::Pieces;
use super::Provider;
use crate::abi::{IBV_WR_LOCAL_INV, IBV_WR_SEND_WITH_INV, ibv_sge, ibv_wr_opcode};
use crate::errno::Result;
use std::sync::Arc;

/// Bytes that the application wants to be copied while it posts.
#[derive(Clone, Copy)]
pub enum Inline<'a> {
    /// `IBV_SEND_INLINE`: pieces in order.
    Pieces(Pieces<'a>),
    /// One piece: bytes copied by `ibv_wr_set_inline_data` and similar calls.
    Bytes(&'a [u8]),
}

impl<'a> Inline<'a> {
    /// The bytes, if they are in one piece.
    #[inline]
    #[must_use]
    pub fn only(&self) -> Option<&'a [u8]> {
        match self {
            Self::Pieces(pieces) => pieces.only(),
            Self::Bytes(bytes) => Some(bytes),
        }
    }

    /// Total length. It does not read the data, so that data that is too long is never copied.
    #[must_use]
    pub fn length(&self) -> usize {
        match self {
            Self::Pieces(pieces) => pieces.length(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// The bytes, copied.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        match self {
            Self::Pieces(pieces) => pieces.iter().flatten().copied().collect(),
            Self::Bytes(bytes) => bytes.to_vec(),
        }
    }
}

/// The data of a send request.
#[derive(Clone, Copy)]
pub enum Data<'a> {
    /// Local memory.
    Sges(&'a [ibv_sge]),
    /// Bytes to copy.
    Inline(Inline<'a>),
}

/// The target of a window's binding.
pub struct BindInfo<'a, P: Provider> {
    /// The R_Key that the window shows (`ibv_mw.rkey`).
    pub key: u32,
    /// The region; `None` unbinds.
    pub mr: Option<&'a Arc<P::Mr>>,
    /// First byte.
    pub address: u64,
    /// Bytes; 0 unbinds.
    pub length: u64,
    /// Bits of `enum ibv_access_flags`.
    pub access: u32,
}

/// `IBV_WR_BIND_MW`, for windows of type 2.
pub struct Bind<'a, P: Provider> {
    /// The window.
    pub mw: &'a Arc<P::Mw>,
    /// Its new R_Key.
    pub rkey: u32,
    /// The target of the binding.
    pub info: BindInfo<'a, P>,
}

/// `IBV_WR_TSO`.
#[derive(Clone, Copy)]
pub struct Tso<'a> {
    /// Header of each segment.
    pub header: &'a [u8],
    /// Most bytes of payload a segment.
    pub mss: u16,
}

/// A send request (`struct ibv_send_wr`, or one that ibv_wr_* calls made). Which members count
/// depends on the opcode, as in ibv_post_send(3).
pub struct SendRequest<'a, P: Provider> {
    /// `wr_id`.
    pub id: u64,
    /// The operation. Undefined values are possible.
    pub opcode: ibv_wr_opcode,
    /// Bits of `enum ibv_send_flags`.
    pub flags: u32,
    /// The data.
    pub data: Data<'a>,
    /// `imm_data`, as it lies in memory.
    pub imm: [u8; 4],
    /// `invalidate_rkey`.
    pub invalidate_rkey: u32,
    /// `remote_addr`.
    pub remote_address: u64,
    /// `rkey`.
    pub rkey: u32,
    /// `compare_add`.
    pub compare_add: u64,
    /// `swap`.
    pub swap: u64,
    /// `IBV_WR_ATOMIC_WRITE`: the 8 bytes, when an ibv_wr_* call gave them.
    pub atomic_write: Option<[u8; 8]>,
    /// `IBV_WR_FLUSH`; the memory is that of `remote_address` and `rkey`.
    pub flush: Option<Flush>,
    /// Datagrams: the address handle.
    pub ah: Option<&'a Arc<P::Ah>>,
    /// Datagrams: remote queue pair.
    pub remote_qpn: u32,
    /// Datagrams: remote Q_Key.
    pub remote_qkey: u32,
    /// XRC: remote shared receive queue.
    pub remote_srqn: u32,
    /// `IBV_WR_BIND_MW`.
    pub bind: Option<Bind<'a, P>>,
    /// `IBV_WR_TSO`.
    pub tso: Option<Tso<'a>>,
}

impl<P: Provider> SendRequest<'_, P> {
    /// A request without data, and with zeros in all else.
    #[must_use]
    pub fn new(id: u64, opcode: ibv_wr_opcode, flags: u32) -> Self {
        Self {
            id,
            opcode,
            flags,
            data: Data::Sges(&[]),
            imm: [0; 4],
            invalidate_rkey: 0,
            remote_address: 0,
            rkey: 0,
            compare_add: 0,
            swap: 0,
            atomic_write: None,
            flush: None,
            ah: None,
            remote_qpn: 0,
            remote_qkey: 0,
            remote_srqn: 0,
            bind: None,
            tso: None,
        }
    }
}

/// The length of the flushed memory, and the placement type. Only ibv_wr_flush(3) can pass it:
/// `struct ibv_send_wr` has no room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Bytes.
    pub length: usize,
    /// Bits of `enum ibv_placement_type`.
    pub placement: u8,
    /// A value of `enum ibv_selectivity_level`.
    pub selectivity: u8,
}

/// A send request of which members are read when they are asked for. Which ones count depends on
/// the opcode; the others may have any value.
pub trait SendView<'a, P: Provider>: Sized {
    /// `wr_id`.
    fn id(&self) -> u64;
    /// The operation. Undefined values are possible.
    fn opcode(&self) -> ibv_wr_opcode;
    /// Bits of `enum ibv_send_flags`.
    fn flags(&self) -> u32;
    /// `imm_data` as it lies in memory, or `invalidate_rkey`: they share their place.
    fn extra(&self) -> u32;
    /// `remote_addr` and `rkey`, save for atomic operations and datagrams.
    fn remote(&self) -> (u64, u32);
    /// The data.
    ///
    /// # Errors
    /// EINVAL for an invalid list.
    fn data(&self) -> Result<Data<'a>>;
    /// All members.
    ///
    /// # Errors
    /// EINVAL for a request that cannot be one.
    fn request(self) -> Result<SendRequest<'a, P>>;
}

/// The requests of ibv_post_send(3): an iterator of values, which is the way of a provider that
/// looks at all members, and of views for one that does not.
pub trait SendChain<'a, P: Provider>: Iterator<Item = SendRequest<'a, P>> {
    /// The requests as views.
    fn views(&mut self) -> impl Iterator<Item = impl SendView<'a, P>>;
}

/// One value, or none: it is its own view.
impl<'a, P: Provider> SendChain<'a, P> for core::option::IntoIter<SendRequest<'a, P>> {
    fn views(&mut self) -> impl Iterator<Item = impl SendView<'a, P>> {
        self
    }
}

impl<'a, P: Provider> SendView<'a, P> for SendRequest<'a, P> {
    #[inline]
    fn id(&self) -> u64 {
        self.id
    }

    #[inline]
    fn opcode(&self) -> ibv_wr_opcode {
        self.opcode
    }

    #[inline]
    fn flags(&self) -> u32 {
        self.flags
    }

    #[inline]
    fn extra(&self) -> u32 {
        match self.opcode {
            IBV_WR_SEND_WITH_INV | IBV_WR_LOCAL_INV => self.invalidate_rkey,
            _ => u32::from_ne_bytes(self.imm),
        }
    }

    #[inline]
    fn remote(&self) -> (u64, u32) {
        (self.remote_address, self.rkey)
    }

    #[inline]
    fn data(&self) -> Result<Data<'a>> {
        Ok(self.data)
    }

    #[inline]
    fn request(self) -> Result<Self> {
        Ok(self)
    }
}

/// A receive request (`struct ibv_recv_wr`).
#[derive(Clone, Copy)]
pub struct ReceiveRequest<'a> {
    /// `wr_id`.
    pub id: u64,
    /// Where to scatter to.
    pub sges: &'a [ibv_sge],
}
