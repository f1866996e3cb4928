//! Send requests.

use crate::context::Context;
use crate::mapped::{self, FLAG};
use bytemuck::cast_slice;
use core::mem::offset_of;
use core::sync::atomic::AtomicU16;
use kit::abi::kernel::*;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{Commands, Data, Inline, SendRequest};
use kit::queue::owner::{Flag, hand_over};
use kit::queue::{Entry, Slots};

/// Bytes of a request.
const ENTRY: usize = size_of::<siw_sqe>();
const ID: usize = offset_of!(siw_sqe, id);
const COUNT: usize = offset_of!(siw_sqe, num_sge);
const RKEY: usize = offset_of!(siw_sqe, rkey);
const ADDRESS: usize = offset_of!(siw_sqe, raddr);
const SGES: usize = offset_of!(siw_sqe, sge);
/// Offset of inline data: after the first element, which contains its length.
const DATA: usize = SGES + size_of::<siw_sge>();

type Requests = Slots<ENTRY, FLAG, AtomicU16>;

const _: () = assert!(FLAG == offset_of!(siw_sqe, flags) && DATA + SIW_MAX_INLINE == ENTRY);

/// A queue of send requests.
///
/// The first request of a call gets its flag when the others have theirs, so the kernel has all or
/// none of them until then.
pub struct Sends {
    requests: Requests,
    /// The request to be written next, counted on and on.
    next: u32,
    max_sge: usize,
    signal_all: bool,
    /// Requests wait of which the kernel did not want to hear.
    owed: bool,
}

/// Requests of one call.
struct Call {
    /// The first of them.
    first: u32,
    /// Its flags, once it is written.
    flags: Option<u16>,
}

impl Sends {
    /// Maps the queue that a command answered.
    ///
    /// # Errors
    /// Those of [`mapped::slots`].
    pub fn map(
        kernel: &Commands,
        reported: &siw_uresp_create_qp,
        max_sge: u32,
        signal_all: bool,
    ) -> Result<Self> {
        let requests = mapped::slots(kernel, reported.sq_key, reported.num_sqe)?;
        Self::new(requests, max_sge, signal_all)
    }

    fn new(requests: Requests, max_sge: u32, signal_all: bool) -> Result<Self> {
        let max_sge = usize::try_from(max_sge).map_err(|_| Errno::IO)?;
        Ok(Self {
            requests,
            next: 0,
            max_sge: max_sge.min(SIW_MAX_SGE),
            signal_all,
            owed: false,
        })
    }

