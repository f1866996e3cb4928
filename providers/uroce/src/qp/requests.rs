//! Work requests: verbs' views as the engine's values.

use super::binds::Binds;
use super::destinations::Destinations;
use crate::address::Ah;
use crate::memory::{AccessMode, Binding, Keys, PdId, piece};
use crate::objects::Objects;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{Data as Given, Flush, Inline, SendRequest};
use std::sync::Arc;
use uroce_engine::qp::Service;
use uroce_engine::wire::ImmDt;
use uroce_engine::work::{Bytes, Data, Destination, Remote, Request, Sge, Sges, WorkRequest};

/// The parts of a queue pair against which a request is checked.
pub struct Posting<'a> {
    /// Its service.
    pub service: Service,
    /// Sizes it was made with.
    pub cap: &'a ibv_qp_cap,
    /// Its protection domain.
    pub pd: PdId,
    /// The keys of the process.
    pub keys: &'a Keys,
    /// Where requests to bind are kept until their turn comes.
    pub binds: &'a mut Binds,
    /// Where paths of datagrams are kept until those leave.
    pub destinations: &'a mut Destinations,
}

/// # Errors
/// EINVAL for a request from ibv_post_send(3), which cannot express a flush, and for more bytes
/// than the field of a request can hold.
fn flush(remote: Remote, given: Option<Flush>) -> Result<Request> {
    let given = given.ok_or(Errno::INVAL)?;
    Ok(Request::Flush {
        remote,
        length: u32::try_from(given.length).map_err(|_| Errno::INVAL)?,
        placement: given.placement,
        selectivity: given.selectivity,
    })
}

/// The engine's data as those of a view; `sges` is room for its pieces.
pub fn given<'a>(data: &'a Data, sges: &'a mut [ibv_sge]) -> Option<Given<'a>> {
    let pieces = match data {
        Data::Inline(bytes) => return Some(Given::Inline(Inline::Bytes(bytes))),
        Data::Sges(pieces) => pieces,
    };
    let room = sges.get_mut(..pieces.len())?;
    for (place, piece) in room.iter_mut().zip(pieces) {
        *place = ibv_sge {
            addr: piece.address,
            length: piece.length,
            lkey: piece.lkey,
        };
    }
    Some(Given::Sges(room))
}

/// A copy of inline data.
pub fn bytes(inline: &Inline<'_>) -> Bytes {
    match inline {
        Inline::Bytes(bytes) => Bytes::from_slice(bytes),
        Inline::Pieces(pieces) => {
            let mut bytes = Bytes::new();
            for piece in pieces.iter() {
                bytes.extend_from_slice(piece);
            }
            bytes
        }
    }
}

/// Bytes of a request's data, if there are not more pieces or inline bytes than the queue pair was
/// made for.
#[inline]
pub fn length(cap: &ibv_qp_cap, data: &Given<'_>) -> Option<u32> {
    let most = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    match data {
        Given::Inline(inline) => {
            let length = inline.length();
            let fits = length <= most(cap.max_inline_data);
            u32::try_from(length).ok().filter(|_| fits)
        }
        Given::Sges(sges) if sges.len() <= most(cap.max_send_sge) => sges
            .iter()
            .try_fold(0u32, |sum, sge| sum.checked_add(sge.length)),
        Given::Sges(_) => None,
    }
}

/// The pieces for the 8 bytes that an atomic returns. Cards and soft-RoCE take more room than that,
/// and leave the rest as it is: a program may name a whole buffer.
fn result(pieces: impl Iterator<Item = Sge>) -> Sges {
    let mut missing = 8;
    let mut kept = Sges::new();
    for piece in pieces {
        let length = piece.length.min(missing);
        missing -= length;
        if length > 0 {
            kept.push(Sge { length, ..piece });
        }
    }
    kept
}

