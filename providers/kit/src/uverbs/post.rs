//! Work requests posted through the kernel: ibv_post_send(3), ibv_post_recv(3),
//! ibv_post_srq_recv(3), for devices whose queues applications cannot access directly.

use super::{Driver, Kernel, write_parts};
use crate::abi::handle::Posted;
use crate::abi::kernel::*;
use crate::errno::{Errno, Result};
use crate::sys::{command::WriteCommand, write::Request};
use bytemuck::{Pod, Zeroable};
use core::mem::size_of;

/// Maximum bytes of requests in one command, unless a single request is larger; the ioctl interface
/// has lengths of 16 bits.
const BATCH: usize = 60_000;

/// Counts of a command: requests, their elements, bytes of a request.
struct Counts {
    requests: u32,
    elements: u32,
    size: u32,
}

/// Requests gathered for one command.
struct Batch<W, P> {
    requests: Vec<W>,
    elements: Vec<ib_uverbs_sge>,
    places: Vec<P>,
}

impl<W: Pod, P: Copy> Batch<W, P> {
    fn new() -> Self {
        Self {
            requests: Vec::new(),
            elements: Vec::new(),
            places: Vec::new(),
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.requests) + size_of_val(&*self.elements)
    }

    fn fits(&self, (request, elements): &Posted<'_, W>) -> bool {
        self.places.is_empty()
            || self.bytes() + size_of_val(request) + size_of_val(*elements) <= BATCH
    }

    fn add(&mut self, place: P, (request, elements): Posted<'_, W>) -> Result<()> {
        let room = |_| Errno::NOMEM;
        self.requests.try_reserve(1).map_err(room)?;
        self.places.try_reserve(1).map_err(room)?;
        self.elements.try_reserve(elements.len()).map_err(room)?;
        self.requests.push(request);
        self.places.push(place);
        self.elements.extend_from_slice(elements);
        Ok(())
    }

    fn counts(&self) -> Result<Counts> {
        let count = |n: usize| u32::try_from(n).map_err(|_| Errno::INVAL);
        Ok(Counts {
            requests: count(self.requests.len())?,
            elements: count(self.elements.len())?,
            size: count(size_of::<W>())?,
        })
    }

    fn encoded(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(self.bytes())
            .map_err(|_| Errno::NOMEM)?;
        bytes.extend_from_slice(bytemuck::cast_slice(&self.requests));
        bytes.extend_from_slice(bytemuck::cast_slice(&self.elements));
        Ok(bytes)
    }

    /// Issues the command. The error names the first request that the kernel refused.
    fn post<K: Kernel + ?Sized, C: WriteCommand>(
        &mut self,
        kernel: &K,
        command: impl Fn(Counts) -> C,
        bad: fn(C::Resp) -> u32,
    ) -> core::result::Result<(), (P, Errno)> {
        let Some(first) = self.places.first() else {
            return Ok(());
        };
        let mut answer = <C::Resp as bytemuck::Zeroable>::zeroed();
        let issued = self.issue(kernel, command, &mut answer);
        if let Err(e) = issued {
            // Counted from 1; 0 when none of them was looked at.
            let taken = usize::try_from(bad(answer)).unwrap_or(0).wrapping_sub(1);
            return Err((*self.places.get(taken).unwrap_or(first), e));
        }
        self.requests.clear();
        self.elements.clear();
        self.places.clear();
        Ok(())
    }

    fn issue<K: Kernel + ?Sized, C: WriteCommand>(
        &self,
        kernel: &K,
        command: impl Fn(Counts) -> C,
        answer: &mut C::Resp,
    ) -> Result<()> {
        let more = self.encoded()?;
        let command = command(self.counts()?);
        // The kernel answers a refused command too, so the response has to outlive the call.
        let resp = bytemuck::bytes_of_mut(answer);
        let mut driver = Driver::buffers::<C>(&mut [], resp)?;
        write_parts(kernel, &command, &more, &mut driver, &mut []).map(|_| ())
    }
}

