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
use kit::provider::{Bind, BindInfo, Commands, QpInit, ReceiveRequest, SendRequest, SendView};
use kit::queue::Lock;
use kit::uverbs::{Driver, post, qp};

/// A queue pair.
pub struct Qp {
    pub(crate) handle: u32,
    /// The state that the application brought it to; an error may have moved it since.
    state: AtomicU32,
    sends: Lock<Sends>,
    /// None if it receives from a shared queue.
    receives: Option<Lock<Receives>>,
}

/// Operations by calls that each type of queue pair has.
const DATAGRAMS: u32 = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
const UNRELIABLE: u32 = DATAGRAMS
    | IBV_QP_EX_WITH_RDMA_WRITE
    | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    | IBV_QP_EX_WITH_BIND_MW
    | IBV_QP_EX_WITH_SEND_WITH_INV;
const RELIABLE: u32 = UNRELIABLE
    | IBV_QP_EX_WITH_RDMA_READ
    | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
    | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
    | IBV_QP_EX_WITH_LOCAL_INV
    | IBV_QP_EX_WITH_ATOMIC_WRITE;

/// # Errors
/// EOPNOTSUPP for what the kernel's driver does not have.
fn check(init: &QpInit<'_, Context>) -> Result<()> {
    let operations = match init.qp_type {
        IBV_QPT_RC => RELIABLE,
        IBV_QPT_UC => UNRELIABLE,
        IBV_QPT_UD => DATAGRAMS,
        _ => return Err(Errno::OPNOTSUPP),
    };
    let known = init.send_ops & !u64::from(operations) == 0;
    let plain = init.create_flags == 0 && init.max_tso_header == 0 && init.rss.is_none();
    if !known || !plain {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(())
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
        let mut told = rxe_create_qp_resp::zeroed();
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
        told: &rxe_create_qp_resp,
    ) -> Result<Self> {
        let receives = match new.srq {
            Some(_) => None,
            None => Some(Receives::map(kernel, &told.rq_mi, made.cap.max_recv_sge)?),
        };
        let sends = Sends::map(kernel, &told.sq_mi, new.qp_type, &made.cap)?;
        Ok(Self {
            handle: made.handle,
            state: AtomicU32::new(IBV_QPS_RESET),
            sends: Lock::new(sends),
            receives: receives.map(Lock::new),
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
        self.state.store(attr.qp_state, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the state is one in which the kernel takes send requests.
    ///
    /// # Errors
    /// EINVAL if it is not.
    #[inline]
    fn sends_now(&self) -> Result<()> {
        match self.state.load(Ordering::Relaxed) {
            IBV_QPS_RESET | IBV_QPS_INIT | IBV_QPS_RTR => Err(Errno::INVAL),
            _ => Ok(()),
        }
    }

    /// Posts send requests, and tells the kernel.
    ///
    /// # Errors
    /// EINVAL before the queue pair may send; those of [`Sends::post`]; the kernel's own errno.
    #[inline]
    pub fn post_send<'a>(
        &self,
        kernel: &Commands,
        requests: &mut impl Iterator<Item = impl SendView<'a, Context>>,
    ) -> Result<()> {
        self.sends_now()?;
        let answer = self.sends.lock().post(requests);
        // Requests in front of a bad one are to be sent, too.
        post::ring_doorbell(kernel, self.handle).and(answer)
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
        self.sends_now()?;
        self.sends.lock().post_all(requests)?;
        post::ring_doorbell(kernel, self.handle)
    }

    /// Posts receive requests.
    ///
    /// # Errors
    /// EINVAL in state RESET, and for a queue pair with a shared queue; those of
    /// [`Receives::post`].
    #[inline]
    pub fn post_recv<'a>(
        &self,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        let receives = self.receives.as_ref().ok_or(Errno::INVAL)?;
        if self.state.load(Ordering::Relaxed) == IBV_QPS_RESET {
            return Err(Errno::INVAL);
        }
        receives.lock().post(requests)
    }

    /// Binds a window of type 1; answers its new key.
    ///
    /// # Errors
    /// EINVAL for addresses counted from zero; those of [`Self::post_send`].
    pub fn bind(
        &self,
        kernel: &Commands,
        mw: &std::sync::Arc<crate::objects::Mw>,
        (id, flags): (u64, u32),
        info: &BindInfo<'_, Context>,
    ) -> Result<u32> {
        if info.access & IBV_ACCESS_ZERO_BASED != 0 {
            return Err(Errno::INVAL);
        }
        let rkey = next_key(info.key);
        let mut request = SendRequest::new(id, IBV_WR_BIND_MW, flags);
        request.bind = Some(Bind {
            mw,
            rkey,
            info: BindInfo { ..*info },
        });
        self.post_send(kernel, &mut core::iter::once(request))?;
        Ok(rkey)
    }
}

/// The key of a window's next binding: the last 8 bits count.
fn next_key(key: u32) -> u32 {
    key & 0xffff_ff00 | key.wrapping_add(1) & 0xff
}
