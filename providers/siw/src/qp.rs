//! Queue pairs.

use crate::context::Context;
use crate::receive::Receives;
use crate::send::Sends;
use bytemuck::{Zeroable, bytes_of_mut};
use kit::abi::kernel::*;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::plain::PlainQp;
use kit::provider::{Commands, QpInit, ReceiveRequest, SendRequest};
use kit::sync::Mutex;
use kit::uverbs::{Driver, post, qp};

/// A queue pair.
pub struct Qp {
    pub(crate) plain: PlainQp,
    sends: Mutex<Sends>,
    /// Its receive queue, without an SRQ.
    receives: Option<Mutex<Receives>>,
    shares: bool,
}

/// Operations by calls.
const OPERATIONS: u32 = IBV_QP_EX_WITH_SEND
    | IBV_QP_EX_WITH_SEND_WITH_INV
    | IBV_QP_EX_WITH_RDMA_WRITE
    | IBV_QP_EX_WITH_RDMA_READ;

fn map(
    kernel: &Commands,
    init: &QpInit<'_, Context>,
    made: &qp::CreatedQp,
    reported: &siw_uresp_create_qp,
) -> Result<(Sends, Option<Receives>)> {
    let sends = Sends::map(kernel, reported, made.cap.max_send_sge, init.sq_sig_all)?;
    // A queue pair that never receives has no queue to be mapped.
    let receives = match init.srq.is_some() || reported.num_rqe == 0 {
        true => None,
        false => Some(Receives::map(
            kernel,
            reported.rq_key,
            reported.num_rqe,
            made.cap.max_recv_sge,
        )?),
    };
    Ok((sends, receives))
}

impl Qp {
    /// Makes a queue pair; returns its number, too.
    ///
    /// # Errors
    /// EOPNOTSUPP for features that the kernel's driver lacks; the kernel's errno.
    pub fn create(context: &Context, init: &mut QpInit<'_, Context>) -> Result<(Self, u32)> {
        if init.qp_type != IBV_QPT_RC {
            return Err(Errno::OPNOTSUPP);
        }
        let kernel = &context.kernel;
        let mut reported = siw_uresp_create_qp::zeroed();
        let driver = &mut Driver::response(bytes_of_mut(&mut reported));
        let (plain, made) = PlainQp::make(context, kernel, init, OPERATIONS, driver)?;
        let (sends, receives) = map(kernel, init, &made, &reported).inspect_err(|_| {
            // The application does not have the queue pair; it ends with the context at the latest.
            let _ = plain.destroy(kernel);
        })?;
        let pair = Self {
            plain,
            sends: Mutex::new(sends),
            receives: receives.map(Mutex::new),
            shares: init.srq.is_some(),
        };
        Ok((pair, made.qp_num))
    }

    /// Posts send requests, and notifies the kernel if necessary. Only the kernel knows whether the
    /// queue pair may send.
    ///
    /// # Errors
    /// Those of [`Sends::post`]; ENOTCONN if the queue pair is not connected.
    #[inline]
    pub fn post_send<'a>(
        &self,
        kernel: &Commands,
        requests: &mut impl Iterator<Item = SendRequest<'a, Context>>,
    ) -> Result<()> {
        let bell = || post::ring_doorbell(kernel, self.plain.handle);
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
        let bell = || post::ring_doorbell(kernel, self.plain.handle);
        self.sends.lock().post_all(requests, bell)
    }

    /// Posts receive requests.
    ///
    /// # Errors
    /// EINVAL for a queue pair with a shared queue, ENOMEM for one that was made with room for
    /// none; those of [`Receives::post`].
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
