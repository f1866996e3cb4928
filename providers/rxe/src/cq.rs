//! Completion queues.

use crate::mapped;
use bytemuck::{Zeroable, bytes_of_mut};
use kit::abi::ibv_wc;
use kit::abi::kernel::*;
use kit::errno::{Errno, Result};
use kit::provider::{Commands, CqInit, Polled, ReportedEvents, plain};
use kit::queue::{ConsumerRing, Lock};
use kit::uverbs::{Driver, cq};

/// Bytes of a completion.
const ENTRY: usize = size_of::<ib_uverbs_wc>();

/// A completion queue.
pub struct Cq {
    pub(crate) handle: u32,
    queue: Lock<Queue>,
}

struct Queue {
    ring: Option<ConsumerRing<ENTRY>>,
    /// Where the kernel keeps the ring. After it was resized, mapping the new one may fail; then it
    /// is tried again when it is polled.
    at: mminfo,
}

impl Queue {
    fn ring(&mut self, kernel: &Commands) -> Result<&mut ConsumerRing<ENTRY>> {
        match self.ring {
            Some(ref mut ring) => Ok(ring),
            None => Ok(self.ring.insert(map(kernel, &self.at)?)),
        }
    }
}

fn map(kernel: &Commands, at: &mminfo) -> Result<ConsumerRing<ENTRY>> {
    ConsumerRing::new(mapped::map(kernel, at)?)
}

impl Cq {
    /// Makes a queue; returns how many entries it has, too.
    ///
    /// # Errors
    /// EOPNOTSUPP for time stamps, which completions do not have; the kernel's own errno.
    pub fn create(kernel: &Commands, init: &CqInit<'_>) -> Result<(Self, u32)> {
        let flags = match init.ignore_overrun {
            true => IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN,
            false => 0,
        };
        let new = init.plain(kernel, flags)?;
        let mut reported = rxe_create_cq_resp::zeroed();
        let made = cq::create_cq(
            kernel,
            &new,
            &mut Driver::response(bytes_of_mut(&mut reported)),
        )?;
        let ring = map(kernel, &reported.mi).inspect_err(|_| {
            // The application does not have the queue; it ends with the context at the latest.
            let _ = cq::destroy_cq(kernel, made.handle);
        })?;
        let queue = Lock::new(Queue {
            ring: Some(ring),
            at: reported.mi,
        });
        let handle = made.handle;
        Ok((Self { handle, queue }, made.cqe))
    }

    /// Ends it in the kernel.
    ///
    /// # Errors
    /// The kernel's own errno.
    pub fn destroy(&self, kernel: &Commands) -> Result<ReportedEvents> {
        let reported = plain::destroy_cq(kernel, self.handle)?;
        self.queue.lock().ring = None;
        Ok(reported)
    }

    /// Has the kernel make a ring of another size, with the completions that are in the old one.
    ///
    /// # Errors
    /// The kernel's own errno; ENOMEM if the new ring cannot be mapped, which polling then tries
    /// again.
    pub fn resize(&self, kernel: &Commands, entries: u32) -> Result<u32> {
        let mut queue = self.queue.lock();
        let mut reported = rxe_resize_cq_resp::zeroed();
        let driver = &mut Driver::response(bytes_of_mut(&mut reported));
        let entries = cq::resize_cq(kernel, self.handle, entries, driver)?;
        queue.ring = None;
        queue.at = reported.mi;
        queue.ring(kernel)?;
        Ok(entries)
    }

    /// Takes the oldest completions.
    ///
    /// # Errors
    /// EIO if the kernel's index leads out of the ring.
    #[inline]
    pub fn poll(&self, kernel: &Commands, room: &mut [ibv_wc]) -> Result<usize> {
        // Most programs poll for one completion at a time, and most polls find none.
        if let [place] = &mut *room
            && let Some(mut queue) = self.queue.try_lock()
            && let Some(ring) = &mut queue.ring
        {
            let Some(entry) = ring.head()? else {
                return Ok(0);
            };
            *place = entry.get::<0, ib_uverbs_wc>().into();
            ring.step();
            ring.release();
            return Ok(1);
        }
        let found = self.poll_many(kernel, room)?;
        usize::try_from(found).map_err(|_| Errno::OVERFLOW)
    }

    /// The same for any number, also when another thread polls, or the ring has to be mapped.
    #[inline(never)]
    fn poll_many(&self, kernel: &Commands, room: &mut [ibv_wc]) -> Result<u32> {
        let mut queue = self.queue.lock();
        queue
            .ring(kernel)?
            .take(room, |entry| entry.get::<0, ib_uverbs_wc>().into())
    }

    /// Takes the oldest completion.
    #[inline]
    pub fn poll_one(&self, kernel: &Commands) -> Option<Polled> {
        let mut queue = self.queue.lock();
        let ring = queue.ring(kernel).ok()?;
        let wc = ibv_wc::from(ring.head().ok()??.get::<0, ib_uverbs_wc>());
        ring.step();
        ring.release();
        Some(wc.into())
    }
}
