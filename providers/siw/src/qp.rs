//! Queue pairs.

use crate::context::Context;
use crate::receive::Receives;
use crate::send::Sends;
use bytemuck::{Zeroable, bytes_of_mut};
use core::sync::atomic::{AtomicU32, Ordering};
use kit::abi::handle::{QpAnswer, QpChange};
use kit::abi::kernel::*;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{Commands, QpInit, ReceiveRequest, SendRequest};
use kit::uverbs::{Driver, post, qp};
use parking_lot::Mutex;

/// A queue pair.
pub struct Qp {
    pub(crate) handle: u32,
    /// The state that the application brought it to; the connection manager moves it, too.
    state: AtomicU32,
    sends: Mutex<Sends>,
    /// What it receives by itself.
    receives: Option<Mutex<Receives>>,
    shares: bool,
}

/// Operations by calls.
const OPERATIONS: u32 = IBV_QP_EX_WITH_SEND
    | IBV_QP_EX_WITH_SEND_WITH_INV
    | IBV_QP_EX_WITH_RDMA_WRITE
    | IBV_QP_EX_WITH_RDMA_READ;

/// # Errors
/// EOPNOTSUPP for what the kernel's driver does not have.
fn check(init: &QpInit<'_, Context>) -> Result<()> {
    let known = init.qp_type == IBV_QPT_RC && init.send_ops & !u64::from(OPERATIONS) == 0;
    let plain = init.create_flags == 0 && init.max_tso_header == 0 && init.rss.is_none();
    match known && plain {
        true => Ok(()),
        false => Err(Errno::OPNOTSUPP),
    }
}

impl Qp {
    /// Makes a queue pair; answers its number, too.
    ///
    /// # Errors
    /// EOPNOTSUPP for what the kernel's driver does not have; the kernel's own errno.
    pub fn create(kernel: &Commands, init: &mut QpInit<'_, Context>) -> Result<(Self, u32)> {
        check(init)?;
        let new = qp::NewQp {
            user_handle: init.token.0,
            qp_type: init.qp_type,
            queues: qp::Queues::Domain {
                pd: init.pd.ok_or(Errno::INVAL)?.handle,
                send_cq: init.send_cq.map(|cq| cq.handle),
                recv_cq: init.recv_cq.map(|cq| cq.handle),
                ind_table: None,
            },
            srq: init.srq.map(|srq| srq.handle),
            cap: (*init.cap).into(),
            signal_all: init.sq_sig_all,
            flags: None,
            source_qpn: 0,
            async_fd: kernel.async_fd(),
        };
        let mut told = siw_uresp_create_qp::zeroed();
        let driver = &mut Driver::response(bytes_of_mut(&mut told));
        let made = qp::create_qp(kernel, &new, driver)?;
        let pair = Self::map(kernel, &new, &made, &told).inspect_err(|_| {
            // Nobody knows the queue pair; what cannot be undone goes with the context.
            let _ = qp::destroy_qp(kernel, made.handle);
        })?;
        *init.cap = made.cap.into();
        Ok((pair, made.qp_num))
    }

    fn map(
        kernel: &Commands,
        new: &qp::NewQp,
        made: &qp::CreatedQp,
        told: &siw_uresp_create_qp,
    ) -> Result<Self> {
        let sends = Sends::map(kernel, told, made.cap.max_send_sge, new.signal_all)?;
        let shares = new.srq.is_some();
        // One that never receives has no queue to be mapped.
        let receives = match shares || told.num_rqe == 0 {
            true => None,
            false => Some(Receives::map(
                kernel,
                told.rq_key,
                told.num_rqe,
                made.cap.max_recv_sge,
            )?),
        };
        Ok(Self {
            handle: made.handle,
            state: AtomicU32::new(IBV_QPS_RESET),
            sends: Mutex::new(sends),
            receives: receives.map(Mutex::new),
            shares,
        })
    }

    /// Ends it in the kernel; answers the asynchronous events told.
    ///
    /// # Errors
    /// The kernel's own errno.
    pub fn destroy(&self, kernel: &Commands) -> Result<u32> {
        Ok(qp::destroy_qp(kernel, self.handle)?.unwrap_or_default())
    }

    /// Changes it; answers the state after that.
    ///
    /// # Errors
    /// The kernel's own errno.
    pub fn modify(&self, kernel: &Commands, attr: &ibv_qp_attr, mask: u32) -> Result<ibv_qp_state> {
        let command = qp::modify_command(self.handle, QpChange::new(attr, mask));
        let driver = &mut Driver::none();
        if mask & IBV_QP_RATE_LIMIT == 0 {
            qp::modify_qp(kernel, &command, driver)?;
        } else {
            qp::modify_qp_ex(kernel, command, attr.rate_limit, driver)?;
        }
        if mask & IBV_QP_STATE != 0 {
            self.state.store(attr.qp_state, Ordering::Relaxed);
        }
        Ok(self.state.load(Ordering::Relaxed))
    }

    /// Asks for its attributes.
    ///
    /// # Errors
    /// The kernel's own errno.
    pub fn query(&self, kernel: &Commands, attr: &mut ibv_qp_attr) -> Result<()> {
        const ALL: u32 = IBV_QP_RATE_LIMIT - 1;
        let told = qp::query_qp(kernel, self.handle, ALL, &mut Driver::none())?;
        qp::read_attr(&mut QpAnswer::new(attr), &told);
        Ok(())
    }

    /// Posts send requests, and tells the kernel if it has to be told. Whether the queue pair may
    /// send the kernel alone knows.
    ///
    /// # Errors
    /// Those of [`Sends::post`]; ENOTCONN if the queue pair is not connected.
    #[inline]
    pub fn post_send<'a>(
        &self,
        kernel: &Commands,
        requests: &mut impl Iterator<Item = SendRequest<'a, Context>>,
    ) -> Result<()> {
        let bell = || post::ring_doorbell(kernel, self.handle);
        self.sends.lock().post(requests, bell)
    }

    /// As [`Self::post_send`], all or none.
    ///
    /// # Errors
    /// As there.
    pub fn post_send_all<'a>(
        &self,
        kernel: &Commands,
        requests: &mut impl Iterator<Item = SendRequest<'a, Context>>,
    ) -> Result<()> {
        let bell = || post::ring_doorbell(kernel, self.handle);
        self.sends.lock().post_all(requests, bell)
    }

    /// Posts receive requests.
    ///
    /// # Errors
    /// EINVAL for a queue pair with a shared queue, ENOMEM for one that was made with room for none;
    /// those of [`Receives::post`].
    #[inline]
    pub fn post_recv<'a>(
        &self,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        match &self.receives {
            Some(receives) => receives.lock().post(requests),
            None if self.shares => Err(Errno::INVAL),
            None => requests.next().map_or(Ok(()), |_| Err(Errno::NOMEM)),
        }
    }
}