    /// Posts requests in order; `bell` notifies the kernel of them, if necessary.
    ///
    /// # Errors
    /// ENOMEM when the queue is full, EINVAL for operations that the kernel lacks; the doorbell's
    /// errno, and then the last request is not posted. Requests before it are posted.
    #[inline]
    pub fn post<'a>(
        &mut self,
        requests: &mut impl Iterator<Item = SendRequest<'a, Context>>,
        bell: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut call = self.begin();
        let answer = requests.try_for_each(|request| self.add(&mut call, &request));
        match (self.hand_over(&call, bell), answer) {
            (Ok(()), answer) => answer,
            // The request that was refused is the bad one; those before it wait in the queue.
            (Err(_), Err(refused)) => Err(refused),
            (Err(e), Ok(())) => match self.take_back(self.next.wrapping_sub(1)) {
                true => Err(e),
                // The kernel has it after all.
                false => Ok(()),
            },
        }
    }

    /// Posts all requests, or none.
    ///
    /// # Errors
    /// As [`Self::post`].
    pub fn post_all<'a>(
        &mut self,
        requests: &mut impl Iterator<Item = SendRequest<'a, Context>>,
        bell: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut call = self.begin();
        let answer = requests.try_for_each(|request| self.add(&mut call, &request));
        if let Err(refused) = answer {
            self.forget(call.first);
            return Err(refused);
        }
        match self.hand_over(&call, bell) {
            Err(e) if self.take_back(call.first) => Err(e),
            _ => Ok(()),
        }
    }

    fn begin(&self) -> Call {
        Call {
            first: self.next,
            flags: None,
        }
    }

    /// Hands the written requests to the kernel, and notifies it unless it is at work in front of
    /// them.
    #[inline]
    fn hand_over(&mut self, call: &Call, bell: impl FnOnce() -> Result<()>) -> Result<()> {
        let Some(flags) = call.flags else {
            return Ok(());
        };
        let before = self.requests.flag(call.first.wrapping_sub(1));
        let idle = hand_over(self.requests.flag(call.first), flags, before, SIW_WQE_VALID);
        // In a queue that is full of new requests, the one before the first is one of them.
        let all_new = self.next.wrapping_sub(call.first) == self.requests.count();
        if idle || all_new || self.owed {
            let reported = bell();
            self.owed = reported.is_err();
            return reported;
        }
        Ok(())
    }

    /// Forgets the requests from this one on, if the kernel has not begun with it; returns whether
    /// that is so. For a queue of which the kernel takes none now: that of a queue pair which is
    /// not connected, or not any more.
    fn take_back(&mut self, first: u32) -> bool {
        let waits = self.requests.flag(first).look() & SIW_WQE_VALID != 0;
        if waits {
            self.forget(first);
        }
        waits
    }

    /// Forgets the requests from this one on, the last first.
    fn forget(&mut self, first: u32) {
        while self.next != first {
            self.next = self.next.wrapping_sub(1);
            self.requests.flag(self.next).set(0);
        }
    }

    #[inline]
    fn add(&mut self, call: &mut Call, request: &SendRequest<'_, Context>) -> Result<()> {
        let full = self.next.wrapping_sub(call.first) == self.requests.count();
        let taken = self.requests.flag(self.next).look() & SIW_WQE_VALID != 0;
        if full || taken {
            return Err(Errno::NOMEM);
        }
        let (opcode, rkey) = operation(request)?;
        let data = self.data(opcode, request)?;
        let mut entry = self.requests.entry(self.next);
        entry.put::<ID, u64>(request.id);
        entry.put::<RKEY, u32>(rkey);
        entry.put::<ADDRESS, u64>(request.remote_address);
        let count = put_data(&mut entry, data)?;
        entry.put::<COUNT, [u8; 2]>([count, opcode]);
        let flags = self.flags(request);
        match call.flags {
            None => call.flags = Some(flags),
            Some(_) => self.requests.flag(self.next).set(flags),
        }
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    /// The data, if the kernel supports it for the operation. Other data would stop the queue for
    /// ever.
    #[inline]
    fn data<'a>(&self, opcode: u8, request: &SendRequest<'a, Context>) -> Result<Data<'a>> {
        let good = match (&request.data, opcode) {
            (Data::Inline(data), SIW_OP_SEND | SIW_OP_WRITE) => data.length() <= SIW_MAX_INLINE,
            (Data::Inline(_), _) => false,
            // The answer goes to one piece of memory, and a read cannot wait for others.
            (Data::Sges(sges), SIW_OP_READ) => {
                sges.len() <= 1 && request.flags & IBV_SEND_FENCE == 0
            }
            (Data::Sges(sges), _) => sges.len() <= self.max_sge,
        };
        if good {
            Ok(request.data)
        } else {
            Err(Errno::INVAL)
        }
    }

    #[inline]
    fn flags(&self, request: &SendRequest<'_, Context>) -> u16 {
        let pairs = [
            (IBV_SEND_SIGNALED, SIW_WQE_SIGNALLED),
            (IBV_SEND_SOLICITED, SIW_WQE_SOLICITED),
            (IBV_SEND_FENCE, SIW_WQE_READ_FENCE),
        ];
        let asked = pairs
            .into_iter()
            .filter(|(flag, _)| request.flags & flag != 0);
        let mut flags = asked.fold(SIW_WQE_VALID, |all, (_, flag)| all | flag);
        if self.signal_all {
            flags |= SIW_WQE_SIGNALLED;
        }
        if matches!(request.data, Data::Inline(_)) {
            flags |= SIW_WQE_INLINE;
        }
        flags
    }
}

/// The kernel's opcode, and the key that goes with it.
///
/// # Errors
/// EINVAL for operations that applications cannot have posted.
#[inline]
fn operation(request: &SendRequest<'_, Context>) -> Result<(u8, u32)> {
    match request.opcode {
        IBV_WR_SEND => Ok((SIW_OP_SEND, 0)),
        IBV_WR_SEND_WITH_INV => Ok((SIW_OP_SEND_REMOTE_INV, request.invalidate_rkey)),
        IBV_WR_RDMA_WRITE => Ok((SIW_OP_WRITE, request.rkey)),
        IBV_WR_RDMA_READ => Ok((SIW_OP_READ, request.rkey)),
        _ => Err(Errno::INVAL),
    }
}

