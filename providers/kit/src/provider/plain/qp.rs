#![forbid(unsafe_code)]
//! Queue pairs.

use super::number;
use crate::abi::handle::{QpAnswer, QpChange};
use crate::abi::kernel::ib_uverbs_modify_qp;
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::{Commands, Numbered, Provider, QpInit};
use crate::uverbs::{Driver, qp};
use core::sync::atomic::{AtomicU32, Ordering};

/// The kernel's part of a queue pair.
pub struct PlainQp {
    /// Its number in the kernel.
    pub handle: u32,
    /// The state that the application set or queried last; an error, or a connection manager, may
    /// have changed it since.
    state: AtomicU32,
}

impl PlainQp {
    /// Makes it in the kernel, and hands its sizes back to the application. `operations` are those
    /// by calls that the type of queue pair has (`enum ibv_qp_create_send_ops_flags`).
    ///
    /// # Errors
    /// EOPNOTSUPP for other operations, and for features that a plain queue pair lacks; EINVAL for
    /// one without a domain; the kernel's errno.
    pub fn make<P: Provider>(
        provider: &P,
        kernel: &Commands,
        init: &mut QpInit<'_, P>,
        operations: u32,
        driver: &mut Driver<'_>,
    ) -> Result<(Self, qp::CreatedQp)> {
        let known = init.send_ops & !u64::from(operations) == 0;
        let plain = init.create_flags == 0 && init.max_tso_header == 0 && init.rss.is_none();
        if !known || !plain {
            return Err(Errno::OPNOTSUPP);
        }
        let queue = |cq: Option<&P::Cq>| {
            let handle = |cq: &P::Cq| number(provider, Numbered::Cq(cq));
            cq.map(handle).transpose()
        };
        let pd = init.pd.ok_or(Errno::INVAL)?;
        let shared = init.srq.map(|srq| number(provider, Numbered::Srq(srq)));
        let new = qp::NewQp {
            user_handle: init.token.0,
            qp_type: init.qp_type,
            queues: qp::Queues::Domain {
                pd: number(provider, Numbered::Pd(&**pd))?,
                send_cq: queue(init.send_cq)?,
                recv_cq: queue(init.recv_cq)?,
                ind_table: None,
            },
            srq: shared.transpose()?,
            cap: (*init.cap).into(),
            signal_all: init.sq_sig_all,
            flags: None,
            source_qpn: 0,
            async_fd: kernel.async_fd(),
        };
        let made = qp::create_qp(kernel, &new, driver)?;
        *init.cap = made.cap.into();
        let state = AtomicU32::new(IBV_QPS_RESET);
        let handle = made.handle;
        Ok((Self { handle, state }, made))
    }

    /// Ends it in the kernel; returns the number of asynchronous events reported.
    ///
    /// # Errors
    /// The kernel's own errno.
    pub fn destroy(&self, kernel: &Commands) -> Result<u32> {
        Ok(qp::destroy_qp(kernel, self.handle)?.unwrap_or_default())
    }

    /// Changes it; returns the state after that.
    ///
    /// # Errors
    /// The kernel's own errno.
    pub fn modify(&self, kernel: &Commands, attr: &ibv_qp_attr, mask: u32) -> Result<ibv_qp_state> {
        let mut command = ib_uverbs_modify_qp::default();
        qp::fill_modify_command(&mut command, self.handle, QpChange::new(attr, mask));
        let driver = &mut Driver::none();
        if mask & IBV_QP_RATE_LIMIT == 0 {
            qp::modify_qp(kernel, &command, driver)?;
        } else {
            qp::modify_qp_ex(kernel, command, attr.rate_limit, driver)?;
        }
        if mask & IBV_QP_STATE != 0 {
            self.state.store(attr.qp_state, Ordering::Relaxed);
        }
        Ok(self.state())
    }

    /// Asks for its attributes.
    ///
    /// # Errors
    /// The kernel's own errno.
    pub fn query(&self, kernel: &Commands, attr: &mut ibv_qp_attr) -> Result<()> {
        const ALL: u32 = IBV_QP_RATE_LIMIT - 1;
        let reported = qp::query_qp(kernel, self.handle, ALL, &mut Driver::none())?;
        qp::read_attr(&mut QpAnswer::new(attr), &reported);
        self.state.store(attr.qp_state, Ordering::Relaxed);
        Ok(())
    }

    /// The state as far as it is known here.
    #[inline]
    #[must_use]
    pub fn state(&self) -> ibv_qp_state {
        self.state.load(Ordering::Relaxed)
    }
}
