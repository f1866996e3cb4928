//! Receive requests, of queue pairs and of shared receive queues.

use crate::context::Context;
use crate::mapped::{self, FLAG};
use bytemuck::{Zeroable, bytes_of_mut, cast_slice};
use core::mem::offset_of;
use core::sync::atomic::AtomicU16;
use kit::abi::kernel::*;
use kit::abi::{ibv_sge, ibv_srq_attr};
use kit::errno::{Errno, Result};
use kit::provider::{Commands, ReceiveRequest, SrqInit, plain};
use kit::queue::Slots;
use kit::queue::owner::Flag;
use kit::sync::Mutex;
use kit::uverbs::{Driver, srq};

/// Bytes of a request.
const ENTRY: usize = size_of::<siw_rqe>();
const SGES: usize = offset_of!(siw_rqe, sge);
const COUNT: usize = offset_of!(siw_rqe, num_sge);
const ID: usize = offset_of!(siw_rqe, id);

type Requests = Slots<ENTRY, FLAG, AtomicU16>;

const _: () = assert!(FLAG == offset_of!(siw_rqe, flags));

/// A queue of receive requests.
pub struct Receives {
    requests: Requests,
    /// The request to be written next, counted on and on.
    next: u32,
    max_sge: usize,
}

impl Receives {
    /// Maps the queue that a command answered.
    ///
    /// # Errors
    /// Those of [`mapped::slots`].
    pub fn map(kernel: &Commands, key: u64, count: u32, max_sge: u32) -> Result<Self> {
        Self::new(mapped::slots(kernel, key, count)?, max_sge)
    }

    fn new(requests: Requests, max_sge: u32) -> Result<Self> {
        let max_sge = usize::try_from(max_sge).map_err(|_| Errno::IO)?;
        Ok(Self {
            requests,
            next: 0,
            max_sge: max_sge.min(SIW_MAX_SGE),
        })
    }

    /// Posts requests in order.
    ///
    /// # Errors
    /// ENOMEM when the queue is full, EINVAL for too many elements. Those before the request are
    /// posted.
    #[inline]
    pub fn post<'a>(
        &mut self,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        requests.try_for_each(|request| self.add(&request))
    }

    #[inline]
    fn add(&mut self, request: &ReceiveRequest<'_>) -> Result<()> {
        if self.requests.flag(self.next).look() & SIW_WQE_VALID != 0 {
            return Err(Errno::NOMEM);
        }
        if request.sges.len() > self.max_sge {
            return Err(Errno::INVAL);
        }
        let count = u8::try_from(request.sges.len()).map_err(|_| Errno::INVAL)?;
        let mut entry = self.requests.entry(self.next);
        entry.put::<ID, u64>(request.id);
        entry.put::<COUNT, [u8; 2]>([count, SIW_OP_RECEIVE]);
        match request.sges {
            [one] => entry.put::<SGES, ibv_sge>(*one),
            more => entry.put_bytes(SGES, cast_slice(more))?,
        }
        self.requests.flag(self.next).set(SIW_WQE_VALID);
        self.next = self.next.wrapping_add(1);
        Ok(())
    }
}

/// A shared receive queue.
pub struct Srq {
    pub(crate) handle: u32,
    /// None once it is destroyed.
    requests: Mutex<Option<Receives>>,
}

impl Srq {
    /// Makes a queue.
    ///
    /// # Errors
    /// EOPNOTSUPP for XRC; the kernel's own errno.
    pub fn create(context: &Context, init: &mut SrqInit<'_, Context>) -> Result<Self> {
        let kernel = &context.kernel;
        let mut reported = siw_uresp_create_srq::zeroed();
        let driver = &mut Driver::response(bytes_of_mut(&mut reported));
        let made = init.make_plain(context, kernel, driver)?;
        let mapped = Receives::map(kernel, reported.srq_key, reported.num_rqe, made.max_sge);
        let requests = mapped.inspect_err(|_| {
            // The application does not have the queue; it ends with the context at the latest.
            let _ = srq::destroy_srq(kernel, made.handle);
        })?;
        Ok(Self {
            handle: made.handle,
            requests: Mutex::new(Some(requests)),
        })
    }

    /// Changes its limit.
    ///
    /// # Errors
    /// The kernel's own errno, which is EOPNOTSUPP for another size.
    pub fn modify(&self, kernel: &Commands, attr: &ibv_srq_attr, mask: u32) -> Result<()> {
        plain::modify_srq(kernel, self.handle, attr, mask, &mut Driver::none())
    }

    /// Ends it in the kernel; returns the number of asynchronous events reported.
    ///
    /// # Errors
    /// The kernel's own errno.
    pub fn destroy(&self, kernel: &Commands) -> Result<u32> {
        let reported = srq::destroy_srq(kernel, self.handle)?.unwrap_or_default();
        *self.requests.lock() = None;
        Ok(reported)
    }

    /// As [`Receives::post`].
    ///
    /// # Errors
    /// As there; EINVAL once the queue is destroyed.
    #[inline]
    pub fn post<'a>(&self, requests: &mut impl Iterator<Item = ReceiveRequest<'a>>) -> Result<()> {
        let mut queue = self.requests.lock();
        queue.as_mut().ok_or(Errno::INVAL)?.post(requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::queue::Region;
    use std::iter::once;

    #[test]
    fn requests_have_their_elements_until_the_queue_is_full() {
        let region = Region::plain(4 * ENTRY).expect("memory");
        let requests = Slots::new(region.share(), 4).expect("fits");
        let mut kernel: Requests = Slots::new(region.share(), 4).expect("fits");
        let mut receives = Receives::new(requests, 3).expect("small");
        let sges: [ibv_sge; 4] = core::array::from_fn(|i| ibv_sge {
            addr: i as u64 + 1,
            length: 10,
            lkey: 3,
        });
        let request = |count: usize| ReceiveRequest {
            id: count as u64,
            sges: &sges[..count],
        };
        let many = receives.post(&mut once(request(4)));
        assert_eq!(many, Err(Errno::INVAL));
        receives.post(&mut (0..4).map(request)).expect("room");
        let full = receives.post(&mut once(request(1)));
        assert_eq!(full, Err(Errno::NOMEM));
        for index in 0..4u8 {
            let found = kernel.entry(index.into()).get::<0, siw_rqe>();
            assert_eq!((found.flags, found.num_sge), (SIW_WQE_VALID, index));
            assert_eq!(found.id, u64::from(index));
            for (i, sge) in found.sge.iter().take(index.into()).enumerate() {
                assert_eq!((sge.laddr, sge.length, sge.lkey), (i as u64 + 1, 10, 3));
            }
            kernel.flag(index.into()).set(0);
        }
        receives.post(&mut once(request(2))).expect("room again");
        assert_eq!(kernel.flag(4).look(), SIW_WQE_VALID);
    }
}
