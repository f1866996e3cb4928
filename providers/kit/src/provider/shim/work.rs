#![forbid(unsafe_code)]
//! Send requests that ibv_wr_* calls put together, until they are posted.

use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::{Bind, BindInfo, Data, Inline, Provider, SendRequest, Tso};
use core::ops::Range;
use std::sync::Arc;

/// The target of a window's binding.
pub(super) struct Binding<P: Provider> {
    pub(super) mw: Arc<P::Mw>,
    pub(super) rkey: u32,
    pub(super) key: u32,
    pub(super) mr: Option<Arc<P::Mr>>,
    pub(super) address: u64,
    pub(super) length: u64,
    pub(super) access: u32,
}

/// Where the data of a request stands.
enum DataRange {
    Sges(Range<usize>),
    Inline(Range<usize>),
}

/// One request. It owns the objects that it refers to, or they are in the vectors of [`Work`].
struct Prepared<P: Provider> {
    plain: SendRequest<'static, P>,
    place: Option<DataRange>,
    ah: Option<Arc<P::Ah>>,
    has_srqn: bool,
    bind: Option<Binding<P>>,
    tso: Option<(Range<usize>, u16)>,
}

/// The requests since ibv_wr_start.
pub(super) struct Work<P: Provider> {
    requests: Vec<Prepared<P>>,
    sges: Vec<ibv_sge>,
    bytes: Vec<u8>,
    /// The first that went wrong.
    error: Option<Errno>,
}

/// Whether the opcode is one that the peer does not learn of.
fn is_local(opcode: ibv_wr_opcode) -> bool {
    matches!(opcode, IBV_WR_LOCAL_INV | IBV_WR_BIND_MW)
}

/// Whether a request of the opcode carries data.
fn has_data(opcode: ibv_wr_opcode) -> bool {
    !is_local(opcode) && opcode != IBV_WR_FLUSH
}

/// Whether data may be copied for the opcode (ibv_wr_post(3)).
fn takes_inline(opcode: ibv_wr_opcode) -> bool {
    matches!(
        opcode,
        IBV_WR_SEND
            | IBV_WR_SEND_WITH_IMM
            | IBV_WR_SEND_WITH_INV
            | IBV_WR_RDMA_WRITE
            | IBV_WR_RDMA_WRITE_WITH_IMM
    )
}

/// Appends, and answers where it stands.
fn append<T: Copy>(to: &mut Vec<T>, new: &[T]) -> Result<Range<usize>> {
    to.try_reserve(new.len()).map_err(|_| Errno::NOMEM)?;
    let begin = to.len();
    to.extend_from_slice(new);
    Ok(begin..to.len())
}

impl<P: Provider> Work<P> {
    pub(super) const fn new() -> Self {
        Self {
            requests: Vec::new(),
            sges: Vec::new(),
            bytes: Vec::new(),
            error: None,
        }
    }

