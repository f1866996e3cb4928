//! An open device: the provider's side of every verb.

use crate::cq::Cq;
use crate::objects::{Ah, Mr, Mw};
use crate::qp::Qp;
use crate::receive::Srq;
use bytemuck::{Zeroable, bytes_of_mut, cast_slice};
use core::convert::Infallible;
use core::ffi::CStr;
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicU32, Ordering};
use kit::abi::kernel::*;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::log::{self, Level};
use kit::provider::plain::{self, PlainPd};
use kit::provider::{
    BindInfo, Commands, CqInit, KernelProvider, Keys, Numbered, Polled, Provider, QpInit,
    ReceiveRequest, ReportedEvents, Rereg, SendChain, SendRequest, SrqInit,
};
use kit::sys::application::ApplicationMemory;
use kit::uverbs::{Driver, ah, cq, device, mr};
use std::sync::Arc;

/// An open device.
pub struct Context {
    pub(crate) kernel: Commands,
    comp_vectors: u32,
}

impl KernelProvider for Context {
    const NAME: &'static CStr = c"rxe";
    const DRIVER: u32 = RDMA_DRIVER_RXE;
    const DEVICES: &'static CStr = c"rdma_device:Nrxe*";
    /// Version 1 is laid out as version 2 is where pointers have 64 bits.
    const ABI: RangeInclusive<u32> = if cfg!(target_pointer_width = "64") {
        1..=2
    } else {
        2..=2
    };

    type Answer = ();

    fn open(kernel: Commands, comp_vectors: u32, _: ()) -> Result<Self> {
        Ok(Self {
            kernel,
            comp_vectors,
        })
    }
}

impl Provider for Context {
    type Pd = PlainPd;
    type Mr = Mr;
    type Mw = Mw;
    type Dm = Infallible;
    type Cq = Cq;
    type Srq = Srq;
    type Qp = Qp;
    type Ah = Ah;
    type Xrcd = Infallible;
    type Wq = Infallible;
    type WqTable = Infallible;
    type Flow = Infallible;
    type Counters = Infallible;

    fn comp_vectors(&self) -> u32 {
        self.comp_vectors
    }

    fn number(&self, object: Numbered<'_, Self>) -> Option<u32> {
        Some(match object {
            Numbered::Pd(pd) => pd.handle,
            Numbered::Mr(mr) => mr.handle,
            Numbered::Mw(mw) => mw.handle,
            Numbered::Cq(cq) => cq.handle,
            Numbered::Srq(srq) => srq.handle,
            Numbered::Qp(qp) => qp.plain.handle,
            Numbered::Ah(ah) => ah.handle,
        })
    }

    fn query_device(&self, attr: &mut ibv_device_attr_ex) -> Result<()> {
        plain::query_device(&self.kernel, attr)
    }

    fn query_port(&self, port: u8, attr: &mut ibv_port_attr) -> Result<()> {
        device::query_port(&self.kernel, port, attr, &mut Driver::none())
    }

    fn alloc_pd(&self) -> Result<PlainPd> {
        PlainPd::alloc(&self.kernel)
    }

    fn dealloc_pd(&self, pd: &Arc<PlainPd>) -> Result<()> {
        pd.dealloc(&self.kernel)
    }

    fn reg_mr(
        &self,
        pd: &Arc<PlainPd>,
        memory: ApplicationMemory,
        iova: u64,
        access: u32,
    ) -> Result<(Mr, Keys)> {
        let cover = plain::cover(&memory, iova, access)?;
        let made = mr::reg_mr(&self.kernel, pd.handle, &cover, &mut Driver::none())?;
        let mr = Mr {
            handle: made.handle,
            lkey: AtomicU32::new(made.lkey),
        };
        Ok((mr, Keys::from(&made)))
    }

    fn rereg_mr(&self, mr: &Arc<Mr>, change: &Rereg<'_, Self>) -> Result<Keys> {
        let mut flags = 0;
        let mut to = mr::Cover::default();
        if let Some(range) = &change.range {
            flags |= IBV_REREG_MR_CHANGE_TRANSLATION;
            let start = u64::try_from(range.address()).map_err(|_| Errno::INVAL)?;
            to = plain::cover(range, start, 0)?;
        }
        if change.pd.is_some() {
            flags |= IBV_REREG_MR_CHANGE_PD;
        }
        if let Some(access) = change.access {
            flags |= IBV_REREG_MR_CHANGE_ACCESS;
            to.access = access;
        }
        let pd = change.pd.map(|pd| pd.handle);
        let driver = &mut Driver::none();
        let made = mr::rereg_mr(&self.kernel, mr.handle, flags, pd, &to, driver)?;
        mr.lkey.store(made.lkey, Ordering::Relaxed);
        Ok(Keys::from(&made))
    }

    fn dereg_mr(&self, mr: &Arc<Mr>) -> Result<()> {
        mr::dereg_mr(&self.kernel, mr.handle)
    }

    fn advise_mr(
        &self,
        pd: &Arc<PlainPd>,
        advice: u32,
        flags: u32,
        sges: &[ibv_sge],
    ) -> Result<()> {
        mr::advise_mr(&self.kernel, pd.handle, advice, flags, cast_slice(sges))
    }

