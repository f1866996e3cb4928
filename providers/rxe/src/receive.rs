//! Receive requests, of queue pairs and of shared receive queues.

use crate::context::Context;
use crate::mapped;
use bytemuck::{Zeroable, bytes_of, bytes_of_mut, cast_slice};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use kit::abi::kernel::*;
use kit::abi::{IBV_SRQ_MAX_WR, ibv_sge, ibv_srq_attr};
use kit::errno::{Errno, Result};
use kit::provider::{Commands, ReceiveRequest, SrqInit, plain};
use kit::queue::{Entry, Lock, ProducerRing};
use kit::uverbs::{Driver, srq};

/// Where the elements of a request stand.
const SGES: usize = size_of::<rxe_recv_wqe>();
/// Bytes of a request with one element.
const ENTRY: usize = SGES + size_of::<ibv_sge>();

/// A ring of receive requests.
pub struct Receives {
    ring: ProducerRing<ENTRY>,
    max_sge: usize,
}

impl Receives {
    /// Maps the queue that a command answered.
    ///
    /// # Errors
    /// Those of [`mapped::map`].
    pub fn map(kernel: &Commands, at: &mminfo, max_sge: u32) -> Result<Self> {
        Self::new(ProducerRing::new(mapped::map(kernel, at)?)?, max_sge)
    }

    fn new(ring: ProducerRing<ENTRY>, max_sge: u32) -> Result<Self> {
        let max_sge = usize::try_from(max_sge).map_err(|_| Errno::IO)?;
        Ok(Self { ring, max_sge })
    }

    /// Posts requests in order.
    ///
    /// # Errors
    /// ENOMEM when the queue is full, EINVAL for too many elements, EIO for an index of the
    /// kernel's that leads out of the ring. Those before the request are posted.
    #[inline]
    pub fn post<'a>(
        &mut self,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        let answer = self.add_all(requests);
        self.ring.publish();
        answer
    }

    #[inline(always)] // the chain's place is then kept in registers
    fn add_all<'a>(
        &mut self,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        for request in requests {
            self.add(&request)?;
        }
        Ok(())
    }

    #[inline]
    fn add(&mut self, request: &ReceiveRequest<'_>) -> Result<()> {
        let mut entry = self.ring.free()?;
        if request.sges.len() > self.max_sge {
            return Err(Errno::INVAL);
        }
        let length = put_sges::<ENTRY, SGES>(&mut entry, request.sges)?;
        let count = u32::try_from(request.sges.len()).map_err(|_| Errno::INVAL)?;
        entry.put::<{ offset_of!(rxe_recv_wqe, wr_id) }, u64>(request.id);
        entry.put::<{ offset_of!(rxe_recv_wqe, dma) }, [u32; 6]>([length, length, 0, count, 0, 0]);
        self.ring.step();
        Ok(())
    }
}

/// Writes the elements of a request at a fixed place; returns their bytes, in the kernel's 32 bits.
///
/// # Errors
/// EINVAL for more than the entry has room for.
#[inline]
pub fn put_sges<const LEAST: usize, const AT: usize>(
    entry: &mut Entry<'_, LEAST>,
    sges: &[ibv_sge],
) -> Result<u32> {
    match sges {
        [one] => {
            entry.put::<AT, ibv_sge>(*one);
            Ok(one.length)
        }
        more => put_more(entry, AT, more),
    }
}

#[inline(never)]
fn put_more<const LEAST: usize>(
    entry: &mut Entry<'_, LEAST>,
    at: usize,
    sges: &[ibv_sge],
) -> Result<u32> {
    entry.put_bytes(at, cast_slice(sges))?;
    Ok(length(sges))
}

/// Bytes of all elements, in the kernel's 32 bits.
pub fn length(sges: &[ibv_sge]) -> u32 {
    let lengths = sges.iter().map(|sge| sge.length);
    lengths.fold(0, u32::wrapping_add)
}

/// A shared receive queue.
pub struct Srq {
    pub(crate) handle: u32,
    queue: Lock<Queue>,
}

struct Queue {
    requests: Option<Receives>,
    /// As in a completion queue: where the ring is to be mapped.
    at: mminfo,
    max_sge: u32,
}

impl Queue {
    fn requests(&mut self, kernel: &Commands) -> Result<&mut Receives> {
        match self.requests {
            Some(ref mut requests) => Ok(requests),
            None => {
                let requests = Receives::map(kernel, &self.at, self.max_sge)?;
                Ok(self.requests.insert(requests))
            }
        }
    }
}

