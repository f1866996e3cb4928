//! Chains of send requests (ibv_post_send(3)), seen one by one while they are posted.

use super::ah::Address;
use super::context::Context;
use super::mr::Region;
use super::mw::Window;
use super::object::Object;
use super::qp::Pair;
use super::receive::{elements, refused};
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::{
    Bind, BindInfo, Data, Inline, Pieces, Provider, SendChain, SendRequest, SendView, Tso,
};
use core::ffi::c_int;
use core::marker::PhantomData;

/// The requests of a chain.
pub(super) struct Sends<'a, P: Provider> {
    pair: &'a Object<Pair<P>>,
    next: *mut ibv_send_wr,
    /// The last that was looked at; the first before that.
    last: *mut ibv_send_wr,
    /// Why the last ended the chain, if it did.
    bad: Option<Errno>,
    life: PhantomData<&'a ibv_send_wr>,
}

impl<'a, P: Provider> Sends<'a, P> {
    /// The chain that starts at `first`, which may be NULL, for that queue pair.
    ///
    /// # Safety
    /// It is one as ibv_post_send(3) wants it, and stays so for `'a`.
    pub(super) unsafe fn new(pair: &'a Object<Pair<P>>, first: *mut ibv_send_wr) -> Self {
        Self {
            pair,
            next: first,
            last: first,
            bad: None,
            life: PhantomData,
        }
    }

    /// Returns the provider's answer to C, and the request that failed.
    ///
    /// # Safety
    /// `bad` is NULL or has room for a pointer.
    pub(super) unsafe fn answer(self, answer: Result<()>, bad: *mut *mut ibv_send_wr) -> c_int {
        match answer.err().or(self.bad) {
            None => 0,
            // SAFETY: vouched for by the caller.
            Some(e) => unsafe { refused(e, self.last, bad) },
        }
    }

    /// The next request of the chain, whatever stands there.
    #[inline]
    fn step(&mut self) -> Option<View<'a, P>> {
        if self.next.is_null() {
            return None;
        }
        self.last = self.next;
        // SAFETY: `new` was promised a good chain.
        let wr: &'a ibv_send_wr = unsafe { &*self.next };
        self.next = wr.next;
        let pair = self.pair;
        Some(View { pair, wr })
    }
}

/// A request as the application wrote it. Only [`Sends`] makes one, so all of it is good for `'a`.
struct View<'a, P: Provider> {
    pair: &'a Object<Pair<P>>,
    wr: &'a ibv_send_wr,
}

impl<'a, P: Provider> SendView<'a, P> for View<'a, P> {
    #[inline]
    fn id(&self) -> u64 {
        self.wr.wr_id
    }

    #[inline]
    fn opcode(&self) -> ibv_wr_opcode {
        self.wr.opcode
    }

    #[inline]
    fn flags(&self) -> u32 {
        self.wr.send_flags
    }

    #[inline]
    fn extra(&self) -> u32 {
        // SAFETY: both members of the union are numbers, of any value.
        unsafe { self.wr.imm.invalidate_rkey }
    }

    #[inline]
    fn remote(&self) -> (u64, u32) {
        // SAFETY: the members are numbers, of any value.
        let rdma = unsafe { self.wr.wr.rdma };
        (rdma.remote_addr, rdma.rkey)
    }

    #[inline]
    fn data(&self) -> Result<Data<'a>> {
        // SAFETY: `Sends::new` was promised a good chain.
        unsafe { data(self.wr) }
    }

    fn request(self) -> Result<SendRequest<'a, P>> {
        // SAFETY: as above.
        unsafe { self.value() }
    }
}

impl<'a, P: Provider> View<'a, P> {
    /// # Safety
    /// As for [`Sends::new`], for this request.
    unsafe fn value(&self) -> Result<SendRequest<'a, P>> {
        let (wr, pair) = (self.wr, self.pair.c());
        let mut request = SendRequest::new(wr.wr_id, wr.opcode, wr.send_flags);
        // SAFETY: vouched for by the caller; a member of a union is read only if the opcode or the
        // type of queue pair makes it the valid one, and its numbers may have any value.
        unsafe {
            let qp: &ibv_qp = &*pair.cast();
            let (context, qp_type) = (Context::from_raw(qp.context)?, qp.qp_type);
            request.data = data(wr)?;
            match wr.opcode {
                IBV_WR_SEND_WITH_IMM | IBV_WR_RDMA_WRITE_WITH_IMM => {
                    request.imm = wr.imm.invalidate_rkey.to_ne_bytes();
                }
                IBV_WR_SEND_WITH_INV | IBV_WR_LOCAL_INV => {
                    request.invalidate_rkey = wr.imm.invalidate_rkey;
                }
                IBV_WR_BIND_MW => request.bind = Some(bind(context, &wr.op.bind_mw)?),
                IBV_WR_TSO => request.tso = Some(tso(&wr.op.tso)?),
                _ => {}
            }
            match (qp_type, wr.opcode) {
                (IBV_QPT_UD, _) => address(context, &mut request, &wr.wr.ud)?,
                (_, IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD) => {
                    let atomic = wr.wr.atomic;
                    request.remote_address = atomic.remote_addr;
                    request.rkey = atomic.rkey;
                    request.compare_add = atomic.compare_add;
                    request.swap = atomic.swap;
                }
                _ => {
                    request.remote_address = wr.wr.rdma.remote_addr;
                    request.rkey = wr.wr.rdma.rkey;
                }
            }
            if qp_type == IBV_QPT_XRC_SEND {
                request.remote_srqn = wr.qp_type.xrc.remote_srqn;
            }
        }
        Ok(request)
    }
}

