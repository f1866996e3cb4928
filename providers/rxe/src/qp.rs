//! Queue pairs.

use crate::context::Context;
use crate::receive::Receives;
use crate::send::Sends;
use bytemuck::{Zeroable, bytes_of_mut};
use kit::abi::kernel::*;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::plain::PlainQp;
use kit::provider::{Bind, BindInfo, Commands, QpInit, ReceiveRequest, SendRequest, SendView};
use kit::queue::Lock;
use kit::uverbs::{Driver, post, qp};

/// A queue pair.
pub struct Qp {
    pub(crate) plain: PlainQp,
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
    | IBV_QP_EX_WITH_ATOMIC_WRITE
    | IBV_QP_EX_WITH_FLUSH;

/// The operations of a type.
///
/// # Errors
/// EOPNOTSUPP for types that the kernel's driver lacks, EINVAL for unknown types.
fn operations(qp_type: ibv_qp_type) -> Result<u32> {
    match qp_type {
        IBV_QPT_RC => Ok(RELIABLE),
        IBV_QPT_UC => Ok(UNRELIABLE),
        IBV_QPT_UD => Ok(DATAGRAMS),
        IBV_QPT_RAW_PACKET | IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV | IBV_QPT_DRIVER => {
            Err(Errno::OPNOTSUPP)
        }
        _ => Err(Errno::INVAL),
    }
}

fn map(
    kernel: &Commands,
    init: &QpInit<'_, Context>,
    made: &qp::CreatedQp,
    reported: &rxe_create_qp_resp,
) -> Result<(Sends, Option<Receives>)> {
    let receives = match init.srq {
        Some(_) => None,
        None => Some(Receives::map(
            kernel,
            &reported.rq_mi,
            made.cap.max_recv_sge,
        )?),
    };
    let sends = Sends::map(kernel, &reported.sq_mi, init.qp_type, &made.cap)?;
    Ok((sends, receives))
}

impl Qp {
    /// Makes a queue pair; returns its number, too.
    ///
    /// # Errors
    /// EOPNOTSUPP for features that the kernel's driver lacks, EINVAL for unknown types; the
    /// kernel's errno.
    pub fn create(context: &Context, init: &mut QpInit<'_, Context>) -> Result<(Self, u32)> {
        let (kernel, operations) = (&context.kernel, operations(init.qp_type)?);
        let mut reported = rxe_create_qp_resp::zeroed();
        let driver = &mut Driver::response(bytes_of_mut(&mut reported));
        let (plain, made) = PlainQp::make(context, kernel, init, operations, driver)?;
        let (sends, receives) = map(kernel, init, &made, &reported).inspect_err(|_| {
            // The application does not have the queue pair; it ends with the context at the latest.
            let _ = plain.destroy(kernel);
        })?;
        let pair = Self {
            plain,
            sends: Lock::new(sends),
            receives: receives.map(Lock::new),
        };
        Ok((pair, made.qp_num))
    }

    /// Whether the state is one in which the kernel takes send requests.
    ///
    /// # Errors
    /// EINVAL if it is not.
    #[inline]
    fn sends_now(&self) -> Result<()> {
        match self.plain.state() {
            IBV_QPS_RESET | IBV_QPS_INIT | IBV_QPS_RTR => Err(Errno::INVAL),
            _ => Ok(()),
        }
    }

    /// Posts send requests, and notifies the kernel.
    ///
    /// # Errors
    /// EINVAL before the queue pair may send; those of [`Sends::post`]; the kernel's own errno if
    /// it could not be notified. Then the requests are in the queue, and the kernel executes them
    /// when it reads the queue next, as with rdma-core's provider.
    #[inline]
    pub fn post_send<'a>(
        &self,
        kernel: &Commands,
        requests: &mut impl Iterator<Item = impl SendView<'a, Context>>,
    ) -> Result<()> {
        self.sends_now()?;
        let answer = self.sends.lock().post(requests);
        // Requests in front of a bad one are to be sent, too.
        post::ring_doorbell(kernel, self.plain.handle)?;
        answer
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
        post::ring_doorbell(kernel, self.plain.handle)
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
        if self.plain.state() == IBV_QPS_RESET {
            return Err(Errno::INVAL);
        }
        receives.lock().post(requests)
    }

    /// Binds a window of type 1; returns its new key.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_rxe_lacks_is_another_error_than_no_type() {
        assert!(operations(IBV_QPT_UD).is_ok());
        for known in [IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND, IBV_QPT_DRIVER] {
            assert_eq!(operations(known), Err(Errno::OPNOTSUPP));
        }
        for odd in [0, 1, 77, ibv_qp_type::MAX] {
            assert_eq!(operations(odd), Err(Errno::INVAL));
        }
    }
}