impl Posting<'_> {
    /// The request as the engine takes it.
    ///
    /// # Errors
    /// EINVAL for an opcode that there is not, more pieces or more inline data than the
    /// queue pair was made for, a datagram without an address.
    pub fn convert<P: Objects>(&mut self, given: &SendRequest<'_, P>) -> Result<WorkRequest> {
        let data = self.data(given)?;
        let ah = self.ah(given)?;
        // Last of what may be refused: a request to bind is kept from here on.
        let request = self.request(given)?;
        let destination = ah.map(|ah| self.destination(given, ah));
        // Flags that there are not are passed over, as by other providers.
        Ok(WorkRequest {
            id: given.id,
            request,
            data,
            signaled: given.flags & IBV_SEND_SIGNALED != 0,
            solicited: given.flags & IBV_SEND_SOLICITED != 0,
            fence: given.flags & IBV_SEND_FENCE != 0,
            destination,
            srqn: given.remote_srqn,
        })
    }

    fn request<P: Objects>(&mut self, given: &SendRequest<'_, P>) -> Result<Request> {
        let remote = Remote {
            address: given.remote_address,
            rkey: given.rkey,
        };
        let immediate = ImmDt {
            data: u32::from_be_bytes(given.imm),
        };
        Ok(match given.opcode {
            IBV_WR_SEND => Request::Send,
            IBV_WR_SEND_WITH_IMM => Request::SendImm(immediate),
            IBV_WR_SEND_WITH_INV => Request::SendInvalidate(given.invalidate_rkey),
            IBV_WR_RDMA_WRITE => Request::Write(remote),
            IBV_WR_RDMA_WRITE_WITH_IMM => Request::WriteImm(remote, immediate),
            IBV_WR_RDMA_READ => Request::Read(remote),
            IBV_WR_ATOMIC_CMP_AND_SWP => Request::CompareSwap {
                remote,
                compare: given.compare_add,
                swap: given.swap,
            },
            IBV_WR_ATOMIC_FETCH_AND_ADD => Request::FetchAdd {
                remote,
                add: given.compare_add,
            },
            IBV_WR_ATOMIC_WRITE => Request::AtomicWrite(remote, self.word(given)?),
            IBV_WR_FLUSH => flush(remote, given.flush)?,
            IBV_WR_LOCAL_INV => Request::LocalInvalidate(given.invalidate_rkey),
            IBV_WR_BIND_MW => {
                let bind = given.bind.as_ref().ok_or(Errno::INVAL)?;
                Request::Bind(self.binds.keep(Binding {
                    mw: Arc::clone(bind.mw),
                    rkey: bind.rkey,
                    mr: bind.info.mr.map(Arc::clone),
                    address: bind.info.address,
                    length: bind.info.length,
                    access: bind.info.access,
                }))
            }
            _ => return Err(Errno::INVAL),
        })
    }

    /// The 8 bytes of an atomic write: they travel in the request, so they are read now.
    fn word<P: Objects>(&self, given: &SendRequest<'_, P>) -> Result<[u8; 8]> {
        if let Some(word) = given.atomic_write {
            return Ok(word);
        }
        let bytes = match &given.data {
            Given::Inline(inline) => inline.to_vec(),
            Given::Sges(sges) => {
                let mut bytes = Vec::new();
                for piece in sges.iter().map(piece) {
                    let length = usize::try_from(piece.length).map_err(|_| Errno::INVAL)?;
                    if length > 8 {
                        return Err(Errno::INVAL);
                    }
                    let mut room = [0; 8];
                    let room = room.get_mut(..length).ok_or(Errno::INVAL)?;
                    let read = self
                        .keys
                        .using(AccessMode::Direct)
                        .gather(self.pd, piece, room);
                    read.map_err(|_| Errno::INVAL)?;
                    bytes.extend_from_slice(room);
                }
                bytes
            }
        };
        bytes.try_into().map_err(|_| Errno::INVAL)
    }

    fn data<P: Objects>(&self, given: &SendRequest<'_, P>) -> Result<Data> {
        let local = matches!(
            given.opcode,
            IBV_WR_LOCAL_INV | IBV_WR_BIND_MW | IBV_WR_ATOMIC_WRITE | IBV_WR_FLUSH
        );
        if local {
            return Ok(Data::default());
        }
        match &given.data {
            Given::Inline(inline) => {
                let most = usize::try_from(self.cap.max_inline_data).unwrap_or(usize::MAX);
                if inline.length() > most {
                    return Err(Errno::INVAL);
                }
                Ok(Data::Inline(bytes(inline)))
            }
            Given::Sges(sges) => {
                let most = usize::try_from(self.cap.max_send_sge).unwrap_or(usize::MAX);
                if sges.len() > most {
                    return Err(Errno::INVAL);
                }
                let pieces = sges.iter().map(piece);
                Ok(Data::Sges(match given.opcode {
                    IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => result(pieces),
                    _ => pieces.collect(),
                }))
            }
        }
    }

    /// The address handle of a datagram; `None` for other services.
    fn ah<'g, P: Objects>(&self, given: &SendRequest<'g, P>) -> Result<Option<&'g Ah>> {
        if self.service != Service::Ud {
            return Ok(None);
        }
        let ah = given.ah.ok_or(Errno::INVAL)?;
        match ah.pd == self.pd {
            true => Ok(Some(ah)),
            false => Err(Errno::INVAL),
        }
    }

    fn destination<P: Objects>(&mut self, given: &SendRequest<'_, P>, ah: &Ah) -> Destination {
        let room = usize::try_from(self.cap.max_send_wr).unwrap_or(usize::MAX);
        Destination {
            address: self.destinations.keep(ah.path, room),
            qpn: given.remote_qpn & 0x00ff_ffff,
            qkey: given.remote_qkey,
        }
    }
}