    /// Forgets everything; memory is kept for the next time.
    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.sges.clear();
        self.bytes.clear();
        self.error = None;
    }

    /// Stores an error, for ibv_wr_complete.
    pub(super) fn note(&mut self, result: Result<()>) {
        if let Err(e) = result {
            self.error.get_or_insert(e);
        }
    }

    /// Begins a request. `most` is how many the queue holds.
    pub(super) fn begin(&mut self, plain: SendRequest<'static, P>, most: u32) -> Result<()> {
        if usize::try_from(most).is_ok_and(|most| self.requests.len() >= most) {
            return Err(Errno::NOMEM);
        }
        self.requests.try_reserve(1).map_err(|_| Errno::NOMEM)?;
        self.requests.push(Prepared {
            plain,
            place: None,
            ah: None,
            has_srqn: false,
            bind: None,
            tso: None,
        });
        Ok(())
    }

    /// The request that was begun last.
    fn last(&mut self) -> Result<&mut Prepared<P>> {
        self.requests.last_mut().ok_or(Errno::INVAL)
    }

    /// The request that was begun last, if it has no data yet and may have some.
    fn without_data(&mut self) -> Result<&mut Prepared<P>> {
        let last = self.last()?;
        if last.place.is_some() || !has_data(last.plain.opcode) {
            return Err(Errno::INVAL);
        }
        Ok(last)
    }

    pub(super) fn set_sges(&mut self, sges: &[ibv_sge]) -> Result<()> {
        self.without_data()?;
        let place = append(&mut self.sges, sges)?;
        self.last()?.place = Some(DataRange::Sges(place));
        Ok(())
    }

    pub(super) fn set_inline<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) -> Result<()> {
        if !takes_inline(self.without_data()?.plain.opcode) {
            return Err(Errno::INVAL);
        }
        let begin = self.bytes.len();
        for piece in pieces {
            append(&mut self.bytes, piece)?;
        }
        let place = DataRange::Inline(begin..self.bytes.len());
        let last = self.last()?;
        last.place = Some(place);
        last.plain.flags |= IBV_SEND_INLINE;
        Ok(())
    }

    pub(super) fn set_address(&mut self, ah: &Arc<P::Ah>, qpn: u32, qkey: u32) -> Result<()> {
        let last = self.last()?;
        last.ah = Some(Arc::clone(ah));
        last.plain.remote_qpn = qpn;
        last.plain.remote_qkey = qkey;
        Ok(())
    }

    pub(super) fn set_srqn(&mut self, number: u32) -> Result<()> {
        let last = self.last()?;
        last.has_srqn = true;
        last.plain.remote_srqn = number;
        Ok(())
    }

    pub(super) fn set_bind(&mut self, bind: Binding<P>) -> Result<()> {
        self.last()?.bind = Some(bind);
        Ok(())
    }

    pub(super) fn set_tso(&mut self, header: &[u8], mss: u16) -> Result<()> {
        let place = append(&mut self.bytes, header)?;
        self.last()?.tso = Some((place, mss));
        Ok(())
    }

    /// Checks that each request has the parts that its type of queue pair requires.
    ///
    /// # Errors
    /// The first that went wrong while the requests were put together; EINVAL for a datagram
    /// without an address, or an XRC request without the number of a queue.
    pub(super) fn check(&self, qp_type: ibv_qp_type) -> Result<()> {
        if let Some(e) = self.error {
            return Err(e);
        }
        let complete = |request: &Prepared<P>| match qp_type {
            _ if is_local(request.plain.opcode) => true,
            IBV_QPT_UD => request.ah.is_some(),
            IBV_QPT_XRC_SEND => request.has_srqn,
            _ => true,
        };
        if !self.requests.iter().all(complete) {
            return Err(Errno::INVAL);
        }
        Ok(())
    }

    /// The requests, as providers see them.
    pub(super) fn views(&self) -> impl ExactSizeIterator<Item = SendRequest<'_, P>> {
        self.requests.iter().map(|request| self.view(request))
    }

    fn view<'a>(&'a self, request: &'a Prepared<P>) -> SendRequest<'a, P> {
        let plain: &SendRequest<'a, P> = &request.plain;
        let bytes = |place: &Range<usize>| self.bytes.get(place.clone()).unwrap_or_default();
        SendRequest {
            data: match &request.place {
                None => Data::Sges(&[]),
                Some(DataRange::Sges(at)) => {
                    Data::Sges(self.sges.get(at.clone()).unwrap_or_default())
                }
                Some(DataRange::Inline(at)) => Data::Inline(Inline::Bytes(bytes(at))),
            },
            ah: request.ah.as_ref(),
            bind: request.bind.as_ref().map(view_of_binding),
            tso: request.tso.as_ref().map(|(header, mss)| Tso {
                header: bytes(header),
                mss: *mss,
            }),
            ..*plain
        }
    }
}

fn view_of_binding<P: Provider>(bind: &Binding<P>) -> Bind<'_, P> {
    Bind {
        mw: &bind.mw,
        rkey: bind.rkey,
        info: BindInfo {
            key: bind.key,
            mr: bind.mr.as_ref(),
            address: bind.address,
            length: bind.length,
            access: bind.access,
        },
    }
}
