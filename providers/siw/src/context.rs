//! An open device: the provider's side of every verb.

use crate::cq::Cq;
use crate::qp::Qp;
use crate::receive::Srq;
use bytemuck::{Zeroable, bytes_of_mut};
use core::convert::Infallible;
use core::ffi::CStr;
use core::ops::RangeInclusive;
use kit::abi::kernel::*;
use kit::abi::*;
use kit::errno::Result;
use kit::provider::plain::{self, PlainPd};
use kit::provider::{
    Commands, CqInit, KernelProvider, Keys, Numbered, Polled, Provider, QpInit, ReceiveRequest,
    ReportedEvents, SendRequest, SrqInit,
};
use kit::sys::application::ApplicationMemory;
use kit::uverbs::{Driver, device, mr};
use std::sync::Arc;

/// An open device.
pub struct Context {
    pub(crate) kernel: Commands,
    comp_vectors: u32,
}

/// Memory region.
pub struct Mr {
    handle: u32,
}

impl KernelProvider for Context {
    const NAME: &'static CStr = c"siw";
    const DRIVER: u32 = RDMA_DRIVER_SIW;
    const DEVICES: &'static CStr = c"rdma_device:Nsiw*";
    const ABI: RangeInclusive<u32> = SIW_ABI_VERSION..=SIW_ABI_VERSION;

    type Answer = siw_uresp_alloc_ctx;

    fn open(kernel: Commands, comp_vectors: u32, _: siw_uresp_alloc_ctx) -> Result<Self> {
        Ok(Self {
            kernel,
            comp_vectors,
        })
    }
}

impl Provider for Context {
    type Pd = PlainPd;
    type Mr = Mr;
    type Mw = Infallible;
    type Dm = Infallible;
    type Cq = Cq;
    type Srq = Srq;
    type Qp = Qp;
    type Ah = Infallible;
    type Xrcd = Infallible;
    type Wq = Infallible;
    type WqTable = Infallible;
    type Flow = Infallible;
    type Counters = Infallible;

    fn comp_vectors(&self) -> u32 {
        self.comp_vectors
    }

    fn number(&self, object: Numbered<'_, Self>) -> Option<u32> {
        match object {
            Numbered::Pd(pd) => Some(pd.handle),
            Numbered::Mr(mr) => Some(mr.handle),
            Numbered::Cq(cq) => Some(cq.handle),
            Numbered::Srq(srq) => Some(srq.handle),
            Numbered::Qp(qp) => Some(qp.plain.handle),
            Numbered::Mw(none) | Numbered::Ah(none) => match *none {},
        }
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
        let mut asked = siw_ureq_reg_mr::zeroed();
        let mut reported = siw_uresp_reg_mr::zeroed();
        let driver = &mut Driver::both(bytes_of_mut(&mut asked), bytes_of_mut(&mut reported));
        let made = mr::reg_mr(&self.kernel, pd.handle, &cover, driver)?;
        let handle = made.handle;
        Ok((Mr { handle }, Keys::from(&made)))
    }

    fn dereg_mr(&self, mr: &Arc<Mr>) -> Result<()> {
        mr::dereg_mr(&self.kernel, mr.handle)
    }

    fn create_cq(&self, init: &CqInit<'_>) -> Result<(Cq, u32)> {
        Cq::create(&self.kernel, init)
    }

    fn destroy_cq(&self, cq: &Cq) -> Result<ReportedEvents> {
        cq.destroy(&self.kernel)
    }

    #[inline]
    fn poll_cq(&self, cq: &Cq, room: &mut [ibv_wc]) -> Result<usize> {
        cq.poll(room)
    }

    #[inline]
    fn poll_ex(&self, cq: &Cq) -> Option<Polled> {
        cq.poll_one()
    }

    fn req_notify_cq(&self, cq: &Cq, solicited_only: bool) -> Result<()> {
        cq.notify(solicited_only)
    }

    fn create_srq(&self, init: &mut SrqInit<'_, Self>) -> Result<(Srq, u32)> {
        // iWARP has no numbers for them.
        Ok((Srq::create(self, init)?, 0))
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
        srq.post(requests)
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
    fn post_send<'a>(
        &self,
        qp: &Qp,
        requests: &mut impl Iterator<Item = SendRequest<'a, Self>>,
    ) -> Result<()> {
        qp.post_send(&self.kernel, requests)
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
}