impl Srq {
    /// Makes a queue; returns its number, too.
    ///
    /// # Errors
    /// EOPNOTSUPP for XRC; the kernel's own errno.
    pub fn create(context: &Context, init: &mut SrqInit<'_, Context>) -> Result<(Self, u32)> {
        let kernel = &context.kernel;
        let mut reported = rxe_create_srq_resp::zeroed();
        let driver = &mut Driver::response(bytes_of_mut(&mut reported));
        let made = init.make_plain(context, kernel, driver)?;
        let requests = Receives::map(kernel, &reported.mi, made.max_sge).inspect_err(|_| {
            // As for completion queues.
            let _ = srq::destroy_srq(kernel, made.handle);
        })?;
        let queue = Lock::new(Queue {
            requests: Some(requests),
            at: reported.mi,
            max_sge: made.max_sge,
        });
        let handle = made.handle;
        Ok((Self { handle, queue }, reported.srq_num))
    }

    /// Changes size or limit.
    ///
    /// # Errors
    /// The kernel's own errno; ENOMEM if a new ring cannot be mapped, which posting then tries
    /// again.
    pub fn modify(&self, kernel: &Commands, attr: &ibv_srq_attr, mask: u32) -> Result<()> {
        let mut queue = self.queue.lock();
        // The kernel writes where the ring is to this address while the command runs.
        let place: [AtomicU64; 2] = Default::default();
        let mut data = rxe_modify_srq_cmd {
            mmap_info_addr: (&raw const place).expose_provenance() as u64,
        };
        let driver = &mut Driver::data(bytes_of_mut(&mut data));
        plain::modify_srq(kernel, self.handle, attr, mask, driver)?;
        if mask & IBV_SRQ_MAX_WR == 0 {
            return Ok(());
        }
        let reported = place.each_ref().map(|word| word.load(Ordering::Acquire));
        queue.at = bytemuck::pod_read_unaligned(bytes_of(&reported));
        queue.requests = None;
        queue.requests(kernel).map(|_| ())
    }

    /// Ends it in the kernel; returns the number of asynchronous events reported.
    ///
    /// # Errors
    /// The kernel's own errno.
    pub fn destroy(&self, kernel: &Commands) -> Result<u32> {
        let reported = srq::destroy_srq(kernel, self.handle)?.unwrap_or_default();
        self.queue.lock().requests = None;
        Ok(reported)
    }

    /// As [`Receives::post`].
    ///
    /// # Errors
    /// As there; those of [`mapped::map`].
    #[inline]
    pub fn post<'a>(
        &self,
        kernel: &Commands,
        requests: &mut impl Iterator<Item = ReceiveRequest<'a>>,
    ) -> Result<()> {
        self.queue.lock().requests(kernel)?.post(requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::queue::ConsumerRing;
    use std::iter::once;

    #[test]
    fn requests_have_their_elements() {
        let region = mapped::plain(1, 7);
        let ring = ProducerRing::new(mapped::ring(region.share()).expect("fits"));
        let mut receives = Receives::new(ring.expect("empty"), 3).expect("small");
        let kernel = ConsumerRing::<128>::new(mapped::ring(region.share()).expect("fits"));
        let mut kernel = kernel.expect("empty");
        let element = |addr| ibv_sge {
            addr,
            length: 10,
            lkey: 3,
        };
        let sges = [element(1), element(2), element(3), element(4)];
        for count in 0..=3u32 {
            let id = count.into();
            let sges = &sges[..count as usize];
            receives
                .post(&mut once(ReceiveRequest { id, sges }))
                .expect("room");
            let full = receives.post(&mut once(ReceiveRequest { id, sges }));
            assert_eq!(full, Err(Errno::NOMEM));
            let entry = kernel.head().expect("inside").expect("a request");
            let wqe = entry.get::<0, rxe_recv_wqe>();
            assert_eq!((wqe.wr_id, wqe.dma.num_sge), (id, count));
            assert_eq!((wqe.dma.length, wqe.dma.resid), (count * 10, count * 10));
            let found = entry.get::<SGES, [rxe_sge; 3]>();
            for (found, sge) in found.iter().zip(sges) {
                let found = (found.addr, found.length, found.lkey);
                assert_eq!(found, (sge.addr, sge.length, sge.lkey));
            }
            kernel.step();
            kernel.release();
        }
        let sges = &sges[..];
        let many = receives.post(&mut once(ReceiveRequest { id: 9, sges }));
        assert_eq!(many, Err(Errno::INVAL));
        assert!(kernel.head().expect("inside").is_none());
    }
}