/// Writes elements or data; returns how many elements there are.
#[inline]
fn put_data(entry: &mut Entry<'_, ENTRY>, data: Data<'_>) -> Result<u8> {
    let length = match data {
        Data::Sges([]) => {
            // A read looks at the first all the same.
            entry.put::<SGES, [u32; 4]>([0; 4]);
            return Ok(0);
        }
        Data::Sges([one]) => {
            entry.put::<SGES, ibv_sge>(*one);
            return Ok(1);
        }
        Data::Sges(more) => {
            entry.put_bytes(SGES, cast_slice(more))?;
            return u8::try_from(more.len()).map_err(|_| Errno::INVAL);
        }
        Data::Inline(Inline::Bytes(bytes)) => {
            entry.put_bytes(DATA, bytes)?;
            bytes.len()
        }
        Data::Inline(Inline::Pieces(pieces)) => {
            let mut at = DATA;
            for piece in pieces.iter() {
                entry.put_bytes(at, piece)?;
                at += piece.len();
            }
            at - DATA
        }
    };
    let length = u32::try_from(length).map_err(|_| Errno::INVAL)?;
    entry.put::<SGES, [u32; 4]>([0, 0, length, 0]);
    Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::queue::Region;
    use std::cell::Cell;
    use std::iter::once;

    /// A queue of four requests, and the kernel's end of it.
    fn queue() -> (Sends, Kernel) {
        let region = Region::plain(4 * ENTRY).expect("memory");
        let ours = Slots::new(region.share(), 4).expect("fits");
        let sends = Sends::new(ours, 2, false).expect("small");
        let requests = Slots::new(region, 4).expect("fits");
        (sends, Kernel { requests, next: 0 })
    }

    struct Kernel {
        requests: Requests,
        next: u32,
    }

    impl Kernel {
        fn take(&mut self) -> Option<(siw_sqe, [u8; ENTRY])> {
            let entry = self.requests.entry(self.next);
            let found = (entry.get::<0, siw_sqe>(), entry.get::<0, [u8; ENTRY]>());
            if found.0.flags & SIW_WQE_VALID == 0 {
                return None;
            }
            self.requests.flag(self.next).set(0);
            self.next += 1;
            Some(found)
        }

        fn ids(&mut self) -> Vec<u64> {
            std::iter::from_fn(|| self.take())
                .map(|(sqe, _)| sqe.id)
                .collect()
        }
    }

    fn notified() -> Result<()> {
        Ok(())
    }

    fn sge(addr: u64) -> ibv_sge {
        ibv_sge {
            addr,
            length: 10,
            lkey: 7,
        }
    }

    fn send(id: u64) -> SendRequest<'static, Context> {
        SendRequest::new(id, IBV_WR_SEND, IBV_SEND_SIGNALED)
    }

    fn sends(
        ids: core::ops::Range<u64>,
    ) -> impl ExactSizeIterator<Item = SendRequest<'static, Context>> {
        let count = usize::try_from(ids.end - ids.start).expect("few");
        (0..count).map(move |i| send(ids.start + i as u64))
    }

    #[test]
    fn requests_have_operation_and_elements() {
        let (mut queue, mut kernel) = queue();
        let sges = [sge(1), sge(2), sge(3)];
        let cases = [
            (IBV_WR_SEND, SIW_OP_SEND, 0, 2),
            (IBV_WR_SEND_WITH_INV, SIW_OP_SEND_REMOTE_INV, 5, 0),
            (IBV_WR_RDMA_WRITE, SIW_OP_WRITE, 9, 2),
            (IBV_WR_RDMA_READ, SIW_OP_READ, 9, 1),
            (IBV_WR_RDMA_READ, SIW_OP_READ, 9, 0),
        ];
        for (opcode, siw, rkey, count) in cases {
            let mut request = SendRequest::new(3, opcode, IBV_SEND_SOLICITED);
            request.data = Data::Sges(&sges[..count]);
            request.remote_address = 0x1_0000_0008;
            request.rkey = 9;
            request.invalidate_rkey = 5;
            queue.post(&mut once(request), notified).expect("good");
            let (sqe, _) = kernel.take().expect("a request");
            assert_eq!((sqe.id, sqe.opcode, sqe.rkey), (3, siw, rkey));
            assert_eq!(sqe.raddr, 0x1_0000_0008);
            assert_eq!(sqe.flags, SIW_WQE_VALID | SIW_WQE_SOLICITED);
            assert_eq!(usize::from(sqe.num_sge), count);
            for (i, sge) in sqe.sge.iter().take(count).enumerate() {
                assert_eq!((sge.laddr, sge.length, sge.lkey), (i as u64 + 1, 10, 7));
            }
            if count == 0 {
                assert_eq!((sqe.sge[0].laddr, sqe.sge[0].length), (0, 0));
            }
        }
    }

    #[test]
    fn data_is_copied_as_far_as_there_is_room() {
        let (mut queue, mut kernel) = queue();
        let bytes: Vec<u8> = (0..80).collect();
        let more = [0; 81];
        let inline = |opcode, bytes| {
            let mut request = SendRequest::new(1, opcode, IBV_SEND_INLINE);
            request.data = Data::Inline(Inline::Bytes(bytes));
            request
        };
        queue
            .post(&mut once(inline(IBV_WR_SEND, &bytes)), notified)
            .expect("fits");
        let (sqe, raw) = kernel.take().expect("a request");
        assert_eq!(sqe.flags, SIW_WQE_VALID | SIW_WQE_INLINE);
        assert_eq!((sqe.num_sge, sqe.sge[0].length), (1, 80));
        assert_eq!(raw[DATA..], bytes);
        let refused = [
            inline(IBV_WR_SEND, &more),
            inline(IBV_WR_SEND_WITH_INV, &bytes),
            inline(IBV_WR_RDMA_READ, &bytes),
        ];
        for request in refused {
            assert_eq!(queue.post(&mut once(request), notified), Err(Errno::INVAL));
        }
        assert!(kernel.take().is_none());
    }

    #[test]
    fn requests_that_would_stop_the_queue_are_refused() {
        let (mut queue, mut kernel) = queue();
        let sges = [sge(1), sge(2), sge(3)];
        let with = |opcode, flags, count: usize| {
            let mut request = SendRequest::new(1, opcode, flags);
            request.data = Data::Sges(&sges[..count]);
            request
        };
        let refused = [
            with(IBV_WR_SEND, 0, 3),
            with(IBV_WR_RDMA_READ, 0, 2),
            with(IBV_WR_RDMA_READ, IBV_SEND_FENCE, 1),
            with(IBV_WR_LOCAL_INV, 0, 0),
            with(IBV_WR_SEND_WITH_IMM, 0, 1),
            with(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1),
            with(u32::MAX, 0, 1),
        ];
        for request in refused {
            assert_eq!(queue.post(&mut once(request), notified), Err(Errno::INVAL));
        }
        assert!(kernel.take().is_none());
    }

    #[test]
    fn a_full_queue_takes_the_requests_that_fit_or_none() {
        let (mut queue, mut kernel) = queue();
        assert_eq!(
            queue.post_all(&mut sends(0..5), notified),
            Err(Errno::NOMEM)
        );
        assert!(kernel.take().is_none());
        assert_eq!(queue.post(&mut sends(0..5), notified), Err(Errno::NOMEM));
        assert_eq!(queue.post(&mut sends(5..6), notified), Err(Errno::NOMEM));
        assert_eq!(kernel.ids(), [0, 1, 2, 3]);
        assert_eq!(queue.post_all(&mut sends(4..8), notified), Ok(()));
        assert_eq!(kernel.ids(), [4, 5, 6, 7]);
    }

    #[test]
    fn the_kernel_is_notified_unless_it_is_at_work() {
        let (mut queue, mut kernel) = queue();
        let rung = Cell::new(0);
        let bell = || {
            rung.set(rung.get() + 1);
            Ok(())
        };
        queue.post(&mut sends(0..2), bell).expect("room");
        assert_eq!(rung.get(), 1);
        queue.post(&mut sends(2..3), bell).expect("room");
        assert_eq!(rung.get(), 1, "it has not come to the second");
        assert_eq!(kernel.ids(), [0, 1, 2]);
        queue.post(&mut sends(3..7), bell).expect("room");
        assert_eq!(rung.get(), 2);
        assert_eq!(kernel.ids(), [3, 4, 5, 6]);
    }

    #[test]
    fn requests_after_a_failed_doorbell_are_not_posted() {
        let (mut queue, mut kernel) = queue();
        let deaf = || Err(Errno::NOTCONN);
        assert_eq!(queue.post(&mut sends(0..1), deaf), Err(Errno::NOTCONN));
        assert_eq!(queue.post_all(&mut sends(0..3), deaf), Err(Errno::NOTCONN));
        assert!(kernel.take().is_none());
        // The last is the bad one, those before it are posted.
        assert_eq!(queue.post(&mut sends(1..4), deaf), Err(Errno::NOTCONN));
        let rung = Cell::new(false);
        let bell = || {
            rung.set(true);
            Ok(())
        };
        assert_eq!(queue.post(&mut sends(3..4), bell), Ok(()));
        assert!(rung.get(), "though the queue is not empty");
        assert_eq!(kernel.ids(), [1, 2, 3]);
        // A queue pair that goes to the error state takes the requests and flushes them.
        let flushed = || {
            assert_eq!(kernel.ids(), [4, 5]);
            Err(Errno::NOTCONN)
        };
        assert_eq!(queue.post(&mut sends(4..6), flushed), Ok(()));
        assert_eq!(queue.post_all(&mut sends(6..8), notified), Ok(()));
        assert_eq!(kernel.ids(), [6, 7]);
    }
}