/// Posts requests in order. `P` is the caller's name for a request.
///
/// # Errors
/// The first request that was not posted, and why. Those before it were.
fn post<'a, K: Kernel + ?Sized, C: WriteCommand, W: Pod, P: Copy>(
    kernel: &K,
    requests: impl Iterator<Item = (P, Result<Posted<'a, W>>)>,
    command: impl Fn(Counts) -> C,
    bad: fn(C::Resp) -> u32,
) -> core::result::Result<(), (P, Errno)> {
    let mut batch = Batch::new();
    for (place, request) in requests {
        let full = request.as_ref().map_or(true, |r| !batch.fits(r));
        if full {
            batch.post(kernel, &command, bad)?;
        }
        let added = request.and_then(|r| batch.add(place, r));
        if let Err(e) = added {
            batch.post(kernel, &command, bad)?;
            return Err((place, e));
        }
    }
    batch.post(kernel, &command, bad)
}

/// Posts sends to the queue pair with this number.
///
/// # Errors
/// The first request that was not posted, and the reason: its error, ENOMEM, or the kernel's errno.
/// Those before it were posted.
pub fn post_send<'a, K: Kernel + ?Sized, P: Copy>(
    kernel: &K,
    qp: u32,
    requests: impl Iterator<Item = (P, Result<Posted<'a, ib_uverbs_send_wr>>)>,
) -> core::result::Result<(), (P, Errno)> {
    let command = |counts: Counts| ib_uverbs_post_send {
        response: 0,
        qp_handle: qp,
        wr_count: counts.requests,
        sge_count: counts.elements,
        wqe_size: counts.size,
    };
    post(kernel, requests, command, |answer| answer.bad_wr)
}

/// Posts receives to the queue pair with this number.
///
/// # Errors
/// As [`post_send`].
pub fn post_recv<'a, K: Kernel + ?Sized, P: Copy>(
    kernel: &K,
    qp: u32,
    requests: impl Iterator<Item = (P, Result<Posted<'a, ib_uverbs_recv_wr>>)>,
) -> core::result::Result<(), (P, Errno)> {
    let command = |counts: Counts| ib_uverbs_post_recv {
        response: 0,
        qp_handle: qp,
        wr_count: counts.requests,
        sge_count: counts.elements,
        wqe_size: counts.size,
    };
    post(kernel, requests, command, |answer| answer.bad_wr)
}

/// Posts receives to the shared receive queue with this number.
///
/// # Errors
/// As [`post_send`].
pub fn post_srq_recv<'a, K: Kernel + ?Sized, P: Copy>(
    kernel: &K,
    srq: u32,
    requests: impl Iterator<Item = (P, Result<Posted<'a, ib_uverbs_recv_wr>>)>,
) -> core::result::Result<(), (P, Errno)> {
    let command = |counts: Counts| ib_uverbs_post_srq_recv {
        response: 0,
        srq_handle: srq,
        wr_count: counts.requests,
        sge_count: counts.elements,
        wqe_size: counts.size,
    };
    post(kernel, requests, command, |answer| answer.bad_wr)
}

/// Notifies the kernel that a mapped queue of this queue pair has new requests, by a command that
/// posts none.
///
/// # Errors
/// The kernel's own errno.
#[inline]
pub fn ring_doorbell<K: Kernel + ?Sized>(kernel: &K, qp: u32) -> Result<()> {
    // By write, which is the kernel's shortest path. It refuses a process whose credentials have
    // changed since the device was opened; the ioctl does not.
    let mut written = Doorbell {
        header: ib_uverbs_cmd_hdr::zeroed(),
        command: ib_uverbs_post_send {
            response: 0,
            qp_handle: qp,
            wr_count: 0,
            sge_count: 0,
            wqe_size: BYTES,
        },
    };
    let mut resp = [0; size_of::<ib_uverbs_post_send_resp>()];
    let (buf, core, room) = (
        bytemuck::bytes_of_mut(&mut written),
        size_of::<ib_uverbs_post_send>(),
        resp.len(),
    );
    let request = &mut Request::new::<ib_uverbs_post_send>(buf, core, &mut resp, room)?;
    match kernel.write(request) {
        Err(e) if e.raw() == libc::EACCES => ring_by_ioctl(kernel, &written.command),
        answer => answer,
    }
}

/// The command as it is written.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Doorbell {
    header: ib_uverbs_cmd_hdr,
    command: ib_uverbs_post_send,
}

#[cold]
#[inline(never)]
fn ring_by_ioctl<K: Kernel + ?Sized>(kernel: &K, command: &ib_uverbs_post_send) -> Result<()> {
    super::write(kernel, command, &mut Driver::none()).map(|_| ())
}

/// Bytes of a request, which the command without requests has to contain, too.
#[expect(clippy::cast_possible_truncation, reason = "56")]
const BYTES: u32 = size_of::<ib_uverbs_send_wr>() as u32;