/// # Safety
/// The address handle is live, or NULL.
unsafe fn address<'a, P: Provider>(
    context: &Context<P>,
    request: &mut SendRequest<'a, P>,
    to: &ibv_send_wr_wr_ud,
) -> Result<()> {
    // SAFETY: vouched for by the caller.
    let ah = unsafe { context.object::<Address<P>>(to.ah) }?;
    request.ah = Some(&ah.side.ah);
    request.remote_qpn = to.remote_qpn;
    request.remote_qkey = to.remote_qkey;
    Ok(())
}

/// # Safety
/// Window and region are live, or NULL.
unsafe fn bind<'a, P: Provider>(
    context: &Context<P>,
    bind: &ibv_send_wr_op_bind_mw,
) -> Result<Bind<'a, P>> {
    // SAFETY: vouched for by the caller.
    unsafe {
        let window = context.object::<Window<P>>(bind.mw)?;
        Ok(Bind {
            mw: &window.side.mw,
            rkey: bind.rkey,
            info: bind_info(context, bind.mw, &bind.bind_info)?,
        })
    }
}

/// The target of a window's binding.
///
/// # Errors
/// EINVAL for a region of another context.
///
/// # Safety
/// The region is live, or NULL; the window is live.
pub(super) unsafe fn bind_info<'a, P: Provider>(
    context: &Context<P>,
    mw: *mut ibv_mw,
    info: &ibv_mw_bind_info,
) -> Result<BindInfo<'a, P>> {
    // SAFETY: vouched for by the caller; every region lies in such a block.
    let region = unsafe { context.optional::<Region<P>>(info.mr.cast())? };
    Ok(BindInfo {
        // SAFETY: vouched for by the caller.
        key: unsafe { (*mw).rkey },
        mr: region.map(|region| &region.side.mr),
        address: info.addr,
        length: info.length,
        access: info.mw_access_flags,
    })
}

/// Requests that move no data have no list, whatever stands in its place.
///
/// # Safety
/// The list of the request is valid for its count during `'a`, and so is the memory of its elements
/// if it is to be copied.
#[inline]
unsafe fn data<'a>(wr: &ibv_send_wr) -> Result<Data<'a>> {
    if matches!(wr.opcode, IBV_WR_LOCAL_INV | IBV_WR_BIND_MW) {
        return Ok(Data::Sges(&[]));
    }
    // SAFETY: vouched for by the caller.
    unsafe {
        let sges = elements(wr.sg_list, wr.num_sge)?;
        if wr.send_flags & IBV_SEND_INLINE == 0 {
            return Ok(Data::Sges(sges));
        }
        Ok(Data::Inline(Inline::Pieces(Pieces::new(sges))))
    }
}

/// # Safety
/// The header is good for its size during `'a`, or NULL.
unsafe fn tso<'a>(tso: &ibv_send_wr_op_tso) -> Result<Tso<'a>> {
    let header: &[u8] = match (tso.hdr.is_null(), usize::from(tso.hdr_sz)) {
        (_, 0) => &[],
        (true, _) => return Err(Errno::INVAL),
        // SAFETY: vouched for by the caller.
        (false, size) => unsafe { core::slice::from_raw_parts(tso.hdr.cast(), size) },
    };
    let mss = tso.mss;
    Ok(Tso { header, mss })
}

impl<'a, P: Provider> Iterator for Sends<'a, P> {
    type Item = SendRequest<'a, P>;

    fn next(&mut self) -> Option<SendRequest<'a, P>> {
        if self.bad.is_some() {
            return None;
        }
        match self.step()?.request() {
            Ok(request) => Some(request),
            Err(e) => {
                self.bad = Some(e);
                None
            }
        }
    }
}

impl<'a, P: Provider> SendChain<'a, P> for Sends<'a, P> {
    #[inline]
    fn views(&mut self) -> impl Iterator<Item = impl SendView<'a, P>> {
        core::iter::from_fn(|| self.step())
    }
}