    fn alloc_mw(&self, pd: &Arc<PlainPd>, mw_type: ibv_mw_type) -> Result<(Mw, u32)> {
        let driver = &mut Driver::none();
        let (handle, rkey) = mr::alloc_mw(&self.kernel, pd.handle, mw_type, driver)?;
        Ok((Mw { handle }, rkey))
    }

    fn dealloc_mw(&self, mw: &Arc<Mw>) -> Result<()> {
        mr::dealloc_mw(&self.kernel, mw.handle)
    }

    fn bind_mw(
        &self,
        qp: &Qp,
        mw: &Arc<Mw>,
        id: u64,
        flags: u32,
        info: &BindInfo<'_, Self>,
    ) -> Result<u32> {
        qp.bind(&self.kernel, mw, (id, flags), info)
    }

    fn create_cq(&self, init: &CqInit<'_>) -> Result<(Cq, u32)> {
        Cq::create(&self.kernel, init)
    }

    fn resize_cq(&self, cq: &Cq, entries: u32) -> Result<u32> {
        cq.resize(&self.kernel, entries)
    }

    fn destroy_cq(&self, cq: &Cq) -> Result<ReportedEvents> {
        cq.destroy(&self.kernel)
    }

    #[inline]
    fn poll_cq(&self, cq: &Cq, room: &mut [ibv_wc]) -> Result<usize> {
        cq.poll(&self.kernel, room)
    }

    #[inline]
    fn poll_ex(&self, cq: &Cq) -> Option<Polled> {
        cq.poll_one(&self.kernel)
    }

    fn req_notify_cq(&self, cq: &Cq, solicited_only: bool) -> Result<()> {
        cq::req_notify_cq(&self.kernel, cq.handle, solicited_only)
    }

    fn create_srq(&self, init: &mut SrqInit<'_, Self>) -> Result<(Srq, u32)> {
        Srq::create(self, init)
    }

    fn modify_srq(&self, srq: &Srq, attr: &ibv_srq_attr, mask: u32) -> Result<()> {
        srq.modify(&self.kernel, attr, mask)
    }

    fn query_srq(&self, srq: &Srq) -> Result<ibv_srq_attr> {
        plain::query_srq(&self.kernel, srq.handle)
    }

    fn destroy_srq(&self, srq: &Srq) -> Result<u32> {
        srq.destroy(&self.kernel)
    }

    #[inline]
    fn post_srq_recv<'a>(
        &self,
        srq: &Srq,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        srq.post(&self.kernel, requests)
    }

    fn create_qp(&self, init: &mut QpInit<'_, Self>) -> Result<(Qp, u32)> {
        Qp::create(self, init)
    }

    fn modify_qp(&self, qp: &Qp, attr: &ibv_qp_attr, mask: u32) -> Result<ibv_qp_state> {
        qp.plain.modify(&self.kernel, attr, mask)
    }

    fn query_qp(&self, qp: &Qp, attr: &mut ibv_qp_attr) -> Result<()> {
        qp.plain.query(&self.kernel, attr)
    }

    fn destroy_qp(&self, qp: &Qp) -> Result<u32> {
        qp.plain.destroy(&self.kernel)
    }

    #[inline]
    fn post_send<'a>(&self, qp: &Qp, requests: &mut impl SendChain<'a, Self>) -> Result<()> {
        qp.post_send(&self.kernel, &mut requests.views())
    }

    fn post_send_all<'a>(
        &self,
        qp: &Qp,
        requests: &mut impl ExactSizeIterator<Item = SendRequest<'a, Self>>,
    ) -> Result<()> {
        qp.post_send_all(&self.kernel, requests)
    }

    #[inline]
    fn post_recv<'a>(
        &self,
        qp: &Qp,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        qp.post_recv(requests)
    }

    fn attach_mcast(&self, qp: &Qp, gid: &ibv_gid, lid: u16) -> Result<()> {
        ah::attach_mcast(&self.kernel, qp.plain.handle, gid.bytes(), lid)
    }

    fn detach_mcast(&self, qp: &Qp, gid: &ibv_gid, lid: u16) -> Result<()> {
        ah::detach_mcast(&self.kernel, qp.plain.handle, gid.bytes(), lid)
    }

    fn create_ah(&self, pd: &Arc<PlainPd>, attr: &ibv_ah_attr) -> Result<Ah> {
        let mut reported = rxe_create_ah_resp::zeroed();
        let driver = &mut Driver::response(bytes_of_mut(&mut reported));
        let handle = ah::create_ah(&self.kernel, pd.handle, 0, attr.into(), driver)?;
        let number = reported.ah_num;
        if number == 0 {
            // The application does not have the handle; it ends with the context at the latest.
            let _ = ah::destroy_ah(&self.kernel, handle);
            log::line(
                Level::Error,
                "rxe: datagrams need Linux 5.16 or later, whose driver numbers address handles; \
                 the C provider (IBVERBS_PREFER_PLUGIN=rxe) works with older ones",
            );
            return Err(Errno::OPNOTSUPP);
        }
        Ok(Ah { handle, number })
    }

    fn destroy_ah(&self, ah: &Arc<Ah>) -> Result<()> {
        ah::destroy_ah(&self.kernel, ah.handle)
    }
}
